"""The table for LaTeX with booktabs: compiles on its own, and the same file can be \\input into a paper."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence

from harness.reports.formats.arranged import grids
from harness.reports.tables.layout import Cell, Grid, Group, entry_text, folded
from harness.reports.tables.matrix import STAR
from harness.reports.tables.shapes import Entry, Table

HEAD = r"""% Needs \usepackage{booktabs,graphicx}. Compiles on its own; inside a document, \input it. An \input in the
% preamble gives the macros alone, for text that comes before the table. \ref{tab:...} takes the \label of each table.
% For two tables of one study, \def\HarnessName{Second} before each \input of one puts Second behind the names of its
% macros and labels, and \def\HarnessName{} before the next \input of the other ends that. Without it they share names,
% and to use one to which they give two values is an error. \def\HarnessFloat{table} sets a small table in one column.
\providecommand\HarnessName{}
\providecommand\HarnessFloat{table*}
\def\HarnessValue#1#2{\expandafter\HarnessDefine\csname #1\HarnessName\endcsname{#2}}
\def\HarnessDefine#1#2{%
  \long\def\HarnessNew{#2}%
  \ifx#1\HarnessNew\else\ifx#1\relax\long\def#1{#2}\else\protected\def#1{\HarnessTwice{#1}}\fi\fi}
\def\HarnessTwice#1{%
  \PackageError{harness}{Two tables give \string#1 two values}%
    {Put \string\def\string\HarnessName{Second} before the \string\input\space of one.}}
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
    "‘": "`",
    "“": "``",
    "”": "''",
    "→": r"$\to$",
    "≈": r"$\approx$",
    "⁄": "/",  # of ½
    "µ": r"$\mu$",
    "…": r"\dots{}",
    "\u2060": "{}",  # the word joiner, put between hyphens that must not become a dash
}
GREEK = {
    "SMALL": "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi pi rho sigma tau upsilon phi "
    "chi psi omega",
    "CAPITAL": "Gamma Delta Theta Lambda Xi Pi Sigma Upsilon Phi Psi Omega",
}
ESCAPES |= {  # Unicode spells "lamda"
    unicodedata.lookup(f"GREEK {case} LETTER {name.upper().replace('MB', 'M')}"): rf"$\{name}$"
    for case, names in GREEK.items()
    for name in names.split()
}
DIGITS = ("Zero", "One", "Two", "Three", "Four", "Five", "Six", "Seven", "Eight", "Nine")
# Estimates in points, for papers of 10 or 11 points: the room of a page, a line of captions and one of notes.
PAGE, CAPTION, NOTE = 640.0, 13.6, 11.0
LETTERS = 95  # of a line of these
LABEL = 36  # letters of a line of a row's label
WIDTH = 100  # characters of a line of a matrix, in the narrowest of texts


def latex(table: Table) -> str:
    r"""Macros that give every value of the main table to the prose, then the tables with their notes."""
    parts = [HEAD, *_macros(table), BEGIN]
    for i, grid in enumerate(grids(table)):
        named = " ".join((table.study, table.profile, table.kind, grid.title if i else ""))
        parts += _floats(grid, "tab:" + "-".join(re.findall(r"[a-z\d]+", named.lower())))
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
    parts = [c for c in unicodedata.normalize("NFKD", character) if not unicodedata.combining(c)]
    if parts == [character] or not all(c in ESCAPES or (c.isascii() and c.isprintable()) for c in parts):
        return f"U+{ord(character):04X}"
    plain, kind = "".join(ESCAPES.get(c, c) for c in parts), unicodedata.decomposition(character).partition(" ")[0]
    around = {"<super>": r"\textsuperscript{%s}", "<sub>": r"\textsubscript{%s}", "<fraction>": r"\,%s"}
    return around.get(kind, "%s") % plain  # 10³ is not 103, nor 1½ 11/2


def _cell(cell: Cell) -> str:
    text = escape(cell.text)
    text = rf"\textbf{{{text}}}" if cell.bold else rf"\underline{{{text}}}" if cell.underline else text
    return text + (rf"\rlap{{{_mark(cell.mark)}}}" if cell.mark == STAR else _mark(cell.mark))  # digits stay aligned


def _row_label(cell: Cell) -> str:
    """In lines below each other where it is long."""
    first, *rest = folded(cell.text, LABEL)
    if not rest:
        return _cell(cell)
    lines = r" \\ ".join([escape(first), *(r"\quad " + escape(line) for line in rest)])
    return rf"\begin{{tabular}}[t]{{@{{}}l@{{}}}}{lines}{_mark(cell.mark)}\end{{tabular}}"


def _mark(mark: str) -> str:
    return rf"\textsuperscript{{{escape(mark)}}}" if mark else ""


def _pages(grid: Grid, most: int) -> list[list[Group]]:
    """The groups on pages of so many lines, whole where they can be."""
    pages: list[list[tuple[str, list[tuple[Cell, ...]]]]] = [[]]
    used = 0
    for group in grid.groups:
        whole = 1 + sum(map(_deep, group.lines))
        begun = used + whole > most >= whole
        for i, line in enumerate(group.lines):
            if used and (begun and not i or used + _deep(line) + (not i) > most):
                pages, used = [*pages, []], 0
            if not i or not pages[-1]:
                pages[-1].append((group.heading, []))
                used += 1
            pages[-1][-1][1].append(line)
            used += _deep(line)
    return [[Group(heading, tuple(lines)) for heading, lines in page] for page in pages]


