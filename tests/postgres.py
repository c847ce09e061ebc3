"""A PostgreSQL server of its own for a test: on a free port of this machine, in a temporary folder."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.launching import free_port

USER = "nobody"  # PostgreSQL refuses to run as root


class Server:
    """`url` names a database that exists while the server was started; `stop` is as a crash."""

    def __init__(self, folder: Path, programs: Path):
        self.folder, self.programs, self.port = folder, programs, free_port()
        self.url = f"postgresql://optuna@127.0.0.1:{self.port}/postgres"
        if os.geteuid() == 0:
            shutil.chown(folder, USER)
        self._do("initdb", "-D", folder / "data", "-U", "optuna", "-A", "trust", "--no-sync", "-E", "UTF8")

    def start(self) -> None:
        options = f"-c listen_addresses=127.0.0.1 -p {self.port} -k {self.folder} -c fsync=off"
        self._do("pg_ctl", "-D", self.folder / "data", "-w", "-l", self.folder / "log", "-o", options, "start")

    def stop(self) -> None:
        self._do("pg_ctl", "-D", self.folder / "data", "-w", "-m", "immediate", "stop")

    def running(self) -> bool:
        return (self.folder / "data" / "postmaster.pid").exists()

    def _do(self, program: str, *words: object) -> None:
        user = ["runuser", "-u", USER, "--"] if os.geteuid() == 0 else []
        # Not through a pipe: the server inherits it, so that it would never end.
        with tempfile.TemporaryFile("w+") as text:
            command = [*user, str(self.programs / program), *map(str, words)]
            if subprocess.run(command, cwd=self.folder, stdout=text, stderr=text, stdin=subprocess.DEVNULL).returncode:
                text.seek(0)
                raise RuntimeError(f"{program}: {text.read()}")


@contextmanager
def postgres() -> Iterator[Server]:
    """A running server, gone afterwards. Skips the test where PostgreSQL or its Python driver is not installed."""
    pytest.importorskip("psycopg")
    programs = _programs()
    if programs is None:
        pytest.skip("PostgreSQL is not installed (initdb and pg_ctl)")
    if os.geteuid() == 0 and shutil.which("runuser") is None:
        pytest.skip("PostgreSQL does not run as root, and there is no runuser")
    with tempfile.TemporaryDirectory(prefix="postgres") as folder:
        server = Server(Path(folder), programs)
        server.start()
        try:
            yield server
        finally:
            if server.running():
                server.stop()


def _programs() -> Path | None:
    """The folder with PostgreSQL's own programs, which Debian does not put on the path."""
    found = shutil.which("initdb")
    folders = [Path(found).parent] if found else sorted(Path("/usr/lib/postgresql").glob("*/bin"))
    return next((folder for folder in reversed(folders) if (folder / "pg_ctl").exists()), None)
