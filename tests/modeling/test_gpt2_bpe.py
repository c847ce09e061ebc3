"""GPT-2's byte-level BPE under a fairseq dictionary, against fairseq's own GPT2BPE and Dictionary."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import ByteLevelBPETokenizer
from transformers import AutoTokenizer, PreTrainedTokenizerFast

from harness.data import embedded
from harness.errors import UserError
from harness.modeling import gpt2_bpe

TEXTS = (
    "the old dog was chased by the farmer .", "it's we'll DON'T they'RE", "  three   spaces  ",
    ' said "no" ... (twice)!', "naïve “café” — Zürich 東京 \U0001f600\u200d\U0001f469",
    "tab\tand\nline\u00a0feed 3.14 1st", "", " ",
)  # fmt: skip
text_without_names = st.text(st.characters(exclude_characters="<", exclude_categories=["Cs", "Cc", "Z", "Cn"]))


def write_pieces(folder: Path, fewest: int = 2) -> dict[str, int]:
    """encoder.json and vocab.bpe of a BPE learnt from the embedded grammar; the pieces with GPT-2-like ids."""
    learner = ByteLevelBPETokenizer()
    learner.train_from_iterator(
        [sentence for words in embedded.corpus(300) for sentence in words], 500, fewest, show_progress=False
    )
    learnt = json.loads(learner._tokenizer.to_str())["model"]
    pieces = {piece: number + 7 for piece, number in learnt["vocab"].items()}  # ids are not places
    merges = [" ".join(pair) for pair in learnt["merges"]]
    (folder / "encoder.json").write_text(json.dumps(pieces))
    (folder / "vocab.bpe").write_text("\n".join(["#version: 0.2", *merges, ""]), encoding="utf-8")
    return pieces


def write_folder(folder: Path, every: int = 1) -> Path:
    """A tokenizer's folder whose dictionary holds every so-manieth piece in an order of its own, and two fillers."""
    numbers = sorted(write_pieces(folder).values(), key=lambda number: (number * 7919) % 1009)[::every]
    lines = [*(f"{number} {9999 - number}" for number in numbers), "madeupword0000 0", "madeupword0001 0"]
    (folder / "dict.txt").write_text("\n".join(lines) + "\n")
    return folder


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def lacking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_folder(tmp_path_factory.mktemp("lacking"), every=2)


@pytest.fixture(scope="module")
def of_whole(whole: Path) -> PreTrainedTokenizerFast:
    return gpt2_bpe.tokenizer(whole)


@cache
def fairseq_bpe(folder: Path) -> Any:
    bpe = pytest.importorskip("fairseq.data.encoders.gpt2_bpe")
    return bpe.GPT2BPE(
        bpe.GPT2BPEConfig(gpt2_encoder_json=str(folder / "encoder.json"), gpt2_vocab_bpe=str(folder / "vocab.bpe"))
    )


@cache
def fairseq_dictionary(folder: Path) -> Any:
    return pytest.importorskip("fairseq.data").Dictionary.load(str(folder / "dict.txt"))


def fairseq_ids(folder: Path, *texts: str) -> list[int]:
    """What fairseq's RobertaHubInterface.encode gives."""
    bpe, symbols = fairseq_bpe(folder), fairseq_dictionary(folder)
    line = "<s> " + " </s> </s> ".join(bpe.encode(text) for text in texts) + " </s>"
    return list(symbols.encode_line(line, append_eos=False, add_if_not_exist=False).tolist())


@pytest.mark.parametrize("folder", ["whole", "lacking"])
def test_ids_are_those_of_fairseq(request: pytest.FixtureRequest, folder: str) -> None:
    path: Path = request.getfixturevalue(folder)
    tokenizer = gpt2_bpe.tokenizer(path)
    expected = [fairseq_ids(path, text) for text in TEXTS]
    assert tokenizer(list(TEXTS))["input_ids"] == expected
    assert [tokenizer(text)["input_ids"] for text in TEXTS] == expected
    pairs = list(zip(TEXTS, TEXTS[1:], strict=False))
    assert tokenizer(pairs)["input_ids"] == [fairseq_ids(path, *pair) for pair in pairs]
    assert any(3 in ids for ids in expected) == (folder == "lacking")
    assert len(tokenizer) == 1 + len(gpt2_bpe.dictionary(path / "dict.txt")) == 1 + tokenizer.mask_token_id


@given(text_without_names)
def test_ids_are_those_of_fairseq_on_any_text(whole: Path, of_whole: PreTrainedTokenizerFast, text: str) -> None:
    assert of_whole(text)["input_ids"] == fairseq_ids(whole, text)


@pytest.mark.parametrize("folder", ["whole", "lacking"])
def test_the_dictionary_is_read_as_fairseq_reads_it(request: pytest.FixtureRequest, folder: str) -> None:
    path: Path = request.getfixturevalue(folder)
    assert gpt2_bpe.dictionary(path / "dict.txt") == fairseq_dictionary(path).symbols


def test_an_overwritten_symbol_has_the_later_place(whole: Path, tmp_path: Path) -> None:
    for name in ("encoder.json", "vocab.bpe"):
        (tmp_path / name).write_bytes((whole / name).read_bytes())
    lines = (whole / "dict.txt").read_text().splitlines()
    (tmp_path / "dict.txt").write_text("\n".join([*lines, f"{lines[0]} #fairseq:overwrite", "<mask> 1"]) + "\n")
    symbols = gpt2_bpe.dictionary(tmp_path / "dict.txt")
    assert symbols[4] == symbols[-1] and "<mask>" not in symbols
    tokenizer = gpt2_bpe.tokenizer(tmp_path)
    assert tokenizer.mask_token_id == len(symbols) == len(tokenizer) - 1
    piece = {number: piece for piece, number in json.loads((tmp_path / "encoder.json").read_text()).items()}
    assert tokenizer.convert_tokens_to_ids(piece[int(symbols[4])]) == len(symbols) - 1


