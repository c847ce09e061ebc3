"""What every objective, student and task must hold to: `python -m harness.testing FILE` tries the plugins of a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.plugin_code import files
from harness.registry import ALL, OBJECTIVES, STUDENTS, TASKS, Registry, load_file

FILES = "HARNESS_TEST_PLUGINS"  # the environment variable that names plugin files, separated as in PATH


def chosen(kind: Registry[Any]) -> list[str]:
    """The plugins of one kind that are tested: those of the files in HARNESS_TEST_PLUGINS, or else every one.

    Of a file that registers nothing itself, such as the `__init__.py` of a package, those of what it imports beside it.
    Raises UserError where the files have nothing that is tested.
    """
    given = [Path(path).resolve() for path in os.environ.get(FILES, "").split(os.pathsep) if path]
    for path in given:
        load_file(path)
    found = {each: {name: Path(each.origin(name)).resolve() for name in each.names()} for each in ALL.values()}
    own = {origin for names in found.values() for origin in names.values()}
    meant = {file for path in given for file in ([path] if path in own else files(str(path)))}
    if given and not any(meant & {*found[each].values()} for each in (OBJECTIVES, STUDENTS, TASKS)):
        what = " and ".join(map(str, given))
        raise UserError(f"{what} register no objective, student or task, and only these are tested")
    return [name for name, origin in found[kind].items() if not given or origin in meant]
