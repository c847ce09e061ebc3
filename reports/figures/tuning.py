"""Tuning curves: a panel a row, what the chosen setting reaches by the number of trials."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure

from harness.reports.additions import tuning
from harness.reports.figures.drawing import PALETTE, ink, legend, style, title
from harness.reports.figures.multiples import behind, small_panels
from harness.reports.tables.shapes import Table

rows = tuning.rows


def draw(table: Table, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """The average, or the only task, of the first block that has curves; every other is in the rows.

    Solid: expected dev score of the chosen setting. Dashed, in its band: the score that it is chosen by. Grey: others.
    """
    block = rows[0]["block"]
    tasks = [row["task"] for row in rows if row["block"] == block]
    task = tuning.AVERAGE if tuning.AVERAGE in tasks else tasks[0]
    curves: dict[str, list[Mapping[str, Any]]] = {}
    for row in rows:
        if (row["block"], row["task"]) == (block, task):
            curves.setdefault(row["row"], []).append(row)
    figure, (panels,) = small_panels(list(curves), "trials", ["score × 100"], beside=2.4)
    lines = {label: [(p["trials"], p["dev"]) for p in points] for label, points in curves.items()}
    for panel, (label, points) in zip(panels, curves.items(), strict=True):
        behind(panel, (line for other, line in lines.items() if other != label))
        (dev,) = panel.plot(*zip(*lines[label], strict=True), linewidth=1.6, marker=".", markersize=4, **style(0))
        chosen_by = [p["chosen_by"] for p in points]
        (chooses,) = panel.plot([p["trials"] for p in points], chosen_by, linewidth=0.9, color=ink(), linestyle="--")
    low, high = panels[0].get_ylim()
    for panel, points in zip(panels, curves.values(), strict=True):  # to the panel's edge where nothing bounds it
        bottom, top = ([p[name] for p in points] for name in ("lower", "upper"))
        panel.fill_between(
            [p["trials"] for p in points],
            [low if value is None else max(value, low) for value in bottom],
            [high if value is None else min(value, high) for value in top],
            color=PALETTE[0],
            alpha=0.15,
            linewidth=0,
        )
        panel.set_ylim(low, high)
        panel.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    labels = {column.task: column.label for column in table.columns if column.task}
    what = ", ".join(filter(None, (block, labels.get(task, task))))
    legend(figure, {"dev, of the chosen setting": dev, "what chooses it, with its 95% band": chooses})
    title(figure, f"Tuning curves ({what})")
    return figure