def _deep(line: Sequence[Cell]) -> int:
    """How many lines of print it takes."""
    return len(folded(line[0].text, LABEL))


def _parts(grid: Grid) -> list[list[int]]:
    """The columns of each tabular: all, but of a matrix no more than stand side by side in a paper's text."""
    every = list(range(len(grid.header)))
    if not grid.matrix or not every:
        return [every]
    lines = [line for group in grid.groups for line in group.lines]
    labels = max((len(part) for line in lines for part in folded(line[0].text, LABEL)), default=0)
    names = (grid.folded(label) + shown for label, *shown in grid.header)
    wide = [2 + max(map(len, [*n, *(line[1 + i].text for line in lines)])) for i, n in enumerate(names)]
    number = min(len(every), math.ceil(sum(wide) / max(WIDTH - labels, max(wide))))
    size = math.ceil(len(every) / number)  # about as many in each
    return [every[start : start + size] for start in range(0, len(every), size)]


def _floats(grid: Grid, label: str) -> list[str]:
    """The grid's tabulars, then its notes, as many to a float as fit on a page."""
    parts = _parts(grid)
    small = len(grid.header) <= 5 and len(parts) == 1
    line = 13.5 if small else 10.5
    head = line * (2 + max((len(grid.folded(name) + shown) for name, *shown in grid.header), default=0))
    caption = f"{grid.title}. {grid.caption}"
    start = 20 + CAPTION * math.ceil(len(caption) / LETTERS)
    floats: list[tuple[list[str], list[str]]] = [([], [])]
    used = start

    def put(kind: int, text: str, high: float) -> None:
        nonlocal used
        if used + high > PAGE and any(floats[-1]):
            floats.append(([], []))
            used = 20 + CAPTION
        floats[-1][kind].append(text)
        used += high

    for groups in _pages(grid, max(int((PAGE - start - head) / line), 2)):
        high = head + line * sum(1 + sum(map(_deep, group.lines)) for group in groups)
        for columns in parts if groups else ():
            put(0, _tabular(grid, columns, groups), high)
    for mark, sentence in grid.notes:
        text = _mark(mark) + (r"\," if mark else "") + rf"{escape(sentence)}\par"
        put(1, text, NOTE * math.ceil(len(sentence) / LETTERS))
    size = r"\small" if small else r"\scriptsize"
    made = []
    for i, (drawn, notes) in enumerate(floats):
        captions = caption if not i else f"{grid.title}, continued."
        again = r"\addtocounter{table}{-1}" if i else ""  # it keeps its number
        named = again + rf"\caption{{{escape(captions)}}}" + (rf"\label{{{label}\HarnessName}}" if not i else "")
        made.append(_float(named, size, drawn, notes))
    return made


def _float(caption: str, size: str, tabulars: Sequence[str], notes: Sequence[str]) -> str:
    below = [r"\par\medskip\begin{minipage}{\linewidth}\footnotesize\raggedright", *notes, r"\end{minipage}"]
    return "\n".join(
        [
            r"\begin{\HarnessFloat}[tp]",
            r"\centering\setlength{\belowcaptionskip}{6pt}",
            caption,
            size + r"\setlength{\tabcolsep}{3pt}\renewcommand{\arraystretch}{1.1}",
            *tabulars[:1],
            *(line for each in tabulars[1:] for line in (r"\par\medskip", each)),
            *(below if notes else []),
            r"\end{\HarnessFloat}",
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
            cells = [_row_label(line[0]), *(_cell(line[1 + i]) for i in columns)]
            body.append(indent + " & ".join(cells) + r" \\")
    return "\n".join(
        [
            rf"\sbox0{{\begin{{tabular}}{{@{{}}{sides}@{{}}}}",
            r"\toprule",
            *(" & ".join(["", *line]) + r" \\" for line in zip(*headers, strict=True)),
            *body,
            r"\bottomrule",
            r"\end{tabular}}%",
            r"\ifdim\wd0>\linewidth\resizebox{\linewidth}{!}{\usebox0}\else\usebox0\fi",
        ]
    )


def _macros(table: Table) -> list[str]:
    """A macro for each value, named in letters alone: Result, study, student, init, row, task.

    A metric is named where the task shows several; a student or initialisation is not where the row fixes it.
    """
    named: dict[str, str] = {}

    def add(entries: tuple[Entry, ...], *where: str) -> None:
        for entry, column in zip(entries, table.columns, strict=True):
            if entry_text(entry):
                shown = (column.about, "" if column.alone else column.metric)
                name = "Result" + "".join(map(_letters, (table.study, *where, *shown)))
                while name in named:
                    name += "X"
                named[name] = escape(entry_text(entry, column.metric))

    if table.teacher:
        add(table.teacher, "teacher")
    for block, line in table.all_lines():
        add(line.entries, block.student, block.init_of(line), line.row.name)
    return [rf"\HarnessValue{{{name}}}{{{value}}}" for name, value in named.items()]


def _letters(name: str) -> str:
    """Its letters and digits in letters, each word with a capital; others than a to z by what Unicode calls them."""
    plain = (c for c in unicodedata.normalize("NFKD", name) if not unicodedata.combining(c))
    named = "".join(c if c.isascii() else f" {unicodedata.name(c, '').rpartition(' ')[2].lower()} " for c in plain)
    spelled = re.sub(r"\d", lambda digit: f" {DIGITS[int(digit[0])]} ", named)
    return "".join(part[0].upper() + part[1:] for part in re.findall("[A-Za-z]+", spelled))
