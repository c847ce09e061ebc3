"""What a selection on dev itself would have made of the same trials: the gap between the protocols."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from harness.errors import UserError
from harness.reports.additions.searched import chosen_on
from harness.reports.tables.layout import Cell, Grid, Group, bare
from harness.reports.tables.quantities import difference, scaled
from harness.reports.tables.shapes import Table


def gaps(table: Table) -> list[dict[str, Any]]:
    """A row for each search that finished two trials or more that have a score, from the table's runs.

    dev_of_chosen: the dev score of the trial that was chosen; dev_of_best_on_dev: that of the one that dev would have
    chosen. Both are fractions, of the seed that the search was made with. Raises UserError where its trials were chosen
    on dev, or no cell tried two settings.
    """
    if table.provenance.protocol == "published":
        raise UserError(
            "--with selection compares dev with held-out training data, and with protocol published trials are chosen "
            "on dev alone; --set protocol=held_out keeps both scores of every trial"
        )
    tried: dict[tuple[str, ...], list[Mapping[str, Any]]] = {}  # not by cell alone: rows may share one
    for row in table.runs:
        finished = row["part"] == "trial" and row["status"] == "finished" and not row["pruned"]
        if finished and row["score"] is not None:
            tried.setdefault(tuple(row[name] for name in ("cell", "row", "student", "init", "seed")), []).append(row)
    made = []
    for of_search in tried.values():
        if len(of_search) > 1:
            chosen = max(of_search, key=lambda row: row["selection"])
            gap = {name: chosen[name] for name in ("row", "task", "metric", "student", "init", "cell")}
            gap |= {"seed": chosen["seed"], "trials": len(of_search), "dev_of_chosen": chosen["score"]}
            made.append(gap | {"dev_of_best_on_dev": max(row["score"] for row in of_search)})
    if not made:
        raise UserError(
            "--with selection compares the trials of a search, and no cell of this table has tried two settings"
        )
    return made


def grids(table: Table) -> list[Grid]:
    """A line a row of the study, a column a task, and all rows at the end. Raises UserError as `gaps` does."""
    found = gaps(table)
    labels = {name: row.label for name, row in table.rows().items()}
    names = [name for name in table.order if any(gap["row"] == name for gap in found)]
    tasks = [column for column in table.columns if column.selects and any(gap["task"] == column.task for gap in found)]
    lines = []
    for label, rows in [*((labels[name], [name]) for name in names), ("All rows", names)]:
        searches = {(gap["cell"], gap["seed"]): gap for gap in found if gap["row"] in rows}  # which rows may share
        own = [[gap for gap in searches.values() if gap["task"] == column.task] for column in tasks]
        lines.append((Cell(label), *map(_cell, own)))
    notes = bare([
        "Gap: the dev score of the trial that dev would have chosen, minus that of the trial that "
        f"{chosen_on(table)} chose, of the same trials; the mean over students, initialisations and seeds with a "
        "search, and in how many of these searches both chose alike.",
        "It is what choosing on dev adds to a dev score, and no score on other data. Epochs are as they were chosen, "
        "since dev is recorded of the chosen epoch alone: protocol published, which chooses them on dev, adds more.",
    ])
    header = tuple((column.label, "gap (same)") for column in tasks)
    each = any(gap["seed"] for gap in found)
    caption = f"Dev scores in points, {'each seed by its own search' if each else 'seed 0'}."
    return [Grid("Selection on dev", caption, header, (Group("", tuple(lines)),), notes)]


def _cell(some: Sequence[dict[str, Any]]) -> Cell:
    if not some:
        return Cell("")
    added = [gap["dev_of_best_on_dev"] - gap["dev_of_chosen"] for gap in some]
    text = difference(some[0]["metric"], scaled(some[0]["metric"], sum(added) / len(some)))
    return Cell(f"{text} ({added.count(0)}/{len(some)})")


def records(table: Table) -> dict[str, Any]:
    """The gaps; scores in points."""
    rows = gaps(table)
    for row in rows:
        for name in ("dev_of_chosen", "dev_of_best_on_dev"):
            row[name] = round(scaled(row["metric"], row[name]), 6)
    return {"rows": rows}
