"""A setting that a plugin declares: its default, its range, and its names."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from harness.errors import UserError

LARGEST = 10**9  # of whole numbers that declare no bound of their own: beyond it a number is a slip


@dataclass(frozen=True)
class Hyperparameter:
    """A setting a plugin declares: its default, and the range it may take.

    low and high bound numbers (inclusive); choices lists the values of anything else. log says that a search draws
    on a logarithmic scale. A default, once released, never changes: run identities are differences from defaults.
    """

    default: Any
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()

    def check(self, name: str, value: Any) -> Any:
        """The value as the default's type. Raises UserError on a wrong type or a value out of range."""
        if self.choices:
            for choice in self.choices:
                if value == choice or str(value) == str(choice):
                    return choice
            raise UserError(f"{name} is one of {', '.join(map(str, self.choices))}, not {value!r}")
        kind = type(self.default)
        typed: Any = None
        if kind is bool and str(value).lower() in ("true", "false"):
            typed = str(value).lower() == "true"
        elif kind in (int, float) and not isinstance(value, bool):
            try:
                typed = kind(value) if kind is float or float(value) == int(float(value)) else None
                typed = int(float(value)) if kind is int and typed is not None else typed
            except (TypeError, ValueError, OverflowError):
                typed = None
        elif kind is str and isinstance(value, str):
            typed = value
        if typed is None or (kind is float and not math.isfinite(typed)):
            word = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a word"}[kind]
            raise UserError(f"{name} must be {word}, not {value!r}")
        low, high = self.low, LARGEST if self.high is None and kind is int else self.high
        if (low is not None and typed < low) or (high is not None and typed > high):
            between = f"at most {high}" if high is not None and typed > high else f"at least {low}"
            between = f"between {low} and {high}" if None not in (low, self.high) else between
            raise UserError(f"{name} must be {between}, not {typed}")
        return typed
