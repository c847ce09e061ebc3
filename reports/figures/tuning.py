"""Tuning curves: a panel a row, what the chosen setting reaches by the number of trials."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.reports import tuning
from harness.reports.figures.drawing import title
from harness.reports.figures.multiples import GREY, INK, axes_named, small_panels
from harness.reports.shapes import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rows(table: Table) -> list[dict[str, Any]]:
    """Every curve, point by point; scores × 100, nothing where n trials bound nothing. Empty without curves."""
    return [
        {
            "block": curves.block,
            "task": curves.task or "average",
            "metric": curves.metric,
            "row": curve.label,
            "trials": k,
            "dev": round(100 * curve.expected[k - 1], 6),
            **{
                name: None if value is None else round(100 * value, 6)
                for name, value in zip(("chosen_by", "lower", "upper"), curve.band[k - 1], strict=True)
            },
        }
        for curves in tuning.found(table)
        for curve in curves.curves
        for k in range(1, curves.trials + 1)
    ]


def draw(table: Table, rows: list[dict[str, Any]]) -> Figure | None:
    """The average, or the only task, of the first block that has curves; None without any.

    Solid: expected dev score of the chosen setting. Dashed, in its band: the score that it is chosen by. Grey: others.
    """
    if not rows:
        return None
    block = rows[0]["block"]
    task = next((row["task"] for row in rows if row["block"] == block and row["task"] == "average"), rows[0]["task"])
    curves: dict[str, list[dict[str, Any]]] = {}
    for row in rows:
        if (row["block"], row["task"]) == (block, task):
            curves.setdefault(row["row"], []).append(row)
    figure, panels = small_panels(list(curves))
    for panel, label in zip(panels, curves, strict=True):
        for other, points in curves.items():
            if other != label:
                panel.plot([p["trials"] for p in points], [p["dev"] for p in points], color=GREY, linewidth=0.7)
        points = curves[label]
        trials = [p["trials"] for p in points]
        panel.plot(trials, [p["dev"] for p in points], color=INK, linewidth=1.6, marker=".", markersize=4, zorder=3)
        panel.plot(trials, [p["chosen_by"] for p in points], color="#333333", linewidth=0.9, linestyle="--", zorder=2)
    low, high = panels[0].get_ylim()
    for panel, label in zip(panels, curves, strict=True):  # where nothing bounds it, to the edge of the panel
        points = curves[label]
        top = [high if p["upper"] is None else min(p["upper"], high) for p in points]
        bottom = [max(p["lower"], low) for p in points]
        panel.fill_between([p["trials"] for p in points], bottom, top, color=INK, alpha=0.15, linewidth=0)
        panel.set_ylim(low, high)
        panel.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    axes_named(figure, "trials", "score × 100")
    common = ", ".join(
        filter(None, (block, "" if task == "average" else _label(table, task), task * (task == "average")))
    )
    title(
        figure, f"Solid: dev score of the chosen setting. Dashed: the score that chooses, with its 95% band ({common})"
    )
    return figure


def _label(table: Table, task: str) -> str:
    return next((column.label for column in table.columns if column.task == task), task)
