"""Our numbers beside the published ones. A published number never enters our own table, its best or its ties."""

from __future__ import annotations

import csv
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files
from itertools import product

from harness.contracts import Published, Row, Study
from harness.errors import UserError, unknown
from reports.layout import heading
from reports.model import Agreement, Block, Column, ComparedBlock, ComparedLine, Comparison, Entry, Line, Pair, Table
from reports.quantities import MACHINE, WHOLE, is_score, number, scaled
from reports.statistics import rank_correlation

METRICS = {"accuracy": "acc", "matthews": "mcc", "accuracy_f1_mean": "acc_f1_mean", "": "mean"}  # ours -> the CSVs'
MISMATCHED = "mismatched_"  # MNLI's second dev set: printed as a task of its own
DELTA = "delta_"  # begins the CSVs' metric of a difference between two rows
AVERAGES = {"Avg", "Average", "Score"}
DASH = "not reported (printed as a dash)"  # the CSVs' note where a dash tells the same

Printed = dict[str, str]  # one line of a CSV by its columns, with its file and number
Place = tuple[str, str, str]  # of a number: file, number of the line from 1, column


def with_published(table: Table, study: Study) -> Table:
    """The table with the study's published numbers beside it.

    Raises UserError where the study names no published table, or one that does not exist, that lacks what the study
    looks for in it, or that answers one entry with several numbers.
    """
    if study.published is None:
        raise UserError(f"study {study.name} answers no published table, so there is nothing to compare with")
    rows = {line.row.name: line.row for block in table.blocks for line in block.lines}
    unmade = [row for row in study.rows if row.checkpoint and row.published and row.name not in rows]
    rows |= {row.name: row for row in study.rows}
    comparison = _compare(table, study.published, [row for row in rows.values() if row.published])
    if unmade:
        names = " ".join(row.name for row in unmade)
        said = f"Not made here: {', '.join(row.label for row in unmade)}; --checkpoints {names} fine-tunes them."
        comparison = replace(comparison, remarks=(*comparison.remarks, said))
    return replace(table, comparison=comparison)


def _compare(table: Table, published: Published, rows: Sequence[Row]) -> Comparison:
    lines = _read(published)
    _check(lines, published, rows)
    lines, published = _prepared(lines, published)
    shared = [j for j, c in enumerate(table.columns) if any(_answers(lines, c, published, d) for d in (False, True))]
    columns = tuple(table.columns[j] for j in shared)
    unlike = _unlike(table, columns, lines, published)
    remarks = [unlike] if unlike else []
    missing = [c.name for c in table.columns if not c.average and c not in columns]
    if missing:
        remarks.append(f"No published column: {', '.join(missing)}.")
    if published.init:
        made = any(_is_init(line.init, published.init) for block in table.blocks for line in block.lines)
        remarks.append(
            f"The published numbers were made with init {published.init}"
            + ("; no other is compared." if made else ", of which this table has no cell.")
        )
    if table.provenance.protocol == "held_out":
        remarks.append(
            "Ours were chosen on a part held out of the training data (protocol held_out), the published ones on dev, "
            "as with --set protocol=published."
        )
    tested = {line.get("split") == "test" for line in lines if line[published.value_column]} == {True}
    if tested:
        remarks.append("The published scores are of the official test set, ours of dev.")

    numbers: dict[str, int] = {}

    def pair(entry: Entry, found: Sequence[Printed], column: Column) -> Pair:
        if not found:
            return Pair(entry)
        line, value = found[0], _value(found[0], column, published)
        std = line.get("std", "") if column.metric not in published.value_columns else ""
        note = _note(line, value, column, tested, entry.signed)
        if not (column.task or column.average) and any(x.get("note") != line.get("note") for x in found):
            note = ""  # the line's own, not the row's
        reason = next((why for wanted, why in published.reasons if _has(line, wanted)), "")
        number = numbers.setdefault(note, len(numbers) + 1) if note else 0
        places = tuple(_place(x, column, published) for x in found if value)
        return Pair(entry, value, std, number, reason, places=places)

    blocks = []
    for block in table.blocks:
        compared = []
        for line in block.lines:
            own = _lines_of(lines, line, published)
            found = [_equal(own, column, line.row, published, block.improvement) for column in columns]
            if any(found):
                entries = (line.entries[j] for j in shared)
                compared.append(ComparedLine(line.row.label, tuple(map(pair, entries, found, columns)), line))
        if compared:
            blocks.append(_block(block, columns, compared, not unlike))
    if not blocks:
        remarks.append("No cell of this table has a published counterpart.")
    beside = {place for block in blocks for line in block.lines for p in line.pairs for place in p.places}
    others = []
    for label, signed, found in _others(lines, columns, published, rows, beside):
        entry = Entry("absent", signed=signed)
        pairs = tuple(pair(entry, x, c) for x, c in zip(found, columns, strict=True))
        others.append(ComparedLine(f"{label} (improvement)" if signed else label, pairs))
    remarks += _lost(lines, published, beside | {place for x in others for p in x.pairs for place in p.places})
    notes = tuple(numbers)
    counted, unequal = _counted(blocks, columns, notes)
    remarks = [
        *(f"Not equal: {'; '.join(where)}. Reason: {reason}" for reason, where in unequal.items()),
        *remarks,
        *(
            f"{metric.replace('_', ' ').capitalize()}: the printed numbers over that of {row}, computed from the print."
            for metric, (_, row) in published.quotients.items()
        ),
        *(why for _, why in published.omitted),
        *published.notes,
    ]
    return Comparison(published.source, counted, columns, tuple(blocks), tuple(others), tuple(remarks), notes)


