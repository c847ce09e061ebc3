"""Where a task's examples come from: what a source says, and files read with their mistakes.

The project's own sources are in `task_sources`; a plugin brings others with `task_source`.
"""

from __future__ import annotations

import hashlib
import inspect
import math
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from harness.contracts import Task
from harness.data.declaration import check_name
from harness.data.places import halved, kind_at
from harness.errors import UserError
from harness.folders import cannot_read
from harness.registry import SOURCES, TASKS, file_of

Example = tuple[str, Sequence[str | None], str | float | None]  # where it stands, its text or both, its label
LARGEST = 1e15  # score: of larger ones the sums of squares, in 32 bits, have no end
UNLABELLED = -1  # in place of a class that is not known; of a score NaN
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?\s*", re.ASCII | re.IGNORECASE)


@dataclass(frozen=True)
class Split:
    """Examples in the order of their source. labels: (N,) int64 class indices, or float32 scores for regression.

    Of a task without labels they may be `blank`.
    """

    name: str
    text_a: list[str]
    text_b: list[str] | None
    labels: np.ndarray

    @property
    def texts(self) -> Iterator[tuple[str, str]]:
        """Those of each example; of a single text the second is ""."""
        return zip(self.text_a, self.text_b or [""] * len(self.text_a), strict=True)


class TaskSource(ABC):
    """Where the examples of some tasks come from, opened with the value of `--data`.

    title: what sentences call it; hint: what they say to whoever names another for its tasks. given: how `--data` tells
    it from others, "name" (by its own), "path" (see `holds`) or "", where the examples lie in one place, whatever
    `--data` says. remote: it is asked over a network, so a plan may do without. fixed: its examples are code, and the
    same as long as that is. tested: there are test splits, whose labels GLUE's server keeps.
    """

    name: ClassVar[str]
    tasks: ClassVar[tuple[Task, ...]]
    title: ClassVar[str]  # its name, where there is none
    hint: ClassVar[str] = "give its own with --data"
    given: ClassVar[str] = ""
    remote: ClassVar[bool] = False
    fixed: ClassVar[bool] = False
    tested: ClassVar[bool] = False

    def __init__(self, data: str):
        self.data = data

    @abstractmethod
    def examples(self, task: Task, split: str) -> Iterable[Example]:
        """("FILE, line N", the text or both, the class's name or the score) of "train" or of one of task.dev_splits.

        Of one of `tests` the official number stands in the label's place. Raises UserError for what is
        missing or broken; a text that is None and a wrong label, though, are refused by the engine, with their line.
        """

    def holds(self, task: Task) -> bool:
        """Whether the path that `--data` gives is for this source to read the task from, and for no other."""
        return True

    def content(self, task: Task) -> str:
        """SHA-256, hexadecimal, of the train and dev data: equal data anywhere, equal content."""
        whole = hashlib.sha256()
        for split in self.splits(task):
            whole.update(repr((split.name, split.text_a, split.text_b)).encode() + split.labels.tobytes())
        return whole.hexdigest()

    def groups(self, task: Task) -> np.ndarray | None:
        """(N,) int64 of train: examples with one number are never parted where some are held out. None: all may be."""
        return None

    def tests(self, task: Task) -> Sequence[str]:
        """The names of its test splits: those of task.dev_splits, "test" for "dev", and what else is answered."""
        return [split.replace("dev", "test") for split in task.dev_splits]

    def parts(self, task: Task) -> Sequence[Path]:
        """The files and folders that the task is read from, for machines that do not see them."""
        return ()

    def elsewhere(self, task: Task, where: str) -> str:
        """What is said of one of its tasks where `--data` means a place that it is not in."""
        return f"task {task.name} exists only in {self.title}, not in {where}: {self.hint}"

    def splits(self, task: Task) -> list[Split]:
        """Train and the dev splits. Raises UserError as `examples` does, and for a wrong text or label."""
        known: dict[str, list[Split]] = vars(self).setdefault("_read", {})  # one may have forgotten super().__init__
        if task.name not in known:
            names = ("train", *task.dev_splits)
            made = [_split(task, name, self._given(task, name)) for name in names]
            if self._is_users():
                self._check(task, made[0])
            known[task.name] = made
        return known[task.name]

    def _is_users(self) -> bool:
        """Ours are held to what was released: pairs of QQP have empty texts."""
        return getattr(self, "name", None) in SOURCES.known() and not SOURCES.ships(self.name)

    def _check(self, task: Task, train: Split) -> None:
        """Raise UserError where nothing can be learnt from train, or its groups are not of its examples."""
        who, labels = f"{SOURCES.called(self.name)}: task {task.name}", train.labels
        if told(labels) and (labels == labels[0]).all():
            one = task.labels[int(labels[0])] if task.labels else f"{labels[0]:g}"
            raise UserError(f"{who}: all examples of train have the same label, {one}: nothing can be learnt")
        groups: Any = self.groups(task)
        fits = isinstance(groups, np.ndarray) and (groups.dtype, groups.shape) == (np.int64, labels.shape)
        if not (groups is None or fits):
            array = isinstance(groups, np.ndarray)
            what = f"an array of {groups.dtype} of shape {groups.shape}" if array else repr(groups)[:60]
            rule = f"must return an int64 array of shape ({len(labels)},), one for each training example, or None"
            raise UserError(f"{who}: groups returned {what}, but {rule}")

    def _given(self, task: Task, split: str) -> Iterator[Example]:
        """Its `examples`, each of which is a place, texts and a label."""
        found, who = self.examples(task, split), f"{type(self).__name__} of task {task.name}: examples of {split}"
        if not isinstance(found, Iterable):
            raise UserError(f"{who} are {found!r}, but must be (place, texts, label) of each")
        for example in found:
            if not (isinstance(example, tuple) and len(example) == 3 and isinstance(example[1], (list, tuple))):
                told = repr(example)[:60]
                raise UserError(f"{who}: {told} must be a tuple of a place, a list of one or two texts, and a label")
            if self._is_users() and any(isinstance(text, str) and not text.strip() for text in example[1]):
                raise UserError(f"{example[0]}: a text is empty")
            yield example


