"""An index of the ledger: what a look at 20,000 runs needs of them in one file. Deleting it loses nothing but time."""

from __future__ import annotations

import hashlib
import json
import time
from importlib.metadata import version
from typing import Any

from harness.code_versions import own_code
from harness.files import JSON, digest, read_sealed, write_sealed
from harness.hyperparameters import Hyperparameters
from harness.ledger import Ledger
from harness.planning.planned import Cell, searches_of
from harness.planning.space import spreads
from harness.runs.told import Record
from harness.search.progress import Lookup, Progress, Proposed, curve, progress, prunes

NAME = "ledger.index.json"
PERIOD = 60.0  # seconds between two writings while runs end, or more:
SHARE = 0.02  # of the time that writing may take, which grows with the runs that there are


class Index:
    """Summaries of records, and what searches proposed. It can spare work but never change a result:

    - a record's summary counts as long as its file has the modification time and the size that it had when it was
      read; records are only ever replaced, never changed in place. Any other record is read from the ledger.
    - what a search proposed is found by all that a proposal comes from: the cell, the defaults, the code and Optuna's
      version are part of its key, and the scores before it are compared one by one (see Proposed.learn).
    - a file that is absent, damaged, or written by other code holds nothing; where the code lies does not count.

    Commands that only look at results read it and write nothing; `harness run` keeps it up to date.
    """

    def __init__(self, ledger: Ledger):
        self.ledger, self.path = ledger, ledger.out / NAME
        self._summaries: dict[str, Record | None] = {}  # that have been compared with their files
        self._proposed: dict[str, tuple[list[str], Proposed]] = {}  # key -> (the space's dimensions, what is known)
        self._defaults: tuple[Any, str] = (None, "")
        self._saved, self._took = time.monotonic(), 0.0  # when, and in how many seconds
        self._stored = read_sealed(self.path)
        whole = all(isinstance(self._stored.get(part), dict) for part in ("runs", "searches"))
        self._code = digest([own_code(placed=False), version("numpy"), version("optuna")])  # that makes what is stored
        if not whole or self._stored.get("code") != self._code:
            self._stored = {"code": self._code, "runs": {}, "searches": {}}

    def read(self, run: str) -> Record | None:
        """What `progress` needs of a run's record, or None if there is none, it is damaged or its predictions are gone.

        That they are there is looked at, and no more: `Ledger.whole` reads them.
        """
        if run not in self._summaries:
            entry = self._stored["runs"].get(run)
            vouched = entry is not None and self.ledger.stamp(run) == tuple(entry[:2])
            found = entry[2] if vouched else self.ledger.read(run)
            gone = found is not None and "predictions_sha256" in found and not self.ledger.has_predictions(run)
            self._summaries[run] = None if gone else found
        return self._summaries[run]

    def progress(self, cell: Cell, defaults: Hyperparameters, lookup: Lookup | None = None) -> Progress:
        """`progress`, with what is known of the searches. lookup: where records come from, else their summaries."""
        known = [self._known(cell, defaults, seed) for seed in range(searches_of(cell))]
        return progress(cell, defaults, lookup or self.read, known)

    def keep(self) -> None:
        """Write the index if it has not been written for a while."""
        if (began := time.monotonic()) - self._saved > max(PERIOD, self._took / SHARE):
            self.save()
            self._took = self._saved - began

    def save(self) -> None:
        """Write the index, if there is anything new. Only the holder of the ledger's lock may.

        Raises UserError if the disk is full or the folder cannot be written.
        """
        names = set(self.ledger.runs())
        runs = self._stored["runs"] | {run: [*at, _summary(record)] for run, at, record in self.ledger.known()}
        searches = self._stored["searches"] | {key: _plain(*known) for key, known in self._proposed.items()}
        new = {
            "code": self._code,
            "runs": {run: entry for run, entry in runs.items() if run in names},
            "searches": {key: s for key, s in searches.items() if any(run in names for _, run in s["trials"])},
        }
        if new != self._stored:
            write_sealed(self.path, new)
        self._stored, self._saved = new, time.monotonic()

    def _known(self, cell: Cell, defaults: Hyperparameters, seed: int) -> Proposed:
        """What the search proposed whose trials have this seed."""
        if self._defaults[0] is not defaults:
            self._defaults = defaults, json.dumps(defaults)
        # Not canonical JSON: the order of a space's dimensions is that of its grid.
        parts: list[Any] = [cell.search, cell.task, cell.run.specification(), cell.space, list(cell.starts)]
        parts += [spreads(cell.space, cell.trials), list(cell.teachers), cell.sampler, seed]
        key = hashlib.sha256((json.dumps(parts) + self._defaults[1]).encode()).hexdigest()[:32]
        if key not in self._proposed:
            known = Proposed()
            if stored := self._stored["searches"].get(key):
                trials = ((dict(zip(cell.space, values, strict=True)), run) for values, run in stored["trials"])
                known = Proposed(list(trials), list(stored["evidence"]), dict(stored["seeds"]))
            self._proposed[key] = list(cell.space), known
        return self._proposed[key][1]


def _plain(space: list[str], known: Proposed) -> JSON:
    """As JSON keeps it: hyperparameters without their names, in the order of the space."""
    trials = [[[hyperparameters[name] for name in space], run] for hyperparameters, run in known.trials]
    return {"trials": trials, "evidence": list(known.evidence), "seeds": dict(known.seeds)}


def _summary(record: Record) -> Record:
    """The part of a record that `progress` looks at."""
    found: Record = {name: record[name] for name in ("status", "selection", "diverged") if name in record}
    found |= {name: True for name in ("pruned", "predictions_sha256") if record.get(name)}  # that there is one
    if prunes(record.get("specification", {}).get("settings", {})):
        found["curve"] = [{"selection": score} for score in curve(record)]
    return found
