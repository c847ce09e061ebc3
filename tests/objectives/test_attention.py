import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from harness.contracts import LayerMap, Outputs
from harness.registry import OBJECTIVES
from harness.testing.objective_cases import CLASSES, LAYERS, STUDENT, TEACHER, make, make_batch, make_outputs
from tests.objectives.second import kl, softmax

ONE_LAYER = LayerMap(((1, 3),))


def pair(name: str) -> tuple[Outputs, Outputs]:
    student, teacher = OBJECTIVES.get(name).wants(STUDENT, TEACHER, LAYERS)
    return (
        make_outputs(STUDENT, student, make_batch(), 1, torch.float64),
        make_outputs(TEACHER, teacher, make_batch(), 2, torch.float64),
    )


def kl_with_loops(student: Tensor, teacher: Tensor) -> float:
    """Mean over real queries and heads, keys limited to the real ones; student, teacher: (B, H, L, L)."""
    terms = [
        kl(*(softmax(side[example, head, query, :length].tolist()) for side in (teacher, student)))
        for example, length in enumerate(make_batch().mask.sum(-1).tolist())
        for head in range(2)
        for query in range(length)
    ]
    return sum(terms) / len(terms)


def test_att_mse_is_its_formula() -> None:
    student, teacher = pair("att_mse")
    expected = 0.0
    for ours, theirs in LAYERS.pairs:
        errors = [
            (
                student.attention_scores[ours][example, head, query, key].item()
                - teacher.attention_scores[theirs][example, head, query, key].item()
            )
            ** 2
            for example, length in enumerate(make_batch().mask.sum(-1).tolist())
            for head in range(2)
            for query in range(length)
            for key in range(length)
        ]
        expected += sum(errors) / len(errors)
    assert make("att_mse")(student, teacher, make_batch()).item() == pytest.approx(expected, rel=1e-12)


def test_att_kl_is_its_formula() -> None:
    student, teacher = pair("att_kl")
    expected = sum(
        kl_with_loops(student.attention_scores[ours], teacher.attention_scores[theirs]) for ours, theirs in LAYERS.pairs
    )
    assert make("att_kl")(student, teacher, make_batch()).item() == pytest.approx(expected, rel=1e-12)


def test_val_kl_is_its_formula() -> None:
    student, teacher = pair("val_kl")
    student_relations, teacher_relations = (
        {
            layer: torch.tensor(
                [
                    [
                        [
                            [sum(a * b for a, b in zip(row, other, strict=True)) / math.sqrt(4) for other in head]
                            for row in head
                        ]
                        for head in example
                    ]
                    for example in values.tolist()
                ],
                dtype=torch.float64,
            )
            for layer, values in outputs.values.items()
        }
        for outputs in (student, teacher)
    )
    expected = sum(kl_with_loops(student_relations[ours], teacher_relations[theirs]) for ours, theirs in LAYERS.pairs)
    assert make("val_kl")(student, teacher, make_batch()).item() == pytest.approx(expected, rel=1e-12)


def test_val_kl_takes_each_sides_own_head_width() -> None:
    """Values four times as wide, each number repeated and halved: V V^T unchanged, sqrt(d) doubled."""
    values = torch.randn(1, 2, 3, 4, dtype=torch.float64)
    wide = math.sqrt(2) * values.repeat(1, 1, 1, 4) / 2
    objective = make("val_kl", teacher=replace(TEACHER, width=32), layers=ONE_LAYER)
    found = objective(Outputs(values={1: values}), Outputs(values={3: wide}), make_batch(lengths=(3,)))
    assert found.item() == pytest.approx(0.0, abs=1e-12)


@pytest.mark.parametrize("name", ["att_kl", "att_mse"])
def test_large_scores_give_finite_losses_and_gradients(name: str) -> None:
    """Probabilities below the smallest float32: taken through exp and log these would be infinite."""
    student = torch.tensor([[[[500.0, -500.0], [0.0, 0.0]]]], requires_grad=True)
    teacher = torch.tensor([[[[-500.0, 500.0], [0.0, 0.0]]]])
    found = make(name, layers=ONE_LAYER)(
        Outputs(attention_scores={1: student}), Outputs(attention_scores={3: teacher}), make_batch(lengths=(2,))
    )
    found.backward()
    assert found.isfinite() and student.grad is not None and student.grad.isfinite().all() and student.grad.any()


@pytest.mark.parametrize("name", ["att_mse", "att_kl", "val_kl"])
def test_different_numbers_of_heads_are_refused(name: str) -> None:
    refuse = OBJECTIVES.get(name).refuse
    assert refuse(STUDENT, replace(TEACHER, width=32), CLASSES) == ""
    reason = refuse(STUDENT, replace(TEACHER, heads=4), CLASSES)
    assert "the student has 2" in reason and "teacher has 4" in reason
