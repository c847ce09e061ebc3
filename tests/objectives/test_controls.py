from __future__ import annotations

import math

import pytest
import torch

from harness import pairing
from harness.contracts import Outputs
from harness.registry import OBJECTIVES
from harness.testing.objective_cases import LAYERS, SCORES, STUDENT, TEACHER, Want, make, make_batch


def loss(smoothing: float) -> float:
    # two examples of three classes: p = (1, 2, 1) / 4 with label 1, p = (1, 1, 6) / 8 with label 0
    logits = torch.tensor([[0.0, math.log(2), 0.0], [0.0, 0.0, math.log(6)]])
    batch = make_batch(torch.tensor([1, 0]), lengths=(1, 1))
    return float(make("label_smoothing", smoothing=smoothing)(Outputs(logits=logits), Outputs(), batch))


def test_label_smoothing_is_its_formula() -> None:
    # targets with e = 0.3: 0.7 + 0.1 on the label, 0.1 on each other class
    first = -(0.1 * math.log(1 / 4) + 0.8 * math.log(2 / 4) + 0.1 * math.log(1 / 4))
    second = -(0.8 * math.log(1 / 8) + 0.1 * math.log(1 / 8) + 0.1 * math.log(6 / 8))
    assert loss(0.3) == pytest.approx((first + second) / 2)


def test_at_its_ends_it_is_the_labels_and_the_even_distribution() -> None:
    assert loss(0.0) == pytest.approx((math.log(2) + math.log(8)) / 2)
    first = (2 * math.log(4) + math.log(2)) / 3
    second = (2 * math.log(8) + math.log(8 / 6)) / 3
    assert loss(1.0) == pytest.approx((first + second) / 2)


def test_it_never_runs_the_teacher_and_smooths_no_scores() -> None:
    assert OBJECTIVES.get("label_smoothing").wants(STUDENT, TEACHER, LAYERS) == (Want(logits=True), Want())
    said = pairing.refusal("label_smoothing", "one_stage", STUDENT, TEACHER, SCORES)
    assert said == "label_smoothing smooths over classes, but scores has scores"
