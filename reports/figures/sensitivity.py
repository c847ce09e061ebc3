"""Score against the value of each searched setting: a panel a setting and row, a mark a task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from harness.reports.additions import sensitivity
from harness.reports.figures.drawing import PALETTE, legend, marker, plain, title
from harness.reports.figures.multiples import small_panels
from harness.reports.tables.shapes import Table

rows = sensitivity.rows


def draw(table: Table, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Of the first block that searched; the trials that were chosen are filled."""
    block = rows[0]["block"]
    drawn = [row for row in rows if row["block"] == block]
    settings = list(dict.fromkeys(row["setting"] for row in drawn))
    found = dict.fromkeys((row["setting"], row["row"]) for row in drawn)
    places = sorted(found, key=lambda place: settings.index(place[0]))
    tasks = list(dict.fromkeys(row["task"] for row in drawn))
    titles = [f"{label}: {setting}" if len(settings) > 1 else label for setting, label in places]
    across = "value" if len(settings) > 1 else settings[0]
    figure, (panels,) = small_panels(titles, across, ["dev score × 100"], sharex=False, beside=1.4)
    handles: dict[str, Any] = {}
    for panel, (setting, label) in zip(panels, places, strict=True):
        alike = [row for row in drawn if row["setting"] == setting]  # of all rows: the same axis
        numbers = all(isinstance(row["value"], (int, float)) and not isinstance(row["value"], bool) for row in alike)
        words = [] if numbers else sorted({row["value"] for row in alike})
        for number, task in enumerate(tasks):
            for row in (row for row in alike if (row["row"], row["task"]) == (label, task)):
                colour = PALETTE[number % len(PALETTE)]
                (handle,) = panel.plot(
                    words.index(row["value"]) if words else row["value"],
                    row["dev"],
                    marker(number),
                    color=colour,
                    markersize=4,
                    markerfacecolor=colour if row["chosen"] else "none",
                    markeredgewidth=0.8,
                )
                handles.setdefault(task, handle)
        if words:
            panel.set_xticks(range(len(words)), [plain(str(word)) for word in words], fontsize=6)
            panel.set_xlim(-0.5, len(words) - 0.5)
        else:
            _axis(panel, alike)
    labels = {column.task: column.label for column in table.columns}
    legend(figure, {labels.get(task, task): handle for task, handle in handles.items()})
    title(figure, f"Filled: what was chosen{f' ({block})' if block else ''}")
    return figure


def _axis(panel: Any, rows: Sequence[Mapping[str, Any]]) -> None:
    """From the least to the greatest value that any row tried; logarithmic where they were drawn or listed so."""
    values = sorted({float(row["value"]) for row in rows})
    low, high = values[0], values[-1]
    log = rows[0]["scale"] == "log" or (rows[0]["scale"] == "list" and low > 0 and high >= 4 * low)
    if log:
        panel.set_xscale("log")
        margin = (high / low) ** 0.08 if high > low else 2.0
        panel.set_xlim(low / margin, high * margin)
    elif high > low:
        panel.set_xlim(low - 0.08 * (high - low), high + 0.08 * (high - low))
    ticks = values if len(values) <= 3 else [low, (low * high) ** 0.5 if log else (low + high) / 2, high]
    panel.xaxis.set_major_locator(FixedLocator(ticks))
    panel.xaxis.set_minor_locator(NullLocator())
    panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:.2g}"))
