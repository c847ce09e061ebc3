"""The figure of scores by row and initialisation."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.colors import Normalize
from matplotlib.figure import Figure

from harness.reports.figures.drawing import new_figure, on_paper, plain
from harness.reports.tables.layout import entry_text, folded
from harness.reports.tables.quantities import is_score
from harness.reports.tables.shapes import Table


def rows(table: Table) -> list[dict[str, Any]]:
    """The average (of a single task its first metric) x 100 of each row, student and initialisation that are free.

    A field that is not finished has its text alone, as "70.0 (1/2)" or a dash. None without any complete
    value, or where rows fix both axes.
    """
    lines = [(block, line) for block, line in table.lines() if block.student or block.init]
    places = [j for j, c in enumerate(table.columns) if c.selects and is_score(c.metric)]
    if not places:
        return []
    entries = {(b.student, b.init_of(x), x.row.name): (x.row.label, x.entries[places[-1]]) for b, x in lines}
    made = [
        {
            "student": student,
            "init": init,
            "row": label,
            "name": name,
            "column": table.columns[places[-1]].axis,
            "score": round(100 * entry.value, 6) if entry.status == "complete" and entry.value is not None else None,
            "std": None if entry.std is None else round(100 * entry.std, 6),
            "n": entry.n,
            "text": entry_text(entry) or "–",
        }
        for (student, init, name), (label, entry) in entries.items()
    ]
    return made if any(field["score"] is not None for field in made) else []


def draw(table: Table, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """One panel per student, rows by initialisations; brighter is better. A dash stands where nothing is finished."""
    fields = {(x["student"], x["init"], x["name"]): x for x in rows}
    labels = {x["name"]: x["row"] for x in rows}
    inits: dict[str, list[str]] = {}
    for student, init in dict.fromkeys((x["student"], x["init"]) for x in rows):
        inits.setdefault(student, []).append(init)
    values = [x["score"] for x in rows if x["score"] is not None]
    scale = Normalize(min(values), max(values) if max(values) > min(values) else min(values) + 1)
    columns = sum(map(len, inits.values()))
    beside = [folded(plain(label), 26) for label in labels.values()]
    high = 0.34 * max(1.0, max(map(len, beside)) / 2)  # two lines of a label stand beside a field of the usual height
    figure = new_figure((3.2 + 1.0 * columns + 0.4 * len(inits), 1.4 + high * len(labels)))
    around = 0.75 + 0.055 * max(len(part) for parts in beside for part in parts)  # inches of labels and colour bar
    room = (figure.get_figwidth() - around) / columns if on_paper() else math.inf  # of a field
    drawn = figure.subplots(1, len(inits), squeeze=False, sharey=True, width_ratios=[len(i) for i in inits.values()])
    for panel, student in zip(drawn[0], inits, strict=True):
        found = [[fields.get((student, init, name)) for init in inits[student]] for name in labels]
        shown = [[math.nan if not x or x["score"] is None else x["score"] for x in line] for line in found]
        image = panel.pcolormesh(shown, cmap="viridis", norm=scale, edgecolors="face", linewidth=0.3)
        panel.invert_yaxis()
        panel.set_facecolor("#dddddd")
        panel.set_xticks(
            [x + 0.5 for x in range(len(inits[student]))], [plain(i) for i in inits[student]], rotation=30, ha="right"
        )
        panel.set_yticks([y + 0.5 for y in range(len(labels))], list(map("\n".join, beside)))
        panel.set_title("\n".join(folded(plain(student), 15 * len(inits[student]))), fontsize=10)
        for y, line in enumerate(found):
            for x, field in enumerate(line):
                dark = not math.isnan(shown[y][x]) and scale(shown[y][x]) < 0.6
                text = field["text"] if field else "–"
                number = text if room > 0.62 else text.partition(" ±")[0] if room > 0.27 else ""
                colour = "white" if dark else "black"
                panel.text(x + 0.5, y + 0.5, number, ha="center", va="center", fontsize=8, color=colour)
    most = int(9 * figure.get_figheight())  # characters that go beside the panels
    label = map(plain, textwrap.wrap(f"{rows[0]['column']} × 100", most, break_long_words=False))
    figure.colorbar(image, ax=list(drawn[0]), label="\n".join(label))
    return figure
