"""What is at a path that somebody named, a file, a folder or nothing, and what no text holds."""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import NoReturn

from harness.errors import UserError
from harness.folders import cannot_read

_HALF = re.compile("[\ud800-\udfff]")  # of a pair of code units: no encoding can write it


def kind_at(path: Path) -> str:
    """ "file" or "folder", through links; "" where there is nothing.

    Raises UserError for a link to nothing, what may not be looked at, and what is neither, such as a pipe.
    """
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise UserError(f"{path} is a link to {os.path.realpath(path)}, which does not exist") from None
        return ""
    except OSError as error:
        refuse_unread(error, path)
    except ValueError as error:
        raise UserError(f"{str(path)!r} contains a NUL character, which no path can") from error
    if stat.S_ISDIR(mode):
        return "folder"
    if not stat.S_ISREG(mode):
        raise UserError(f"{path} is a pipe or a device, but data are read more than once: give a file")
    return "file"


def entries(folder: Path) -> list[Path]:
    """What is in a folder, sorted. Raises UserError where it cannot be read."""
    try:
        return sorted(folder.iterdir())
    except OSError as error:
        refuse_unread(error, folder)


def home(place: str) -> Path:
    """The path with "~" as the folder of a user; as it stands where there is no such user."""
    return Path(os.path.expanduser(place))


def halved(text: str) -> bool:
    """Whether it holds half a character, as "\\ud800" in JSON is."""
    return not text.isascii() and bool(_HALF.search(text))


def spoilt(text: str) -> str:
    """What a text holds that none should, as the rest of a sentence; "" where it is sound."""
    if "\0" in text:
        return "contains a NUL character, so the file is damaged or not text"
    return "contains half a character, such as \\ud800 without its other half" if halved(text) else ""


def refuse_unread(error: OSError, path: Path | None = None) -> NoReturn:
    """Raise the UserError of a path, or of the one that the error names."""
    raise cannot_read(path or Path(error.filename), error) from error
