"""The command `predict`: what a trained student says of texts, read and answered in parts of bounded size."""

from __future__ import annotations

import csv
import io
import json
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from itertools import chain, islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from harness import registry
from harness.commands.taken import opened, taken
from harness.commands.telling import say
from harness.data.places import spoilt
from harness.data.tables import DELIMITERS, READERS, TABBED, Columns
from harness.errors import UserError, alike, near
from harness.files import JSON, atomic_file, check_writable, none_left_empty

if TYPE_CHECKING:
    from harness.contracts import Task
    from harness.exporting.opened import Opened

PART = 1024  # texts that are in memory at once
SHOWN = 8  # columns that a sentence names
WRITTEN = (".csv", ".tsv", ".jsonl", ".json")  # endings; the last two of JSON lines
COLUMNS = ((("text",), ("sentence",)), (("sentence1", "sentence2"), ("premise", "hypothesis"), ("text1", "text2")))
Row = tuple[str, ...]
Example = tuple[Row, JSON]  # its texts, and what is copied of its other columns


def predict(options: Namespace) -> int:
    """Answer every text of a file, in order. Raises UserError, naming the line, for what cannot be read."""
    _check_output(options.output, options.input)
    for path in options.plugin:
        registry.load_file(path)
    with ExitStack() as stack:
        source = stack.enter_context(_input(options.input))  # before anything heavy is loaded, or made again
        if options.output is not None:
            check_writable(Path(options.output).parent, "--output")
        student = stack.enter_context(_student(options))
        out = stack.enter_context(_output(options.output))
        copy = list(dict.fromkeys(options.copy or ()))
        rows, answered = _rows(source, options.input, student, copy), 0
        write = _writer(out, options.output, student.task, copy)
        while part := list(islice(rows, PART)):
            texts = [row if student.task.pair else row[0] for row, _ in part]
            for (row, copied), found in zip(part, student.predict(texts), strict=True):
                write(copied, row, found)
            answered += len(part)
    if not answered:
        say(f"--input {options.input} holds no text: nothing is predicted")
    return 0


@contextmanager
def _student(options: Namespace) -> Iterator[Opened]:
    """From a folder of `harness export`, or the best run of a cell."""
    if Path(options.what).expanduser().is_dir():
        from harness.exporting.opened import load

        yield load(options.what)
    elif not re.fullmatch("[0-9a-f]+", options.what):
        what = f"{options.what} is neither a folder that harness export wrote nor the id of a cell or run"
        raise UserError(f"{what}{alike(Path(options.what), folders=True)}")
    else:
        with opened(taken(Path(options.out), options.what)) as (student, _):
            yield student


# ---------------------------------------------------------------- what is read


def _input(name: str) -> AbstractContextManager[IO[bytes]]:
    if name == "-":
        if sys.stdin is None:
            raise UserError("--input - reads the standard input, which is closed")
        return nullcontext(sys.stdin.buffer)
    try:
        return open(name, "rb")
    except OSError as error:
        meant = alike(Path(name)) if isinstance(error, FileNotFoundError) else ""
        raise UserError(f"--input {name} cannot be read: {error.strerror}{meant}") from error


def _lines(file: IO[bytes], name: str) -> Iterator[str]:
    """Each line. Only line feeds end one, or with a carriage return before. Raises UserError for what is no text."""
    number = 0
    try:
        for number, raw in enumerate(file, 1):
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
            if "\0" in line:
                raise UserError(f"{name}, line {number}: it holds a NUL character")
            yield line.removesuffix("\n").removesuffix("\r")
    except UnicodeDecodeError as error:
        raise UserError(f"{name}, line {number}: not UTF-8 text ({error.reason})") from error
    except OSError as error:  # of the disk, or a standard input that is none
        raise UserError(f"--input {name} cannot be read: {error.strerror}") from error


