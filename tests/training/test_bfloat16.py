"""What bfloat16 changes: the rounding of a student's forward pass, and nothing of a loss."""

from __future__ import annotations

import copy
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification

from harness import combine
from harness.contracts import IGNORED, Batch, LayerMap, ModelInfo, Outputs, Signal, Want
from harness.evaluation.parameters import build_student
from harness.evaluation.speed import as_batch
from harness.modeling.signals import emit
from harness.registry import OBJECTIVES, STUDENTS
from harness.testing.objective_cases import tensors
from harness.training.loop import in_float32, precision
from harness.training.sums import Sum
from tests.small_models import small_batch, small_model
from tests.training.builders import CPU, settings
from tests.training.test_loop import Labels, run

STUDENT = ModelInfo("student", 2, 32, 4, 40, 3, frozenset(Signal), "words")
TEACHER = replace(STUDENT, name="teacher", layers=4)
LAYERS = LayerMap(((1, 2), (2, 4)))
ROUNDING = 2.0**-8  # half of the distance between two neighbours in bfloat16, relative


def batch(masked: bool) -> Batch:
    encoding = small_batch("bert", (9, 5, 7, 12, 3, 8, 8, 6), width=14)
    made = Batch(torch.arange(8), torch.arange(8) % 3, (encoding,))
    if not masked:
        return made
    asked = made.mask & (torch.arange(14) % 2 == 0)
    return replace(made, targets=torch.where(asked, (encoding["input_ids"] * 7 + 1) % 40, IGNORED))


def in_float64(outputs: Outputs) -> Outputs:
    found = Outputs()
    for (signal, layer), tensor in tensors(outputs).items():
        if layer < 0:
            setattr(found, signal, tensor.double())
        else:
            getattr(found, signal)[layer] = tensor.double()
    return found


def gradients(model: Any) -> Tensor:
    return torch.cat([p.grad.double().flatten() for p in model.parameters() if p.grad is not None])


@pytest.mark.parametrize("name", [name for name in OBJECTIVES.names() if OBJECTIVES.ships(name)])
def test_an_objective_is_as_near_to_float64_as_rounding_lets_it(name: str) -> None:
    """Loss and gradient of a student of two layers, each of which rounds several times."""
    masked = Signal.MLM_LOGITS in OBJECTIVES.get(name).needs
    head, seen = AutoModelForMaskedLM if masked else AutoModelForSequenceClassification, batch(masked)
    torch.manual_seed(0)
    objective = Sum(combine.parse(name), STUDENT, TEACHER, LAYERS, settings())
    objective.prepare(seen.labels, 8)
    ours, theirs = objective.wants()
    student, teacher = (small_model("bert", n, head, layers=2 * n, labels=3) for n in (1, 2))
    with torch.no_grad():
        taught = emit(teacher, seen.encodings[0], theirs, predicted=seen.predicted)
    exact, exactly = copy.deepcopy(student).double(), copy.deepcopy(objective).double()

    with precision(settings(precision="bfloat16"), CPU):
        said = emit(student, seen.encodings[0], ours, predicted=seen.predicted)
    torch.manual_seed(5)  # some draw which examples they compare
    loss, _ = objective(in_float32(said), taught, seen)
    loss.backward()
    torch.manual_seed(5)
    expected, _ = exactly(emit(exact, seen.encodings[0], ours, predicted=seen.predicted), in_float64(taught), seen)
    expected.backward()

    assert loss.dtype == torch.float32
    assert loss.item() == pytest.approx(expected.item(), rel=5 * ROUNDING)
    difference = gradients(student) - gradients(exact)
    assert difference.norm() < 10 * ROUNDING * gradients(exact).norm()


def test_a_loss_is_computed_in_float32_of_what_was_said_in_bfloat16(tmp_path: Path) -> None:
    heard: list[Tensor] = []

    class Listening(Labels):
        def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
            assert student.logits is not None
            heard.append(student.logits.detach())
            return super().forward(student, teacher, batch)

    run(tmp_path, [("prediction", 1, False)], objective=Listening, precision="bfloat16")
    assert {logits.dtype for logits in heard} == {torch.float32}
    assert all(torch.equal(logits, logits.bfloat16().float()) for logits in heard)


@pytest.mark.parametrize("name", [name for name in STUDENTS.names() if STUDENTS.ships(name)])
def test_what_a_student_says_of_its_precision_is_so(name: str) -> None:
    torch.manual_seed(0)
    student = build_student(name, {}, small_model("bert", 2, AutoModelForSequenceClassification).config.to_dict(), 3)
    texts = as_batch(torch.arange(5, 35).view(3, 10))
    with torch.no_grad():
        plain = student.eval()(texts, Want(logits=True)).logits
        with precision(settings(precision="bfloat16"), CPU):
            rounded = student(texts, Want(logits=True)).logits
    assert torch.equal(plain, rounded.float()) != student.autocasts
