"""The driver: asks what each cell needs next, hands it to an executor, and records what comes back."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness.code_versions import changed, current, here
from harness.files import digest
from harness.ledger import Ledger
from harness.planning.planned import Cell, Plan, distinct
from harness.runs import Run, RunId
from harness.runs.messages import Began, Failed, Finished, Message, Noted, Refused, Told
from harness.runs.told import Entry, Record
from harness.search.index import Index
from harness.search.kept import Kept
from harness.search.progress import Progress, left
from harness.training.workspace import Workspace

if TYPE_CHECKING:
    import numpy as np

    from harness.search.database import View


class Executor(Protocol):
    """Where runs execute. `submit` queues, `next` waits for a message (see LocalExecutor.next), `close` stops.

    `prepare` comes where runs are likely to follow.
    """

    def prepare(self) -> None: ...
    def submit(self, run: RunId, specification: Any, workspace: Any) -> None: ...
    def next(self) -> Message: ...
    def close(self) -> None: ...


class Listener(Protocol):
    """Who is told how the work goes."""

    def started(self, done: int, wanted: int) -> None: ...
    def began(self, run: Run) -> None: ...
    def note(self, sentence: str) -> None: ...
    def epoch(self, run: Run, entry: Entry) -> None: ...
    def ended(self, run: Run, record: Record) -> None: ...


@dataclass
class Driver:
    """Brings every cell of a plan to its budget. The ledger is the only memory it needs between two starts.

    view: is shown the trials of a cell whenever they may have changed.
    refresh: what other code made is made anew, and replaces what is recorded. A run of today's code is made once, and
    so is one that diverged: the same code would come to the same. Any other that failed is tried again.
    keep: whose weights are, see `harness.search.kept`. wanted: runs of the plan's first whose weights are asked for by
    themselves, whatever is missing.
    """

    plan: Plan
    ledger: Ledger
    executor: Executor
    listener: Listener
    view: View | None = None
    refresh: bool = False
    keep: str = "none"
    wanted: Sequence[RunId] = ()
    failed: int = field(default=0, init=False)  # of the runs that `run` made, those that came to nothing
    _code: str = field(init=False)  # what a run that diverges is recorded with; "" where it cannot be told
    _index: Index = field(init=False)
    _kept: Kept = field(init=False)
    _running: dict[str, tuple[float, str]] = field(default_factory=dict)  # run -> (when it began, what it is)
    _flying: dict[RunId, Run] = field(default_factory=dict)
    _ended: set[str] = field(default_factory=set)  # runs that ended in this session: a failure there is final
    _whole: dict[str, bool] = field(default_factory=dict)  # run -> are its record's predictions there as recorded
    _weights: dict[str, bool] = field(default_factory=dict)  # run that others start from -> are its weights
    _waiting: dict[RunId, dict[str, Cell]] = field(default_factory=dict)  # run -> the cells that need it, by id

    def __post_init__(self) -> None:
        self._code = here(self.plan.plugins) or ""
        self._index = Index(self.ledger)
        self._kept = Kept(self.plan, self.ledger, self.keep)

    def run(self) -> int:
        """Work until nothing is missing. Returns how many runs were made, those that `failed` among them.

        Raises UserError when a worker met bad input or the disk is full; finished runs are kept.
        """
        made = 0
        found = [(cell, self.progress(cell)) for cell in distinct(self.plan.cells)]
        before = len({run for _, p in found for run, record in p.records if record["status"] != "failed"})
        if more := sum(left(cell, p) for cell, p in found):  # told before anything begins, which takes its time
            self.listener.started(before, before + more)
        self._make_first()
        for cell in self.plan.cells:
            self._advance(cell)
        self._kept.clear()
        if self._flying and not more:  # what cells once started from
            self.listener.started(before, before)
        while self._flying:
            message = self.executor.next()
            run, what = message.run, self._flying[message.run]
            if isinstance(message, Began):
                self._running[run] = time.time(), f"{what.title}, seed {what.seed}"
                self.ledger.note_running(self._running)
                self.listener.began(what)
                continue
            if isinstance(message, Told):
                self.listener.epoch(what, message.entry)
                continue
            if isinstance(message, Noted):
                self.listener.note(message.sentence)
                continue
            if isinstance(message, Refused):
                raise message.error()
            record, predictions = self._outcome(message, what)
            if record["status"] == "failed" and self._sound(run):  # a refresh
                self.listener.note(f"run {run} could not be made anew, its older number stays: {record['error']}")
            else:
                self.ledger.write(run, record, predictions)
            self.failed += record["status"] == "failed"
            made += 1
            del self._flying[run]
            self._whole.pop(run, None)
            self._weights.pop(run, None)
            self._running.pop(run, None)
            self.ledger.note_running(self._running)
            self._ended.add(run)
            self._kept.made(run)
            self.listener.ended(what, record)
            for cell in self._waiting.pop(run, {}).values():
                self._advance(cell)
            self._kept.clear()
            self._make_first()
            self._index.keep()
        self._index.save()
        return made

    def _sound(self, run: str) -> bool:
        """True if the run was finished before, and all that it left is there."""
        record = self.ledger.whole(run)
        left = run not in self.plan.first or not self.ledger.trouble_with_weights(run)
        return record is not None and record["status"] == "finished" and left

    def progress(self, cell: Cell) -> Progress:
        return self._index.progress(cell, self.plan.defaults, self._lookup)

    def _lookup(self, run: str) -> Record | None:
        record = self.ledger.read(run)
        if record is not None and run not in self._ended:
            diverged = bool(self._code) and record.get("diverged") == self._code
            if record["status"] == "failed" and (self.refresh or not diverged):
                return None  # in an earlier session: tried again
            if self.refresh and self._older(record):
                return None
        if run not in self._whole:
            self._whole[run] = self.ledger.whole(run) is not None
            if run in self.ledger.damaged:
                self.listener.note(self.ledger.damaged[run])
        return record if self._whole[run] else None

    def _older(self, record: Record) -> bool:
        """True if other code made the run or one that it starts from, or if that one has other weights since."""
        started = {run: was for run, was in record.get("started_from", {}).items() if run in self.plan.first}
        now = {run: digest((self.ledger.read(run) or {}).get("weights"))[:16] for run in started}
        return now != started or bool(changed(record, self._made_here, current(self.plan.origins)))

    def _made_here(self, run: str) -> Record | None:
        """The record of a run that this plan can make anew: of no other does age matter to `refresh`."""
        return self.ledger.read(run) if run in self.plan.first else None

    def _advance(self, cell: Cell) -> None:
        """Submit what the cell needs next, the runs it starts from first."""
        found = self.progress(cell)
        self._kept.note(cell, found)
        if self.view is not None:
            self.view.cell(cell, found)
        if found.missing and self._have(cell.after, cell):
            for run in found.missing:
                self._submit(run, cell)

    def _make_first(self) -> None:
        """Submit what others start from and has no record. Weights are looked at where a run is to start from them."""
        for run, first in self.plan.first.items():
            if self._lookup(run) is None and self._have(first.after, None):
                self._submit(first.run, None)
        self._have(self.wanted, None)

    def _have(self, runs: Iterable[str], cell: Cell | None) -> bool:
        """True if all of these runs of plan.first are finished; those that can begin are submitted."""
        found = [self._has(run, cell) for run in runs]  # every one is asked: what can begin, begins
        return all(found)

    def _has(self, run: RunId, cell: Cell | None) -> bool:
        record = self._lookup(run)
        if record is not None and record["status"] == "failed":
            return False
        if record is not None and self._has_weights(run):
            return True
        first = self.plan.first[run]
        if self._have(first.after, cell):
            self._submit(first.run, cell)
        return False

    def _outcome(self, message: Message, what: Run) -> tuple[Record, Mapping[str, np.ndarray] | None]:
        """(the record, the predictions) of a run that ended so. diverged: by which code."""
        if isinstance(message, Finished):
            return message.record, message.predictions
        assert isinstance(message, Failed)  # of the others none ends a run
        told = {"status": "failed", "error": message.error, "traceback": message.traceback}
        diverged = {"diverged": self._code} if message.diverged else {}
        return {**told, **diverged, "specification": what.specification()}, None

    def _has_weights(self, run: str) -> bool:
        """True if the weights that a finished run left are those recorded; otherwise, said once, it is made again."""
        if run not in self._weights:
            trouble = self.ledger.trouble_with_weights(run)
            if trouble:
                self.listener.note(f"the weights of run {run} {trouble}: the run is made again")
            self._weights[run] = not trouble
        return self._weights[run]

    def _submit(self, what: Run, cell: Cell | None) -> None:
        run = what.identity(self.plan.defaults)
        if cell is not None:
            self._waiting.setdefault(run, {})[cell.id] = cell
        if run not in self._flying:
            self._flying[run] = what
            workspace = workspace_of(self.plan, self.ledger.out, run, what, self.keep != "none")
            self.executor.submit(run, what.specification(), workspace)


def workspace_of(plan: Plan, out: Path, run: RunId, what: Run, keep: bool = False) -> Any:
    """Where a run of the plan finds what it needs. keep: its weights are wanted."""
    return Workspace(
        run=out / "ledger" / run,
        runs=out / "ledger",
        cache=out / "cache",
        source=plan.source,
        corpus=plan.corpus,
        files=plan.files,
        teacher=plan.source_of(what),
        plugins=tuple(plan.plugins),
        outputs=plan.outputs,
        keep=keep,
        declared=plan.declared,
    )
