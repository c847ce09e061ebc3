"""The tuning curves of a table: what its rows reach by the number of trials that are spent on them."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from harness.errors import UserError, counted, listed
from harness.reports.additions.searched import Search, chosen_on, searches
from harness.reports.statistics import LEVEL, tuning
from harness.reports.tables.layout import Cell, Grid, Group, bare
from harness.reports.tables.quantities import written
from harness.reports.tables.shapes import Table

AVERAGE = "average"  # in place of a task
FEWEST = 3  # trials of a curve
SAME = 1e-9  # scores that are no further apart are equal, but for rounding
NAMED = 3  # of so many rows and more a sentence tells the number, not the names

Bounds = tuple[float, float, float | None]  # median, lower, upper


@dataclass(frozen=True)
class Curve:
    """Of one row, for k = 1 to n trials: the score that it shows, and the one it is chosen by with its band.

    Both as fractions. On several tasks both are means over these; the bands of all tasks then hold together. results:
    (2, T, n), selection and score of every trial on every task.
    """

    label: str
    competes: bool
    expected: Sequence[float]
    band: Sequence[Bounds]
    results: np.ndarray


@dataclass(frozen=True)
class Standing:
    """Of the rows that compete at k trials: who is ahead, several if they are equal, and who cannot be told apart."""

    trials: int
    ahead: tuple[str, ...]
    level: tuple[str, ...]


@dataclass(frozen=True)
class Curves:
    """The rows of one block on one task ("" of the average), all with equally many trials."""

    block: str
    task: str
    title: str
    metric: str
    curves: tuple[Curve, ...]
    standings: tuple[Standing, ...]
    common: tuple[str, ...]  # the searched settings whose values are those of all rows, trial by trial

    @property
    def trials(self) -> int:
        return len(self.curves[0].expected)


def found(table: Table) -> list[Curves]:
    """The curves of every block and task, and of the average of rows that have all tasks; others are left out.

    Raises UserError, with what to type, where there is no curve.
    """
    every = searches(table)
    usable = [one for one in every if not problem(one)]
    if not usable:
        raise UserError(_why_none(table, every))
    tasks = list(dict.fromkeys(one.column for one in usable))
    made = []
    for block in dict.fromkeys(one.block for one in usable):
        by_row: dict[str, list[Search]] = {}
        for column in tasks:
            some = [one for one in usable if (one.block, one.column) == (block, column)]
            made += _of_alike(block, [[one] for one in some])
            for one in some:
                by_row.setdefault(one.line.row.name, []).append(one)
        if len(tasks) > 1:
            whole = [row for row in by_row.values() if len(row) == len(tasks) and len({one.wanted for one in row}) == 1]
            made += _of_alike(block, whole)
    return made


def _of_alike(block: str, rows: Sequence[Sequence[Search]]) -> list[Curves]:
    """The curves of those with equally many trials together. rows: as `_curves` has them."""
    numbers = dict.fromkeys(row[0].wanted for row in rows)
    return [_curves(block, [row for row in rows if row[0].wanted == n]) for n in numbers]


def problem(search: Search) -> str:
    """Why a search has no tuning curve, or ""."""
    if search.sampler != "random":
        how = {"grid": "come from a grid", "tpe": "were proposed by TPE, each from those before it"}[search.sampler]
        return f"the trials {how}, and are no random sample of settings"
    if all(isinstance(values, list) for values in search.space.values()):
        return "settings are drawn from lists of words or whole numbers, each once, and not from ranges"
    if search.pruned:
        return "a pruner stopped trials early"
    if search.wanted < FEWEST:
        return f"the budget is {counted(search.wanted, 'trial')}, and a curve needs {FEWEST}"
    if len(search.trials) < search.wanted:
        return f"only {len(search.trials)} of {search.wanted} trials are finished"
    return ""


def _why_none(table: Table, every: Sequence[Search]) -> str:
    if not every:
        return f"study {table.study} searches no settings, so that there is no tuning curve to draw"
    problems = Counter(map(problem, every))
    reason = min(problems, key=lambda reason: (-problems[reason], reason))
    return (
        f"a tuning curve needs {FEWEST} trials or more that are drawn at random: in {problems[reason]} of {len(every)} "
        f"cells that search settings {reason}; give the harness run of this table --trials 8 --set sampler=random too, "
        "and harness report the same flags"
    )


def _curves(block: str, rows: Sequence[Sequence[Search]]) -> Curves:
    """rows: of each row its searches on the tasks, equally many and of equally many trials."""
    several = len(rows[0]) > 1
    column = rows[0][0].column
    made = tuple(map(_curve, rows))
    shared = [name for name in rows[0][0].space if all(name in one.space for row in rows for one in row)]
    common = [n for n in shared if all(one.values(n) == rows[0][0].values(n) for row in rows for one in row)]
    metrics = {one.column.metric for one in rows[0]}
    return Curves(
        block,
        "" if several else column.task,
        "Average" if several else column.name,
        metrics.pop() if len(metrics) == 1 else "",
        made,
        tuple(_standings([curve for curve in made if curve.competes])),
        tuple(common),
    )


def _curve(row: Sequence[Search]) -> Curve:
    results = np.array([[[getattr(t, what) for t in one.trials] for one in row] for what in ("selection", "score")])
    bands = [tuning.band(values, LEVEL / len(row)) for values in results[0]]
    return Curve(
        row[0].label,
        row[0].line.row.competes,
        tuning.expected(*results).mean(axis=0).tolist(),
        [_mean(bounds) for bounds in zip(*bands, strict=True)],
        results,
    )


def _mean(bounds: Sequence[Bounds]) -> Bounds:
    medians, lower, upper = zip(*bounds, strict=True)
    open_above = any(value is None for value in upper)
    return sum(medians) / len(bounds), sum(lower) / len(bounds), None if open_above else sum(upper) / len(bounds)


def shown_trials(trials: int) -> list[int]:
    """1, 2, 4 and so on, and all of them."""
    return [*(2**i for i in range(trials.bit_length()) if 2**i < trials), trials]


def _standings(curves: Sequence[Curve]) -> list[Standing]:
    """Whoever leads is tested against each other row, for the number of all pairs: which row leads is no plan."""
    pairs = math.comb(len(curves), 2)
    made = []
    for k in shown_trials(len(curves[0].expected)) if len(curves) > 1 else ():
        most = max(curve.expected[k - 1] for curve in curves)
        ahead = [curve for curve in curves if curve.expected[k - 1] >= most - SAME]
        others = [curve for curve in curves if curve.expected[k - 1] < most - SAME]
        others.sort(key=lambda curve: -curve.expected[k - 1])
        p = {c.label: max(tuning.p_values(first.results, c.results)[k - 1] for first in ahead) for c in others}
        level = [label for label, value in p.items() if pairs * value >= LEVEL]
        made.append(Standing(k, tuple(curve.label for curve in ahead), tuple(level)))
    return made


def sentence(curves: Curves) -> str:
    """ "At 2 trials Att-KL leads; at 8 Att-KL and Hid-Seq cannot be told apart." """
    rows = sum(curve.competes for curve in curves.curves)
    said: dict[str, list[int]] = {}
    for standing in curves.standings:
        said.setdefault(_said(standing, rows), []).append(standing.trials)
    parts = [f"at {listed(map(str, trials))} {text}" for text, trials in said.items()]
    if not parts:
        return ""
    first = next(iter(said.values()))
    parts[0] = parts[0].replace(f" {first[-1]} ", f" {first[-1]} trial{'s' * (first[-1] > 1)} ", 1)
    text = "; ".join(parts)
    return f"{text[0].upper()}{text[1:]}."


def _said(standing: Standing, rows: int) -> str:
    (ahead, *equal), level = standing.ahead, standing.level
    if equal:
        if len(equal) == rows - 1:
            return "all rows score the same"
        told = f", and cannot be told apart from {listed(level)}" if level else " and lead"
        return f"{listed(standing.ahead)} score the same{told}"
    if not level:
        return f"{ahead} leads"
    if len(level) == rows - 1 and rows > 2:
        return f"{ahead} is ahead, and no row can be told apart from it"
    if len(level) == 1:
        return f"{ahead} and {level[0]} cannot be told apart"
    others = listed(level) if len(level) < NAMED else f"{len(level)} others"
    return f"{ahead} is ahead, and cannot be told apart from {others}"


def grids(table: Table) -> list[Grid]:
    """The curves as tables, one a task and one of the average. Raises UserError where there is none."""
    made, every = found(table), searches(table)
    tables = [_grid([one for one in made if one.title == t]) for t in dict.fromkeys(one.title for one in made)]
    each = any(trial.seed for one in every for trial in one.trials)
    notes = [*tables[-1].notes, *_rules(made, chosen_on(table), each)]
    told = [f"{one.label} ({one.block}, {one.column.name}): {why}" for one in every if (why := problem(one))]
    notes += [("", f"Left out: {'; '.join(told)}.")] if told else []
    return [*tables[:-1], replace(tables[-1], notes=tuple(notes))]


def rows(table: Table) -> list[dict[str, Any]]:
    """Every curve, point by point; scores × 100, nothing where n trials bound nothing.

    Raises UserError where there is no curve.
    """
    return [
        {
            "block": curves.block,
            "task": curves.task or AVERAGE,
            "metric": curves.metric,
            "row": curve.label,
            "trials": k,
            "dev": round(100 * curve.expected[k - 1], 6),
            **{
                name: None if value is None or math.isinf(value) else round(100 * value, 6)
                for name, value in zip(("chosen_by", "lower", "upper"), curve.band[k - 1], strict=True)
            },
        }
        for curves in found(table)
        for curve in curves.curves
        for k in range(1, curves.trials + 1)
    ]


def records(table: Table) -> dict[str, Any]:
    return {"rows": rows(table)}


def _grid(some: Sequence[Curves]) -> Grid:
    trials = sorted({k for curves in some for k in shown_trials(curves.trials)})
    groups, notes = [], []
    for curves in some:
        lines: list[tuple[Cell, ...]] = []
        for curve in curves.curves:
            at = range(1, curves.trials + 1)
            told = {standing.trials: standing for standing in curves.standings if curve.competes}
            shown = (
                Cell(
                    written("", 100 * curve.expected[k - 1]),
                    bold=k in told and curve.label in told[k].ahead,
                    underline=k in told and curve.label in told[k].level,
                )
                if k in at
                else Cell("")
                for k in trials
            )
            bounds = (Cell(_bounds(curve.band[k - 1])) if k in at else Cell("") for k in trials)
            lines += [(Cell(curve.label), Cell("dev"), *shown), (Cell(""), Cell("chosen by"), *bounds)]
        groups.append(Group(curves.block, tuple(lines)))
        notes.append(("", f"{curves.block or curves.title}: {text}")) if (text := sentence(curves)) else None
    title = some[0].title
    metric = f", {some[0].metric.replace('_', ' ')}" if some[0].metric else ""
    return Grid(
        f"Tuning curves: {title}",
        f"Scores × 100 by the number of trials{metric}.",
        (("",), *((str(k), "trials" if k > 1 else "trial") for k in trials)),
        tuple(groups),
        tuple(notes),
    )


def _bounds(bounds: Bounds) -> str:
    median, lower, upper = ("–" if value is None or math.isinf(value) else written("", 100 * value) for value in bounds)
    return f"{median} [{lower}, {upper}]"


def _rules(made: Sequence[Curves], chosen_on: str, each: bool) -> Sequence[tuple[str, str]]:
    """What the numbers are and how rows are compared. each: the trials are of several searches, one a seed."""
    most = max(made, key=lambda curves: sum(curve.competes for curve in curves.curves))
    rows, trials = sum(curve.competes for curve in most.curves), most.trials
    pairs, enough = math.comb(rows, 2), tuning.most_rows(trials)
    points = f"have the same {listed(most.common)}" if most.common else "share no setting that is searched"
    notes = [
        "Dev: the expected score, on dev, of the setting that is chosen among so many trials, over all choices of that "
        "many of the trials made (Tang et al., 2020)",
        f"Chosen by: the median score on {chosen_on} of the best of so many trials, in brackets bounds that hold for "
        "all numbers of trials together with probability 95% (order statistics, Lourie et al., 2024); a dash: so few "
        "trials bound it by nothing. On the average both are means over tasks, whose bounds hold together",
        "The trials are those of all seeds' searches together, more than any one search has made: the bounds hold for "
        "settings drawn anew, as if each had a seed of its own"
        if each
        else "Every trial is one training with the same seed: the bounds hold for settings drawn anew, not for seeds",
    ]
    if rows > 1:
        notes.append(
            "Bold: the highest on dev. Underlined: not told apart from it, by an exact paired permutation test that "
            f"swaps two rows' results trial by trial (which {points}), two-sided, at {LEVEL} over all {pairs} pairs of "
            "rows (Bonferroni), for each number of trials by itself"
        )
    if rows > enough:
        needed, how = tuning.fewest_trials(pairs), "of all seeds together" if each else "--trials"
        could = [f"{needed} trials could ({how})"] * bool(needed)
        could += [f"{enough} rows{' could' * (not needed)} (--objectives)"] * (enough > 1)
        said = f"No {trials} trials can tell one of {rows} rows from another, however they end"
        notes.append(": ".join(filter(None, (said, ", or ".join(could)))))
    return bare(notes)
