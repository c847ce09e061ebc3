"""What GLUE's server said of submitted predictions. Nothing makes these numbers again: they are typed in, and kept."""

from __future__ import annotations

import csv
from collections.abc import Collection, Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.contracts import Task
from harness.data.tasks import get_task
from harness.errors import UserError, unknown
from harness.files import unsealed, write_sealed
from harness.ledger import Ledger

NAME = "test_scores.json"  # in the folder of results
COLUMNS = ("task", "metric", "score")
SIGNED = ("matthews", "pearson", "spearman")  # correlations, which may be below zero

Scores = dict[str, dict[str, dict[str, float]]]  # run -> task -> metric -> points


def read(path: Path, tasks: Collection[str]) -> dict[str, dict[str, float]]:
    """task -> metric -> points, of a CSV with the columns task, metric and score, the last as the server prints it.

    tasks: those there are. Raises UserError for a file or a line that is not that.
    """
    try:
        rows = path.read_text(encoding="utf-8-sig").splitlines()
        lines = list(csv.DictReader(rows, skipinitialspace=True, strict=True))
    except (OSError, ValueError, csv.Error) as error:
        raise UserError(f"--scores {path} cannot be read: {getattr(error, 'strerror', None) or error}") from error
    if not lines or any(None in line or None in line.values() or set(line) != set(COLUMNS) for line in lines):
        raise UserError(f"--scores {path} must be a CSV file of {', '.join(COLUMNS)}, with these as its header")
    found: dict[str, dict[str, float]] = {}
    for line in lines:
        name, metric, text = (line[column].strip() for column in COLUMNS)
        if name not in tasks:
            raise unknown("task of this plan", name, tasks)
        metrics = _metrics(get_task(name))
        if metric not in metrics:
            raise unknown(f"metric of {name}", metric, metrics)
        if metric in found.setdefault(name, {}):
            raise UserError(f"--scores {path} gives {metric} of {name} twice")
        found[name][metric] = _points(name, metric, text)
    return found


def _metrics(task: Task) -> list[str]:
    further = [split.removeprefix("dev_") for split in task.dev_splits[1:]]
    return [*task.metrics, *(f"{split}_{metric}" for split in further for metric in task.metrics)]


def _points(task: str, metric: str, text: str) -> float:
    low = -100.0 if any(name in metric for name in SIGNED) else 0.0
    try:
        points = float(text)
    except ValueError:
        points = float("nan")
    if not low <= points <= 100:
        raise UserError(f"{metric} of {task} must be {low:g} to 100 points, as the server prints it, not {text[:40]!r}")
    if 0 < abs(points) < 1:
        raise UserError(f"{metric} of {task} must be in points, as the server prints it: {100 * points:g}, not {text}")
    return points


def kept(ledger: Ledger) -> Scores:
    """What is kept beside a ledger; nothing where the file is damaged, which `ledger.damaged` then tells."""
    path = ledger.out / NAME
    try:
        found: Scores = unsealed(path.read_bytes())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, KeyError, TypeError):
        ledger.damaged[NAME] = f"{path} is damaged and ignored: remove it and give the scores to harness submit again"
        return {}
    return found


def keep(ledger: Ledger, scores: Mapping[str, Mapping[str, Mapping[str, float]]]) -> None:
    """Add scores to those kept, in place of earlier ones of the same run, task and metric.

    Raises UserError where those kept cannot be read: they are not written over.
    """
    found = kept(ledger)
    if NAME in ledger.damaged:
        raise UserError(ledger.damaged[NAME])
    for run, tasks in scores.items():
        for task, said in tasks.items():
            found.setdefault(run, {}).setdefault(task, {}).update(said)
    write_sealed(ledger.out / NAME, found)


def of_cells(plan: Any, ledger: Any, replays: Iterable[Any]) -> dict[str, dict[str, float]]:
    """Cell -> metric -> the score, a fraction, of the run that chose its setting. replays: the cells' progress."""
    if not isinstance(ledger, Ledger):  # of models that are only counted
        return {}
    scores = kept(ledger)
    found = {
        cell.id: scores.get(done.best.run, {}).get(cell.task, {})
        for cell, done in zip(plan.cells, replays, strict=True)
        if done.best
    }
    return {cell: {metric: points / 100 for metric, points in said.items()} for cell, said in found.items() if said}
