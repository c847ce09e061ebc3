"""Merging a profile's settings with those of the command line, and checking every one of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from harness.contracts import Hyperparameter
from harness.errors import UserError, near
from harness.hyperparameters import Bounds, Values
from harness.planning.space import Dimension, Range, Space, size
from harness.runs.settings import ADAM, GENERAL_TRAINING, MASKED, PRUNERS, SEARCH, TEACHER_TRAINING, TRAINING, Settings

Search = Mapping[str, Hyperparameter | Sequence[object]]  # as profiles declare it
SEARCHES = "KEY=A,B,... or KEY=LOW..HIGH"


def parse_set(pairs: Iterable[str], who: str = "--set", takes: str = "KEY=VALUE") -> dict[str, str]:
    """KEY=VALUE words as a dictionary. Raises UserError for a word without "=" or a key given twice."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key or not value:
            raise UserError(f"{who} takes {takes} without spaces, not {pair!r}")
        if key in found:
            raise UserError(f"{who} gives {key} twice")
        found[key] = value
    return found


def parse_search(pairs: Iterable[str]) -> dict[str, Bounds | tuple[str, ...]]:
    """KEY=A,B,... and KEY=LOW..HIGH words as a dictionary. Raises UserError for other words, and for a single value."""
    found: dict[str, Bounds | tuple[str, ...]] = {}
    for key, word in parse_set(pairs, "--search", SEARCHES).items():
        low, dots, high = word.partition("..")
        values = tuple(word.split(","))
        if dots and not (low and high) or not all(values):
            raise UserError(f"--search takes {SEARCHES} without spaces, not '{key}={word}'")
        if not dots and len(values) == 1:
            raise UserError(f"--search gives {key} only one value: --set {key}={word} fixes it")
        found[key] = Bounds(low, high) if dots else values
    return found


def each(search: Mapping[str, Bounds | tuple[str, ...]]) -> list[tuple[str, str]]:
    """(setting, value) for every value and bound that is typed."""
    ways = {key: (way.low, way.high) if isinstance(way, Bounds) else way for key, way in search.items()}
    return [(key, value) for key, values in ways.items() for value in values]


def check_plain(overrides: Mapping[str, str], own: Sequence[str] = ()) -> None:
    """Refuse unknown or badly typed settings of the training loop, without loading any plugin.

    Settings of a plugin ("objective.setting", "student.setting") are checked when it is known. own: the settings of the
    user's own data ("task.setting"), which may be meant.
    """
    meant = [*TRAINING, *(name.partition(".")[2] for name in own)]
    for key, value in overrides.items():
        kind, _, name = key.partition(".")
        if kind == "teacher" or (kind == "general" and "." not in name):
            declared = TEACHER_TRAINING if kind == "teacher" else GENERAL_TRAINING
            check(key, value, {f"{kind}.{name}": hyperparameter for name, hyperparameter in declared.items()})
        elif key in SEARCH:
            check(key, value, SEARCH)
        elif key in TRAINING or key in FLAGS or ("." not in key and get_close_matches(key, meant)):
            check(key, value, TRAINING, own)  # an unknown one may be a plugin's, given without its name


def check(key: str, value: Any, declared: Mapping[str, Hyperparameter], others: Iterable[str] = ()) -> Any:
    """The value in its declared type. Raises UserError for an unknown key, a wrong type or a value out of range.

    others: further names that may be meant by an unknown one.
    """
    if key not in declared:
        names = [*(hyperparameter.alias or name for name, hyperparameter in declared.items()), *others]
        meant = f"did you mean {FLAGS[key]}, which is a flag?" if key in FLAGS else nearest(key, names)
        raise UserError(f"unknown setting {key!r}: {meant}")
    return declared[key].check(key, value)


SHORT = {"lr": "learning_rate", "bs": "batch_size", "batch": "batch_size", "wd": "weight_decay"}  # as others say
FLAGS = {"seed": "--seeds", "seeds": "--seeds", "trials": "--trials"}


