"""Which files elsewhere the code of a user's plugin reads during a run: its record tells them, as it tells of code.

Nothing in a plugin's text says what a variable, or the folder that a command is given in, leads to. A file that a
library opens without Python, as safetensors does, is not seen.
"""

from __future__ import annotations

import os
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness import code_versions, plugin_code
from harness.files import checksum
from harness.plugin_code import others
from harness.runs import Run

SYSTEM = ("/proc/", "/sys/", "/dev/")
_opened: Opened | None = None  # of the run that this process is at
_hooked = False  # for good: a hook cannot be taken away again


class Opened:
    """What this process opens, and by whose code."""

    def __init__(self) -> None:
        self._ours = tuple(f"{os.path.realpath(folder)}{os.sep}" for folder in plugin_code.our_folders())
        self._read: dict[str, tuple[tuple[int, int], set[str]]] = {}  # path -> as it was then, and the callers' files
        self._written: set[str] = set()

    def note(self, path: str, writes: bool) -> None:
        """Note a file that is being opened. Raises nothing."""
        with suppress(OSError, ValueError):
            path = os.path.realpath(path)
            if writes:
                self._written.add(path)
            elif os.path.isfile(path):
                status = os.stat(path)
                _, callers = self._read.setdefault(path, ((status.st_mtime_ns, status.st_size), set()))
                callers |= self._callers()

    def _callers(self) -> set[str]:
        """The files of the functions that led to this, up to the engine's, which opens what it was told of."""
        frame, found = sys._getframe(3), set()
        while frame and not (file := frame.f_code.co_filename).startswith(self._ours):
            found.add(file)
            frame = frame.f_back  # type: ignore[assignment]
        return found

    def by_plugins(self, run: Run) -> dict[str, str]:
        """{whole path: checksum, "" of one that was edited since} of what code of the user's plugins in a run has read.

        Not what is a part of them (`plugin_code.files`), nor modules, nor what Python and what is installed come with,
        nor what the run has written itself.
        """
        origins = {known.origin(name) for known, name in code_versions.plugins(run) if not known.ships(name)}
        code = {os.path.realpath(file) for origin in origins for file in plugin_code.modules(origin)}
        parts = {os.path.realpath(file) for origin in origins for file in plugin_code.files(origin)}
        said = {}
        for path, (stamp, callers) in sorted(self._read.items()):
            if path in parts | self._written or not code.intersection(map(os.path.realpath, callers)):
                continue
            if path.endswith((".py", ".pyc")) or path.startswith((*self._ours, *SYSTEM)) or others(Path(path)):
                continue
            with suppress(OSError):  # it is gone
                status = os.stat(path)
                said[path] = checksum(Path(path)) if (status.st_mtime_ns, status.st_size) == stamp else ""
        return said


def begin() -> Opened:
    """What this process opens from now on, until `end`."""
    global _opened, _hooked
    if not _hooked:
        sys.addaudithook(_hook)
    _opened, _hooked = Opened(), True
    return _opened


def end() -> None:
    """Note no more."""
    global _opened
    _opened = None


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "open" and _opened and isinstance(arguments[0], (str, bytes, os.PathLike)):
        flags = arguments[2]
        _opened.note(os.fsdecode(arguments[0]), isinstance(flags, int) and bool(flags & os.O_ACCMODE))
