"""A table over its tasks: ranks, which rows differ, who would win on a new task, and the interquartile mean."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from string import ascii_lowercase
from typing import Any

import numpy as np

from harness.errors import UserError, counted, first_of
from harness.reports.statistics import LEVEL
from harness.reports.statistics import over_tasks as statistics
from harness.reports.tables.layout import Cell, Grid, Group, bare, heading, told_apart
from harness.reports.tables.quantities import is_score, scaled
from harness.reports.tables.shapes import Entry, Line, Table

CLEAR = 12  # rows left out that are named one by one


@dataclass(frozen=True)
class RankedRow:
    """A line of the table over its tasks. label tells it from all others.

    rank: its rank in a task, 1 for the best, averaged over tasks. letters: of its groups of rows that do not differ, as
    "ab". middle: the interquartile mean of its seeds' scores, as a fraction, with its 95% interval; None where there is
    none. wins, p: against each of the rows, itself among them, on how many tasks it is better, equal scores counting
    half, and how surely they differ, corrected.
    """

    label: str
    line: Line
    rank: float
    letters: str
    middle: tuple[float, float, float] | None
    wins: tuple[float, ...]
    p: tuple[float, ...]


@dataclass(frozen=True)
class OverTasks:
    """What the table says of rows on tasks like its own. rows: best rank first.

    notes are sentences, that on the rows left out among them.
    """

    tasks: tuple[str, ...]
    rows: tuple[RankedRow, ...]
    notes: tuple[str, ...]


def over_tasks(table: Table) -> OverTasks:
    """The rows that compete and are finished on every task, by their task's first metric, best mean rank first.

    Raises UserError where there are fewer tasks than five, or rows than two.
    """
    places = [j for j, c in enumerate(table.columns) if c.task and c.selects and is_score(c.metric)]
    tasks = [table.columns[j].label for j in places]
    if len(tasks) < statistics.FEWEST_TASKS:
        named = f": {', '.join(tasks)}" if tasks else ""
        raise UserError(
            f"statistics over tasks need {statistics.FEWEST_TASKS} tasks or more, because fewer are not a sample, but "
            f"this table has {len(tasks)}{named}"
        )
    lines = [(b, x) for b, x in table.lines() if x.row.competes]
    names = [(x.row.label, heading(b.student, b.init_of(x))) for b, x in lines]
    labels = told_apart(names)
    found: list[tuple[str, Line, list[Entry]]] = []
    left_out: dict[str, list[str]] = {}  # label -> the tasks that it lacks
    for (_, line), name in zip(lines, names, strict=True):
        entries = [line.entries[j] for j in places]
        lacking = [task for task, e in zip(tasks, entries, strict=True) if e.status != "complete"]
        if lacking:
            left_out[labels[name]] = lacking
        else:
            found.append((labels[name], line, entries))
    if len(found) < 2:
        raise UserError(
            f"statistics over tasks compare rows that are finished on all {len(tasks)} tasks, and this table has "
            f"{len(found) or 'none'}"
        )
    scores = np.array([[e.value for e in entries] for _, _, entries in found], float)
    ranks = statistics.mean_ranks(scores)
    order = np.argsort(ranks, kind="stable")
    scores, found = scores[order], [found[k] for k in order]
    p, wins = statistics.all_pairs(scores), statistics.wins(scores)
    letters = _letters(statistics.together(p, len(found)), len(found))
    metrics = [table.columns[j].metric for j in places]
    rows = tuple(
        RankedRow(
            label,
            line,
            float(ranks[order[k]]),
            letters[k],
            _middle(entries, metrics),
            tuple(wins[k].tolist()),
            tuple(1.0 if k == other else p[min(k, other), max(k, other)] for other in range(len(found))),
        )
        for k, (label, line, entries) in enumerate(found)
    )
    return OverTasks(tuple(tasks), rows, _notes(tasks, rows, left_out))


def _middle(entries: Sequence[Entry], metrics: Sequence[str]) -> tuple[float, float, float] | None:
    """The interquartile mean over seeds and tasks, where every task has as many seeds, and enough."""
    seeds = {len(e.runs) for e in entries}
    if len(seeds) > 1 or min(seeds) < statistics.FEWEST_SEEDS:
        return None
    return statistics.interquartile(
        np.array([[run.metrics[metric] for run in e.runs] for e, metric in zip(entries, metrics, strict=True)])
    )


def _notes(tasks: Sequence[str], rows: Sequence[RankedRow], left_out: Mapping[str, Sequence[str]]) -> tuple[str, ...]:
    pairs = len(rows) * (len(rows) - 1) // 2
    sentences = [
        "Mean rank: the row's place in each task's first metric, 1 for the best, averaged over tasks.",
        "Group: rows that share a letter cannot be told apart (Wilcoxon's signed-rank test over tasks, exact and "
        f"two-sided, corrected by Holm for {counted(pairs, 'pair')} of rows, level {LEVEL}). Nemenyi's test of "
        "mean ranks is not used: its verdict on two rows depends on which others stand in the table (Benavoli et al., "
        "2016).",
    ]
    if reach := statistics.reach(len(tasks), pairs):
        sentences.append(f"{reach}.")
    sentences.append(
        f"Beats {rows[0].label}: the probability of a higher score on a new task, if that is drawn as these were, with "
        "its 95% interval (Jeffreys). The row it is compared with was ranked first by the same tasks, which favours it."
    )
    if any(row.middle for row in rows):
        sentences.append(
            "Interquartile mean: of the middle half of all scores over tasks and seeds, as they are, with its 95% "
            "interval over seeds for these tasks (bootstrap stratified by task)."
        )
    if lacking := [row.label for row in rows if not row.middle]:
        which = "no row" if len(lacking) == len(rows) else "not every row"
        sentences.append(
            f"The interquartile mean needs {statistics.FEWEST_SEEDS} seeds or more on each task, equally many, which "
            f"{which} has."
        )
    if left_out:
        named = [f"{label} ({', '.join(lacks)})" for label, lacks in left_out.items()]
        sentences.append(f"Left out, for want of a finished score on the tasks named: {first_of(named, CLEAR)}.")
    return tuple(sentences)


def _letters(together: Sequence[tuple[int, ...]], rows: int) -> list[str]:
    """Of each row the letters of its groups; one that differs from all others has a letter of its own."""
    alone = [(k,) for k in range(rows) if not any(k in group for group in together)]
    groups = sorted([*together, *alone])
    apart = "" if len(groups) <= len(ascii_lowercase) else " "
    names = list(ascii_lowercase) if not apart else [str(i) for i in range(1, len(groups) + 1)]
    return [apart.join(name for name, group in zip(names, groups, strict=False) if k in group) for k in range(rows)]


def grids(table: Table) -> list[Grid]:
    """A line a row, best mean rank first. Raises UserError where the table has too few tasks or rows."""
    found = over_tasks(table)
    middles = any(row.middle for row in found.rows)
    header: list[tuple[str, ...]] = [("Mean rank",), ("Group",)]
    header += [("Interquartile mean", "95% interval")] if middles else []
    first = found.rows[0]
    header.append((f"Beats {first.label}", "95% interval"))
    lines = []
    for row in found.rows:
        cells = [Cell(row.label), Cell(f"{row.rank:.2f}"), Cell(row.letters)]
        cells += [Cell(_interval([scaled("", v) for v in row.middle], 1) if row.middle else "–")] if middles else []
        cells.append(Cell("" if row is first else _interval(statistics.next_task(row.wins[0], len(found.tasks)), 2)))
        lines.append(tuple(cells))
    caption = f"{len(found.tasks)} tasks: {', '.join(found.tasks)}. {len(found.rows)} rows, best mean rank first."
    return [Grid("Over tasks", caption, tuple(header), (Group("", tuple(lines)),), bare(found.notes))]


def _interval(value: Sequence[float], places: int) -> str:
    middle, low, high = (f"{v:.{places}f}".replace("-", "−") for v in value)
    return f"{middle} ({low} to {high})"


def records(table: Table) -> dict[str, Any]:
    """The rows, and every ordered pair of them. Scores in points."""
    found = over_tasks(table)
    pairs = [
        {
            "row": row.label,
            "other": other.label,
            "wins": row.wins[k],
            "tasks": len(found.tasks),
            **_named("probability", statistics.next_task(row.wins[k], len(found.tasks))),
            "p_holm": round(row.p[k], 6),
        }
        for row in found.rows
        for k, other in enumerate(found.rows)
        if row is not other
    ]
    rows = [
        {
            "label": row.label,
            "student": row.line.student,
            "init": row.line.init,
            "row": row.line.row.name,
            "tasks": len(found.tasks),
            "mean_rank": round(row.rank, 6),
            "groups": row.letters,
            **_named("interquartile_mean", [scaled("", v) for v in row.middle] if row.middle else [None] * 3),
        }
        for row in found.rows
    ]
    return {"rows": rows, "tasks": list(found.tasks), "pairs": pairs}


def _named(name: str, values: Sequence[float | None]) -> dict[str, float | None]:
    return {
        name + end: None if v is None else round(v, 6) for end, v in zip(("", "_low", "_high"), values, strict=True)
    }
