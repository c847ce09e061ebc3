"""A user's own data as tasks: NAME=PATH or NAME=hub:DATASET of `--tasks`, NAME.yaml beside them, and `@task`.

A declaration says where examples are, and whatever cannot be told from them; what they are is told by reading them
(`harness.data.own_source`), once where a study is planned. Workers and tables take it from the plan.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.contracts import Task
from harness.data import own_metric
from harness.data.declaration import SETTINGS, Declaration, check_name
from harness.data.places import home, kind_at, spoilt
from harness.errors import UserError, near, unknown
from harness.files import JSON
from harness.folders import cannot_read
from harness.registry import TASKS, file_of

if TYPE_CHECKING:
    from harness.data.own_source import OwnSource

PATH = "path"  # where the examples are, in a YAML file


class Known:
    """A declaration with what its examples are. told: what is printed of it."""

    def __init__(self, declaration: Declaration, task: Task, told: str):
        self.declaration, self.task, self.told = declaration, task, told

    @cached_property
    def source(self) -> OwnSource:
        from harness.data.own_source import opened  # loads numpy

        declaration = self.declaration
        if not declaration.place:  # of a plugin, which a plan does not hold
            found: Any = TASKS.get(declaration.name)
            if not isinstance(found, Declaration):
                raise unknown("task of a plugin", declaration.name, TASKS.names())
            declaration = dataclasses.replace(found, settings=declaration.settings)
        return opened(declaration)

    def to_json(self) -> JSON:
        """Without the function of a plugin, which whoever reads it finds there again."""
        place = self.declaration.place if isinstance(self.declaration.place, str) else ""
        task = {f.name: said for f in dataclasses.fields(Task) if (said := getattr(self.task, f.name)) != f.default}
        where = {"place": place, "folder": self.declaration.folder, "settings": dict(self.declaration.settings)}
        return {**where, "task": task, "told": self.told}

    @classmethod
    def from_json(cls, name: str, told: JSON) -> Known:
        fields = told["task"].items()
        task: dict[str, Any] = {key: tuple(value) if isinstance(value, list) else value for key, value in fields}
        return cls(Declaration(name, told["place"], told["settings"], told["folder"]), Task(**task), told["told"])


KNOWN: dict[str, Known] = {}  # those of the plan that is worked on: what a task is called by there


def know(declarations: Iterable[Declaration]) -> dict[str, Known]:
    """Read what these declare, for `get_task` from now on. Raises UserError for data that cannot be used."""
    from harness.data.own_source import read  # loads numpy

    found = {}
    for declaration in declarations:
        task, told, source = read(declaration)
        found[declaration.name] = known = Known(declaration, task, told)
        known.source = source  # which has read the data already
    KNOWN.update(found)
    return found


def recall(told: Mapping[str, JSON]) -> None:
    """Know again what a plan tells of its tasks, without reading their data."""
    KNOWN.update({name: Known.from_json(name, one) for name, one in told.items()})


def absolute(told: JSON) -> JSON:
    """What a plan tells of a task, with the whole path of its place, which has a meaning on other machines."""
    path = Path(told["folder"]) / home(told["place"])
    return {**told, "place": os.path.abspath(path), "folder": ""} if told["place"] and os.path.exists(path) else told


def task(name: str, **settings: object) -> Callable[[Callable[[], Any]], Callable[[], Any]]:
    """Register a task of the plugin's own: a function that says where its examples are, or gives them.

    It takes nothing and returns a path, beside the plugin's file where it is relative, hub:DATASET[:CONFIG], or a
    mapping from splits to rows, which are mappings from columns to values. settings: as `SETTINGS`; names in a list.
    metric may be a function of (N,) predictions and (N,) labels, of classes their numbers, that returns at most 1.
    Raises UserError for a name that cannot be or is taken, and for an unknown setting.
    """

    def register(function: Callable[[], Any]) -> Callable[[], Any]:
        origin = file_of(function)
        check_name(name)
        metric = own_metric.checked(name, settings.get("metric"))
        given = settings | ({"metric": metric.__name__} if metric else {})
        said = _checked(name, {key: _text(value) for key, value in given.items()})
        doc = (function.__doc__ or "").strip().split("\n")[0]
        TASKS.add(name, Declaration(name, function, said, str(Path(origin).parent), doc, metric), origin)
        function.name = name  # type: ignore[attr-defined]  # as of an objective: what a notebook gives is named by it
        return function

    return register


# ---------------------------------------------------------------- what the command line says


def told_apart(
    tasks: Sequence[str] | None, overrides: Sequence[str]
) -> tuple[list[str] | None, dict[str, Declaration], list[str]]:
    """(the names of the tasks, those declared here or by `@task`, the words of --set that are not of theirs).

    Raises UserError for a name that cannot be or is taken, a path that does not exist, and an unknown setting.
    """
    if tasks is None:
        return None, {}, list(overrides)
    declared: dict[str, Declaration] = {}
    for word in tasks:
        name, equals, place = word.partition("=")
        if not equals:
            known = TASKS.get(name) if name in TASKS.names() else None
            declared |= {name: known} if isinstance(known, Declaration) else {}
            continue
        check_name(name)
        if name in TASKS.names():
            raise UserError(f"task {name} already exists, in {TASKS.origin(name)}: give your data another name")
        if not place:
            raise UserError(f"--tasks {word} names no data; write {name}=PATH or {name}=hub:DATASET")
        declared[name] = _from_files(name, place)
    rest, given = [], set()
    for word in overrides:
        key, _, value = word.partition("=")
        name, dot, setting = key.partition(".")
        if dot and name in declared:
            if not value:
                raise UserError(f"--set takes KEY=VALUE, not {word!r}")
            if key in given:
                raise UserError(f"--set gives {key} twice")
            given.add(key)
            declared[name] = declared[name].given(_checked(name, {setting: value}))
        else:
            rest.append(word)
    return [word.partition("=")[0] for word in tasks], declared, rest


def _from_files(name: str, place: str) -> Declaration:
    """What is said of a place: by its own YAML file, or by NAME.yaml in it or beside it."""
    from harness.data.own_source import kind_of  # loads numpy

    path = home(place)
    if path.suffix in (".yaml", ".yml"):
        said = _yaml(name, path)
        if PATH not in said:
            raise UserError(f"{path} does not say where the data are; add a line {PATH}: FILE, FOLDER or hub:DATASET")
        made = Declaration(name, said.pop(PATH), _checked(str(path), said), str(path.parent))
        kind_of(made)
        return made
    made = Declaration(name, place)
    kind_of(made)
    kind = kind_at(path)
    beside = [folder / f"{name}.yaml" for folder in ([path] if kind == "folder" else []) + [path.parent]]
    for file in beside if kind else ():
        if kind_at(file):
            said = _yaml(name, file)
            said.pop(PATH, None)
            return made.given(_checked(str(file), said))
    return made


def _yaml(name: str, path: Path) -> dict[str, str]:
    """What a YAML file says, as it is written there: its "yes" is no truth value, nor "01" a number."""
    import yaml

    kind_at(path)  # of a pipe nothing might ever come
    try:
        found = yaml.compose(path.read_bytes(), yaml.SafeLoader)
    except OSError as error:
        raise cannot_read(path, error) from error
    except (yaml.YAMLError, ValueError, RecursionError) as error:
        raise UserError(f"{path} is not YAML: {' '.join(str(error).split())}") from error
    if not isinstance(found, yaml.MappingNode) or not all(isinstance(key, yaml.ScalarNode) for key, _ in found.value):
        raise UserError(f"{path} must describe task {name} with one setting a line, as in text: review")
    said: dict[str, str] = {}
    for key, node in found.value:
        where = f"{path}, line {key.start_mark.line + 1}: {key.value}"
        values = node.value if isinstance(node, yaml.SequenceNode) else [node]
        if not all(isinstance(value, yaml.ScalarNode) and value.value for value in values) or not values:
            raise UserError(f"{where} must be followed by text, a number or a list of them")
        if key.value in said:
            raise UserError(f"{where} appears twice")
        said[key.value] = _text([value.value for value in values] if values is node.value else node.value)
    return said


def _checked(who: str, settings: Mapping[str, str]) -> Mapping[str, str]:
    for setting in settings:
        if setting not in SETTINGS:
            name = setting if "/" in who or who.endswith((".yaml", ".yml")) else f"{who}.{setting}"
            raise UserError(f"unknown setting {name!r} of own data: {near(setting, SETTINGS, limit=len(SETTINGS))}")
        value = settings[setting]
        if spoilt(value) or (setting == "title" and [value.strip()] != value.strip().splitlines()):
            raise UserError(f"{setting} of {who} must be text{' on one line' * (setting == 'title')}, not {value!r}")
    return settings


def _text(value: object) -> str:
    """A value of a setting as `--set` takes it. Raises UserError for a name in a list that this would part."""
    if not isinstance(value, (list, tuple)):
        return str(value)
    for name in map(str, value):
        if "," in name:
            raise UserError(f"{name!r} contains a comma, which separates names: rename it")
    return ",".join(map(str, value))
