"""What `harness run` wrote of a table and said of it: kept in the cache, and made anew where anything is otherwise.

It rests on the plan, our code and that of plugins, which distributions are installed, the records of every run that it
has numbers of or that these start from, with the predictions that records vouch for, and on what GLUE's server said of
them. The driver has read all of them by then. Each written file is compared by its content.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.evaluation import server_scores
from harness.files import checksum, digest, read_sealed, write_sealed
from harness.ledger import Ledger
from harness.planning.planned import Plan
from harness.search.progress import Progress

ROOM = "tables"  # in the cache


class KeptTable:
    """What stands in a folder of the results. code: `code_versions.here` of the plan's plugins as the command began."""

    def __init__(
        self, folder: Path, plan: Plan, ledger: Ledger, replays: Iterable[Progress], code: str | None, *asked: Any
    ):
        """asked: flags that the table depends on."""
        self._folder = folder
        self._file = ledger.out / "cache" / ROOM / f"{digest(os.path.relpath(folder, ledger.out))[:16]}.json"
        self._vouches = bool(code)
        done = {one.run for found in replays for one in (*found.trials, *found.seeds)}
        self._key = digest([
            code,
            plan.to_json(),
            asked,
            _records(ledger, {*plan.first, *done}),
            digest(server_scores.kept(ledger)),
        ])  # fmt: skip

    def said(self) -> Mapping[str, Any]:
        """What `keep` was given, where the table would be the same; {} otherwise."""
        stored = read_sealed(self._file)
        if not self._vouches or stored.get("key") != self._key or stored["shape"] != shape():
            return {}
        said: Mapping[str, Any] = stored["said"] if self._files(stored["files"]) == stored["files"] else {}
        return said

    def keep(self, files: Iterable[Path], said: Mapping[str, Any]) -> None:
        """Write down what is said of a table whose files are written. Raises UserError."""
        if self._vouches:
            found = self._files(file.name for file in files)
            write_sealed(self._file, {"key": self._key, "shape": shape(), "files": found, "said": said})

    def _files(self, names: Iterable[str]) -> dict[str, str]:
        found = {}
        for name in names:
            with suppress(OSError):
                found[name] = checksum(self._folder / name)
        return found


def shape() -> str:
    """What decides how a table is printed, besides what it holds."""
    if not sys.stdout.isatty():
        return "plain"
    return f"{shutil.get_terminal_size().columns} columns{'' if 'NO_COLOR' in os.environ else ', live'}"


def _records(ledger: Ledger, runs: Iterable[str]) -> dict[str, str]:
    """Checksums of the records of these runs and of those that they started from, "" of one that is not there."""
    found: dict[str, str] = {}
    waiting = list(runs)
    while waiting:
        if (run := waiting.pop()) not in found:
            record = ledger.read(run)
            found[run] = checksum(ledger.folder(run) / "record.json") if record else ""
            waiting += (record or {}).get("started_from", {})
    return found
