"""Where a user's own examples come from, as any source says it; what they are is told by `own_examples`."""

from __future__ import annotations

import hashlib
import os
import sys
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from harness.contracts import Task
from harness.data import metric_names, own_metric
from harness.data.declaration import Declaration, Rows
from harness.data.own_examples import OwnExamples, short
from harness.data.places import home
from harness.data.sources import Example, TaskSource, hashes
from harness.data.tables import Row, dataset_rows
from harness.errors import UserError, alike, failed_at
from harness.registry import SOURCES, TASKS


class OwnSource(TaskSource):
    """A kind of place that users keep data in; `declaration` says which and how. It may have any splits and columns."""

    title, hint = "your own data", "its data are where --tasks says"

    def __init__(self, declaration: Declaration):
        super().__init__(declaration.where)
        self.declaration, self.settings = declaration, declaration.settings

    @classmethod
    @abstractmethod
    def opens(cls, declaration: Declaration) -> bool:
        """Whether the place is of this kind. Raises UserError where it is, and cannot be."""

    @abstractmethod
    def names(self) -> Sequence[str]:
        """The splits that are there."""

    @abstractmethod
    def rows(self, name: str) -> Iterable[Row]:
        """The rows of a split, each with the place where it stands."""

    def classes(self, label: str) -> Sequence[str]:
        """The names of the classes in order, where the place tells them."""
        return ()

    # ------------------------------------------------------------ as any source

    def examples(self, task: Task, split: str) -> Iterable[Example]:
        return self.read.train if split == "train" else self.read.dev

    def content(self, task: Task) -> str:
        """Of the examples as they are split, grouped and named: neither the file's format nor other columns count."""
        groups = self.groups(task)
        own = repr((super().content(task), task.labels)).encode()
        return hashlib.sha256(own + (b"" if groups is None else groups.tobytes())).hexdigest()

    def groups(self, task: Task) -> np.ndarray | None:
        return hashes(self.read.groups).view(np.int64) if self.read.groups else None

    @cached_property
    def read(self) -> OwnExamples:
        return OwnExamples(self)


class PluginRows(OwnSource):
    """What the function of a plugin gives: rows by split."""

    def __init__(self, declaration: Declaration, given: Mapping[str, Rows]):
        super().__init__(declaration)
        self.splits_given = given

    @classmethod
    def opens(cls, declaration: Declaration) -> bool:
        return False  # `opened` makes it

    def names(self) -> Sequence[str]:
        return list(self.splits_given)

    def rows(self, name: str) -> Iterator[Row]:
        found, where = self.splits_given[name], f"task {self.declaration.name}, {name}"
        if hasattr(found, "features"):
            yield from dataset_rows(where, lambda: found)
            return
        if isinstance(found, (str, bytes, Mapping)) or not isinstance(found, Iterable):
            raise UserError(f"{where}: {_of(self.declaration)} gives {short(found)}, but must give rows")
        given, end = _asked(self.declaration, lambda: iter(found)), object()
        for number in range(1, sys.maxsize):
            row = _asked(self.declaration, lambda: next(given, end))
            if row is end:
                return
            if not isinstance(row, Mapping) or not all(isinstance(column, str) for column in row):
                raise UserError(
                    f"{where} {number}: {_of(self.declaration)} gives {short(row)}, but a row must be a mapping "
                    "from column names to values"
                )
            yield f"{where} {number}", row


def kind_of(declaration: Declaration) -> type[OwnSource]:
    """The kind of source that opens a place. Raises UserError where there is none."""
    for name in SOURCES.names():
        found = SOURCES.get(name)
        if issubclass(found, OwnSource) and found.opens(declaration):
            return found
    path = Path(declaration.folder) / home(str(declaration.place))
    raise UserError(f"data of task {declaration.name}: {declaration.where} does not exist{alike(path)}")


def opened(declaration: Declaration) -> OwnSource:
    """The source of a declaration. Raises UserError for a place that does not exist."""
    if isinstance(declaration.place, str):
        return kind_of(declaration)(declaration)
    given: Any = _asked(declaration, declaration.place)
    if isinstance(given, (str, os.PathLike)):
        place = Declaration(declaration.name, str(given), declaration.settings, declaration.folder)
        return kind_of(place)(place)
    if not isinstance(given, Mapping) or not all(isinstance(split, str) for split in given):
        raise UserError(
            f"{_of(declaration)} must give a path, hub:DATASET or a mapping from split names to rows, "
            f"not {short(given)}"
        )
    return PluginRows(declaration, given)


def _of(declaration: Declaration) -> str:
    """What sentences call the function of a plugin."""
    return f"the function of task {declaration.name} in {TASKS.origin(declaration.name)}"


def _asked(declaration: Declaration, work: Callable[[], Any]) -> Any:
    """What the code of a plugin returns. Raises UserError, with its line there, for whatever it raises."""
    try:
        return work()
    except UserError:
        raise
    except Exception as error:
        file = TASKS.origin(declaration.name)
        raise UserError(f"{_of(declaration)}{failed_at(error, file)}") from error


def read(declaration: Declaration) -> tuple[Task, str, OwnSource]:
    """What the examples of a declaration are, in a sentence too, with the source that has read them.

    Raises UserError for data that cannot be used.
    """
    source = opened(declaration)
    found = source.read
    classes = len(found.labels)
    brought = own_metric.names(declaration.name)
    chosen = metric_names.chosen(declaration.said("metric"), declaration.name, classes, brought)
    task = Task(
        declaration.name,
        declaration.said("title") or declaration.name,
        chosen,
        tuple(dict.fromkeys((*metric_names.usual(classes), *metric_names.MEANS.get(chosen, ()), chosen))),
        labels=tuple(found.labels),
        pair=found.pair,
        dev_splits=("dev",),
        examples=len(found.train),
        labelled=not found.unlabelled,
    )
    return task, f"task {declaration.name}: {found.told()}; metric {chosen}", source
