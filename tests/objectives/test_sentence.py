import math
from dataclasses import replace

import pytest
import torch

from harness.contracts import Outputs
from harness.registry import OBJECTIVES
from harness.testing.objective_cases import CLASSES, PAIRS, STUDENT, TEACHER, make, make_batch, make_pair_batch


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


def test_a_projection_is_learned_where_widths_differ_or_where_it_is_asked_for() -> None:
    wider, refuse = replace(TEACHER, width=12), OBJECTIVES.get("cosine").refuse
    assert refuse(STUDENT, TEACHER, CLASSES) == refuse(STUDENT, wider, CLASSES) == ""
    assert not [*make("cosine").parameters()], "the published form"
    assert make("cosine", projection="always").projection.weight.shape == (8, 8)
    needed = make("cosine", teacher=wider).double()
    assert needed.projection.weight.shape == (12, 8)
    ours = torch.randn(1, 8, dtype=torch.float64)
    theirs = ours @ needed.projection.weight.T  # what the projection makes of it, so the angle is 0
    assert needed(Outputs(sentence=ours), Outputs(sentence=3 * theirs), make_batch(lengths=(1,))).item() < 1e-12


def test_pair_cosine_is_the_squared_difference_of_the_two_cosines() -> None:
    student = torch.tensor([[[1.0, 0.0], [0.0, 2.0]], [[1.0, 0.0], [3.0, 0.0]]]).double()  # cosines 0 and 1
    teacher = torch.tensor([[[1.0, 0.0, 0.0], [1.0, 1.0, 0.0]], [[1.0, 0.0, 0.0], [-1.0, 0.0, 0.0]]]).double()
    # the teacher's cosines: that of 45 degrees, whose square is 1/2, and -1
    found = make("pair_cosine")(Outputs(sentence=student), Outputs(sentence=teacher), make_pair_batch())
    assert found.item() == pytest.approx((0.5 + 4.0) / 2)


def test_pair_cosine_is_refused_where_there_are_no_two_sentences() -> None:
    refuse, apart = OBJECTIVES.get("pair_cosine").refuse, replace(STUDENT, pair_encoding="compare")
    assert refuse(apart, replace(TEACHER, width=12), PAIRS) == ""
    assert "task classes has no pairs" in refuse(apart, TEACHER, CLASSES)
    for encoding in ("joint", "biattention"):
        assert f"reads a pair as {encoding}" in refuse(replace(STUDENT, pair_encoding=encoding), TEACHER, PAIRS)
