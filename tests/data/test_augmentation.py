"""Augmentation: what may stand for a word, what is replaced how often, and what order and batch do not decide."""

from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertTokenizerFast,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaTokenizerFast,
)

from harness.data import augmentation
from harness.data.augmentation import MaskedProposals, VectorNeighbours, augment, words_of
from harness.data.embedded import corpus
from harness.data.sources import Split
from harness.errors import UserError
from tests.data.test_encoding import tokenizer_of
from tests.modeling.families import FAMILIES, TOKENIZERS, model_of
from tests.modeling.families import tokenizer_of as tokenizer_for


class Table:
    """A replacer with the same candidates for every word listed."""

    def __init__(self, *words: str, candidates: tuple[str, ...] = ("X", "Y", "Z")):
        self.words, self.choice = words, list(candidates)

    def candidates(self, words: list[str]) -> list[list[str]]:
        return [self.choice if word in self.words else [] for word in words]


def singles(*texts: str) -> Split:
    return Split("train", list(texts), None, np.arange(len(texts)) % 2)


def rows(split: Split) -> list[tuple[str, str | None, float]]:
    second = split.text_b or [None] * len(split.text_a)
    return list(zip(split.text_a, second, split.labels.tolist(), strict=True))


# ---------------------------------------------------------------- augment


def test_by_hand() -> None:
    split = Split("train", ["a b, a!", "c"], ["b  c", "it's\ta"], np.array([0.5, 2.0], np.float32))
    found = augment(split, Table("a", candidates=("X",)), 3, 1.0, 0)
    assert rows(found) == [*rows(split), ("X b, X!", "b  c", 0.5), ("c", "it's\tX", 2.0)]
    assert found.name == "train" and found.labels.dtype == np.float32


texts = st.text("ab ,.'é\n", max_size=15)


@settings(deadline=None)
@given(st.data(), st.integers(0, 4), st.floats(0.01, 1.0), st.integers(0, 3))
def test_properties(data: st.DataObject, copies: int, probability: float, seed: int) -> None:
    pair = data.draw(st.booleans())
    examples = data.draw(st.lists(st.tuples(texts, texts if pair else st.none(), st.integers(0, 1)), min_size=1))
    first, second, labels = map(list, zip(*examples, strict=True))
    split = Split("train", first, second if pair else None, np.array(labels))
    found = augment(split, Table("a", "b"), copies, probability, seed)
    new = rows(found)[len(examples) :]
    assert rows(found)[: len(examples)] == examples and len(new) <= copies * len(examples)
    assert len(set(new)) == len(new) and not set(new) & set(examples)
    for one, other, label in new:
        assert any(
            label == example[2] and only_replaced(one, example[0]) and only_replaced(other or "", example[1] or "")
            for example in examples
        )
    assert rows(augment(split, Table("a", "b"), copies, probability, seed)) == rows(found)
    if copies:
        fewer = rows(augment(split, Table("a", "b"), copies - 1, probability, seed))
        assert fewer == rows(found)[: len(fewer)]
    order = data.draw(st.permutations(range(len(examples))))
    shuffled = Split(
        "train", [first[i] for i in order], [second[i] for i in order] if pair else None, split.labels[order]
    )
    assert set(rows(augment(shuffled, Table("a", "b"), copies, probability, seed))) == set(rows(found))


def only_replaced(text: str, original: str) -> bool:
    """Whether X, Y and Z stand in `text` only where a word of `original` stood, all else being equal."""
    return len(text) == len(original) and all(
        new == old or (new in "XYZ" and old in "ab") for new, old in zip(text, original, strict=True)
    )


def near(count: int, of: int, probability: float) -> bool:
    """Within five standard deviations of a binomial."""
    return bool(abs(count - of * probability) < 5 * (of * probability * (1 - probability)) ** 0.5)


def test_rates() -> None:
    split = singles(*(f"{'a ' * 100}{i}" for i in range(100)))
    text = " ".join(augment(split, Table("a"), 5, 0.4, 7).text_a[100:])
    counts = [text.count(mark) for mark in "XYZ"]
    assert near(sum(counts), 50_000, 0.4) and all(near(count, sum(counts), 1 / 3) for count in counts)


def test_the_texts_of_a_pair_are_drawn_apart() -> None:
    """Equal texts do not get equal replacements, and equal sentences of different pairs neither."""
    split = Split("train", ["a " * 20, "a " * 20], ["a " * 20, "c"], np.zeros(2, int))
    found = augment(split, Table("a"), 1, 0.5, 0)
    assert found.text_b is not None and len({found.text_a[2], found.text_b[2], found.text_a[3]}) == 3


