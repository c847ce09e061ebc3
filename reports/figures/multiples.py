"""Small multiples: many small panels with the same axes, in which a line stands before all others in grey."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from matplotlib.collections import LineCollection
from matplotlib.figure import Figure

from harness.reports.figures.drawing import new_figure, on_paper, plain, side_by_side
from harness.reports.tables.layout import folded

GREY = "#80808080"  # of the lines behind: half of it shows on light and dark alike


def small_panels(
    titles: Sequence[str], across: str, parts: Sequence[str], sharex: bool = True, beside: float = 0.0
) -> tuple[Figure, list[list[Any]]]:
    """A figure with a panel for each title in each of its parts, five side by side on a screen, on the same axes.

    across: what is on the horizontal axis of all; parts: what is on the vertical axis of each. sharex: otherwise every
    panel has a horizontal axis of its own. beside: inches for a legend on a screen.
    """
    wide = side_by_side(len(titles), 1.35, most=5)
    down = math.ceil(len(titles) / wide)
    height = 1.9 if on_paper() else 1.45
    figure = new_figure((0.8 + 1.75 * wide + beside, 0.8 + height * down * len(parts)))
    grid = figure.subplots(down * len(parts), wide, squeeze=False, sharex=sharex)
    made = []
    for part, name in enumerate(parts):
        drawn = list(grid[part * down : (part + 1) * down].flat)
        for place, panel in enumerate(drawn):
            panel.tick_params(labelsize=7)
            panel.spines[["top", "right"]].set_visible(False)
            panel.set_visible(place < len(titles))
            panel.sharey(drawn[0]) if place else None
            panel.tick_params(labelleft=place % wide == 0)
            panel.tick_params(labelbottom=not sharex or len(titles) - wide <= place < len(titles))
            if place < len(titles):
                wrapped = folded(plain(titles[place]), 18 if on_paper() else 28)
                panel.set_title("\n".join(wrapped), fontsize=8, loc="left")
            if place % wide == 0:
                panel.set_ylabel("\n".join(folded(plain(name), 14)) if on_paper() else plain(name), fontsize=7)
        made.append(drawn[: len(titles)])
    made[-1][(down - 1) * wide].set_xlabel(plain(across), fontsize=7)
    return figure, made


def behind(panel: Any, lines: Iterable[Sequence[tuple[float, float]]]) -> None:
    """Draw these lines of (x, y) in grey."""
    panel.add_collection(LineCollection([list(line) for line in lines], colors=GREY, linewidths=0.6, zorder=1))
