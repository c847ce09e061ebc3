"""What a report adds below a table on request, by the names that `harness report --with` takes.

An addition is a module with two functions. `grids(table)`: how it reads; it raises UserError, with what to type, where
there is nothing to tell. `records(table)`: what JSON holds of it; its "rows", plain numbers and text, are also its CSV.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from harness.errors import check_known
from harness.reports.additions import over_tasks, selection, sensitivity, tuning
from harness.reports.tables.layout import Grid
from harness.reports.tables.shapes import Table


class Addition(Protocol):
    def grids(self, table: Table) -> list[Grid]: ...

    def records(self, table: Table) -> dict[str, Any]: ...


ADDITIONS: dict[str, Addition] = {
    "over_tasks": over_tasks,
    "selection": selection,
    "tuning": tuning,
    "sensitivity": sensitivity,
}


def with_additions(table: Table, names: Sequence[str]) -> Table:
    """The table with these below it, in this order. Whether there is something to tell is said when it is written."""
    for name in names:
        check_known("addition to a table", name, ADDITIONS)
    return replace(table, additions=tuple(dict.fromkeys(names)))
