"""Figures of scores: by objective and initialisation, along the rows' points, and as they grow by epoch."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness.reports.figures.drawing import legend, new_figure, panels, plain, style, title, told_apart
from harness.reports.layout import entry_text, heading
from harness.reports.quantities import is_score, scaled
from harness.reports.shapes import Block, Entry, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def heatmap(table: Table) -> Figure | None:
    """The average (of a single task its first metric) x 100: one panel per student, rows by initialisations.

    A dash stands where the average lacks a task. None without any complete value, or where the rows fix both axes.
    """
    from matplotlib.colors import Normalize

    blocks = [b for b in table.blocks if (b.student or b.init) and not b.improvement]
    students = list(dict.fromkeys(block.student for block in blocks))
    places = [j for j, c in enumerate(table.columns) if c.selects and is_score(c.metric)]
    entries = {(b.student, b.init_of(x), x.row.name): x.entries[places[-1]] for b in blocks for x in b.lines if places}
    values = [v for e in entries.values() if not math.isnan(v := _complete(e))]
    if not values:
        return None
    rows = list(dict.fromkeys((line.row.name, line.row.label) for b in blocks for line in b.lines))
    inits = {
        s: list(dict.fromkeys(b.init_of(line) for b in blocks if b.student == s for line in b.lines)) for s in students
    }
    scale = Normalize(min(values), max(values) if max(values) > min(values) else min(values) + 1)
    figure = new_figure((3.2 + 1.0 * sum(map(len, inits.values())) + 0.4 * len(students), 1.4 + 0.34 * len(rows)))
    drawn = figure.subplots(
        1, len(students), squeeze=False, sharey=True, width_ratios=[len(inits[s]) for s in students]
    )
    for panel, student in zip(drawn[0], students, strict=True):
        found = [[entries.get((student, init, name)) for init in inits[student]] for name, _ in rows]
        shown = [[_complete(e) for e in line] for line in found]
        image = panel.imshow(shown, cmap="viridis", norm=scale, aspect="auto")
        panel.set_facecolor("#dddddd")
        panel.set_xticks(range(len(inits[student])), [plain(i) for i in inits[student]], rotation=30, ha="right")
        panel.set_yticks(range(len(rows)), [plain(label) for _, label in rows])
        panel.set_title(plain(student), fontsize=10)
        for y, line in enumerate(found):
            for x, entry in enumerate(line):
                dark = not math.isnan(shown[y][x]) and scale(shown[y][x]) < 0.6
                panel.text(
                    x,
                    y,
                    (entry_text(entry) if entry else "") or "–",
                    ha="center",
                    va="center",
                    fontsize=8,
                    color="white" if dark else "black",
                )
    figure.colorbar(image, ax=list(drawn[0]), label=plain(f"{table.columns[places[-1]].label} × 100"))
    return figure


def lines(table: Table) -> Figure | None:
    """The selection metric along the rows' points: a panel per task, a line per label of a point.

    Bars are the sample standard deviation over seeds. Only complete entries are drawn; None where there are none.
    The axis is logarithmic to base 2 where the points span more than a factor of 8.
    """
    columns = [(j, c) for j, c in enumerate(table.columns) if c.task and c.selects]
    placed = [(b, x, *x.row.point) for b in table.blocks if not b.improvement for x in b.lines if x.row.point]
    named = told_apart([(label, heading(b.student, b.init)) for b, _, label, _ in placed])
    names = list(dict.fromkeys(named.values()))
    drawn: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for block, line, label, at in placed:
        for j, column in columns:
            entry = line.entries[j]
            if entry.status == "complete" and entry.value is not None:
                std = math.nan if entry.std is None else scaled(column.metric, entry.std)
                points = drawn.setdefault((named[label, heading(block.student, block.init)], j), [])
                points.append((at, scaled(column.metric, entry.value), std))
    shown = [(j, column) for j, column in columns if any(place == j for _, place in drawn)]
    if not shown:
        return None
    figure, axes = panels([column.label for _, column in shown], names)
    handles: dict[str, Any] = {}
    for panel, (j, column) in zip(axes, shown, strict=True):
        for place, name in enumerate(names):
            if (name, j) in drawn:
                x, y, error = zip(*sorted(drawn[name, j]), strict=True)
                marker = "osD^v"[place % 5]
                handles[name] = panel.errorbar(
                    x, y, error, marker=marker, markersize=4, linewidth=1.2, capsize=2.5, elinewidth=0.8, **style(place)
                )
        _axis(panel, sorted({point[0] for key in drawn if key[1] == j for point in drawn[key]}))
        panel.set_xlabel("\n".join(textwrap.wrap(plain(table.figure), 36)))
        unit = " × 100" if is_score(column.metric) else ""
        panel.set_ylabel(plain(column.metric.replace("_", " ") + unit))
    legend(figure, {name: handles[name] for name in names if name in handles})
    if any(not math.isnan(std) for points in drawn.values() for _, _, std in points):
        title(figure, "Mean over seeds; bars: sample standard deviation")
    return figure


def _axis(panel: Any, points: Sequence[float]) -> None:
    """Mark the points on the horizontal axis, as many as leave room for their numbers."""
    from matplotlib.ticker import NullLocator

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


def curves(table: Table) -> Figure | None:
    """The selection metric by epoch: one panel per task, one line per row; None where no run recorded a curve.

    Drawn for every student and initialisation where no row has several, otherwise for the first that has curves,
    beside the rows that fix both; each point is the mean over the seeds that reached the epoch.
    """
    places = [(j, c) for j, c in enumerate(table.columns) if c.task and c.selects]

    def of(blocks: Sequence[Block]) -> dict[tuple[str, int], list[tuple[int, float]]]:
        found = [(line, j) for block in blocks for line in block.lines for j, _ in places]
        return {(line.row.label, j): curve for line, j in found if (curve := _curve(line.entries[j]))}

    fixed = [b for b in table.blocks if not (b.student or b.init)]
    free = [b for b in table.blocks if b not in fixed and not b.improvement and of([b])]
    names = [line.row.name for block in free for line in block.lines]
    made = free if len(set(names)) == len(names) else free[:1]
    drawn = of([*fixed, *made])
    if not drawn:
        return None
    labels = list(dict.fromkeys(label for label, _ in drawn))
    figure, axes = panels([column.label for _, column in places], labels)
    handles: dict[str, Any] = {}
    for panel, (j, _) in zip(axes, places, strict=True):
        for place, label in enumerate(labels):
            if (label, j) in drawn:
                x, y = zip(*drawn[label, j], strict=True)
                (handles[label],) = panel.plot(x, y, marker=".", linewidth=1.2, **style(place))
        panel.set_xlabel("epoch, all stages")
        panel.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    legend(figure, {label: handles[label] for label in labels})
    students, inits = {block.student for block in made}, {block.init for block in made}
    common = heading(students.pop() if len(students) == 1 else "", inits.pop() if len(inits) == 1 else "")
    title(figure, "Selection metric × 100" + (f" ({common})" if common else ""))
    return figure


def _complete(entry: Entry | None) -> float:
    """The value x 100 of a complete entry, otherwise nan."""
    return 100 * entry.value if entry and entry.status == "complete" and entry.value is not None else math.nan


def _curve(entry: Entry) -> list[tuple[int, float]]:
    """(epoch counted over all stages, mean selection metric x 100) wherever a seed was measured."""
    measured: dict[int, list[float]] = {}
    for run in entry.runs:
        for epoch, point in enumerate(run.record.get("curve") or (), 1):
            if point["selection"] is not None:
                measured.setdefault(epoch, []).append(100 * point["selection"])
    return [(epoch, sum(scores) / len(scores)) for epoch, scores in sorted(measured.items())]
