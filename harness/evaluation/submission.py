"""Predictions on a test split as the file that GLUE's server takes (Wang et al., 2018; gluebenchmark.com)."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import numpy as np

from harness.contracts import Task
from harness.data.loading import NumberedSplit
from harness.errors import UserError
from harness.files import atomic_write

NAMES = {
    "test": "{}.tsv",
    "test_matched": "{}-m.tsv",
    "test_mismatched": "{}-mm.tsv",
    "diagnostic": "AX.tsv",  # by the model of MNLI
}
WANTED = ("AX", "CoLA", "MNLI-m", "MNLI-mm", "MRPC", "QNLI", "QQP", "RTE", "SST-2", "STS-B", "WNLI")


def file_name(task: Task, split: str) -> str:
    """The name that the server expects, as MRPC.tsv or MNLI-mm.tsv."""
    return NAMES[split].format(task.folder)


def lacking(folder: Path) -> list[str]:
    """Which of the files that the server wants together are not in the folder."""
    return [name for name in map("{}.tsv".format, WANTED) if name not in held(folder)]


def held(folder: Path) -> set[str]:
    """Which of them are."""
    return {name for name in map("{}.tsv".format, WANTED) if (folder / name).is_file()}


def check_apart(tasks: Iterable[Task]) -> None:
    """Raise UserError where two of these tasks are one to the server: its file could hold the answers to one alone."""
    named: dict[str, str] = {}
    for task in tasks:
        if (other := named.setdefault(task.folder, task.name)) != task.name:
            raise UserError(
                f"{other} and {task.name} are both {task.folder} to GLUE's server, which takes answers to only "
                "one: choose it with --tasks"
            )


def write(task: Task, test: NumberedSplit, predictions: np.ndarray, folder: Path) -> Path:
    """Write the file of one split into `folder`, whole or not at all; returns its path.

    predictions: (N,) class indices, printed as the labels of the official files, or scores, clipped to the task's range
    and printed with three decimals. Raises ValueError for a score that is not finite and unless there is one prediction
    an example, UserError if the folder cannot be written.
    """
    if not np.isfinite(predictions).all():
        raise ValueError("a prediction is not finite")
    if task.labels:
        words = [task.labels[int(index)] for index in predictions]
    else:
        words = [f"{score:.3f}" for score in np.clip(predictions, *task.range)]
    lines = ["index\tprediction", *(f"{n}\t{word}" for n, word in zip(test.index, words, strict=True))]
    path = folder / file_name(task, test.split.name)
    if path.is_dir():
        raise UserError(f"{path} cannot be written: it is a folder")
    atomic_write(path, ("\n".join(lines) + "\n").encode())
    return path
