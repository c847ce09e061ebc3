"""How the work goes, for whoever watches: a bar on a terminal, plain lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class Display:
    """Counts runs; `write` takes a finished line, `paint` the current state."""

    def __init__(self, plan: Mapping[str, Any], bar: Any = None):
        self.plan, self.bar = plan, bar
        self.done = self.wanted = self.told = self.here = 0
        self.began = 0.0  # when the first student run began, for the time left
        self.bar_task = bar.add_task("starting", total=None) if bar else None

    def started(self, done: int, wanted: int) -> None:
        self.done, self.wanted = done, wanted
        self._line(f"{wanted - done} student runs to do, {done} done before")

    def epoch(self, specification: Mapping[str, Any], entry: Mapping[str, Any]) -> None:
        if specification["kind"] == "student":
            self.began = self.began or time.monotonic()
        if self.bar:
            self.bar.update(
                self.bar_task,
                description=f"{_name(specification)}: {entry['stage']} {entry['epoch']}, loss {entry['loss']:.4g}",
            )

    def ended(self, specification: Mapping[str, Any], record: Mapping[str, Any]) -> None:
        if record["status"] == "failed":
            self._line(f"FAILED {_name(specification)}, seed {specification['seed']}: {record['error']}")
        elif specification["kind"] != "student":
            score = (
                f", {specification['metric']} {record['metrics'][specification['metric']]:.3f}"
                if "metrics" in record
                else ""
            )
            self._line(f"{_name(specification)} ready in {record['seconds']:.0f} s{score}")
        if specification["kind"] == "student":
            self.done += 1
            self.here += 1
            left = (self.wanted - self.done) * (time.monotonic() - self.began) / self.here
            if self.bar:
                self.bar.update(self.bar_task, completed=self.done, total=self.wanted)
            elif self.done * 20 // max(self.wanted, 1) > self.told:
                self.told = self.done * 20 // max(self.wanted, 1)
                self._line(
                    f"{self.done} of {self.wanted} runs done, about {left:.0f} s left; last {_name(specification)}"
                )

    def _line(self, text: str) -> None:
        if self.bar:
            self.bar.console.print(text, highlight=False, markup=False)
        else:
            print(text, file=sys.stderr, flush=True)


@contextmanager
def display(plan: Mapping[str, Any]) -> Iterator[Display]:
    """A display on standard error: with a bar if that is a terminal."""
    if not sys.stderr.isatty():
        yield Display(plan)
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (BarColumn(20), MofNCompleteColumn(), TimeRemainingColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True)) as bar:
        yield Display(plan, bar)


def _name(specification: Mapping[str, Any]) -> str:
    if specification["kind"] == "student":
        return f"{specification['objective']} {specification['init']} {specification['task']}"
    if specification["kind"] == "teacher":
        return f"teacher {specification['teacher']['name']} on {specification['task']}"
    return f"pre-training of teacher {specification['teacher']['name']}"