def test_another_seed_is_other_text() -> None:
    split = singles("a " * 20)
    assert augment(split, Table("a"), 1, 0.5, 0).text_a != augment(split, Table("a"), 1, 0.5, 1).text_a


def test_golden_copies() -> None:
    """Copies change only when the text or the rule does: finished runs were trained on these."""
    found = augment(singles("a b a b a b", "b a"), Table("a", "b"), 2, 0.4, 0)
    assert found.text_a[2:] == ["a Z a Y a X", "X Z", "X b a b a X", "b Z"]
    assert found.labels.tolist() == [0, 1, 0, 1, 0, 1]


def test_words() -> None:
    split = Split("train", ["The 2 dogs' cafés, a.b don't", "The"], ["x1 é", ""], np.zeros(2))
    assert words_of(split) == ["The", "a", "b", "cafés", "dogs", "é"]


# ---------------------------------------------------------------- neighbours in word vectors


def vectors(path: Path, words: dict[str, list[float]]) -> Path:
    path.write_text("".join(f"{word} {' '.join(map(str, row))}\n" for word, row in words.items()), encoding="utf-8")
    return path


def test_neighbours_of_words(tmp_path: Path) -> None:
    path = vectors(
        tmp_path / "glove.txt", {"dog": [1, 0], "puppy": [3, 1], "Paris": [0, 1], "car": [-1, -0.1], ".": [1, 0]}
    )
    words = ["Dog", "dog", "DOG", ".", "unheard", "Paris", "paris"]
    found = VectorNeighbours(path, words, 2).candidates(words)
    assert found == [["Puppy", "Paris"], ["puppy", "Paris"], ["puppy", "Paris"], [], [], ["Puppy", "Dog"], []]


# ---------------------------------------------------------------- proposals of a masked language model

WORDS = (
    "[PAD]",
    "[UNK]",
    "[CLS]",
    "[SEP]",
    "[MASK]",
    ".",
    "##s",
    "##ing",
    "7",
    "the",
    "dog",
    "cat",
    "sees",
    "a",
    "run",
)


@pytest.fixture
def bert(tmp_path: Path) -> tuple[BertForMaskedLM, BertTokenizerFast]:
    (tmp_path / "vocab.txt").write_text("\n".join(WORDS))
    torch.manual_seed(0)
    sizes = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32}
    model = BertForMaskedLM(
        BertConfig(vocab_size=len(WORDS), max_position_embeddings=12, initializer_range=0.5, **sizes)
    )
    return model.eval(), BertTokenizerFast(vocab=str(tmp_path / "vocab.txt"))


def likeliest(model: BertForMaskedLM, ids: list[int], place: int, but: str) -> list[str]:
    """The words of letters by the model's score where `place` is masked, one sentence at a time."""
    ids = [*ids[:place], WORDS.index("[MASK]"), *ids[place + 1 :]]
    with torch.no_grad():
        scores = model(input_ids=torch.tensor([ids])).logits[0, place]
    order = [WORDS[i] for i in scores.argsort(descending=True).tolist()]
    return [word for word in order if word.isalpha() and word != but]


def test_proposals_are_the_models_own(bert: tuple[BertForMaskedLM, BertTokenizerFast]) -> None:
    model, tokenizer = bert
    found = MaskedProposals(model, tokenizer, 3).candidates(["The", "dogs", "sees", "7", "cat", "."])
    ids = tokenizer("The dogs sees 7 cat .")["input_ids"]
    assert tokenizer.convert_ids_to_tokens(ids)[2:4] == ["dog", "##s"]
    assert found[0] == [word.capitalize() for word in likeliest(model, ids, 1, "the")[:3]]
    assert found[2] == likeliest(model, ids, 4, "sees")[:3] and found[4] == likeliest(model, ids, 6, "cat")[:3]
    assert [found[i] for i in (1, 3, 5)] == [[], [], []]


def test_words_of_several_pieces_go_to_the_others(bert: tuple[BertForMaskedLM, BertTokenizerFast]) -> None:
    found = MaskedProposals(*bert, 2, Table("dogs", "the", ".")).candidates(["the", "dogs", ".", "runing"])
    assert found[1:] == [["X", "Y", "Z"], ["X", "Y", "Z"], []] and "X" not in found[0]


