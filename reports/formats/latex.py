"""The table for LaTeX with booktabs: compiles on its own, and the same file can be \\input into a paper."""

from __future__ import annotations

import math
import re
import unicodedata

from harness.reports.formats.arranged import grids
from harness.reports.tables.layout import Cell, Grid, Group, entry_text
from harness.reports.tables.matrix import STAR
from harness.reports.tables.shapes import Entry, Table

HEAD = r"""% Needs \usepackage{booktabs,graphicx}. Compiles on its own; inside a document, \input it. An \input in the
% preamble gives the macros alone, for text that comes before the table.
"""
# Standing alone, the file brings its own document; inside one, LaTeX has already let \@nodocument be \relax; in a
# preamble it has let \documentclass be an error.
BEGIN = r"""
\let\HarnessEnd\relax
\expandafter\ifx\csname @nodocument\endcsname\relax\else
  \expandafter\ifx\csname @twoclasseserror\endcsname\documentclass
    \let\HarnessEnd\endinput
  \else
    \documentclass{article}
    \usepackage[utf8]{inputenc}
    \usepackage{booktabs,graphicx}
    \usepackage[a4paper,margin=1.5cm]{geometry}
    \begin{document}
    \def\HarnessEnd{\end{document}}
  \fi
\fi
\ifx\HarnessEnd\endinput\endinput\fi
"""

