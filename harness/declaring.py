"""What plugins declare, looked at as they are registered: what is wrong is told in one sentence.

`who` is the plugin as sentences name it, with its file. Everything here raises UserError.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from harness.contracts import Hyperparameter, Profile, Published, Signal, Study
from harness.errors import UserError, near
from harness.rows import TableRow

_SEVERAL = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)


def name(kind: str, given: object, file: str) -> str:
    """The plugin as sentences name it, whose name is a word."""
    who = f"{kind} {given!r} in {file}"
    if not isinstance(given, str) or not given.strip():
        raise UserError(f"{who}: its name must be a word")
    if wrong := [character for character in given if character in "/\\:,=+*" or not character.isprintable()]:
        raise UserError(f"{who}: its name must have no {wrong[0]!r}, as flags and folders are written with it")
    if given != given.strip() or given[0] in "-.":
        raise UserError(f"{who}: its name must begin with a letter or digit, and end without a space")
    return who


def signals(who: str, what: str, given: Any) -> frozenset[Signal]:
    """`given` as signals, which may be given by their names."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise UserError(f"{who}: {what} is a set of signals, as in {{Signal.LOGITS}}, not {given!r}")
    known = [signal.value for signal in Signal]
    for one in given:
        if one not in known:  # a signal equals its name
            raise UserError(f"{who}: {what} names {one!r}, which is not a signal: {near(str(one), known)}")
    return frozenset(map(Signal, given))


def words(who: str, what: str, given: Any, among: Iterable[str] | None = None) -> tuple[str, ...]:
    """`given` as a tuple of words, each of them once; among: those that there are."""
    if isinstance(given, str) or not isinstance(given, Iterable) or any(not isinstance(one, str) for one in given):
        raise UserError(f"{who}: {what} is a tuple of words, as in ('one', 'two') or ('one',), not {given!r}")
    found = tuple(given)
    if twice := next((one for one in found if found.count(one) > 1), ""):
        raise UserError(f"{who}: {what} names {twice!r} twice")
    if lacking := [one for one in found if among is not None and one not in among]:
        raise UserError(f"{who}: {what} names {lacking[0]!r}, which it does not have: {near(lacking[0], among or ())}")
    return found


def hyperparameters(who: str, given: Any) -> dict[str, Hyperparameter]:
    """`given` as a dictionary, of declarations that hold together."""
    given = {} if given is None else given
    if not isinstance(given, Mapping):
        raise UserError(f"{who}: hyperparameters maps names to Hyperparameter(DEFAULT), but is {given!r}")
    for setting, declared in given.items():
        if not (isinstance(setting, str) and setting.isidentifier()):
            raise UserError(f"{who}: hyperparameter {setting!r} must be named by letters, digits and underscores")
        if not isinstance(declared, Hyperparameter):
            raise UserError(f"{who}: hyperparameter {setting} must be a Hyperparameter(DEFAULT), not {declared!r}")
        if trouble := _trouble(declared):
            raise UserError(f"{who}: hyperparameter {setting}: {trouble}")
    return dict(given)


