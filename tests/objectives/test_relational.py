import math
from dataclasses import replace
from itertools import permutations

import pytest
import torch
from torch import Tensor

from harness.contracts import Outputs
from harness.testing.objective_cases import TEACHER, make, make_batch, make_pair_batch
from tests.objectives.second import asked, dot, mean, minus, squared, unit

WIDER = replace(TEACHER, width=12)  # relations need no common width
RELATIONAL = ["rkd_distance", "rkd_angle", "similarity_preserving"]


def huber(x: float) -> float:
    return x * x / 2 if abs(x) <= 1 else abs(x) - 0.5


def distances(vectors: list[list[float]]) -> list[float]:
    found = [math.sqrt(squared(minus(a, b))) for a, b in permutations(vectors, 2)]
    return [d / mean(found) for d in found]


def angles(vectors: list[list[float]]) -> list[float]:
    return [dot(unit(minus(i, j)), unit(minus(k, j))) for i, j, k in permutations(vectors, 3)]


def gram(vectors: list[list[float]]) -> list[list[float]]:
    return [unit([dot(a, b) for b in vectors]) for a in vectors]


def expected_of(name: str, ours: list[list[float]], theirs: list[list[float]]) -> float:
    if name == "similarity_preserving":
        return sum(squared(minus(a, b)) for a, b in zip(gram(ours), gram(theirs), strict=True)) / len(ours) ** 2
    of = distances if name == "rkd_distance" else angles
    return mean([huber(x) for x in minus(of(ours), of(theirs))])


@pytest.mark.parametrize("name", RELATIONAL)
def test_is_its_formula(name: str) -> None:
    objective, ours, theirs = asked(name, teacher=WIDER)
    expected = expected_of(name, ours.sentence.tolist(), theirs.sentence.tolist())
    assert objective(ours, theirs, make_batch()).item() == pytest.approx(expected, rel=1e-12)


def loss(name: str, student: list[list[float]], teacher: list[list[float]]) -> Tensor:
    batch = make_batch(lengths=(1,) * len(student))
    return make(name)(Outputs(sentence=torch.tensor(student)), Outputs(sentence=torch.tensor(teacher)), batch)


@pytest.mark.parametrize("name", RELATIONAL)
def test_of_pairs_each_sentence_counts(name: str) -> None:
    vectors = [torch.randn(6, 2, width, dtype=torch.float64) for width in (8, 12)]
    expected = expected_of(name, *(v.reshape(12, -1).tolist() for v in vectors))
    found = make(name, teacher=WIDER)(*(Outputs(sentence=v) for v in vectors), make_pair_batch())
    assert found.item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", RELATIONAL)
@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_examples_that_are_alike_have_finite_gradients(name: str, scale: float) -> None:
    """A text may stand twice in a batch; and nothing may be known of any (scale 0)."""
    student = (scale * torch.randn(3, 8)).repeat(2, 1).requires_grad_()
    found = make(name)(Outputs(sentence=student), Outputs(sentence=torch.randn(3, 8).repeat(2, 1)), make_batch())
    found.backward()
    assert found.isfinite() and student.grad is not None and student.grad.abs().max() < 100


@pytest.mark.parametrize("name", RELATIONAL)
def test_a_batch_of_one_costs_nothing(name: str) -> None:
    assert loss(name, [[1.0, 2.0]], [[3.0]]).item() == pytest.approx(0.0, abs=1e-12)
