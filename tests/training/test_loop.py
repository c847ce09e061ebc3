"""The loop: best epoch, early stopping, stages, checkpoints, failures."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest
import torch
from torch import Tensor, nn

from harness.contracts import Batch, Outputs, Want
from harness.runs import StudentRun
from harness.seeds import derive_seed
from harness.training import loop
from harness.training.checkpoints import Timer
from harness.training.loop import Clock, Diverged, History, Stage, TrainingFailure, predict, train
from harness.training.optimisation import Optimisation
from harness.training.pruning import pruner
from tests.training.builders import CPU, Bag, a_run, every, examples, regime, settings

LOGITS = (Want(logits=True), Want())


class Labels(nn.Module):
    """Cross-entropy with the labels, as an objective with a parameter of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        loss = nn.functional.cross_entropy(student.logits * self.scale, batch.labels)
        return loss, {"labels": loss.detach()}


class Three(Labels):
    """A loss of 3, whatever the model says."""

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        loss = 3.0 + 0.0 * self.scale * student.logits.sum()
        return loss, {"labels": loss.detach()}


class Drawing(Labels):
    """A loss that draws, as plugins may: by torch, by Python's random and by numpy, which keeps every second normal."""

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        loss, _ = super().forward(student, teacher, batch)
        drawn = loss * (torch.rand(()) + random.random() + abs(numpy.random.normal()))
        return drawn, {"labels": drawn.detach()}


class Counting(Labels):
    """A loss that knows how often it was asked: as a number of its own, or in a buffer."""

    def __init__(self, buffered: bool) -> None:
        super().__init__()
        self.asked = 0
        self.known = [torch.zeros(())]
        if buffered:
            self.register_buffer("steps", torch.zeros(()))

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        if "steps" in self._buffers:
            self.steps += 1
        else:
            self.asked += 1
        return super().forward(student, teacher, batch)


class Killed(Exception):
    pass


class Given(nn.Module):
    """The example's logits by its id."""

    def __init__(self, *logits: tuple[float, float]):
        super().__init__()
        self.logits = torch.tensor(logits)

    def forward(self, batch: Batch, want: Want) -> Outputs:
        return Outputs(logits=self.logits[batch.ids])


@pytest.mark.parametrize("wrong", [math.nan, math.inf])
def test_logits_that_are_no_numbers_are_never_taken_for_a_class(wrong: float) -> None:
    """By argmax NaN would be the likeliest class. A class may be left out by -inf."""
    given = [(0.0, 1.0), (wrong, 2.0), (-math.inf, 3.0), (1.0, wrong)]
    with pytest.raises(Diverged, match="logits of 2 of 4 examples are not finite"):
        predict(Given(*given), examples(4), 3, settings(), CPU, Clock())
    right = [(0.0, 1.0), (4.0, 2.0), (-math.inf, 3.0), (1.0, 0.0)]
    assert predict(Given(*right), examples(4), 3, settings(), CPU, Clock()).tolist() == [list(row) for row in right]


def run(
    folder: Path,
    stages: list[tuple[str, int, bool]],
    select: Any = lambda model: 0.0,
    prune: Any = lambda scores: False,
    kill_after: int = -1,
    kill_at_step: int = -1,
    objective: Any = Labels,
    **changes: Any,
) -> tuple[Bag, History, list[nn.Module]]:
    """Train a Bag through (name, epochs, selects) stages; `kill_after` epochs or at a step the process 'dies' once."""
    torch.manual_seed(1)
    model, objectives = Bag(), [objective() for _ in stages]
    made = [Stage(n, o, LOGITS, e, s) for (n, e, s), o in zip(stages, objectives, strict=True)]
    heard: list[dict[str, Any]] = []

    def dying(scores: list[float]) -> bool:
        if sum("selection" in entry for entry in heard) == kill_after:
            raise Killed
        return bool(prune(scores))

    steps = 0

    def teacher(batch: Batch, want: Want) -> Outputs:
        nonlocal steps
        steps += 1
        if steps == kill_at_step:
            raise Killed
        return Outputs()

    given = regime(folder, settings(**changes), tell=heard.append, should_prune=dying)
    history = train(model, made, examples(60), teacher, select, given)
    return model, history, objectives