def _trouble(declared: Hyperparameter) -> str:
    """Why a declaration does not hold together, or ""."""
    default, choices, search, low, high = (
        getattr(declared, what) for what in ("default", "choices", "search", "low", "high")
    )
    if not isinstance(choices, (tuple, list)):
        return f"choices is a tuple of values, not {choices!r}"
    if wrong := [choice for choice in choices if not isinstance(choice, (bool, int, float, str))]:
        return f"its choices must be numbers, words, True or False, not {wrong[0]!r}"
    if twice := [b for a, b in combinations(choices, 2) if a == b or str(a) == str(b)]:
        return f"its choices have {twice[0]!r} twice, which could not be told apart"
    if choices:
        return "" if default in choices else f"its default {default!r} is not one of its choices {choices!r}"
    if not isinstance(default, (bool, int, float, str)):
        return f"its default must be a number, a word, True or False, not {default!r}"
    if search is not None and not (isinstance(search, (tuple, list)) and len(search) == 2):
        return f"search is two bounds, as in (0.1, 1.0), not {search!r}"
    bounds = [bound for bound in (low, high, *(search or ())) if bound is not None]
    if isinstance(default, (bool, str)):
        return f"its default {default!r} is not a number, so it has no low, high or search" if bounds else ""
    if wrong := [bound for bound in bounds if isinstance(bound, bool) or not isinstance(bound, (int, float))]:
        return f"its bounds low, high and search must be numbers, not {wrong[0]!r}"
    if not math.isfinite(default):
        return f"its default must be a finite number, not {default}"
    low, high = -math.inf if low is None else low, math.inf if high is None else high
    if low > high:
        return f"low {low} is above high {high}"
    if not low <= default <= high:
        return f"its default {default} is not between low {low} and high {high}"
    if search and not low <= search[0] <= search[1] <= high:
        return f"search {search} must be a lower and a higher bound within low {low} and high {high}"
    if search and declared.log and search[0] <= 0:
        return f"search {search} on a logarithmic scale (log=True) must begin above 0"
    return ""


def without_labels(who: str, given: Any, declared: Mapping[str, Hyperparameter]) -> dict[str, object]:
    """The hyperparameters with which an objective reads no label, of what it says with `labels`."""
    if isinstance(given, bool):
        return {}
    if not isinstance(given, Mapping):
        raise UserError(f"{who}: labels is True, False or the hyperparameters with which it reads none, not {given!r}")
    for setting, value in given.items():
        words(who, "labels", [setting], among=declared)
        declared[setting].check(f"{who}: labels: {setting}", value)
    return dict(given)


def methods(who: str, plugin: type, base: type, needed: Sequence[str] = (), apart: Sequence[str] = ()) -> None:
    """Of what the base offers, a plugin has all that is needed, and each but those `apart` is called as the base's."""
    inherited = [method for method in needed if inspect.getattr_static(plugin, method) is vars(base)[method]]
    if missing := sorted({*getattr(plugin, "__abstractmethods__", ()), *inherited}):
        raise UserError(f"{who} has no {' and no '.join(missing)}, which every {base.__name__} must have")
    for method, ours in vars(base).items():
        function, own = getattr(ours, "__func__", ours), inspect.getattr_static(plugin, method)
        hidden = method.startswith("_") and method != "__init__"
        if not inspect.isfunction(function) or hidden or own is ours or method in apart:
            continue
        if isinstance(ours, classmethod) and not isinstance(own, (classmethod, staticmethod)):
            raise UserError(f"{who}: {method} must be a class method: write @classmethod above it")
        wanted = inspect.signature(function).parameters
        by_name = any(p.kind in (p.KEYWORD_ONLY, p.VAR_KEYWORD) for p in wanted.values())
        if not (by_name or isinstance(own, staticmethod)):
            takes(who, method, getattr(own, "__func__", own), list(wanted))


def takes(who: str, method: str, own: Any, wanted: Sequence[str]) -> None:
    """A method can be called with so many arguments, one after another."""
    must = f"must take ({', '.join(wanted)})"
    if not callable(own):  # such as a property
        raise UserError(f"{who}: {method} is not a method, but {must}")
    try:
        parameters = inspect.signature(own)
        parameters.bind(*wanted)
    except TypeError:
        raise UserError(f"{who}: {method} takes ({', '.join(parameters.parameters)}) but {must}") from None


