"""A run's curve in an experiment tracker, by accelerate's: told beside the display, no part of what a run is."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.planning.planned import Plan
from harness.runs import Run
from harness.runs.told import Entry, Record
from harness.search.driver import Listener

FOLDER = "track"  # in the folder of results
LENGTH = 200  # of a run's name, which is that of a folder, too
PATIENCE = {  # training waits for a server that does not answer, for about a minute where the environment says nothing
    "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "3",
    "MLFLOW_HTTP_REQUEST_TIMEOUT": "10",
    "WANDB_INIT_TIMEOUT": "60",
    "WANDB_FINISH_TIMEOUT": "60",  # otherwise it waits for ever
    "WANDB_FINISH_TIMEOUT_RAISES": "true",
}
VALUES = ("loss", "selection", "learning_rate", "tokens_per_second", "peak_memory_mib")  # of an entry


def check(library: str | None) -> None:
    """Raise UserError where the tracker's library is not installed."""
    if library and find_spec(library) is None:
        raise UserError(f"--track {library} needs {library}, which is not installed: pip install {library}")


@contextmanager
def tracked(library: str | None, plan: Plan, out: Path, listener: Listener) -> Iterator[Listener]:
    """The listener; with a library one whose every run is tracked under `out`, too."""
    if library is None:
        yield listener
        return
    for name in (name for name in PATIENCE if name.startswith(library.upper())):
        os.environ.setdefault(name, PATIENCE[name])
    with _accelerate():
        made = Tracked(listener, plan, _OPENED[library](plan.study, out / FOLDER))
        try:
            yield made
        finally:
            made.close()


@dataclass
class Tracked:
    """Passes on what a listener is told, and tracks it. Where the tracker fails, that is said once, and work goes on.

    open: a tracker for a run of this name; its `log` may be called until its `finish`, in turn with those of others.
    """

    listener: Listener
    plan: Plan
    open: Callable[[str], Any]
    runs: dict[str, _OfRun] = field(default_factory=dict)  # those that go on, by their ids
    failed: bool = False

    def started(self, done: int, wanted: int) -> None:
        self.listener.started(done, wanted)

    def note(self, sentence: str) -> None:
        self.listener.note(sentence)

    def began(self, run: Run) -> None:
        self.listener.began(run)
        self._try(lambda: self._of(run))

    def epoch(self, run: Run, entry: Entry) -> None:
        self.listener.epoch(run, entry)
        # A point of the curve, or progress over a corpus, whose steps count from its beginning.
        if "loss" in entry and "saved" not in entry and ("step" not in entry or "seconds_left" in entry):
            self._try(lambda: self._of(run).log(entry, time.monotonic()))

    def ended(self, run: Run, record: Record) -> None:
        self.listener.ended(run, record)
        self._try(lambda: self._ended(run, record))

    def close(self) -> None:
        """End the trackers of runs that did not end."""
        for one in self.runs.values():
            self._try(one.tracker.finish)
        self.runs = {}

    def _of(self, run: Run) -> _OfRun:
        name = run.identity(self.plan.defaults)
        if name not in self.runs:
            self.runs[name] = _OfRun(self.open(f"{run.title}, seed {run.seed}, {name}"))
        return self.runs[name]

    def _ended(self, run: Run, record: Record) -> None:
        one = self._of(run)
        for entry in record.get("curve", ()):  # what was told before an interruption, or is told at the end alone
            one.log(entry, None)
        one.end(record.get("metrics", {}))
        del self.runs[run.identity(self.plan.defaults)]

    def _try(self, work: Callable[[], Any]) -> None:
        if self.failed:
            return
        try:
            work()
        except Exception as error:  # whatever a server or a disk does, training goes on
            self.failed, self.runs = True, {}
            self.listener.note(f"tracking ended, training goes on: {type(error).__name__}: {error}")


