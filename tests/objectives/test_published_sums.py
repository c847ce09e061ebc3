"""Losses of the field that are sums of objectives, as they are typed, against their formulas written out."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F

from harness import combine
from harness.contracts import IGNORED, Batch, Outputs
from harness.testing.objective_cases import LAYERS, STUDENT, TEACHER, make_batch, make_masked_batch, make_outputs
from harness.training.sums import Sum
from tests.objectives.second import SIZES


def summed(expression: str, batch: Batch, layers: Any = LAYERS, **settings: Any) -> tuple[float, Outputs, Outputs]:
    """The loss of random outputs with the parameters that it starts with, and these outputs."""
    found = Sum(combine.parse(expression), STUDENT, TEACHER, layers, combine.recorded(settings)).double()
    ours, theirs = (
        make_outputs(model, want, batch, seed, torch.float64)
        for seed, (model, want) in enumerate(zip((STUDENT, TEACHER), found.wants(), strict=True))
    )
    return found(ours, theirs, batch)[0].item(), ours, theirs


def test_tinyberts_layers() -> None:
    """Jiao et al. (2020), Eqs. 6 to 9 with weights of 1: embeddings, then hidden states and attention of each layer."""
    found, ours, theirs = summed("embedding_mse+hid_seq+att_mse", make_batch())

    def squared(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> torch.Tensor:
        """Mean over all numbers of all examples, cut to their real tokens."""
        return torch.cat([(a - b).square().flatten() for a, b in pairs]).mean()

    # W_e and W_h start as the identity where the widths agree
    total = squared([(ours.embeddings[i, :n], theirs.embeddings[i, :n]) for i, n in enumerate(SIZES)])
    for m, g in LAYERS.pairs:
        hidden, attention = (ours.hidden_states[m], theirs.hidden_states[g]), (
            ours.attention_scores[m], theirs.attention_scores[g],
        )  # fmt: skip
        total += squared([(hidden[0][i, :n], hidden[1][i, :n]) for i, n in enumerate(SIZES)])
        total += squared([(attention[0][i, :, :n, :n], attention[1][i, :, :n, :n]) for i, n in enumerate(SIZES)])
    assert found == pytest.approx(total.item(), rel=1e-12)


def test_distilberts_three_losses() -> None:
    """Sanh et al. (2019), section 2, weighed as their code does: 5 soft + 2 masked + 1 cosine of the last layer."""
    batch, last = make_masked_batch(), type(LAYERS)(((2, 4),))
    settings = {"mlm_kd.soft_weight": 5 / 7, "mlm_kd.temperature": 2.0}
    found, ours, theirs = summed("7*mlm_kd+hid_cosine", batch, last, **settings)
    assert batch.targets is not None
    masked = F.nll_loss(ours.mlm_logits.log_softmax(1), batch.targets[batch.targets != IGNORED])
    p, q = (theirs.mlm_logits / 2).softmax(1), (ours.mlm_logits / 2).softmax(1)
    soft = 4 * (p * (p / q).log()).sum(1).mean()
    cosine = F.cosine_embedding_loss(
        ours.hidden_states[2][batch.mask], theirs.hidden_states[4][batch.mask], torch.ones(int(batch.mask.sum()))
    )
    assert found == pytest.approx((5 * soft + 2 * masked + cosine).item(), rel=1e-12)
