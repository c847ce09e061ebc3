"""Where a task's examples come from: a folder in GLUE's official or fairseq's layout, the hub, the embedded grammar."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from harness.contracts import Task
from harness.data import embedded, fairseq_binary
from harness.errors import UserError, near

HUB = "nyu-mll/glue"

# The columns of the official files (nyu-mll.github.io), (text, [second text,] label). CoLA has no header.
_SENTENCES = ("sentence1", "sentence2")
COLUMNS: dict[str, tuple[str, ...]] = {
    "SST-2": ("sentence", "label"),
    "MRPC": ("#1 String", "#2 String", "Quality"),
    "STS-B": (*_SENTENCES, "score"),
    "QQP": ("question1", "question2", "is_duplicate"),
    "MNLI": (*_SENTENCES, "gold_label"),
    "QNLI": ("question", "sentence", "label"),
    "RTE": (*_SENTENCES, "label"),
    "WNLI": (*_SENTENCES, "label"),
}
COLA_POSITIONS, COLA_WIDTH = (3, 1), 4  # source, label, author's mark, sentence
SCORES = {"STS-B": (0.0, 5.0)}
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)
# Some questions of the official QQP files contain line breaks and tabs; every published reader drops those rows.
BROKEN_LINES = ("QQP",)
TEST_INDEX = {"QQP": "id"}  # of test files, which all have a header; "index" in the others
HUB_TEXTS = {"MNLI": ("premise", "hypothesis"), "MRPC": _SENTENCES}  # where its columns have other names


@dataclass(frozen=True)
class Split:
    """Examples in the order of their source. labels: (N,) int64 class indices, or float32 scores for regression."""

    name: str
    text_a: list[str]
    text_b: list[str] | None
    labels: np.ndarray


@dataclass(frozen=True)
class NumberedSplit:
    """A test split, whose labels GLUE's server keeps. split: its labels are all 0; index: (N,) the official numbers."""

    split: Split
    index: list[int]


@dataclass(frozen=True)
class TaskData:
    """The labelled splits of a task; dev in the order of task.dev_splits. content: see `content`."""

    task: Task
    train: Split
    dev: tuple[Split, ...]
    content: str


def load(task: Task, source: str) -> TaskData:
    """Read a task from `source`: "embedded", "hub" or a folder in GLUE's official layout (FOLDER/MRPC/train.tsv).

    Where that has no folder MRPC, MRPC-bin is read: see `harness.data.fairseq_binary`.

    Raises UserError, naming file and line, for whatever is missing or not as the layout says.
    """
    _check_source(task, source)
    read = _read_embedded if source == "embedded" else _read_hub if source == "hub" else _read_folder
    train, *dev = read(task, source)
    return TaskData(task, train, tuple(dev), content(task, source))


def content(task: Task, source: str) -> str:
    """SHA-256, hexadecimal, of the train and dev data themselves: equal data anywhere, equal content."""
    _check_source(task, source)
    whole = hashlib.sha256()
    if source == "embedded":
        whole.update(repr(embedded.generate(task.name)).encode())
    elif source == "hub":
        for split in _read_hub(task, source):
            whole.update(repr((split.name, split.text_a, split.text_b)).encode() + split.labels.tobytes())
    else:
        for path in _files(task, source):
            whole.update(hashlib.sha256(_bytes(path)).digest())
    return whole.hexdigest()


def load_test(task: Task, source: str) -> tuple[tuple[NumberedSplit, ...], str]:
    """(the test splits, in the order of task.dev_splits; SHA-256, hexadecimal, of what they hold).

    source is "hub" or a folder as `load` reads it. Raises UserError for a task of the embedded suite, and,
    naming file and line, for whatever is missing or not as the layout says.
    """
    _check_source(task, source)
    if not task.folder:
        raise UserError(f"task {task.name} of the embedded suite has no test split: GLUE's server does not know it")
    read = _read_hub_test if source == "hub" else _read_folder_test
    found = tuple(read(task, source, name.replace("dev", "test")) for name in task.dev_splits)
    whole = repr([(test.split.name, test.split.text_a, test.split.text_b, test.index) for test in found])
    return found, hashlib.sha256(whole.encode()).hexdigest()


