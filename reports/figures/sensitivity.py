"""Score against the value of each searched setting: a panel a setting and row, a mark a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.reports import sensitivity
from harness.reports.figures.drawing import legend, plain, title
from harness.reports.figures.multiples import INK, axes_named, small_panels
from harness.reports.shapes import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MARKS = ("o", "s", "^", "D", "v", "P", "X", "<", ">")
COLOURS = (INK, "#D55E00", "#009E73", "#333333", "#CC79A7", "#E69F00")  # of Okabe and Ito


def rows(table: Table) -> list[dict[str, Any]]:
    """Every setting of every trial: its value, the trial's scores × 100, and the setting's importance where it has one.

    A table without searches has none.
    """
    made = []
    for one in sensitivity.found(table):
        best, shares = sensitivity.chosen(one), sensitivity.shares(one)
        for setting, values in one.space.items():
            for trial in sensitivity.trials(one):
                made.append(
                    {
                        "block": one.block,
                        "task": one.column.task,
                        "metric": one.column.metric,
                        "row": one.label,
                        "setting": sensitivity.short(one, setting),
                        "value": trial.settings[setting],
                        "scale": "list" if isinstance(values, list) else "log" if values["log"] else "linear",
                        "trial": trial.number,
                        "dev": round(100 * trial.score, 6),
                        "chosen_by": round(100 * trial.selection, 6),
                        "chosen": int(trial is best),
                        "importance": round(shares[setting], 6) if setting in shares else None,
                    }
                )
    return made


def draw(table: Table, rows: list[dict[str, Any]]) -> Figure | None:
    """Of the first block that searched; the trial that was chosen is filled. None without any."""
    if not rows:
        return None
    block = rows[0]["block"]
    drawn = [row for row in rows if row["block"] == block]
    places = list(dict.fromkeys((row["setting"], row["row"]) for row in drawn))
    places.sort(key=lambda place: [row["setting"] for row in drawn].index(place[0]))
    tasks = list(dict.fromkeys(row["task"] for row in drawn))
    several = len({setting for setting, _ in places}) > 1
    figure, panels = small_panels(
        [f"{label}\n{setting}" if several else label for setting, label in places], sharex=False
    )
    handles: dict[str, Any] = {}
    for panel, (setting, label) in zip(panels, places, strict=True):
        alike = [row for row in drawn if row["setting"] == setting]  # of all rows: the same axis
        words = sorted({row["value"] for row in alike}) if not _numbers(alike) else []
        for number, task in enumerate(tasks):
            found = [row for row in alike if (row["row"], row["task"]) == (label, task)]
            for row in found:
                colour = COLOURS[number % len(COLOURS)]
                (handle,) = panel.plot(
                    words.index(row["value"]) if words else row["value"],
                    row["dev"],
                    MARKS[number % len(MARKS)],
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
    axes_named(figure, "" if several else drawn[0]["setting"], "dev score × 100")
    title(figure, f"Filled: the trial that was chosen{f' ({block})' if block else ''}")
    return figure


def _numbers(rows: list[dict[str, Any]]) -> bool:
    return all(isinstance(row["value"], (int, float)) and not isinstance(row["value"], bool) for row in rows)


def _axis(panel: Any, rows: list[dict[str, Any]]) -> None:
    """From the least to the greatest value that any row tried; logarithmic where they were drawn or listed so."""
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

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
