"""How unsure a model becomes when a word is masked, as one small heatmap a sentence.

Liu, Towards Effective Utilization of Pretrained Language Models (2020), Figure 3.4.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from string import ascii_uppercase
from typing import Any

from matplotlib.figure import Figure

from harness.reports.figures.drawing import new_figure, plain
from harness.reports.tables.layout import heading, told_apart
from harness.reports.tables.shapes import Table

Words = tuple[str, ...]
WIDEST = 11.0  # inches of words in a line


def rows(table: Table) -> list[dict[str, Any]]:
    """The entropy, in nats, of the class distribution when a word of a sentence is masked, by sentence, row and word.

    From each run's record["masked_word_entropy"], a list of {"words": [...], "entropy": [...]}; of several seeds the
    mean. place: of the word in its sentence, from 1. A row that lacks a sentence has no entropy there.
    """
    found: dict[Words, dict[tuple[str, str], list[list[float]]]] = {}
    places = [j for j, c in enumerate(table.columns) if c.task and c.selects]
    lines = [(line, (line.row.label, heading(block.student, block.init))) for block, line in table.lines()]
    for j in places:
        for line, row in lines:
            for run in line.entries[j].runs:
                for sentence in run.record.get("masked_word_entropy") or ():
                    found.setdefault(tuple(sentence["words"]), {}).setdefault(row, []).append(sentence["entropy"])
    shown = [row for _, row in lines if any(row in by_row for by_row in found.values())]
    labels = told_apart(shown)
    return [
        {"sentence": " ".join(words), "row": labels[row], "place": place, "word": word, "entropy": entropy}
        for words, by_row in found.items()
        for row in dict.fromkeys(shown)
        for place, (word, entropy) in enumerate(zip(words, _mean(by_row.get(row, []), len(words)), strict=True), 1)
    ]


def draw(table: Table, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """A panel a sentence, rows as in the table; white is zero, and all sentences share one scale.

    A row that lacks a sentence is hatched there.
    """
    sentences: dict[str, dict[tuple[str, int], float]] = {}
    words = {(x["sentence"], x["place"]): x["word"] for x in rows}
    for x in rows:
        entropy = math.nan if x["entropy"] is None else x["entropy"]
        sentences.setdefault(x["sentence"], {})[x["row"], x["place"]] = entropy
    labels = list(dict.fromkeys(x["row"] for x in rows))
    names = [f"({a}) {label}" for a, label in zip(_letters(len(labels)), labels, strict=True)]
    top, longest = max(x["entropy"] or 0.0 for x in rows), max(x["place"] for x in rows)
    side = min(0.55, WIDEST / longest)
    figure = new_figure((max(5.0, 3.2 + side * longest), len(sentences) * (1.1 + 0.3 * len(labels))))
    panels = figure.subplots(len(sentences), 1, squeeze=False)[:, 0]
    for panel, (sentence, fields) in zip(panels, sentences.items(), strict=True):
        places = [at for row, at in fields if row == labels[0]]
        grid = [[fields[row, at] for at in places] for row in labels]
        for y, values in enumerate(grid):
            for at, value in enumerate(values):
                if math.isnan(value):
                    panel.fill_between((at, at + 1), y, y + 1, facecolor="none", edgecolor="#bbbbbb", hatch="///", lw=0)
        image = panel.pcolormesh(grid, cmap="Greys", vmin=0, vmax=top or 1, edgecolors="#bbbbbb", linewidth=0.6)
        panel.set_xlim(0, longest)
        panel.set_ylim(len(labels), 0)
        panel.set_yticks([y + 0.5 for y in range(len(labels))], [plain(name) for name in names])
        panel.set_xticks(
            [at - 0.5 for at in places],
            [plain(words[sentence, at]) for at in places],
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


def _mean(lines: list[list[float]], words: int) -> list[float | None]:
    """Word by word; None where there is no line."""
    return [round(sum(values) / len(values), 6) for values in zip(*lines, strict=True)] or [None] * words
