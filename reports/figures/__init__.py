"""The figures of a table, by the names under which a notebook's user asks for them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from harness.reports.figures.masked_words import masked_words
from harness.reports.figures.pareto import pareto
from harness.reports.figures.scores import curves, heatmap, lines
from harness.reports.shapes import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FIGURES: dict[str, Callable[[Table], Figure | None]] = {
    "heatmap": heatmap,
    "points": lines,
    "curves": curves,
    "masked_words": masked_words,
    "pareto": pareto,
}
