"""Columns that stand in a table on request: what is told of each of its models, whatever the task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.reports.tables.shapes import Column, Entry, Line, Table

LABELS = {"parameters": "Size", "megabytes": "Size"}  # everything else is a speed
TEACHER = ""  # in place of a cell


def with_columns(
    table: Table, metrics: Sequence[str], found: Mapping[str, Mapping[str, Entry]], notes: Sequence[str]
) -> Table:
    """The table with a column for each metric after its own; none of them competes.

    found: cell, or TEACHER -> metric -> what stands there. Of a line its cell on the table's first task counts. notes:
    sentences for below the table.
    """
    reasons = dict.fromkeys(table.reasons)

    def entries(cell: str, n: int) -> tuple[Entry, ...]:
        made = [replace(found.get(cell, {}).get(metric, Entry("absent")), n=n, wanted=n) for metric in metrics]
        reasons.update(dict.fromkeys(entry.reason for entry in made if entry.reason))
        return tuple(replace(e, cell=cell, note=[*reasons].index(e.reason) + 1 if e.reason else 0) for e in made)

    def longer(line: Line, differs: bool) -> Line:
        own = line.entries[0]
        more = (Entry("absent"),) * len(metrics) if differs or not own.cell else entries(own.cell, own.n)
        return replace(line, entries=line.entries + more)

    blocks = tuple(replace(b, lines=tuple(longer(line, b.improvement) for line in b.lines)) for b in table.blocks)
    columns = tuple(Column("", LABELS.get(metric, "Speed"), metric, selects=False, alone=False) for metric in metrics)
    return replace(
        table,
        columns=table.columns + columns,
        teacher=table.teacher + entries(TEACHER, table.teacher[0].n) if table.teacher else (),
        blocks=blocks,
        reasons=tuple(reasons),
        provenance=replace(table.provenance, notes=(*table.provenance.notes, *notes)),
    )