def _unlike(table: Table, columns: Sequence[Column], lines: Sequence[Printed], published: Published) -> str:
    """Why the averages are not alike, as a sentence: tasks differ, or metrics; "" where they are, or where none is."""
    if not any(c.average for c in columns):
        return ""
    own = [c for c in table.columns if c.task and c.selects]
    theirs = _tasks(lines, published)
    matched = [_labels(c, published) & set(theirs) for c in own]
    if not all(matched) or set().union(*matched) != set(theirs):
        ours = ", ".join(dict.fromkeys(c.label for c in own)) or "no task"
        return (
            f"The published average is over {', '.join(theirs)}, ours over {ours}: the tasks differ, so on the average "
            f"only the order of the rows is compared."
        )
    names, other = {printed: ours for ours, printed in METRICS.items()}, []
    for column in own:
        found = [x for x in lines if _labels(column, published) & _named_tasks(x, published)]
        printed = dict.fromkeys(m for x in found if (m := x.get("metric", "")) and not m.startswith(DELTA))
        if printed and _printed_metric(column, False) not in printed:
            theirs = [names.get(metric, metric).replace("_", " ") for metric in printed]
            other.append(f"{column.label} (published {' or '.join(theirs)}, ours {column.metric.replace('_', ' ')})")
    if not other:
        return ""
    return (
        f"The averages are of different metrics on {', '.join(other)}, so on the average only the order of the rows is "
        f"compared."
    )


def _others(
    lines: Sequence[Printed],
    columns: Sequence[Column],
    published: Published,
    rows: Sequence[Row],
    beside: Container[Place],
) -> list[tuple[str, bool, list[list[Printed]]]]:
    """The numbers that stand beside no cell, as rows: (label, whether an improvement, the lines of each column).

    What identifies a line are the columns that tell ours apart. Rows of one label share a line where no two of their
    numbers differ; otherwise their labels name what tells them apart.
    """
    telling = [*published.axes, *(name for row in rows if not isinstance(row.published, str) for name in row.published)]
    identity = dict.fromkeys(n for n in (*telling, "section", "split") if n != published.row_column)
    groups: dict[tuple[str, ...], list[Printed]] = {}
    for line in lines:
        groups.setdefault((line[published.row_column], *(line.get(n, "") for n in identity)), []).append(line)
    made: list[tuple[list[tuple[str, ...]], bool, list[list[Printed]]]] = []  # identities that share a row

    def same(a: Sequence[Printed], b: Sequence[Printed], column: Column) -> bool:
        return not a or not b or _value(a[0], column, published) == _value(b[0], column, published)

    for (own, group), signed in product(groups.items(), (False, True)):
        left = [
            [
                line
                for line in _answers(group, column, published, signed)
                if _value(line, column, published) and _place(line, column, published) not in beside
            ]
            for column in columns
        ]
        while any(left):
            row = [[x for x in found if same([x], found, c)] for found, c in zip(left, columns, strict=True)]
            left = [[x for x in found if x not in taken] for found, taken in zip(left, row, strict=True)]
            for known, sign, cells in made:
                if (known[0][0], sign) == (own[0], signed) and all(map(same, cells, row, columns)):
                    known.append(own)
                    for cell, more in zip(cells, row, strict=True):
                        cell += more
                    break
            else:
                made.append(([own], signed, row))
    names = (published.row_column, *identity)
    return [(_told_apart(own, groups, names), signed, row) for own, signed, row in made]


