"""What a page tells of its cells beside their numbers: the runs behind each, and what these took."""

from __future__ import annotations

import statistics
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from harness.errors import listed
from harness.reports.tables.layout import Cell, Group, settings_of
from harness.reports.tables.quantities import scaled, written
from harness.reports.tables.shapes import Table

POINTS = 40  # of a learning curve that is drawn as small as a line of text


def cells(table: Table) -> dict[str, Any]:
    """Cell -> its name and the runs that made it, as JSON; run -> its learning curve. Nothing here was measured.

    name: row, student, initialisation, task; metric: that of the scores; seeds: run, seed, score, best epoch; trials:
    run, setting, score by which it was selected, what became of it. curves: losses, scores (x 100, None where an epoch
    was not scored) and the stages, each with its epochs.
    """
    found: dict[str, Any] = {}
    curves: dict[str, Any] = {}
    rows: dict[str, dict[str, None]] = {}  # of a cell
    tried = _trials(table)
    for _, line in table.all_lines():
        for entry, column in zip(line.entries, table.columns, strict=True):
            if not entry.cell or not (entry.runs or entry.cell in tried):
                continue
            rows.setdefault(entry.cell, {})[line.row.label] = None
            if entry.cell in found:  # of another metric of its task, or of a row that comes to the same runs
                continue
            found[entry.cell] = {
                "name": ["", line.student, line.init, column.label if column.task else ""],
                "metric": column.metric.replace("_", " "),
                "setting": "; ".join(settings_of(entry)),
                "seeds": [
                    [
                        run.run,
                        run.seed,
                        _text(column.metric, run.metrics.get(column.metric)),
                        (run.record.get("best") or {}).get("epoch", ""),
                    ]
                    for run in entry.runs
                ],
                "trials": tried.get(entry.cell, []),
            }
            curves |= {run.run: curve for run in entry.runs if (curve := _curve(run.record))}
    for cell, labels in rows.items():
        found[cell]["name"][0] = listed(labels)
    return {"cells": found, "curves": curves}


def _trials(table: Table) -> dict[str, list[list[str]]]:
    """Cell -> of each setting tried: the run, the setting, what it scored, what became of it."""
    found: dict[str, dict[tuple[int, str], list[str]]] = {}  # by number and run: rows may share a cell
    for row in table.runs:
        if row["part"] == "trial":
            became = "chosen" if row["chosen"] else "stopped early" if row["pruned"] else ""
            became = "failed" if row["status"] == "failed" else became
            setting = [f"{name} = {value}" for name, value in sorted((row["hyperparameters"] or {}).items())]
            setting += [f"seed {row['seed']}"] * row["by_seed"]
            told = [row["run"], "; ".join(setting), _text("", row["selection"]), became]
            found.setdefault(row["cell"], {})[row["trial"], row["run"]] = told
    return {cell: [*trials.values()] for cell, trials in found.items()}


def _text(metric: str, value: float | None) -> str:
    return "" if value is None else written(metric, scaled(metric, value))


def _curve(record: Mapping[str, Any]) -> list[Any]:
    """[losses, scores, [stage, epochs] of each stage], at most POINTS of them; [] where the run has no curve."""
    curve = [point for point in record.get("curve") or () if "loss" in point]
    stages = Counter(point["stage"] for point in curve)
    step = max(1, -(-len(curve) // POINTS))
    shown = curve[::-1][::step][::-1]  # with the last
    scores = [None if point.get("selection") is None else round(100 * point["selection"], 1) for point in shown]
    return [[float(f"{point['loss']:.3g}") for point in shown], scores, [*stages.items()]] if shown else []


# ---------------------------------------------------------------- what was measured


def measured(table: Table) -> dict[str, list[float]]:
    """Run of the table -> its seconds and its peak memory in MiB, as far as its record tells them."""
    return {
        run: [round(record["seconds"], 1), round(record.get("peak_memory_mib") or 0)]
        for run, record in sorted(_timed(table).items())
    }


def made(table: Table) -> list[tuple[str, str]]:
    """(what, how much) of all runs together: hours, memory, machines, versions; nothing where no run tells of it."""
    before = {run: record for run, record in table.before.items() if "seconds" in record}
    timed = list({**before, **_timed(table)}.values())
    if not timed:
        return []
    seconds = [record["seconds"] for record in timed]
    told = {
        "Runs": f"{len(timed) - len(before)} in the cells"
        + (f", {len(before)} that these start from, as teachers" if before else ""),
        "Time": f"{_duration(sum(seconds))} in all runs together, of which "
        f"{_duration(sum(record.get('model_seconds') or 0 for record in timed))} in the models; a run "
        f"{_duration(statistics.median(seconds))} (median), {_duration(max(seconds))} at most",
        "Peak memory": f"{max(record.get('peak_memory_mib') or 0 for record in timed):,.0f} MiB in one run",
        "Device": _named(record.get("device") for record in timed),
        "Machine": _named(record.get("made_on", {}).get("machine") for record in timed),
        "Harness": _named(record.get("made_on", {}).get("harness") for record in timed),
        "Ended": _days(record.get("made_on", {}).get("ended") for record in timed),
        "Versions": _named(
            ", ".join(f"{name} {number}" for name, number in sorted(record.get("versions", {}).items()))
            for record in timed
        ),
    }
    return [(what, text) for what, text in told.items() if text]


def costs(table: Table) -> Group:
    """A line for each row of the table: its runs, their seconds (median, all), their largest memory."""
    own = {run: record for run, record in _timed(table).items() if run not in table.before}
    by_row: dict[str, dict[str, Mapping[str, Any]]] = {}
    rows = table.rows()
    for row in table.runs:
        if row["run"] in own:
            by_row.setdefault(row["row"], {})[row["run"]] = own[row["run"]]
    lines = []
    for name, runs in by_row.items():
        seconds = [record["seconds"] for record in runs.values()]
        memory = max(record.get("peak_memory_mib") or 0 for record in runs.values())
        numbers = (str(len(runs)), f"{statistics.median(seconds):,.1f}", f"{sum(seconds):,.0f}", f"{memory:,.0f}")
        lines.append((Cell(rows[name].label), *map(Cell, numbers)))
    return Group("", tuple(lines))


def _timed(table: Table) -> dict[str, Mapping[str, Any]]:
    """Every run in the table's cells that tells its time, once."""
    return {row["run"]: row["record"] for row in table.runs if "seconds" in (row["record"] or ())}


def _named(values: Iterable[str | None]) -> str:
    return "; ".join(sorted({value for value in values if value}))


def _days(moments: Iterable[str | None]) -> str:
    """ "2026-11-26 to 2026-11-28", of moments in UTC."""
    days = sorted({moment[:10] for moment in moments if moment})
    return " to ".join(dict.fromkeys((*days[:1], *days[-1:])))


def _duration(seconds: float) -> str:
    """ "12.3 s", "5.1 min", "2.4 h"."""
    if seconds < 90:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.1f} min" if seconds < 5400 else f"{seconds / 3600:,.1f} h"
