"""Two rows of a table, entry by entry: their difference, how sure it is, and what it rests on."""

from __future__ import annotations

from typing import Any

from harness.errors import check_known
from harness.reports.tables.quantities import is_score
from harness.reports.tables.ranking import NOTHING, key_of, same_runs
from harness.reports.tables.shapes import Interval, Line, Table


def differences(table: Table, row: str, other: str) -> list[dict[str, Any]]:
    """The first row minus the second for every score, student and initialisation that both are finished for.

    value, other, difference: fractions, as the runs recorded them. low, high: the 95% interval of the difference alone;
    p: two-sided, of no difference, as if the two rows were named before their scores were seen. None where predictions
    are not comparable. n, other_n: seeds.

    A row that fixes its student or its initialisation stands beside those of all. The noise is that of the table's
    column, learned from all of its rows. Raises UserError, with near names, for a row that the table has not.
    """
    lines = [(block.init_of(line), line) for block, line in table.lines()]
    names = {name for _, line in lines for name in (line.row.name, line.row.label)}
    for name in (row, other):
        check_known("row", name, names)
    return [
        found
        for init, ours in lines
        if row in (ours.row.name, ours.row.label)
        for other_init, theirs in lines
        if other in (theirs.row.name, theirs.row.label)
        if ours.student == theirs.student or theirs.row.student or ours.row.student
        if init == other_init or not init or not other_init
        for found in _of_lines(table, ours, theirs)
    ]


def _of_lines(table: Table, ours: Line, theirs: Line) -> list[dict[str, Any]]:
    found = []
    for j, (column, a, b) in enumerate(zip(table.columns, ours.entries, theirs.entries, strict=True)):
        if not column.task or not is_score(column.metric) or a.value is None or b.value is None:
            continue
        if a.status != "complete" or b.status != "complete":
            continue
        tested = table.tested.get(j)
        first, second = (tested.place(key_of(line)) if tested else None for line in (ours, theirs))
        sure = NOTHING if same_runs(ours.entries, theirs.entries, table.columns, j) else None
        if not sure and tested and first is not None and second is not None:
            (sure,) = Interval.each(tested.noise.compare([first], [second]))
        where = {"task": column.task, "metric": column.metric, "student": ours.student, "init": ours.init}
        values = {"value": a.value, "other": b.value, "difference": a.value - b.value}
        bounds = {name: getattr(sure, name, None) for name in ("low", "high", "p")}
        found.append({**where, **values, **bounds, "n": a.n, "other_n": b.n})
    return found
