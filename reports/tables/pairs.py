"""Two rows of a table, entry by entry: their difference, how sure it is, and what it rests on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harness.errors import check_known
from harness.reports.tables.quantities import is_score
from harness.reports.tables.ranking import NOTHING, key_of
from harness.reports.tables.shapes import Interval, Line, Table, Tested
from harness.reports.tables.two_tables import aligned, alike, apart, few, other_key


def differences(
    table: Table, row: str, other: str, beside: Table | None = None, both: Mapping[int, Tested] | None = None
) -> list[dict[str, Any]]:
    """The first row minus the second for every score, student and initialisation that both are finished for.

    value, other, difference: fractions, as the runs recorded them. low, high: the 95% interval of the difference alone;
    p: two-sided, of no difference, as if the two rows were named before their scores were seen. None where predictions
    are not comparable. n, other_n: seeds.

    A row that fixes its student or its initialisation stands beside those of all. The noise is that of the table's
    column, learned from all of its rows. Raises UserError, with near names, for a row that the table has not.

    beside: the table that the second row is of, where not this one; both: what can be tested of the two tables, as
    `noise_of_both` gives it.
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
        for found in _of_lines(table, ours, beside, theirs, both or {})
    ]


def _of_lines(
    table: Table, ours: Line, beside: Table | None, theirs: Line, both: Mapping[int, Tested]
) -> list[dict[str, Any]]:
    found = []
    entries = aligned(theirs.entries, beside, table) if beside else theirs.entries
    for j, (column, a, b) in enumerate(zip(table.columns, ours.entries, entries, strict=True)):
        if not column.task or not is_score(column.metric) or (difference := apart(a, b)) is None:
            continue
        sure = NOTHING if alike(ours.entries, entries, table.columns, j) else None
        tested = (both if beside else table.tested).get(j)
        keys = key_of(ours), other_key(key_of(theirs)) if beside else key_of(theirs)
        if not sure and tested and not (beside and few(a, b)) and (places := tested.places(keys)):
            (sure,) = Interval.each(tested.noise.compare(places[:1], places[1:]))
        where = {"task": column.task, "metric": column.metric, "student": ours.student, "init": ours.init}
        values = {"value": a.value, "other": b.value, "difference": difference}
        bounds = {name: getattr(sure, name, None) for name in ("low", "high", "p")}
        found.append({**where, **values, **bounds, "n": a.n, "other_n": b.n})
    return found
