"""The ledger: one folder a finished run, written atomically, checked on reading."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness.errors import IN_USE, UserError
from harness.files import atomic_write, cannot_write, canonical, read_stamped, remove, sealed, trouble_with, unsealed
from harness.folders import LOCK, cannot_read, check_free, holds_results
from harness.locks import holder, lock_of_folder
from harness.runs import Run
from harness.runs.told import Record

if TYPE_CHECKING:
    import numpy as np

FORMAT = 1
Stamp = tuple[int, int]  # a file's mtime_ns and size
LOG = "log.txt"  # what a run printed, beside its record
CHECKPOINT = "checkpoint.pt"  # of a run that is not finished, there too
KNOWN = ".checksums"  # in the cache: see `note_checksums`
_RUNNING = ".running.json"
MOMENT = 0.2  # seconds that a folder may be held by who only looks whether somebody works there, as `harness status`
_RUN = re.compile("[0-9a-f]{16}")  # the name of a run's folder; whatever else lies beside them is not ours


class Held(UserError):
    """The folder is being worked in."""

    status = IN_USE


class Ledger:
    """The folder of run records. `out` holds `ledger/<run>/`, the teacher cache and a view of each study."""

    def __init__(self, out: Path, create: bool = False):
        """Open the ledger under `out`. Raises UserError if it is absent (unless `create`) or foreign."""
        self.out = out
        self.damaged: dict[str, str] = {}  # run -> what is wrong with its record
        self._records: dict[str, Record | None] = {}
        self._stamps: dict[str, Stamp] = {}
        marker = out / "harness.json"
        mend = f'write {{"format":{FORMAT}}} into it if it is one, or give another'
        if not holds_results(out):
            if (out / "ledger").is_dir():
                raise UserError(f"{marker}, which marks a folder of results, is missing, but {out} holds runs; {mend}")
            if not create:
                start = f"start with harness run --study NAME --out {shlex.quote(str(out))}"
                raise UserError(f"there are no results in {out}: {start}, or give their folder with --out")
            check_free(out)
            atomic_write(marker, canonical({"format": FORMAT}).encode())
        try:
            found = json.loads(marker.read_bytes())["format"]
        except OSError as error:
            raise cannot_read(marker, error) from error
        except (ValueError, KeyError, TypeError) as error:
            raise UserError(f"{marker} is damaged, so {out} cannot be trusted as a results folder; {mend}") from error
        if found != FORMAT:
            raise UserError(
                f"{out} was written in ledger format {found}, this version reads format {FORMAT}; "
                "give another folder"
            )
        try:
            with os.scandir(out / "ledger"):
                pass
        except FileNotFoundError:
            pass  # no run was begun yet
        except OSError as error:
            raise cannot_read(out / "ledger", error) from error

    def folder(self, run: str) -> Path:
        return self.out / "ledger" / run

    def read(self, run: str) -> Record | None:
        """The record of a run, or None if there is none or it is damaged (then `damaged` names it)."""
        if run not in self._records:
            self._records[run] = self._load(run)
        return self._records[run]

    def _load(self, run: str) -> Record | None:
        try:
            status, raw = read_stamped(self._path(run))
            record = unsealed(raw)
            if (whose := record.pop("run", run)) != run:  # older records do not say whose they are
                raise ValueError(f"it is that of run {whose}")
            _check(record)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except (OSError, ValueError, KeyError, TypeError) as error:
            trouble = f"cannot be read ({error.strerror})" if isinstance(error, OSError) else f"is damaged ({error})"
            self.damaged[run] = f"the record of run {run} {trouble} and is ignored; harness run makes it again"
            return None
        self._stamps[run] = status.st_mtime_ns, status.st_size
        return record

    def _path(self, run: str, name: str = "record.json") -> str:
        return f"{self.out}/ledger/{run}/{name}"  # text, because thousands of Path objects take their time

    def stamp(self, run: str) -> Stamp | None:
        """When a run's record was written and its size, without reading it; None where there is none."""
        status = self._status(run)
        return (status.st_mtime_ns, status.st_size) if status else None

    def file_stamps(self, run: str) -> list[tuple[int, ...]]:
        """Of its record and its predictions: inode, size and times, which whoever replaces or edits a file changes."""
        found = self._status(run), self._status(run, "predictions.safetensors")
        return [(s.st_ino, s.st_size, s.st_mtime_ns, s.st_ctime_ns) if s else () for s in found]

    def _status(self, run: str, name: str = "record.json") -> os.stat_result | None:
        with suppress(OSError):
            return os.stat(self._path(run, name))
        return None

    def known(self) -> Iterator[tuple[str, Stamp, Record]]:
        """(run, stamp of its file, record) of every whole record read or written so far."""
        for run, stamp in self._stamps.items():
            record = self._records[run]
            if record is not None:
                yield run, stamp, record

    def write(self, run: str, record: Mapping[str, object], predictions: Mapping[str, np.ndarray] | None) -> None:
        """Store a run that ended: predictions first, then the record that vouches for them.

        The checkpoint of one that is finished goes.
        """
        record = dict(record)
        if predictions is not None:
            whole = packed(predictions)
            atomic_write(self.folder(run) / "predictions.safetensors", whole)
            record["predictions_sha256"] = hashlib.sha256(whole).hexdigest()
        atomic_write(self.folder(run) / "record.json", sealed({**record, "run": run}))
        self.remove_leftovers(run, record)
        self.damaged.pop(run, None)
        self._records[run] = record
        if stamp := self.stamp(run):
            self._stamps[run] = stamp

    def remove_leftovers(self, run: str, record: Record) -> None:
        """Remove what killed processes left beside a record, and the checkpoints of a run that is finished."""
        names = [".*.tmp"]
        if record["status"] == "finished":  # one that failed, at a limit of time perhaps, goes on from its checkpoint
            names.append("checkpoint*.pt")  # one that was set aside, too
        for left in (path for name in names for path in self.folder(run).glob(name)):
            remove(left)

    def forget(self, run: str) -> None:
        """Read a run's record anew when it is asked for: somebody else has written or removed it."""
        for known in (self._records, self._stamps, self.damaged):
            known.pop(run, None)

    def predictions(self, run: str) -> dict[str, np.ndarray] | None:
        """The arrays stored with a run, as `Performed` tells, or None if absent or damaged.

        Earlier versions kept no probabilities.
        """
        from safetensors.numpy import load

        whole = self._predictions(run)
        return load(whole) if whole else None

    def whole(self, run: str) -> Record | None:
        """`read`, but None too where the predictions that belong to the record are missing or damaged."""
        record = self.read(run)
        return None if record is None or self._predictions(run) is None else record

    def _predictions(self, run: str) -> bytes | None:
        """The file that the record vouches for, b"" where it has none; None, named in `damaged`, if that is not it."""
        expected = (self.read(run) or {}).get("predictions_sha256")
        if expected is None:
            return b""
        try:
            with open(self._path(run, "predictions.safetensors"), "rb") as file:
                whole = file.read()
            trouble = "" if hashlib.sha256(whole).hexdigest() == expected else "damaged"
        except FileNotFoundError:
            trouble = "missing"
        except OSError as error:
            trouble = f"not to be read ({error.strerror})"
        if trouble:
            self._note_predictions(run, trouble)
        return None if trouble else whole

    def _note_predictions(self, run: str, trouble: str) -> None:
        self.damaged[run] = f"the predictions of run {run} are {trouble}; harness run makes it again"

    def has_predictions(self, run: str) -> bool:
        """Whether the file that a record vouches for is there, named in `damaged` if not; `whole` reads it."""
        if not (there := os.path.exists(self._path(run, "predictions.safetensors"))):
            self._note_predictions(run, "missing")
        return there

    def trouble_with_weights(self, run: str) -> str:
        """What happened to the weights that a finished run left, or ""; see `trouble_with`."""
        return trouble_with(self.folder(run) / "weights", (self.read(run) or {}).get("weights"))

    def has_weights(self, run: str) -> bool:
        """Whether the files of weights that a finished run left are there; they are read before they are used."""
        folder = self.folder(run) / "weights"
        return all((folder / name).is_file() for name in (self.read(run) or {}).get("weights") or ())

    def runs(self) -> Iterator[str]:
        """Every run that has a folder, finished or not, in order of name."""
        try:
            with os.scandir(self.out / "ledger") as entries:
                named = [entry for entry in entries if _RUN.fullmatch(entry.name)]
                found = sorted(e.name for e in named if e.is_dir(follow_symlinks=False) or os.path.isdir(e.path))
        except FileNotFoundError:
            return
        yield from found

    def interrupted(self, read: Callable[[str], Any] | None = None) -> list[str]:
        """Runs that have no record and left a checkpoint: others begin anew, as those do whose record was lost.

        read: tells of a run what `self.read` would, at less cost.
        """
        found = (run for run in self.runs() if os.path.exists(self._path(run, CHECKPOINT)))
        return [run for run in found if (read or self.read)(run) is None and run not in self.damaged]

    def log(self, run: str) -> str:
        """What the last attempt at a run printed; empty if nothing."""
        try:
            with open(self._path(run, LOG), encoding="utf-8", errors="replace") as file:
                return file.read()
        except FileNotFoundError:
            return ""
        except OSError as error:
            return f"[it cannot be read: {error.strerror}]"

    def note_running(self, since: Mapping[str, tuple[float, str]]) -> None:
        """Say which runs are going on, for `running`: run -> (when it began, in seconds since 1970; what it is).

        It is read while the driver that wrote it lives, so it need not be durable.
        """
        path = self.out / _RUNNING
        try:
            path.with_suffix(".tmp").write_text(json.dumps(since))
            os.replace(path.with_suffix(".tmp"), path)
        except OSError as error:
            raise cannot_write(path, error) from error

    def running(self) -> dict[str, tuple[float, str]]:
        """What `note_running` wrote last. Of a driver that is gone unless `lock` is held."""
        try:
            found = json.loads((self.out / _RUNNING).read_bytes())
        except (FileNotFoundError, ValueError):  # the second of a machine that went down while it was written
            return {}
        return {run: (since, name) for run, (since, name) in found.items()}

    @contextmanager
    def lock(self) -> Iterator[None]:
        """Hold the folder for one driver. The lock dies with its process.

        Raises Held if another holds it, UserError if the folder cannot be written.
        """
        from filelock import Timeout

        try:
            lock = lock_of_folder(self.out)
            lock.acquire(timeout=MOMENT)
        except Timeout as error:
            raise Held(
                f"another harness run is working in {self.out}: wait for it, or give another folder{holder(lock)}"
            ) from error
        except OSError as error:
            raise cannot_write(self.out / LOCK, error) from error
        try:
            for left in (_RUNNING, f"cache/{KNOWN}"):  # of a driver that was killed; of an earlier session
                try:
                    (self.out / left).unlink(missing_ok=True)
                except OSError as error:
                    raise cannot_write(self.out / left, error) from error
            yield
        finally:
            lock.release()

    def is_worked_in(self) -> bool | None:
        """Whether another process holds the folder; None where the lock cannot tell."""
        try:
            with self.lock():
                return False
        except Held:
            return True
        except UserError:
            return None


def packed(predictions: Mapping[str, np.ndarray]) -> bytes:
    """Predictions as they are stored: the same arrays give the same bytes."""
    from safetensors.numpy import save

    return save(dict(predictions))


def _check(record: Any) -> None:
    """Raise ValueError unless a record says what everyone who reads it needs."""
    if not isinstance(record, dict) or record.get("status") not in ("finished", "failed"):
        raise ValueError("it tells no status")
    specification = record.get("specification")
    scored = isinstance(specification, dict) and Run.kind_of(specification).scored
    for name in ("error",) if record["status"] == "failed" else ("metrics", "selection") if scored else ():
        if name not in record:
            raise ValueError(f"it lacks {name}")
