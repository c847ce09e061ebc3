"""The figure of scores along the points that a study's rows stand at."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from harness.reports.figures.drawing import legend, marker, panels, plain, style, title
from harness.reports.tables.layout import heading, told_apart
from harness.reports.tables.quantities import is_score, scaled
from harness.reports.tables.shapes import Table


def rows(table: Table) -> list[dict[str, Any]]:
    """The selection metric of each complete entry of a row that stands at a point, by task, line and point.

    line: the label of the point, with the heading of its block where several blocks have it. x: the point.
    """
    columns = [(j, c) for j, c in enumerate(table.columns) if c.task and c.selects]
    placed = [(b, x, *x.row.point) for b, x in table.lines() if x.row.point]
    named = told_apart([(label, heading(b.student, b.init)) for b, _, label, _ in placed])
    return [
        {
            "task": column.label,
            "metric": column.metric,
            "line": named[label, heading(block.student, block.init)],
            "x": at,
            "score": round(scaled(column.metric, entry.value), 6),
            "std": None if entry.std is None else round(scaled(column.metric, entry.std), 6),
            "n": entry.n,
        }
        for j, column in columns
        for block, line, label, at in placed
        if (entry := line.entries[j]).status == "complete" and entry.value is not None
    ]


def draw(table: Table, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A panel per task, a line per label of a point; bars are the sample standard deviation over seeds.

    The axis is logarithmic to base 2 where the points span more than a factor of 8.
    """
    tasks = dict.fromkeys((x["task"], x["metric"]) for x in rows)
    names = list(dict.fromkeys(x["line"] for x in rows))
    figure, axes = panels([task for task, _ in tasks], names)
    handles: dict[str, Any] = {}
    for panel, (task, metric) in zip(axes, tasks, strict=True):
        drawn = [x for x in rows if (x["task"], x["metric"]) == (task, metric)]
        for place, name in enumerate(names):
            points = sorted((p for p in drawn if p["line"] == name), key=lambda p: p["x"])
            if points:
                x, y = [p["x"] for p in points], [p["score"] for p in points]
                error = [math.nan if p["std"] is None else p["std"] for p in points]
                look = {"marker": marker(place), "markersize": 4, "linewidth": 1.2, "capsize": 2.5, "elinewidth": 0.8}
                handles[name] = panel.errorbar(x, y, error, **look, **style(place))
        _axis(panel, sorted({p["x"] for p in drawn}))
        panel.set_xlabel("\n".join(textwrap.wrap(plain(table.figure), 36)))
        panel.set_ylabel(plain(metric.replace("_", " ") + (" × 100" if is_score(metric) else "")))
    legend(figure, {name: handles[name] for name in names})
    if any(x["std"] is not None for x in rows):
        title(figure, "Mean over seeds; bars: sample standard deviation")
    return figure


def _axis(panel: Any, points: Sequence[float]) -> None:
    """Mark the points on the horizontal axis, as many as leave room for their numbers."""
    least = min((x for x in points if x > 0), default=0.0)
    wide = points[0] >= 0 and least and points[-1] > 8 * least
    if wide:  # linear below the least positive point, so that zero has a place
        panel.set_xscale("symlog", base=2, linthresh=least, linscale=0.5)
    at = [panel.xaxis.get_transform().transform([x])[0] for x in points]
    ticks = [0]
    for i in range(1, len(points)):
        if at[i] - at[ticks[-1]] > 0.08 * (at[-1] - at[0]):
            ticks.append(i)
    panel.set_xticks([points[i] for i in ticks], [f"{points[i]:g}" for i in ticks])
    panel.xaxis.set_minor_locator(NullLocator())
