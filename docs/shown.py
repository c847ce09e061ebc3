"""What README and the site show of the quick study, written anew from its results: python docs/shown.py RESULTS.

A part of the table goes between README's two comments, a smaller study's table between those of docs/quickstart.md and
docs/reading_a_table.md, and the figures to docs/static, each for light and for dark pages. What is missing in RESULTS
is trained first. `make readme`.
"""

from __future__ import annotations

import re
import sys
import textwrap
from dataclasses import replace
from pathlib import Path

from matplotlib.figure import Figure

import harness
from harness import reports
from harness.reports.figures.drawing import INK, svg

ROOT = Path(__file__).parent.parent
STUDY = "objectives_vs_init"
INKS = {"light": "#1f2328", "dark": "#e6edf3"}
ROWS = ("Labels only", "Vanilla KD (equal epochs)", "Hid-CLS", "Att-MSE", "Att-KL + Val-KL")
INITS = ("every", "random")
QUICKSTART = {
    "objectives": ["labels_only", "vanilla_kd_equal_epochs", "hid_cls", "att_kl"],
    "inits": ["every", "random"],
    "tasks": "acceptability",
}


def part(table: reports.Table) -> str:
    """The lines of a table in Markdown that README has: the teacher, ROWS of INITS, and notes on their numbers."""
    blocks = (
        replace(block, lines=tuple(replace(line, mark="") for line in block.lines if line.row.label in ROWS))
        for block in table.blocks
        if block.init in INITS
    )
    markdown = reports.render(replace(table, blocks=tuple(blocks)), "markdown")
    made, _, below = markdown[markdown.index("\n|") + 1 :].partition("\n\n")
    marks = sorted(set(re.findall(r"<sup>\d+</sup>", made)))
    notes = [line[2:] for line in below.splitlines() if line.startswith(tuple(f"- {mark}" for mark in marks))]
    return "\n".join([made, *(f"\n{note}" for note in notes)])


def between(page: Path, text: str, by: str = "readme") -> None:
    """Put text between the page's comments `shown: by make BY` and `end of what is shown`."""
    begin, end = f"<!-- shown: by `make {by}` -->\n", "\n<!-- end of what is shown -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(before + begin + text + end + rest.partition(end)[2], encoding="utf-8")


def draw(table: reports.Table, name: str, kind: str = "heatmap") -> None:
    save(reports.FIGURES[kind].drawn(table, colour=INK), name)


def save(figure: Figure, name: str) -> None:
    """Write a figure drawn in INK for light and for dark pages."""
    for theme, ink in INKS.items():
        (ROOT / "docs" / "static" / f"{name}-{theme}.svg").write_bytes(svg(figure).replace(INK.encode(), ink.encode()))


def main(out: str) -> None:
    whole = harness.run(STUDY, out=out).whole
    between(ROOT / "README.md", part(whole))
    draw(whole, "quick")
    few = harness.run(STUDY, out=out, **QUICKSTART)
    head, _, notes = few.table[few.table.index(" " * 10) :].partition("\n\n† ")
    between(ROOT / "docs" / "quickstart.md", f"```text\n{head.rstrip()}\n```")
    notes = "\n".join(textwrap.fill(line, 96) for line in f"† {notes}".rstrip().splitlines())
    between(ROOT / "docs" / "reading_a_table.md", f"```text\n{head.rstrip()}\n\n{notes}\n```")
    draw(few.whole, "quickstart")


if __name__ == "__main__":
    main(*sys.argv[1:])
