"""The checkpoint of an interrupted run: a file that vouches for itself and its run, or is set aside with a sentence."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any, BinaryIO

import torch

from harness.files import atomic_file

NAME = "checkpoint.pt"
ASIDE = "checkpoint.damaged.pt"
_SUM = b"sha256:"  # the file ends with this and the hexadecimal digest of all that stands before it
_END = len(_SUM) + 64


class _Summed:
    """A file that torch writes to: its checksum so far, and what the system said if it could not be written."""

    def __init__(self, file: BinaryIO):
        self.file, self.sum = file, hashlib.sha256()
        self.error: OSError | None = None

    def write(self, content: Any) -> int:
        self.sum.update(content)
        try:
            return self.file.write(content)
        except OSError as error:
            self.error = error
            raise

    def flush(self) -> None:
        self.file.flush()


def write(path: Path, form: str, state: dict[str, Any]) -> None:
    """Put a run's checkpoint in the place of the one before. form: names what `state` holds, and its version.

    Raises UserError if the disk is full or the place cannot be written.
    """
    with atomic_file(path) as file:
        summed = _Summed(file)
        try:
            torch.save({**state, "format": form, "run": path.parent.name}, summed)  # type: ignore[arg-type]
        except RuntimeError as error:  # torch's own text says only at which byte it was
            raise summed.error or OSError(errno.EIO, os.strerror(errno.EIO)) from error
        file.write(_SUM + summed.sum.hexdigest().encode())


def read(path: Path, form: str, tell: Callable[[dict[str, Any]], None]) -> dict[str, Any] | None:
    """What `write` was given, on the CPU, or None where there is none. Loaded as data only.

    A file that is damaged, another run's, or written by another version is set aside; `tell` gets a note of it, and
    the run starts over.
    """
    try:
        raw = path.read_bytes()
    except FileNotFoundError:
        return None
    content = memoryview(raw)[:-_END]
    why = ""
    if raw[-_END:] != _SUM + hashlib.sha256(content).hexdigest().encode():
        why = "is damaged or written by another version"
    else:
        try:
            state: dict[str, Any] = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
            why = "was written by another version" if state["format"] != form else ""
            why = "is another run's" if not why and state["run"] != path.parent.name else why
        except (RuntimeError, EOFError, ValueError, KeyError, TypeError, pickle.UnpicklingError):
            why = "cannot be read"  # whole, but no checkpoint
    if not why:
        return state
    os.replace(path, path.with_name(ASIDE))
    run = path.parent.name
    tell({"note": f"the checkpoint of run {run} {why}: it is set aside as {ASIDE}, and the run starts over"})
    return None
