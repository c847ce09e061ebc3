"""Plugins written when objectives, students, teachers, studies and reports were packages of their own keep working."""

from __future__ import annotations

import importlib
import sys
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from importlib.util import spec_from_loader
from pathlib import Path
from types import ModuleType

OLD = frozenset({"objectives", "students", "teachers", "studies", "reports"})
ROOT = Path(__file__).parent.parent


class OldNames(MetaPathFinder, Loader):
    """Finds `harness.objectives` for `objectives`, the very same module, unless a package of the user's is meant.

    met: the old names that were imported since it was last emptied.
    """

    def __init__(self) -> None:
        self.met: set[str] = set()

    def find_spec(self, name: str, path: object = None, target: object = None) -> ModuleSpec | None:
        top = name.partition(".")[0]
        if top not in OLD:
            return None
        other = PathFinder.find_spec(top)  # in a checkout on sys.path it is our own folder
        mine = other is None or other.origin == str(ROOT / top / "__init__.py")
        return spec_from_loader(name, self) if mine else None

    def exec_module(self, module: ModuleType) -> None:
        sys.modules[module.__name__] = importlib.import_module(f"harness.{module.__name__}")
        self.met.add(module.__name__.partition(".")[0])


FINDER = OldNames()


def sentence(what: str) -> str:
    """What to say of a plugin that has just been imported, or ""."""
    names, FINDER.met = sorted(FINDER.met), set()
    said = " and ".join(f"`{name}`, which is `harness.{name}` now" for name in names)
    return f"{what} imports {said}: the old name still works" if names else ""
