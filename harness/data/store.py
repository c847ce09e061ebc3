"""What is made once and kept in the cache for every run that asks for the same: there whole, or made again."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from typing import Any

from harness.files import cannot_write, checksum, digest, read_sealed, trouble_with, write_sealed
from harness.locks import lock_of_machine

INDEX = "index.json"
Once = Callable[[Path], AbstractContextManager[None]]


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Hold a folder of the cache on this machine: the first process fills it, the others wait and find it done.

    Raises UserError if it cannot be written.
    """
    with ExitStack() as held:
        try:
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(lock_of_machine(folder / ".lock"))
        except OSError as error:
            raise cannot_write(folder, error) from error
        yield


class Store:
    """A folder of files, each written whole, and an index, written after them, that vouches for their checksums.

        with store.held("vectors.f32") as whole:
            if not whole:
                width = write(store.folder / "vectors.f32")
                store.vouch("vectors.f32", width=width)

    told: what the index tells, its key among that, checked by `held`; {} of what was never made, or whose index is
    damaged.
    """

    def __init__(self, room: Path, key: Any, once: Once = alone):
        """room: a folder of the cache. key: JSON that decides all that is made. once: holds a folder, see `alone`."""
        self.folder, self._once, self._key = room / digest(key)[:16], once, key
        self.told: dict[str, Any] = {}

    @contextmanager
    def held(self, *names: str) -> Iterator[bool]:
        """Hold the store: of all who ask, one makes it. Gives True if the index vouches for the files `names`."""
        with self._once(self.folder):
            self._sweep()  # of a process that was killed while it wrote
            self.told = read_sealed(self.folder / INDEX)
            if not self.told and (self.folder / INDEX).exists():
                self._tell(f"are damaged ({INDEX})")
            try:
                yield bool(self.told) and all(map(self.vouches, names))
            finally:
                self._sweep()  # where the disk is full it is wanted for other things

    def _sweep(self) -> None:
        """Remove what is half written."""
        for part in self.folder.glob(".*.tmp"):
            part.unlink(missing_ok=True)

    def vouches(self, name: str) -> bool:
        """True if a file is there as the index has it. If it was, and is not any more, that is told."""
        recorded = self.told.get("files", {}).get(name)
        trouble = trouble_with(self.folder, {name: recorded}) if recorded else ""
        if trouble:
            self._tell(trouble)
        return bool(recorded) and not trouble

    def lists(self, name: str) -> bool:
        """True if the index has a file that is there; whether it is as it was, `vouches` reads it for."""
        return name in self.told.get("files", {}) and (self.folder / name).is_file()

    def vouch(self, *names: str, **told: Any) -> None:
        """Vouch for the files `names`, which are written, beside those vouched for before; `told` stands with them."""
        files = {name: checksum(self.folder / name) for name in names}
        self.told = {**self.told, **told, "key": self._key, "files": {**self.told.get("files", {}), **files}}
        write_sealed(self.folder / INDEX, self.told)

    def _tell(self, trouble: str) -> None:
        print(f"harness: the files of {self.folder} {trouble} and are made again", file=sys.stderr, flush=True)