def signature(
    who: str,
    function: Any,
    leading: Sequence[str],
    declared: Mapping[str, Hyperparameter],
    optional: Sequence[str] = (),
) -> None:
    """A function takes `leading`, then exactly the declared keywords (and maybe `optional`)."""
    parameters = list(inspect.signature(function).parameters.values())
    names = [p.name for p in parameters]
    wanted = f"({', '.join(leading)}{', *, ' if declared else ''}{', '.join(declared)})"
    rest = set(names[len(leading) :]) - set(optional)
    variadic = any(p.kind in _SEVERAL for p in parameters)
    if names[: len(leading)] != list(leading) or rest != set(declared) or variadic:
        new = [p.name for p in parameters if p.name in rest - set(declared) and p.kind not in _SEVERAL]
        new = new if names[: len(leading)] == list(leading) else []
        told = f", or declare hyperparameters={{{new[0]!r}: Hyperparameter(1.0, low=0.0)}}" if new else ""
        raise UserError(f"{who}: {function.__name__} takes ({', '.join(names)}) but must take {wanted}{told}")


def study(declared: Study, file: str) -> None:
    """A study whose parts are what `Study` says that they are. Names of plugins are looked up by those who plan."""
    if not isinstance(declared, Study):
        raise UserError(f"study() in {file} takes a Study, not {declared!r}")
    who = name("study", declared.name, file)
    if not isinstance(declared.rows, (tuple, list)) or any(not isinstance(row, TableRow) for row in declared.rows):
        raise UserError(f"{who}: rows is a tuple of rows, as in (Row('kd', 'vanilla_kd', 'Vanilla KD'),)")
    rows = words(who, "rows", [row.name for row in declared.rows])
    words(who, "labels of rows", [row.label for row in declared.rows])  # which tables and figures tell them apart by
    words(who, "students", declared.students)
    words(who, "relative_to", [declared.relative_to] if declared.relative_to else [], among=rows)
    if declared.layout not in ("lines", "matrix"):
        raise UserError(f"{who}: layout is lines or matrix, not {declared.layout!r}")
    if declared.published is not None and not isinstance(declared.published, Published):
        raise UserError(f"{who}: published is a Published(...) or None, not {declared.published!r}")
    if declared.analysis not in ("", "masked_word_entropy"):
        raise UserError(f"{who}: analysis is masked_word_entropy or '', not {declared.analysis!r}")
    if not isinstance(declared.figure, str):
        raise UserError(f"{who}: figure is the text of a horizontal axis, not {declared.figure!r}")
    for what, told in (("profiles", "Profile(...)"), ("metrics", "the metrics of a task"), ("told", "Told(...)")):
        if not isinstance(getattr(declared, what), Mapping):
            raise UserError(f"{who}: {what} maps names to {told}, but is {getattr(declared, what)!r}")
    for task, shown in declared.metrics.items():
        if not words(who, f"metrics of {task}", [shown] if isinstance(shown, str) else shown):
            raise UserError(f"{who}: metrics of {task} is empty")
    for called, profile in declared.profiles.items():
        name("profile", called, who)
        _profile(f"{who}: profile {called}", profile)
        plain = [row.name for row in declared.rows if not (row.checkpoint or row.improves or row.baseline)]
        words(f"{who}: profile {called}", "row_settings", profile.row_settings, among=plain)


def _profile(who: str, profile: Profile) -> None:
    if not isinstance(profile, Profile):
        raise UserError(f"{who} must be a Profile, not {profile!r}")
    for what in ("tasks", "inits", "students"):
        words(who, what, getattr(profile, what))
    for what in ("trials", "seeds"):
        number = getattr(profile, what)
        if not isinstance(number, int) or isinstance(number, bool) or number < 1:
            raise UserError(f"{who}: {what} must be a whole number of at least 1, not {number!r}")
    for what in ("settings", "task_settings", "row_settings", "search"):
        if not isinstance(getattr(profile, what), Mapping):
            raise UserError(f"{who}: {what} maps names of settings to what they are, but is {getattr(profile, what)!r}")
    for setting, space in profile.search.items():
        listed = isinstance(space, Sequence) and not isinstance(space, str) and len(space)
        if not listed and not isinstance(space, Hyperparameter):
            raise UserError(f"{who}: search of {setting} is a list of values or a Hyperparameter, not {space!r}")
        if isinstance(space, Hyperparameter) and (trouble := _trouble(space)):
            raise UserError(f"{who}: search of {setting}: {trouble}")
