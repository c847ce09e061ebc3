"""The actor on the driver's machine: hands out the files that runs need, and takes in what they write."""

from __future__ import annotations

import filecmp
import os
import queue
import re
import shutil
from pathlib import Path

from harness.files import cannot_write, sync_folder
from harness.ledger import Stamp
from harness.runs.told import Entry

CHUNK = 64 << 20  # bytes that travel at once: what Ray's object store and both processes must have room for
BATCH = 100  # entries told at once
ALONE = ".alone.tmp"  # what a single file is called that is put aside, as none of a folder is
NO_PART = re.compile(r"\.exchanged\.json|\..*\.tmp|\.(.*\.)?lock|\.git")  # names of what a folder holds beside its own


def clear(out: Path) -> None:
    """Remove what a driver that was killed left. Before the depot begins: Ray may start that again."""
    for part in out.glob("cache/**/.*.incoming.tmp"):
        shutil.rmtree(part, ignore_errors=True)
    for mark in out.glob(".seen-*.tmp"):
        mark.unlink(missing_ok=True)


class Depot:
    """Everything lies on disk under `out` but the count of deaths and what is being told: either may be lost.

    Methods are called by many threads at once. Those that touch the disk raise UserError if it is full.
    """

    def __init__(self, out: str):
        self.out = Path(out)
        self._entries: queue.SimpleQueue[tuple[str, Entry | None] | None] = queue.SimpleQueue()
        self._begun: dict[str, int] = {}

    # ------------------------------------------------------------ what is told

    def begin(self, run: str) -> int:
        """A run is begun, or begun again. Returns how often it was since its last checkpoint."""
        for part in (self.out / "ledger" / run).glob(".*.incoming.tmp"):  # of a worker that is gone
            shutil.rmtree(part, ignore_errors=True)
        self._begun[run] = self._begun.get(run, 0) + 1
        self._entries.put((run, None))
        return self._begun[run]

    def tell(self, run: str, entry: Entry) -> None:
        """Pass on how a run goes."""
        if entry.get("saved"):  # any other progress is lost with the worker, and would be made for ever
            self._begun.pop(run, None)
        self._entries.put((run, entry))

    def news(self) -> list[tuple[str, Entry | None]]:
        """(run, entry) as told since the last call, the entry None where the run was begun.

        Waits until there is something, and returns nothing after `end`.
        """
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
        place = self._aside(path, sender) / (name or ALONE)
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
            if not aside.is_dir():  # Ray asks again where the answer was lost: it is kept already
                return self.stamps(path)
            place.parent.mkdir(parents=True, exist_ok=True)
            if (aside / ALONE).is_file():
                os.replace(aside / ALONE, place)
            elif whole:
                if not _same(aside, place):  # otherwise two attempts made it, and somebody may read the first's
                    shutil.rmtree(place, ignore_errors=True)
                    os.replace(aside, place)
            else:
                place.mkdir(exist_ok=True)
                for file in sorted(aside.iterdir(), key=lambda file: file.name == "index.json"):
                    there = place / file.name
                    # What two nodes made at once is the same: with its old stamp nobody fetches it again.
                    if not (there.is_file() and filecmp.cmp(file, there, shallow=False)):
                        os.replace(file, there)
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
    own = [name for name in files if not any(NO_PART.fullmatch(part) for part in Path(name).parts)]
    return {name: _stamp(files[name]) for name in own}


def _same(one: Path, other: Path) -> bool:
    """True if both folders hold the same files."""
    names = stamps_of(one)
    same = (filecmp.cmp(one / name, other / name, shallow=False) for name in names)
    return names.keys() == stamps_of(other).keys() and all(same)


def _stamp(file: Path) -> Stamp:
    status = file.stat()
    return status.st_mtime_ns, status.st_size
