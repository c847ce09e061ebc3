"""Two rows of a table, entry by entry: their difference, how sure it is, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from harness.contracts import Task
from harness.errors import unknown
from harness.reports.quantities import is_score
from harness.reports.ranking import resampled
from harness.reports.shapes import Line, Table
from harness.reports.statistics.resampling import LEVEL, Score, p_value


@dataclass(frozen=True)
class Difference:
    """One row minus another, where both are finished: fractions, as the runs recorded them.

    low, high: between them lie 95% of the resamples' differences. p: one-sided, as of what is underlined in the table,
    that the better of the two is not better. None where predictions are not comparable. n, other_n: seeds.
    """

    task: str
    metric: str
    student: str
    init: str
    value: float
    other: float
    difference: float
    low: float | None
    high: float | None
    p: float | None
    n: int
    other_n: int


def differences(table: Table, row: str, other: str, tasks: Mapping[str, Task], score: Score) -> list[Difference]:
    """The first row minus the second for every score, student and initialisation that both are finished for.

    A row that fixes its student or its initialisation stands beside those of all. Raises UserError, with near names,
    for a row that the table has not.
    """
    lines = [(block.init_of(line), line) for block in table.blocks if not block.improvement for line in block.lines]
    names = {name for _, line in lines for name in (line.row.name, line.row.label)}
    for name in (row, other):
        if name not in names:
            raise unknown("row", name, names)
    return [
        found
        for init, ours in lines
        if row in (ours.row.name, ours.row.label)
        for other_init, theirs in lines
        if other in (theirs.row.name, theirs.row.label)
        if ours.student == theirs.student or theirs.row.student or ours.row.student
        if init == other_init or not init or not other_init
        for found in _of_lines(table, ours, theirs, tasks, score)
    ]


def _of_lines(table: Table, ours: Line, theirs: Line, tasks: Mapping[str, Task], score: Score) -> list[Difference]:
    found = []
    for column, a, b in zip(table.columns, ours.entries, theirs.entries, strict=True):
        if not column.task or not is_score(column.metric) or a.value is None or b.value is None:
            continue
        if a.status != "complete" or b.status != "complete":
            continue
        task = replace(tasks[column.task], metric=column.metric)
        samples = resampled(task, {("", "", "a"): (a.value, a.runs), ("", "", "b"): (b.value, b.runs)}, score)
        low = high = p = None
        if len(samples) == 2:
            mine, other = samples.values()
            low, high = _interval(mine - other)
            p = p_value(mine, other) if a.value >= b.value else p_value(other, mine)
        values = (a.value, b.value, a.value - b.value, low, high, p, a.n, b.n)
        found.append(Difference(column.task, column.metric, ours.student, ours.init, *values))
    return found


def _interval(differences: object) -> tuple[float, float]:
    import numpy as np

    low, high = np.quantile(differences, [LEVEL / 2, 1 - LEVEL / 2])  # type: ignore[call-overload]
    return float(low), float(high)
