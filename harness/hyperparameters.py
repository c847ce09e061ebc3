"""A setting that a plugin declares: its default, its range, and its names."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.errors import UserError

Value = bool | int | float | str  # of one setting
Hyperparameters = Mapping[str, Value]  # settings by name that were checked; of `object` they were not yet
Values = Mapping[str, Any]  # the same where they are used: each of the type that its declaration has
LARGEST = 10**9  # of whole numbers that declare no bound of their own: beyond it a number is a slip


def complement(value: float) -> float:
    """One minus the value; rounded, so that 0.3 and 0.7 give each other."""
    return round(1.0 - value, 15)


@dataclass(frozen=True)
class Hyperparameter:
    """A setting a plugin declares: its default, and the range it may take.

    low and high bound numbers (inclusive); choices lists the values of anything else. log says that a search draws
    on a logarithmic scale. A default, once released, never changes: run identities are differences from defaults.

    alias: the name that it was released with, where a better one was found since: records and identities keep it, and
    it may still be typed. complement: under that name it is one minus the value. says: what it does, for people.
    search: the bounds between which a study searches that leaves its ranges to plugins (`Profile.families`); None where
    it then keeps its value.
    """

    default: Any
    low: float | None = None
    high: float | None = None
    log: bool = False
    choices: tuple[Any, ...] = ()
    alias: str = ""
    complement: bool = False
    says: str = ""
    search: tuple[float, float] | None = None

    def other(self, value: Any) -> Any:
        """The value under the other name."""
        return complement(value) if self.complement else value

    def recorded(self, name: str) -> Hyperparameter:
        """The same under the name that records have; its alias is then `name`, by which people know it."""
        if not self.alias:
            return self
        low, high = (None if bound is None else self.other(bound) for bound in (self.low, self.high))
        low, high = (high, low) if self.complement else (low, high)
        search = self.search and tuple(sorted(self.other(bound) for bound in self.search))
        return replace(self, default=self.other(self.default), low=low, high=high, alias=name, search=search)

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
        elif kind in (int, float) and not isinstance(value, bool) and "_" not in str(value):  # 1_0: ten to Python alone
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
        return 0.0 if kind is float and typed == 0 else typed  # -0.0 would be another run


@dataclass(frozen=True)
class Bounds:
    """A range as it is typed: what a setting is searched between, on the scale that its declaration has."""

    low: str
    high: str


@dataclass(frozen=True)
class Recipe:
    """How students of a family are usually started, trained and searched, where a study leaves that to them.

    start: an initialisation. settings: those of training, and of the student as "student.NAME", that are not the
    defaults. search: setting -> its values, or a Hyperparameter whose bounds it is searched between.
    """

    start: str = "random"
    settings: Mapping[str, object] = field(default_factory=dict)
    search: Mapping[str, Hyperparameter | Sequence[object]] = field(default_factory=dict)


def rates(low: float, high: float) -> Hyperparameter:
    """Learning rates between two bounds, searched on a logarithmic scale; the middle of it is the default."""
    return Hyperparameter(float(f"{math.sqrt(low * high):.1e}"), low=low, high=high, log=True)
