"""The published tables as they are read: which of their lines print a number for which row and column of ours."""

from __future__ import annotations

import csv
from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import replace
from importlib.resources import files

from harness.contracts import Published, Row
from harness.errors import UserError, unknown
from reports.model import Column, Entry, Line
from reports.quantities import is_score, number

METRICS = {"accuracy": "acc", "matthews": "mcc", "accuracy_f1_mean": "acc_f1_mean", "": "mean"}  # ours -> the CSVs'
MISMATCHED = "mismatched_"  # MNLI's second dev set: printed as a task of its own
DELTA = "delta_"  # begins the CSVs' metric of a difference between two rows
AVERAGES = {"Avg", "Average", "Score"}
DASH = "not reported (printed as a dash)"  # the CSVs' note where a dash tells the same

Printed = dict[str, str]  # one line of a CSV by its columns, with its file and number
Place = tuple[str, str, str]  # of a number: file, number of the line from 1, column


def read(published: Published, rows: Sequence[Row]) -> tuple[list[Printed], Published]:
    """The lines that are compared, and the declaration with the quotients among its columns.

    Raises UserError for a declaration of the study, or of one of these rows, that fits no line.
    """
    lines = _read(published)
    _check(lines, published, rows)
    return _prepared(lines, published)


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
    made = [dict(line) for line in lines if not any(has(line, wanted) for wanted in left_out)]
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
        tasks = {task for line in lines for task in named_tasks(line, published)}
        if not tasks & _variants(name):
            raise unknown(f"{published.task_column or 'task'} in {source}", name, tasks)
    printed = {line.get("metric", "") for line in lines}
    for name, metric in published.printed_metrics.items():
        if name not in (tasks := {line.get(published.task_column, "") for line in lines}):
            raise unknown(f"{published.task_column} in {source}", name, tasks)
        if metric not in printed:
            raise unknown(f"metric of {source}", metric, printed)
    printed_rows = {line[published.row_column] for line in lines}
    for _, label in published.quotients.values():
        if label not in printed_rows:
            raise unknown(f"{published.row_column} in {source}", label, printed_rows)
    for axis in published.axes.values():
        if axis not in ("student", "init"):
            raise unknown("axis of a published table", axis, ("student", "init"))
    for row in rows:
        if any(_is_row(line, row, published) for line in lines):
            continue
        if isinstance(row.published, str):
            raise unknown(f"{published.row_column} in {source}", row.published, printed_rows)
        wanted = ", ".join(f"{name} {value}" for name, value in row.published.items())
        raise UserError(f"row {row.name} is to be compared with {wanted}, which no line of {source} has")


def _is_row(line: Printed, row: Row, published: Published) -> bool:
    wanted = {published.row_column: row.published} if isinstance(row.published, str) else row.published
    return has(line, wanted)


def has(line: Printed, wanted: Mapping[str, str]) -> bool:
    return all(line.get(name) == value for name, value in wanted.items())


def is_init(ours: str, printed: str) -> bool:
    return printed in (ours, ours.split(":")[0])


def lines_of(lines: Iterable[Printed], line: Line, published: Published) -> list[Printed]:
    """The published lines of a line of ours: its row, made with the same student and initialisation.

    A checkpoint, or a teacher, has no initialisation.
    """
    if not line.row.published or (published.init and line.init and not is_init(line.init, published.init)):
        return []
    found = [x for x in lines if _is_row(x, line.row, published)]
    for name, axis in published.axes.items():
        found = [x for x in found if (x[name] == line.student if axis == "student" else is_init(line.init, x[name]))]
    return found


def labels(column: Column, published: Published) -> set[str]:
    """What the column's task may be called in print."""
    if not column.task:
        return AVERAGES if column.average else set()
    return _variants(published.task_names.get(column.task, column.label), column.metric)


def _variants(name: str, metric: str = "") -> set[str]:
    """A task's name as it may be printed; MNLI's two dev sets are told apart by their ending."""
    return {f"{name}-mm"} if metric.startswith(MISMATCHED) else {name, f"{name}-m"}


def named_tasks(line: Printed, published: Published) -> set[str]:
    """What a line's task column names: the whole cell, or each of several in it."""
    text = line[published.task_column] if published.task_column else ""
    return {text, *text.split(", ")}


def tasks_of(lines: Iterable[Printed], published: Published) -> list[str]:
    """The tasks printed, in order and without the averages; a cell may list several."""
    if not published.task_column:
        return []
    tasks = (task for line in lines for task in line[published.task_column].split(", "))
    return [task for task in dict.fromkeys(tasks) if task not in AVERAGES]


def answers(lines: Iterable[Printed], column: Column, published: Published, improvement: bool) -> list[Printed]:
    """The lines printed for the column: of its task and its metric, differences of rows only for improvements.

    A score that is the only one shown of its task is also answered by the only metric printed for the task.
    """
    wanted = published.metric_columns.get(column.metric, {})
    whole = not (column.task or column.average)  # of the row, whatever the task
    anywhere = whole or published.task_column in wanted or (not published.task_column and column.task)
    found = [x for x in lines if anywhere or labels(column, published) & named_tasks(x, published)]
    found = [x for x in found if x.get("metric", "").startswith(DELTA) == improvement]
    if column.metric in {*published.metric_columns, *published.value_columns}:
        return [x for x in found if has(x, wanted)]
    name = printed_metric(column, improvement)
    same = [x for x in found if x.get("metric") == name]
    printed = {x.get("metric", "") for x in found}
    other = column.task and column.alone and is_score(column.metric) and len(printed) == 1 and printed != {""}
    return same or (found if other else [])


def printed_metric(column: Column, improvement: bool) -> str:
    name = column.metric.removeprefix(MISMATCHED)
    return (DELTA if improvement else "") + METRICS.get(name, name)


def value_of(line: Printed, column: Column, published: Published) -> str:
    return line[published.value_columns.get(column.metric, published.value_column)]


def place_of(line: Printed, column: Column, published: Published) -> Place:
    return line["file"], line["number"], published.value_columns.get(column.metric, published.value_column)


def equal(lines: Sequence[Printed], column: Column, row: Row, published: Published, improvement: bool) -> list[Printed]:
    """The lines of one entry. Several must print the same number, as where a paper repeats a row."""
    found = answers(lines, column, published, improvement)
    if len({value_of(x, column, published) for x in found}) > 1:
        where = f"{row.label} on {column.name}"
        raise UserError(f"published table {' and '.join(published.files)} has several numbers for {where}")
    return found


def note_of(line: Printed, value: str, column: Column, tested: bool, entry: Entry) -> str:
    """The CSV's own note, and what else keeps the number from being compared like with like."""
    parts = [line.get("note", "")]
    if not value:
        return "" if parts == [DASH] else parts[0]
    metric = line.get("metric", "")
    if column.task and is_score(column.metric) and metric and metric != printed_metric(column, entry.signed):
        parts.append(f"published as {metric}, ours is {DELTA if entry.signed else ''}{column.metric}")
    if line.get("split") == "test" and not tested:
        parts.append("scored on the official test set, ours on dev")
    parts += ["ours is of the official test set too, as its server scored it"] if entry.tested else []
    return "; ".join(filter(None, parts))


def lost(lines: Iterable[Printed], published: Published, told: Container[Place]) -> list[str]:
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
