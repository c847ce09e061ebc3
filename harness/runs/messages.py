"""What is told of a run that is being performed, in the order of things: it began, how it goes, how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from harness.errors import MISTAKE, UserError
from harness.runs.base import RunId
from harness.runs.told import Entry, Record

if TYPE_CHECKING:
    import numpy as np


@dataclass(frozen=True)
class Message:
    run: RunId


@dataclass(frozen=True)
class Began(Message):
    """Its process has started, perhaps once more."""


@dataclass(frozen=True)
class Told(Message):
    """A point of its curve, or progress between two."""

    entry: Entry


@dataclass(frozen=True)
class Noted(Message):
    """Something about how runs are performed, found while this one is."""

    sentence: str


@dataclass(frozen=True)
class Wants(Message):
    """It asks for an exchange of a folder of the cache, and waits. what: fetch or offer, see `workspace.Exchange`."""

    what: str
    folder: Path


@dataclass(frozen=True)
class Finished(Message):
    """predictions: name -> array, of runs that answer tasks."""

    record: Record
    predictions: Mapping[str, np.ndarray] | None


@dataclass(frozen=True)
class Failed(Message):
    """The run alone went wrong; traceback: or the same sentence.

    diverged: it computed what is not finite. crowded: a GPU had too little memory left for it.
    """

    error: str
    traceback: str
    diverged: bool = False
    crowded: bool = False


@dataclass(frozen=True)
class Refused(Message):
    """Bad input, which ends the command. status: see `UserError`."""

    sentence: str
    status: int = MISTAKE

    def error(self) -> UserError:
        return UserError.of(self.sentence, self.status)


@dataclass(frozen=True)
class Died(Message):
    """Its process is gone without a word. code: it exited with it, or minus the signal that killed it."""

    code: int | None
