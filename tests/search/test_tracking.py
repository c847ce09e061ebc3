"""Runs followed by an experiment tracker, beside what is shown and recorded."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from harness.search import tracking
from tests.conftest import Harness
from tests.results import done, records, refused, same_runs
from tests.search.builders import cell, plan, student_run

pytestmark = pytest.mark.usefixtures("no_figures")

STUDY = (
    "run", "--study", "objectives_vs_init", "--objectives", "vanilla_kd", "--tasks", "sentiment", "--inits", "random",
    "--trials", "1", "--seeds", "1", "--workers", "1", "--set", "epochs=2", "train_examples=64",
)  # fmt: skip


class Silent:
    """A listener that remembers what it is told to say."""

    def __init__(self) -> None:
        self.said: list[str] = []

    def note(self, sentence: str) -> None:
        self.said.append(sentence)

    def __getattr__(self, name: str) -> Any:
        return lambda *_: None


class Tracker:
    def __init__(self) -> None:
        self.logged: list[tuple[Mapping[str, Any], int]] = []
        self.finished = False

    def log(self, values: Mapping[str, Any], step: int) -> None:
        self.logged.append((values, step))

    def finish(self) -> None:
        self.finished = True


def test_every_run_has_its_tracker_with_each_point_once() -> None:
    trackers: dict[str, Tracker] = {}
    listener = tracking.Tracked(Silent(), plan([cell()]), lambda name: trackers.setdefault(name, Tracker()))
    one, other = student_run(seed=0), student_run(seed=1)
    points: list[Any] = [
        {"stage": "fine-tuning", "epoch": n, "loss": 1.0 / n, "selection": 0.5, "learning_rate": 0.1,
         "terms": {"kd": {"value": 2.0, "share": None}}}
        for n in (1, 2)
    ]  # fmt: skip
    for run in (one, other):
        listener.began(run)
    listener.epoch(one, points[0])
    listener.epoch(other, {"stage": "fine-tuning", "epoch": 1, "loss": 1.0, "step": 3, "steps": 9})  # within an epoch
    listener.epoch(one, {"note": "something happened"})
    listener.ended(one, {"status": "finished", "curve": points, "metrics": {"accuracy": 0.75}})
    listener.ended(other, {"status": "failed", "error": "the loss became nan"})
    first, second = trackers.values()
    assert [one.identity({}) in name and "seed 0" in name for name in trackers] == [True, False]
    assert [step for _, step in first.logged] == [1, 2, 2] and first.logged[2][0] == {"dev/accuracy": 0.75}
    told = dict(first.logged[0][0])
    assert told.pop("fine-tuning/seconds") >= 0
    assert told == {
        "fine-tuning/loss": 1.0, "fine-tuning/selection": 0.5, "fine-tuning/learning_rate": 0.1,
        "fine-tuning/epoch": 1, "fine-tuning/term/kd": 2.0,
    }  # fmt: skip
    assert second.logged == [] and first.finished and second.finished


def test_training_goes_on_where_the_tracker_fails() -> None:
    def unreachable(name: str) -> Any:
        raise ConnectionError("no such server")

    shown = Silent()
    listener = tracking.Tracked(shown, plan([cell()]), unreachable)
    for seed in (0, 1):
        listener.began(student_run(seed=seed))
        listener.ended(student_run(seed=seed), {"status": "finished"})
    assert shown.said == ["tracking ended, training goes on: ConnectionError: no such server"]


def test_no_server_is_waited_for_longer_than_a_minute_or_as_told(monkeypatch: Any, tmp_path: Path) -> None:
    """mlflow would try for minutes, and wandb would wait for ever at a run's end."""
    monkeypatch.setattr("os.environ", given := {**os.environ, "MLFLOW_HTTP_REQUEST_TIMEOUT": "5"})
    for library in ("mlflow", "wandb"):
        monkeypatch.setitem(tracking._OPENED, library, lambda *_: None)
        with tracking.tracked(library, plan([cell()]), tmp_path, Silent()):
            pass
    assert (given["MLFLOW_HTTP_REQUEST_TIMEOUT"], given["MLFLOW_HTTP_REQUEST_MAX_RETRIES"]) == ("5", "3")
    assert (given["WANDB_FINISH_TIMEOUT"], given["WANDB_FINISH_TIMEOUT_RAISES"]) == ("60", "true")


def test_a_library_that_is_missing_is_told_before_anything(call: Harness, tmp_path: Path, monkeypatch: Any) -> None:
    monkeypatch.setattr(tracking, "find_spec", lambda name: None)
    refused(call(*STUDY, "--out", str(tmp_path / "out"), "--track", "mlflow"), "mlflow", "pip install mlflow")
    assert not (tmp_path / "out").exists()


def test_tensorboard_holds_what_the_record_does(call: Harness, tmp_path: Path) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    out = tmp_path / "tracked"
    done(call(*STUDY, "--out", str(out), "--track", "tensorboard"))
    runs = records(out)
    folders = list((out / "track").iterdir())
    assert sorted(runs) == sorted(folder.name[-16:] for folder in folders) and runs
    for folder in folders:
        record = runs[folder.name[-16:]]
        read = EventAccumulator(str(folder)).Reload()
        for entry in record["curve"]:
            assert entry["learning_rate"] > 0
            for name in ("loss", "learning_rate"):
                found = {event.step: event.value for event in read.Scalars(f"{entry['stage']}/{name}")}
                assert found[entry["epoch"]] == pytest.approx(entry[name])
            for name, term in entry["terms"].items():
                found = {event.step: event.value for event in read.Scalars(f"{entry['stage']}/term/{name}")}
                assert found[entry["epoch"]] == pytest.approx(term["value"])
            assert len(read.Scalars(f"{entry['stage']}/seconds")) == len(record["curve"])
    untracked = tmp_path / "untracked"
    done(call(*STUDY, "--out", str(untracked)))
    assert not (untracked / "track").exists()
    same_runs(out, untracked)
