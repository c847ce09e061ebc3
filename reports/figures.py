"""Two figures as SVG: the scores by objective and initialisation, and how the selection metric grows.

The same table gives the same bytes with the same matplotlib.
"""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

from reports.layout import entry_text, heading
from reports.model import Entry, Table
from reports.quantities import is_score

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def heatmap(table: Table) -> bytes | None:
    """SVG of the average (of a single task its first metric) x 100: one panel per student, rows by initialisations.

    A dash stands where the average lacks a task. None without any complete value, or where the rows fix both axes.
    """
    from matplotlib.colors import Normalize

    blocks = [b for b in table.blocks if b.student or b.init]
    students = list(dict.fromkeys(block.student for block in blocks))
    places = [j for j, c in enumerate(table.columns) if c.selects and is_score(c.metric)]
    entries = {
        (b.student, b.init, line.row.name): line.entries[places[-1]] for b in blocks for line in b.lines if places
    }
    values = [v for e in entries.values() if not math.isnan(v := _complete(e))]
    if not values:
        return None
    rows = list(dict.fromkeys((line.row.name, line.row.label) for b in blocks for line in b.lines))
    inits = {s: [b.init for b in blocks if b.student == s] for s in students}
    scale = Normalize(min(values), max(values) if max(values) > min(values) else min(values) + 1)
    figure = _figure((3.2 + 1.0 * sum(map(len, inits.values())) + 0.4 * len(students), 1.4 + 0.34 * len(rows)))
    panels = figure.subplots(
        1, len(students), squeeze=False, sharey=True, width_ratios=[len(inits[s]) for s in students]
    )
    for panel, student in zip(panels[0], students, strict=True):
        found = [[entries.get((student, init, name)) for init in inits[student]] for name, _ in rows]
        shown = [[_complete(e) for e in line] for line in found]
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
    figure.colorbar(image, ax=list(panels[0]), label=_plain(f"{table.columns[places[-1]].label} × 100"))
    return _svg(figure)


def curves(table: Table) -> bytes | None:
    """SVG of the selection metric by epoch: one panel per task, one line per row; None where no run recorded a curve.

    Drawn for the first student and initialisation that have curves; each point is the mean over the seeds that
    reached the epoch.
    """
    places = [j for j, c in enumerate(table.columns) if c.task and c.selects]
    tasks = [table.columns[j] for j in places]
    for block in table.blocks:
        drawn = [
            [(line.row.label, curve) for line in block.lines if (curve := _curve(line.entries[j]))] for j in places
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
    made = heading(block.student, block.init)
    figure.suptitle(_plain("Selection metric × 100" + (f" ({made})" if made else "")), x=0.02, ha="left", fontsize=10)
    return _svg(figure)


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
