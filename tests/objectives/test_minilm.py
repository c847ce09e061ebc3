import math
from dataclasses import replace

import pytest
from torch import Tensor

from harness.contracts import Want
from harness.registry import OBJECTIVES
from harness.testing.objective_cases import CLASSES, LAYERS, STUDENT, TEACHER, make, make_batch
from tests.objectives.second import SIZES, asked, dot, kl, mean, softmax


def relations(vectors: Tensor, heads: int) -> list[list[list[list[float]]]]:
    """Of each example and head the rows softmax(x_i X^T / sqrt(d)) over the real tokens. vectors: (B, H, L, D / H)."""
    found = []
    for example, size in enumerate(SIZES):
        rows = [[x for head in vectors[example, :, token].tolist() for x in head] for token in range(size)]
        width = len(rows[0]) // heads
        cut = [[row[h * width : (h + 1) * width] for row in rows] for h in range(heads)]
        found.append([[softmax([dot(x, y) / math.sqrt(width) for y in head]) for x in head] for head in cut])
    return found


def attention(scores: Tensor) -> list[list[list[list[float]]]]:
    return [
        [[softmax(scores[i, head, query, :size].tolist()) for query in range(size)] for head in range(scores.size(1))]
        for i, size in enumerate(SIZES)
    ]


def distance(theirs: list, ours: list) -> float:
    """Mean of KL over heads and real tokens."""
    return mean(
        [
            kl(p, q)
            for a, b in zip(theirs, ours, strict=True)
            for head, other in zip(a, b, strict=True)
            for p, q in zip(head, other, strict=True)
        ]
    )


def test_minilm_is_attention_and_values_of_the_last_layers() -> None:
    objective, ours, theirs = asked("minilm")
    expected = distance(attention(theirs.attention_scores[4]), attention(ours.attention_scores[2]))
    expected += distance(relations(theirs.values[4], 2), relations(ours.values[2], 2))
    assert objective(ours, theirs, make_batch()).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize(("asked_for", "student_heads", "heads"), [(4, 2, 4), (1, 2, 1), (48, 4, 4), (2, 8, 2)])
def test_minilmv2_is_three_relations_of_its_own_heads(asked_for: int, student_heads: int, heads: int) -> None:
    """48 divides neither width, 4 is the most of its divisors that does; teacher and student differ in heads."""
    teacher = replace(TEACHER, width=12, heads=3)
    objective, ours, theirs = asked(
        "minilmv2", replace(STUDENT, heads=student_heads), teacher, relation_heads=asked_for
    )
    expected = sum(
        distance(relations(getattr(theirs, signal)[4], heads), relations(getattr(ours, signal)[2], heads))
        for signal in ("queries", "keys", "values")
    )
    assert objective(ours, theirs, make_batch()).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["minilm", "minilmv2"])
def test_the_last_layers_whatever_the_map(name: str) -> None:
    for student, teacher in (OBJECTIVES.get(name).wants(STUDENT, TEACHER, replace(LAYERS, pairs=((1, 1), (2, 2)))),):
        assert student == Want.of(OBJECTIVES.get(name).needs, [2]) and teacher == Want.of(
            OBJECTIVES.get(name).needs, [4]
        )
    more = replace(TEACHER, heads=4)
    assert bool(OBJECTIVES.get(name).refuse(STUDENT, more, CLASSES)) == (name == "minilm")


def test_minilmv2_with_one_vector_a_head_is_the_head_by_head_relation_of_val_kl() -> None:
    """With as many relation heads as heads, the values' part is MiniLM's."""
    objective, ours, theirs = asked("minilmv2", relation_heads=2)
    for signal in ("queries", "keys"):
        setattr(theirs, signal, {4: getattr(ours, signal)[2]})  # equal: these two parts are 0
    values = make("val_kl", layers=replace(LAYERS, pairs=((2, 4),)))(ours, theirs, make_batch())
    assert objective(ours, theirs, make_batch()).item() == pytest.approx(values.item(), rel=1e-12)