def _told_apart(ours: Sequence[Sequence[str]], all_rows: Iterable[Sequence[str]], names: Sequence[str]) -> str:
    """A row's label, the first of what identifies it, with what tells it apart from other rows of this label."""
    own = ours[0]
    alike = [other for other in all_rows if other[0] == own[0] and other not in ours]
    differ = {name: text for i, name in enumerate(names) if any(x[i] != own[i] for x in alike) and (text := own[i])}
    if len(differ) > 1:
        differ.pop("section", None)  # a heading, which says the rest again
    return f"{own[0]} ({', '.join(differ.values())})" if differ else own[0]


def _lost(lines: Iterable[Printed], published: Published, told: Container[Place]) -> list[str]:
    """A sentence that names the numbers of tasks and metrics for which the table has no column; none where it has."""
    names: dict[str, None] = {}
    for line in lines:
        for name in (published.value_column, *published.value_columns.values()):
            if line.get(name) and name not in _unread(published) and (line["file"], line["number"], name) not in told:
                about = line.get(published.task_column, ""), line.get("metric") or line.get("quantity") or name
                names[" ".join(filter(None, about))] = None
    return [f"Printed too, where this table has no column: {'; '.join(names)}."] if names else []


def _unread(published: Published) -> set[str]:
    """The columns that are no print: quotients, and what the study leaves out with its reason."""
    quotients = {_quotient(*made) for made in published.quotients.values()}
    return quotients | {name for name, _ in published.omitted if isinstance(name, str)}


def _block(block: Block, columns: Sequence[Column], lines: Sequence[ComparedLine], alike: bool) -> ComparedBlock:
    """The lines with their differences or ranks, and how far the two orders agree, column by column.

    Only students are ranked and ordered. alike: the averages are of the same tasks and metrics.
    """
    made = [list(line.pairs) for line in lines]
    agreement = []
    for j, column in enumerate(columns):
        both = {}
        for k, pair in enumerate(line[j] for line in made):
            if pair.printed and pair.ours.status == "complete":
                value = scaled(column.metric, pair.ours.value or 0.0)
                both[k] = (round(value, 6), number(pair.printed))  # equal up to rounding: a tie
        students = {k: values for k, values in both.items() if (line := lines[k].line) and line.row.competes}
        if column.average and not alike:
            for k, own in students.items():
                ranks = tuple(1 + sum(v[side] > own[side] for v in students.values()) for side in (0, 1))
                made[k][j] = replace(made[k][j], ranks=(ranks[0], ranks[1]))
        elif column.metric not in MACHINE:
            for k, (ours, theirs) in both.items():
                made[k][j] = replace(made[k][j], difference=ours - theirs)
        order = rank_correlation([v[0] for v in students.values()], [v[1] for v in students.values()])
        agreement.append(Agreement(*order, len(students)))
    compared = tuple(replace(line, pairs=tuple(pairs)) for line, pairs in zip(lines, made, strict=True))
    return ComparedBlock(block.student, block.init, compared, tuple(agreement), block.improvement)


def _counted(
    blocks: Sequence[ComparedBlock], columns: Sequence[Column], notes: Sequence[str]
) -> tuple[str, dict[str, list[str]]]:
    """How many published counts ours equal; and by their reason which ones do not.

    The reason is the study's, else the CSV's note.
    """
    equal = total = 0
    unequal: dict[str, dict[str, list[str]]] = {}
    for block in blocks:
        for line in block.lines:
            found: dict[str, list[Column]] = {}
            for pair, column in zip(line.pairs, columns, strict=True):
                if column.metric not in WHOLE or pair.difference is None:
                    continue
                total += 1
                equal += pair.difference == 0
                if pair.difference:
                    reason = pair.reason or (notes[pair.note - 1] if pair.note else "none is known")
                    found.setdefault(reason, []).append(column)
            for reason, where in found.items():
                made = heading(block.student, block.init, block.improvement)
                place = ", ".join(filter(None, (made, _named(where, columns))))
                unequal.setdefault(reason, {}).setdefault(place, []).append(line.label)
    counted = f"{equal} of {total} published numbers are equal" if total else ""
    if unequal:
        counted += "; the others are named below, each with its reason"
    listed = {
        reason: [f"{place}: {'; '.join(labels)}" for place, labels in places.items()]
        for reason, places in unequal.items()
    }
    return counted, listed


