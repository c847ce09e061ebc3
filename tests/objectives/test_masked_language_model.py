"""Masked-language-model objectives against values worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from typing import Any

import pytest
import torch

from harness import pairing
from harness.contracts import IGNORED, Batch, Outputs, Task, Want
from harness.data.tasks import CORPUS
from harness.testing.objective_cases import CLASSES, LAYERS, STUDENT, TEACHER, make, make_batch

MASK = torch.tensor([[1, 1, 1], [1, 1, 0]])
TARGETS = torch.tensor([[IGNORED, 2, IGNORED], [0, IGNORED, IGNORED]])  # row by row: 2, then 0
BATCH = Batch(torch.arange(2), torch.zeros(2), ({"input_ids": MASK, "attention_mask": MASK},), TARGETS)
OURS = [[0.0, log(2), log(5)], [log(3), 0.0, 0.0]]  # (P, V); probabilities 1/8 2/8 5/8 and 3/5 1/5 1/5
THEIRS = [[log(2), log(2), log(4)], [log(6), log(3), 0.0]]  # 1/4 1/4 1/2 and 6/10 3/10 1/10


def outputs(numbers: list[list[float]]) -> Outputs:
    return Outputs(mlm_logits=torch.tensor(numbers, dtype=torch.float64))


def loss(ours: Outputs, theirs: Outputs, **settings: Any) -> float:
    return float(make("mlm_kd", **settings)(ours, theirs, BATCH))


HARD = (-log(5 / 8) - log(3 / 5)) / 2
SOFT = (
    (1 / 4 * log((1 / 4) / (1 / 8)) + 1 / 4 * log((1 / 4) / (2 / 8)) + 1 / 2 * log((1 / 2) / (5 / 8)))
    + (6 / 10 * log((6 / 10) / (3 / 5)) + 3 / 10 * log((3 / 10) / (1 / 5)) + 1 / 10 * log((1 / 10) / (1 / 5)))
) / 2


@pytest.mark.parametrize("weight", [0.0, 0.3, 0.5, 1.0])
def test_golden_value(weight: float) -> None:
    expected = (1 - weight) * HARD + weight * SOFT
    assert loss(outputs(OURS), outputs(THEIRS), soft_weight=weight) == pytest.approx(expected, rel=1e-12)


def test_weights_are_equal_and_the_temperature_one_unless_given() -> None:
    assert loss(outputs(OURS), outputs(THEIRS)) == pytest.approx((HARD + SOFT) / 2, rel=1e-12)


def test_temperature_by_hand() -> None:
    """At T = 2 the probabilities are as the roots of the weights; the loss is multiplied by T^2."""

    def soft(weights: list[float]) -> list[float]:
        roots = [weight**0.5 for weight in weights]
        return [root / sum(roots) for root in roots]

    pairs = ((soft([2, 2, 4]), soft([1, 2, 5])), (soft([6, 3, 1]), soft([3, 1, 1])))
    expected = sum(p * log(p / q) for theirs, ours in pairs for p, q in zip(theirs, ours, strict=True)) / 2
    found = loss(outputs(OURS), outputs(THEIRS), soft_weight=1.0, temperature=2.0)
    assert found == pytest.approx(4 * expected, rel=1e-12)
    hard = loss(outputs(OURS), outputs(THEIRS), soft_weight=0.0, temperature=2.0)
    assert hard == pytest.approx(HARD, rel=1e-12)  # which knows no temperature


def test_the_gradient_by_hand() -> None:
    """Of the soft loss, T (p_S - p_T) / P; of the hard one, (p_S - y) / P."""
    ours = outputs(OURS)
    ours.mlm_logits.requires_grad_()
    make("mlm_kd", soft_weight=0.75)(ours, outputs(THEIRS), BATCH).backward()
    p, q = ours.mlm_logits.detach().softmax(-1), torch.tensor(THEIRS, dtype=torch.float64).softmax(-1)
    y = torch.tensor([[0.0, 0, 1], [1, 0, 0]], dtype=torch.float64)
    assert ours.mlm_logits.grad is not None
    torch.testing.assert_close(ours.mlm_logits.grad, (0.25 * (p - y) + 0.75 * (p - q)) / 2)


def test_masked_tokens_alone() -> None:
    objective = make("mlm")
    found = float(objective(outputs(OURS), Outputs(), BATCH))
    assert found == pytest.approx(HARD, rel=1e-12)
    assert exp(-found) == pytest.approx((5 / 8 * 3 / 5) ** 0.5)  # the geometric mean of what the truth was given
    assert type(objective).wants(STUDENT, TEACHER, LAYERS) == (Want(mlm_logits=True), Want())


@pytest.mark.parametrize("name", ["mlm", "mlm_kd"])
def test_a_batch_without_targets_is_a_mistake_of_the_program(name: str) -> None:
    with pytest.raises(TypeError, match="without targets"):
        make(name)(outputs(OURS), outputs(THEIRS), make_batch())


@pytest.mark.parametrize("name", ["mlm", "mlm_kd", "mlm_kd+hid_seq"])
def test_they_are_for_a_corpus_alone(name: str) -> None:
    def refusal(task: Task) -> str:
        student, teacher = (replace(model, labels=task.outputs) for model in (STUDENT, TEACHER))
        return pairing.refusal(name, "general" if task.corpus else "one_stage", student, teacher, task)

    assert refusal(CORPUS) == ""
    assert "masked text" in refusal(CLASSES)
