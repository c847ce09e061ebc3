"""Corpora: what a document is, the store of tokens, and every way a corpus can be wrong."""

import tracemalloc
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from transformers import PreTrainedTokenizerBase, RobertaTokenizerFast

from harness.data import corpora, embedded
from harness.data.corpora import Corpus, content, documents, tokenised
from harness.data.sentences import tokenised_sentences
from harness.errors import UserError
from tests.data.test_encoding import tokenizer_of

WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *"abcdefghij")
UNK, CLS, SEP = 1, 2, 3
A, B, C, D, E, F, G, H, _, J = range(5, len(WORDS))


@pytest.fixture
def tokenizer() -> PreTrainedTokenizerBase:
    return tokenizer_of(WORDS)


def write(path: Path, text: str | bytes) -> str:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return str(path)


def pieces(corpus: Corpus) -> list[list[int]]:
    return [corpus.piece(i).tolist() for i in range(len(corpus))]


# ---------------------------------------------------------------- documents


def texts_of(source: str) -> list[str]:
    return [text for (text,) in documents(source)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("one\ntwo words\r\nthree", ["one", "two words", "three"]),
        ("one\ntwo\n\n", ["one", "two"]),  # a blank line at the end stands between nothing
        ("\n \none\ntwo", ["one", "two"]),
        ("one\n  two\n \nthree\n\n\nfour\n", ["one two", "three", "four"]),
        ("\ufeffone\n---\n12\ntwo\n", ["one", "two"]),  # a byte-order mark; nothing to read in the others
        ("naïve\x0bcafé\u2028x\ny", ["naïve\x0bcafé\u2028x", "y"]),  # only line feeds end a line
        ("one\n" * 999 + "two\n\nthree\nfour", ["one"] * 999 + ["two", "three", "four"]),  # decided by 1,000 lines
        ("one\n" * 998 + "two\n\nthree\nfour", ["one"] * 998 + ["two", "three", "four"]),
        ("one\n" * 997 + "two\n\nthree\nfour", ["one " * 997 + "two", "three four"]),
    ],
)
def test_lines_or_blocks(tmp_path: Path, text: str, wanted: list[str]) -> None:
    assert texts_of(write(tmp_path / "a.txt", text)) == wanted


word = st.text(st.characters(categories=["L", "P"]), min_size=1).filter(lambda text: any(map(str.isalpha, text)))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=50)
@given(st.lists(st.lists(word, min_size=1, max_size=4), min_size=2, max_size=8))
def test_the_same_documents_in_either_shape(tmp_path: Path, texts: list[list[str]]) -> None:
    wanted = [" ".join(lines) for lines in texts]
    assert texts_of(write(tmp_path / "a.txt", "\n".join(wanted))) == wanted
    assert texts_of(write(tmp_path / "b.txt", "\n\n".join(map("\n".join, texts)))) == wanted


def test_a_folder_is_read_in_order_of_paths(tmp_path: Path) -> None:
    for name, text in {"b.txt": "two", "a/z.txt": "one", "c.md": "not text", "c/d/e.txt": "three"}.items():
        write(tmp_path / name, text)
    assert texts_of(str(tmp_path)) == ["one", "two", "three"]


def test_the_embedded_corpus_has_sentences_and_pairs() -> None:
    found = list(documents("embedded"))
    assert len(found) == 20_000 and found == embedded.corpus(corpora.SENTENCES)
    assert {len(document) for document in found} == {1, 2}


def test_pydoc_is_prose() -> None:
    found = texts_of("pydoc")
    assert len(found) > 1000 and sum(len(text.split()) for text in found) > 40_000
    assert not [text for text in found if "\n" in text or "  " in text or "::=" in text or ">>>" in text]
    assert not [text for text in found if not text.rstrip('"”)').endswith((".", ":", "!", "?"))]
    assert any(text.startswith("Assert statements are a convenient way to insert debugging") for text in found)


