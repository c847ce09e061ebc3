"""The identities of all runs that the studies plan, as hashes: what `test_identities` compares with those released.

python -m tests.identities    writes them down anew; the commit then says which moved, and why
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

os.environ["HF_HUB_OFFLINE"] = "1"

from harness import registry
from harness.files import digest
from harness.planning.contents import Contents
from harness.planning.plan import resolve
from harness.planning.planned import Cell
from harness.planning.request import Request
from harness.planning.space import is_grid
from harness.search.progress import specify
from harness.teachers import huggingface

FILE = Path(__file__).with_suffix(".json")
PROFILES = [(name, profile) for name in registry.STUDIES.names() for profile in registry.STUDIES.get(name).profiles]
# What decides no run: places of this machine, sentences, and what `rows` below tell one by one.
NOT_PINNED = (
    "format",
    "defaults",
    "label",
    "argument",
    "files",
    "plugins",
    "notices",
    "unseen",
    "origins",
    "shown",
    "declaration",
    "rows",
    "cells",
    "first",
)


def planned(study: str, profile: str) -> dict[str, Any]:
    """The hashes of a study's plan in a profile: of each row's cells and runs, of the runs that these start from, by
    kind, and of the rest. What is not of this distribution (GLUE, hub, files) counts by its name."""
    with pytest.MonkeyPatch.context() as patch:
        _by_name(patch)
        plan = resolve(Request(study, profile), lenient=True)
    rows: dict[str, list[Any]] = {row.name: [] for row in plan.rows}
    for cell in plan.cells:
        about = {
            name: value
            for name, value in cell.to_json().items()
            if name not in ("specification", "id", "search", "refused", "size")  # size: what its time is estimated by
        }
        runs = [] if cell.refused else sorted(_runs(cell, plan.defaults))
        rows[cell.row].append([about, bool(cell.refused), runs])
    first: dict[str, list[str]] = {}
    for name, entry in plan.first.items():
        first.setdefault(entry.run.kind, []).append(name)
    return {
        "plan": _short({name: value for name, value in plan.to_json().items() if name not in NOT_PINNED}),
        "first": {kind: _short(sorted(runs)) for kind, runs in sorted(first.items())},
        "rows": {name: _short(cells) for name, cells in sorted(rows.items())},
    }


def _runs(cell: Cell, defaults: Mapping[str, Any]) -> Iterator[str]:
    """The identity of every run that a cell may ask for: of each setting of its grid with each seed."""
    space = cell.space
    grid = itertools.product(*space.values()) if is_grid(space) else [()]
    for values in grid:
        chosen = dict(zip(space, values, strict=False))
        for seed in range(cell.seeds):
            yield specify(cell, chosen, seed, ()).identity(defaults)


def _by_name(patch: pytest.MonkeyPatch) -> None:
    teacher, read, corpus = Contents.teacher, Contents._read, Contents.corpus

    def unreachable(*_: Any, **__: Any) -> str:
        raise OSError("not asked")

    def file(self: Contents, value: str, asked: bool = True) -> str:
        return value

    patch.setattr(huggingface, "snapshot_download", unreachable)

    patch.setattr(Contents, "by_content", file)
    patch.setattr(Contents, "teacher", lambda self, p: teacher(self, p) if p.name == "embedded" else _name_of(p))
    patch.setattr(Contents, "_read", lambda self, t: read(self, t) if not t.folder else (t.name, 0))
    patch.setattr(
        Contents, "corpus", lambda self: corpus(self) if self.corpus_source == "embedded" else self.corpus_source
    )


def _name_of(teacher: Any) -> str:
    return f"{teacher.name}:{'' if Path(teacher.argument).is_dir() else teacher.argument}"


def _short(value: Any) -> str:
    return digest(value)[:16]


def released() -> dict[str, Any]:
    """The hashes written down, by study and profile."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


if __name__ == "__main__":
    found = {f"{study} {profile}": planned(study, profile) for study, profile in PROFILES}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
