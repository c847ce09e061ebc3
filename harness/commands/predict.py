"""The command `predict`: what a trained student says of texts, read and answered in parts of bounded size."""

from __future__ import annotations

import csv
import io
import json
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import islice
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, TextIO

from harness import registry
from harness.commands.taken import opened, taken
from harness.commands.telling import say
from harness.errors import UserError
from harness.files import JSON, atomic_file

if TYPE_CHECKING:
    from harness.contracts import Task
    from harness.exporting.opened import Opened

PART = 1024  # texts that are in memory at once
SHOWN = 8  # columns that a sentence names
WRITTEN = (".csv", ".tsv", ".jsonl", ".json")  # endings; the last two of JSON lines
COLUMNS = ((("text",), ("sentence",)), (("sentence1", "sentence2"), ("premise", "hypothesis"), ("text1", "text2")))
Row = tuple[str, ...]


def predict(options: Namespace) -> int:
    """Answer every text of a file, in order. Raises UserError, naming the line, for what cannot be read."""
    _check_output(options.output, options.input)
    for path in options.plugin:
        registry.load_file(path)
    with ExitStack() as stack:
        source = stack.enter_context(_input(options.input))  # before anything heavy is loaded
        student = stack.enter_context(_student(options))
        out = stack.enter_context(_output(options.output))
        rows = _rows(source, options.input, student)
        write, answered = _writer(out, options.output, student.task), 0
        while part := list(islice(rows, PART)):
            texts = part if student.task.pair else [row[0] for row in part]
            for found in student.predict(texts):
                write(found)
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
    else:
        with opened(taken(Path(options.out), options.what)) as (student, _):
            yield student


# ---------------------------------------------------------------- what is read


@contextmanager
def _input(name: str) -> Iterator[IO[bytes]]:
    if name == "-":
        if sys.stdin is None:
            raise UserError("--input - reads the standard input, which is closed")
        yield sys.stdin.buffer
        return
    with ExitStack() as stack:
        try:
            file = stack.enter_context(open(name, "rb"))
        except OSError as error:
            raise UserError(f"--input {name} cannot be read: {error.strerror}") from error
        yield file


def _lines(file: IO[bytes], name: str) -> Iterator[tuple[int, str]]:
    """(number, text) of each line. Only line feeds end one. Raises UserError for what is no text."""
    for number, raw in enumerate(file, 1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError as error:
            raise UserError(f"{name}, line {number}: not UTF-8 text ({error.reason})") from error
        if "\0" in line:
            raise UserError(f"{name}, line {number}: it holds a NUL character")
        yield number, line


def _rows(file: IO[bytes], name: str, student: Opened) -> Iterator[Row]:
    """The text of each example, or both: of a csv, tsv or jsonl file by its columns, of any other one on each line.

    On a line both sentences of a pair stand with a tab between them. What comes from a pipe is JSON lines if its first
    line is an object.
    """
    lines, suffix, task = _lines(file, name), Path(name).suffix.lower(), student.task
    if suffix in (".csv", ".tsv"):
        yield from _of_table(lines, name, student, "\t" if suffix == ".tsv" else ",")
        return
    for number, line in lines:
        text = line.removesuffix("\n").removesuffix("\r")
        if number == 1 and name == "-" and text.startswith("{") and text.endswith("}"):
            suffix = ".jsonl"
        if suffix in (".jsonl", ".json"):
            if text.strip():
                yield _of_object(text, f"{name}, line {number}", student)
            continue
        row = tuple(text.split("\t")) if task.pair else (text,)
        if len(row) != 1 + task.pair:
            raise UserError(f"{name}, line {number}: task {task.name} takes two sentences with a tab between them")
        yield row


def _of_table(lines: Iterator[tuple[int, str]], name: str, student: Opened, separator: str) -> Iterator[Row]:
    reader = csv.reader((line for _, line in lines), delimiter=separator, strict=True)
    try:
        header = next(reader, [])
        columns = [header.index(column) for column in _columns(header, name, student)]
        for row in reader:
            if len(row) != len(header):
                raise UserError(
                    f"{name}, line {reader.line_num}: {len(row)} columns, where the first line has {len(header)}"
                )
            yield tuple(row[column] for column in columns)
    except csv.Error as error:
        raise UserError(f"{name}, line {reader.line_num}: {error}") from error


def _of_object(line: str, where: str, student: Opened) -> Row:
    try:
        found = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: no JSON ({error})") from error
    if not isinstance(found, dict):
        raise UserError(f"{where}: {line[:40]!r} is no JSON object")
    row = tuple(found[column] for column in _columns(found, where, student))
    if not all(isinstance(text, str) for text in row):
        raise UserError(f"{where}: a text is a string, not {next(text for text in row if not isinstance(text, str))!r}")
    return row


def _columns(names: Any, where: str, student: Opened) -> Row:
    """The columns that hold what the task reads, before others those it was trained from. Raises UserError without."""
    wanted = dict.fromkeys((student.columns or COLUMNS[student.task.pair][0], *COLUMNS[student.task.pair]))
    found = next((columns for columns in wanted if set(columns) <= set(names)), None)
    if found is None:
        said, there = " or ".join(" and ".join(columns) for columns in wanted), list(names)
        has = ", ".join(there[:SHOWN]) + (f" and {len(there) - SHOWN} more" if len(there) > SHOWN else "")
        raise UserError(f"{where}: there is no column {said}, which predict reads; it has {has or 'none'}: rename one")
    return found


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
        raise UserError(f"--output {name} must name a file, and that is none")
    if to.exists() and read != "-" and Path(read).exists() and to.samefile(read):
        raise UserError(f"--output {name} is the file that --input reads: give another")


@contextmanager
def _output(name: str | None) -> Iterator[TextIO]:
    """The file, which is there whole or not at all, or what the command prints."""
    if name is None:
        yield sys.stdout
        return
    with atomic_file(Path(name)) as file:
        text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
        yield text
        text.detach()


def _writer(out: TextIO, name: str | None, task: Task) -> Any:
    """A function that writes one prediction: as a row of a csv or tsv file, otherwise as a JSON line."""
    suffix = Path(name or "").suffix.lower()
    if suffix not in (".csv", ".tsv"):
        return lambda found: out.write(json.dumps(found, ensure_ascii=False) + "\n")
    table = csv.writer(out, delimiter="\t" if suffix == ".tsv" else ",", lineterminator="\n")
    table.writerow(("label", *(f"probability_{label}" for label in task.labels)) if task.labels else ("score",))

    def write(found: JSON) -> None:
        table.writerow((found["label"], *found["probabilities"].values()) if task.labels else (found["score"],))

    return write
