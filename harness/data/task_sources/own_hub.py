"""A user's own choice of a data set on the Hugging Face hub."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import cached_property
from typing import Any

from harness.data import tables
from harness.data.declaration import Declaration
from harness.data.own_source import OwnSource
from harness.data.sources import task_source
from harness.data.tables import Row
from harness.errors import UserError

PREFIX = "hub:"


@task_source("own_hub", tasks=())
class OwnHub(OwnSource):
    """Any labelled data set of the Hugging Face hub, by --tasks NAME=hub:DATASET[:CONFIG]."""

    remote = True

    @classmethod
    def opens(cls, declaration: Declaration) -> bool:
        place = str(declaration.place)
        if place.startswith(PREFIX) and not place.removeprefix(PREFIX).partition(":")[0]:
            raise UserError(f"{place} names no data set; write hub:DATASET or hub:DATASET:CONFIG")
        return place.startswith(PREFIX)

    def names(self) -> Sequence[str]:
        return list(self._found)

    def rows(self, name: str) -> Iterable[Row]:
        return tables.dataset_rows(f"{self.data}, {name}", lambda: self._found[name])

    def classes(self, label: str) -> Sequence[str]:
        features = next(iter(self._found.values())).features
        return list(getattr(features.get(label), "names", None) or ())

    @cached_property
    def _found(self) -> Any:
        datasets = tables.library()
        name, _, configuration = self.data.removeprefix(PREFIX).partition(":")
        found = tables.told_of(self.data, lambda: datasets.load_dataset(name, configuration or None))
        if not isinstance(found, dict):
            raise UserError(f"{self.data} has no splits")
        return found
