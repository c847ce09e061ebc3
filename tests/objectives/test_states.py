from dataclasses import replace

import pytest
import torch
from torch import nn

from harness.contracts import ModelInfo, Outputs, Want
from harness.registry import OBJECTIVES
from harness.testing.objective_cases import LAYERS, PAIRS, STUDENT, TEACHER, make, make_batch
from tests.objectives.second import SIZES, asked, dot, mean, minus, squared, times, unit

WIDER = replace(TEACHER, width=12)
DEEPER = replace(STUDENT, layers=3)  # so that both layers of the map are before its last


def weights(objective: nn.Module) -> list[torch.Tensor]:
    return [*objective.parameters()] or [torch.eye(8, dtype=torch.float64)] * 2


@pytest.mark.parametrize("teacher", [TEACHER, WIDER], ids=["same width", "wider"])
def test_pkd_is_its_formula(teacher: ModelInfo) -> None:
    objective, ours, theirs = asked("pkd", DEEPER, teacher)
    expected = 0.0
    for (own, other), weight in zip(LAYERS.pairs, weights(objective), strict=True):
        expected += mean(
            [
                squared(minus(unit(times(ours.hidden_states[own][i, 0].tolist(), weight)), unit(target)))
                for i, target in enumerate(theirs.hidden_states[other][:, 0].tolist())
            ]
        )
    assert objective(ours, theirs, make_batch()).item() == pytest.approx(expected, rel=1e-12)
    assert bool([*objective.parameters()]) == (teacher is WIDER)  # nothing is learned where nothing has to be


def test_pkd_leaves_the_last_layer_out_unless_there_is_no_other() -> None:
    wants = OBJECTIVES.get("pkd").wants
    assert wants(STUDENT, TEACHER, LAYERS) == (Want(hidden_states=frozenset({1})), Want(hidden_states=frozenset({2})))
    alone = replace(STUDENT, layers=1), TEACHER, replace(LAYERS, pairs=((1, 4),))
    assert wants(*alone) == (Want(hidden_states=frozenset({1})), Want(hidden_states=frozenset({4})))
    found = make("pkd", *alone)(
        Outputs(hidden_states={1: torch.tensor([[[3.0, 4.0]]])}),
        Outputs(hidden_states={4: torch.tensor([[[0.0, 2.0]]])}),
        make_batch(lengths=(1,)),
    )
    assert found.item() == pytest.approx(0.6**2 + 0.2**2)


def test_pkd_refuses_a_first_token_that_does_not_stand_for_the_text() -> None:
    refuse = OBJECTIVES.get("pkd").refuse
    assert "seen no other token" in refuse(replace(STUDENT, first_token_sees_all=False), TEACHER, PAIRS)
    assert "reads the two sentences apart" in refuse(replace(STUDENT, pair_encoding="compare"), TEACHER, PAIRS)


@pytest.mark.parametrize("teacher", [TEACHER, WIDER], ids=["same width", "wider"])
def test_hid_cosine_is_its_formula(teacher: ModelInfo) -> None:
    objective, ours, theirs = asked("hid_cosine", STUDENT, teacher)
    expected = 0.0
    for (own, other), weight in zip(LAYERS.pairs, weights(objective), strict=True):
        expected += mean(
            [
                1 - dot(unit(times(state, weight)), unit(target))
                for i, size in enumerate(SIZES)
                for state, target in zip(
                    ours.hidden_states[own][i, :size].tolist(),
                    theirs.hidden_states[other][i, :size].tolist(),
                    strict=True,
                )
            ]
        )
    assert objective(ours, theirs, make_batch()).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("student", [STUDENT, replace(STUDENT, embedding_width=6)], ids=["width", "embedding width"])
def test_embedding_mse_is_its_formula(student: ModelInfo) -> None:
    objective, ours, theirs = asked("embedding_mse", student, WIDER)
    (weight,) = objective.parameters()
    assert weight.shape == (12, student.embedding_width or 8)
    expected = mean(
        [
            squared(minus(times(state, weight), target)) / 12
            for i, size in enumerate(SIZES)
            for state, target in zip(
                ours.embeddings[i, :size].tolist(), theirs.embeddings[i, :size].tolist(), strict=True
            )
        ]
    )
    assert objective(ours, theirs, make_batch()).item() == pytest.approx(expected, rel=1e-12)
    assert torch.equal(next(make("embedding_mse").parameters()), torch.eye(8))
