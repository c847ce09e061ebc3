"""What transfers gain over vanilla KD for equal epochs in the tables that pages.yaml names: a table and a figure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from claimed import signed
from matplotlib.figure import Figure
from packed import Results

from harness.reports.figures.drawing import INK, PALETTE, marker, new_figure, plain, styled
from harness.reports.statistics import LEVEL
from harness.reports.tables.pairs import differences

REFERENCE, INIT = "vanilla_kd_equal_epochs", "every"
TRANSFERS = {"hid_cls": "Hid-CLS", "hid_seq": "Hid-Seq", "att_kl": "Att-KL"}


@dataclass(frozen=True)
class Line:
    """A task of a table. what: its data, in words; over: what its intervals are over; gains: objective -> how much."""

    page: str
    what: str
    metric: str
    over: str
    gains: Mapping[str, Mapping[str, Any]]


def lines(found: Mapping[str, Results]) -> list[Line]:
    """One of each task that `gains` in pages.yaml names, those of the same data together."""
    made = list(_lines(found))
    data, what = [line.what.partition(",")[0] for line in made], [line.what for line in made]
    return sorted(made, key=lambda line: (data.index(line.what.partition(",")[0]), what.index(line.what)))


def _lines(found: Mapping[str, Results]) -> Iterator[Line]:
    for page, made in found.items():
        for task, what in made.told.get("gains", {}).items():
            (metric,) = (column.metric for column in made.table.columns if column.task == task and column.selects)
            gains = {
                objective: one
                for objective in TRANSFERS
                if any(line.row.name == objective for _, line in made.table.lines())
                for one in differences(made.table, objective, REFERENCE)
                if (one["task"], one["metric"], one["init"]) == (task, metric, INIT)
            }
            seeds = next(iter(gains.values()))["n"]
            over = f"{seeds} draws" if task in made.table.provenance.drawn_by_seed else f"{seeds} seeds of one draw"
            yield Line(page, what, metric, over, gains)


def table(found: Mapping[str, Results]) -> str:
    """In Markdown: points with their 95% intervals, bold where these leave out 0."""
    made = [f"| data | score | over | {' | '.join(TRANSFERS.values())} |", f"|---|---|---|{'---:|' * len(TRANSFERS)}"]
    for line in lines(found):
        cells = (_cell(line.gains[name]) if name in line.gains else "" for name in TRANSFERS)
        made.append(f"| [{line.what}](results/{line.page}.md) | {line.metric} | {line.over} | {' | '.join(cells)} |")
    return "\n".join(made)


def _cell(gain: Mapping[str, Any]) -> str:
    points, low, high = (signed(100 * gain[name]) for name in ("difference", "low", "high"))
    text = f"{points} [{low}, {high}]"
    return f"**{text}**" if gain["p"] < LEVEL else text


def drawn(found: Mapping[str, Results]) -> Figure:
    """The same as dots with their intervals, a line a table."""
    made = lines(found)
    with styled(colour=INK) as finished:
        figure = new_figure((6.4, 0.6 + 0.42 * len(made)))
        panel = figure.subplots()
        for place, (name, label) in enumerate(TRANSFERS.items()):
            there = {y + 0.22 * (place - 1): line.gains[name] for y, line in enumerate(made) if name in line.gains}
            points = ([100 * gain[of] for gain in there.values()] for of in ("difference", "low", "high"))
            x, low, high = map(np.array, points)
            look: Any = {"color": PALETTE[place], "marker": marker(place), "markersize": 4, "linestyle": "none"}
            panel.errorbar(x, [*there], xerr=[x - low, high - x], elinewidth=1, label=label, **look)
        panel.axvline(0, color="grey", linewidth=0.8, zorder=0)
        panel.set_yticks(range(len(made)), [plain(f"{line.what}, {line.over}") for line in made], fontsize=8)
        panel.invert_yaxis()
        panel.set_xlabel("points above vanilla KD (equal epochs)", fontsize=9)
        panel.legend(frameon=False, fontsize=8)
        return finished(figure)