def test_a_long_document_between_blank_lines_is_not_held_whole(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(corpora, "LONGEST", 100)
    found = texts_of(write(tmp_path / "a.txt", "one\n\n" + "two three\n" * 50))
    assert found[0] == "one" and " ".join(found[1:]) == " ".join(["two three"] * 50)
    assert max(map(len, found)) <= 120


def test_documents_are_a_stream(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "some words of a line\n" * 200_000)  # 4 MB
    tracemalloc.start()
    count = sum(1 for _ in documents(source))
    content(source)
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 200_000 and most < 3e6


# ---------------------------------------------------------------- content


def test_content_is_of_the_text_alone(tmp_path: Path) -> None:
    one = content(write(tmp_path / "a.txt", "one\n"))
    assert one == content(write(tmp_path / "elsewhere" / "b.txt", "one\n")) == content(str(tmp_path / "elsewhere"))
    assert one != content(write(tmp_path / "a.txt", "two\n")) and len(one) == 64
    write(tmp_path / "elsewhere" / "c.txt", "two\n")
    assert content(str(tmp_path / "elsewhere")) != one
    assert content("pydoc") == content("pydoc") != content("embedded")


# ---------------------------------------------------------------- bad corpora


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (b"", "is empty: no document in it holds a letter"),
        (b"\n\n 12 --\n", "is empty: no document in it holds a letter"),
        (b"one\ntw\xe9\n", "line 2: not UTF-8 text (invalid continuation byte)"),
        (b"one\ntwo\n\0\n", "line 3: a NUL byte"),
        ("one".encode("utf-16"), "line 1: a NUL byte"),
        (b"one\n" + b"x" * 10_000_001, "line 2: longer than 10 MB"),
    ],
)
def test_a_bad_file_is_one_sentence(tmp_path: Path, text: bytes, message: str) -> None:
    source = write(tmp_path / "bad.txt", text)
    with pytest.raises(UserError) as error:
        list(documents(source))
    assert message in str(error.value) and source in str(error.value) and "\n" not in str(error.value)


def test_an_endless_line_is_never_held_whole(tmp_path: Path) -> None:
    source = tmp_path / "endless.txt"
    with open(source, "wb") as file:
        file.truncate(1 << 33)  # 8 GB of nothing, on a file system that need not store it
    tracemalloc.start()
    with pytest.raises(UserError, match="line 1: longer than 10 MB"):
        next(documents(str(source)))
    assert tracemalloc.get_traced_memory()[1] < 5e7
    tracemalloc.stop()


def test_missing(tmp_path: Path) -> None:
    for ask in (content, lambda source: next(documents(source))):
        with pytest.raises(UserError, match="corpus pydocs does not exist; .* did you mean pydoc"):
            ask("pydocs")
        with pytest.raises(UserError, match="has no .txt file"):
            ask(str(tmp_path))
        with pytest.raises(UserError, match="'hub:' names no data set"):
            ask("hub:")


# ---------------------------------------------------------------- the hub


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("hub:wikipedia", ("wikimedia/wikipedia", "20231101.en")),
        ("hub:bookcorpus", ("rojagtap/bookcorpus", None)),
        ("hub:some/text", ("some/text", None)),
        ("hub:some/text/raw-v1", ("some/text", "raw-v1")),
        ("hub:text", ("text", None)),
    ],
)
def test_the_hub_is_read_at_one_revision(monkeypatch: Any, source: str, wanted: tuple[str, str | None]) -> None:
    asked: dict[str, Any] = {}

    def load(name: str, configuration: str | None, **options: Any) -> list[dict[str, str]]:
        asked.update(options, name=(name, configuration))
        return [{"text": "One."}, {"text": " "}, {"text": "Two."}]

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda self, name: SimpleNamespace(sha=f"sha of {name}"))
    monkeypatch.setattr("datasets.load_dataset", load)
    assert texts_of(source) == ["One.", "Two."]
    assert asked == {"name": wanted, "split": "train", "streaming": True, "revision": f"sha of {wanted[0]}"}
    first = content(source)
    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda self, name: SimpleNamespace(sha="another"))
    assert first != content(source)


def test_the_hubs_errors_are_one_sentence(monkeypatch: Any) -> None:
    def rows(*names: Any, **options: Any) -> Iterator[dict[str, str]]:
        yield {"text": "One."}
        raise RuntimeError("the connection\nbroke")

    monkeypatch.setattr("huggingface_hub.HfApi.dataset_info", lambda self, name: SimpleNamespace(sha="0"))
    monkeypatch.setattr("datasets.load_dataset", rows)
    found = documents("hub:some/text")
    assert next(found) == ("One.",)
    with pytest.raises(
        UserError, match=r"hub:some/text cannot be read from the hub \(some/text\): the connection broke"
    ):
        next(found)
    monkeypatch.setattr("datasets.load_dataset", lambda *names, **options: [{"texts": "One."}])
    with pytest.raises(UserError, match="no column text that holds texts: did you mean texts"):
        next(documents("hub:some/text"))


