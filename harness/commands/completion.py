"""Which names could be typed in a shell, for argcomplete: those that `declared` keeps, so that no plugin is loaded."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable
from typing import Any

from harness.commands import declared
from harness.errors import UserError

Completer = Callable[..., list[str]]

# What may stand behind a flag, or in the place of an argument.
OF = {
    "--study": "studies",
    "--objectives": "objectives",
    "--students": "students",
    "--inits": "inits",
    "--tasks": "tasks",
    "--teacher": "teachers",
    "--set": "settings",
    "--search": "settings",
}


def add_to(parser: argparse.ArgumentParser) -> None:
    """Say of every flag of every command which names it takes."""
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for command in {id(each): each for each in action.choices.values()}.values():
                add_to(command)
        for flag in action.option_strings:
            if flag in OF:
                action.completer = _names(OF[flag])  # type: ignore[attr-defined]
        if action.metavar == "KIND":
            action.completer = lambda **asked: sorted(declared.KINDS)  # type: ignore[attr-defined]
        if action.dest == "profile":
            action.completer = _profiles  # type: ignore[attr-defined]


def _names(kind: str) -> Completer:
    def complete(prefix: str, **asked: Any) -> list[str]:
        begun = re.sub(r"[^+*]*$", "", prefix) if kind == "objectives" else ""  # of a sum: "att_kl+0.5*"
        ending = "=" if kind == "settings" else ""
        return [f"{begun}{name}{ending}" for name in _known(kind) if re.match(r"[\w.]+$", name)]

    return complete


def _profiles(**asked: Any) -> list[str]:
    studies = _behind("--study")
    found = (name.split() for name in _known("profiles"))
    return sorted({profile for study, profile in found if study in studies or not studies})


def _known(kind: str) -> list[str]:
    try:
        return declared.names(kind, [os.path.expanduser(path) for path in _behind("--plugin")])
    except UserError:  # a plugin file that is not whole: the command itself tells that
        return []


def _behind(flag: str) -> list[str]:
    """The words typed so far behind a flag: argparse gives none of a line that is not finished."""
    line = os.environ.get("COMP_LINE", "")[: int(os.environ.get("COMP_POINT", "0"))]
    found: list[str] = []
    inside = False
    for word in line.split():
        name, equals, value = word.partition("=")
        if word.startswith("-"):
            inside = name == flag
            found += [value] if inside and equals else []
        elif inside:
            found.append(word)
    return found
