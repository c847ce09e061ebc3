"""The figure of scores against size and speed: which model is worth its place."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from harness.reports.figures.drawing import legend, new_figure, plain, title
from harness.reports.quantities import is_score
from harness.reports.shapes import Entry, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Metric of a column -> (what its axis says, whether more of it is better).
AXES = {
    "sentences_per_second_from_ids": ("sentences a second, from token ids", True),
    "sentences_per_second_from_text": ("sentences a second, from text", True),
    "parameters": ("parameters", False),
    "megabytes": ("megabytes of weights", False),
}
MARKERS = "osD^vP<>"
LABELLED = 12  # points that all have their label; among more, those that are undominated


@dataclass(frozen=True)
class Point:
    """student: "" of the teacher, which is drawn but not joined. The score is x 100; what has no spread has nan."""

    label: str
    student: str
    x: float
    x_spread: float
    score: float
    spread: float
    collapsed: bool = False


def pareto(table: Table) -> Figure | None:
    """The average (of a single task its first metric) x 100 against each of AXES that the table has a column of.

    Logarithmic across; bars: ± as in the table, both ways; a line joins the students that none surpasses in both, those
    aside that collapsed, which are hollow. None without such a column, or without a complete score beside one.
    """
    scores = [j for j, c in enumerate(table.columns) if c.selects and is_score(c.metric)]
    asked = [(j, c.metric) for j, c in enumerate(table.columns) if not c.task and c.metric in AXES]
    drawn = [(metric, found) for j, metric in asked if scores and (found := points(table, scores[-1], j))]
    if not drawn:
        return None
    students = list(dict.fromkeys(p.student for _, found in drawn for p in found if p.student))
    figure = new_figure((5.2 * len(drawn) + 1.6, 4.4))
    handles: dict[str, Any] = {}
    for panel, (metric, found) in zip(figure.subplots(1, len(drawn), squeeze=False)[0], drawn, strict=True):
        axis, more = AXES[metric]
        for point in found:
            place = students.index(point.student) if point.student else -1
            look = {"color": f"C{place % 10}", "marker": MARKERS[place % len(MARKERS)]}
            look |= {"markerfacecolor": "white"} if point.collapsed else {}
            bar = panel.errorbar(
                point.x,
                point.score,
                xerr=None if math.isnan(point.x_spread) else [[min(point.x_spread, 0.9 * point.x)], [point.x_spread]],
                yerr=None if math.isnan(point.spread) else point.spread,
                **(look if point.student else {"color": "black", "marker": "*", "markersize": 10}),
                linestyle="none",
                elinewidth=0.7,
                capsize=2,
            )
            if not point.collapsed or point.student not in handles:
                handles[point.student or point.label] = bar
        front = undominated([p for p in found if p.student and not p.collapsed], more)
        panel.plot([p.x for p in front], [p.score for p in front], color="grey", linewidth=1, zorder=0)
        panel.margins(0.12)
        _logarithmic(panel, [p.x for p in found])
        panel.set_xlabel(axis)
        panel.set_ylabel(plain(f"{table.columns[scores[-1]].label} × 100"))
        named = [p for p in found if p.student]
        _label(figure, panel, named if len(named) <= LABELLED else front)
    legend(figure, handles)
    title(figure, "Bars: ±, as in the table; joined: no other student is better in both")
    return figure


def points(table: Table, score: int, column: int) -> list[Point]:
    """A point for each line that has a complete score and a value in the other column, and one for the teacher."""
    lines = [(b, line) for b in table.blocks if not b.improvement for line in b.lines]
    several = len({b.init_of(line) for b, line in lines} - {""}) > 1
    found = []
    for block, line in lines:
        init = block.init_of(line) if several else ""
        label = line.row.label + (f" ({init})" if init else "")
        found += _point(label, line.student, line.entries[score], line.entries[column])
    teacher = _point("Teacher", "", table.teacher[score], table.teacher[column]) if table.teacher else []
    return found + teacher


def _point(label: str, student: str, score: Entry, at: Entry) -> list[Point]:
    if score.status != "complete" or score.value is None or not at.value:
        return []
    spread = math.nan if score.std is None else 100 * score.std
    x_spread = math.nan if at.std is None else at.std
    return [Point(label, student, at.value, x_spread, 100 * score.value, spread, bool(score.collapsed))]


def undominated(found: Sequence[Point], more: bool) -> list[Point]:
    """The points that no other equals or surpasses both ways, by x. more: more of x is better.

    Of equal points all stay.
    """

    def surpasses(one: Point, other: Point) -> bool:
        ahead = one.x >= other.x if more else one.x <= other.x
        return ahead and one.score >= other.score and (one.x, one.score) != (other.x, other.score)

    front = [p for p in found if not any(surpasses(other, p) for other in found)]
    return sorted(front, key=lambda p: (p.x, p.score))


def _logarithmic(panel: Any, found: Sequence[float]) -> None:
    """A logarithmic horizontal axis whose marks are few and short: 150k, 2M."""
    from matplotlib.ticker import EngFormatter, LogLocator, NullLocator

    panel.set_xscale("log")
    span = max(found) / min(found)
    steps = (1.0, 1.5, 2.0, 3.0, 5.0, 7.0) if span < 5 else (1.0, 2.0, 5.0) if span < 50 else (1.0,)
    panel.xaxis.set_major_locator(LogLocator(subs=steps))
    panel.xaxis.set_major_formatter(EngFormatter(sep=""))
    panel.xaxis.set_minor_locator(NullLocator())


def _label(figure: Figure, panel: Any, found: Sequence[Point]) -> None:
    """Each point's label beside it, moved up or down from those it would cover, with a line to its point."""
    height, width = 9.5 * figure.dpi / 72, 110 * figure.dpi / 72
    figure.draw_without_rendering()  # places are only known of a figure that is laid out
    taken: list[tuple[float, float]] = []
    for point in sorted(found, key=lambda p: p.score):
        x, y = panel.transData.transform((point.x, point.score))
        place = y
        while any(abs(place - there) < height and abs(x - beside) < width for beside, there in taken):
            place += 1
        taken.append((x, place))
        left = x > panel.transAxes.transform((0.6, 0))[0]
        panel.annotate(
            plain(point.label),
            (point.x, point.score),
            (-9 if left else 9, (place - y) * 72 / figure.dpi),
            textcoords="offset points",
            ha="right" if left else "left",
            va="center",
            fontsize=7,
            arrowprops={"arrowstyle": "-", "linewidth": 0.4, "color": "grey", "shrinkA": 0, "shrinkB": 2},
        )
