"""Learning curves: a panel a row, scores and training losses epoch by epoch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import NullLocator

from harness.reports.figures.drawing import legend, style, title
from harness.reports.figures.multiples import behind, small_panels
from harness.reports.tables.layout import heading
from harness.reports.tables.shapes import Block, Entry, Table

SCORE, LOSS = "score", "loss"  # beside them the terms of a sum by their names
BEHIND = 2  # tasks up to which the other rows are drawn in grey: more lines hide each other
Point = tuple[int, str, str, float]  # epoch over all stages, stage, quantity, value


def rows(table: Table) -> list[dict[str, Any]]:
    """By task, row and epoch over all stages: the selection metric x 100, the loss and, of a sum, its terms.

    Each value is the mean over the runs of the row's seeds that have one. Of every student and initialisation where no
    row has several, otherwise of the first that has curves, beside the rows that fix both; made says which, where all
    that is drawn is of one.
    """
    places = [(j, c) for j, c in enumerate(table.columns) if c.task and c.selects]

    def of(blocks: Sequence[Block]) -> dict[tuple[str, int], list[Point]]:
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
        {"task": column.label, "row": label, "made": common, "epoch": epoch, "stage": stage}
        | {"quantity": quantity, "value": float(f"{value:.6g}")}
        for at, column in places
        for (label, j), curve in drawn.items()
        if j == at
        for epoch, stage, quantity, value in curve
    ]


def draw(table: Table, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Above the scores, below the losses as shares of what their stage began with; a line a task.

    Of one or two tasks the other rows stand behind in grey.
    """
    labels = list(dict.fromkeys(x["row"] for x in rows))
    tasks = list(dict.fromkeys(x["task"] for x in rows))
    staged: dict[Any, dict[str, list[tuple[int, float]]]] = {key: {} for key in product((SCORE, LOSS), labels, tasks)}
    for x in rows:
        if (key := (x["quantity"], x["row"], x["task"])) in staged:
            staged[key].setdefault(x["stage"], []).append((x["epoch"], x["value"]))
    lines = {key: [*found.values()] for key, found in staged.items()}
    for (part, *_), stages in lines.items():
        if part == LOSS:  # as shares of what the stage began with; what is not above zero has no logarithm
            begun = [stage for stage in stages if stage[0][1] > 0]
            stages[:] = [[(epoch, value / stage[0][1]) for epoch, value in stage if value > 0] for stage in begun]
    parts = {SCORE: "selection score × 100", LOSS: "loss, first epoch = 1"}
    shown = [part for part in parts if any(lines[part, label, task] for label in labels for task in tasks)]
    widest = max(map(len, tasks))
    beside = 0.5 + 0.07 * widest if len(tasks) > 1 else 0.0
    figure, panels = small_panels(labels, "epoch, all stages", [parts[part] for part in shown], beside=beside)
    handles: dict[str, Any] = {}
    for part, drawn in zip(shown, panels, strict=True):
        for panel, label in zip(drawn, labels, strict=True):
            if len(tasks) <= BEHIND:
                others = ((other, task) for other in labels for task in tasks if other != label)
                behind(panel, (stage for other, task in others for stage in lines[part, other, task]))
            for place, task in enumerate(tasks):
                for stage in lines[part, label, task]:
                    (handle,) = panel.plot(
                        *zip(*stage, strict=True), marker=".", markersize=3, linewidth=1.4, zorder=3, **style(place)
                    )
                    handles.setdefault(task, handle)
            panel.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
        if part == LOSS:
            drawn[0].set_yscale("log")
            drawn[0].yaxis.set_minor_locator(NullLocator())
    if len(tasks) > 1:
        legend(figure, {task: handles[task] for task in tasks if task in handles})
    common = rows[0]["made"]
    what = common if len(tasks) > 1 else ", ".join(filter(None, (common, tasks[0])))
    title(figure, "Learning curves" + (f" ({what})" if what else ""))
    return figure


def _curve(entry: Entry) -> list[Point]:
    """Every quantity wherever a seed was measured: its mean over these seeds."""
    measured: dict[tuple[int, str, str], list[float]] = {}
    for run in entry.runs:
        for epoch, point in enumerate(run.record.get("curve") or (), 1):
            terms = point.get("terms", {})
            values = {name: term["value"] for name, term in terms.items()} if len(terms) > 1 else {}
            values |= {LOSS: point["loss"]} if point.get("loss") is not None else {}
            values |= {SCORE: 100 * point["selection"]} if point["selection"] is not None else {}
            for quantity, value in values.items():
                measured.setdefault((epoch, point["stage"], quantity), []).append(value)
    return [(*key, sum(values) / len(values)) for key, values in measured.items()]
