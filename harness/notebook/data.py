"""Training data held in Python, as a file that `--tasks NAME=PATH` takes."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from harness import registry
from harness.contracts import Task
from harness.data.tables import dataset_rows
from harness.errors import UserError
from harness.files import atomic_write, check_writable
from harness.ledger import Ledger

COLUMNS = {2: ("text", "label"), 3: ("sentence1", "sentence2", "label")}
NAME = "data"  # of the task that they become


def written(train: Any, out: Path) -> Any:
    """What `tasks` takes of the data, which are written under the folder of results if they are in memory.

    Equal data give the same file. Raises UserError for what is no data.
    """
    if isinstance(train, (Task, type)) or getattr(train, "__module__", None) == registry.MAIN:
        return train
    if isinstance(train, (os.PathLike, str)):
        known = "=" in str(train) or str(train) in registry.TASKS.names()
        return str(train) if known else f"{NAME}={train}"
    splits = train if isinstance(train, Mapping) else {"train": train}
    files = {str(split): _lines(split, rows) for split, rows in splits.items()}
    folder = folder_in(out, "data") / hashlib.sha256(json.dumps(files).encode()).hexdigest()[:12]
    for split, text in files.items():
        if not (folder / f"{split}.jsonl").is_file():
            atomic_write(folder / f"{split}.jsonl", text.encode())
    return f"{NAME}={folder}"


def folder_in(out: Path, name: str) -> Path:
    """The folder of this name in one of results, which is made if it is not there."""
    check_writable(out)
    return Ledger(out, create=True).out / name


def _lines(split: Any, rows: Any) -> str:
    found = "".join(json.dumps(row, ensure_ascii=False, default=_plain) + "\n" for row in _rows(split, rows))
    if not found:
        raise UserError(f"there are no examples in {split}")
    return found


def _plain(value: Any) -> Any:
    """A number of NumPy's as Python's."""
    if isinstance(value, np.generic) and not isinstance(value, np.longdouble):  # of which it makes itself
        return value.item()
    raise UserError(f"an example holds {value!r}, a {type(value).__name__}, where text or a number is wanted")


def _rows(split: Any, rows: Any) -> Iterator[dict[str, Any]]:
    """The examples as dictionaries, with the names of classes where a datasets.Dataset has them."""
    if hasattr(rows, "to_json") and hasattr(rows, "columns"):  # of pandas
        if twice := [*rows.columns[rows.columns.duplicated()]]:
            raise UserError(f"the frame has two columns {twice[0]!r}: rename one")
        yield from json.loads(rows.to_json(orient="records", double_precision=15))
        return
    if not isinstance(rows, Iterable) or isinstance(rows, (str, bytes)):
        raise UserError(f"train is a path, a task, a frame, a data set or a list of (text, label), not {rows!r}")
    if hasattr(rows, "features"):
        yield from (dict(row) for _, row in dataset_rows(str(split), lambda: rows))
        return
    for number, row in enumerate(rows, 1):
        if isinstance(row, (tuple, list)) and len(row) in COLUMNS:
            row = dict(zip(COLUMNS[len(row)], row, strict=True))
        if not isinstance(row, Mapping):
            raise UserError(f"example {number} is (text, label), (text, text, label) or a dictionary, not {row!r}")
        yield dict(row)
