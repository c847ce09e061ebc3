"""How the work goes, for whoever watches: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import io
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from harness.errors import counted, plain, sentence
from harness.planning.planned import Plan
from harness.runs import Run
from harness.runs.told import Entry, Record
from harness.search.estimate import Meter, words

LINE_SECONDS = 30.0  # between lines on the progress of one run in a log
MEASURED = 60.0  # seconds after which it is said how long the rest takes
NOTEBOOK_SECONDS = 0.5  # between two drawings of the bar under a cell
NOTEBOOK_WIDTH = 110  # of that bar, in characters


class Display:
    """Counts runs, and tells how they go."""

    def __init__(self, plan: Plan, bar: Any = None):
        self.bar = bar
        self.own = {cell.run.kind for cell in plan.cells if not cell.refused}  # kinds of runs of cells
        self.done = self.failed = self.wanted = self.told = 0  # done: those that failed among them
        self.said = time.monotonic()
        self.meter = Meter(plan)
        self.begun = time.monotonic()
        self.measured = False  # said how long the rest takes
        self.bar_task = bar.add_task("starting", total=None, left="") if bar else None

    def started(self, done: int, wanted: int) -> None:
        self.done, self.wanted, self.begun = done, wanted, time.monotonic()
        self.meter.started((wanted - done) / max(wanted, 1))
        self._line(f"{counted(wanted - done, 'run')} of cells to do, {done} done before")
        if self.bar:
            self.bar.update(self.bar_task, completed=done, total=wanted)

    def began(self, run: Run) -> None:
        if run.kind in self.own:
            self.meter.began(run)
        elif self.bar:
            self.bar.update(self.bar_task, description=plain(f"{run.title}, which others start from"))
        else:
            self._line(f"{run.title} is begun, which others start from")

    def note(self, sentence: str) -> None:
        self._line(f"harness: {sentence}")

    def epoch(self, run: Run, entry: Entry) -> None:
        if "note" in entry:
            self.note(entry["note"])
            return
        if run.kind in self.own and not entry.keys() & {"step", "saved"}:
            self.meter.epoch(run)
            self._measure()
        state = plain(f"{run.title}: {entry['stage']} {entry['epoch']}, loss {entry['loss']:.4g}")
        if "step" in entry:
            state += f", step {entry['step']} of {entry['steps']}, {entry['tokens_per_second']:,.0f} tokens/s"
        if "seconds_left" in entry and (entry["epoch"], entry["step"]) > (1, 1):  # the first step is mostly set-up
            state += f", {_time(entry['seconds_left'])} left, {entry['peak_memory_mib'] / 1024:.1f} GiB at most"
        if self.bar:
            self.bar.update(self.bar_task, description=state)
        elif "step" in entry and time.monotonic() - self.said > LINE_SECONDS:
            self.said = time.monotonic()
            self._line(state)

    def ended(self, run: Run, record: Record) -> None:
        if record["status"] == "failed":
            self._line(f"FAILED {run.title}, seed {run.seed}: {record['error']}")
        elif run.kind not in self.own:
            scores = record.get("metrics", {})
            metric = getattr(run, "metric", "masked_cross_entropy")
            score = f", {metric} {scores[metric]:.3f}" if metric in scores else ""
            if "tokens_per_second" in record:
                score += f", {record['tokens_per_second']:,.0f} tokens/s, {record['peak_memory_mib'] / 1024:.1f} GiB"
            self._line(f"{run.title} ready in {record['seconds']:.0f} s{score}")
        if run.kind in self.own:
            self.done += 1
            self.failed += record["status"] == "failed"
            self.meter.ended(run)
            left = self._measure()
            if self.bar:
                self.bar.update(self.bar_task, completed=self.done, total=self.wanted)
            elif self.done * 20 // max(self.wanted, 1) > self.told:
                self.told = self.done * 20 // max(self.wanted, 1)
                about = f", {self.failed} failed" if self.failed else ""
                about += "" if left is None else f", about {words(left)} left"
                self._line(f"{self.done - self.failed} of {self.wanted} runs done{about}; last {run.title}")

    def _measure(self) -> float | None:
        """Seconds that are left, shown; after the first minute they are said, too."""
        left = self.meter.left() if self.done < self.wanted else 0.0
        if left is None:
            return None
        if self.bar:
            self.bar.update(self.bar_task, left=f"{words(left)} left")
        if not self.measured and time.monotonic() - self.begun > MEASURED:
            self.measured = True
            missing = counted(self.wanted - self.done, "run")
            self._line(f"as measured so far: about {words(left)} left for {missing} of cells")
        return left

    def _line(self, text: str) -> None:
        text = sentence(text)
        if self.bar:
            self.bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)


@contextmanager
def display(plan: Plan) -> Iterator[Display]:
    """A display on standard error: with a bar if that is a terminal, and in a notebook with one under the cell."""
    notebook = _in_notebook()
    if not (notebook or sys.stderr.isatty()):
        yield Display(plan)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn

    texts = (TextColumn("{task.fields[left]}"), TextColumn("{task.description}"))
    columns = (BarColumn(20), MofNCompleteColumn(), *texts)
    console = Console(stderr=True)
    if notebook:
        console = Console(file=io.StringIO(), width=NOTEBOOK_WIDTH, force_jupyter=False, no_color=True)
    bar = Progress(*columns, console=console, auto_refresh=not notebook)
    if notebook:
        yield Display(plan, _Cell(bar))
        return
    with bar:
        yield Display(plan, bar)


def _in_notebook() -> bool:
    """True in a cell of a notebook: the kernel's shell, not that of ipython in a terminal."""
    shell = getattr(sys.modules.get("IPython"), "get_ipython", lambda: None)()
    return type(shell).__name__ == "ZMQInteractiveShell"


class _Cell:
    """A bar under a notebook's cell, drawn there again as it grows. (rich's own asks for ipywidgets.)"""

    def __init__(self, bar: Any):
        from IPython.display import display as show

        self.bar, self.add_task, self.console, self.drawn = bar, bar.add_task, self, 0.0
        self._handle = show({"text/plain": ""}, raw=True, display_id=True)

    def update(self, task: Any, **changes: Any) -> None:
        self.bar.update(task, **changes)
        done = changes.get("completed") and changes["completed"] == changes.get("total")
        if done or time.monotonic() - self.drawn > NOTEBOOK_SECONDS:
            self.drawn = time.monotonic()
            console = self.bar.console
            with console.capture() as captured:
                console.print(self.bar.get_renderable())
            self._handle.update({"text/plain": captured.get().rstrip()}, raw=True)

    def print(self, text: str, **_: Any) -> None:
        print(text, file=sys.stderr, flush=True)


def _time(seconds: float) -> str:
    hours, minutes = divmod(round(seconds) // 60, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {round(seconds) % 60:02} s"
