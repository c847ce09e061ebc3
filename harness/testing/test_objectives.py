"""What every objective must hold to, tested for whatever is registered: a new plugin needs no line here."""

from __future__ import annotations

import copy
import io
from dataclasses import dataclass, replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness import pairing
from harness.contracts import Batch, Hyperparameter, ModelInfo, Outputs, Signal, Task
from harness.data.sources import blank
from harness.data.tasks import CORPUS
from harness.errors import listed
from harness.modeling.bases import Objective
from harness.registry import OBJECTIVES
from harness.testing import chosen
from harness.testing.objective_cases import (
    CLASSES,
    LAYERS,
    LENGTHS,
    PAIRS,
    RANKED,
    SCORES,
    STUDENT,
    TEACHER,
    make,
    make_batch,
    make_masked_batch,
    make_outputs,
    make_pair_batch,
    make_ranked_batch,
    one_of,
    padded,
    padded_batch,
    tensors,
)
from harness.training import looks, machine


@dataclass(frozen=True)
class Case:
    """A pairing that an objective accepts."""

    objective: str
    teacher: ModelInfo
    task: Task

    @property
    def student(self) -> ModelInfo:
        return replace(STUDENT, labels=self.task.outputs, pair_encoding=self.teacher.pair_encoding)

    def batch(self) -> Batch:
        if self.task.corpus:
            return make_masked_batch()
        if self.task.pair:
            return make_pair_batch()
        if self.task.ranking:
            return make_ranked_batch()
        return make_batch() if self.task.classification else make_batch(torch.tensor([0.0, 5.0, 2.5, 3.2, 4.0, 1.0]))

    def refusal(self) -> str:
        procedure = "general" if self.task.corpus else "two_stage"
        return pairing.refusal(self.objective, procedure, self.student, self.teacher, self.task)

    def build(self, seed: int = 0, **settings: Any) -> Objective:
        """The objective, prepared as before training; on a corpus there are no labels to prepare with."""
        machine.seed(seed)
        built = make(self.objective, self.student, self.teacher, **settings)
        if not self.task.corpus:
            labels = self.batch().labels
            built.prepare(labels, len(labels))
        return built

    def outputs(self, dtype: torch.dtype = torch.float32, requires_grad: bool = False) -> tuple[Outputs, Outputs]:
        student, teacher = OBJECTIVES.get(self.objective).wants(self.student, self.teacher, LAYERS)
        return (
            make_outputs(self.student, student, self.batch(), 1, dtype, requires_grad),
            make_outputs(self.teacher, teacher, self.batch(), 2, dtype, requires_grad),
        )


def loss_of(objective: Objective, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
    machine.seed(5)  # for objectives that draw
    return looks.loss_of(objective, objective.name, student, teacher, batch)


NAMES = chosen(OBJECTIVES)
TASKS = (CLASSES, SCORES, RANKED, CORPUS)
OTHERS = (replace(TEACHER, name="wider", width=12), replace(TEACHER, name="heads", heads=4))


def pairing_of(name: str, task: Task, teacher: ModelInfo = TEACHER) -> Case:
    return Case(name, replace(teacher, labels=task.outputs), task)


PAIRINGS = [pairing_of(name, task) for name in NAMES for task in TASKS]
# A teacher of another size, on a corpus and on the first other task that the objective trains on: among these, sizes
# and tasks have nothing in common.
FIRST = {name: next((task for task in TASKS if not pairing_of(name, task).refusal()), CLASSES) for name in NAMES}
SIZED = [(name, task) for name in NAMES for task in dict.fromkeys((FIRST[name], CORPUS))]
PAIRINGS += [pairing_of(name, task, teacher) for name, task in SIZED for teacher in OTHERS]
# Of pairs read apart a model has a vector for each sentence, and otherwise only logits.
APART = replace(TEACHER, pair_encoding="compare")
PAIRINGS += [
    Case(name, replace(APART, width=width), PAIRS)
    for name in NAMES
    for width in (TEACHER.width, 12)
    if OBJECTIVES.get(name).needs <= {Signal.SENTENCE, Signal.LOGITS}
]
REFUSALS = {case: case.refusal() for case in PAIRINGS}
CASES = [case for case in PAIRINGS if not REFUSALS[case]]

each_name = pytest.mark.parametrize("name", NAMES)
each_case = pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c.objective}-{c.teacher.name}-{c.task.name}")
each_setting = pytest.mark.parametrize(
    ("name", "setting"),
    [(name, setting) for name in NAMES for setting in OBJECTIVES.get(name).hyperparameters],
)


