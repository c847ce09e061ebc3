"""Masking: published rates, and the same masks whatever the batch."""

import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from tokenizers.processors import TemplateProcessing
from transformers import PreTrainedTokenizerBase

from harness.contracts import IGNORED
from harness.data import corpora, embedded
from harness.data.corpora import content, tokenised
from harness.data.masking import MaskedText
from harness.errors import UserError
from harness.teachers.embedded import EmbeddedTeacher
from tests.data.test_corpora import WORDS, write
from tests.data.test_encoding import tokenizer_of

SPECIAL = 5  # the first ids
CPU = torch.device("cpu")


def masking(words: tuple[str, ...] = WORDS) -> PreTrainedTokenizerBase:
    tokenizer = tokenizer_of(words)
    tokenizer.mask_token = "[MASK]"
    return tokenizer


class Pieces:
    """A corpus in memory."""

    def __init__(self, pieces: list[list[int]], content: str = "some text"):
        self.pieces, self.content = [np.array(piece, np.uint16) for piece in pieces], content
        self.pairs = False

    def __len__(self) -> int:
        return len(self.pieces)

    @property
    def lengths(self) -> torch.Tensor:
        return torch.tensor([len(piece) for piece in self.pieces])

    def piece(self, i: int) -> np.ndarray:
        return self.pieces[i]


def made(count: int, longest: int = 30, seed: int = 0, **keywords: Any) -> Any:
    draw = np.random.default_rng(seed)
    bodies = [draw.integers(SPECIAL, len(WORDS), draw.integers(3, longest)).tolist() for _ in range(count)]
    return Pieces([[2, *body, 3] for body in bodies], **keywords)


def whole(text: MaskedText, epoch: int = 0) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    batch = text.batch(torch.arange(len(text)), CPU, epoch)
    assert batch.targets is not None
    return batch.encodings[0]["input_ids"], batch.targets, batch.mask


def test_a_batch_is_what_models_read(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "a b c d e f g h\nj i h g\n")
    corpus = tokenised(source, content(source), masking(), 32, tmp_path)
    text = MaskedText(corpus, masking())
    batch = text.batch(torch.tensor([1, 0]), CPU, 3)
    assert len(text) == 2 and text.lengths.tolist() == [10, 6]
    assert batch.ids.tolist() == [1, 0] and batch.labels.tolist() == [0.0, 0.0]
    (encoding,) = batch.encodings
    assert encoding["attention_mask"].tolist() == [[1] * 6 + [0] * 4, [1] * 10]
    assert not encoding["token_type_ids"].any() and batch.targets is not None
    assert {t.dtype for t in (*encoding.values(), batch.targets, batch.ids)} == {torch.int64}
    original = torch.where(batch.targets == IGNORED, encoding["input_ids"], batch.targets)
    assert original.tolist() == [[2, 14, 13, 12, 11, 3, 0, 0, 0, 0], [2, 5, 6, 7, 8, 9, 10, 11, 12, 3]]
    assert batch.predicted is not None and encoding.lengths.tolist() == [6, 10]
    assert torch.equal(batch.predicted, (batch.targets != IGNORED).flatten().nonzero()[:, 0])
    assert text.batch(torch.tensor([1, 0]), torch.device("meta"), 3).predicted.shape == batch.predicted.shape
    batch.targets = torch.full_like(batch.targets, IGNORED)  # what the host knew was of others
    assert batch.predicted.tolist() == []


