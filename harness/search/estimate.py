"""How long a plan may take: from runs like it in the ledger where there are any, otherwise from arithmetic."""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any

from harness.data.tasks import get_task
from harness.errors import counted
from harness.ledger import Ledger
from harness.planning.planned import Cell, Plan, distinct, runs_of
from harness.runs import Run, RunId, SpeedRun
from harness.runs.settings import FOLDS, Settings
from harness.runs.told import Record
from harness.search.progress import Progress, left
from harness.search.results import started_from, with_progress

RATE = 4e10  # operations a second of one CPU core on these models: an order of magnitude, no promise
STEP = 0.002  # seconds of a step that a layer takes however small it is
TOKENS = 32  # a typical sentence or pair
BESIDES = 0.5  # seconds of a run beside its training: its process, its evaluation


def estimate(plan: Plan, replays: Sequence[Progress], workers: int, ledger: Ledger | None = None) -> str:
    """A sentence on the time that the missing runs would take, those that cells start from apart.

    replays: the progress of every cell.
    """
    weight = defaultdict[str, float](float)
    for cell, found in with_progress(plan, replays):
        weight[_who(cell.run)] += _weight(cell, plan) * left(cell, found)
    before = _before(plan, replays, workers, ledger)
    if not any(weight.values()):
        return f"time: nothing for runs of cells{before}" if before else "time: nothing is missing"
    made = {run.run: (run, cell) for found, cell in zip(replays, plan.cells, strict=True)
            for run in found.runs if run.score is not None}  # fmt: skip
    pace = Pace()
    for run, cell in made.values():
        pace.took(run.made, float(run.record["seconds"]), _weight(cell, plan))
    how = f"as {counted(len(made), 'finished run')} took" if made else "from sizes alone: an order of magnitude"
    about, who = words(pace.of(weight) / workers), counted(workers, "worker")
    return f"time: about {about} with {who} ({how}){before}"


def to_make(plan: Plan, replays: Sequence[Progress], ledger: Ledger | None) -> list[RunId]:
    """The runs that cells start from which have no whole record, or lost the weights that a missing run starts from."""
    found = {run for run in plan.first if not _finished(ledger, run)}
    waiting = [run for cell, one in with_progress(plan, replays) if left(cell, one) for run in cell.after]
    waiting += [after for run in found for after in plan.first[run].after]
    while waiting:
        run = waiting.pop()
        if run in plan.first and run not in found and ledger is not None and not ledger.has_weights(run):
            found.add(run)
            waiting += plan.first[run].after
    return [run for run in started_from(plan, replays) if run in found]


def _finished(ledger: Ledger | None, run: RunId) -> Record | None:
    record = ledger.whole(run) if ledger else None
    return record if record and record["status"] == "finished" else None


def _before(plan: Plan, replays: Sequence[Progress], workers: int, ledger: Ledger | None) -> str:
    """What is to be said of the missing runs that cells start from: their time, as far as finished ones tell it."""
    lacking = [plan.first[run].run for run in to_make(plan, replays, ledger)]
    known = defaultdict[tuple[str, bool], list[float]](list)
    for name, first in plan.first.items():
        if record := _finished(ledger, name):
            known[_like(first.run)].append(record["seconds"] / _read(first.run, plan))
    told = [run for run in lacking if _like(run) in known]
    said = ""
    if told:
        each = [_read(run, plan) * sum(known[_like(run)]) / len(known[_like(run)]) for run in told]
        about, runs = words(sum(each) / min(workers, len(told))), counted(len(told), "run")
        said = f", and about {about} for {runs} that they start from (as finished ones like these took)"
    if more := len(lacking) - len(told):
        runs = counted(more, "run")
        said += f", and {runs} that they start from (teachers, distillations), whose time is not known yet"
    return said


def _like(run: Run) -> tuple[str, bool]:
    """Runs that cells start from take alike, by what they read, if they agree in this."""
    return run.kind, getattr(run, "evaluate_only", False)


def _read(run: Run, plan: Plan) -> float:
    """How many examples a run reads; 1 of one on a corpus, which is the same for all of a plan."""
    return float((run.settings.get("epochs") or 1) * sum(_examples(run, task, plan) for task in run.data_of) or 1)


class Pace:
    """How long runs take beside the arithmetic of their sizes: a student's by its own, others by all of them."""

    def __init__(self) -> None:
        self.seconds, self.weight = defaultdict[str, float](float), defaultdict[str, float](float)

    def took(self, run: Run, seconds: float, weight: float) -> None:
        self.seconds[_who(run)] += seconds
        self.weight[_who(run)] += weight

    def of(self, left: Mapping[str, float]) -> float:
        """Seconds that runs of so much weight of each student would take; the weight itself before any was measured."""
        whole = sum(self.weight.values())
        of_all = sum(self.seconds.values()) / whole if whole else 1.0
        own = {who: self.seconds[who] / weight for who, weight in self.weight.items() if weight}
        return sum(weight * own.get(who, of_all) for who, weight in left.items())