def parts(task: Task, source: str) -> list[Path]:
    """What of a data folder a task is read from: its own folder; in fairseq's layout also the files beside that."""
    if source in ("embedded", "hub"):
        return []
    root = Path(source)
    if (root / task.folder).is_dir():
        return [root / task.folder]
    return [fairseq_binary.folder_of(task, source), *sorted(path for path in root.iterdir() if path.is_file())]


def _check_source(task: Task, source: str) -> None:
    if not task.folder and source != "embedded":
        raise UserError(f"task {task.name} exists in the embedded suite alone, not in {source}: leave out --data")
    if task.folder and source == "embedded":
        raise UserError(
            f"task {task.name} is not in the embedded suite: give GLUE's folder with --data DIR (or --data hub)"
        )


def _label(task: Task, score: float) -> float:
    """A score as the task wants it: itself, or the index of the nearest bin (of two equally near, the even one)."""
    if not task.bins:
        return score
    per_point = round(1 / (task.bins[1] - task.bins[0]))
    return min(max(round(score * per_point) - round(task.bins[0] * per_point), 0), len(task.bins) - 1)


def _split(task: Task, name: str, examples: Sequence[embedded.Example]) -> Split:
    return Split(
        name,
        [first for first, _, _ in examples],
        [second or "" for _, second, _ in examples] if task.pair else None,
        np.array([label for _, _, label in examples], np.int64 if task.classification else np.float32),
    )


def _read_embedded(task: Task, source: str) -> list[Split]:
    train, dev = embedded.generate(task.name)
    return [_split(task, "train", train), _split(task, "dev", dev)]


# ---------------------------------------------------------------- a folder of TSV files, or of fairseq's binary ones


def _read_folder(task: Task, source: str) -> list[Split]:
    return [_split(task, name, list(_rows(task, source, name))) for name in ("train", *task.dev_splits)]


def _files(task: Task, source: str) -> list[Path]:
    """The files that hold the train and dev splits."""
    if fairseq_binary.holds(task, source):
        return fairseq_binary.files(task, source)
    return [_path(task, source, name) for name in ("train", *task.dev_splits)]


def _path(task: Task, source: str, split: str) -> Path:
    """The split's file. Raises UserError naming the first part of the path that is missing."""
    root = Path(source)
    folder, path = root / task.folder, root / task.folder / f"{split}.tsv"
    if not root.is_dir():
        raise UserError(f"data folder {root} does not exist")
    if not folder.is_dir():
        folders = [entry.name for entry in root.iterdir() if entry.is_dir()]
        raise UserError(
            f"data folder {root} has no folder {task.folder} for task {task.name}: {near(task.folder, folders)}"
        )
    if not path.is_file():
        raise UserError(f"task {task.name} needs {path}, which does not exist")
    return path


def _bytes(path: Path) -> bytes:
    try:
        found = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    if not found.strip():
        raise UserError(f"{path} is empty")
    return found


def _lines(path: Path) -> list[str]:
    """The file's lines. Only line feeds end one: the texts hold other characters that `splitlines` would split at."""
    found = _bytes(path)
    try:
        text = found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # error.start counts from after a byte-order mark, which has no line break in it
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: not UTF-8 text ({error.reason})") from error
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


def _rows(task: Task, source: str, name: str) -> Iterator[embedded.Example]:
    if fairseq_binary.holds(task, source):
        found = fairseq_binary.cells(task, source, name)
    else:
        columns, dropping = COLUMNS.get(task.folder, ()), task.folder in BROKEN_LINES
        found = _cells(_path(task, source, name), columns, dropping)
    for where, (*texts, label) in found:
        yield texts[0], texts[1] if task.pair else None, _parse(task, label, where)


