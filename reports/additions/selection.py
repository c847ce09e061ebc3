"""What a selection on dev itself would have made of the same trials: the gap between the protocols."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from harness.errors import UserError
from harness.reports.additions.searched import chosen_on
from harness.reports.tables.layout import Cell, Grid, Group
from harness.reports.tables.quantities import difference, scaled
from harness.reports.tables.shapes import Table


def gaps(table: Table) -> list[dict[str, Any]]:
    """A row for each cell whose search finished two trials or more that have a score, from the table's frame of runs.

    dev_of_chosen: the dev score of the trial that was chosen; dev_of_best_on_dev: that of the one that dev would have
    chosen. Both are fractions, of the cell's first seed. Raises UserError where its trials were chosen on dev, or no
    cell tried two settings.
    """
    if table.provenance.protocol == "published":
        raise UserError(
            "--with selection compares dev with held-out training data, and with protocol published trials are chosen "
            "on dev alone; --set protocol=held_out keeps both scores of every trial"
        )
    runs = table.runs
    made = []
    if len(runs):
        tried = runs[(runs.part == "trial") & (runs.status == "finished") & (runs.pruned != True)]  # noqa: E712
        # Of constant predictions a correlation has no score.
        tried = tried[tried[["score", "selection"]].astype(float).notna().all(axis=1)]
        for (cell, *_), of_cell in tried.groupby(["cell", "row", "student", "init"], sort=False):
            scores, chosen_by = of_cell.score.tolist(), of_cell.selection.tolist()
            if len(of_cell) > 1:
                chosen = scores[max(range(len(scores)), key=chosen_by.__getitem__)]
                first = of_cell.iloc[0]
                gap = {name: first[name] for name in ("row", "task", "metric", "student", "init")}
                gap |= {"cell": cell, "trials": len(of_cell), "dev_of_chosen": chosen}
                made.append(gap | {"dev_of_best_on_dev": max(scores)})
    if not made:
        raise UserError(
            "--with selection compares the trials of a search, and no cell of this table has tried two settings"
        )
    return made


def grids(table: Table) -> list[Grid]:
    """A line a row of the study, a column a task, and all rows at the end. Raises UserError as `gaps` does."""
    found = gaps(table)
    labels = {x.row.name: x.row.label for block in table.blocks for x in block.lines}
    names = [name for name in table.order if any(gap["row"] == name for gap in found)]
    tasks = [column for column in table.columns if column.selects and any(gap["task"] == column.task for gap in found)]
    lines = []
    for label, rows in [*((labels.get(name, name), [name]) for name in names), ("All rows", names)]:
        own = [[gap for gap in found if gap["row"] in rows and gap["task"] == column.task] for column in tasks]
        lines.append((Cell(label), *map(_cell, own)))
    notes = (
        "Gap: the dev score of the trial that dev would have chosen, minus that of the trial that "
        f"{chosen_on(table)} chose, of the same trials; the mean over students and initialisations, and in how many of "
        "these cells both chose alike.",
        "It is what choosing on dev adds to a dev score, and no score on other data. Epochs are as they were chosen, "
        "since dev is recorded of the chosen epoch alone: protocol published, which chooses them on dev, adds more.",
    )
    header = tuple((column.label, "gap (same)") for column in tasks)
    caption = "Dev scores in points, seed 0."
    return [Grid("Selection on dev", caption, header, (Group("", tuple(lines)),), tuple(("", note) for note in notes))]


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
