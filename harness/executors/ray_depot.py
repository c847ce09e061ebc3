"""The actor on the driver's machine: hands out the files that runs need, and takes in what they write."""

from __future__ import annotations

import os
import queue
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from harness.ledger import cannot_write, sync_folder

CHUNK = 64 << 20  # bytes that travel at once: what Ray's object store and both processes must have room for
Stamp = tuple[int, int]  # a file's size and time of change in ns
BATCH = 100  # entries told at once


class Depot:
    """Everything lies on disk under `out` but the count of deaths and what is being told: either may be lost.

    Methods are called by many threads at once. Those that touch the disk raise UserError if it is full.
    """

    def __init__(self, out: str):
        self.out = Path(out)
        for part in self.out.glob("cache/**/.*.incoming.tmp"):  # left by a driver that was killed
            shutil.rmtree(part, ignore_errors=True)
        self._entries: queue.SimpleQueue[tuple[str, Mapping[str, Any]] | None] = queue.SimpleQueue()
        self._begun: dict[str, int] = {}

    # ------------------------------------------------------------ what is told

    def begin(self, run: str) -> int:
        """A worker takes up a run. Returns how often one has since the run last finished an epoch."""
        for part in (self.out / "ledger" / run).glob(".*.incoming.tmp"):  # of a worker that is gone
            shutil.rmtree(part, ignore_errors=True)
        self._begun[run] = self._begun.get(run, 0) + 1
        return self._begun[run]

    def tell(self, run: str, entry: Mapping[str, Any]) -> None:
        """Pass on how a run goes."""
        if "step" not in entry:  # progress within an epoch is lost with the worker
            self._begun.pop(run, None)
        self._entries.put((run, entry))

    def news(self) -> list[tuple[str, Mapping[str, Any]]]:
        """What was told since the last call; waits until something is, and returns nothing after `end`."""
        found = [self._entries.get()]
        while len(found) < BATCH and not self._entries.empty():
            found.append(self._entries.get())
        if None in found:
            self._entries.put(None)  # whoever asks again hears it again
        return [entry for entry in found if entry is not None]

    def end(self) -> None:
        """The driver listens no more."""
        self._entries.put(None)

    # ------------------------------------------------------------ files

    def stamps(self, path: str) -> dict[str, Stamp]:
        """Relative name -> stamp of the files in a folder that are whole; of a single file, its name is ""."""
        return stamps_of(Path(path))

    def read(self, path: str, start: int) -> bytes:
        """At most CHUNK bytes of a file from `start` on; none at its end."""
        with open(path, "rb") as file:
            file.seek(start)
            return file.read(CHUNK)

    def write(self, path: str, sender: str, name: str, start: int, content: bytes) -> None:
        """Put a part of the file `name` of what becomes the folder (or, if name is "", the file) `path` aside."""
        place = self._aside(path, sender) / (name or "file")
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            with open(place, "r+b" if start else "wb") as file:
                file.seek(start)
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise cannot_write(Path(path), error) from error

    def keep(self, path: str, sender: str, whole: bool) -> dict[str, Stamp]:
        """Give what was put aside its name; returns `stamps` of it.

        whole: it takes the place of a folder that has that name; otherwise its files are added, index.json last.
        """
        aside, place = self._aside(path, sender), Path(path)
        try:
            place.parent.mkdir(parents=True, exist_ok=True)
            if (aside / "file").is_file():
                os.replace(aside / "file", place)
            elif whole:
                shutil.rmtree(place, ignore_errors=True)  # of a run whose driver was killed before it recorded it
                os.replace(aside, place)
            else:
                place.mkdir(exist_ok=True)
                for file in sorted(aside.iterdir(), key=lambda file: file.name == "index.json"):
                    os.replace(file, place / file.name)
                sync_folder(place)
            sync_folder(place.parent)
        except OSError as error:
            raise cannot_write(place, error) from error
        finally:
            shutil.rmtree(aside, ignore_errors=True)
        return self.stamps(path)

    def _aside(self, path: str, sender: str) -> Path:
        place = Path(path)
        return place.with_name(f".{place.name}.{sender}.incoming.tmp")


def stamps_of(place: Path) -> dict[str, Stamp]:
    """See `Depot.stamps`; nothing of what does not exist."""
    if place.is_file():
        return {"": _stamp(place)}
    files = {str(file.relative_to(place)): file for file in sorted(place.rglob("*")) if file.is_file()}
    hidden = {name for name in files if any(part.startswith(".") for part in Path(name).parts)}
    return {name: _stamp(file) for name, file in files.items() if name not in hidden}


def _stamp(file: Path) -> Stamp:
    status = file.stat()
    return status.st_size, status.st_mtime_ns
