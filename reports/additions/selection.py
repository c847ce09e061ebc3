"""What a selection on dev itself would have made of the same trials: the gap between the protocols."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harness.errors import UserError
from harness.reports.additions.searched import chosen_on
from harness.reports.tables.layout import Cell, Grid, Group
from harness.reports.tables.quantities import difference, scaled
from harness.reports.tables.shapes import Table


@dataclass(frozen=True)
class Gap:
    """A search of several trials: the dev score of the one chosen, and of the one that dev would have chosen.

    Both are fractions, of the cell's first seed.
    """

    row: str
    task: str
    metric: str
    student: str
    init: str
    cell: str
    trials: int
    chosen: float
    dev: float


def gaps(table: Table) -> list[Gap]:
    """That of each cell whose search finished two trials or more that have a score, from the table's frame of runs.

    Raises UserError where its trials were chosen on dev, or no cell tried two settings.
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
        for cell, of_cell in tried.groupby("cell", sort=False):
            scores, chosen_by = of_cell.score.tolist(), of_cell.selection.tolist()
            if len(of_cell) > 1:
                chosen = scores[max(range(len(scores)), key=chosen_by.__getitem__)]
                first = of_cell.iloc[0]
                where = (first.row, first.task, first.metric, first.student, first.init, str(cell))
                made.append(Gap(*where, len(of_cell), chosen, max(scores)))
    if not made:
        raise UserError(
            "--with selection compares the trials of a search, and no cell of this table has tried two settings"
        )
    return made


def grids(table: Table) -> list[Grid]:
    """A line a row of the study, a column a task, and all rows at the end. Raises UserError as `gaps` does."""
    found = gaps(table)
    labels = {x.row.name: x.row.label for block in table.blocks for x in block.lines}
    names = [name for name in table.order if any(gap.row == name for gap in found)]
    tasks = [column for column in table.columns if column.selects and any(gap.task == column.task for gap in found)]
    lines = []
    for label, rows in [*((labels.get(name, name), [name]) for name in names), ("All rows", names)]:
        own = [[gap for gap in found if gap.row in rows and gap.task == column.task] for column in tasks]
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


def _cell(some: Sequence[Gap]) -> Cell:
    if not some:
        return Cell("")
    mean = sum(gap.dev - gap.chosen for gap in some) / len(some)
    text = difference(some[0].metric, scaled(some[0].metric, mean))
    return Cell(f"{text} ({sum(gap.dev == gap.chosen for gap in some)}/{len(some)})")


def records(table: Table) -> dict[str, Any]:
    """A row for each cell; scores in points."""
    rows = [
        {
            "row": gap.row,
            "task": gap.task,
            "metric": gap.metric,
            "student": gap.student,
            "init": gap.init,
            "cell": gap.cell,
            "trials": gap.trials,
            "dev_of_chosen": round(scaled(gap.metric, gap.chosen), 6),
            "dev_of_best_on_dev": round(scaled(gap.metric, gap.dev), 6),
        }
        for gap in gaps(table)
    ]
    return {"rows": rows}
