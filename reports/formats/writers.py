"""The table for a terminal, as Markdown, as tidy CSV and as JSON."""

from __future__ import annotations

import csv as csv_format
import io
import json as json_format
import os
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.errors import CONTROL, UserError, plain
from harness.reports.additions import addition
from harness.reports.formats.arranged import grids
from harness.reports.formats.records import RECORD, beside_records, finite, matrix_records, records, told_metric
from harness.reports.papers import orderings
from harness.reports.papers.beside import verdict
from harness.reports.tables import two_tables
from harness.reports.tables.layout import Cell, Grid, differences
from harness.reports.tables.matrix import matrices
from harness.reports.tables.quantities import number
from harness.reports.tables.shapes import Table

SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def terminal(table: Table) -> str:
    """With bold and underline on a terminal; *starred* and _underscored_ where the output is a pipe or a file."""
    from rich.console import Console
    from rich.text import Text

    live = sys.stdout.isatty() and "NO_COLOR" not in os.environ
    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else 400
    colours: Any = "standard" if live else None
    console = Console(file=io.StringIO(), force_terminal=live, force_jupyter=False, width=width, color_system=colours)
    with console.capture() as captured:
        found = grids(table)
        for grid, after in zip(found, (*found[1:], None), strict=True):
            _print(console, grid, live)
            told = any(c.bold for g in grid.groups for line in g.lines for c in line)
            if not live and told and not (grid.matrix and after and after.matrix):
                console.print(Text("In this plain text *bold* and _underlined_ are written so."))
            console.print()
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
    for columns in _fitting(grid, console.width, 0 if live else 2) if grid.groups else []:
        drawn = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        drawn.add_column("")
        for i in columns:
            label, *shown = grid.header[i]
            drawn.add_column(Text("\n".join([*grid.folded(label), *shown])), justify="right", vertical="bottom")
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


def _fitting(grid: Grid, width: int, signs: int) -> list[list[int]]:
    """The columns of each table to print: all at once if they fit, otherwise in turn, each beside the labels."""
    lines = [line for group in grid.groups for line in group.lines]
    headers = [[*grid.folded(label), *shown] for label, *shown in grid.header]
    wide = [
        3 + max(map(len, [*header, *(line[1 + i].text + line[1 + i].mark + signs * " " for line in lines)]))
        for i, header in enumerate(headers)
    ]
    leading = [i for i, header in enumerate(grid.header) if not header[0]]
    labels = [
        max(len(group.heading), len(line[0].text + line[0].mark) + (2 if group.heading else 0))
        for group in grid.groups
        for line in group.lines
    ]
    start = sum(wide[i] for i in leading) + max(labels, default=0)
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
    widths = [max(3, *(len(row[i]) for row in [header, *rows])) for i in range(len(header))]

    def line(row: list[str]) -> str:
        cells = (text.rjust(w) if i else text.ljust(w) for i, (text, w) in enumerate(zip(row, widths, strict=True)))
        return f"| {' | '.join(cells)} |"

    rule = line(["-" * (w - 1) + (":" if i else "-") for i, w in enumerate(widths)])
    notes = [f"- {_md_mark(mark)}{' ' if mark else ''}{_md(sentence)}" for mark, sentence in grid.notes]
    drawn = [line(header), rule, *map(line, rows), ""] if grid.groups else []
    return "\n".join([f"## {_md(grid.title)}", "", _md(grid.caption), "", *drawn, *notes, ""])


def _md(text: str) -> str:
    escaped = re.sub(r"([\\`*\[\]<>|~$&])", r"\\\1", " ".join(text.split()))
    return re.sub(r"(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])", r"\\_", escaped)  # inside a word it is no emphasis


def _md_mark(mark: str) -> str:
    return re.sub(r"\d+", r"<sup>\g<0></sup>", mark)


def _md_cell(cell: Cell) -> str:
    text = _md(cell.text)
    text = f"**{text}**" if cell.bold else f"<ins>{text}</ins>" if cell.underline else text
    return text + _md_mark(cell.mark)


