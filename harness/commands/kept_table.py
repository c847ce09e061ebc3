"""What `harness run` wrote of a table, and what it and `harness report` printed: kept in the cache, and made anew where
anything is otherwise.

It rests on the plan and what that was made of, our code and that of plugins, what these read elsewhere, the study, its
tasks and its printed tables, which distributions are installed, the ledger's records and predictions, and on what
GLUE's server said of them. A record
counts by its file: records are replaced, never changed in place, and a file that is damaged later takes nothing from
what was made of it when it was whole.
"""

from __future__ import annotations

import json
import os
import shutil
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from harness.code_versions import elsewhere
from harness.evaluation import server_scores
from harness.files import checksum, digest, read_sealed, write_sealed
from harness.ledger import Ledger
from harness.planning.planned import Plan
from harness.planning.remembered import edited
from harness.registry import STUDIES, TASKS

ROOM = "tables"  # in the cache


class KeptTable:
    """What was said of a plan.

    To be asked for before records are read for a new table: who writes one meanwhile is noticed the next time.
    """

    def __init__(self, name: str, plan: Plan, ledger: Ledger, code: str | None):
        """name: the command, and the flags that the table depends on besides.

        code: `code_versions.here` of the plan's plugins as the command began; None vouches for nothing.
        """
        self._ledger = ledger
        self._room = ledger.out / "cache" / ROOM
        self._file = self._named(name)
        self._vouches = bool(code)
        asked = json.dumps(plan.to_json())  # as text: plans that try settings in another order have other trials
        study = STUDIES.get(plan.study)  # which a plugin may read from files that its text does not name, as a task
        printed = _sums(study.published.files if study.published else ())
        found = _shape(), _state(ledger), digest(server_scores.kept(ledger)), edited(plan)
        declared = [repr(study), *(repr(TASKS.get(task)) for task in plan.tasks if task in TASKS.names())]
        self._key = digest([code, asked, declared, printed, *found])

    def _named(self, name: str) -> Path:
        return self._room / f"{digest(name)[:16]}.json"

    def said(self) -> Mapping[str, Any]:
        """What `keep` was given, where the table would be the same and its files are as written; {} otherwise."""
        stored = read_sealed(self._file)
        if not self._vouches or stored.get("key") != self._key:
            return {}
        return stored["said"] if _sums(stored["files"]) == stored["files"] else {}

    def keep(self, said: Mapping[str, Any], files: Iterable[Path] = (), also: str = "") -> None:
        """Write down what is said of a table whose files are written, of records that were read. Raises UserError.

        also: the name of another command that would say its text.
        """
        if self._vouches:
            read = _sums(elsewhere(record for _, _, record in self._ledger.known()))
            write_sealed(self._file, {"key": self._key, "files": _sums(map(str, files)) | read, "said": said})
            if also:
                write_sealed(self._named(also), {"key": self._key, "files": read, "said": {"text": said["text"]}})


def of_report(
    plan: Plan,
    form: str,
    layout: str | None,
    against: str = "",
    compare: str | None = None,
    additions: Sequence[str] = (),
) -> str:
    """What `harness report` with these flags is named here."""
    return f"report {plan.study} {plan.profile} {plan.variant} {[form, layout, against, compare, [*additions]]}"


def _sums(files: Iterable[str]) -> dict[str, str]:
    found = {}
    for file in files:
        with suppress(OSError):
            found[file] = checksum(Path(file))
    return found


def _shape() -> str:
    """What decides how a table is printed, besides what it holds."""
    if not sys.stdout.isatty():
        return "plain"
    return f"{shutil.get_terminal_size().columns} columns{'' if 'NO_COLOR' in os.environ else ', live'}"


def _state(ledger: Ledger) -> str:
    """A hash of which files of records and predictions there are, without reading them."""
    return digest([[run, ledger.file_stamps(run)] for run in ledger.runs()])