@each_name
def test_is_declared_fully(name: str) -> None:
    kind = OBJECTIVES.get(name)
    assert kind.name == name
    assert kind.needs
    assert kind.stage in ("intermediate", "prediction")
    for setting, declared in kind.hyperparameters.items():
        assert declared.check(setting, declared.default) == declared.default


@each_name
def test_accepts_some_pairing_and_refuses_others_with_a_sentence(name: str) -> None:
    reasons = [reason for case, reason in REFUSALS.items() if case.objective == name]
    assert "" in reasons
    for reason in filter(None, reasons):
        assert name in reason and len(reason.split()) > 4 and "\n" not in reason


@each_case
def test_asks_for_nothing_it_does_not_declare(case: Case) -> None:
    kind = OBJECTIVES.get(case.objective)
    student, teacher = kind.wants(case.student, case.teacher, LAYERS)
    asked = {signal for want in (student, teacher) for signal, _ in want.parts()}
    assert student.parts() and asked == {signal.value for signal in kind.needs}


@each_case
def test_loss_is_a_finite_scalar(case: Case) -> None:
    loss = loss_of(case.build(), *case.outputs(), case.batch())
    assert loss.shape == (), f"the loss has the shape {tuple(loss.shape)}: return one number, such as a mean"
    assert loss.isfinite(), f"the loss is {loss.item()}: keep logarithms, roots and quotients away from zero"


@each_case
def test_gradient_reaches_the_student_and_never_the_teacher(case: Case) -> None:
    student, teacher = case.outputs(requires_grad=True)
    loss_of(case.build(), student, teacher, case.batch()).backward()
    reached = {key: t.grad is not None and bool(t.grad.any()) for key, t in tensors(student).items()}
    assert all(reached.values()), "a signal is asked of the student that no gradient comes back to"
    whole = all(t.grad.isfinite().all() for t in tensors(student).values() if t.grad is not None)
    assert whole, "the student's gradient is not finite, though the loss may be"
    moved = sorted({signal for (signal, _), t in tensors(teacher).items() if t.grad is not None and t.grad.any()})
    assert not moved, f"a gradient reaches the teacher's {listed(moved)}: detach it, as in teacher.logits.detach()"


@each_case
def test_reads_labels_only_where_it_says_so(case: Case) -> None:
    """Whoever trains without them gives none: see `labels` of the decorator."""
    kind = OBJECTIVES.get(case.objective)
    unlabelled = replace(case, task=replace(case.task, labelled=False))
    if case.task.corpus or (refused := unlabelled.refusal()):
        assert case.task.corpus or "label" in refused
        return
    batch = case.batch()
    without = replace(batch, labels=torch.from_numpy(blank(batch.labels.numpy())))
    expected, found = (
        loss_of(make(case.objective, case.student, case.teacher, **kind.without_labels), *case.outputs(), given)
        for given in (batch, without)
        if torch.manual_seed(0)
    )
    same = found.isfinite() and torch.equal(found, expected)
    assert same, "the loss reads labels: say labels=True in the decorator, so that it is refused where there are none"


@each_case
def test_leaves_what_it_is_given_unchanged(case: Case) -> None:
    """Teacher outputs come from a cache that all runs share."""
    student, teacher = case.outputs()
    before = copy.deepcopy((student, teacher))
    batch, batch_before = case.batch(), case.batch()
    loss_of(case.build(), student, teacher, batch)
    for given, kept in zip((student, teacher), before, strict=True):
        assert all(torch.equal(tensor, tensors(kept)[key]) for key, tensor in tensors(given).items())
    assert torch.equal(batch.ids, batch_before.ids) and torch.equal(batch.labels, batch_before.labels)
    assert torch.equal(batch.mask, batch_before.mask)
    if batch.targets is not None and batch_before.targets is not None:
        assert torch.equal(batch.targets, batch_before.targets)


