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
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.reports.arranged import grids
from harness.reports.layout import Cell, Grid, entry_text
from harness.reports.matrix import OWN, Matrix, matrices
from harness.reports.quantities import number, scaled
from harness.reports.shapes import Column, Entry, Pair, Place, Table

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
    if not live and any(c.bold for g in grid.groups for line in g.lines for c in line):
        console.print(Text("In this plain text *bold* and _underlined_ are written so."))
    console.print()


def _fitting(grid: Grid, width: int, signs: int) -> list[list[int]]:
    """The columns of each table to print: all at once if they fit, otherwise in turn, each beside the labels."""
    lines = [line for group in grid.groups for line in group.lines]
    wide = [
        3 + max(map(len, [*grid.folded(label), *shown, *(line[1 + i].text + line[1 + i].mark + signs * " " for line in lines)]))
        for i, (label, *shown) in enumerate(grid.header)
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
    return re.sub(r"\d+", r"<sup>\g<0></sup>", mark)


def _md_cell(cell: Cell) -> str:
    text = _md(cell.text)
    text = f"**{text}**" if cell.bold else f"<ins>{text}</ins>" if cell.underline else text
    return text + _md_mark(cell.mark)


def csv(table: Table) -> str:
    """One line per entry, averages and teacher included; scores in percent, quantities as they are.

    As a matrix one per row and column of the table, see `_matrix_records`.
    """
    made = matrices(table) if table.layout == "matrix" else []
    records = _matrix_records(table, made) if made else _records(table)
    names = list(records[0]) if made else list(RECORD)
    written = io.StringIO()
    writer = csv_format.DictWriter(written, names, lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: _csv_cell(record[k]) for k in names} for record in records)
    return written.getvalue()


def _matrix_records(table: Table, made: Sequence[Matrix]) -> list[dict[str, Any]]:
    """A record for each row of each matrix, with the mean, the std and what is published of every place.

    What is not finished is its text, as "70.0 (1/2)". The last fields name places: where the row is the best, where it
    is not significantly worse, where it is best of its own, and why some are no number or a doubtful one.
    """
    printed = _published(table)
    places = list(dict.fromkeys(place for matrix in made for place in matrix.places))
    places += [("", "")] if table.teacher and ("", "") not in places else []
    records = []

    def add(column: Column, row: str, objective: str, found: Mapping[Place, Entry], pairs: Mapping[Place, Pair]) -> None:
        told: dict[str, Any] = {"study": table.study, "profile": table.profile, "task": column.about}
        told |= {"metric": _metric(column, any(e.signed for e in found.values())), "row": row, "objective": objective}
        for place in places:
            entry, name = found.get(place, Entry("absent")), _name(place)
            finished = entry.status == "complete"
            told[name] = _shown(column.metric, entry.value) if finished else entry_text(entry, column.metric)
            told[f"{name} std"] = _shown(column.metric, entry.std) if finished else None
            if table.comparison:
                told |= {f"{name} {what}": value for what, value in _beside(pairs.get(place)).items()}
        said = {
            "best": {place: e.in_place == "best" for place, e in found.items()},
            "tied": {place: e.in_place == "tied" for place, e in found.items()},
            "best_of_row": {place: e.best_of_row for place, e in found.items()},
        }
        told |= {what: "; ".join(_name(place) for place in where if where[place]) for what, where in said.items()}
        told["reasons"] = "; ".join(f"{_name(place)}: {e.reason}" for place, e in found.items() if e.reason)
        records.append(told)

    for matrix in made:
        if table.teacher:
            add(matrix.column, "teacher", "", {("", ""): table.teacher[table.columns.index(matrix.column)]}, {})
        for line, entries in (*matrix.rows, *matrix.improvements):
            found = {place: entry for place, entry in zip(matrix.places, entries, strict=True) if entry}
            keys = {p: (p[0], line.row.init or p[1]) if any(p) else (line.student, line.init) for p in found}
            pairs = {p: printed.get((*key, line.row.name, matrix.column)) for p, key in keys.items()}
            beside = {place: pair for place, pair in pairs.items() if pair}
            add(matrix.column, line.row.label, line.row.objective, found, beside)
    return records


def _name(place: Place) -> str:
    return " ".join(filter(None, place)) or OWN


def _beside(pair: Pair | None) -> dict[str, Any]:
    """The published number as numbers."""
    return {
        "published": number(pair.printed) if pair and pair.printed else None,
        "published_std": number(pair.printed_std) if pair and pair.printed_std else None,
        "difference": round(pair.difference, 6) if pair and pair.difference is not None else None,
    }


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


def _published(table: Table) -> dict[tuple[str, str, str, Column], Pair]:
    """(student, initialisation, row, column) -> the published number there."""
    return {
        (line.student, line.init, line.row.name, column): pair
        for block in (table.comparison.blocks if table.comparison else ())
        for compared in block.lines
        if (line := compared.line)
        for column, pair in zip(table.comparison.columns, compared.pairs, strict=True)  # type: ignore[union-attr]
    }


def _metric(column: Column, signed: bool) -> str:
    return "_".join(filter(None, ("delta", column.metric))) if signed else column.metric


def _records(table: Table) -> list[dict[str, Any]]:
    sentences = {symbol: sentence for sentence, symbol in table.marks.items()}
    comparison, printed = table.comparison, _published(table)
    records = []

    def add(entry: Entry, column: Column, name: str, **where: str) -> None:
        pair = printed.get((where["student"], where["init"], name, column))
        records.append(
            {
                "study": table.study,
                "profile": table.profile,
                **where,
                "task": column.about,
                "metric": _metric(column, entry.signed),
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
                **_beside(pair),
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
    grid, *compared = grids(replace(table, layout="lines"))  # of the same entries in either layout
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
