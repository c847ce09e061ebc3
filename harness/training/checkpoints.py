"""The checkpoint of an interrupted run: a file that vouches for itself, its run and the code that wrote it, or is set
aside with a sentence."""

from __future__ import annotations

import errno
import hashlib
import io
import os
import pickle
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, BinaryIO

import torch

from harness.code_versions import of_run
from harness.files import atomic_file, digest
from harness.ledger import CHECKPOINT
from harness.runs import Run
from harness.runs.told import Entry, State
from harness.training import machine
from harness.training.workspace import Workspace

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


@dataclass(frozen=True)
class Checkpoint:
    """Where a run's state is written while it trains, a digest of the code that trains it, and on what: cpu or cuda."""

    path: Path
    code: str
    device: str = field(default="cpu", kw_only=True)

    def write(self, state: State) -> None:
        """Put this one in the place of the one before. Raises UserError if the disk is full or cannot be written."""
        with atomic_file(self.path) as file:
            summed = _Summed(file)
            whose = {"run": self.path.parent.name, "code": self.code, "device": self.device}
            try:
                torch.save({**state, **whose}, summed)  # type: ignore[arg-type]
            except RuntimeError as error:  # torch's own text says only at which byte it was
                raise summed.error or OSError(errno.EIO, os.strerror(errno.EIO)) from error
            file.write(_SUM + summed.sum.hexdigest().encode())

    def read(self, tell: Callable[[Entry], None]) -> State | None:
        """What `write` was given, on the CPU, or None where there is none. Loaded as data only.

        A file that is damaged, another run's, or written by other code or on another kind of device, whose random
        states are none here, is set aside; `tell` gets a note of it, and the run starts over.
        """
        try:
            raw = self.path.read_bytes()
        except FileNotFoundError:
            return None
        content, run = memoryview(raw)[:-_END], self.path.parent.name
        try:
            if raw[-_END:] != _SUM + hashlib.sha256(content).hexdigest().encode():
                why = "is damaged or written by another version"
            else:
                state: State = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
                if state["run"] != run:
                    why = "belongs to another run"
                elif state["code"] != self.code:
                    why = "was written by another version of the code"
                elif state["device"] != self.device:
                    why = f"was written on another kind of device ({state['device']})"
                else:
                    return state
        except (RuntimeError, EOFError, ValueError, KeyError, TypeError, pickle.UnpicklingError):
            why = "cannot be read"  # whole, but no checkpoint
        os.replace(self.path, self.path.with_name(ASIDE))
        tell({"note": f"the checkpoint of run {run} {why}: it is set aside as {ASIDE}, and the run starts over"})
        return None


def checkpoint_of(run: Run, workspace: Workspace) -> Checkpoint:
    """The checkpoint of a run, which whoever trains it reads and writes."""
    return Checkpoint(workspace.run / CHECKPOINT, digest(of_run(run)), device=machine.device().type)


class Timer:
    """Tells when so many seconds of the clock have passed."""

    def __init__(self) -> None:
        self.then = time.monotonic()

    def due(self, seconds: float) -> bool:
        """True if so many seconds have passed since it was last true."""
        if time.monotonic() - self.then < seconds:
            return False
        self.then = time.monotonic()
        return True
