"""Sums of objectives written as a string: "att_kl+hid_seq", "0.5*att_kl+val_kl"."""

from __future__ import annotations

import math
from dataclasses import replace
from functools import reduce
from operator import or_
from typing import Any

from harness import declaring
from harness.answers import ask, wanted
from harness.contracts import LAYER_SIGNALS, Hyperparameter, LayerMap, ModelInfo, Signal, Task, Want
from harness.errors import UserError
from harness.hyperparameters import Bounds, Values
from harness.registry import OBJECTIVES

Terms = tuple[tuple[float, str], ...]  # (weight, objective), sorted by objective


def parse(expression: str) -> Terms:
    """The weighted objectives of a sum, sorted by name.

    Raises UserError for an empty term, an unknown or repeated objective and a weight that is no positive number.
    """
    terms: dict[str, float] = {}
    for term in expression.split("+"):
        before, times, name = (part.strip() for part in term.rpartition("*"))
        if not name or (times and not before):
            raise UserError(f"objective {expression!r} has an empty term; write a sum like 'att_kl+0.5*hid_seq'")
        weight = _weight(before, expression) if times else 1.0
        OBJECTIVES.get(name)
        if name in terms:
            raise UserError(f"objective {name!r} appears twice in {expression!r}; give it once, with one weight")
        terms[name] = weight
    return tuple((terms[name], name) for name in sorted(terms))


def _weight(text: str, expression: str) -> float:
    try:
        weight = float(text)
    except ValueError:
        raise UserError(
            f"weight {text!r} in objective {expression!r} is not a number; write the weight first, as in '0.5*att_kl'"
        ) from None
    if not (math.isfinite(weight) and weight > 0):
        raise UserError(f"weight {text} in objective {expression!r} must be finite and greater than zero")
    return weight


def canonical(expression: str) -> str:
    """The one spelling of a sum: sorted by name, without spaces and without weights of 1. Raises as `parse` does."""
    # "1e+20" would read as two terms
    return "+".join(
        name if weight == 1 else f"{repr(weight).replace('e+', 'e').removesuffix('.0')}*{name}"
        for weight, name in parse(expression)
    )


def stage(terms: Terms) -> str:
    """The stage that all terms share, "intermediate" or "prediction"; "mixed" where they differ."""
    stages = {OBJECTIVES.get(name).stage for _, name in terms}
    return stages.pop() if len(stages) == 1 else "mixed"


def masks(expression: str) -> bool:
    """True if a term predicts masked tokens."""
    return any(Signal.MLM_LOGITS in OBJECTIVES.get(name).needs for _, name in parse(expression))


def compares_layers(expression: str) -> bool:
    """True if a term compares signals that every layer has."""
    return any(OBJECTIVES.get(name).needs & LAYER_SIGNALS for _, name in parse(expression))


def declared(terms: Terms) -> dict[str, Hyperparameter]:
    """Every term's hyperparameters as "objective.setting", as records name them."""
    return {
        recorded_name(name, setting): hyperparameter.recorded(f"{name}.{setting}")
        for _, name in terms
        for setting, hyperparameter in OBJECTIVES.get(name).hyperparameters.items()
    }


def settings_of(expression: str) -> set[str]:
    """The names of what `declared` declares; none of no objective."""
    return set(declared(parse(expression))) if expression else set()


def recorded(settings: Values) -> Values:
    """Settings as records have them: one that people know by another name has the name it was released with.

    A list of values stays one, and a range is turned round with its value. Raises UserError for a value that cannot be,
    and where a setting is given by both of its names.
    """
    found: dict[str, Any] = {}
    for key, value in settings.items():
        name, _, setting = key.partition(".")
        known = OBJECTIVES.get(name).hyperparameters if name in OBJECTIVES.names() else {}
        if setting in known and known[setting].alias:
            alias = recorded_name(name, setting)
            if alias in settings:
                raise UserError(f"{key} and {alias} are two names of the same setting: give only one")
            found[alias] = _under_alias(known[setting], key, value)
        else:
            found[key] = value
    return found


def _under_alias(known: Hyperparameter, key: str, value: Any) -> Any:
    if isinstance(value, Hyperparameter):
        return replace(value, alias=known.alias, complement=known.complement).recorded(key)
    if isinstance(value, Bounds):
        low, high = (str(known.other(known.check(key, bound))) for bound in (value.low, value.high))
        return Bounds(high, low) if known.complement else Bounds(low, high)
    if isinstance(value, (list, tuple)):
        return tuple(known.other(known.check(key, one)) for one in value)
    return known.other(known.check(key, value))


def idle(terms: Terms, task: Task) -> set[str]:
    """The terms' settings, as records name them, that have no effect on the task."""
    return {recorded_name(name, setting) for _, name in terms for setting in _idle(name, task)}


def _idle(name: str, task: Task) -> tuple[str, ...]:
    plugin = OBJECTIVES.get(name)
    found = ask(OBJECTIVES, name, "idle", object, lambda: plugin.idle(task))
    return declaring.words(OBJECTIVES.called(name), "what idle returns", found, among=plugin.hyperparameters)


def without_labels(terms: Terms) -> Values:
    """The settings, as records name them, with which no term reads a label."""
    return {
        recorded_name(name, setting): OBJECTIVES.get(name).hyperparameters[setting].other(value)
        for _, name in terms
        for setting, value in OBJECTIVES.get(name).without_labels.items()
    }


def recorded_name(name: str, setting: str) -> str:
    """An objective's setting as records name it."""
    return f"{name}.{OBJECTIVES.get(name).hyperparameters[setting].alias or setting}"


def refuse(terms: Terms, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
    """The first term's reason not to train this student from this teacher on this task, or ""."""
    return next(filter(None, (OBJECTIVES.get(name).refuse(student, teacher, task) for _, name in terms)), "")


def wants(terms: Terms, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
    """What to ask of (student, teacher): everything that any term asks for."""
    asked = [wanted(name, student, teacher, layers) for _, name in terms]
    return reduce(or_, (ours for ours, _ in asked)), reduce(or_, (theirs for _, theirs in asked))