def csv(table: Table) -> str:
    """One line per entry, averages and teacher included; scores in percent, quantities as they are.

    As a matrix one per row and column of the table, see `matrix_records`. Of a table with an addition, or with another
    table beside it, that one's rows, because a CSV holds one kind of line. Raises UserError where there are several.
    """
    added = [*(f"--with {name}" for name in table.additions), *["--compare FOLDER"] * bool(table.beside)]
    if len(added) > 1:
        raise UserError(
            f"a CSV holds one kind of line: ask for each of {', '.join(added)} by itself, or for --format "
            "json, which holds the table and all that is added"
        )
    if table.beside:
        return rows_as_csv(beside_records(table.beside))
    if table.additions:
        return rows_as_csv(_added(table, table.additions[0])["rows"])
    made = matrices(table)
    return rows_as_csv(matrix_records(table, made)) if made else rows_as_csv(records(table), RECORD)


def rows_as_csv(rows: Sequence[Mapping[str, Any]], names: Sequence[str] = ()) -> str:
    """A line for each of the rows, with the columns named, otherwise those of the first."""
    names = names or list(rows[0])
    written = io.StringIO()
    writer = csv_format.DictWriter(written, list(map(_csv_cell, names)), lineterminator="\n")
    writer.writeheader()
    writer.writerows({_csv_cell(k): _csv_cell(row[k]) for k in names} for row in rows)
    return written.getvalue()


def _added(table: Table, name: str) -> dict[str, Any]:
    """What is told below the table by this name: its notes, and its records."""
    notes = _notes(*addition(name).grids(table))  # which says why there is nothing
    return {"notes": notes, **addition(name).records(table)}


def _notes(*grids: Grid) -> list[str]:
    return [f"{mark} {sentence}".strip() for grid in grids for mark, sentence in grid.notes]


def _csv_cell(value: Any) -> Any:
    """A number as it is; a text such that no spreadsheet takes it for a formula (OWASP, CSV injection)."""
    if not isinstance(value, str):
        return "" if value is None else value
    return ("'" if value.startswith(("=", "+", "-", "@", "\t", "\r")) else "") + plain(value)


def json(table: Table) -> str:
    """The entries as in the CSV with each one's runs, what the table says about itself and what is added to it.

    Scores in percent.
    """
    alone = replace(table, layout="lines", additions=(), beside=None)  # of the same entries in either layout
    grid, *others = grids(alone)
    content: dict[str, Any] = {
        "study": table.study,
        "profile": table.profile,
        "title": table.title,
        "question": table.question,
        "teacher": table.provenance.teacher,
        "protocol": table.provenance.protocol,
        "notes": _notes(grid),
        "detectable": [
            {"task": table.columns[j].about, "metric": table.columns[j].metric, "points": finite(100 * found)}
            for j, found in sorted(table.detectable.items())
        ],
        "entries": records(table),
    }
    content |= {"difference_notes": [sentence for _, sentence in others[0].notes]} if differences(table) else {}
    if table.comparison:
        content["comparison"] = {
            "source": table.comparison.source,
            "agreement": [
                {
                    "student": b.student,
                    "init": b.init,
                    "task": c.about,
                    "metric": told_metric(c, b.improvement),
                    "rows": a.n,
                    "kendall_tau_b": finite(a.tau),
                    "spearman_rho": finite(a.rho),
                }
                for b in table.comparison.blocks
                for c, a in zip(table.comparison.columns, b.agreement, strict=True)
            ],
            "verdict": verdict(table.comparison),
            "orderings": orderings.rows(table),
            "published_only": [
                {"row": line.label, "task": c.about, "metric": c.metric, "published": number(pair.printed)}
                for line in table.comparison.others
                for c, pair in zip(table.comparison.columns, line.pairs, strict=True)
                if pair.printed
            ],
            "notes": _notes(others[-1]),
        }
    if table.beside:
        told: dict[str, Any] = {"this": table.beside.own, "other": table.beside.other, "both": table.beside.both}
        told |= {"against": table.beside.reference, "notes": _notes(*two_tables.grids(table.beside))}
        told["entries"] = beside_records(table.beside)
        content["beside"] = told
    return _written(content | {name: _added(table, name) for name in table.additions})


def _written(content: dict[str, Any]) -> str:
    text = json_format.dumps(content, indent=2, ensure_ascii=False, allow_nan=False, default=str)
    # What JSON lets stand, but a terminal obeys: its escapes have the same meaning.
    return "\n".join(CONTROL.sub(lambda found: f"\\u{ord(found[0]):04x}", line) for line in text.split("\n")) + "\n"