def _named(some: Sequence[Column], columns: Sequence[Column]) -> str:
    """Columns in words: those of a metric together where it is all of them."""
    if len(some) == len(columns):
        return "every column"
    names: dict[str, None] = {}
    for column in some:
        whole = all(c in some for c in columns if c.metric == column.metric)
        names[column.metric.replace("_", " ") if whole else column.name] = None
    return ", ".join(names)


def _read(published: Published) -> list[Printed]:
    folder = files("reports") / "published"
    names = [p.name for p in folder.iterdir() if p.name.endswith(".csv")]
    lines: list[Printed] = []
    for file in published.files:
        if file not in names:
            raise unknown("published table", file, names)
        found = csv.DictReader((folder / file).read_text(encoding="utf-8").splitlines())
        lines += ({**line, "file": file, "number": str(i)} for i, line in enumerate(found, 1))
    columns = {name for line in lines for name in line}
    return [{**dict.fromkeys(columns, ""), **line} for line in lines]


def _prepared(lines: Iterable[Printed], published: Published) -> tuple[list[Printed], Published]:
    """The lines that are compared, with the metrics that they really are and the quotients in columns of their own."""
    left_out = [wanted for wanted, _ in published.omitted if not isinstance(wanted, str)]
    made = [dict(line) for line in lines if not any(_has(line, wanted) for wanted in left_out)]
    for line in made:
        if line.get("metric") and line["metric"] != METRICS[""]:
            line["metric"] = published.printed_metrics.get(line.get(published.task_column, ""), line["metric"])
        for column, row in published.quotients.values():
            task = line.get(published.task_column)
            unit = [x for x in made if x[published.row_column] == row and x.get(published.task_column) == task]
            over = number(line[column]) / number(unit[0][column]) if unit and line[column] else None
            line[_quotient(column, row)] = "" if over is None else f"{float(f'{over:.3g}'):g}"
    columns = {metric: _quotient(*of) for metric, of in published.quotients.items()}
    return made, replace(published, value_columns={**published.value_columns, **columns})


def _quotient(column: str, row: str) -> str:
    return f"{column} over that of {row}"


def _check(lines: Sequence[Printed], published: Published, rows: Iterable[Row]) -> None:
    """Raise UserError for a column or row that no line of the published tables has."""
    source = " and ".join(published.files)
    columns = {name for line in lines for name in line}
    asked = [published.row_column, published.value_column, *published.value_columns.values(), *published.axes]
    asked += [published.task_column] if published.task_column else []
    asked += [name for wanted in published.metric_columns.values() for name in wanted]
    asked += [name for name, _ in published.quotients.values()]
    asked += [name for what, _ in published.omitted for name in ([what] if isinstance(what, str) else what)]
    asked += [name for row in rows if not isinstance(row.published, str) for name in row.published]
    for name in asked:
        if name not in columns:
            raise unknown(f"column of {source}", name, columns)
    for name in published.task_names.values():
        tasks = {task for line in lines for task in _named_tasks(line, published)}
        if not tasks & _variants(name):
            raise unknown(f"{published.task_column or 'task'} in {source}", name, tasks)
    printed = {line.get("metric", "") for line in lines}
    for name, metric in published.printed_metrics.items():
        if name not in (tasks := {line.get(published.task_column, "") for line in lines}):
            raise unknown(f"{published.task_column} in {source}", name, tasks)
        if metric not in printed:
            raise unknown(f"metric of {source}", metric, printed)
    labels = {line[published.row_column] for line in lines}
    for _, label in published.quotients.values():
        if label not in labels:
            raise unknown(f"{published.row_column} in {source}", label, labels)
    for axis in published.axes.values():
        if axis not in ("student", "init"):
            raise unknown("axis of a published table", axis, ("student", "init"))
    for row in rows:
        if any(_is_row(line, row, published) for line in lines):
            continue
        if isinstance(row.published, str):
            raise unknown(f"{published.row_column} in {source}", row.published, labels)
        wanted = ", ".join(f"{name} {value}" for name, value in row.published.items())
        raise UserError(f"row {row.name} is to be compared with {wanted}, which no line of {source} has")


def _is_row(line: Printed, row: Row, published: Published) -> bool:
    wanted = {published.row_column: row.published} if isinstance(row.published, str) else row.published
    return _has(line, wanted)


