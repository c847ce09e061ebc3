"""Sentences: what one is, the same ones for every tokenizer, stores that are whole or absent, and batches."""

import tracemalloc
from itertools import islice
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tokenizers import normalizers
from transformers import BertTokenizerFast, PreTrainedTokenizerBase

from harness.data import corpora
from harness.data.corpora import content
from harness.data.sentences import SentenceText, sentences, texts, tokenised_sentences
from harness.data.store import Store
from harness.errors import UserError
from harness.modeling.word_tokenizer import word_level
from tests.data.test_corpora import pieces, write

TEXT = (
    "Mr. Smith ran home.  He said, “I am tired. Good night.” It cost 3.5 dollars at 9 a.m. today! Yes. Did it rain?\n"
)
WANTED = [
    "Mr. Smith ran home.", "He said, “I am tired. Good night.”", "It cost 3.5 dollars at 9 a.m. today!",
    "Did it rain?",
]  # fmt: skip
LETTERS = "abcdefghijklmnopqrstuvwxyz0123456789.,!?"
PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *LETTERS, *(f"##{letter}" for letter in LETTERS), "the", "did")


def split(path: Path, text: str) -> list[str]:
    source = write(path / "a.txt", text)
    return list(texts(sentences(source, content(source), path / "store")))


@pytest.fixture
def wordpiece(tmp_path: Path) -> BertTokenizerFast:
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES))
    return BertTokenizerFast(vocab=str(tmp_path / "vocab.txt"))


# ---------------------------------------------------------------- what a sentence is


def test_known_text(tmp_path: Path) -> None:
    assert split(tmp_path, TEXT) == WANTED


def test_documents_end_sentences(tmp_path: Path) -> None:
    assert split(tmp_path, "One two three\nfour five\tsix seven .\r\n8 9 10\n") == [
        "One two three",
        "four five six seven .",
    ]


