"""Merging a profile's settings with those of the command line, and checking every one of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from difflib import get_close_matches
from typing import Any

from harness.contracts import Hyperparameter
from harness.errors import UserError, near
from harness.hyperparameters import Values
from harness.planning.space import Dimension, Range, Space, size
from harness.runs.settings import ADAM, GENERAL_TRAINING, MASKED, PRUNERS, SEARCH, TEACHER_TRAINING, TRAINING, Settings

Search = Mapping[str, Hyperparameter | Sequence[object]]  # as profiles declare it


def parse_set(pairs: Iterable[str], who: str = "--set") -> dict[str, str]:
    """KEY=VALUE words as a dictionary. Raises UserError for a word without "=" or a key given twice."""
    found: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key or not value:
            raise UserError(f"{who} takes KEY=VALUE without blanks, not {pair!r}")
        if key in found:
            raise UserError(f"{who} gives {key} twice")
        found[key] = value
    return found


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
    found = {name: (h, h.search) for name, h in known.items() if h.search is not None}
    return {name: replace(h, low=bounds[0], high=bounds[1]) for name, (h, bounds) in found.items()}


def space_of(search: Search, declared: Mapping[str, Hyperparameter], fixed: Iterable[str]) -> dict[str, Dimension]:
    """A study's search space as a plan holds it, without dimensions that are fixed or belong to no part of the cell."""
    space: dict[str, Dimension] = {}
    for key, values in search.items():
        if key in fixed or key not in declared:
            continue
        if isinstance(values, Hyperparameter):
            if values.low is None or values.high is None:
                raise UserError(f"{key} is searched between two bounds, and one is missing")
            space[key] = Range(low=values.low, high=values.high, log=values.log, whole=isinstance(values.default, int))
        else:
            space[key] = [check(key, value, declared) for value in values]
    return space


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
