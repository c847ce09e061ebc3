"""The figures of a table, by the names under which a command and a notebook ask for them.

A figure is a module of its name with two functions: `rows(table)`, the tidy data that is drawn (plain numbers and text,
a dict for each point or field, empty where there is nothing to draw: it is written as CSV, too), and
`draw(table, rows)`, which makes a figure of matplotlib of them. One that cannot be drawn for a reason of its own raises
UserError in `rows`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, cast

from harness.errors import UserError
from harness.reports.figures.drawing import styled
from harness.reports.tables.shapes import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Rows = Sequence[Mapping[str, Any]]


class Module(Protocol):
    def rows(self, table: Table) -> Rows: ...

    def draw(self, table: Table, rows: Any) -> Figure: ...


@dataclass(frozen=True)
class Kind:
    """A figure that a table may have.

    alternative: what somebody who does not see it is told. needs: what a table must have for it, after "it needs".
    columns: of --columns, those that it takes where the table has nothing else that it could draw.
    """

    name: str
    title: str
    alternative: str
    needs: str
    columns: tuple[str, ...] = ()

    @property
    def module(self) -> Module:
        """Loaded with what it draws by: only where it is asked for."""
        return cast(Module, import_module(f"{__name__}.{self.name}"))

    def rows(self, table: Table) -> tuple[Rows, str]:
        """What is drawn, and a sentence on why there is nothing to draw, "" where there is."""
        try:
            found = self.module.rows(table)
        except UserError as error:
            return (), str(error)
        return found, "" if found else f"it needs {self.needs}"

    def drawn(self, table: Table, width: float | None = None, colour: str = "black") -> Figure | None:
        """The figure, as wide as it has to be, or as `width` inches of paper; None where there is nothing to draw.

        colour: of text and axes. Raises UserError where it does not fit on that paper.
        """
        found, _ = self.rows(table)
        with styled(width, colour) as finished:
            return finished(self.module.draw(table, found)) if found else None


KINDS = (
    Kind(
        "heatmap",
        "Scores by objective and initialisation",
        "A heatmap of scores: a row for each row of the table, a column for each initialisation, a panel for each "
        "student. Every field holds its number, as the table does.",
        "a row that is finished on every task and leaves its student or its initialisation free",
    ),
    Kind(
        "points",
        "Scores along the rows' points",
        "A panel for each task: scores against what the rows vary, a line for each label, bars for the standard "
        "deviation over seeds.",
        "finished cells of rows that stand at points of an axis, as those of a study of sizes do",
    ),
    Kind(
        "pareto",
        "Scores against size and speed",
        "A panel for each size or speed: every model's score against it, and a line that joins those that no other "
        "surpasses in both.",
        "a row that is finished on every task, beside a size or a speed as --columns parameters adds",
        columns=("parameters",),
    ),
    Kind(
        "curves",
        "Learning curves",
        "Two panels for each row of the table: the metric by which epochs are selected, epoch by epoch, and the loss "
        "as a share of what its stage began with. A line for each task, the other rows in grey behind.",
        "a finished run that was trained by epochs",
    ),
    Kind(
        "tuning",
        "Tuning curves",
        "A panel for each row of the table: the expected score on dev of the setting that is chosen, by the number of "
        "trials, and the score that chooses it with its 95% band; the other rows in grey behind.",
        "trials that were drawn at random",
    ),
    Kind(
        "sensitivity",
        "Scores against settings that were searched",
        "A panel for each row of the table and each setting that was searched: the score on dev of every trial against "
        "the setting's value, a mark for each task, filled where the trial was chosen.",
        "cells in which two settings or more were tried",
    ),
    Kind(
        "critical_differences",
        "Mean ranks over tasks",
        "A point for each row of the table at its mean rank over tasks, best first, and beside them a bar for each "
        "group of rows that Wilcoxon's signed-rank test with Holm's correction cannot tell apart.",
        "rows that are finished on five tasks or more",
    ),
    Kind(
        "verdicts",
        "Published orderings that our data support",
        "For each pair of rows of a published column a field: plus and blue where our data support the printed order, "
        "minus and red where they contradict it, a question mark and grey where they cannot decide.",
        "published numbers beside ours",
    ),
    Kind(
        "masked_words",
        "Entropy of the prediction when a word is masked",
        "A panel for each sentence: a row for each row of the table, a column for each word, darker where the "
        "prediction is less sure without that word.",
        "runs that masked words, as those of studies that measure masked words do",
    ),
)
FIGURES = {kind.name: kind for kind in KINDS}