def _cells(path: Path, columns: Sequence[str], dropping: bool = False) -> Iterator[tuple[str, list[str]]]:
    """("FILE, line N", what it holds in these columns) for every line; without columns, those of a CoLA file.

    dropping: lines that are too short are left out.
    """
    lines, needed, most = _lines(path), list(COLA_POSITIONS), COLA_WIDTH
    if columns:
        header = lines.pop(0).split("\t")
        for column in columns:
            if column not in header:
                raise UserError(f"{path}, line 1: the header has no column {column!r}: {near(column, header)}")
            if header.count(column) > 1:
                raise UserError(f"{path}, line 1: the header names the column {column!r} {header.count(column)} times")
        needed, most = [header.index(column) for column in columns], len(header)
    if not lines:
        raise UserError(f"{path} has a header but no examples")
    width = max(needed) + 1
    for number, line in enumerate(lines, 2 if columns else 1):
        fields, where = line.split("\t"), f"{path}, line {number}"
        if len(fields) > most and path.parent.name not in BROKEN_LINES:
            raise UserError(f"{where}: {len(fields)} tab-separated columns, but a line of this file has {most}")
        if len(fields) >= width:
            yield where, [fields[position] for position in needed]
        elif not dropping:
            raise UserError(f"{where}: {len(fields)} tab-separated columns where at least {width} are needed")


def _read_folder_test(task: Task, source: str, name: str) -> NumberedSplit:
    if fairseq_binary.holds(task, source):
        every = [texts for _, texts in fairseq_binary.cells(task, source, name)]
        return _test_split(task, name, list(range(len(every))), every)
    path = _path(task, source, name)
    columns = (TEST_INDEX.get(task.folder, "index"), *_texts(task))
    found = list(_cells(path, columns))
    for where, (number, *_) in found:
        if not number.isdecimal():
            raise UserError(f"{where}: {columns[0]} {number!r} is not a whole number")
    return _test_split(task, name, [int(number) for _, (number, *_) in found], [texts for _, (_, *texts) in found])


def _texts(task: Task) -> tuple[str, ...]:
    """The columns of the official files that hold the texts."""
    return COLUMNS.get(task.folder, ("sentence", "label"))[:-1]


def _test_split(task: Task, name: str, index: list[int], texts: Sequence[Sequence[str]]) -> NumberedSplit:
    return NumberedSplit(_split(task, name, [(row[0], row[1] if task.pair else None, 0) for row in texts]), index)


def _parse(task: Task, label: str, where: str) -> float:
    """The class index or score that a file prints as `label`."""
    if task.labels:
        if label not in task.labels:
            raise UserError(f"{where}: label {label!r} is not one of {', '.join(task.labels)}")
        return task.labels.index(label)
    if not _NUMBER.fullmatch(label):
        raise UserError(f"{where}: score {label!r} is not a number")
    score, (low, high) = float(label), SCORES[task.folder]
    if not low <= score <= high:
        raise UserError(f"{where}: score {label!r} is not between {low:g} and {high:g}")
    return _label(task, score)


# ---------------------------------------------------------------- the hub


def _read_hub(task: Task, source: str) -> list[Split]:
    """GLUE as the hub keeps it; class indices there are in the order of task.labels."""
    found, texts = _hub(task)
    splits = []
    for split in ("train", *task.dev_splits):
        part = found[split.replace("dev", "validation")]
        seconds = part[texts[1]] if task.pair else [None] * len(part)
        labels = (_label(task, label) for label in part["label"]) if not task.labels else part["label"]
        splits.append(_split(task, split, list(zip(part[texts[0]], seconds, labels, strict=True))))
        if task.labels and not set(splits[-1].labels.tolist()) <= set(range(len(task.labels))):
            raise UserError(f"task {task.name} on the hub ({HUB}) has unlabelled examples in {split}")
    return splits


def _read_hub_test(task: Task, source: str, name: str) -> NumberedSplit:
    found, texts = _hub(task)
    part = found[name]
    return _test_split(task, name, list(part["idx"]), list(zip(*(part[column] for column in texts), strict=True)))


def _hub(task: Task) -> tuple[Any, tuple[str, ...]]:
    """(the data set, the columns that hold the texts)."""
    import datasets

    try:
        found = datasets.load_dataset(HUB, task.folder.replace("-", "").lower())
    except (OSError, ValueError, datasets.exceptions.DatasetsError) as error:
        raise UserError(
            f"task {task.name} cannot be read from the hub ({HUB}): {error}; give a folder with --data DIR"
        ) from error
    return found, HUB_TEXTS.get(task.folder, _texts(task))
