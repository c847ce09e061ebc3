"""Files that are written whole, and vouch for what they hold."""

from __future__ import annotations

import hashlib
import json
import os
import platform
import re
import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache
from glob import escape
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, BinaryIO

from harness.errors import NO_ROOM, UserError, status_of
from harness.folders import cannot_read, names

_WRITER = re.compile(r"\.([0-9]+)(?:-([0-9a-f]{8}))?\.tmp$")  # the end of a name of `half_written`
_DAY = 24 * 3600.0


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal values give equal text."""
    return _CANONICAL.encode(value)


def digest(value: Any) -> str:
    """SHA-256 of `canonical(value)`, hexadecimal."""
    return hashlib.sha256(canonical(value).encode()).hexdigest()


_notes: Path | None = None
NOTED = 1 << 20  # bytes from which a file takes longer to read than the notes


def note_checksums(file: Path) -> None:
    """From now on this process reads nothing for `checksum` that another of this session has read.

    file: the notes of the session, by a file's place, inode, size and times; who begins a session removes them.
    """
    global _notes
    _notes = file


def checksum(path: Path) -> str:
    """SHA-256 of a file, hexadecimal. See `note_checksums`."""
    status = os.stat(path)
    notes = _notes if status.st_size >= NOTED else None
    stamp = [str(path.absolute()), status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    with suppress(OSError):
        if notes and (found := _noted(notes, digest(stamp))):
            return found
    whole = hashlib.sha256()
    with open(path, "rb") as file:
        while block := file.read(1 << 20):
            whole.update(block)
    with suppress(OSError):  # it is read again then
        if notes:
            with open(notes, "a") as file:
                file.write(f"{digest(stamp)} {whole.hexdigest()}\n")
    return whole.hexdigest()


def _noted(notes: Path, stamp: str) -> str:
    """The checksum in the last line of the notes that begins with `stamp`; "" where none does, or half a line."""
    _, found, rest = f"\n{notes.read_text()}".rpartition(f"\n{stamp} ")
    value, ended, _ = rest.partition("\n")
    return value if found and ended and len(value) == 64 else ""


def read_stamped(path: str) -> tuple[os.stat_result, bytes]:
    """The status of a file, and what it holds: of one file, even where another takes its place meanwhile.

    Raises OSError.
    """
    handle = os.open(path, os.O_RDONLY)  # `open` asks the system twice as much, which of thousands takes its time
    try:
        status, parts = os.fstat(handle), []
        while part := os.read(handle, status.st_size + 1):
            parts.append(part)
    finally:
        os.close(handle)
    return status, b"".join(parts)


def content_of(path: Path) -> str:
    """The `checksum` of a file that somebody named. Raises UserError if it cannot be read."""
    try:
        return checksum(path)
    except OSError as error:
        raise cannot_read(path, error) from error


def checksums(folder: Path) -> dict[str, str]:
    """SHA-256, hexadecimal, of every file in a folder of weights, by its path there: what a record keeps of them."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.startswith(".")]
    return {path.relative_to(folder).as_posix(): checksum(path) for path in files}


def trouble_with(folder: Path, recorded: Mapping[str, str] | None) -> str:
    """What happened to a folder of weights since its record was written, such as "are missing", or "".

    recorded: their `checksums`; None in older records, which vouch for nothing but that the folder is there.
    """
    try:
        if recorded is None:
            return "" if folder.is_dir() else "are missing"
        for name, value in recorded.items():
            if checksum(folder / name) != value:
                return f"are damaged ({name})"
    except FileNotFoundError as error:
        return f"are missing ({Path(error.filename).name})"
    except OSError as error:
        return f"cannot be read ({error.strerror})"
    return ""


JSON = Mapping[str, Any]  # an object; whoever reads it knows what it holds
_BEGIN, _BEFORE_SUM = b'{"record":', b',"sha256":"'


def sealed(record: Mapping[str, object]) -> bytes:
    """The canonical JSON of {"record": record, "sha256": digest(record)}, as a file holds it."""
    text = canonical(record).encode()
    return _BEGIN + text + _BEFORE_SUM + hashlib.sha256(text).hexdigest().encode() + b'"}\n'


def unsealed(raw: bytes) -> dict[str, Any]:
    """The record that `sealed` wrote. Raises ValueError, KeyError or TypeError if the bytes are damaged."""
    text, _, end = raw.rpartition(_BEFORE_SUM)
    text = text[len(_BEGIN) :] if text.startswith(_BEGIN) else b""
    # Bytes that have the checksum are those that were written: there is no need to write the record out once more.
    if end.rstrip() == hashlib.sha256(text).hexdigest().encode() + b'"}':
        return json.loads(text)
    try:
        whole = json.loads(raw)  # damaged, or laid out by another hand
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    record = whole["record"]
    if digest(record) != whole["sha256"]:
        raise ValueError("its checksum does not match")
    return record


def read_sealed(path: Path) -> dict[str, Any]:
    """What `write_sealed` wrote into the cache; {} where that is absent or damaged, and has to be made again."""
    try:
        found = unsealed(path.read_bytes())
    except (OSError, ValueError, KeyError, TypeError):
        return {}
    return found if isinstance(found, dict) else {}


def write_sealed(path: Path, value: Mapping[str, object]) -> None:
    """Write what `read_sealed` reads. Raises UserError as `atomic_file` does."""
    atomic_write(path, sealed(value))


