"""The selection metric as it grows by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.reports.figures.drawing import legend, panels, style, title
from harness.reports.layout import heading
from harness.reports.shapes import Block, Entry, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def rows(table: Table) -> list[dict[str, Any]]:
    """The selection metric x 100 by task, row and epoch over all stages, the mean over the seeds that reached it.

    Of every student and initialisation where no row has several, otherwise of the first that has curves, beside the
    rows that fix both; made says which, where all that is drawn is of one.
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
    students, inits = {block.student for block in made}, {block.init for block in made}
    common = heading(students.pop() if len(students) == 1 else "", inits.pop() if len(inits) == 1 else "")
    return [
        {"task": column.label, "row": label, "made": common, "epoch": epoch, "score": round(score, 6)}
        for at, column in places
        for (label, j), curve in drawn.items()
        if j == at
        for epoch, score in curve
    ]


def draw(table: Table, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """One panel per task, one line per row."""
    labels = list(dict.fromkeys(x["row"] for x in rows))
    tasks = list(dict.fromkeys(x["task"] for x in rows))
    figure, axes = panels(tasks, labels)
    handles: dict[str, Any] = {}
    for panel, task in zip(axes, tasks, strict=True):
        for place, label in enumerate(labels):
            points = [(x["epoch"], x["score"]) for x in rows if (x["task"], x["row"]) == (task, label)]
            if points:
                x, y = zip(*points, strict=True)
                (handles[label],) = panel.plot(x, y, marker=".", linewidth=1.2, **style(place))
        panel.set_xlabel("epoch, all stages")
        panel.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    legend(figure, {label: handles[label] for label in labels})
    common = rows[0]["made"]
    title(figure, "Selection metric × 100" + (f" ({common})" if common else ""))
    return figure


def _curve(entry: Entry) -> list[tuple[int, float]]:
    """(epoch counted over all stages, mean selection metric x 100) wherever a seed was measured."""
    measured: dict[int, list[float]] = {}
    for run in entry.runs:
        for epoch, point in enumerate(run.record.get("curve") or (), 1):
            if point["selection"] is not None:
                measured.setdefault(epoch, []).append(100 * point["selection"])
    return [(epoch, sum(scores) / len(scores)) for epoch, scores in sorted(measured.items())]
