"""Locks between processes, also on file systems that lock no files, such as Lustre without its option flock."""

from __future__ import annotations

import errno
import fcntl
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from harness.files import digest
from harness.folders import LOCK, MARKER

if TYPE_CHECKING:
    from filelock import BaseFileLock

_NONE = {errno.ENOSYS, errno.EOPNOTSUPP}


def lock_of_machine(path: Path) -> BaseFileLock:
    """A lock for the processes of this machine, which dies with its process.

    Of several machines too where the file system locks files. Raises OSError where the path cannot be written.
    """
    from filelock import FileLock

    if locks_files(path):
        return FileLock(path)
    # A marker in the place of a lock outlives a killed process on another machine, and whoever waits, waits for ever.
    name = f"distill-harness-{os.getuid()}-{digest(str(path.resolve()))[:16]}.lock"
    return FileLock(Path(tempfile.gettempdir()) / name)


def lock_of_folder(folder: Path) -> BaseFileLock:
    """The lock of a folder that one process of all machines works in. Raises OSError where it cannot be written."""
    from filelock import FileLock, SoftFileLock

    # The marker has a name of its own, as a LOCK may have come with a copy of the folder.
    return FileLock(folder / LOCK) if locks_files(folder / LOCK) else SoftFileLock(folder / MARKER)


def holder(lock: BaseFileLock) -> str:
    """Who holds a folder by a marker, and what to do where it is gone: the end of a sentence. "" of other locks."""
    from filelock import SoftFileLock

    if not isinstance(lock, SoftFileLock):
        return ""
    try:
        process, machine, *_ = Path(lock.lock_file).read_text(encoding="utf-8").split()
    except (OSError, ValueError):  # of a moment in which it was released, or that it was not written in
        process, machine = "unknown", "unknown"
    return (
        f"; by {lock.lock_file} it is process {process} on machine {machine}: this file system locks no "
        "files, so where that process was killed, delete this file"
    )


def locks_files(path: Path) -> bool:
    """Whether the file system of a path locks files."""
    handle = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_UN)  # what holds nothing is in nobody's way
    except OSError as error:
        if error.errno in _NONE:
            return False
        raise
    finally:
        os.close(handle)
    return True