def test_a_text_longer_than_the_model(bert: tuple[BertForMaskedLM, BertTokenizerFast]) -> None:
    found = MaskedProposals(*bert, 2).candidates(["dog"] * 30)
    assert [len(choice) for choice in found] == [2] * 10 + [0] * 20  # 12 positions, two of them [CLS] and [SEP]
    assert MaskedProposals(*bert, 2).candidates([]) == []


def test_a_text_longer_than_roberta_by_a_tokenizer_that_tells_no_limit() -> None:
    """Its positions begin after that of padding, so that it reads fewer tokens than it has rows of them."""
    tokenizer = tokenizer_for("roberta")
    model = model_of("roberta", FAMILIES["roberta"] | {"max_position_embeddings": 14}, masked=True)
    found = MaskedProposals(model, tokenizer, 2).candidates(["cat"] * 30)
    assert tokenizer.model_max_length > 1e6 and [len(choice) for choice in found[1:]] == [2] * 9 + [0] * 20


def test_rows_of_a_batch_do_not_matter(
    bert: tuple[BertForMaskedLM, BertTokenizerFast], monkeypatch: pytest.MonkeyPatch
) -> None:
    words = ["the", "dog", "sees", "a", "cat", "run"]
    whole = MaskedProposals(*bert, 4).candidates(words)
    monkeypatch.setattr(augmentation, "ROWS", 2)
    assert MaskedProposals(*bert, 4).candidates(words) == whole and all(len(choice) == 4 for choice in whole)


def test_training_texts_of_a_model_in_training(bert: tuple[BertForMaskedLM, BertTokenizerFast]) -> None:
    """Dropout has no part in what is proposed, so a text is the same whenever it is made."""
    model, tokenizer = bert
    split = singles("the dog sees a cat", "a cat run")
    first = augment(split, MaskedProposals(model.train(), tokenizer), 3, 0.4, 0)
    again = augment(split, MaskedProposals(model.train(), tokenizer), 3, 0.4, 0)
    assert rows(first) == rows(again) and len(first.text_a) > 2


def test_a_byte_level_tokenizer() -> None:
    """A whole word there is one that begins with the sign of a space."""
    vocabulary = {"<s>": 0, "<pad>": 1, "</s>": 2, "<unk>": 3, "<mask>": 4, "d": 5, "o": 6, "g": 7, "Ġ": 8, "do": 9}
    vocabulary |= {"dog": 10, "Ġdo": 11, "Ġdog": 12, "Ġd": 13, "Ġg": 14, "go": 15}
    merges = [("Ġ", "d"), ("d", "o"), ("Ġd", "o"), ("do", "g"), ("Ġdo", "g"), ("Ġ", "g"), ("g", "o")]
    tokenizer = RobertaTokenizerFast(vocab=vocabulary, merges=merges, model_max_length=16)
    sizes = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}
    model = RobertaForMaskedLM(RobertaConfig(vocab_size=16, max_position_embeddings=18, pad_token_id=1, **sizes))
    replacer = MaskedProposals(model, tokenizer, 9)
    assert sorted(replacer.words) == ["d", "do", "dog", "g"]
    first, second, third = replacer.candidates(["dog", "go", "do"])
    assert sorted(first) == ["d", "do", "g"] and second == [] and sorted(third) == ["d", "dog", "g"]


@pytest.mark.parametrize("family", ["roberta", "deberta", "deberta-v2", "xlm-roberta"])
def test_words_are_found_whatever_token_the_space_before_them_is_counted_to(family: str) -> None:
    """To RoBERTa's and XLM-R's offsets it belongs to none, to DeBERTa's to the word's own."""
    sentences = [" ".join(text) for text in corpus(300)] * 3
    tokenizer = TOKENIZERS[family]().train_new_from_iterator(sentences, vocab_size=800, show_progress=False)
    changes = FAMILIES[family] | {"pad_token_id": tokenizer.pad_token_id, "vocab_size": len(tokenizer)}
    words = ["a", "farmer", "farmer", "7", "farmer"]
    assert tokenizer.tokenize(" ".join(words))[-1][1:] == "farmer"
    found = MaskedProposals(model_of(family, changes, masked=True), tokenizer, 2).candidates(words)
    assert [len(choice) for choice in found[1:]] == [2, 2, 0, 2] and "farmer" not in found[4]


def test_a_tokenizer_without_a_mask(bert: tuple[BertForMaskedLM, BertTokenizerFast]) -> None:
    with pytest.raises(UserError, match="has no mask token"):
        MaskedProposals(bert[0], tokenizer_of())
