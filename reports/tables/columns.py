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
    reasons = {reason: number for number, reason in enumerate(table.reasons, 1)}

    def entries(cell: str, n: int) -> tuple[Entry, ...]:
        made = [found.get(cell, {}).get(metric, Entry("absent")) for metric in metrics]
        notes = [reasons.setdefault(e.reason, len(reasons) + 1) if e.reason else 0 for e in made]
        return tuple(replace(e, n=n, wanted=n, cell=cell, note=note) for e, note in zip(made, notes, strict=True))

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
