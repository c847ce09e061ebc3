"""The identities of all runs that the studies plan, as hashes, and the defaults that these are told from: what
`test_identities` compares with those released.

python -m tests.identities    writes them down anew; the commit then says which moved, and why
"""

from __future__ import annotations

import itertools
import json
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

from harness import registry
from harness.contracts import Hyperparameter
from harness.files import digest
from harness.planning.planned import Cell
from harness.planning.space import is_grid
from harness.runs import settings
from harness.search.progress import specify
from tests.studies.builders import declared

FILE = Path(__file__).with_suffix(".json")
DEFAULTS = FILE.with_name("defaults.json")
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
    plan = declared(study, profile, files=False)
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


def _short(value: Any) -> str:
    return digest(value)[:16]


def every_setting() -> dict[str, Hyperparameter]:
    """As it is declared, by the names that records have."""
    training = {"TRAINING": settings.TRAINING, "GENERAL": settings.GENERAL_TRAINING, "SPEED": settings.SPEED_SETTINGS}
    training |= {"SEARCH": settings.SEARCH, "TEACHER": settings.TEACHER_TRAINING, "UNTUNED": settings.UNTUNED}
    declared = {f"{kind} {name}": h for kind, of in training.items() for name, h in of.items()}
    for known in (registry.OBJECTIVES, registry.STUDENTS):
        for plugin in filter(known.ships, known.names()):
            declared |= {f"{plugin}.{name}": h for name, h in known.get(plugin).hyperparameters.items()}
    for procedure in filter(registry.PROCEDURES.ships, registry.PROCEDURES.names()):
        own = registry.PROCEDURES.get(procedure).settings.items()
        declared |= {f"{procedure} {n}": h for n, h in own if h not in [of.get(n) for of in training.values()]}
    found = {}
    for name, h in declared.items():
        before, dot, last = name.rpartition(".")
        found[f"{before}{dot}{h.alias or last}"] = h.recorded(last)
    return dict(sorted(found.items()))


def defaults() -> dict[str, Any]:
    """Every setting's default: an identity tells the differences from these alone."""
    return {name: h.default for name, h in every_setting().items()}


def released() -> dict[str, Any]:
    """The hashes written down, by study and profile."""
    found: dict[str, Any] = json.loads(FILE.read_text())
    return found


if __name__ == "__main__":
    found = {f"{study} {profile}": planned(study, profile) for study, profile in PROFILES}
    FILE.write_text(json.dumps(found, indent=1) + "\n")
    DEFAULTS.write_text(json.dumps(defaults(), indent=1) + "\n")