def _rows(file: IO[bytes], name: str, student: Opened, copy: Sequence[str]) -> Iterator[Example]:
    """The text of each example, or both: of a table by its columns, read as for training, otherwise of each line.

    On a line both sentences of a pair stand with a tab between them. copy: further columns of a table.
    """
    path = Path(name)
    if path.suffix.lower() == ".parquet":
        for where, found in READERS[".parquet"](path, {}, lambda _: ()):
            yield _texts(found, name, where, student), _copied(found, copy, name)
        return
    lines = _lines(file, name)
    head: list[str] = []
    while (not head or not head[-1]) and (more := list(islice(lines, 1))):  # up to the first line that is not empty
        head += more
    first, whole = head[-1] if head else "", chain(head, lines)
    form, settings = _form(first, name, student)
    if not form:
        if copy:
            raise UserError(f"--copy names columns, but {name} has a text on each line and none")
        yield from ((row, {}) for row in _of_lines(whole, name, student))
        return
    delimited, row = form in (".csv", *TABBED), None
    for where, row in READERS[form](path, settings, lambda _: whole):
        place = name if delimited else where
        yield _texts(row, place, where, student), _copied(row, copy, place)
    if delimited and row is None and "columns" not in settings:  # the header alone
        _columns([column for column in _fields(first, settings["delimiter"]) if column], name, student)


def _copied(row: Columns, copy: Sequence[str], where: str) -> JSON:
    """Those columns of a row. Raises UserError where one is not there."""
    if missing := [column for column in copy if column not in row]:
        raise UserError(f"{where}: there is no column {missing[0]}, which --copy names: {near(missing[0], list(row))}")
    return {column: row[column] for column in copy}


def _of_lines(lines: Iterable[str], name: str, student: Opened) -> Iterator[Row]:
    task = student.task
    for number, line in enumerate(lines, 1):
        row = tuple(line.split("\t")) if task.pair else (line,)
        if len(row) != 1 + task.pair:
            raise UserError(f"{name}, line {number}: task {task.name} takes two sentences with a tab between them")
        yield row


def _form(first: str, name: str, student: Opened) -> tuple[str, Mapping[str, str]]:
    """The ending of `READERS` that a file is read by, with its settings; "" where each line is a text.

    first: the first line that is not empty. What comes from a pipe is JSON lines if that is an object.
    """
    suffix = Path(name).suffix.lower()
    if name == "-":
        return (".jsonl" if first.startswith("{") and first.endswith("}") else ""), {}
    if suffix in (".csv", *TABBED):
        settings = _layout(first, name, student)
        return (suffix, settings) if settings else ("", {})
    if suffix == ".json":
        return (".jsonl" if not first or _is_example(first, student) else suffix), {}
    return (suffix if suffix in READERS else ""), {}


def _is_example(line: str, student: Opened) -> bool:
    """Whether this first line of a .json file is an object of JSON lines: it does not just hold a list of others."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return False
    if not isinstance(found, dict):
        return False
    return bool(_named(found, student)) or sum(isinstance(value, list) for value in found.values()) != 1


def _layout(first: str, name: str, student: Opened) -> Mapping[str, str]:
    """The settings that lines of columns are read by, those of training unless the header tells others; none of lines.

    A .txt or .tab file is a table where its first line names columns, has a tab or as many columns as training had.
    """
    suffix, headless = Path(name).suffix.lower(), "columns" in student.table
    usual = "tab" if suffix in TABBED else "comma"
    own = student.table.get("delimiter", usual)
    for delimiter in dict.fromkeys((own, usual)):
        if _is_header(_fields(first, delimiter), name, student):
            return {"delimiter": delimiter}
    as_trained = headless and len(_fields(first, own)) == len(student.table["columns"].split(","))
    if suffix in (".csv", ".tsv") or as_trained or ("\t" in first and not student.task.pair):
        return {**student.table, "delimiter": own}
    return {}


def _is_header(fields: Sequence[str], name: str, student: Opened) -> bool:
    """Raises UserError for a line that may as well be an example of a file without a header, as training's was."""
    found, said = _named(fields, student), student.table.get("columns", "")
    names = [column.strip() for column in said.split(",")]
    if not found or not said or len(fields) != len(names) or {*fields} == {*names}:
        return bool(found)
    if [fields.index(column) for column in found] == [names.index(column) for column in _named(names, student)]:
        return True
    raise UserError(f"{name}, line 1 may be a header or an example: let the first line be {said}")