@each_case
@pytest.mark.parametrize("noise", [1.0, 1000.0])
def test_more_padding_changes_nothing(case: Case, noise: float) -> None:
    student, teacher = case.outputs(torch.float64)
    expected = loss_of(case.build().double(), student, teacher, case.batch())
    found = loss_of(
        case.build().double(), padded(student, 3, noise), padded(teacher, 3, noise), padded_batch(case.batch(), 3)
    )
    why = "padding changes the loss: average over batch.real(states), the rows of real tokens, or by batch.mask"
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-12, msg=lambda told: f"{why}\n{told}")


@each_case
@pytest.mark.parametrize("example", [0, LENGTHS.index(1)], ids=["several tokens", "one token"])
def test_a_batch_of_one(case: Case, example: int) -> None:
    """The last batch of an epoch may be one. What compares examples learns nothing there, and breaks nothing."""
    built, batch = case.build(), one_of(case.batch(), example)
    student, teacher = OBJECTIVES.get(case.objective).wants(case.student, case.teacher, LAYERS)
    ours = make_outputs(case.student, student, batch, 1, requires_grad=True)
    loss = loss_of(built, ours, make_outputs(case.teacher, teacher, batch, 2), batch)
    loss.backward()
    assert loss.isfinite() and loss.shape == (), f"of one example the loss is {loss}: the last batch may be as small"
    whole = all(t.grad is None or t.grad.isfinite().all() for t in (*tensors(ours).values(), *built.parameters()))
    assert whole, "of one example, which the last batch may be, the gradient is not finite"


@each_case
def test_single_precision_agrees_with_double(case: Case) -> None:
    single = loss_of(case.build(), *case.outputs(torch.float32), case.batch())
    double = loss_of(case.build().double(), *case.outputs(torch.float64), case.batch())
    torch.testing.assert_close(single.double(), double.double(), rtol=1e-4, atol=1e-6)


def another(declared: Hyperparameter) -> Any:
    """A valid value other than the default."""
    if declared.choices:
        return next(choice for choice in declared.choices if choice != declared.default)
    if isinstance(declared.default, bool):
        return not declared.default
    return next(
        value
        for value in (declared.low, declared.high, declared.default + 1)
        if value is not None and value != declared.default
    )


@each_setting
def test_every_hyperparameter_changes_the_loss(name: str, setting: str) -> None:
    declared = OBJECTIVES.get(name).hyperparameters[setting]
    value = declared.check(setting, another(declared))

    def losses(case: Case, chosen: Any) -> list[float]:
        built = case.build(**{setting: chosen})  # twice, because a memory shows itself only in the second step
        return [loss_of(built, *case.outputs(), case.batch()).item() for _ in range(2)]

    cases = [case for case in CASES if case.objective == name]
    changed = any(losses(case, declared.default) != losses(case, value) for case in cases)
    assert changed, f"{setting} has no effect: the loss is the same with {declared.default} and with {value}"


@each_case
def test_own_parameters_receive_a_gradient(case: Case) -> None:
    built = case.build()
    student, teacher = case.outputs(requires_grad=True)
    loss_of(built, student, teacher, case.batch()).backward()
    for name, parameter in built.named_parameters():
        assert parameter.grad is not None and parameter.grad.any(), f"{name} is not trained by the loss"


@each_case
def test_state_goes_through_a_checkpoint(case: Case) -> None:
    trained, student, teacher = case.build(seed=0), *case.outputs(requires_grad=True)
    optimiser = torch.optim.SGD([*trained.parameters(), *tensors(student).values()], lr=0.1)
    for _ in range(2):
        optimiser.zero_grad()
        loss_of(trained, student, teacher, case.batch()).backward()
        optimiser.step()
    file = io.BytesIO()
    torch.save(trained.state_dict(), file)
    file.seek(0)
    resumed = case.build(seed=1)
    resumed.load_state_dict(torch.load(file, weights_only=True))
    for _ in range(2):
        assert torch.equal(
            loss_of(trained, student, teacher, case.batch()), loss_of(resumed, student, teacher, case.batch())
        )
