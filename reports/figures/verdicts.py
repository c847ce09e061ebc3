"""The verdict on a published table: for each pair of rows of a column, what our data say of their printed order."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from harness.reports.figures.drawing import new_figure, plain, spread, title
from harness.reports.papers import orderings
from harness.reports.statistics.verdicts import CONTRADICTED, SUPPORTED, UNDECIDED
from harness.reports.tables.layout import heading
from harness.reports.tables.quantities import number
from harness.reports.tables.shapes import Table

# Okabe and Ito's blue and vermilion, which the colour-blind tell apart, and grey; each with a sign of its own.
LOOK = {
    SUPPORTED: ("#0072B2", "+", "white"),
    CONTRADICTED: ("#D55E00", "−", "black"),
    UNDECIDED: ("#DDDDDD", "?", "black"),
}
ACROSS = 2  # panels side by side
SIDE = 0.19  # inches of a field


rows = orderings.rows


def draw(table: Table, rows: Sequence[dict[str, Any]]) -> Figure:
    """A panel for each column: lines and columns are its rows in the published order, the field is a pair's verdict."""
    panels: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        panels.setdefault((heading(row["student"], row["init"]), row["column"]), []).append(row)
    orders = [_order(found) for found in panels.values()]
    longest = max(len(label) for order in orders for label in order)
    most, down = max(map(len, orders)), math.ceil(len(panels) / ACROSS)
    across = min(ACROSS, len(panels))
    figure = new_figure((across * (0.5 + 0.075 * longest + SIDE * most), 1.1 + down * (0.55 + SIDE * most)))
    several = len({made for made, _ in panels}) > 1
    drawn = spread(figure, len(panels), across)
    for panel, order, ((made, column), found) in zip(drawn, orders, panels.items(), strict=True):
        for row in found:
            y, x = order.index(row["above"]), order.index(row["below"])
            colour, sign, ink = LOOK[row["verdict"]]
            panel.fill_between((x, x + 1), y, y + 1, facecolor=colour, edgecolor="white", linewidth=0.8)
            panel.text(x + 0.5, y + 0.5, sign, ha="center", va="center", fontsize=8, color=ink)
        panel.set_xlim(0, len(order))
        panel.set_ylim(len(order), 0)
        panel.set_aspect("equal")
        names = [f"{plain(label)}  {k}" for k, label in enumerate(order, 1)]
        panel.set_yticks([k + 0.5 for k in range(len(order))], names, fontsize=7)
        panel.set_xticks([k + 0.5 for k in range(len(order))], range(1, len(order) + 1), fontsize=6)
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
        other = "" if found[0]["like_published"] else " (over other tasks or metrics)"
        panel.set_title(plain(f"{column}{other}" + (f", {made}" if several and made else "")), fontsize=8)
    told = ", ".join(f"{sign} {verdict}" for verdict, (_, sign, _) in LOOK.items())
    title(figure, f"Is the row above that of the number, as published?\n{told}")
    return figure


def _order(found: Sequence[dict[str, Any]]) -> list[str]:
    """The rows of a panel, the best printed number first."""
    printed: dict[str, float] = {}
    for row in found:
        printed |= {row[side]: number(row[f"published_{side}"]) for side in ("above", "below")}
    return sorted(printed, key=lambda label: -printed[label])