def task_source(name: str, *, tasks: tuple[Task, ...]) -> Callable[[type[TaskSource]], type[TaskSource]]:
    """Register a subclass of TaskSource and its tasks.

    Raises UserError for anything else, a taken name, or a task whose name or labels cannot be.
    """

    def register(plugin: type[TaskSource]) -> type[TaskSource]:
        if not (inspect.isclass(plugin) and issubclass(plugin, TaskSource)) or inspect.isabstract(plugin):
            raise UserError(f"task source {name!r} must be a subclass of TaskSource with examples, not {plugin!r}")
        if plugin.given not in ("name", "path", ""):
            raise UserError(f"task source {name!r}: given must be 'name', 'path' or '', not {plugin.given!r}")
        plugin.name, plugin.tasks, origin = name, tasks, file_of(plugin)
        plugin.title = getattr(plugin, "title", name)
        SOURCES.add(name, plugin, origin)
        for task in tasks:
            check_name(task.name)
            if len(task.labels) == 1 or len({*task.labels}) < len(task.labels):
                raise UserError(f"task {task.name} must have several labels, all different, or none for a score")
            TASKS.add(task.name, task, origin)
        return plugin

    return register


# ---------------------------------------------------------------- examples as they are trained on


def _split(task: Task, name: str, found: Iterable[Example]) -> Split:
    texts: list[Sequence[Any]] = []
    labels: list[float] = []
    bare = ""  # where an example without a label stands
    for where, row, label in found:
        if len(row) != 1 + task.pair or not all(isinstance(text, str) for text in row):
            wanted = "two texts" if task.pair else "one text"
            raise UserError(f"{where}: an example of task {task.name} must be {wanted}, not {list(row)!r}")
        if any(halved(str(text)) for text in row):
            raise UserError(f"{where}: a text contains half a character, such as \\ud800 without its other half")
        texts.append(row)
        labels.append(_parse(task, label, where))
        bare = where if label is None else bare
        if bare and label is not None:
            raise UserError(f"{where} has a label, but {bare} has none: a split must label all of its examples or none")
    if not texts:
        raise UserError(f"task {task.name} has no examples in {name}")
    return made(task, name, texts, labels)