def nearest(name: str, names: Iterable[str]) -> str:
    """The names that may be meant: those of plugins that end in this one, otherwise those that are near."""
    names, (owner, dot, last) = list(names), name.rpartition(".")
    last = SHORT.get(last, last)
    name = f"{owner}{dot}{last}"
    if name in names:
        return f"did you mean {name}?"
    qualified = [one for one in names if one.rpartition(".")[2] == name]
    qualified = qualified or sorted((one for one in names if one.endswith(f"_{name}")), key=len)[:3]
    return f"did you mean {' or '.join(qualified)}?" if qualified else near(name, names)


def searched(known: Mapping[str, Hyperparameter]) -> dict[str, Hyperparameter]:
    """The settings among those known that declare between which bounds they are searched, with these as theirs."""
    return {name: replace(h, low=h.search[0], high=h.search[1]) for name, h in known.items() if h.search}


def space_of(search: Search, declared: Mapping[str, Hyperparameter], fixed: Iterable[str]) -> dict[str, Dimension]:
    """A study's search space as a plan holds it, without dimensions that are fixed or belong to no part of the cell."""
    space: dict[str, Dimension] = {}
    for key, values in search.items():
        if key in fixed or key not in declared:
            continue
        if isinstance(values, Hyperparameter):
            if values.low is None or values.high is None:
                raise UserError(f"{key} is searched between two bounds, of which one is missing")
            space[key] = Range(low=values.low, high=values.high, log=values.log, whole=isinstance(values.default, int))
        else:
            space[key] = checked = [check(key, value, declared) for value in values]
            if twice := [value for value in checked if checked.count(value) > 1]:
                raise UserError(f"{key} is searched over {twice[0]} twice: name it once")
    return space


def between(key: str, bounds: Bounds, declared: Hyperparameter) -> Hyperparameter:
    """A range that was typed, by the type and the scale of its setting; its default is the middle.

    Raises UserError for a bound that the setting cannot have, for a setting that is no number, and for an empty range.
    """
    key = declared.alias or key  # as people know it
    low, high = (declared.check(key, bound) for bound in (bounds.low, bounds.high))
    if declared.choices or isinstance(low, (bool, str)):
        raise UserError(
            f"{key} is not a number, so there is nothing between {low} and {high}: --search {key}={low},{high}"
        )
    if low >= high:
        raise UserError(f"--search gives {key} a range from {low} to {high}, whose end must be above its beginning")
    log = declared.log and low > 0
    middle = math.sqrt(low * high) if log else (low + high) / 2
    return Hyperparameter(type(low)(middle), low=low, high=high, log=log)


def widened(space: Space, declared: Mapping[str, Hyperparameter]) -> dict[str, Dimension]:
    """The space to draw from at random: of a setting that is no whole number, from the least to the greatest value.

    Lists of words and of whole numbers stay lists.
    """
    found: dict[str, Dimension] = {**space}
    for key, values in space.items():
        if isinstance(values, list) and isinstance(declared[key].default, float) and len(set(values)) > 1:
            low, high = min(map(float, values)), max(map(float, values))
            found[key] = Range(low=low, high=high, log=declared[key].log and low > 0, whole=False)
    return found


def idle(settings: Values) -> set[str]:
    """The settings of training that have no effect beside the others."""
    told = Settings(settings)
    augmentation = told["augmentation"]
    found = {"augmentation_copies", "augmentation_probability"} if augmentation == "none" else set()
    found |= {"augmentation_vectors"} if augmentation != MASKED else set()
    found |= {"train_sample"} if not told["train_examples"] and told["train_fraction"] == 1 else set()
    return found | (ADAM if told["optimiser"] == "adadelta" else set())


def unused(settings: Values) -> set[str]:
    """`idle`, and a warm-up beside a constant rate, which has none: runs keep it, as it is part of what they are."""
    told = Settings(settings)
    warms = told["schedule"] == "constant" and told["warmup_ratio"] > 0
    return idle(settings) | ({"warmup_ratio"} if warms else set())


def idle_pruner(settings: Settings, space: Space, trials: int) -> set[str]:
    """The pruner, where it can stop no trial: one needs another before it, and an epoch to save."""
    name = settings["pruner"]
    if name not in PRUNERS:
        return set()
    trials = min(trials, size(space) or trials)
    searched = space.get("epochs", [settings["epochs"]])
    enough = not isinstance(searched, list) or max(map(int, searched)) >= PRUNERS[name][0]
    return set() if trials > 1 and enough else {"pruner"}