def _fields(line: str, delimiter: str) -> list[str]:
    """The columns of a header."""
    fields = line.split("\t")
    if delimiter != "tab":
        try:
            fields = next(csv.reader([line], delimiter=DELIMITERS[delimiter]), [])
        except csv.Error:  # told where the rows are read
            fields = [line]
    return [field.strip() for field in fields]


def _texts(row: Columns, name: str, where: str, student: Opened) -> Row:
    """What the task reads of a row. name: of what the columns are. Raises UserError for what is no text."""
    columns = _columns(list(row), name, student)
    for column in columns:
        if not isinstance(row[column], str):
            raise UserError(f"{where}: a text is a string, not {row[column]!r}")
        if wrong := spoilt(row[column]):
            raise UserError(f"{where}: {column} {wrong}")
    return tuple(row[column] for column in columns)


def _wanted(student: Opened) -> list[Row]:
    """The columns that may hold what the task reads, before others those it was trained from."""
    usual = COLUMNS[student.task.pair]
    return list(dict.fromkeys((student.columns or usual[0], *usual)))


def _named(names: Iterable[str], student: Opened) -> Row:
    """Those that are there; none where no wanted ones are."""
    there = {*names}
    return next((columns for columns in _wanted(student) if {*columns} <= there), ())


def _columns(names: Sequence[str], where: str, student: Opened) -> Row:
    """The columns that hold what the task reads. Raises UserError where there are none."""
    if found := _named(names, student):
        return found
    said = " or ".join(" and ".join(columns) for columns in _wanted(student))
    has = ", ".join(names[:SHOWN]) + (f" and {len(names) - SHOWN} more" if len(names) > SHOWN else "")
    rest = "; texts with tabs, one a line, are read by --input -" if where.lower().endswith((".txt", ".tab")) else ""
    raise UserError(
        f"{where}: there is no column {said}, which predict reads; it has {has or 'none'}: rename one{rest}"
    )


# ---------------------------------------------------------------- what is written


def _check_output(name: str | None, read: str) -> None:
    """Raise UserError where a file of this name would tell nothing of its form, or destroy what is there.

    read: the file of the texts.
    """
    if name is None:
        return
    to = Path(name)
    if to.suffix.lower() not in WRITTEN:
        raise UserError(f"--output {name} must end in {', '.join(WRITTEN)}: that says how it is written")
    if to.exists() and not to.is_file():
        raise UserError(f"--output {name} must name a file, and this is something else")
    if to.exists() and read != "-" and Path(read).exists() and to.samefile(read):
        raise UserError(f"--output {name} is the file that --input reads: give another")


@contextmanager
def _output(name: str | None) -> Iterator[TextIO]:
    """The file, which is there whole or not at all, or what the command prints."""
    if name is None:
        yield sys.stdout
        return
    with none_left_empty(Path(name).parent), atomic_file(Path(name)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        yield text
        text.detach()


def _writer(out: TextIO, name: str | None, task: Task, copy: Sequence[str]) -> Any:
    """A function that writes texts and what is said of them: as a row of a csv or tsv file, otherwise as a JSON line.

    Columns of texts are called as `predict` reads them, after those that are copied. Raises UserError where one of
    these is called as another.
    """
    suffix, texts = Path(name or "").suffix.lower(), COLUMNS[task.pair][0]
    lines = suffix not in (".csv", ".tsv")
    said: tuple[str, ...] = ("label", "probabilities") if task.labels else ("score",)
    if task.labels and not lines:
        said = ("label", *(f"probability_{label}" for label in task.labels))
    if twice := sorted({*copy} & {*texts, *said}):
        raise UserError(f"--copy {twice[0]}: what is written has a column of this name already; rename it in the input")
    if lines:
        return lambda copied, row, found: out.write(
            json.dumps(copied | dict(zip(texts, row, strict=True)) | found, ensure_ascii=False, default=str) + "\n"
        )
    table = csv.writer(out, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
    table.writerow((*copy, *texts, *said))

    def write(copied: JSON, row: Row, found: JSON) -> None:
        answers = (found["label"], *found["probabilities"].values()) if task.labels else (found["score"],)
        cells = (json.dumps(one, default=str) if isinstance(one, (dict, list)) else one for one in copied.values())
        table.writerow((*cells, *row, *answers))

    return write
