"""Small multiples: many small panels of one scale, each with one line before all others in grey."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.reports.figures.drawing import new_figure, plain

if TYPE_CHECKING:
    from matplotlib.figure import Figure

ACROSS = 4
INK = "#0072B2"  # Okabe and Ito's blue: dark when printed in grey, and told from grey by all eyes
GREY = "#b8b8b8"


def small_panels(titles: Sequence[str], sharex: bool = True, across: int = ACROSS) -> tuple[Figure, list[Any]]:
    """A figure as wide as a page with a panel for each title, `across` side by side, on the same axes.

    sharex: otherwise each has a horizontal axis of its own.
    """
    across = max(1, min(across, len(titles)))
    down = math.ceil(len(titles) / across)
    figure = new_figure((1.1 + 1.45 * across, 0.7 + 1.25 * down))
    drawn = list(figure.subplots(down, across, squeeze=False, sharex=sharex, sharey=True).flat)
    for place, panel in enumerate(drawn):
        panel.tick_params(labelsize=7)
        panel.spines[["top", "right"]].set_visible(False)
        if place >= len(titles):
            panel.set_visible(False)
            continue
        panel.set_title(plain(titles[place]), fontsize=8, loc="left")
        if place + across >= len(titles):  # nothing below it has the numbers of the axis
            panel.tick_params(labelbottom=True)
    return figure, drawn[: len(titles)]


def axes_named(figure: Figure, across: str, up: str) -> None:
    """What all panels have on their axes."""
    figure.supxlabel(plain(across), fontsize=8)
    figure.supylabel(plain(up), fontsize=8)
