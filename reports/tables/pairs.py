"""Two rows of a table, entry by entry: their difference, how sure it is, and what it rests on."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness.errors import check_known
from harness.reports.tables.quantities import is_score
from harness.reports.tables.ranking import NOTHING, key_of
from harness.reports.tables.shapes import Column, Entry, Interval, Line, Table

if TYPE_CHECKING:
    from harness.reports.statistics.noise import Noise

Test = Callable[[Column, Entry, Entry], "Noise | None"]


def differences(
    table: Table, row: str, other: str, beside: Table | None = None, test: Test | None = None
) -> list[dict[str, Any]]:
    """The first row minus the second for every score, student and initialisation that both are finished for.

    value, other, difference: fractions, as the runs recorded them. low, high: the 95% interval of the difference alone;
    p: two-sided, of no difference, as if the two rows were named before their scores were seen. None where predictions
    are not comparable. n, other_n: seeds.

    A row that fixes its student or its initialisation stands beside those of all. The noise is that of the table's
    column, learned from all of its rows. Raises UserError, with near names, for a row that the table has not.

    beside: the table that the second row is of, where not this one; test: what two entries are uncertain by there.
    """
    lines, others = (
        [(block.init_of(line), line) for block, line in one.lines()] for one in (table, beside or table)
    )
    for name, known in ((row, lines), (other, others)):
        check_known("row", name, {name for _, line in known for name in (line.row.name, line.row.label)})
    return [
        found
        for init, ours in lines
        if row in (ours.row.name, ours.row.label)
        for other_init, theirs in others
        if other in (theirs.row.name, theirs.row.label)
        if ours.student == theirs.student or theirs.row.student or ours.row.student
        if init == other_init or not init or not other_init
        for found in _of_lines(table, ours, beside or table, theirs, test)
    ]


def _of_lines(table: Table, ours: Line, beside: Table, theirs: Line, test: Test | None) -> list[dict[str, Any]]:
    found = []
    entries = {(c.task, c.metric): entry for c, entry in zip(beside.columns, theirs.entries, strict=True)}
    for j, (column, a) in enumerate(zip(table.columns, ours.entries, strict=True)):
        b = entries.get((column.task, column.metric))
        if not column.task or not is_score(column.metric) or not b or a.value is None or b.value is None:
            continue
        if a.status != "complete" or b.status != "complete":
            continue
        same = a.value == b.value and [run.run for run in a.runs] == [run.run for run in b.runs] != []
        sure = NOTHING if same else None  # another machine, or version, may have made other scores of the same runs
        tested = table.tested.get(j)
        noise = tested.noise if tested else None
        first, second = (tested.place(key_of(line)) if tested else None for line in (ours, theirs))
        if test and not sure:
            noise, first, second = test(column, a, b), 0, 1
        if noise and not sure and first is not None and second is not None:
            (sure,) = Interval.each(noise.compare([first], [second]))
        where = {"task": column.task, "metric": column.metric, "student": ours.student, "init": ours.init}
        values = {"value": a.value, "other": b.value, "difference": a.value - b.value}
        bounds = {name: getattr(sure, name, None) for name in ("low", "high", "p")}
        found.append({**where, **values, **bounds, "n": a.n, "other_n": b.n})
    return found
