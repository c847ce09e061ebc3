"""The published tables as they are read: which of their numbers is printed for which row and column of ours."""

from __future__ import annotations

import csv
import re
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from importlib.resources import files
from pathlib import Path

from harness.contracts import Published, TableRow
from harness.errors import UserError, check_known, counted, unknown
from harness.reports.tables.quantities import is_score, number
from harness.reports.tables.shapes import Column, Entry, Line

METRICS = {  # ours -> the CSVs'
    "accuracy": "acc",
    "matthews": "mcc",
    "accuracy_f1_mean": "acc_f1_mean",
    "": "mean",
    "parameters": "total",
    "classifier_parameters": "classifier",
    "millions_without_embeddings": "parameters_millions",
    "millions_of_parameters": "parameters_millions",
    "size_factor": "parameters_factor",
    "sentences_per_second": "sentences/second",
    "time_factor": "factor",
}
OURS = {printed: name for name, printed in METRICS.items()}
MISMATCHED = "mismatched_"  # MNLI's second dev set: printed as a task of its own
DELTA = "delta_"  # begins the CSVs' metric of a difference between two rows
AVERAGES = {"Avg", "Average", "Score"}
CORPORA = {"Wikipedia"}  # printed as tasks; what is measured on them is the row's, whatever the task
WORKLOADS = {  # what is encoded -> the label of our task
    "encode 1,024 batches of 256 random sequences of length 64, no gradient": "Encoding",
    "SST-2 training set, single sentences (67,350)": "Encoding",
    "QQP training set, sentence pairs (363,850)": "Encoding of pairs",
    "100 batches of the QNLI training set": "Encoding of pairs",
    "100k samples of QQP": "Encoding of pairs",
}
SIZE = "parameters_millions"
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?")
DASH = "not reported (printed as a dash)"  # the CSVs' note where a dash tells the same

# One number: its line of a CSV, with row, task, metric, value, and its file, number and column.
Printed = dict[str, str]
Place = tuple[str, str, str]  # of a number: file, number of the line from 1, column


def read(published: Published, rows: Sequence[TableRow]) -> list[Printed]:
    """The numbers that are compared, with the metrics that they really are, and the quotients.

    Raises UserError for a declaration of the study, or of one of these rows, that fits no line.
    """
    lines = _read(published)
    _check(lines, published, rows)
    left_out = [wanted for wanted, _ in published.omitted if not isinstance(wanted, str)]
    made = [line for line in lines if not any(has(line, wanted) for wanted in left_out)]
    for line in made:
        if line["metric"] != METRICS[""]:
            line["metric"] = published.printed_metrics.get(line["task"], line["metric"])
    for metric, row in published.quotients.items():
        measured = [line for line in made if line["column"] == "value" and line["value"]]
        units = {line["task"]: number(line["value"]) for line in measured if line["row"] == row}
        for line in (x for x in measured if x["task"] in units):
            over = f"{number(line['value']) / units[line['task']]:.3g}"
            made.append({**line, "metric": METRICS.get(metric, metric), "value": f"{float(over):g}", "column": ""})
    return made


def _read(published: Published) -> list[Printed]:
    folder = files("harness.reports.papers") / "published"
    names = [p.name for p in folder.iterdir() if p.name.endswith(".csv")]
    lines: list[Printed] = []
    for file in published.files:
        if Path(file).is_absolute():
            found: Sequence[Mapping[str, str]] = _own(Path(file))
        else:
            check_known("published table", file, names)
            found = list(csv.DictReader((folder / file).read_text(encoding="utf-8").splitlines()))
        sized: set[str] = set()  # the rows whose size is read: it stands on all their lines
        for i, line in enumerate(found, 1):
            lines += ({**line, **n, "file": file, "number": str(i)} for n in _numbers(line, sized))
    columns = {"task", "metric", "value", "std", "note", "split"} | {name for line in lines for name in line}
    return [{**dict.fromkeys(columns, ""), **line} for line in lines]