@dataclass
class _OfRun:
    """The tracker of one run. last: when its last point was told, or it began."""

    tracker: Any
    last: float = field(default_factory=time.monotonic)
    told: set[tuple[str, int, bool]] = field(default_factory=set)  # stages, steps, and whether with terms
    step: int = 0

    def log(self, entry: Entry, now: float | None) -> None:
        """Track a point, once. now: in seconds, None if it is not known when it was reached."""
        self.step = int(entry.get("step") or entry["epoch"])
        stage = entry["stage"]
        point = (stage, self.step, "terms" in entry)
        if point in self.told:
            return
        self.told.add(point)
        found: dict[str, Any] = {name: entry.get(name) for name in VALUES}
        for name, term in entry.get("terms", {}).items():
            found |= {f"term/{name}": term["value"], f"share/{name}": term["share"]}
        if now is not None:
            found["seconds"], self.last = now - self.last, now
        found["epoch"] = entry["epoch"]
        self.tracker.log({f"{stage}/{name}": v for name, v in found.items() if v is not None}, step=self.step)

    def end(self, metrics: Mapping[str, object]) -> None:
        scores = {f"dev/{name}": value for name, value in metrics.items() if isinstance(value, (int, float))}
        if scores:
            self.tracker.log(scores, step=self.step)
        self.tracker.finish()


@contextmanager
def _accelerate() -> Iterator[None]:
    """The state that accelerate's trackers ask for: of no device, and gone afterwards unless it was there."""
    from accelerate import PartialState

    if PartialState._shared_state:
        yield
        return
    PartialState(cpu=True)
    try:
        yield
    finally:
        PartialState._reset_state()


def _tensorboard(study: str, folder: Path) -> Callable[[str], Any]:
    """A folder of events a run."""
    from accelerate.tracking import TensorBoardTracker

    return lambda name: _started(TensorBoardTracker(re.sub(r"[^\w.,=+*-]+", "_", name)[-LENGTH:], folder))


def _wandb(study: str, folder: Path) -> Callable[[str], Any]:
    """A run of the project that is called like the study; WANDB_MODE=offline keeps it in the folder."""
    from accelerate.tracking import WandBTracker

    class Unnumbered(WandBTracker):
        """wandb wants steps that only grow, where ours begin anew with every stage; a point tells its epoch."""

        def log(self, values: dict[str, Any], step: int | None = None, **more: Any) -> None:
            super().log(values, **more)

    def opened(name: str) -> Any:
        folder.mkdir(parents=True, exist_ok=True)
        return _started(Unnumbered(study, name=name[-128:], dir=str(folder), reinit="create_new"))

    return opened


def _mlflow(study: str, folder: Path) -> Callable[[str], Any]:
    """A run of the experiment that is called like the study, where MLFLOW_TRACKING_URI says, or in the folder."""
    import mlflow
    from accelerate.tracking import MLflowTracker

    if "MLFLOW_TRACKING_URI" not in os.environ:
        folder.mkdir(parents=True, exist_ok=True)
        mlflow.set_tracking_uri(f"sqlite:///{(folder / 'mlflow.db').resolve()}")
    where = None if "MLFLOW_TRACKING_URI" in os.environ else (folder / "mlflow").resolve().as_uri()

    class Several:
        """mlflow has one active run, ours are several at once: each is made active for as long as a point takes."""

        def __init__(self, name: str):
            self.name, self.run = name[-LENGTH:], None
            self.log({}, None)

        def log(self, values: dict[str, Any], step: int | None) -> None:
            one = MLflowTracker(study, where, run_id=self.run, run_name=self.name)
            _started(one)
            self.run = one.tracker.info.run_id
            one.log(values, step)
            one.finish()

        def finish(self) -> None:
            pass

    return Several


def _started(tracker: Any) -> Any:
    tracker.start()
    return tracker


_OPENED = {"tensorboard": _tensorboard, "mlflow": _mlflow, "wandb": _wandb}