def test_what_ends_a_line_ends_a_sentence(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(corpora, "documents", lambda source: iter([("= Title =\n\nOne two\u2028three four five\n",)]))
    monkeypatch.setattr(corpora, "content", lambda source: "0")
    assert list(texts(sentences("hub:x", "0", tmp_path))) == ["three four five"]


def test_our_own_grammar(tmp_path: Path) -> None:
    """Its sentences come back, all of them, those of a pair apart."""
    from harness.data import embedded

    wanted = [sentence for document in embedded.corpus(300) for sentence in document]
    source = write(tmp_path / "a.txt", "\n".join(" ".join(document) for document in embedded.corpus(300)))
    assert list(texts(sentences(source, content(source), tmp_path))) == wanted
    pairs = texts(sentences("embedded", content("embedded"), tmp_path))
    assert list(islice(pairs, len(wanted))) == wanted


anything = st.text(st.characters(exclude_categories=["Cs"]), min_size=1)
sign = st.sampled_from(
    ["Mr.", "e.g.", "No.", "“", "”", '"', "'", "(", ")", "1.", "a)", "...", "!", "?", ".", "∯", "\n"]
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(st.lists(st.one_of(sign, anything, st.sampled_from(["the cat", "Rain fell", " "])), max_size=60))
def test_no_character_is_lost(tmp_path: Path, monkeypatch: Any, parts: list[str]) -> None:
    """Whatever the text; single spaces divide words, and no sentence holds a line's end."""
    document = " ".join(["Here.", *parts])
    monkeypatch.setattr(corpora, "documents", lambda source: iter([document]))
    monkeypatch.setattr(corpora, "content", lambda source: "0")
    monkeypatch.setattr("harness.data.sentences.SHORTEST", 0)
    monkeypatch.setattr("harness.data.sentences.PART", 80)
    found = list(texts(sentences("hub:x", "0", Path(mkdtemp(dir=tmp_path)))))
    assert "".join("".join(found).split()) == "".join(document.split())
    assert all(len(one.splitlines()) <= 1 and one == " ".join(one.split()) for one in found)


def test_a_long_document_is_split_as_short_ones_are(tmp_path: Path) -> None:
    lines = [f"The {i} dogs of Mr. Smith ran home. Did they, i.e. the dogs, see “the cat” there?" for i in range(300)]
    wanted = split(tmp_path / "short", "\n".join(lines))
    assert len(wanted) == 600 and split(tmp_path / "long", " ".join(lines)) == wanted


def test_words_without_spaces_are_cut(tmp_path: Path) -> None:
    found = split(tmp_path, f"One two three {'x' * 5000} four five six\n")
    assert found[0] == "One two three" and found[-1] == "four five six" and max(map(len, found)) <= 1000


def test_a_long_document_costs_little(tmp_path: Path) -> None:
    """200,000 characters in a line."""
    source = write(tmp_path / "a.txt", TEXT.replace("\n", " ") * 1700)
    split(tmp_path / "first", TEXT)  # what is imported is not counted
    tracemalloc.start()
    store = sentences(source, content(source), tmp_path)
    count = sum(1 for _ in texts(store))
    most = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert count == 4 * 1700 and most < 3e6


# ---------------------------------------------------------------- as tokenizers read them


def test_sentence_i_is_piece_i_for_every_tokenizer(tmp_path: Path, wordpiece: BertTokenizerFast) -> None:
    source = write(tmp_path / "a.txt", TEXT + "a b c\n§ x y z\n")
    asked = source, content(source)
    store = sentences(*asked, tmp_path)
    found = list(texts(store))
    words = word_level(found, 0)
    ours = tokenised_sentences(*asked, words, 6, tmp_path)
    theirs = tokenised_sentences(*asked, wordpiece, 12, tmp_path)
    assert len(ours) == len(theirs) == len(found) == 6 and found[4:] == ["a b c", "§ x y z"]
    for i, text in enumerate(found):
        assert ours.piece(i).tolist() == words(text, truncation=True, max_length=6)["input_ids"]
        assert theirs.piece(i).tolist() == wordpiece(text, truncation=True, max_length=12)["input_ids"]
    assert ours.lengths.tolist() == [6, 6, 6, 4, 3, 4] and ours.content == content(source)
    assert theirs.piece(4).tolist() == [2, 5, 6, 7, 3]


def test_a_sentence_of_which_nothing_is_left_is_unknown(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "one two three\nx x x\none two three\n")
    words = word_level(["one two three"], 0)
    words.backend_tokenizer.normalizer = normalizers.Replace("x", "")
    corpus = tokenised_sentences(source, content(source), words, 8, tmp_path)
    assert pieces(corpus)[1] == [words.unk_token_id] and corpus.lengths.tolist() == [3, 1, 3]


def test_a_batch_is_what_models_read(tmp_path: Path, wordpiece: BertTokenizerFast) -> None:
    source = write(tmp_path / "a.txt", "a b c d\nthe b c\n")
    corpus = tokenised_sentences(source, content(source), wordpiece, 16, tmp_path)
    text = SentenceText(corpus, wordpiece)
    batch = text.batch(torch.tensor([1, 0]), torch.device("cpu"), 3)
    (encoding,) = batch.encodings
    assert len(text) == 2 and text.lengths.tolist() == [6, 5] and batch.ids.tolist() == [1, 0]
    the = PIECES.index("the")
    assert encoding["input_ids"].tolist() == [[2, the, 6, 7, 3, 0], [2, 5, 6, 7, 8, 3]]
    assert encoding["attention_mask"].tolist() == [[1] * 5 + [0], [1] * 6]
    assert not encoding["token_type_ids"].any() and set(encoding) == set(wordpiece.model_input_names)
    assert batch.targets is None and batch.labels.tolist() == [0.0, 0.0] and batch.labels.dtype == torch.float32
    assert {tensor.dtype for tensor in (*encoding.values(), batch.ids)} == {torch.int64}
    again = text.batch(torch.tensor([1, 0]), epoch=4)
    assert torch.equal(again.encodings[0]["input_ids"], encoding["input_ids"])


def test_padding_is_the_tokenizers_own(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "a b c d\na b c\n")
    words = word_level(["a b c d"], 0)
    words.pad_token = "d"
    text = SentenceText(tokenised_sentences(source, content(source), words, 16, tmp_path), words)
    (encoding,) = text.batch(torch.arange(2)).encodings
    d = words.convert_tokens_to_ids("d")
    assert encoding["input_ids"][1, 3] == d and encoding["attention_mask"].tolist() == [[1] * 4, [1] * 3 + [0]]
    assert set(encoding) == {"input_ids", "attention_mask"}


# ---------------------------------------------------------------- stores


def test_built_once_and_again_when_damaged(tmp_path: Path, wordpiece: BertTokenizerFast, monkeypatch: Any) -> None:
    source = write(tmp_path / "a.txt", TEXT)
    asked = source, content(source), wordpiece, 12, tmp_path / "store"
    first = pieces(tokenised_sentences(*asked))
    read: list[str] = []
    documents = corpora.documents
    monkeypatch.setattr(corpora, "documents", lambda source: read.append(source) or documents(source))
    assert pieces(tokenised_sentences(*asked)) == first and not read
    store = sentences(source, content(source), tmp_path / "store")
    assert store.told["count"] == 4 and store.told["content"] == content(source)
    folder = store.folder
    (tokens,) = set((tmp_path / "store").iterdir()) - {folder}
    for file in (folder / "sentences.txt", tokens / "tokens.bin", tokens / "offsets.bin"):
        file.unlink()
        assert pieces(tokenised_sentences(*asked)) == first and len(read) == 1
    assert len(list((tmp_path / "store").iterdir())) == 2 and not list(tmp_path.rglob("*.tmp"))


def test_other_sentences_are_other_tokens(tmp_path: Path, wordpiece: BertTokenizerFast, monkeypatch: Any) -> None:
    """A store of tokens belongs to the sentences it was made of, not to the corpus: the rules may change."""
    source = write(tmp_path / "a.txt", TEXT)
    asked = source, content(source), wordpiece, 12, tmp_path / "store"
    assert len(tokenised_sentences(*asked)) == 4
    (sentences(source, content(source), tmp_path / "store").folder / "sentences.txt").unlink()
    monkeypatch.setattr("harness.data.sentences.SHORTEST", 1)
    assert len(tokenised_sentences(*asked)) == 5


# ---------------------------------------------------------------- bad corpora


def test_refusals(tmp_path: Path, wordpiece: PreTrainedTokenizerBase) -> None:
    short = write(tmp_path / "short.txt", "Yes, no.\n1 2 3 4\n")
    with pytest.raises(UserError, match="corpus .*short.txt is empty: no sentence in it has 3 words"):
        sentences(short, content(short), tmp_path)
    empty = write(tmp_path / "empty.txt", " \n")
    with pytest.raises(UserError, match="corpus .*empty.txt is empty: no document in it holds a letter"):
        sentences(empty, content(empty), tmp_path)
    with pytest.raises(UserError, match="does not exist"):
        sentences(str(tmp_path / "nowhere.txt"), "0", tmp_path)
    source = write(tmp_path / "a.txt", TEXT)
    with pytest.raises(UserError, match="cannot be written"):
        sentences(source, content(source), Path(source))
    other = write(tmp_path / "other.txt", "a ß ж 語 є.\n")
    with pytest.raises(UserError, match="knows only 33% of the words of corpus .*other.txt"):
        tokenised_sentences(other, content(other), wordpiece, 12, tmp_path / "store")
    assert len(list((tmp_path / "store").glob("*/index.json"))) == 1  # of the sentences, not of their tokens
    with pytest.raises(UserError, match="sentences.txt cannot be read"):
        next(texts(Store(tmp_path, "nowhere")))
