"""The table for a terminal, as Markdown, as tidy CSV and as JSON."""

from __future__ import annotations

import csv as csv_format
import io
import json as json_format
import math
import os
import re
import shutil
import sys
from typing import Any

from harness.reports.layout import Cell, Grid, grids
from harness.reports.quantities import number, scaled
from harness.reports.shapes import Column, Entry, Table

from harness.errors import CONTROL, plain

SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def terminal(table: Table) -> str:
    """With bold and underline on a terminal; *starred* and _underscored_ where the output is a pipe or a file."""
    from rich.console import Console

    live = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 400
    colours: Any = "standard" if live else None
    console = Console(file=io.StringIO(), force_terminal=live, force_jupyter=False, width=width, color_system=colours)
    with console.capture() as captured:
        for grid in grids(table):
            _print(console, grid, live)
    return "\n".join(line.rstrip() for line in captured.get().splitlines()) + "\n"


def _print(console: Any, grid: Grid, live: bool) -> None:
    from rich import box
    from rich.table import Table as RichTable
    from rich.text import Text

    def styled(cell: Cell) -> Text:
        style = "bold" if cell.bold else "underline" if cell.underline else ""
        sign = "" if live else "*" if cell.bold else "_" if cell.underline else ""
        mark = sign + cell.mark.translate(SUPERSCRIPT)
        blank = "" if live else " "  # keeps digits aligned with those of emphasised cells
        return Text().append(sign + cell.text, style).append(mark or blank)  # padding takes no style

    console.print(Text(grid.title, "bold"), Text(grid.caption), sep="\n")
    for columns in _fitting(grid, console.width, 0 if live else 2):
        drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        drawn.add_column("")
        for i in columns:
            drawn.add_column(Text("\n".join(grid.header[i])), justify="right")
        for group in grid.groups:
            if group.heading:
                drawn.add_row(Text(group.heading, "italic" if live else ""))
            for line in group.lines:
                label = f"{'  ' if group.heading else ''}{line[0].text}{line[0].mark.translate(SUPERSCRIPT)}"
                drawn.add_row(Text(label), *(styled(line[1 + i]) for i in columns))
            drawn.add_section()
        console.print("", drawn, sep="\n")
    console.print()
    for mark, sentence in grid.notes:
        console.print(Text(f"{mark.translate(SUPERSCRIPT)} {sentence}".strip()))
    if not live and any(c.bold for g in grid.groups for line in g.lines for c in line):
        console.print(Text("In this plain text *bold* and _underlined_ are written so."))
    console.print()


def _fitting(grid: Grid, width: int, signs: int) -> list[list[int]]:
    """The columns of each table to print: all at once if they fit, otherwise in turn, each beside the labels."""
    lines = [line for group in grid.groups for line in group.lines]
    wide = [
        3 + max(map(len, [*header, *(line[1 + i].text + line[1 + i].mark + signs * " " for line in lines)]))
        for i, header in enumerate(grid.header)
    ]
    leading = [i for i, header in enumerate(grid.header) if not header[0]]
    start = sum(wide[i] for i in leading) + max(
        [
            0,
            *(
                max(len(group.heading), len(line[0].text + line[0].mark) + (2 if group.heading else 0))
                for group in grid.groups
                for line in group.lines
            ),
        ]
    )
    tables: list[list[int]] = [leading]
    for i in range(len(leading), len(wide)):
        if tables[-1] != leading and start + sum(wide[j] for j in tables[-1][len(leading) :]) + wide[i] > width:
            tables.append(leading)
        tables[-1] = [*tables[-1], i]
    return tables


def markdown(table: Table) -> str:
    """GitHub's Markdown; text from outside is escaped."""
    return "\n".join(_markdown_grid(grid) for grid in grids(table))


def _markdown_grid(grid: Grid) -> str:
    header = ["", *(_md(f"{label} ({' '.join(shown)})" if shown else label) for label, *shown in grid.header)]
    rows = []
    for group in grid.groups:
        rows += [[f"*{_md(group.heading)}*", *[""] * len(grid.header)]] if group.heading else []
        rows += [[_md_cell(cell) for cell in line] for line in group.lines]
    widths = [max(len(row[i]) for row in [header, *rows]) for i in range(len(header))]
    widths = [max(3, w) for w in widths]

    def line(row: list[str]) -> str:
        return (
            "| "
            + " | ".join(
                text.ljust(w) if i == 0 else text.rjust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True))
            )
            + " |"
        )

    rule = "| " + " | ".join("-" * w if i == 0 else "-" * (w - 1) + ":" for i, w in enumerate(widths)) + " |"
    notes = [f"- {_md_mark(mark)}{' ' if mark else ''}{_md(sentence)}" for mark, sentence in grid.notes]
    return "\n".join(
        [f"## {_md(grid.title)}", "", _md(grid.caption), "", line(header), rule, *map(line, rows), "", *notes, ""]
    )


def _md(text: str) -> str:
    escaped = re.sub(r"([\\`*\[\]<>|~$&])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", escaped)  # inside a word it is no emphasis


def _md_mark(mark: str) -> str:
    return f"<sup>{mark}</sup>" if mark.isdigit() else mark