def _has(line: Printed, wanted: Mapping[str, str]) -> bool:
    return all(line.get(name) == value for name, value in wanted.items())


def _is_init(ours: str, printed: str) -> bool:
    return printed in (ours, ours.split(":")[0])


def _lines_of(lines: Iterable[Printed], line: Line, published: Published) -> list[Printed]:
    """The published lines of a line of ours: its row, made with the same student and initialisation.

    A checkpoint, or a teacher, has no initialisation.
    """
    if not line.row.published or (published.init and line.init and not _is_init(line.init, published.init)):
        return []
    found = [x for x in lines if _is_row(x, line.row, published)]
    for name, axis in published.axes.items():
        found = [x for x in found if (x[name] == line.student if axis == "student" else _is_init(line.init, x[name]))]
    return found


def _labels(column: Column, published: Published) -> set[str]:
    """What the column's task may be called in print."""
    if not column.task:
        return AVERAGES if column.average else set()
    return _variants(published.task_names.get(column.task, column.label), column.metric)


def _variants(name: str, metric: str = "") -> set[str]:
    """A task's name as it may be printed; MNLI's two dev sets are told apart by their ending."""
    return {f"{name}-mm"} if metric.startswith(MISMATCHED) else {name, f"{name}-m"}


def _named_tasks(line: Printed, published: Published) -> set[str]:
    """What a line's task column names: the whole cell, or each of several in it."""
    text = line[published.task_column] if published.task_column else ""
    return {text, *text.split(", ")}


def _tasks(lines: Iterable[Printed], published: Published) -> list[str]:
    """The tasks printed, in order and without the averages; a cell may list several."""
    if not published.task_column:
        return []
    tasks = (task for line in lines for task in line[published.task_column].split(", "))
    return [task for task in dict.fromkeys(tasks) if task not in AVERAGES]


def _answers(lines: Iterable[Printed], column: Column, published: Published, improvement: bool) -> list[Printed]:
    """The lines printed for the column: of its task and its metric, differences of rows only for improvements.

    A score that is the only one shown of its task is also answered by the only metric printed for the task.
    """
    wanted = published.metric_columns.get(column.metric, {})
    whole = not (column.task or column.average)  # of the row, whatever the task
    anywhere = whole or published.task_column in wanted or (not published.task_column and column.task)
    found = [x for x in lines if anywhere or _labels(column, published) & _named_tasks(x, published)]
    found = [x for x in found if x.get("metric", "").startswith(DELTA) == improvement]
    if column.metric in {*published.metric_columns, *published.value_columns}:
        return [x for x in found if _has(x, wanted)]
    name = _printed_metric(column, improvement)
    same = [x for x in found if x.get("metric") == name]
    printed = {x.get("metric", "") for x in found}
    other = column.task and column.alone and is_score(column.metric) and len(printed) == 1 and printed != {""}
    return same or (found if other else [])


def _printed_metric(column: Column, improvement: bool) -> str:
    name = column.metric.removeprefix(MISMATCHED)
    return (DELTA if improvement else "") + METRICS.get(name, name)


def _value(line: Printed, column: Column, published: Published) -> str:
    return line[published.value_columns.get(column.metric, published.value_column)]


def _place(line: Printed, column: Column, published: Published) -> Place:
    return line["file"], line["number"], published.value_columns.get(column.metric, published.value_column)


def _equal(
    lines: Sequence[Printed], column: Column, row: Row, published: Published, improvement: bool
) -> list[Printed]:
    """The lines of one entry. Several must print the same number, as where a paper repeats a row."""
    found = _answers(lines, column, published, improvement)
    if len({_value(x, column, published) for x in found}) > 1:
        where = f"{row.label} on {column.name}"
        raise UserError(f"published table {' and '.join(published.files)} has several numbers for {where}")
    return found


def _note(line: Printed, value: str, column: Column, tested: bool, improvement: bool) -> str:
    """The CSV's own note, and what else keeps the number from being compared like with like."""
    parts = [line.get("note", "")]
    if not value:
        return "" if parts == [DASH] else parts[0]
    metric = line.get("metric", "")
    if column.task and is_score(column.metric) and metric and metric != _printed_metric(column, improvement):
        parts.append(f"published as {metric}, ours is {DELTA if improvement else ''}{column.metric}")
    if line.get("split") == "test" and not tested:
        parts.append("scored on the official test set, ours on dev")
    return "; ".join(filter(None, parts))
