"""The critical-difference diagram: mean ranks over tasks, and which rows they cannot tell apart.

Demšar, Statistical Comparisons of Classifiers over Multiple Data Sets (2006), Figure 1, with Wilcoxon's test in the
place of Nemenyi's, and a line for each row, so that fifty have room.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from matplotlib.figure import Figure

from harness.reports.additions.over_tasks import over_tasks
from harness.reports.figures.drawing import new_figure, plain, title
from harness.reports.tables.shapes import Table

WIDTH = 6.9  # inches: two columns of a page
LINE = 0.17  # inches of a row


def rows(table: Table) -> list[dict[str, Any]]:
    """A record for each row, best mean rank first: row, mean_rank and groups, its letters.

    Raises UserError where there are too few tasks or rows.
    """
    found = over_tasks(table)
    return [
        {"row": row.label, "mean_rank": round(row.rank, 6), "groups": row.letters, "tasks": len(found.tasks)}
        for row in found.rows
    ]


def draw(table: Table, rows: Sequence[dict[str, Any]]) -> Figure:
    """A point for each row at its mean rank, and at the right a bar for each group of rows that do not differ."""
    groups: dict[str, list[int]] = {}
    for k, row in enumerate(rows):
        for letter in row["groups"].split() if row["groups"][0].isdigit() else row["groups"]:
            groups.setdefault(letter, []).append(k)
    bars = [members for members in groups.values() if len(members) > 1]
    ends: list[int] = []  # of each lane the last row that a bar in it takes
    lanes = []
    for members in bars:
        lane = next((i for i, end in enumerate(ends) if end < members[0]), len(ends))
        ends[lane : lane + 1] = [members[-1]]
        lanes.append(lane)
    figure = new_figure((WIDTH, 1.1 + LINE * len(rows)))
    ranked, grouped = figure.subplots(
        1, 2, sharey=True, width_ratios=[1, 0.16 + 0.02 * len(ends)], gridspec_kw={"wspace": 0.02}
    )
    places = range(len(rows))
    ranked.hlines(places, 1, [row["mean_rank"] for row in rows], color="#bbbbbb", linewidth=0.6)
    ranked.plot([row["mean_rank"] for row in rows], places, "o", color="black", markersize=3.5)
    ranked.set_yticks(places, [plain(row["row"]) for row in rows], fontsize=7)
    ranked.set_ylim(len(rows) - 0.4, -0.6)
    ranked.set_xlim(1 - 0.02 * len(rows), 1.02 * len(rows))
    ranked.set_xlabel("mean rank over tasks (1: best)", fontsize=8)
    ranked.xaxis.get_major_locator().set_params(integer=True)
    ranked.tick_params(axis="x", labelsize=7)
    for at, members in zip(lanes, bars, strict=True):
        grouped.plot([at, at], [members[0], members[-1]], color="black", linewidth=0.8)
        grouped.plot([at] * len(members), members, "s", color="black", markersize=2.6)
    grouped.set_xlim(-1, max(5, len(ends)))
    grouped.set_xlabel("joined by a bar:\nnot told apart", fontsize=7)
    grouped.set_xticks([])
    for panel in (ranked, grouped):
        panel.spines[["top", "right", "left"]].set_visible(False)
        panel.tick_params(axis="y", length=0)
    grouped.spines["bottom"].set_visible(False)
    title(figure, f"{rows[0]['tasks']} tasks; Wilcoxon's signed-rank test of every pair, corrected by Holm, level 0.05")
    return figure
