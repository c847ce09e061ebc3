"""How unsure a model becomes when a word is masked, as one small heatmap a sentence.

Liu, Towards Effective Utilization of Pretrained Language Models (2020), Figure 3.4.
"""

from __future__ import annotations

import math
from string import ascii_uppercase
from typing import TYPE_CHECKING

from harness.reports.figures.drawing import new_figure, plain, told_apart
from harness.reports.layout import heading
from harness.reports.shapes import Table

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Words = tuple[str, ...]
WIDEST = 11.0  # inches of words in a line


def masked_words(table: Table) -> Figure | None:
    """The entropy, in nats, of the class distribution when each word of a sentence is masked.

    Rows are those of the table, columns the words; white is zero, and all sentences share one scale. Drawn from each
    run's record["masked_word_entropy"], a list of {"words": [...], "entropy": [...]}; of several seeds the mean. A row
    that lacks a sentence is hatched there. None where no run has any.
    """
    found: dict[Words, dict[tuple[str, str], list[list[float]]]] = {}
    places = [j for j, c in enumerate(table.columns) if c.task and c.selects]
    blocks = [block for block in table.blocks if not block.improvement]
    lines = [(line, (line.row.label, heading(b.student, b.init))) for b in blocks for line in b.lines]
    for j in places:
        for line, row in lines:
            for run in line.entries[j].runs:
                for sentence in run.record.get("masked_word_entropy") or ():
                    found.setdefault(tuple(sentence["words"]), {}).setdefault(row, []).append(sentence["entropy"])
    if not found:
        return None
    rows = [row for _, row in lines if any(row in by_row for by_row in found.values())]
    labels = told_apart(rows)
    names = [f"({a}) {labels[row]}" for a, row in zip(_letters(len(rows)), rows, strict=True)]
    means = {w: [_mean(by_row.get(row, []), len(w)) for row in rows] for w, by_row in found.items()}
    top = max((v for grid in means.values() for values in grid for v in values if not math.isnan(v)), default=0.0)
    longest = max(map(len, means))
    side = min(0.55, WIDEST / longest)
    figure = new_figure((max(5.0, 3.2 + side * longest), len(means) * (1.1 + 0.3 * len(rows))))
    panels = figure.subplots(len(means), 1, squeeze=False)[:, 0]
    for panel, (words, grid) in zip(panels, means.items(), strict=True):
        for y, values in enumerate(grid):
            for x, value in enumerate(values):
                if math.isnan(value):
                    panel.fill_between((x, x + 1), y, y + 1, facecolor="none", edgecolor="#bbbbbb", hatch="///", lw=0)
        image = panel.pcolormesh(grid, cmap="Greys", vmin=0, vmax=top or 1, edgecolors="#bbbbbb", linewidth=0.6)
        panel.set_xlim(0, longest)
        panel.set_ylim(len(rows), 0)
        panel.set_yticks([y + 0.5 for y in range(len(rows))], [plain(name) for name in names])
        panel.set_xticks(
            [x + 0.5 for x in range(len(words))],
            [plain(word) for word in words],
            rotation=50,
            ha="right",
            rotation_mode="anchor",
        )
        panel.tick_params(length=0)
        panel.spines[:].set_visible(False)
    figure.colorbar(image, ax=list(panels), label="entropy in nats", shrink=min(1.0, 3 / figure.get_figheight()))
    return figure


def _letters(count: int) -> list[str]:
    """A, B, ..., Z, AA, AB, ..."""
    return [ascii_uppercase[i // 26 - 1] * (i > 25) + ascii_uppercase[i % 26] for i in range(count)]


def _mean(lines: list[list[float]], words: int) -> list[float]:
    """Word by word; nan where there is no line."""
    return [sum(values) / len(values) for values in zip(*lines, strict=True)] or [math.nan] * words
