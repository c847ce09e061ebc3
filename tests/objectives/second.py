"""What tests of objectives against a second implementation share: outputs in float64, and plain vectors of numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from harness.contracts import LayerMap, ModelInfo, Outputs
from harness.modeling.bases import Objective
from harness.testing.objective_cases import LAYERS, STUDENT, TEACHER, make, make_batch, make_outputs

SIZES = make_batch().mask.sum(1).tolist()  # real tokens of each example
Vector = Sequence[float]


def asked(
    name: str, student: ModelInfo = STUDENT, teacher: ModelInfo = TEACHER, layers: LayerMap = LAYERS, **settings: Any
) -> tuple[Objective, Outputs, Outputs]:
    """The objective, and random outputs of both sides with exactly what it wants."""
    objective = make(name, student, teacher, layers, **settings).double()
    ours, theirs = objective.wants(student, teacher, layers)
    batch = make_batch()
    made = make_outputs(student, ours, batch, 1, torch.float64), make_outputs(teacher, theirs, batch, 2, torch.float64)
    return (objective, *made)


def mean(numbers: Sequence[float]) -> float:
    return sum(numbers) / len(numbers)


def dot(a: Vector, b: Vector) -> float:
    return sum(x * y for x, y in zip(a, b, strict=True))


def unit(a: Vector) -> list[float]:
    return [x / math.sqrt(dot(a, a)) for x in a]


def minus(a: Vector, b: Vector) -> list[float]:
    return [x - y for x, y in zip(a, b, strict=True)]


def squared(a: Vector) -> float:
    return dot(a, a)


def times(vector: Vector, weight: Tensor) -> list[float]:
    """What a linear layer with this weight, (out, in), makes of the vector."""
    return [dot(vector, row) for row in weight.tolist()]


def softmax(scores: Vector) -> list[float]:
    exponentials = [math.exp(score) for score in scores]
    return [e / sum(exponentials) for e in exponentials]


def kl(p: Vector, q: Vector) -> float:
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def of_tokens(states: Tensor, one: Callable[[int, int], float]) -> float:
    """Mean of one(example, token) over the real tokens. states: (B, L, ...)."""
    return mean([one(example, token) for example, size in enumerate(SIZES) for token in range(size)])