def made(task: Task, name: str, texts: Sequence[Sequence[Any]], labels: Sequence[float]) -> Split:
    """The split of this name: of each example its text, or both, and its label, a class's index or a score."""
    second, kind = [row[1] for row in texts] if task.pair else None, np.int64 if task.classification else np.float32
    return Split(name, [row[0] for row in texts], second, np.array(labels, kind))


def told(labels: np.ndarray) -> bool:
    """Whether there are labels, (N,) as in `Split`."""
    return not (np.isnan(labels) if labels.dtype.kind == "f" else labels == UNLABELLED).any()


def blank(labels: np.ndarray) -> np.ndarray:
    """What stands where there are none: no class, which no loss takes, or no score, of which a loss makes NaN."""
    return np.full_like(labels, np.nan if labels.dtype.kind == "f" else UNLABELLED)


def hashes(texts: Iterable[str]) -> np.ndarray:
    """(N,) uint64, equal for equal texts."""
    digests = (hashlib.blake2b(text.encode(), digest_size=8).digest() for text in texts)
    return np.frombuffer(b"".join(digests), np.uint64)


def _parse(task: Task, label: Any, where: str) -> float:
    """The index of a class's name; a score, or the index of its nearest bin (of two equally near, the even one).

    What is missing is refused, or blank where the task needs no labels.
    """
    if label is None and not task.labelled:
        return UNLABELLED if task.classification else math.nan
    if task.labels:
        if label not in task.labels:
            raise UserError(f"{where}: label {label!r} is not one of {', '.join(task.labels)}")
        return task.labels.index(label)
    if not _NUMBER.fullmatch(str(label)):
        raise UserError(f"{where}: score {label!r} is not a number")
    score, (low, high) = float(label), task.range
    if not low <= score <= high:
        raise UserError(f"{where}: score {label!r} is not between {low:g} and {high:g}")
    if abs(score) > LARGEST:
        raise UserError(f"{where}: score {label!r} is too large to be learnt: it must be at most {LARGEST:g} in size")
    if not task.bins:
        return score
    per_point = round(1 / (task.bins[1] - task.bins[0]))
    return min(max(round(score * per_point) - round(task.bins[0] * per_point), 0), len(task.bins) - 1)


# ---------------------------------------------------------------- files


def content_of(paths: Iterable[Path]) -> str:
    """SHA-256, hexadecimal, of what these files hold, in this order. Raises UserError for one missing or empty."""
    return hashlib.sha256(b"".join(hashlib.sha256(_bytes(path)).digest() for path in paths)).hexdigest()


def lines(path: Path) -> list[str]:
    """The file's lines. Only line feeds end one: the texts hold other characters that `splitlines` would split at.

    Raises UserError for a file that is missing, empty or not UTF-8.
    """
    found = _bytes(path)
    if other := next((what for start, what in _OTHERS.items() if found.startswith(start)), ""):
        raise UserError(f"{path} is {other}, not UTF-8 text")
    if b"\0" in found[:2]:
        raise UserError(f"{path} is UTF-16 or not text at all, not UTF-8 text")
    try:
        text = found.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        # error.start counts from after a byte-order mark, which has no line break in it
        line = error.object[: error.start].count(b"\n") + 1
        raise UserError(f"{path}, line {line}: not UTF-8 text ({error.reason})") from error
    return [line.removesuffix("\r") for line in text.removesuffix("\n").split("\n")]


_OTHERS = {  # how a file begins that is known, and no UTF-8 text
    b"\x1f\x8b": "gzip-compressed", b"PK\x03\x04": "a zip archive or an Office document",
    b"\xff\xfe": "UTF-16 or UTF-32", b"\xfe\xff": "UTF-16 or UTF-32",
}  # fmt: skip


def _bytes(path: Path) -> bytes:
    kind_at(path)  # of a pipe nothing might ever come
    try:
        found = path.read_bytes()
    except OSError as error:
        raise cannot_read(path, error) from error
    if not found.strip():
        raise UserError(f"{path} is empty")
    return found