def _own(path: Path) -> list[dict[str, str]]:
    """The lines of a table that a plugin brings. Raises UserError where it is no table of numbers."""
    try:
        reader = csv.DictReader(path.read_text(encoding="utf-8-sig").splitlines())
        found = list(reader)
    except OSError as error:
        raise UserError(f"published table {path} cannot be read: {error.strerror}") from error
    except csv.Error as error:
        raise UserError(f"published table {path} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"published table {path} is not UTF-8 text") from error
    columns = reader.fieldnames or ()
    if lacking := [name for name in ("row", "task", "metric", "value") if name not in columns]:
        raise UserError(f"published table {path} has no column {lacking[0]}: a number has row, task, metric and value")
    for order, line in enumerate(found, 1):
        if None in line or None in line.values():
            raise UserError(f"published table {path}, line {order} of numbers: not {counted(len(columns), 'column')}")
        for text in (line.get(name) for name in ("value", "std", SIZE)):
            if text and not _NUMBER.fullmatch(text):
                raise UserError(f"published table {path}, line {order} of numbers: {text!r} is not a number")
    scores = [number(x["value"]) for x in found if x["value"] and is_score(OURS.get(x["metric"], x["metric"]))]
    if any(scores) and all(abs(score) <= 1 for score in scores):
        raise UserError(
            f"published table {path} has no score above 1: they stand beside ours x 100, so write 81.2 for 0.812"
        )
    for line in found:
        sign, name = DELTA * line["metric"].startswith(DELTA), line["metric"].removeprefix(DELTA)
        line["metric"] = sign + METRICS.get(name, name) if name else sign  # it may be called as tables here call it
    return found


def _numbers(line: Mapping[str, str], sized: set[str]) -> Iterator[Printed]:
    """The numbers of a line, each by its row, task and metric, whichever of the CSVs' columns it stands in."""
    row = {"row": line.get("objective") or line.get("row", "")}
    with_metric = "metric" in line  # as every table of one's own, whatever else it has
    if "workload" in line and not with_metric:
        task = {**row, "task": WORKLOADS.get(line["workload"], line["workload"])}
        for column in (SIZE, "parameters_factor", "value", "factor"):
            if line[column] or column == "value":
                metric = line["unit"] if column == "value" else column
                yield {**task, "metric": metric, "value": line[column], "column": column}
    elif "parameters" in line and not with_metric:
        found = {"task": line["tasks"], "metric": line["scope"], "value": line["parameters"]}
        yield {**row, **found, "column": "parameters"}
    else:
        yield {**row, "column": "value"}
        if line.get(SIZE) and row["row"] not in sized:
            sized.add(row["row"])
            yield {**row, "task": "", "metric": SIZE, "value": line[SIZE], "std": "", "note": "", "column": SIZE}


def _check(lines: Sequence[Printed], published: Published, rows: Iterable[TableRow]) -> None:
    """Raise UserError for a column or row that no line of the published tables has."""
    source = " and ".join(published.files)
    asked = [*published.axes]
    asked += [name for what, _ in published.omitted for name in ([what] if isinstance(what, str) else what)]
    asked += [name for row in rows if not isinstance(row.published, str) for name in row.published]
    printed = {name: {line[name] for line in lines} for name in ("task", "metric", "row")}
    for what, names, valid in (
        ("column of", asked, {name for line in lines for name in line}),
        ("task in", published.printed_metrics, printed["task"]),
        ("metric of", published.printed_metrics.values(), printed["metric"]),
        ("row in", published.quotients.values(), printed["row"]),
    ):
        for name in names:
            check_known(f"{what} {source}", name, valid)
    for axis in published.axes.values():
        check_known("axis of a published table", axis, ("student", "init"))
    for row in rows:
        if any(_is_row(line, row) for line in lines):
            continue
        if isinstance(row.published, str):
            raise unknown(f"row in {source}", row.published, printed["row"])
        wanted = ", ".join(f"{name} {value}" for name, value in row.published.items())
        raise UserError(f"row {row.name} is to be compared with {wanted}, which no line of {source} has")


def _is_row(line: Printed, row: TableRow) -> bool:
    return has(line, {"row": row.published} if isinstance(row.published, str) else row.published)


def has(line: Printed, wanted: Mapping[str, str]) -> bool:
    return all(line.get(name) == value for name, value in wanted.items())


def is_init(ours: str, printed: str) -> bool:
    return printed in (ours, ours.split(":")[0])


def lines_of(lines: Iterable[Printed], line: Line, published: Published) -> list[Printed]:
    """The published numbers of a line of ours: its row, made with the same student and initialisation.

    A checkpoint, or a teacher, has no initialisation.
    """
    if not line.row.published or (published.init and line.init and not is_init(line.init, published.init)):
        return []
    found = [x for x in lines if _is_row(x, line.row)]
    for name, axis in published.axes.items():
        found = [x for x in found if (x[name] == line.student if axis == "student" else is_init(line.init, x[name]))]
    return found


def labels(column: Column) -> set[str]:
    """What the column's task may be called in print; MNLI's two dev sets are told apart by their ending."""
    if not column.task:
        return AVERAGES if column.average else set()
    name = column.label.removesuffix(f" ({column.task})")  # of tasks that share one
    return {f"{name}-mm"} if column.metric.startswith(MISMATCHED) else {name, f"{name}-m"}


def named_tasks(line: Printed) -> set[str]:
    """What a number's task is printed as: the whole text, or each of several in it."""
    return {line["task"], *line["task"].split(", ")}


def tasks_of(lines: Iterable[Printed]) -> list[str]:
    """The tasks printed, in order and without the averages; a cell may list several."""
    tasks = (task for line in lines if line["task"] for task in line["task"].split(", "))
    return [task for task in dict.fromkeys(tasks) if task not in AVERAGES]


def answers(lines: Iterable[Printed], column: Column, improvement: bool) -> list[Printed]:
    """The numbers printed for the column: of its task and its metric, differences of rows only for improvements.

    A score that is the only one shown of its task is also answered by the only metric printed for the task.
    """
    signed = [x for x in lines if x["metric"].startswith(DELTA) == improvement]
    found = [x for x in signed if labels(column) & named_tasks(x)]
    name = printed_metric(column, improvement)
    if same := [x for x in signed if x["metric"] == name and (x["task"] in ("", *CORPORA) or x in found)]:
        return same
    printed = {x["metric"] for x in found}
    return found if column.task and column.alone and is_score(column.metric) and len(printed - {""}) == 1 else []


def printed_metric(column: Column, improvement: bool) -> str:
    name = column.metric.removeprefix(MISMATCHED)
    return (DELTA if improvement else "") + METRICS.get(name, name)


def place_of(line: Printed) -> Place:
    return line["file"], line["number"], line["column"]


def equal(lines: Sequence[Printed], column: Column, row: TableRow, files: Sequence[str], gain: bool) -> list[Printed]:
    """The numbers of one entry. Several must be the same, as where a paper repeats a row."""
    found = answers(lines, column, gain)
    if len({x["value"] for x in found}) > 1:
        raise UserError(f"published table {' and '.join(files)} has several numbers for {row.label} on {column.name}")
    return found


def note_of(line: Printed, column: Column, tested: bool, entry: Entry) -> str:
    """The CSV's own note, and what else keeps the number from being compared like with like."""
    parts = [line.get("note", "")]
    if not line["value"]:
        return "" if parts == [DASH] else parts[0]
    metric = line["metric"]
    if column.task and is_score(column.metric) and metric and metric != printed_metric(column, entry.signed):
        parts.append(f"published as {metric}, ours is {DELTA if entry.signed else ''}{column.metric}")
    if line.get("split") == "test" and not tested:
        parts.append("scored on the official test set, ours on dev")
    parts += ["ours is of the official test set too, as its server scored it"] if entry.tested else []
    return "; ".join(filter(None, parts))


def lost(lines: Iterable[Printed], published: Published, told: Container[Place]) -> list[str]:
    """A sentence that names the numbers of tasks and metrics for which the table has no column; none where it has."""
    unread = ["", *(name for name, _ in published.omitted if isinstance(name, str))]
    left = (x for x in lines if x["value"] and x["column"] not in unread and place_of(x) not in told)
    names = dict.fromkeys(" ".join(filter(None, (x["task"], x["metric"]))) for x in left)
    return [f"Printed too, where this table has no column: {'; '.join(names)}."] if names else []
