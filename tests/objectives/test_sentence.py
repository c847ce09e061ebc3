import math
from dataclasses import replace

import pytest
import torch

from harness.contracts import Outputs
from harness.registry import OBJECTIVES
from tests.objectives.builders import CLASSES, STUDENT, TEACHER, make, make_batch


def loss(student: list[list[float]], teacher: list[list[float]]) -> float:
    batch = make_batch(lengths=(1,) * len(student))
    return make("cosine")(
        Outputs(sentence=torch.tensor(student, dtype=torch.float64)),
        Outputs(sentence=torch.tensor(teacher, dtype=torch.float64)),
        batch,
    ).item()


def test_is_half_of_one_minus_the_cosine() -> None:
    assert loss([[1.0, 0.0]], [[1.0, 0.0]]) == pytest.approx(0.0)
    assert loss([[1.0, 0.0]], [[0.0, 2.0]]) == pytest.approx(0.5)
    assert loss([[1.0, 0.0]], [[-3.0, 0.0]]) == pytest.approx(1.0)
    assert loss([[1.0, 0.0], [1.0, 0.0]], [[1.0, 1.0], [0.0, 1.0]]) == pytest.approx((0.5 - math.sqrt(0.125) + 0.5) / 2)


def test_length_of_the_vectors_does_not_matter() -> None:
    assert loss([[3.0, 4.0]], [[1.0, 7.0]]) == pytest.approx(loss([[0.3, 0.4]], [[50.0, 350.0]]))


def test_different_widths_are_refused() -> None:
    refuse = OBJECTIVES.get("cosine").refuse
    assert refuse(STUDENT, TEACHER, CLASSES) == ""
    assert "the student's is 8" in refuse(STUDENT, replace(TEACHER, width=12), CLASSES)
