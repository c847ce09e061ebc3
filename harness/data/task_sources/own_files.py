"""A user's own data: a file, a folder with a file for each split, and a data set that `save_to_disk` wrote."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any

from harness.data import tables
from harness.data.declaration import Declaration
from harness.data.own_source import OwnSource
from harness.data.places import entries, home, kind_at
from harness.data.sources import task_source
from harness.data.tables import Row
from harness.errors import UserError

SAVED = ("dataset_dict.json", "state.json")  # of several splits, and of one


@task_source("own_files", tasks=())
class OwnFiles(OwnSource):
    """Your own csv, tsv, jsonl, json, parquet or save_to_disk data, by --tasks NAME=PATH."""

    @classmethod
    def opens(cls, declaration: Declaration) -> bool:
        return bool(kind_at(_path(declaration)))

    @property
    def path(self) -> Path:
        return _path(self.declaration)

    def parts(self, task: Any) -> Sequence[Path]:
        return [Path(os.path.abspath(self.path))]

    def names(self) -> Sequence[str]:
        return list(self._found) if self._saved is None else list(self._saved)

    def rows(self, name: str) -> Iterable[Row]:
        if self._saved is not None:
            return tables.dataset_rows(f"{self.path}, {name}", lambda: self._saved[name])  # type: ignore[index]
        paths = self._found[name]
        if name != paths[0].name:  # which is one part, and asked for
            tables.check_parts(name, paths)
        return chain.from_iterable(tables.rows_of(path, self.settings) for path in paths)

    def classes(self, label: str) -> Sequence[str]:
        features = next(iter(self._saved.values())).features if self._saved else {}
        return list(getattr(features.get(label), "names", None) or ())

    @cached_property
    def _saved(self) -> dict[str, Any] | None:
        """What `save_to_disk` wrote, by split; None where it did not."""
        if not any(kind_at(self.path / name) for name in SAVED):
            return None
        datasets = tables.library()
        found = tables.told_of(str(self.path), lambda: datasets.load_from_disk(str(self.path)))
        return dict(found) if isinstance(found, datasets.DatasetDict) else {"train": found}

    @cached_property
    def _found(self) -> dict[str, list[Path]]:
        """The files of every split. A split may also be named as the file that it is."""
        if kind_at(self.path) == "file":
            if beside := [name for name in ("train", "dev") if name in self.settings]:
                raise UserError(f"{self.path} is a single file: give its folder to use {' and '.join(beside)}")
            return {"train": [self.path]}
        found = tables.files_of(self.path)
        if not found:
            there = [path.name for path in entries(self.path)]
            raise UserError(f"{self.path} has no data files: {', '.join(there[:8]) or 'it is empty'}")
        return found | {path.name: [path] for paths in found.values() for path in paths}


def _path(declaration: Declaration) -> Path:
    return Path(declaration.folder) / home(str(declaration.place))
