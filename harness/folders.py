"""Which folders hold results, and which may begin to."""

from __future__ import annotations

import os
from pathlib import Path

from harness.errors import UserError

STRAY = (".DS_Store", "Thumbs.db", "desktop.ini", "lost+found")  # what systems leave in any folder
ARCHIVES = {".zip": "zip", ".tar": "tar", ".tar.gz": "gztar", ".tgz": "gztar"}  # what is written, as shutil calls it
OTHERS = (".gz", ".bz2", ".xz", ".7z", ".rar", ".zst")  # endings of archives that are not written
LOCK, MARKER = ".lock", ".driver"  # of who works in a folder; the second where the file system locks no files


def holds_results(out: Path) -> bool:
    """True for a folder of results. Raises UserError for a file, and a folder that cannot be read."""
    return "harness.json" in names(out)


def check_free(out: Path) -> None:
    """Raise UserError unless a folder that holds no results may become one that does."""
    if any(name not in (LOCK, MARKER, *STRAY) and not name.endswith(".tmp") for name in names(out)):
        raise UserError(f"{out} holds files that are not results; give an empty folder")


def names(out: Path) -> list[str]:
    """What is in a folder; nothing where there is none. Raises UserError for a file, and what cannot be read."""
    try:
        return os.listdir(out)
    except FileNotFoundError:
        if out.is_symlink():
            raise UserError(f"{out} is a link to something that does not exist") from None
        return []
    except NotADirectoryError as error:
        packed = ": unpack it, and give what was in it" * out.name.endswith((*ARCHIVES, *OTHERS))
        raise UserError(f"{out} is a file, not a folder{packed}") from error
    except OSError as error:
        raise cannot_read(out, error) from error


def cannot_read(path: Path, error: OSError) -> UserError:
    return UserError(f"{path} cannot be read: {error.strerror or error}")
