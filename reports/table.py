"""The table of a study as plain data: what every writer, figure and comparison reads.

Evidence rules: every value carries its n; an unfinished cell is never best; an average needs every task.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from harness.contracts import CellResult, Study, Task
from reports.model import Block, Column, Entry, Line, Provenance, Table
from reports.ranking import standings
from reports.statistics import Score, mean_std

SYMBOLS = "†‡§¶‖"


def build(
    study: Study,
    profile_name: str,
    cells: Sequence[CellResult],
    tasks: Mapping[str, Task],
    provenance: Provenance,
    score: Score,
) -> Table:
    """The table of `cells`, in the study's order whatever theirs; what the study does not name follows by name.

    score(task, predictions, labels) gives the value of task.metric. Per-example predictions come from each run's
    record["predictions"], a callable returning (ids, predictions, labels), each (N,), or None.
    """
    profile = study.profile(profile_name)
    index = {(c.student, c.init, c.row.name, c.task): c for c in cells}
    if len(index) < len(cells):
        raise ValueError(f"study {study.name}: two cells share student, initialisation, row and task")
    rows = {row.name: row for row in (*(c.row for c in cells), *study.rows)}
    metrics = {c.task: c.metric for c in cells}
    names = _order(profile.tasks, metrics)
    columns = (*(Column(t, tasks[t].label, metrics[t]) for t in names), Column("", "Average", ""))

    grid: dict[tuple[str, str, str], tuple[Entry, ...]] = {}
    for student in _order(study.students, {c.student for c in cells}):
        for init in _order(profile.inits, {c.init for c in cells if c.student == student}):
            present = {c.row.name for c in cells if (c.student, c.init) == (student, init)}
            for name in _order((row.name for row in study.rows), present):
                entries = tuple(_entry(index.get((student, init, name, t))) for t in names)
                grid[student, init, name] = (*entries, _average(entries, [metrics[t] for t in names]))

    shown = {t: replace(tasks[t], metric=metrics[t]) for t in names}
    flags, untested = standings(grid, columns, shown, score)
    reasons: dict[str, int] = {}
    marks: dict[str, str] = {}
    lines: dict[tuple[str, str], list[Line]] = {}
    for (student, init, name), entries in grid.items():
        noted = tuple(
            replace(
                e,
                note=reasons.setdefault(e.reason, len(reasons) + 1) if e.reason else 0,
                best=flags.get(((student, init, name), j)) == "best",
                tied=flags.get(((student, init, name), j)) == "tied",
            )
            for j, e in enumerate(entries)
        )
        sentence = rows[name].mark
        mark = marks.setdefault(sentence, _symbol(len(marks))) if sentence else ""
        lines.setdefault((student, init), []).append(Line(rows[name], mark, noted))
    return Table(
        study=study.name,
        title=study.title,
        question=study.question,
        profile=profile_name,
        columns=columns,
        teacher=_teacher(names, provenance),
        blocks=tuple(Block(*k, tuple(v)) for k, v in lines.items()),
        provenance=provenance,
        marks=marks,
        reasons=tuple(reasons),
        untested=tuple(untested),
    )


def _symbol(place: int) -> str:
    """The mark of the `place`th sentence: each symbol once, then doubled, and so on."""
    return SYMBOLS[place % len(SYMBOLS)] * (1 + place // len(SYMBOLS))


def _order(first: Iterable[str], present: Iterable[str]) -> list[str]:
    """The names present: those of `first` in its order, then the others by name."""
    first, present = list(first), set(present)
    return [name for name in first if name in present] + sorted(present - set(first))


def _entry(cell: CellResult | None) -> Entry:
    if cell is None:
        return Entry("absent")
    if cell.refused:
        return Entry("impossible", reason=cell.refused, cell=cell.cell, wanted=cell.wanted_seeds)
    runs = tuple(sorted(cell.seeds, key=lambda run: run.seed))
    n, wanted, failed = len(runs), cell.wanted_seeds, bool(cell.failures)
    if not runs:
        return Entry("failed" if failed else "waiting", wanted=wanted, progress=f"0/{wanted}", cell=cell.cell)
    value, std = mean_std([run.metrics[cell.metric] for run in runs])
    progress = reason = ""
    if n < wanted:
        progress = f"{n}/{wanted}, failed" if failed else f"{n}/{wanted}"
    elif failed:
        reason = f"{len(cell.failures)} of this cell's runs failed; the value is that of the others"
    elif len(cell.trials) < cell.wanted_trials:
        progress = f"{len(cell.trials)}/{cell.wanted_trials} trials"
    if math.isnan(value):
        return Entry("undefined", n=n, wanted=wanted, progress=progress, reason=reason, cell=cell.cell, runs=runs)
    return Entry(
        "partial" if progress else "complete", value, std, n, wanted, progress, reason, cell=cell.cell, runs=runs
    )


def _average(entries: Sequence[Entry], metrics: Sequence[str]) -> Entry:
    """The mean over tasks; its spread is that of the seeds' own averages, seeds paired by their place.

    Tasks with unequal numbers of seeds give no spread.
    """
    if not entries or any(e.status != "complete" for e in entries):
        return Entry("absent")
    seeds = zip(*([run.metrics[m] for run in e.runs] for e, m in zip(entries, metrics, strict=True)), strict=False)
    paired = len({e.n for e in entries}) == 1
    std = mean_std([sum(seed) / len(seed) for seed in seeds])[1] if paired else None
    value = sum(e.value or 0.0 for e in entries) / len(entries)
    return Entry("complete", value, std, min(e.n for e in entries), max(e.wanted for e in entries))


def _teacher(names: Sequence[str], provenance: Provenance) -> tuple[Entry, ...]:
    """The teacher's own scores; no average before every task has one."""
    scores = provenance.teacher_scores
    entries = [
        Entry("complete", scores[t][0], n=scores[t][1], wanted=scores[t][1])
        if t in scores
        else Entry("waiting", progress="0/1", wanted=1)
        for t in names
    ]
    if not names or any(e.value is None for e in entries):
        return (*entries, Entry("absent"))
    mean = sum(e.value or 0.0 for e in entries) / len(entries)
    n = min(e.n for e in entries)
    return (*entries, Entry("complete", mean, n=n, wanted=n))
