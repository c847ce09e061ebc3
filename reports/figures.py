"""Two figures as SVG: the average by objective and initialisation, and how the selection metric grows.

The same table gives the same bytes with the same matplotlib.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

from reports.layout import entry_text
from reports.model import Entry, Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def heatmap(table: Table) -> bytes | None:
    """SVG of the average score x 100: one panel per student, rows by initialisations; None without any average.

    A dash stands where the average lacks a task.
    """
    from matplotlib.colors import Normalize

    students = list(dict.fromkeys(block.student for block in table.blocks))
    values = [100 * v for e in _averages(table).values() if (v := e.value) is not None]
    if not values:
        return None
    rows = list(dict.fromkeys((line.row.name, line.row.label) for b in table.blocks for line in b.lines))
    inits = {s: [b.init for b in table.blocks if b.student == s] for s in students}
    scale = Normalize(min(values), max(values) if max(values) > min(values) else min(values) + 1)
    figure = _figure((3.2 + 1.0 * sum(map(len, inits.values())) + 0.4 * len(students), 1.4 + 0.34 * len(rows)))
    panels = figure.subplots(
        1, len(students), squeeze=False, sharey=True, width_ratios=[len(inits[s]) for s in students]
    )
    averages = _averages(table)
    for panel, student in zip(panels[0], students, strict=True):
        found = [[averages.get((student, init, name)) for init in inits[student]] for name, _ in rows]
        shown = [[math.nan if e is None or e.value is None else 100 * e.value for e in line] for line in found]
        image = panel.imshow(shown, cmap="viridis", norm=scale, aspect="auto")
        panel.set_facecolor("#dddddd")
        panel.set_xticks(range(len(inits[student])), [_plain(i) for i in inits[student]], rotation=30, ha="right")
        panel.set_yticks(range(len(rows)), [_plain(label) for _, label in rows])
        panel.set_title(_plain(student), fontsize=10)
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
    figure.colorbar(image, ax=list(panels[0]), label="average × 100")
    return _svg(figure)


def curves(table: Table) -> bytes | None:
    """SVG of the selection metric by epoch: one panel per task, one line per row; None where no run recorded a curve.

    Drawn for the first student and initialisation that have curves; each point is the mean over the seeds that
    reached the epoch.
    """
    tasks = [c for c in table.columns if c.task]
    for block in table.blocks:
        drawn = [
            [(line.row.label, curve) for line in block.lines if (curve := _curve(line.entries[j]))]
            for j in range(len(tasks))
        ]
        if any(drawn):
            break
    else:
        return None
    figure = _figure((3.4 * min(len(tasks), 3) + 2.4, 2.8 * math.ceil(len(tasks) / 3)))
    panels = figure.subplots(math.ceil(len(tasks) / 3), min(len(tasks), 3), squeeze=False).flat
    labels = list(dict.fromkeys(label for lines in drawn for label, _ in lines))
    handles: dict[str, Any] = {}
    for column, lines, panel in zip(tasks, drawn, panels, strict=False):
        for label, curve in lines:
            place = labels.index(label)
            style = ("-", "--", ":")[place // 10 % 3]
            (handles[label],) = panel.plot(
                *zip(*curve, strict=True), style, color=f"C{place % 10}", marker=".", linewidth=1.2
            )
        panel.set_title(_plain(column.label), fontsize=10)
        panel.set_xlabel("epoch, all stages")
        panel.xaxis.get_major_locator().set_params(integer=True, min_n_ticks=1)
    for panel in list(panels):
        panel.set_visible(False)
    figure.legend(
        [handles[label] for label in labels],
        [_plain(label) for label in labels],
        loc="outside right upper",
        fontsize=8,
        frameon=False,
    )
    figure.suptitle(
        _plain(f"Selection metric × 100 ({block.student}, init {block.init})"), x=0.02, ha="left", fontsize=10
    )
    return _svg(figure)


def _averages(table: Table) -> dict[tuple[str, str, str], Entry]:
    return {(b.student, b.init, line.row.name): line.entries[-1] for b in table.blocks for line in b.lines}


def _curve(entry: Entry) -> list[tuple[int, float]]:
    """(epoch counted over all stages, mean selection metric x 100) wherever a seed was measured."""
    measured: dict[int, list[float]] = {}
    for run in entry.runs:
        for epoch, point in enumerate(run.record.get("curve") or (), 1):
            if point["selection"] is not None:
                measured.setdefault(epoch, []).append(100 * point["selection"])
    return [(epoch, sum(scores) / len(scores)) for epoch, scores in sorted(measured.items())]


def _figure(size: tuple[float, float]) -> Figure:
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def _plain(text: str) -> str:
    """Text that matplotlib neither reads as mathematics nor leaves out of a legend."""
    text = " ".join(text.split()).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def _svg(figure: Figure) -> bytes:
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "distill-harness", "svg.fonttype": "path"}):
        written = io.BytesIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return written.getvalue()