class Scores:
    """Hands out these selection scores, epoch by epoch."""

    def __init__(self, *scores: float):
        self.scores = list(scores)
        self.weights: list[Tensor] = []

    def __call__(self, model: nn.Module) -> float:
        self.weights.append(model.head.weight.detach().clone())  # type: ignore[union-attr, operator]
        return self.scores[len(self.weights) - 1]


def test_the_best_epochs_weights_are_handed_on_the_earliest_of_equals(tmp_path: Path) -> None:
    select = Scores(0.2, 0.9, 0.5, 0.9)
    model, history, _ = run(tmp_path, [("prediction", 4, True)], select)
    assert history.best["epoch"] == 2 and history.best["selection"] == 0.9
    assert torch.equal(model.head.weight, select.weights[1])


def test_patience_stops_the_stage_that_selects(tmp_path: Path) -> None:
    select = Scores(0.5, 0.6, 0.6, 0.1, 0.9)
    _, history, _ = run(tmp_path, [("prediction", 5, True)], select, patience=2)
    assert [e["epoch"] for e in history.curve] == [1, 2, 3, 4] and history.best["epoch"] == 2


def test_the_first_of_two_stages_trains_its_full_length_and_hands_on_its_last_weights(tmp_path: Path) -> None:
    select = Scores(0.3, 0.2)
    model, history, objectives = run(
        tmp_path, [("intermediate", 3, False), ("prediction", 2, True)], select, patience=1
    )
    assert [(e["stage"], e["epoch"]) for e in history.curve] == [
        ("intermediate", 1), ("intermediate", 2), ("intermediate", 3), ("prediction", 1), ("prediction", 2),
    ]  # fmt: skip
    assert [e["selection"] for e in history.curve] == [None, None, None, 0.3, 0.2]
    assert torch.equal(model.head.weight, select.weights[0])
    assert all(o.scale.item() != 1 for o in objectives)  # type: ignore[operator, union-attr]


@pytest.mark.parametrize("epoch", [1, 2, 3])
def test_a_killed_run_goes_on_with_the_same_result(tmp_path: Path, epoch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "CHECKPOINT_SECONDS", 0.0)
    stages = [("intermediate", 2, True), ("prediction", 3, True)]

    def select(model: nn.Module) -> float:
        return float(predict(model, examples(20, 9), 8, settings(), CPU, Clock()).softmax(1).std())

    whole, history, objectives = run(tmp_path / "whole", stages, select, objective=Drawing)
    with pytest.raises(Killed):
        run(tmp_path / "killed", stages, select, kill_after=epoch + 1, objective=Drawing)
    resumed, after, others = run(tmp_path / "killed", stages, select, objective=Drawing)
    assert after == history
    for ours, theirs in ((whole, resumed), (objectives[-1], others[-1])):  # a finished stage's objective is over
        theirs_state = theirs.state_dict()
        assert all(torch.equal(tensor, theirs_state[name]) for name, tensor in ours.state_dict().items())


@pytest.mark.parametrize("step", [2, 7, 10, 13, 23])
def test_a_run_killed_in_the_middle_of_an_epoch_goes_on_with_the_same_losses(
    tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Timer, "due", every(3))  # of the 8 steps of an epoch
    stages = [("general", 3, False)]
    whole, history, _ = run(tmp_path / "whole", stages, objective=Drawing)
    with pytest.raises(Killed):
        run(tmp_path / "killed", stages, kill_at_step=step, objective=Drawing)
    monkeypatch.setattr(loop, "AHEAD", 3)  # how many batches are made at once changes nothing either
    resumed, after, _ = run(tmp_path / "killed", stages, objective=Drawing)
    assert after == history
    assert all(torch.equal(tensor, resumed.state_dict()[name]) for name, tensor in whole.state_dict().items())


