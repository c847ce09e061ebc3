"""The settings that a cell's search tries: a grid of values, or ranges of numbers."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TypedDict

from harness.hyperparameters import Value


class Range(TypedDict):
    """The bounds of a number, inclusive; whether its scale is logarithmic, and whether it is a whole one."""

    low: float
    high: float
    log: bool
    whole: bool


Dimension = Range | list[Value]  # the values of a grid
Space = Mapping[str, Dimension]  # as a plan holds it


def is_grid(space: Space) -> bool:
    """True if every dimension lists its values, so that the space is tried in order and exactly."""
    return all(isinstance(values, list) for values in space.values())


def default_sampler(space: Space) -> str:
    """What tries a space where nobody says otherwise: a grid is walked, from ranges TPE draws."""
    return "grid" if is_grid(space) else "tpe"


def size(space: Space) -> int | None:
    """How many settings a grid holds, or None if the space is not a grid."""
    return math.prod(map(len, space.values())) if is_grid(space) else None


def chooses(space: Space, trials: int, sampler: str) -> bool:
    """True if a search may find another setting than the one that is declared first."""
    how = sampler or default_sampler(space)
    return bool(space) and size(space) != 1 and (trials > 1 or how != "grid")


def spreads(space: Space, trials: int) -> bool:
    """True if the space is a grid of more settings than there are trials."""
    return trials < (size(space) or 0)