class Meter:
    """How long the rest of a plan takes, by what its runs have taken as they went on: each epoch counts.

    Runs differ in length by the arithmetic of their sizes. Those that cells start from are no part of it.
    """

    def __init__(self, plan: Plan):
        # what a run is -> (settings, weight, times that it trains its epochs) of each row: settings alone may differ
        self._by_run = defaultdict[tuple[str, ...], list[tuple[dict[str, Any], float, int]]](list)
        self._left = defaultdict[str, float](float)  # student -> the weight of its runs that have not ended
        for cell in distinct(plan.cells):
            times = cell.stages * (FOLDS + 1 if cell.run.settings.get("protocol") == "nested" else 1)
            weight = _weight(cell, plan)
            self._by_run[_what(cell.run)].append((cell.run.settings, weight, times))
            self._left[_who(cell.run)] += runs_of(cell) * weight
        self._going: dict[int, tuple[float, float, Run]] = {}  # id of a run -> (when it began, its share that is done)
        self._pace = Pace()  # of runs that ended
        self.most = 1  # runs at the same time

    def started(self, share: float) -> None:
        """Nothing has begun yet, and of all runs so large a share is left, whichever they are."""
        for who in self._left:
            self._left[who] *= share

    def began(self, run: Run) -> None:
        self._going[id(run)] = (time.monotonic(), 0.0, run)
        self.most = max(self.most, len(self._going))

    def epoch(self, run: Run) -> None:
        began, share, _ = self._going.get(id(run), (time.monotonic(), 0.0, run))
        self._going[id(run)] = (began, min(share + 1 / self._of(run)[1], 1.0), run)

    def ended(self, run: Run) -> None:
        weight = self._of(run)[0]
        self._left[_who(run)] -= weight
        if id(run) in self._going:
            began, *_ = self._going.pop(id(run))
            self._pace.took(run, time.monotonic() - began, weight)

    def left(self) -> float | None:
        """Seconds that the rest would take, what has been done of the runs that go on aside; None yet."""
        pace, left = deepcopy(self._pace), dict(self._left)
        for began, share, run in self._going.values():
            if share:
                part = share * self._of(run)[0]
                pace.took(run, time.monotonic() - began, part)
                left[_who(run)] -= part
        if not any(pace.weight.values()):
            return None
        return pace.of({who: max(weight, 0.0) for who, weight in left.items()}) / self.most

    def _of(self, run: Run) -> tuple[float, int]:
        """The weight and the epochs of a run: those of the row that has most of its settings: a search changes some."""
        rows = self._by_run.get(_what(run), [])
        alike = [sum(run.settings.get(k) == value for k, value in settings.items()) for settings, *_ in rows]
        _, weight, times = rows[alike.index(max(alike))] if rows else (None, 1.0, 1)
        return weight, times * int(run.settings.get("epochs") or 1)


def _who(run: Run) -> str:
    """The student of a run; of what has none, its kind."""
    return run.student_name or run.kind


def _what(run: Run) -> tuple[str, ...]:
    """What a run has in common with others of its cell, as far as their time goes."""
    return (run.kind, *(str(getattr(run, name, "")) for name in ("task", "tasks", "student", "objective")))


def _weight(cell: Cell, plan: Plan) -> float:
    """Seconds of one run: 6 operations a multiplication of reading a token, for forward and backward."""
    settings = cell.run.settings
    if isinstance(cell.run, SpeedRun):
        return float(settings["rounds"] * _round(cell.run))
    if "epochs" not in settings:
        return 1.0  # a cell that counts, or compares vectors
    examples = _examples(cell.run, cell.task, plan)
    layers, width = cell.size["layers"], cell.size["width"]
    operations = cell.size.get("operations", 12 * layers * width**2)  # a plan of an older version has none
    read = examples * settings["epochs"] * cell.stages
    read *= FOLDS if settings.get("protocol") == "nested" else 1  # all of its parts but one, then all of them
    steps = STEP * (1 + layers) * read / settings["batch_size"]
    return BESIDES + float(steps + 6 * operations * min(TOKENS, settings["max_length"]) * read / RATE)


def _examples(run: Run, task: str, plan: Plan) -> float:
    """How many examples of a task a run reads in an epoch."""
    known, settings = plan.examples.get(task, 0) or get_task(task).examples, Settings(run.settings)
    own = settings["train_fraction"] * min(settings["train_examples"] or known, known)
    return own if settings["augmentation"] == "none" else own * (1 + settings["augmentation_copies"])


def _round(run: SpeedRun) -> float:
    """Seconds of one round of a measurement: a turn of the model and one of the reference.

    A turn takes about TURN_SECONDS on whatever machine, or as long as a batch, of 2 operations a parameter and token
    on a processor. Of a student, whose size is not known here, the least is taken.
    """
    from harness.evaluation.speed import TURN_SECONDS
    from harness.training.machine import device

    settings, shapes = run.settings, [run.reference]
    shapes += [] if run.student else [run.configuration]
    sentences = settings["batch_size"] * (2 if get_task(run.task).pair else 1)
    # Of an encoder's layers, roughly.
    parameters = [12 * shape.get("num_hidden_layers", 0) * shape.get("hidden_size", 0) ** 2 for shape in shapes]
    operations = [2 * size * sentences * settings["max_length"] for size in parameters]
    batches = [work / RATE if device().type == "cpu" else 0.0 for work in operations]
    return sum(max(TURN_SECONDS, batch) for batch in [*batches, *[0.0] * (2 - len(batches))])


def words(seconds: float) -> str:
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}"
    return counted(round(seconds), "second")