@contextmanager
def atomic_file(path: Path, new: bool = False) -> Iterator[BinaryIO]:
    """A file to write such that `path` is either absent, old or whole, whatever happens.

    What killed processes left of it goes, as with `beside`.
    new: what somebody else has meanwhile put in its place stays, and UserError is raised.
    Raises UserError if the disk is full or the place cannot be written.
    """
    temporary = half_written(path)
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        remove_abandoned(path)
        with open(temporary, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if new:
            _rename_to_new(temporary, path)
        else:
            _make_way(path)
            os.replace(temporary, path)
        sync_folder(path.parent)
    except OSError as error:
        raise cannot_write(path, error) from error
    finally:
        with suppress(OSError):  # what is wrong with the place has been told
            temporary.unlink()


def _rename_to_new(file: Path, path: Path) -> None:
    """As os.rename, which would write over a file that is there; of two at once one is told that it is."""
    try:
        os.link(file, path)  # `file` itself is removed by whoever wrote it
    except FileExistsError:
        raise
    except OSError:  # a file system that gives a file one name alone
        os.rename(file, path)


def _make_way(path: Path) -> None:
    """Set aside a folder that stands where a file of ours belongs: some other program put it there."""
    if path.is_dir() and not path.is_symlink():
        os.rename(path, path.with_name(f"{path.name}.{os.getpid()}.aside"))


@contextmanager
def beside(path: Path) -> Iterator[Path]:
    """A place beside `path` for what is to take its name, and gone in the end if it has not.

    What killed processes left there goes, too; what others are writing at the same time stays.
    """
    temporary = half_written(path)
    remove_abandoned(path)
    remove(temporary)  # of one that had our number
    try:
        yield temporary
    finally:
        remove(temporary)


@contextmanager
def none_left_empty(folder: Path) -> Iterator[None]:
    """Where what is done fails, the folders that it made, this one and those above, go again if they are empty."""
    new = [path for path in (folder, *folder.parents) if not os.path.lexists(path)]
    try:
        yield
    except BaseException:
        for path in new:
            with suppress(OSError):
                path.rmdir()
        raise


def remove_abandoned(path: Path) -> None:
    """Remove what killed processes were writing for this place, where that is allowed."""
    for left in path.parent.glob(f".{escape(path.name)}.*.tmp"):
        if abandoned(left):
            with suppress(OSError):
                remove(left)


def half_written(path: Path) -> Path:
    """The hidden name beside `path` of what this process writes.

    It tells the machine too, and on Linux who numbers its processes: where several see one folder, as containers do
    over shared storage, their processes have the same numbers, and in some the same name of the machine.
    """
    return path.with_name(f".{path.name}.{os.getpid()}-{_machine()}.tmp")


@cache
def _machine() -> str:
    told = platform.node()
    with suppress(OSError):  # another system has none
        told += os.readlink("/proc/self/ns/pid")
    return hashlib.sha256(told.encode()).hexdigest()[:8]


def abandoned(left: Path) -> bool | None:
    """Whether nobody writes any more what has a name of `half_written`, as its process has ended; None for other names.

    Of another machine's process no one here can know: what is untouched for a day is taken for abandoned.
    """
    if (found := _WRITER.search(left.name)) is None:
        return None
    process, machine = int(found[1]), found[2]  # without a machine: an earlier version wrote it
    try:
        if machine and machine != _machine():
            return left.stat().st_mtime < time.time() - _DAY
        os.kill(process, 0)
    except (FileNotFoundError, ProcessLookupError, OverflowError):
        return True
    except OSError:  # another user's
        return False
    return False


def atomic_write(path: Path, content: bytes, new: bool = False) -> None:
    """Write `content` to `path` as `atomic_file` does."""
    with atomic_file(path, new) as file:
        file.write(content)


def sync_file(path: Path) -> None:
    """Make the content of a file durable that somebody else wrote."""
    with open(path, "rb") as file:
        os.fsync(file.fileno())


def sync_folder(folder: Path) -> None:
    """Make renames inside `folder` durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def cannot_write(path: Path, error: OSError, flag: str = "") -> UserError:
    """The sentence for a write that failed. flag: that which names the folder, where it was given by one."""
    if (status := status_of(error)) == NO_ROOM:
        free = "finished runs are kept, so free some space and give the same command again"
        return UserError.of(f"the disk is full: {path} could not be written; {free}", status)
    another = f"; give another folder with {flag}" if flag else ""
    return UserError(f"{path} cannot be written: {error.strerror or error}{another}")


def check_writable(out: Path, flag: str = "--out") -> None:
    """Raise UserError if nothing can be written into the folder. One that is not there is not made."""
    check_name(str(out), flag)
    names(out)
    try:
        with TemporaryFile(dir=next(path for path in (out, *out.parents) if os.path.lexists(path))):
            pass
    except OSError as error:
        raise cannot_write(out, error, flag) from error


def check_name(name: str, flag: str) -> None:
    """Raise UserError for a path with bytes that are no text: weights are not written into such a one."""
    if name.encode("utf-8", "surrogateescape") != name.encode("utf-8", "replace"):
        raise UserError(f"{flag} {name} is not in UTF-8, and weights cannot be written to such a path: give another")


def check_new_folder(folder: Path, name: str) -> None:
    """Raise UserError if `--to name`, resolved to `folder`, is taken or cannot be written."""
    check_name(str(folder), "--to")
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"--to {name} exists already and is not an empty folder; give another")
    above = next(path for path in folder.parents if path.exists())
    if not above.is_dir() or not os.access(above, os.W_OK):
        raise UserError(f"--to {name} cannot be written: {above} is not a folder that can be written to")


def size_of(path: Path) -> int:
    """Bytes of a file, or of all that a folder holds; 0 where there is nothing."""
    if path.is_file():
        return path.stat().st_size
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file())


def remove(path: Path) -> None:
    """Delete a file, a folder or a link, which another process may be deleting too."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)
