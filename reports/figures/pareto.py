"""The figure of scores against size and speed: which model is worth its place."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

from harness.reports.figures.drawing import ink, legend, marker, new_figure, plain, side_by_side, spread, title
from harness.reports.tables.quantities import is_score
from harness.reports.tables.shapes import Table

# Metric of a column -> (what its axis says, whether more of it is better).
AXES = {
    "sentences_per_second_from_ids": ("sentences a second, from token ids", True),
    "sentences_per_second_from_text": ("sentences a second, from text", True),
    "parameters": ("parameters", False),
    "megabytes": ("megabytes of weights", False),
}
LABELLED = 12  # points that all have their label; among more, those that are undominated


def rows(table: Table) -> list[dict[str, Any]]:
    """The average (of a single task its first metric) x 100 against each of AXES that the table has a column of.

    model: the row's label. joined: no other student is better in both; of controls, other references and those that
    collapsed, none is.
    """
    scores = [j for j, c in enumerate(table.columns) if c.selects and is_score(c.metric)]
    made = []
    for j, c in enumerate(table.columns):
        if c.task or c.metric not in AXES or not scores:
            continue
        found = _points(table, scores[-1], j)
        front = undominated([point for point, competes in found if competes], AXES[c.metric][1])
        about = {"measured": c.metric, "column": table.columns[scores[-1]].axis}
        made += [{**about, **point, "joined": competes and point in front} for point, competes in found]
    return made


def draw(table: Table, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A panel for each size or speed, logarithmic across; bars: ± as in the table, both ways.

    A line joins the students that none surpasses in both; those that collapsed are hollow and not joined.
    """
    metrics = list(dict.fromkeys(x["measured"] for x in rows))
    students = list(dict.fromkeys(x["student"] for x in rows if x["student"]))
    across = side_by_side(len(metrics), 3.2)
    figure = new_figure((5.2 * across + 1.6, 4.4 * math.ceil(len(metrics) / across)))
    handles: dict[str, Any] = {}
    panels = spread(figure, len(metrics), across)
    for panel, metric in zip(panels, metrics, strict=True):
        found = [x for x in rows if x["measured"] == metric]
        for x in found:
            place = students.index(x["student"]) if x["student"] else -1
            look = {"color": f"C{place}", "marker": marker(place)}
            look |= {"markerfacecolor": "none"} if x["collapsed"] else {}
            bar = panel.errorbar(
                x["x"],
                x["score"],
                xerr=None if x["x_std"] is None else [[min(x["x_std"], 0.9 * x["x"])], [x["x_std"]]],
                yerr=x["std"],
                **(look if x["student"] else {"color": ink(), "marker": "*", "markersize": 10}),
                linestyle="none",
                elinewidth=0.7,
                capsize=2,
            )
            if not x["collapsed"] or x["student"] not in handles:
                handles[x["student"] or x["model"]] = bar
        front = sorted((x for x in found if x["joined"]), key=lambda x: (x["x"], x["score"]))
        panel.plot([x["x"] for x in front], [x["score"] for x in front], color="grey", linewidth=1, zorder=0)
        panel.margins(0.12)
        _logarithmic(panel, [x["x"] for x in found])
        panel.set_xlabel(AXES[metric][0])
        panel.set_ylabel(plain(f"{found[0]['column']} × 100"))
    legend(figure, handles)
    title(figure, "Bars: ±, as in the table; joined: no other student is better in both")
    for panel, metric in zip(panels, metrics, strict=True):  # once nothing else moves the panels
        named = [x for x in rows if x["measured"] == metric and x["student"]]
        _label(figure, panel, named if len(named) <= LABELLED else [x for x in named if x["joined"]])
    return figure


def _points(table: Table, score: int, column: int) -> list[tuple[dict[str, Any], bool]]:
    """What is drawn of each line that has a complete score and a value in the other column, then of the teacher.

    With each, whether it may be joined. student: "" of the teacher.
    """
    lines = table.lines()
    several = len({b.init_of(line) for b, line in lines} - {""}) > 1
    drawn = []
    for block, line in lines:
        init = block.init_of(line) if several else ""
        label = line.row.label + (f" ({init})" if init else "")
        drawn.append((label, line.student, line.entries, line.row.competes))
    if table.teacher:
        drawn.append(("Teacher", "", table.teacher, False))
    found = []
    for label, student, entries, competes in drawn:
        own, at = entries[score], entries[column]
        if own.status != "complete" or own.value is None or not at.value:
            continue
        point = {
            "model": label,
            "student": student,
            "x": at.value,
            "x_std": None if at.std is None else round(at.std, 6),
            "score": round(100 * own.value, 6),
            "std": None if own.std is None else round(100 * own.std, 6),
            "collapsed": bool(own.collapsed),
        }
        found.append((point, bool(student and competes and not own.collapsed)))
    return found


def undominated(found: Sequence[Mapping[str, Any]], more: bool) -> list[Mapping[str, Any]]:
    """The points that no other equals or surpasses both ways. more: more of x is better. Of equal points all stay."""

    def surpasses(one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        ahead = one["x"] >= other["x"] if more else one["x"] <= other["x"]
        return ahead and one["score"] >= other["score"] and (one["x"], one["score"]) != (other["x"], other["score"])

    return [p for p in found if not any(surpasses(other, p) for other in found)]


def _logarithmic(panel: Any, found: Sequence[float]) -> None:
    """A logarithmic horizontal axis whose marks are few and short: 150k, 2M."""
    panel.set_xscale("log")
    span = max(found) / min(found)
    steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if span < 5 else (1.0, 2.0, 5.0) if span < 50 else (1.0,)
    panel.xaxis.set_major_locator(LogLocator(subs=steps))
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.xaxis.set_minor_locator(NullLocator())


def _label(figure: Figure, panel: Any, found: Sequence[Mapping[str, Any]]) -> None:
    """Each point's label beside it, moved up or down from those it would cover, with a line to its point."""
    height, width = 9.5 * figure.dpi / 72, 110 * figure.dpi / 72
    figure.draw_without_rendering()  # places are only known of a figure that is laid out
    taken: list[tuple[float, float]] = []
    for point in sorted(found, key=lambda p: p["score"]):
        x, y = panel.transData.transform((point["x"], point["score"]))
        place = y
        while any(abs(place - there) < height and abs(x - beside) < width for beside, there in taken):
            place += 1
        taken.append((x, place))
        left = x > panel.transAxes.transform((0.6, 0))[0]
        panel.annotate(
            plain(point["model"]),
            (point["x"], point["score"]),
            (-9 if left else 9, (place - y) * 72 / figure.dpi),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=7,
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": "grey", "shrinkA": 0, "shrinkB": 2},
        )
