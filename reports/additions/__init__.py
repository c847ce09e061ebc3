"""What a report adds below a table on request, by the names that `harness report --with` takes.

An addition is a module of its name with two functions. `grids(table)`: how it reads; it raises UserError, with what to
type, where there is nothing to tell. `records(table)`: what JSON holds of it; its "rows", plain numbers and text, are
also its CSV.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from importlib import import_module
from typing import Any, Protocol, cast

from harness.errors import check_known
from harness.reports.tables.layout import Grid
from harness.reports.tables.shapes import Table

ADDITIONS = ("over_tasks", "selection", "tuning", "sensitivity")


class Addition(Protocol):
    def grids(self, table: Table) -> list[Grid]: ...

    def records(self, table: Table) -> dict[str, Any]: ...


def addition(name: str) -> Addition:
    """The module, which may load libraries of arrays: only where it is asked for."""
    return cast(Addition, import_module(f"{__name__}.{name}"))


def with_additions(table: Table, names: Sequence[str]) -> Table:
    """The table with these below it, in this order. Whether there is something to tell is said when it is written."""
    for name in names:
        check_known("addition to a table", name, ADDITIONS)
    return replace(table, additions=tuple(dict.fromkeys(names)))