def test_pairs_are_read_as_the_embedded_teacher_was_pre_trained_on_them(tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(corpora, "SENTENCES", 50)
    texts, tokenizer = embedded.corpus(50), EmbeddedTeacher().tokenizer()
    text = MaskedText(tokenised("embedded", content("embedded"), tokenizer, 32, tmp_path), tokenizer)
    batch = text.batch(torch.arange(50), CPU)
    (encoding,), targets = batch.encodings, batch.targets
    assert targets is not None
    ours = encoding | {"input_ids": torch.where(targets == IGNORED, encoding["input_ids"], targets)}
    firsts, seconds = [document[0] for document in texts], [document[1:] for document in texts]
    for row, (first, second) in enumerate(zip(firsts, seconds, strict=True)):
        for name, theirs in tokenizer(first, *second).items():
            assert ours[name][row, : len(theirs)].tolist() == theirs and not ours[name][row, len(theirs) :].any()
    packed = tokenised("embedded", content("embedded"), tokenizer, 32, tmp_path, packed=True)
    inner = [token for i in range(len(packed)) for token in packed.piece(i)[1:-1].tolist()]
    assert inner == [i for pair in texts for one in pair for i in tokenizer(one, add_special_tokens=False)["input_ids"]]
    assert not MaskedText(packed, tokenizer).batch(torch.arange(9), CPU).encodings[0]["token_type_ids"].any()


def test_a_pair_has_no_segments_for_a_tokenizer_that_gives_it_none(tmp_path: Path, monkeypatch: Any) -> None:
    """As MPNet's, whose model may have one alone."""
    monkeypatch.setattr(corpora, "SENTENCES", 50)
    tokenizer = EmbeddedTeacher().tokenizer()
    tokenizer.backend_tokenizer.post_processor = TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    text = MaskedText(tokenised("embedded", content("embedded"), tokenizer, 32, tmp_path), tokenizer)
    encoding = text.batch(torch.arange(50), CPU).encodings[0]
    assert (encoding["input_ids"] == 3).sum() > 80 and not encoding["token_type_ids"].any()


def test_a_separator_in_a_text_divides_no_pair(tmp_path: Path) -> None:
    source = write(tmp_path / "a.txt", "a b c [SEP] d e f\n")
    text = MaskedText(tokenised(source, content(source), masking(), 32, tmp_path), masking())
    encoding = text.batch(torch.arange(1), CPU).encodings[0]
    assert encoding.lengths.tolist() == [9] and not encoding["token_type_ids"].any()


def test_a_tokenizer_without_segments_or_mask() -> None:
    tokenizer = masking()
    tokenizer.model_input_names = ["input_ids", "attention_mask"]
    batch = MaskedText(made(2), tokenizer).batch(torch.tensor([0]), CPU, 0)
    assert set(batch.encodings[0]) == {"input_ids", "attention_mask"}
    with pytest.raises(UserError, match="has no mask token"):
        MaskedText(made(1), tokenizer_of(WORDS))


def near(count: int, of: int, probability: float) -> bool:
    """Within five standard deviations of a binomial."""
    return bool(abs(count - of * probability) < 5 * (of * probability * (1 - probability)) ** 0.5)


def test_rates() -> None:
    corpus = Pieces([[2, *(SPECIAL + (i + j) % 10 for j in range(100)), 3] for i in range(2000)])
    inputs, targets, _ = whole(MaskedText(corpus, masking()))  # type: ignore[arg-type]
    chosen = targets != IGNORED
    assert near(int(chosen.sum()), 200_000, 0.15)
    number = int(chosen.sum())
    masked, kept = inputs[chosen] == WORDS.index("[MASK]"), inputs[chosen] == targets[chosen]
    # A tenth of the chosen become one of ten ordinary tokens, a tenth of those the one that stood there.
    assert near(int(masked.sum()), number, 0.8) and near(int(kept.sum()), number, 0.1 + 0.1 * 0.1)
    drawn = inputs[chosen][~masked & ~kept]
    assert all(near(int((drawn == token).sum()), len(drawn), 0.1) for token in range(SPECIAL, len(WORDS)))
    by_place = chosen[:, 1:-1].sum(0)
    assert all(near(int(count), 2000, 0.15) for count in by_place)


def test_other_probabilities() -> None:
    corpus = Pieces([[2, *[7] * 100, 3]] * 500)
    for probability in (0.4, 1.0):
        _, targets, _ = whole(MaskedText(corpus, masking(), probability))  # type: ignore[arg-type]
        assert near(int((targets != IGNORED).sum()), 50_000, probability) or probability == 1.0
    assert int((targets != IGNORED).sum()) == 50_000


@settings(deadline=None, max_examples=30)
@given(
    st.lists(st.lists(st.integers(0, len(WORDS) - 1), max_size=20), min_size=1, max_size=8),
    st.floats(0.01, 1.0),
    st.integers(0, 100),
)
def test_what_may_be_chosen(bodies: list[list[int]], probability: float, epoch: int) -> None:
    """Never a special token or padding, at least one target a piece, and untouched wherever nothing is predicted."""
    corpus = Pieces([[2, SPECIAL, *body, 3] for body in bodies])
    inputs, targets, mask = whole(MaskedText(corpus, masking(), probability), epoch)  # type: ignore[arg-type]
    chosen = targets != IGNORED
    assert chosen.any(1).all() and not (chosen & ~mask).any() and (targets[chosen] >= SPECIAL).all()
    original = torch.where(chosen, targets, inputs)
    assert [row[m].tolist() for row, m in zip(original, mask, strict=True)] == [p.tolist() for p in corpus.pieces]
    assert (inputs[chosen] >= WORDS.index("[MASK]")).all() and (inputs[~mask] == 0).all()


def test_an_unlikely_choice_still_leaves_one_target_anywhere() -> None:
    corpus = Pieces([[2, *[7] * 5, 3]] * 2000)
    _, targets, _ = whole(MaskedText(corpus, masking(), 1e-9))  # type: ignore[arg-type]
    chosen = targets != IGNORED
    assert (chosen.sum(1) == 1).all()
    assert all(near(int(count), 2000, 0.2) for count in chosen.sum(0)[1:-1])


@settings(deadline=None, max_examples=30)
@given(st.lists(st.integers(0, 39), min_size=1, max_size=12), st.integers(0, 5))
def test_masks_do_not_depend_on_the_batch(index: list[int], epoch: int) -> None:
    text = MaskedText(made(40), masking())
    inputs, targets, _ = whole(text, epoch)
    batch = text.batch(torch.tensor(index), CPU, epoch)
    length = batch.mask.shape[1]
    assert batch.targets is not None and torch.equal(batch.targets, targets[index, :length])
    assert torch.equal(batch.encodings[0]["input_ids"], inputs[index, :length])


def test_what_masks_depend_on() -> None:
    targets = whole(MaskedText(made(50), masking()))[1]
    assert torch.equal(targets, whole(MaskedText(made(50), masking()))[1])
    assert not torch.equal(targets, whole(MaskedText(made(50), masking()), 1)[1])
    assert not torch.equal(targets, whole(MaskedText(made(50, content="other text"), masking()))[1])
    same = Pieces([[2, *range(5, 15), 3]] * 20)  # equal pieces, but each in its own place
    assert len({tuple(row) for row in whole(MaskedText(same, masking()))[1].tolist()}) > 10  # type: ignore[arg-type]


def test_golden_masks() -> None:
    """Stored masks change only when the text or the rule does: finished runs were trained on these."""
    corpus = Pieces([[2, *range(5, 15), 3], [2, 9, 8, 7, 3]])
    inputs, targets, _ = whole(MaskedText(corpus, masking(), 0.3), 2)  # type: ignore[arg-type]
    assert inputs.tolist() == [
        [2, 4, 6, 4, 8, 9, 10, 11, 12, 13, 14, 3],
        [2, 9, 8, 4, 3, 0, 0, 0, 0, 0, 0, 0],
    ]
    assert targets.tolist() == [
        [-100, 5, -100, 7, -100, -100, -100, -100, -100, -100, -100, -100],
        [-100, -100, -100, 7, -100, -100, -100, -100, -100, -100, -100, -100],
    ]


def test_masking_is_cheap() -> None:
    corpus = Pieces([[2, *[7] * 62, 3]] * 32)
    text = MaskedText(corpus, masking())  # type: ignore[arg-type]
    index = torch.arange(32)
    times = []
    for epoch in range(30):
        began = time.perf_counter()
        text.batch(index, CPU, epoch)
        times.append(time.perf_counter() - began)
    assert sorted(times)[0] < 0.002  # the best of many, so that a busy machine says nothing
