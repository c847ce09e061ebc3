"""What README and the site show of the quick study, written anew from its results: python docs/shown.py RESULTS.

A part of the table goes between README's two comments, a smaller study's table between those of docs/quickstart.md and
docs/reading_a_table.md, and the figures to docs/static, each for light and for dark pages. What is missing in RESULTS
is trained first. `make readme`.
"""

from __future__ import annotations

import re
import sys
import textwrap
from pathlib import Path

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
LABEL = re.compile(r"^\| ([^|]*?)([†‡§¶‖]*) +\|(.*)$")


def part(markdown: str) -> str:
    """The lines of a table in Markdown that README has: the teacher, ROWS of INITS, and notes on their numbers."""
    lines = markdown[markdown.index("\n|") + 1 :].splitlines()
    header, rule, teacher, *body = lines[: lines.index("")]
    kept, init = [header, rule, teacher], ""
    for line in body:
        found = LABEL.match(line)
        if found and found[1].startswith("*"):
            init = found[1].strip("*").rpartition(" ")[2]
            kept += [line] * (init in INITS)
        elif found and found[1] in ROWS and init in INITS:
            kept.append(f"| {found[1]:<{len(found[1] + found[2])}} |{found[3]}")
    marks = sorted(set(re.findall(r"<sup>\d+</sup>", "\n".join(kept))))
    notes = [line[2:] for line in lines if any(line.startswith(f"- {mark}") for mark in marks)]
    fields = [[field.strip() for field in line.strip("|").split("|")] for line in kept]
    widths = [max(len(field) for field in column) for column in zip(*fields[:1], *fields[2:], strict=True)]
    fields[1] = ["-" * widths[0], *("-" * (width - 1) + ":" for width in widths[1:])]
    made = [f"| {label:<{widths[0]}} | {' | '.join(map(str.rjust, rest, widths[1:]))} |" for label, *rest in fields]
    return "\n".join([*made, *(f"\n{note}" for note in notes)])


def between(page: Path, text: str, by: str = "readme") -> None:
    """Put text between the page's comments `shown: by make BY` and `end of what is shown`."""
    begin, end = f"<!-- shown: by `make {by}` -->\n", "\n<!-- end of what is shown -->"
    before, _, rest = page.read_text(encoding="utf-8").partition(begin)
    page.write_text(before + begin + text + end + rest.partition(end)[2], encoding="utf-8")


def draw(table: reports.Table, name: str, kind: str = "heatmap") -> None:
    figure = reports.FIGURES[kind].drawn(table, colour=INK)
    for theme, ink in INKS.items():
        (ROOT / "docs" / "static" / f"{name}-{theme}.svg").write_bytes(svg(figure).replace(INK.encode(), ink.encode()))


def main(out: str) -> None:
    whole = harness.run(STUDY, out=out).whole
    between(ROOT / "README.md", part(reports.render(whole, "markdown")))
    draw(whole, "quick")
    few = harness.run(STUDY, out=out, **QUICKSTART)
    head, _, notes = few.table[few.table.index(" " * 10) :].partition("\n\n† ")
    between(ROOT / "docs" / "quickstart.md", f"```text\n{head.rstrip()}\n```")
    notes = "\n".join(textwrap.fill(line, 96) for line in f"† {notes}".rstrip().splitlines())
    between(ROOT / "docs" / "reading_a_table.md", f"```text\n{head.rstrip()}\n\n{notes}\n```")
    draw(few.whole, "quickstart")


if __name__ == "__main__":
    main(*sys.argv[1:])
