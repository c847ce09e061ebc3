"""Folders in the system's temporary one that outlive no process for longer than until the next start."""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
import uuid
from contextlib import ExitStack, suppress
from pathlib import Path

from harness.errors import UserError

PREFIX = "distill-harness-"
REMNANT = f"{PREFIX}remnant-"  # of a folder that is being removed


def place() -> Path:
    """The system's temporary folder. Raises UserError where there is none that can be written."""
    try:
        return Path(tempfile.gettempdir())
    except FileNotFoundError as error:
        raise UserError(f"TMPDIR must name a folder that can be written: {error.strerror}") from error


def new(name: str) -> Path:
    """A path in the temporary folder that `sweep` looks after. Short: Ray makes sockets far below it."""
    return place() / f"{PREFIX}{name}"


def hold(folder: Path) -> int:
    """Make the folder if it is not there and keep `sweep` from it until the descriptor returned is closed."""
    while True:
        with suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        # At any of these steps another process may take it for a folder of nobody and remove it.
        with suppress(FileNotFoundError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                raise UserError(f"{folder} belongs to another user")
            return _lock(folder, fcntl.LOCK_SH)


def _lock(folder: Path, how: int) -> int:
    """A descriptor that has the folder locked. Raises OSError if it is removed meanwhile, or locked by others."""
    with ExitStack() as undo:
        handle = os.open(folder / ".held", os.O_CREAT | os.O_RDWR)
        undo.callback(os.close, handle)
        fcntl.flock(handle, how)
        if not os.path.samestat(os.fstat(handle), (folder / ".held").stat()):
            raise FileNotFoundError(folder)
        undo.pop_all()
    return handle


def sweep() -> None:
    """Remove the folders of this machine whose processes are gone, multiprocessing's too: those that were ever held.

    A folder that merely has such a name, of results perhaps, is nobody's to remove.
    """
    within = place()
    held = [path.parent for name in (PREFIX, "pymp-") for path in within.glob(f"{name}*/.held")]
    for folder in {*held, *within.glob(f"{REMNANT}*")}:  # a remnant may have lost what held it
        with suppress(OSError):  # another user's, or another worker removes it
            handle = _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
            try:
                # Whoever makes the folder anew meanwhile gets one that nothing is removed from.
                shutil.rmtree(folder.rename(folder.with_name(f"{REMNANT}{uuid.uuid4().hex}")))
            finally:
                os.close(handle)
