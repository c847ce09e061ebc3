"""A table as matrices: for each of its columns the rows by students and initialisations, of the same entries."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harness.reports.tables.layout import Cell, Grid, Group, cell_of, counts_of, entry_text, label_of, notes, units
from harness.reports.tables.shapes import Column, Entry, Line, Place, Table, parts_of

OWN = "own"  # heads what stands in no student's column
STAR = "★"
Placed = Mapping[tuple[str, Place], Line]  # row and place -> the line there
Row = tuple[Line, tuple["Entry | None", ...]]  # a line as it is at one of the places, and what stands at each


@dataclass(frozen=True)
class Matrix:
    """One column of a table: rows by places. improvements are the differences of two rows.

    references: what has no place and does not compete, as the regression of --baselines.
    """

    column: Column
    places: tuple[Place, ...]
    rows: tuple[Row, ...]
    improvements: tuple[Row, ...]
    references: tuple[tuple[Line, Entry], ...]


def matrices(table: Table) -> list[Matrix]:
    """One for each column of the table that holds anything, in the layout "matrix".

    None where all rows have one student and initialisation, or fix theirs: such a table is a matrix as it is, of rows
    by tasks.
    """
    lines = table.all_lines()
    found = {(line.row.name, line.place): line for block, line in lines if not block.improvement}
    own = {key: line for key, line in found.items() if line.row.competes or any(line.place)}
    beside = [line for key, line in found.items() if key not in own]
    gains = {(line.row.name, (block.student, block.init)): line for block, line in lines if block.improvement}
    blocks = [(block.student, block.init) for block in table.blocks]
    used = {place for _, place in own}
    places = sorted(used, key=lambda place: blocks.index(place) if any(place) else len(blocks))
    if table.layout != "matrix" or sum(map(any, places)) < 2:
        return []
    made = [_matrix(table, j, places, own, gains, beside) for j in range(len(table.columns))]
    return [matrix for matrix in made if matrix.rows]


def _matrix(
    table: Table, j: int, places: Sequence[Place], own: Placed, gains: Placed, beside: Sequence[Line]
) -> Matrix:
    """The j-th column, without the rows and places that have nothing there."""
    entries = {key: _entry(line, table.columns, j) for key, line in own.items()}
    filled = tuple(place for place in places if any(key[1] == place and entry for key, entry in entries.items()))

    def rows(lines: Placed) -> tuple[Row, ...]:
        first = {name: line for (name, _), line in reversed([*lines.items()])}
        there = {key: entry for key, line in lines.items() if (entry := _entry(line, table.columns, j))}
        found = ((name, tuple(there.get((name, place)) for place in filled)) for name in table.order)
        return tuple((first[name], at) for name, at in found if any(at))

    references = tuple((line, entry) for line in beside if (entry := line.entries[j]).status != "absent")
    return Matrix(table.columns[j], filled, rows(own), rows(gains), references)


def _entry(line: Line, columns: Sequence[Column], j: int) -> Entry | None:
    """What stands there, or None; of what is impossible on a task the average is so too."""
    entry = line.entries[j]
    if entry.status != "absent":
        return entry
    parts = (line.entries[k] for k in parts_of(columns, j))
    return next((part for part in parts if part.status == "impossible"), entry) if columns[j].average else None


def grids(table: Table, made: Sequence[Matrix]) -> list[Grid]:
    """The matrices as text; what is said of all stands under the last."""
    last, reasons = made[-1], dict[str, int]()
    under = (
        f"What marks and numbers mean, and how all was made: under the last of these matrices, {_name(last.column)}."
    )
    found = []
    for matrix in made:
        title = f"{table.title} ({table.study})" if matrix is made[0] else table.study
        header, groups = _header(matrix.places), _groups(table, matrix, reasons)
        below = _notes(replace(table, reasons=tuple(reasons)), made) if matrix is last else (("", under),)
        caption = _caption(table, matrix, whole=matrix is made[0])
        found.append(Grid(f"{title}: {_name(matrix.column)}", caption, header, groups, below, matrix=True))
    return found


def _name(column: Column) -> str:
    return column.label + (f" ({column.metric.replace('_', ' ')})" if column.metric else "")


def _axes(places: Sequence[Place]) -> tuple[list[str], list[str]]:
    """The students and the initialisations of these places."""
    free = [place for place in places if any(place)]
    return list(dict.fromkeys(student for student, _ in free)), list(dict.fromkeys(init for _, init in free))


def _header(places: Sequence[Place]) -> tuple[tuple[str, ...], ...]:
    """The student, with its initialisation where not all have the same; of one student the initialisation alone."""
    students, inits = _axes(places)
    header = []
    for student, init in places:
        named = [init] if len(students) == 1 else [student, init] if len(inits) > 1 else [student]
        header.append(tuple(filter(None, named)) or (OWN,))
    return tuple(header)


def _caption(table: Table, matrix: Matrix, whole: bool) -> str:
    students, inits = _axes(matrix.places)
    across = "Columns: students" + (f", init {inits[0]}" if len(inits) == 1 and inits[0] else "")
    if len(students) == 1:
        across = f"Columns: initialisations of {students[0] or 'the students'}"
    column, place = matrix.column, table.columns.index(matrix.column)
    beside = [(f"Teacher ({table.provenance.teacher})", e) for e in table.teacher[place : place + 1]]
    beside += [(line.row.label + line.mark, entry) for line, entry in matrix.references]
    told = [f"{name}: {text}" for name, e in beside if (text := entry_text(e, column.metric, e.n > 1))]
    sentences = [f"{table.question} Profile {table.profile}."] if whole else []
    of_runs = column.task or column.average  # not of what --columns adds: models are counted and timed once
    sentences += [units(table, [column])] if of_runs else []
    sentences += [f"{across}."]
    sentences += [f"{'; '.join(told)}."] if told else []
    return " ".join(filter(None, sentences))


def _shared(reason: str, line: Line, place: Place) -> str:
    """A reason that names the student and the objectives of its own column and row, without their names."""
    student = place[0] or line.student
    objectives = re.findall(r"[^\d\W][\w-]*", " ".join((line.row.objective, *line.row.improves)))
    if student:  # its settings are those of any student: student.vocabulary
        reason = re.sub(rf"(?<![\w-]){re.escape(student)}(?=\.\w)", "student", reason)
    for names, word in (([f"the student {student}", student] if student else [], "student"), (objectives, "objective")):
        for name in names:
            reason = re.sub(rf"(?<![\w-]){re.escape(name)}(?![\w-]|\.\w)", f"the {word}", reason)
    return reason


def _groups(table: Table, matrix: Matrix, reasons: dict[str, int]) -> tuple[Group, ...]:
    """reasons: the sentences under all matrices by their numbers, to which those of this one are added."""
    show_n = len(counts_of(table)) > 1
    groups = []
    for heading, rows in (("", matrix.rows), ("Improvement", matrix.improvements)):
        made = []
        for line, entries in rows:
            inits = [place[1] for place, entry in zip(matrix.places, entries, strict=True) if entry]
            other = next((init for init in inits if init != line.init), "")
            cells = [Cell(label_of(line, other), mark=line.mark)]
            for place, entry in zip(matrix.places, entries, strict=True):
                why = _shared(entry.reason, line, place) if entry and entry.reason else ""
                note = reasons.setdefault(why, len(reasons) + 1) if why else 0
                cells.append(_cell(replace(entry, note=note), matrix.column, show_n) if entry else Cell(""))
            made.append(tuple(cells))
        groups += [Group(heading, tuple(made))] if made else []
    return tuple(groups)


def _cell(entry: Entry, column: Column, show_n: bool) -> Cell:
    """As in lines, but that the best of its place is what is bold, and the best of its row has a mark."""
    cell = cell_of(replace(entry, best=entry.in_place == "best", tied=entry.in_place == "tied"), column, show_n)
    return replace(cell, mark=STAR + cell.mark) if entry.best_of_row else cell


def _notes(table: Table, made: Sequence[Matrix]) -> tuple[tuple[str, str], ...]:
    entries = list(table.entries())
    star = [(STAR, "best of its row")] if any(e.best_of_row for e in entries) else []
    own = any(not any(place) for matrix in made for place in matrix.places)
    said = [f"Column {OWN}: rows that fix what they are made of themselves"] if own else []
    return notes(table, any(e.in_place == "best" for e in entries), star, said)
