"""Runs, cells and plans without a study, for tests that need no more of them than they name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.contracts import Row
from harness.planning.filed import keep
from harness.planning.plan import resolve
from harness.planning.planned import Cell, Plan
from harness.planning.request import Request
from harness.runs import BaseTeacher, Run, RunId, StudentRun
from tests.training.builders import a_run

Kind = TypeVar("Kind", bound=Run)
BASE = BaseTeacher(name="embedded", content="")


def student_run(**changes: Any) -> StudentRun:
    """A usual run from the embedded teacher, of no data and with no settings but those given."""
    return a_run(StudentRun, **{"init": "every", "teacher": BASE, "data": "", "settings": {}} | changes)


def cell(run: Run | None = None, name: str = "c", **changes: Any) -> Cell:
    """Of one trial and one seed. name: its id, and that of its search."""
    run = run or student_run()
    axes = {"task": "sst2", "metric": "accuracy", "student": "", "init": "", "objective": ""}
    found = {axis: getattr(run, axis, usual) for axis, usual in axes.items()}
    row = found.pop("objective")
    given = {"id": name, "search": name, "row": row, "refused": "", "space": {}, **found}
    return Cell(run=run, **{**given, **changes})


def plan(cells: Sequence[Cell], **changes: Any) -> Plan:
    """Of these cells, in a study of the embedded suite."""
    rows = [Row(name, name, name) for name in dict.fromkeys(one.row for one in cells)]
    axes = {
        axis: list(dict.fromkeys(getattr(one, axis[:-1]) for one in cells)) for axis in ("tasks", "students", "inits")
    }
    names = dict.fromkeys(("teacher", "label", "source", "corpus"), "embedded")
    empty: dict[str, Any] = {name: {} for name in ("checkpoints", "files", "examples", "defaults", "first", "teachers")}
    study = {"study": "objectives_vs_init", "profile": "quick", "procedure": "two_stage", "argument": ""}
    given = {**study, **names, **empty, **axes, "rows": rows, "outputs": {}, "plugins": [], "notices": []}
    return Plan(**{**given, "cells": cells, **changes})


def of_kind(found: Plan, kind: type[Kind]) -> dict[RunId, Kind]:
    """The runs of this kind that others of the plan start from."""
    return {run: first.run for run, first in found.first.items() if isinstance(first.run, kind)}


def asked(**more: Any) -> Request:
    """A request for the study of every objective and start."""
    return Request("objectives_vs_init", **more)


def kept(out: Path, **more: Any) -> Plan:
    """The plan of `asked`, written down."""
    found = resolve(asked(**more))
    keep(out, found)
    return found
