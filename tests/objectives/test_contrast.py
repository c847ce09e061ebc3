import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from harness.contracts import Outputs, Want
from harness.errors import UserError
from harness.objectives.contrast import draw_others, first_tokens
from harness.registry import OBJECTIVES
from harness.testing.objective_cases import CLASSES, LAYERS, SCORES, STUDENT, TEACHER, make, make_batch, make_outputs

SIZE = 20
LABELS = torch.arange(SIZE) % 3


def prepared() -> Any:
    torch.manual_seed(0)
    objective = make("hid_cls_contrast", width=16, negatives=5).double()
    objective.prepare(LABELS, SIZE)
    return objective


def both_outputs(seed: int = 1) -> tuple[Outputs, Outputs]:
    student, teacher = OBJECTIVES.get("hid_cls_contrast").wants(STUDENT, TEACHER, LAYERS)
    return (
        make_outputs(STUDENT, student, make_batch(), seed, torch.float64),
        make_outputs(TEACHER, teacher, make_batch(), seed + 1, torch.float64),
    )


def views(objective: Any, student: Outputs, teacher: Outputs) -> list[Tensor]:
    """Each side's normalised projections, (B, width)."""
    projected = [
        project(first_tokens(side)) for project, side in zip(objective.projections, (student, teacher), strict=True)
    ]
    return [(view / view.norm(dim=-1, keepdim=True)).detach() for view in projected]


def test_asks_for_every_layer_and_the_embeddings_of_both_sides() -> None:
    assert OBJECTIVES.get("hid_cls_contrast").wants(STUDENT, TEACHER, LAYERS) == (
        Want(hidden_states=frozenset({0, 1, 2})),
        Want(hidden_states=frozenset({0, 1, 2, 3, 4})),
    )
    student, _ = both_outputs()
    concatenated = first_tokens(student)
    assert concatenated.shape == (6, 24)
    assert torch.equal(concatenated[:, 8:16], student.hidden_states[1][:, 0])


def test_is_its_formula() -> None:
    objective, (student, teacher), batch = prepared(), both_outputs(), make_batch()
    memory = objective.memory.clone()
    torch.manual_seed(5)
    others = draw_others(objective.order, objective.block[:, batch.ids], 5)
    torch.manual_seed(5)
    found = objective(student, teacher, batch)

    expected = 0.0
    for side, view in enumerate(views(objective, student, teacher)):
        scores = [
            [
                sum(a * b for a, b in zip(memory[side, other].tolist(), view[i].tolist(), strict=True)) / 0.07
                for other in [i, *others[i].tolist()]
            ]
            for i in range(6)
        ]
        normaliser = sum(math.exp(s) for row in scores for s in row) / (6 * 6)
        for row in scores:
            data = [math.exp(s) / normaliser for s in row]  # times the size, which cancels in data / (data + noise)
            truth = [d / (d + 5) for d in data]
            expected -= (math.log(truth[0]) + sum(math.log(1 - h) for h in truth[1:])) / 6
    assert found.item() == pytest.approx(expected, rel=1e-10)


def test_normaliser_is_set_by_the_first_batch_and_kept() -> None:
    objective = prepared()
    objective(*both_outputs(1), make_batch())
    first = objective.log_z.clone()
    objective(*both_outputs(8), make_batch())
    assert first.isfinite().all() and torch.equal(objective.log_z, first)


def test_memory_of_the_batch_moves_half_way_to_the_other_side_and_the_rest_stays() -> None:
    objective, (student, teacher) = prepared(), both_outputs()
    before, ids = objective.memory.clone(), torch.tensor([3, 19, 7, 0, 11, 4])
    objective(student, teacher, replace(make_batch(), ids=ids))
    ours, theirs = views(objective, student, teacher)
    for side, new in ((0, theirs), (1, ours)):  # the student is compared with teachers, the teacher with students
        half_way = 0.5 * before[side, ids] + 0.5 * new
        torch.testing.assert_close(objective.memory[side, ids], half_way / half_way.norm(dim=-1, keepdim=True))
    untouched = torch.ones(SIZE, dtype=torch.bool)
    untouched[ids] = False
    assert torch.equal(objective.memory[:, untouched], before[:, untouched])


def test_memory_stays_when_evaluating() -> None:
    objective = prepared().eval()
    before = objective.memory.clone()
    objective(*both_outputs(), make_batch())
    assert torch.equal(objective.memory, before)


def test_training_brings_views_and_memories_together() -> None:
    objective, (student, teacher) = prepared(), both_outputs()
    optimiser = torch.optim.Adam(objective.parameters(), lr=0.01)
    ids = torch.arange(6)

    def agreement() -> float:
        ours, theirs = views(objective, student, teacher)
        return (ours * theirs).sum(-1).mean().item()

    before = agreement()
    for _ in range(50):
        optimiser.zero_grad()
        objective(student, teacher, replace(make_batch(), ids=ids)).backward()
        optimiser.step()
    assert agreement() > before + 0.3


@settings(deadline=None)
@given(
    labels=st.lists(st.integers(0, 4), min_size=2, max_size=40).filter(lambda found: len(set(found)) > 1),
    seed=st.integers(0, 2**31),
)
def test_negatives_never_share_the_label(labels: list[int], seed: int) -> None:
    known = torch.tensor(labels)
    objective: Any = make("hid_cls_contrast", width=8)
    objective.prepare(known, len(labels))
    torch.manual_seed(seed)
    drawn = draw_others(objective.order, objective.block, 30)
    assert drawn.shape == (len(labels), 30)
    assert (known[drawn] != known[:, None]).all()


def test_every_example_of_another_label_is_drawn_equally_often() -> None:
    objective = prepared()
    torch.manual_seed(0)
    drawn = draw_others(objective.order, objective.block, 20_000)
    for example in range(SIZE):
        others = LABELS[example] != LABELS
        shares = torch.bincount(drawn[example], minlength=SIZE)[others] / 20_000
        torch.testing.assert_close(shares, torch.full_like(shares, 1 / int(others.sum())), rtol=0.1, atol=0)


def test_needs_classes_and_more_than_one_of_them() -> None:
    refuse = OBJECTIVES.get("hid_cls_contrast").refuse
    assert refuse(STUDENT, TEACHER, CLASSES) == ""
    assert "class labels" in refuse(STUDENT, TEACHER, SCORES)
    with pytest.raises(UserError, match="all 4 examples have the same"):
        make("hid_cls_contrast").prepare(torch.ones(4, dtype=torch.long), 4)
