from dataclasses import replace
from itertools import pairwise

import pytest
import torch

from harness.contracts import ModelInfo, Outputs, Want
from harness.registry import OBJECTIVES
from harness.testing.objective_cases import LAYERS, STUDENT, TEACHER, make, make_batch
from tests.objectives.second import SIZES, asked, dot, mean, minus, squared, times, unit

WIDER = replace(TEACHER, width=12)


def kernel_mean(xs: list[list[float]], ys: list[list[float]]) -> float:
    """Mean of (x.y)^2 over all pairs."""
    return mean([dot(x, y) ** 2 for x in xs for y in ys])


def columns(states: torch.Tensor) -> list[list[float]]:
    """(L, D) -> D columns of length 1."""
    return [unit(column) for column in states.T.tolist()]


@pytest.mark.parametrize("teacher", [TEACHER, WIDER], ids=["same width", "wider"])
def test_nst_is_the_maximum_mean_discrepancy(teacher: ModelInfo) -> None:
    """By its kernel, of which Gram matrices are never made."""
    objective, ours, theirs = asked("nst", teacher=teacher)
    expected = 0.0
    for own, other in LAYERS.pairs:
        found = []
        for i, size in enumerate(SIZES):
            s, t = columns(ours.hidden_states[own][i, :size]), columns(theirs.hidden_states[other][i, :size])
            found.append(kernel_mean(t, t) + kernel_mean(s, s) - 2 * kernel_mean(s, t))
        expected += mean(found)
    assert objective(ours, theirs, make_batch()).item() == pytest.approx(expected, rel=1e-10)


def test_nst_of_columns_that_are_nought_has_a_finite_gradient() -> None:
    """As dropout leaves them in a text of one token."""
    student = torch.tensor([[[0.0, 1.0]]], requires_grad=True)
    one = replace(LAYERS, pairs=((1, 1),))
    found = make("nst", layers=one)(
        Outputs(hidden_states={1: student}), Outputs(hidden_states={1: torch.ones(1, 1, 2)}), make_batch(lengths=(1,))
    )
    found.backward()
    assert found.item() == pytest.approx(0.25) and student.grad is not None and student.grad.abs().max() < 100


@pytest.mark.parametrize("teacher", [TEACHER, WIDER], ids=["same width", "wider"])
def test_fsp_is_its_formula(teacher: ModelInfo) -> None:
    objective, ours, theirs = asked("fsp", teacher=teacher)
    pairs = ((0, 0), *LAYERS.pairs)
    maps = [*objective.parameters()] or [torch.eye(8, dtype=torch.float64)] * len(pairs)
    expected = 0.0
    for (one, first), (two, second) in pairwise(zip(pairs, maps, strict=True)):
        errors = []
        for i, size in enumerate(SIZES):
            before, after = (
                [times(state, weight) for state in ours.hidden_states[pair[0]][i, :size].tolist()]
                for pair, weight in ((one, first), (two, second))
            )
            theirs_before, theirs_after = (theirs.hidden_states[pair[1]][i, :size].tolist() for pair in (one, two))
            for a in range(teacher.width):
                flow, target = (
                    [mean([x[a] * y[b] for x, y in zip(xs, ys, strict=True)]) for b in range(teacher.width)]
                    for xs, ys in ((before, after), (theirs_before, theirs_after))
                )
                errors.append(squared(minus(flow, target)) / teacher.width)
        expected += mean(errors)
    assert objective(ours, theirs, make_batch()).item() == pytest.approx(expected, rel=1e-10)


def test_fsp_begins_with_the_embeddings() -> None:
    assert OBJECTIVES.get("fsp").wants(STUDENT, TEACHER, LAYERS) == (
        Want(hidden_states=frozenset({0, 1, 2})),
        Want(hidden_states=frozenset({0, 2, 4})),
    )