def test_without_a_network(monkeypatch: Any) -> None:
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(UserError, match="corpus hub:wikipedia cannot be read from the hub .wikimedia/wikipedia"):
        content("hub:wikipedia")


# ---------------------------------------------------------------- the store


def test_pieces_by_hand(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    source = write(tmp_path / "a.txt", "a b c d e f g h\na b\nzz d e f\na zz [SEP] b zz\nj i h g f\n")
    corpus = tokenised(source, content(source), tokenizer, 7, tmp_path / "store")
    assert pieces(corpus) == [
        [CLS, A, B, C, D, E, SEP], [CLS, F, G, H, SEP], [CLS, UNK, D, E, F, SEP], [CLS, J, 13, H, G, F, SEP],
    ]  # fmt: skip
    assert len(corpus) == 4 and corpus.lengths.tolist() == [7, 5, 6, 7] and corpus.tokens == 25
    assert corpus.piece(0).dtype == np.uint16 and not corpus.piece(0).flags.writeable


def test_a_piece_begins_as_the_tokenizer_begins_a_text(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    """XLM's and FlauBERT's begin it with "<s>", which is not their [CLS]."""
    source = write(tmp_path / "a.txt", "a b c\n")
    before = tokenised(source, content(source), tokenizer, 7, tmp_path / "store")
    assert pieces(before) == [[CLS, A, B, C, SEP]]
    tokenizer.cls_token = "[SEP]"
    after = tokenised(source, content(source), tokenizer, 7, tmp_path / "store")
    assert pieces(after) == [[CLS, A, B, C, SEP]] == [tokenizer("a b c")["input_ids"]]


def test_sentences_are_packed_into_pieces_whole_and_in_order(
    tmp_path: Path, tokenizer: PreTrainedTokenizerBase, monkeypatch: Any
) -> None:
    """Five tokens fit: what is longer is cut, and its end packed; two alone are too short a piece."""
    monkeypatch.setattr(corpora, "BLOCK", 4)
    source = write(tmp_path / "a.txt", "a b c\nd\ne f g h\na b\na b c d e f g\nh\n")
    key = content(source)
    packed = tokenised(source, key, tokenizer, 7, tmp_path / "store", packed=True)
    assert pieces(packed) == [
        [CLS, A, B, C, D, SEP], [CLS, E, F, G, H, SEP], [CLS, A, B, C, D, E, SEP], [CLS, F, G, H, SEP],
    ]  # fmt: skip
    assert pieces(tokenised(source, key, tokenizer, 7, tmp_path / "store"))[:2] == [
        [CLS, A, B, C, SEP],
        [CLS, E, F, G, H, SEP],
    ]
    many = write(tmp_path / "many.txt", "a b c d\n" * 64)
    full = tokenised(many, content(many), tokenizer, 34, tmp_path / "store", packed=True)
    assert full.lengths.tolist() == [34] * 8


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None, max_examples=30)
@given(st.lists(st.text("abcdefghij", min_size=3, max_size=30), min_size=1, max_size=20), st.integers(5, 12))
def test_no_token_is_lost_but_in_too_short_ends(tmp_path: Path, texts: list[str], max_length: int) -> None:
    tokenizer = tokenizer_of(WORDS)
    source = write(tmp_path / "a.txt", "\n".join(" ".join(text) for text in texts))
    corpus = tokenised(source, content(source), tokenizer, max_length, tmp_path)
    size = max_length - 2
    cut = [text[start : start + size] for text in texts for start in range(0, len(text), size)]
    assert [tokenizer.decode(piece[1:-1]).replace(" ", "") for piece in pieces(corpus)] == [
        part for part in cut if len(part) >= 3
    ]


def test_a_long_document_is_read_in_parts(tmp_path: Path, tokenizer: PreTrainedTokenizerBase, monkeypatch: Any) -> None:
    monkeypatch.setattr(corpora, "PART", 20)
    monkeypatch.setattr(corpora, "BLOCK", 50)
    source = write(tmp_path / "a.txt", " ".join(["abc"[i % 3] for i in range(298)]) + "\n" + "a" * 100)
    corpus = tokenised(source, content(source), tokenizer, 30, tmp_path)
    inner = [i for piece in pieces(corpus) for i in piece[1:-1]]
    assert inner == ([A, B, C] * 100)[:298]  # the word without a space is unknown, in however many parts


def test_byte_level_tokenizers_and_large_vocabularies(tmp_path: Path) -> None:
    letters = {chr(ord("a") + i): i + 5 for i in range(26)} | {"Ġ": 31}
    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4} | letters
    many = vocabulary | {f"word{i}": i for i in range(32, 70_000)}
    source = write(tmp_path / "a.txt", "abc de")
    for words, dtype in ((vocabulary, np.uint16), (many, np.int32)):
        corpus = tokenised(source, content(source), RobertaTokenizerFast(vocab=words, merges=[]), 16, tmp_path)
        assert pieces(corpus) == [[0, 5, 6, 7, 31, 8, 9, 2]] and corpus.piece(0).dtype == dtype