def test_schedule_and_mean_loss_go_by_the_steps_there_are_where_groups_are_larger_than_a_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = torch.tensor([0] * 21 + [1] * 19 + [2 + i // 3 for i in range(20)])  # two larger than a batch of 8
    data = replace(examples(60), groups=groups)
    monkeypatch.setattr("tests.training.test_loop.examples", lambda count: data)
    rates: list[float] = []
    update = Optimisation.update

    def seen(optimisation: Optimisation) -> None:
        update(optimisation)
        rates.append(optimisation.rate)

    monkeypatch.setattr(Optimisation, "update", seen)
    _, history, _ = run(tmp_path, [("prediction", 6, True)], objective=Three, schedule="linear", warmup_ratio=0.0)
    in_epochs = {len(data.batches(8, derive_seed("order", 0, 0), epoch)) for epoch in range(6)}
    assert len(in_epochs) > 1, "the case is none otherwise"
    assert [e["loss"] for e in history.curve] == [pytest.approx(3.0, abs=1e-6)] * 6
    assert rates == pytest.approx([0.01 * (len(rates) - step) / len(rates) for step in range(len(rates))])


def test_a_loss_that_is_not_finite_names_step_stage_and_term(tmp_path: Path) -> None:
    class Explosive(Labels):
        def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
            loss, terms = super().forward(student, teacher, batch)
            bad = loss * (float("inf") if self.scale != 1 else 1.0)
            return loss + bad, {**terms, "explosive": bad.detach()}

    with pytest.raises(TrainingFailure, match="inf at step 2 of stage prediction in term explosive"):
        run(tmp_path, [("prediction", 1, True)], objective=Explosive)


def test_training_learns_and_every_setting_acts(tmp_path: Path) -> None:
    base, history, _ = run(tmp_path / "base", [("prediction", 6, False)])
    assert history.curve[-1]["loss"] < 0.8 * history.curve[0]["loss"]
    for name, value in {
        "learning_rate": 0.02, "batch_size": 16, "schedule": "cosine", "warmup_ratio": 0.5, "weight_decay": 0.5,
        "gradient_clip": 0.01, "precision": "bfloat16",
    }.items():  # fmt: skip
        other, _, _ = run(tmp_path / name, [("prediction", 6, False)], **{name: value})
        assert not torch.equal(base.words.weight, other.words.weight), name


def test_a_pruner_stops_what_falls_behind(tmp_path: Path) -> None:
    before = [[0.5, 0.6, 0.7], [0.6, 0.7, 0.8]]
    prune = pruner(a_run(StudentRun, settings={"pruner": "median", "epochs": 3}, before=before))
    _, history, _ = run(tmp_path, [("prediction", 3, True)], Scores(0.55, 0.2, 0.2), prune=prune)
    # its best, 0.55, is not behind 0.55 after one epoch, but behind 0.65 after two
    assert history.pruned and len(history.curve) == 2


@pytest.mark.parametrize("buffered", [True, False])
def test_what_no_checkpoint_holds_is_told_and_none_is_written(
    buffered: bool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A run that went on without it would end with other numbers; one that begins anew does not."""
    monkeypatch.setattr(Timer, "due", every(3))
    told: list[dict[str, Any]] = []
    stage = Stage("labels", Counting(buffered), LOGITS, 2, True)
    asked = regime(tmp_path, settings(epochs=2), tell=told.append)
    train(Bag(), [stage], examples(64), lambda batch, want: Outputs(), lambda model: 0.0, asked)
    notes = [entry["note"] for entry in told if "note" in entry]
    assert asked.checkpoint.path.exists() == buffered == any("saved" in entry for entry in told)
    assert len(notes) == (not buffered)
    assert all("training changes Counting.asked, which checkpoints lack" in note for note in notes)