def _md_cell(cell: Cell) -> str:
    text = _md(cell.text)
    text = f"**{text}**" if cell.bold else f"<ins>{text}</ins>" if cell.underline else text
    return text + _md_mark(cell.mark)


def csv(table: Table) -> str:
    """One line per entry, averages and teacher included; scores in percent, quantities as they are."""
    written = io.StringIO()
    records = _records(table)
    writer = csv_format.DictWriter(written, list(RECORD), lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _csv_cell(record[k]) for k in RECORD} for record in records)
    return written.getvalue()


def _csv_cell(value: Any) -> Any:
    """A number as it is; a text such that no spreadsheet takes it for a formula (OWASP, CSV injection)."""
    if not isinstance(value, str):
        return "" if value is None else value
    return ("'" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else "") + plain(value)


RECORD = (
    "study",
    "profile",
    "student",
    "init",
    "row",
    "objective",
    "task",
    "metric",
    "value",
    "std",
    "n",
    "wanted",
    "status",
    "progress",
    "best",
    "tied",
    "collapsed",
    "reason",
    "mark",
    "cell",
    "test",
    "published",
    "published_std",
    "difference",
    "published_source",
)


def _records(table: Table) -> list[dict[str, Any]]:
    sentences = {symbol: sentence for sentence, symbol in table.marks.items()}
    comparison = table.comparison
    printed = (
        {
            (line.student, line.init, line.row.name, column): pair
            for compared in (compared for block in comparison.blocks for compared in block.lines)
            if (line := compared.line)
            for column, pair in zip(comparison.columns, compared.pairs, strict=True)
        }
        if comparison
        else {}
    )
    records = []

    def add(entry: Entry, column: Column, name: str, **where: str) -> None:
        pair = printed.get((where["student"], where["init"], name, column))
        records.append(
            {
                "study": table.study,
                "profile": table.profile,
                **where,
                "task": column.about,
                "metric": "_".join(filter(None, ("delta", column.metric))) if entry.signed else column.metric,
                "value": _shown(column.metric, entry.value),
                "std": _shown(column.metric, entry.std),
                "n": entry.n,
                "wanted": entry.wanted,
                "status": entry.status,
                "progress": entry.progress,
                "best": entry.best,
                "tied": entry.tied,
                "collapsed": entry.collapsed,
                "reason": entry.reason,
                "cell": entry.cell,
                "test": _shown(column.metric, pair.ours.value) if pair and pair.ours.tested else None,
                "published": number(pair.printed) if pair and pair.printed else None,
                "published_std": number(pair.printed_std) if pair and pair.printed_std else None,
                "difference": round(pair.difference, 6) if pair and pair.difference is not None else None,
                "published_source": comparison.source if comparison and pair and pair.printed else "",
                "runs": [
                    {
                        "run": run.run,
                        "seed": run.seed,
                        "hyperparameters": dict(sorted(run.hyperparameters.items())),
                        "metrics": {k: _shown(k, v) for k, v in sorted(run.metrics.items())},
                    }
                    for run in entry.runs
                ],
            }
        )

    for entry, column in zip(table.teacher, table.columns, strict=bool(table.teacher)):
        add(entry, column, "", student="", init="", row="teacher", objective="", mark="")
    for block in table.blocks:
        for line in block.lines:
            for entry, column in zip(line.entries, table.columns, strict=True):
                add(
                    entry,
                    column,
                    line.row.name,
                    student=line.student,
                    init=line.init,
                    row=line.row.label,
                    objective=line.row.objective,
                    mark=sentences.get(line.mark, ""),
                )
    return records


def json(table: Table) -> str:
    """The entries as in the CSV with each one's runs, and what the table says about itself. Scores in percent."""
    grid, *compared = grids(table)
    content: dict[str, Any] = {
        "study": table.study,
        "profile": table.profile,
        "title": table.title,
        "question": table.question,
        "teacher": table.provenance.teacher,
        "protocol": table.provenance.protocol,
        "notes": [f"{mark} {sentence}".strip() for mark, sentence in grid.notes],
        "entries": _records(table),
    }
    if table.comparison:
        content["comparison"] = {
            "source": table.comparison.source,
            "agreement": [
                {
                    "student": b.student,
                    "init": b.init,
                    "task": c.about,
                    "metric": c.metric,
                    "rows": a.n,
                    "kendall_tau_b": _finite(a.tau),
                    "spearman_rho": _finite(a.rho),
                }
                for b in table.comparison.blocks
                for c, a in zip(table.comparison.columns, b.agreement, strict=True)
            ],
            "published_only": [
                {
                    "row": line.label,
                    "task": c.about,
                    "metric": c.metric,
                    "published": number(pair.printed),
                }
                for line in table.comparison.others
                for c, pair in zip(table.comparison.columns, line.pairs, strict=True)
                if pair.printed
            ],
            "notes": [f"{mark} {sentence}".strip() for mark, sentence in compared[0].notes],
        }
    text = json_format.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=str)
    # What JSON lets stand, but a terminal obeys: its escapes have the same meaning.
    return "\n".join(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in text.split("\n")) + "\n"


def _shown(metric: str, value: float | None) -> float | None:
    return None if value is None else _finite(scaled(metric, value))


def _finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
