"""Cells of a notebook, for tests, and the loss of an objective that they define."""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest
import torch

from harness import registry

Cell = Callable[[str], Any]
IMPORTS = """
from harness.contracts import Signal
from harness.registry import objective
"""


@pytest.fixture
def cell(monkeypatch: pytest.MonkeyPatch) -> Iterator[Cell]:
    """cell(text) does what a cell of a notebook does, and gives the notebook's names."""
    main = ModuleType("__main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    names = [f"<cell {number}>" for number in range(100)]
    count = iter(names)

    def run(text: str, source: bool = True) -> Any:
        name = next(count)
        if source:
            linecache.cache[name] = (len(text), None, text.splitlines(True), name)
        exec(compile(text, name, "exec", dont_inherit=True), vars(main))
        return main

    yield run
    for name in names:
        linecache.cache.pop(name, None)
    for known in registry.ALL.values():
        for name in [name for name, (_, origin) in known._found.items() if origin in registry.WRITTEN]:
            del known._found[name]


def loss() -> float:
    return loss_of(registry.OBJECTIVES.get("of_a_cell")(None, None, None))


def loss_of(made: Callable[..., Any]) -> float:
    ones, zeros = SimpleNamespace(sentence=torch.ones(2, 3)), SimpleNamespace(sentence=torch.zeros(2, 3))
    return float(made(ones, zeros, None))
