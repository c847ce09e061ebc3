"""A table in its layout, as the text of which every format is made."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.errors import plain
from harness.reports.additions import addition
from harness.reports.papers.beside import compared
from harness.reports.tables import matrix, two_tables
from harness.reports.tables.layout import Cell, Grid, Group, differences, lines
from harness.reports.tables.shapes import Table


def grids(table: Table) -> list[Grid]:
    """The table, then its differences, published numbers, another table's and additions, as there are. All is `plain`.

    In the layout "matrix" there is one for each of the table's columns; a table without a second axis stays as it is.
    Raises UserError where an addition has nothing to tell.
    """
    made = matrix.matrices(table)
    found = matrix.grids(table, made) if made else [lines(table)]
    between = differences(table)
    found += [between] if between else []
    found += [compared(table.comparison)] if table.comparison else []
    found += two_tables.grids(table.beside) if table.beside else []
    found += [grid for name in table.additions for grid in addition(name).grids(table)]
    return [_plain(grid) for grid in found]


def _plain(part: Any) -> Any:
    """A text, or whatever holds some, with control characters shown and not obeyed."""
    if isinstance(part, str):
        return plain(part)
    if isinstance(part, tuple):
        return tuple(map(_plain, part))
    if isinstance(part, (Grid, Group, Cell)):
        return replace(part, **{name: _plain(value) for name, value in vars(part).items()})
    return part