def test_built_once_and_again_when_damaged(
    tmp_path: Path, tokenizer: PreTrainedTokenizerBase, monkeypatch: Any
) -> None:
    source = write(tmp_path / "a.txt", "a b c\nd e f\n")
    key = content(source)
    first = pieces(tokenised(source, key, tokenizer, 8, tmp_path / "store"))
    reads: list[str] = []
    monkeypatch.setattr(corpora, "documents", lambda source: reads.append(source) or documents(source))
    assert pieces(tokenised(source, key, tokenizer, 8, tmp_path / "store")) == first and not reads
    (store,) = (tmp_path / "store").iterdir()
    for count, name in enumerate(("tokens.bin", "offsets.bin"), 1):
        (store / name).unlink()
        assert pieces(tokenised(source, key, tokenizer, 8, tmp_path / "store")) == first
        assert len(reads) == count
    for other in (source, write(tmp_path / "b.txt", "a b c\n")):
        tokenised(other, content(other), tokenizer, 9, tmp_path / "store")
    assert len(list((tmp_path / "store").iterdir())) == 3
    assert not list((tmp_path / "store").rglob("*.tmp"))


@pytest.mark.parametrize("read", [tokenised, tokenised_sentences])
def test_a_corpus_that_changes_while_it_is_read_is_not_stored_as_the_one_planned(
    read: Any, tmp_path: Path, tokenizer: PreTrainedTokenizerBase, monkeypatch: Any
) -> None:
    def changed(source: str) -> Iterator[tuple[str, ...]]:
        yield from documents(source)
        write(Path(source), "j j j j\n")

    source = write(tmp_path / "a.txt", "a b c d\ne f g h\n")
    planned = content(source)
    monkeypatch.setattr(corpora, "documents", changed)
    with pytest.raises(UserError, match=r"a\.txt changed since the study was planned"):
        read(source, planned, tokenizer, 8, tmp_path / "store")
    monkeypatch.undo()
    write(Path(source), "a b c d\ne f g h\n")
    assert len(read(source, planned, tokenizer, 8, tmp_path / "store")) == 2


def test_a_corpus_in_another_language(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    half = write(tmp_path / "half.txt", "a b c zz zz zz")
    assert len(tokenised(half, content(half), tokenizer, 8, tmp_path)) == 1
    source = write(tmp_path / "other.txt", "a b c zz zz zz zz")
    with pytest.raises(UserError, match="the tokenizer of .* knows only 42% of the words of corpus .*other.txt"):
        tokenised(source, content(source), tokenizer, 8, tmp_path)
    assert not list(tmp_path.rglob("*.tmp"))


def test_other_refusals(tmp_path: Path, tokenizer: PreTrainedTokenizerBase) -> None:
    source = write(tmp_path / "a.txt", "a b\nc\n")
    with pytest.raises(UserError, match="is empty: no document in it has 3 tokens"):
        tokenised(source, content(source), tokenizer, 8, tmp_path)
    with pytest.raises(UserError, match="max_length must be at least 5"):
        tokenised(source, content(source), tokenizer, 4, tmp_path)
    with pytest.raises(UserError, match="cannot be written"):
        tokenised(source, content(source), tokenizer, 8, Path(source))
    tokenizer.cls_token = None
    with pytest.raises(UserError, match=r"has no \[CLS\] and \[SEP\]"):
        tokenised(source, content(source), tokenizer, 8, tmp_path)
