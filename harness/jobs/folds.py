"""The training of a model, its epoch chosen on examples held out, on dev, or by folds of its training data."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor, nn

from harness.contracts import Batch, Outputs, Want
from harness.data.encoding import Encoded
from harness.data.tasks import as_asked, get_task
from harness.jobs.examples import Examples
from harness.jobs.scoring import selector
from harness.runs import TaskRun
from harness.runs.told import Record, State
from harness.seeds import derive_seed
from harness.training import machine
from harness.training.checkpoints import Checkpoint
from harness.training.loop import History, Stage, TeacherOutputs, Tell, train
from harness.training.work import Work


@dataclass(frozen=True)
class Training:
    """How a run trains. stages: those of a training on given examples; teacher: what it says of all of the run's."""

    run: TaskRun
    work: Work
    stages: Callable[[Encoded], list[Stage]]
    teacher: TeacherOutputs

    def select(self, examples: Examples) -> Callable[[nn.Module], float]:
        """What epochs are chosen by, on the selection examples."""
        task = as_asked(get_task(self.run.task), self.run.settings)
        return selector(task, self.run, examples, self.work.clock)


def trained(model: nn.Module, examples: Examples, by: Training) -> History:
    """Train `model` in place, and leave it with the weights of the epoch that is chosen.

    Without folds that is the best on the selection examples. With folds the model is trained from its beginning on all
    of them but one, for each in turn; then on all, to the epoch at which the mean score over the folds was best. Stone,
    Cross-Validatory Choice and Assessment of Statistical Predictions (1974).
    """
    if examples.folds:
        return _by_folds(model, examples, by)
    data = examples.train
    return train(model, by.stages(data), data, by.teacher, by.select(examples), by.work.regime(by.run))


def told(history: History) -> Record:
    """What a record tells of a training. folds: the selection scores by epoch of each, where there were any."""
    record: Record = {"curve": history.curve, "best": history.best, "pruned": history.pruned}
    return record | ({"folds": history.folds} if history.folds else {})


@dataclass(frozen=True)
class _Part(Checkpoint):
    """The checkpoint of one of a run's trainings: `part` of them were finished, with these curves."""

    part: int
    curves: Sequence[Sequence[float]]

    def write(self, state: State) -> None:
        super().write({**state, "part": self.part, "curves": [list(curve) for curve in self.curves]})

    def read(self, tell: Tell) -> State | None:
        state = super().read(tell)
        return state if state and state["part"] == self.part else None


def _by_folds(model: nn.Module, examples: Examples, by: Training) -> History:
    regime = by.work.regime(by.run)
    whole, size = examples.train, len(examples.train)
    begun: dict[str, Any] = regime.checkpoint.read(regime.tell) or {"part": 0, "curves": []}
    curves: list[list[float]] = begun["curves"]
    beginning = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}

    def once(data: Encoded, made: list[Stage], part: int, chosen_on: Encoded, index: Tensor) -> History:
        model.load_state_dict(beginning)
        own = regime.checkpoint
        checkpoint = _Part(own.path, own.code, part, curves, device=own.device)
        select = by.select(replace(examples, selection=chosen_on))
        return train(model, made, data, _of_these(by.teacher, index), select, replace(regime, checkpoint=checkpoint))

    def fresh(data: Encoded) -> list[Stage]:
        machine.seed(derive_seed("objective", by.run.seed))  # what an objective learns begins alike
        return by.stages(data)

    for part, held in enumerate(examples.folds):
        if part < begun["part"]:
            continue
        kept = torch.ones(size, dtype=torch.bool)
        kept[held] = False
        index = kept.nonzero().flatten()
        data = whole.subset(index)
        data.ids = torch.arange(len(data))
        found = once(data, fresh(data), part, whole.subset(held), index)
        curves.append([e["selection"] for e in found.curve if e["selection"] is not None])
    means = [sum(scores) / len(scores) for scores in zip(*curves, strict=False)]  # of the epochs that all reached
    best = max(range(len(means)), key=means.__getitem__)
    made = [replace(s, selects=False, stops=best + 1) if s.selects else s for s in fresh(whole)]
    history = once(whole, made, len(examples.folds), examples.selection, torch.arange(size))
    chosen = [entry for entry in history.curve if entry["stage"] in {stage.name for stage in made if stage.stops}]
    for entry, mean in zip(chosen, means, strict=False):
        entry["selection"] = mean
    history.best, history.folds = chosen[best].copy(), curves
    return history


def _of_these(teacher: TeacherOutputs, index: Tensor) -> TeacherOutputs:
    """What the teacher says of the examples at these positions, whose ids are their places among them."""

    def outputs(batch: Batch, want: Want) -> Outputs:
        return teacher(replace(batch, ids=index[batch.ids]), want)

    return outputs
