"""What every objective, student and task must hold to: `python -m harness.testing FILE` tries the plugins of a file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from harness.registry import Registry, load_file

FILES = "HARNESS_TEST_PLUGINS"  # the environment variable that names plugin files, separated as in PATH


def chosen(kind: Registry[Any]) -> list[str]:
    """The plugins of one kind that are tested: those of the files in HARNESS_TEST_PLUGINS, or else every one."""
    given = {Path(path).resolve() for path in os.environ.get(FILES, "").split(os.pathsep) if path}
    for path in given:
        load_file(path)
    return [name for name in kind.names() if not given or Path(kind.origin(name)).resolve() in given]
