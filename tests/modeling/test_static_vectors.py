"""Static vectors of a teacher's vocabulary against numpy in float64, and what of a vocabulary is read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.contracts import ModelInfo, Signal
from harness.modeling import static_vectors
from harness.modeling.static_vectors import Vocabulary, distilled

N, D = 50, 12


def states(seed: int = 0, rank: int = D) -> np.ndarray:
    """(N, D) float64, of this rank, each component with a variance of its own."""
    draw = np.random.default_rng(seed)
    return draw.normal(size=(N, rank)) * np.linspace(3, 1, rank) @ draw.normal(size=(rank, D)) + draw.normal(size=D)


def by_numpy(found: np.ndarray, ranked: bool) -> tuple[np.ndarray, np.ndarray]:
    """By the singular values of the states, not their covariance; signs, weights and scale by hand."""
    centred = found - found.mean(0)
    _, singular, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes * np.array([np.sign(axis[np.argmax(np.abs(axis))]) for axis in axes])[:, None]
    vectors = centred @ axes.T
    if ranked:
        p = np.array([1 / rank for rank in range(2, N + 2)])
        vectors = vectors * np.array([1e-4 / (1e-4 + share) for share in p / p.sum()])[:, None]
    return vectors / np.sqrt((vectors**2).sum(1).mean()), singular**2 / (N - 1)


@pytest.mark.parametrize("ranked", [True, False])
def test_components_signs_weights_and_scale_are_numpys(ranked: bool) -> None:
    for seed in range(3):
        expected, variances = by_numpy(states(seed), ranked)
        found, told = distilled(torch.from_numpy(states(seed)).float(), ranked)
        np.testing.assert_allclose(found.numpy(), expected, atol=2e-5)
        np.testing.assert_allclose(told.numpy(), variances, rtol=1e-4)
        turned, _ = distilled(torch.from_numpy(-states(seed)).float(), ranked)  # the same axes, the same signs
        torch.testing.assert_close(turned, -found, atol=2e-5, rtol=0)


def test_weights_of_a_few_entries_by_hand() -> None:
    """p is 1/2 : 1/3 : 1/4, so 6/13, 4/13, 3/13."""
    expected = [1e-4 / (1e-4 + share) for share in (6 / 13, 4 / 13, 3 / 13)]
    assert static_vectors.weights(3).tolist() == pytest.approx(expected, rel=1e-12)


def test_what_lies_beyond_the_rank_is_zero() -> None:
    found, variances = distilled(torch.from_numpy(states(rank=5)), ranked=False)
    assert (found[:, 5:] == 0).all() and (variances[5:] == 0).all() and (variances[:5] > 0).all()
    nothing, _ = distilled(torch.ones(4, 3), ranked=True)
    assert (nothing == 0).all()


def test_the_first_columns_are_read_and_told_how_much_they_keep(tmp_path: Path) -> None:
    vocabulary = Vocabulary([*range(2, N + 2)], [0, 1, N + 3], [0], [1], ranked=True)
    static_vectors.write(tmp_path / "vectors", vocabulary, torch.from_numpy(states()).float())
    expected, variances = by_numpy(states(), ranked=True)
    rows, given, share = static_vectors.read(tmp_path / "vectors", 4, N + 5)
    np.testing.assert_allclose(rows[2 : N + 2].numpy(), expected[:, :4], atol=2e-5)
    assert share == pytest.approx(variances[:4].sum() / variances.sum(), rel=1e-4)
    assert [i for i, there in enumerate(given.tolist()) if not there] == [N + 2, N + 4]
    assert (rows[[0, 1, N + 2, N + 3, N + 4]] == 0).all()


class TestVocabulary:
    def tokenizer(self, tmp_path: Path, tokens: list[str]) -> Any:
        from transformers import BertTokenizer

        (tmp_path / "vocab.txt").write_text("\n".join(tokens) + "\n")
        return BertTokenizer(str(tmp_path / "vocab.txt"))

    def test_special_and_unused_entries_are_left_out(self, tmp_path: Path) -> None:
        tokens = ["[PAD]", "[unused0]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "dog", "##s", "[unused12]"]
        found = Vocabulary.of(self.tokenizer(tmp_path, tokens), 12)
        assert found == Vocabulary([2, 6, 7, 8], [0, 3, 4, 5], [3], [4], ranked=True)
        assert Vocabulary.of(self.tokenizer(tmp_path, tokens), 8).entries == [2, 6, 7]  # rows that the teacher has

    def test_the_alphabet_tells_of_no_frequency(self, tmp_path: Path) -> None:
        tokens = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", ".", "cat", "dog", "the"]
        assert not Vocabulary.of(self.tokenizer(tmp_path, tokens), 9).ranked

    def test_what_stands_around_a_text_is_the_tokenizers(self, tmp_path: Path) -> None:
        """As of GPT-2, nothing, and of T5, an end alone."""
        from tokenizers import Tokenizer
        from tokenizers.models import WordLevel
        from tokenizers.processors import TemplateProcessing
        from transformers import PreTrainedTokenizerFast

        ids = {"<unk>": 0, "</s>": 1, "b": 2, "a": 3}
        for template, after in (("$A", []), ("$A </s>", [1])):
            made = Tokenizer(WordLevel(ids, unk_token="<unk>"))
            made.post_processor = TemplateProcessing(single=template, special_tokens=[("</s>", 1)])
            tokenizer = PreTrainedTokenizerFast(tokenizer_object=made, unk_token="<unk>", eos_token="</s>")
            assert Vocabulary.of(tokenizer, 4) == Vocabulary([0, 2, 3], [1], [], after, ranked=True)


def test_what_no_teacher_can_give_is_refused() -> None:
    teacher = ModelInfo("teacher", 4, 32, 4, 40, 2, frozenset(Signal), "tokenizer")
    assert static_vectors.refusal(32, teacher) == ""
    assert "33 principal components" in static_vectors.refusal(33, teacher)
    few = ModelInfo("few", 4, 32, 4, 11, 2, frozenset(Signal), "tokenizer")
    assert static_vectors.refusal(10, few) == "" and "at most 10" in static_vectors.refusal(11, few)
    silent = ModelInfo("silent", 4, 32, 4, 40, 2, frozenset({Signal.LOGITS}), "tokenizer")
    assert "hidden states, which silent does not give" in static_vectors.refusal(8, silent)
