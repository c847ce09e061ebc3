"""Arguments given in Python as the words of a command: what the command line takes and refuses, so do they."""

from __future__ import annotations

import inspect
import os
from argparse import Action, Namespace
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness.cli import arguments_of, parser
from harness.errors import UserError, check_known, check_path
from harness.notebook.data import folder_in
from harness.notebook.written import files_of, named
from harness.plugin_code import check_unchanged
from harness.registry import load_file

OBJECTS = {"study", "objectives", "students", "teacher", "tasks"}  # which may be given as what they name


def options(command: str, arguments: Mapping[str, Any]) -> Namespace:
    """What the command's parser makes of these arguments; None is as if it were not given.

    What a notebook defines and gives as an object is written into a plugin file under the folder of results. Raises
    UserError as the command line does, and for an argument that it has not.
    """
    known = arguments_of(command)
    for name in arguments:
        check_known("argument", name, known)
    given = {name: value for name, value in arguments.items() if value is not None}
    if isinstance(tried := given.get("search"), Mapping):
        given["search"] = {key: ",".join(map(_plain, several(values))) for key, values in tried.items()}
    for name, value in given.items():
        _refuse_data(name, value)
    if "out" in given:
        check_path(out=given["out"])
    given |= {name: named(given[name]) for name in OBJECTS & given.keys()}
    if "plugin" in known:
        files: list[Any] = []
        objects: list[Any] = []
        for plugin in several(given.pop("plugin", ())):
            if isinstance(plugin, (int, float)):
                raise UserError(f"plugin is a file or what was defined here, not {plugin!r}")
            (files if isinstance(plugin, (str, os.PathLike)) else objects).append(plugin)
        for path in files:
            load_file(path)
        folder = folder_in(Path(given.get("out", known["out"].default)), "plugins") if command == "run" else None
        said = (value for name, value in given.items() if name != "out")  # a folder may be called as a plugin
        files += files_of([*map(named, objects), *said], folder)
        check_unchanged(files)
        given |= {"plugin": list(dict.fromkeys(map(str, files)))} if files else {}
    words = [word for name, value in given.items() for word in _words(known[name], value)]
    return parser().parse_args([command, *words])


def _refuse_data(name: str, value: Any) -> None:
    """Raise UserError for data held in memory where the command line has a word; they are not shown."""
    tasks = name == "tasks"
    if not (tasks or isinstance(value, Mapping)):
        return
    parts = value.values() if isinstance(value, Mapping) else value if isinstance(value, (list, tuple)) else [value]
    for part in parts:
        if isinstance(part, Iterable) and not isinstance(part, (str, os.PathLike)):
            takes = "names, NAME=FILE and {NAME: FILE}" if tasks else "text and numbers"
            rather = ": give data in memory to harness.distil, or write them into a CSV" if tasks else ""
            raise UserError(f"{name} takes {takes}, not a {type(part).__name__}{rather}")


def signature(command: str) -> inspect.Signature:
    """The command's arguments as a function has them: its study, which is the first, by its place too."""
    parameters = [
        inspect.Parameter(
            name,
            inspect.Parameter.POSITIONAL_OR_KEYWORD if name == "study" else inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if action.required else action.default,
        )
        for name, action in arguments_of(command).items()
    ]
    return inspect.Signature(parameters)


def choosing() -> list[str]:
    """The arguments of run that report has too, but for study, profile and out."""
    seen = arguments_of("report").keys() - {"study", "profile", "out"}
    return [name for name in arguments_of("run") if name in seen]


def told(command: str) -> str:
    """A line on each of the command's arguments, for a docstring."""
    return "\n".join(f"    {name}: {action.help or name}" for name, action in arguments_of(command).items())


def _words(action: Action, value: Any) -> list[str]:
    """The argument as the command line has it: --set epochs=2 for {"epochs": 2}."""
    if not action.option_strings:
        return [_word(action, value)]
    flag = action.option_strings[-1]
    if action.nargs == 0:
        if not isinstance(value, bool):
            raise UserError(f"{action.dest} is True or False, not {value!r}")
        return [flag] * value
    if action.nargs == "+":
        words = [_word(action, part) for part in several(value)]
        if not words:
            raise UserError(f"{action.dest} is empty: name something, or leave it out")
        return [flag, *words]
    return [f"{flag}={_word(action, value)}"]


def several(value: Any) -> list[Any]:
    """The parts of an argument that may be given alone."""
    if isinstance(value, Mapping):
        return [f"{key}={_plain(part)}" for key, part in value.items()]
    if isinstance(value, (str, os.PathLike)) or not isinstance(value, Iterable):
        return [value]
    return list(value)


def _word(action: Action, value: Any) -> str:
    if isinstance(value, (str, int, float, os.PathLike)):
        return _plain(value)
    if isinstance(value, (list, tuple)) and action.nargs == "+":
        return ",".join(map(_plain, value))  # inits=[[1, 8, 12]]
    raise UserError(
        f"{action.dest} takes what --{action.dest.replace('_', '-')} does, as text or number, not {value!r}"
    )


def _plain(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) or value is None else str(value)
