"""A run in a process of its own, as whoever began it sees it."""

from __future__ import annotations

import functools
import multiprocessing
import os
import resource
import signal
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from multiprocessing import forkserver, util
from multiprocessing.connection import Connection, wait
from pathlib import Path
from types import ModuleType
from typing import Any

from harness.errors import UserError
from harness.executors import environment, temporary
from harness.executors.worker import DEATHS, Asking, serve
from harness.files import remove
from harness.ledger import LOG
from harness.runs.messages import Died, Failed, Message, Wants

# Every run is forked from a server that has imported torch and transformers once and done nothing with them.
CONTEXT: Any = multiprocessing.get_context("forkserver")
KEPT = 1 << 19  # bytes of a run's prints that are kept, of their beginning and of their end
SOCKET = 103 if sys.platform == "darwin" else 107  # bytes of the path of one, at most
FILES = 8192  # that this process may have open, where the system lets it: four a run
PATIENCE = 10.0  # seconds that a log may take to be written once the run has ended


class Attempt:
    """A run that is being trained. Nothing of its process is left after `end`.

    limit: seconds after which it is given up; environment: what is to be set in the process's own. The workspace's
    exchange, if there is one, is called here.
    """

    def __init__(
        self, run: str, specification: Any, workspace: Any, limit: float | None, environment: Mapping[str, str]
    ):
        _prepare()
        self.environment = dict(environment)
        self.run, self._exchange, self._limit, self._began = run, workspace.exchange, limit, time.monotonic()
        with suppress(OSError):  # where it cannot be written there is none, and the record cannot be, which is told
            remove(workspace.run / LOG)  # of an attempt before
        self._connection, theirs = CONTEXT.Pipe()
        said, saying = CONTEXT.Pipe(duplex=False)
        if self._exchange is not None:
            workspace = replace(workspace, exchange=Asking(theirs, run))
        work = theirs, saying, self.environment, run, specification, workspace
        self._process = CONTEXT.Process(target=serve, args=work, daemon=True)
        self._log = threading.Thread(target=keep, args=(said, workspace.run / LOG), daemon=True)
        self._log.start()
        with theirs, saying:
            _start(self._process)
        self.signs = self._connection, self._process.sentinel  # for multiprocessing.connection.wait

    def left(self) -> float | None:
        """Seconds until the run is given up; None where it has no limit."""
        return None if self._limit is None else max(self._began + self._limit - time.monotonic(), 0.0)

    def message(self) -> Message | None:
        """The next message of `serve`, or Died; None if there is none yet."""
        died = bool(wait([self._process.sentinel], 0))
        if died:
            self._kill()  # a process that it started may hold the other end of the connection
        try:
            message: Message | None = self._connection.recv() if self._connection.poll() else None
        except (EOFError, OSError):
            message, died = None, True
        if isinstance(message, Wants):
            getattr(self._exchange, message.what)(message.folder)
            with suppress(OSError):  # it has died meanwhile
                self._connection.send(None)
            return None
        if message:
            return message
        if died:
            self._process.join()
            return Died(self.run, self._process.exitcode)
        if self.left() == 0:
            why = (
                f"it was ended after the {self._limit:g} seconds of --run-timeout: the same command tries it again, "
                "with a longer one if that is needed"
            )
            return Failed(self.run, why, why)
        return None

    def end(self) -> None:
        """Kill what is left of the run, which can go on from its checkpoint; its log is then complete."""
        self._kill()
        self._process.join()
        self._connection.close()
        self._log.join(PATIENCE)

    def _kill(self) -> None:
        if self._process.is_alive():  # it may not have made its group yet
            self._process.kill()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)


def prepare() -> None:
    """Start what runs are forked from, which is ready seconds after this has returned."""
    _prepare()
    with environment.same_path():
        forkserver.ensure_running()


@functools.cache
def _prepare() -> None:
    """What comes before the first fork. The server's socket is in multiprocessing's folder, which a kill leaves.

    Each run takes four open files here: the usual limit of 1,024 is too low on a machine with 256 cores.

    Raises UserError where that folder's path is too long for it.
    """
    environment.prepare()
    may, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    if 0 <= may < FILES:  # below 0 there is no limit
        with suppress(ValueError, OSError):  # some systems allow less than they say
            resource.setrlimit(resource.RLIMIT_NOFILE, (FILES if most < 0 else min(FILES, most), most))
    if multiprocessing.parent_process() is None:  # otherwise it is the parent's, which lives on
        folder = Path(util.get_temp_dir())
        if len(os.fsencode(folder / "listener-12345678")) > SOCKET:  # so multiprocessing calls it
            raise UserError(
                f"TMPDIR must name a folder with a shorter path: {folder.parent} is too long for the sockets by which "
                "processes talk"
            )
        temporary.hold(folder)  # never given back: it ends with the process
    CONTEXT.set_forkserver_preload(["harness.executors.preload"])


def _start(process: Any) -> None:
    with _without_main(), environment.same_path():
        for _ in range(DEATHS):
            try:
                process.start()
                return
            except (EOFError, OSError):  # the server has been killed: the next call starts another once it is gone
                time.sleep(0.2)
        process.start()


@contextmanager
def _without_main() -> Iterator[None]:
    """While it lasts, processes that begin do not import the main module again, of which a run needs nothing.

    Of a script without `if __name__ == "__main__"` that would be the whole, its harness.run included.
    """
    main = sys.modules["__main__"]
    sys.modules["__main__"] = ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main


def keep(said: Connection, path: Path) -> None:
    """Write what a run prints into its log: the beginning and the end of it. Without a word there is no file."""
    room, left_out, last = KEPT, 0, bytearray()
    with said:
        while chunk := os.read(said.fileno(), 1 << 16):
            _append(path, chunk[:room])
            last += chunk[room:]
            room = max(room - len(chunk), 0)
            if len(last) > 2 * KEPT:
                left_out += len(last) - KEPT
                del last[:-KEPT]
    left_out += max(len(last) - KEPT, 0)
    _append(path, f"\n[{left_out} bytes left out]\n".encode() if left_out else b"")
    _append(path, bytes(last[-KEPT:]))


def _append(path: Path, text: bytes) -> None:
    if text:
        with suppress(OSError):  # on a full disk the run's record cannot be written either, and that is told
            path.parent.mkdir(parents=True, exist_ok=True)
            with open(path, "ab") as file:
                file.write(text)