def test_special_tokens(of_whole: PreTrainedTokenizerFast, whole: Path) -> None:
    last = len(gpt2_bpe.dictionary(whole / "dict.txt"))
    assert of_whole.convert_tokens_to_ids(["<s>", "<pad>", "</s>", "<unk>", "<mask>"]) == [0, 1, 2, 3, last]
    named = (of_whole.bos_token, of_whole.cls_token, of_whole.eos_token, of_whole.sep_token)
    assert (*named, of_whole.pad_token_id, of_whole.mask_token_id) == ("<s>", "<s>", "</s>", "</s>", 1, last)
    padded = of_whole(["the dog", "the"], padding=True)
    assert padded["input_ids"][1][-1] == 1 and padded["attention_mask"][1][-1] == 0
    # as fairseq's fill_mask: text before a mask loses its last spaces, the text after it keeps its first
    around = of_whole("the <mask> dog <unk>", add_special_tokens=False)["input_ids"]
    parts = [fairseq_ids(whole, text)[1:-1] for text in ("the", " dog ")]
    assert around == [*parts[0], last, *parts[1], 3]


def test_saved_and_loaded_again_it_is_the_same(of_whole: PreTrainedTokenizerFast, tmp_path: Path) -> None:
    of_whole.save_pretrained(tmp_path)
    again = AutoTokenizer.from_pretrained(tmp_path)
    assert again(list(TEXTS))["input_ids"] == of_whole(list(TEXTS))["input_ids"]
    assert again("a", "b <mask>")["input_ids"] == of_whole("a", "b <mask>")["input_ids"]
    assert (len(again), again.special_tokens_map) == (len(of_whole), of_whole.special_tokens_map)


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_nothing_is_lost_in_decoding(whole: Path, of_whole: PreTrainedTokenizerFast, text: str) -> None:
    symbols = gpt2_bpe.dictionary(whole / "dict.txt")
    ids = of_whole(text.replace("<", ""), add_special_tokens=False)["input_ids"]
    assert gpt2_bpe.decoder(whole / "encoder.json")(symbols[i] for i in ids) == text.replace("<", "")


def test_decoding_what_fairseq_encoded(whole: Path) -> None:
    bpe, decode = fairseq_bpe(whole), gpt2_bpe.decoder(whole / "encoder.json")
    assert [decode(bpe.encode(text).split()) for text in TEXTS] == list(TEXTS)


def test_an_unknown_symbol_is_a_word_and_other_symbols_are_refused(whole: Path) -> None:
    pieces, decode = json.loads((whole / "encoder.json").read_text()), gpt2_bpe.decoder(whole / "encoder.json")
    the, lead = str(pieces["t"]), str(pieces["Ã"])  # byte 0xC3, the first of two
    assert decode([the, "<unk>", the]) == "t<unk>t"
    assert decode([lead, "<unk>"]) == "\ufffd<unk>"
    with pytest.raises(UserError, match=r"encoder\.json do not join to UTF-8"):
        decode([lead, the])
    with pytest.raises(UserError, match=r"encoder\.json has no piece with the id '99999'"):
        decode([the, "99999"])


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("dict.txt", "10 5\n11\n", r"dict\.txt, line 2: '11' is not a symbol and its count"),
        ("dict.txt", "10 5\n11 many\n", r"dict\.txt, line 2: '11 many' is not"),
        ("dict.txt", "10 5\n11 4\n10 3\n", r"dict\.txt, line 3: symbol '10' appears twice"),
        ("dict.txt", "<pad> 3\n", r"dict\.txt, line 1: symbol '<pad>' appears twice"),
        ("dict.txt", "10 5\n<mask> 4\n11 3\n", r"dict\.txt, line 2: <mask> must be the last"),
        ("dict.txt", "10 5\ndog 4\n", r"dict\.txt: symbol 'dog' is not the id of a piece in .*encoder\.json"),
        ("encoder.json", "{", r"encoder\.json is not JSON"),
        ("encoder.json", '{"a": "b"}', r"encoder\.json must map every piece"),
        ("encoder.json", '{"a": 1, "b": 1}', r"encoder\.json gives several pieces the same id"),
        ("encoder.json", '{"a": 1}', r"encoder\.json has no piece for 255 of the 256 bytes"),
        ("vocab.bpe", "#version\na b c\n", r"vocab\.bpe, line 2: 'a b c' does not merge"),
        ("vocab.bpe", "#version\nh e\nq z\n", r"vocab\.bpe, line 3: 'q z' does not merge"),
        ("vocab.bpe", "#version\n", r"vocab\.bpe is incomplete: no line makes \d+ pieces of encoder.json, such as"),
        ("dict.txt", None, r"dict\.txt cannot be read: No such file"),
        ("encoder.json", None, r"encoder\.json cannot be read: No such file"),
        ("vocab.bpe", None, r"vocab\.bpe cannot be read: No such file"),
    ],
)
def test_broken_files(whole: Path, tmp_path: Path, name: str, text: str | None, message: str) -> None:
    for other in ("dict.txt", "encoder.json", "vocab.bpe"):
        (tmp_path / other).write_bytes((whole / other).read_bytes())
    (tmp_path / name).unlink()
    if text is not None:
        (tmp_path / name).write_text(text)
    with pytest.raises(UserError, match=message):
        gpt2_bpe.tokenizer(tmp_path)