ESCAPES = {
    "\\": r"\textbackslash{}",
    "_": r"\_",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "$": r"\$",
    "{": r"\{",
    "}": r"\}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    "`": r"\textasciigrave{}",
    '"': "''",
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "±": r"$\pm$",
    "–": "--",
    "—": "---",
    "−": "$-$",
    "×": r"$\times$",
    "≥": r"$\geq$",
    "≤": r"$\leq$",
    "·": r"$\cdot$",
    "†": r"\dag{}",
    "‡": r"\ddag{}",
    "§": r"\S{}",
    "¶": r"\P{}",
    "‖": r"$\Vert$",
    "★": r"$\star$",
    "’": "'",
    "…": r"\dots{}",
    "\u2060": "{}",  # the word joiner, put between hyphens that must not become a dash
}
DIGITS = ("Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
PAGE = 52  # lines of one table on a page
WIDTH = 100  # characters of a line of a matrix, in the narrowest of texts


def latex(table: Table) -> str:
    r"""Macros that give every value of the main table to the prose, then the tables with their notes."""
    parts = [HEAD, *_macros(table), BEGIN]
    for grid in grids(table):
        parts += _floats(grid)
    return "\n".join([*parts, r"\HarnessEnd", ""])


def escape(text: str) -> str:
    """Text as LaTeX prints it. What pdfLaTeX has no glyph for becomes its plain letters, or its code point."""
    return "".join(map(_letter, re.sub("-(?=-)", "-\u2060", " ".join(text.split()))))


def _letter(character: str) -> str:
    if character in ESCAPES:
        return ESCAPES[character]
    latin = "À" <= character <= "ÿ" and character.isalpha() and character not in "ÐðÞþ"
    if character.isprintable() and (character.isascii() or latin):
        return character
    plain = unicodedata.normalize("NFKD", character).encode("ascii", "ignore").decode()
    return "".join(ESCAPES.get(c, c) for c in plain if c.isprintable()) or f"U+{ord(character):04X}"


def _cell(cell: Cell) -> str:
    text = escape(cell.text)
    text = rf"\textbf{{{text}}}" if cell.bold else rf"\underline{{{text}}}" if cell.underline else text
    return text + (rf"\rlap{{{_mark(cell.mark)}}}" if cell.mark == STAR else _mark(cell.mark))  # digits stay aligned


def _mark(mark: str) -> str:
    return rf"\textsuperscript{{{escape(mark)}}}" if mark else ""


def _pages(grid: Grid) -> list[list[Group]]:
    """The groups, as many to a page as fit; one that is longer than a page is cut."""
    pages: list[list[Group]] = [[]]
    for group in grid.groups:
        for start in range(0, len(group.lines), PAGE):
            piece = Group(group.heading, group.lines[start : start + PAGE])
            if pages[-1] and sum(len(g.lines) for g in (*pages[-1], piece)) > PAGE:
                pages.append([])
            pages[-1].append(piece)
    return pages


def _parts(grid: Grid) -> list[list[int]]:
    """The columns of each tabular: all, but of a matrix no more than stand side by side in a paper's text."""
    every = list(range(len(grid.header)))
    if not grid.matrix or not every:
        return [every]
    lines = [line for group in grid.groups for line in group.lines]
    labels = max((len(line[0].text) for line in lines), default=0)
    names = (grid.folded(label) + shown for label, *shown in grid.header)
    wide = [2 + max(map(len, [*n, *(line[1 + i].text for line in lines)])) for i, n in enumerate(names)]
    number = min(len(every), math.ceil(sum(wide) / max(WIDTH - labels, max(wide))))
    size = math.ceil(len(every) / number)  # about as many in each
    return [every[start : start + size] for start in range(0, len(every), size)]


def _floats(grid: Grid) -> list[str]:
    """The grid's tabulars, as many to a float as fit on a page."""
    floats: list[list[tuple[list[int], list[Group]]]] = []
    lines = 0
    for groups in _pages(grid):
        for columns in _parts(grid):
            more = sum(len(group.lines) for group in groups)
            if not floats or lines + more > PAGE:
                floats, lines = [*floats, []], 0
            floats[-1].append((columns, groups))
            lines += more
    return [_float(grid, made, first=i == 0, last=i == len(floats) - 1) for i, made in enumerate(floats)]


def _float(grid: Grid, tabulars: list[tuple[list[int], list[Group]]], first: bool, last: bool) -> str:
    caption = f"{grid.title}. {grid.caption}" if first else f"{grid.title}, continued."
    small = len(grid.header) <= 5 and len(_parts(grid)) == 1
    notes = [_mark(mark) + (r"\," if mark else "") + rf"{escape(sentence)}\par" for mark, sentence in grid.notes]
    below = [r"\par\medskip\begin{minipage}{\textwidth}\footnotesize\raggedright", *notes, r"\end{minipage}"]
    drawn = [_tabular(grid, columns, groups) for columns, groups in tabulars if groups]
    return "\n".join(
        [
            r"\begin{table*}[tp]",
            r"\centering\setlength{\belowcaptionskip}{6pt}",
            rf"\caption{{{escape(caption)}}}",
            (r"\small" if small else r"\scriptsize") + r"\setlength{\tabcolsep}{3pt}\renewcommand{\arraystretch}{1.1}",
            *drawn[:1],
            *(line for each in drawn[1:] for line in (r"\par\medskip", each)),
            *(below if last and notes else []),
            r"\end{table*}",
        ]
    )


def _tabular(grid: Grid, columns: list[int], groups: list[Group]) -> str:
    """These columns of the groups, made smaller where the text is too narrow for them."""
    shown = [grid.header[i] for i in columns]
    sides = "l" + "".join("r" if label else "l" for label, *_ in shown)
    headers = [
        [*map(escape, grid.folded(label)), *(rf"\textit{{{escape(line)}}}" for line in lines)]
        for label, *lines in shown
    ]
    deep = max(map(len, headers), default=0)
    headers = [[""] * (deep - len(header)) + header for header in headers]  # every last line next to the numbers
    body = []
    for group in groups:
        body.append(r"\midrule")
        if group.heading:
            body.append(rf"\multicolumn{{{1 + len(columns)}}}{{@{{}}l}}{{\textit{{{escape(group.heading)}}}}} \\")
        indent = r"\quad " if group.heading else ""
        for line in group.lines:
            body.append(indent + " & ".join(map(_cell, (line[0], *(line[1 + i] for i in columns)))) + r" \\")
    return "\n".join(
        [
            rf"\sbox0{{\begin{{tabular}}{{@{{}}{sides}@{{}}}}",
            r"\toprule",
            *(" & ".join(["", *line]) + r" \\" for line in zip(*headers, strict=True)),
            *body,
            r"\bottomrule",
            r"\end{tabular}}%",
            r"\ifdim\wd0>\textwidth\resizebox{\textwidth}{!}{\usebox0}\else\usebox0\fi",
        ]
    )


def _macros(table: Table) -> list[str]:
    """A macro for each value, named in letters alone: Result, study, profile, student, init, row, task.

    A metric is named where the task shows several; a student or initialisation is not where the row fixes it; a kind of
    the study that is not its profile's is, so that no two tables of a paper give one name to two values.
    """
    named: dict[str, str] = {}

    def add(entries: tuple[Entry, ...], *where: str) -> None:
        for entry, column in zip(entries, table.columns, strict=True):
            if entry_text(entry):
                shown = (column.about, "" if column.alone else column.metric)
                name = "Result" + "".join(map(_letters, (table.study, table.profile, table.kind, *where, *shown)))
                while name in named:
                    name += "X"
                named[name] = escape(entry_text(entry, column.metric))

    if table.teacher:
        add(table.teacher, "teacher")
    for block, line in table.all_lines():
        add(line.entries, block.student, block.init_of(line), line.row.name)
    return [rf"\providecommand{{\{name}}}{{{value}}}" for name, value in named.items()]


def _letters(name: str) -> str:
    spelled = re.sub(r"\d", lambda digit: f" {DIGITS[int(digit[0])]} ", name)
    return "".join(part[0].upper() + part[1:] for part in re.findall("[A-Za-z]+", spelled))
