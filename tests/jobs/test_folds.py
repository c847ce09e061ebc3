"""Protocol nested: folds that share nothing, an epoch chosen by their mean, and a model of all training examples."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from torch import nn

from harness.contracts import Batch, Outputs, Want
from harness.data.encoding import Encoded, folds
from harness.errors import UserError
from harness.jobs import folds as nested
from harness.jobs.examples import Examples
from harness.planning.cells import refused_folds
from harness.runs import JointStudentRun, Run, StudentRun, UntunedRun
from harness.runs.settings import FOLDS
from harness.seeds import derive_seed
from harness.training import loop, machine
from harness.training.loop import Clock, History, Stage, train
from tests.training.builders import CPU, Bag, a_run, every, examples, regime, settings
from tests.training.test_loop import LOGITS, Killed, Labels

COUNT, EPOCHS = 60, 3


@hypothesis_settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 2), min_size=FOLDS, max_size=60))
def test_every_example_is_in_one_fold_and_every_fold_has_its_share_of_each_class(labels: list[int]) -> None:
    classes = torch.tensor(labels)
    parts = folds(len(labels), "content", classes)
    assert sorted(torch.cat(parts).tolist()) == list(range(len(labels)))
    for label in range(3):
        counts = [int((classes[part] == label).sum()) for part in parts]
        assert max(counts) - min(counts) <= 1
    assert all(torch.equal(a, b) for a, b in zip(parts, folds(len(labels), "content", classes), strict=True))


@hypothesis_settings(max_examples=25, deadline=None)
@given(st.lists(st.integers(0, 9), min_size=30, max_size=60).filter(lambda groups: len(set(groups)) >= FOLDS))
def test_what_belongs_together_is_never_parted(groups: list[int]) -> None:
    of = torch.tensor(groups)
    parts = folds(len(groups), "content", torch.zeros(len(groups)), of)
    assert sum(len(set(of[part].tolist())) for part in parts) == len(set(groups)) and all(len(p) for p in parts)


def test_too_few_examples_are_refused() -> None:
    with pytest.raises(UserError, match="splits the training examples into 5 folds: 4 are too few"):
        folds(4, "content", torch.zeros(4))


def taught(batch: Batch, want: Want) -> Outputs:
    """A teacher that tells its examples by their ids, as one that is stored does."""
    seen.append((batch.ids.tolist(), batch.labels.tolist()))
    return Outputs()


seen: list[tuple[list[int], list[int]]] = []


@pytest.fixture(autouse=True)
def on_the_processor(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where there is a GPU."""
    monkeypatch.setattr(machine, "device", lambda: CPU)


def by_folds(folder: Path, teacher: Any = taught) -> tuple[Bag, History]:
    torch.manual_seed(1)
    model, whole = Bag(), examples(COUNT)
    parts = tuple(folds(COUNT, "content", whole.labels))
    given = Examples(whole, whole, whole.subset(torch.arange(0)), (examples(20, 9),), folds=parts)
    run = a_run(StudentRun, settings=settings(protocol="nested"))
    work: Any = SimpleNamespace(regime=lambda run: regime(folder, run.settings), clock=Clock())
    return model, nested.trained(model, given, nested.Training(run, work, lambda data: stages(), teacher))


def stages(stops: int | None = None) -> list[Stage]:
    first = Stage("intermediate", Labels(), LOGITS, 1, selects=False)
    return [first, Stage("prediction", Labels(), LOGITS, EPOCHS, selects=stops is None, stops=stops)]


def alone(folder: Path, data: Encoded, select: Any, stops: int | None = None) -> tuple[Bag, History]:
    """One training from the beginning, as the loop does it."""
    torch.manual_seed(1)
    model = Bag()
    torch.manual_seed(derive_seed("objective", 0))
    return model, train(model, stages(stops), data, lambda b, w: Outputs(), select, regime(folder, settings()))


def accuracy(data: Encoded) -> Any:
    def select(model: nn.Module) -> float:
        model.eval()
        answers = model(data.batch(torch.arange(len(data))), LOGITS[0]).logits.argmax(1)
        return float((answers == data.labels).float().mean())

    return select


def scores_of(history: History) -> list[float]:
    return [e["selection"] for e in history.curve if e["selection"] is not None]


def test_the_epoch_is_the_best_of_the_folds_mean_and_the_model_that_of_all_examples(tmp_path: Path) -> None:
    model, history = by_folds(tmp_path)
    whole, expected = examples(COUNT), []
    for number, held in enumerate(folds(COUNT, "content", whole.labels)):
        data = whole.subset(torch.tensor([i for i in range(COUNT) if i not in held.tolist()]))
        data.ids = torch.arange(len(data))
        expected.append(scores_of(alone(tmp_path / str(number), data, accuracy(whole.subset(held)))[1]))
    assert [pytest.approx(curve) for curve in expected] == history.folds
    means = [sum(scores) / FOLDS for scores in zip(*expected, strict=True)]
    best = means.index(max(means)) + 1
    assert (history.best["epoch"], history.best["selection"]) == (best, pytest.approx(max(means)))
    assert scores_of(history) == pytest.approx(means[:best])
    finished, _ = alone(tmp_path / "whole", whole, None, stops=best)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), finished.parameters(), strict=True))


def test_the_teacher_is_asked_of_the_examples_that_are_trained_on(tmp_path: Path) -> None:
    seen.clear()
    by_folds(tmp_path)
    labels = examples(COUNT).labels.tolist()
    assert all([labels[i] for i in ids] == told for ids, told in seen)
    per = (COUNT - COUNT // FOLDS) * (1 + EPOCHS)
    of_first: Sequence[int] = sum((ids for ids, _ in seen), [])[:per]
    assert set(of_first) == set(range(COUNT)) - set(folds(COUNT, "content", torch.tensor(labels))[0].tolist())


@pytest.mark.parametrize("step", [3, 40, 130])
def test_a_killed_run_goes_on_with_the_same_result(tmp_path: Path, step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop.Timer, "due", every(3))
    whole, history = by_folds(tmp_path / "whole")
    steps = 0

    def dying(batch: Batch, want: Want) -> Outputs:
        nonlocal steps
        steps += 1
        if steps == step:
            raise Killed
        return Outputs()

    with pytest.raises(Killed):
        by_folds(tmp_path / "killed", dying)
    assert steps == step
    model, after = by_folds(tmp_path / "killed", dying)
    assert (after.folds, after.best, after.curve) == (history.folds, history.best, history.curve)
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), whole.parameters(), strict=True))


@pytest.mark.parametrize(
    "run, reason",
    [
        (a_run(StudentRun), ""),
        (a_run(StudentRun, settings=settings(pruner="median")), "no pruner"),
        (a_run(StudentRun, settings=settings(augmentation="masking")), "texts made of the held-out examples"),
        (a_run(StudentRun, settings=settings(labels="none")), "needs labels"),
        (a_run(JointStudentRun, teacher="run"), "trained on one task"),
        (a_run(UntunedRun), "trained on one task"),
    ],
)
def test_what_cannot_be_chosen_by_folds_is_refused_with_a_reason(run: Run, reason: str) -> None:
    found = refused_folds(run, "random")
    assert reason in found and bool(reason) == bool(found)
    assert refused_folds(replace(a_run(StudentRun)), "multi_task")
