"""What the ledger says of a cell, and which runs it needs next. A pure function of the plan and the records."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.ledger import identity
from harness.search.proposals import propose

PLAN_FORMAT = 3  # of plan.json, which this module and the reports read
Record = Mapping[str, Any]
Lookup = Callable[[str], "Record | None"]


@dataclass
class Finished:
    """A run of a cell with its record."""

    run: str
    specification: dict[str, Any]
    hyperparameters: dict[str, Any]
    record: Record

    @property
    def score(self) -> float | None:
        """The selection metric at its best epoch, or None if the run failed."""
        return None if self.record["status"] == "failed" else float(self.record["selection"])


@dataclass
class Progress:
    """trials: finished search runs in order; seeds: finished runs of the best setting; missing: what to run now."""

    trials: list[Finished] = field(default_factory=list)
    best: Finished | None = None
    seeds: list[Finished] = field(default_factory=list)
    missing: list[dict[str, Any]] = field(default_factory=list)
    wanted_trials: int = 0


def best_of(trials: Sequence[Finished]) -> Finished | None:
    """The trial with the highest selection score, the earliest of equals; None if all failed or were pruned."""
    scored = [t for t in trials if t.score is not None and not t.record.get("pruned")]
    return max(scored, key=lambda t: t.score or 0.0, default=None)


def progress(cell: Mapping[str, Any], defaults: Mapping[str, Any], lookup: Lookup) -> Progress:
    """Replay the search of one cell of a plan against the records that `lookup` finds.

    Trials run strictly one after another (each is proposed from those before); then the best setting runs over the
    remaining seeds, all at once. The winning trial is its first seed.
    """
    found = Progress(wanted_trials=cell["trials"])

    def finished(hyperparameters: dict[str, Any], seed: int) -> Finished | None:
        specification = specify(cell, hyperparameters, seed, found.trials if seed == 0 else ())
        run = identity(specification, defaults)
        record = lookup(run)
        if record is None:
            found.missing.append(specification)
            return None
        return Finished(run, specification, hyperparameters, _part(record, cell["task"]))

    for number in range(cell["trials"]):
        hyperparameters = propose(
            cell["search"], cell["space"], number, [(t.hyperparameters, t.score) for t in found.trials]
        )
        if hyperparameters is None:
            found.wanted_trials = number
            break
        trial = finished(hyperparameters, seed=0)
        if trial is None:
            return found
        found.trials.append(trial)
    found.best = best_of(found.trials)
    if found.best is not None:
        found.seeds = [found.best]
        for seed in range(1, cell["seeds"]):
            run = finished(found.best.hyperparameters, seed)
            if run is not None:
                found.seeds.append(run)
    return found


def _part(record: Record, task: str) -> Record:
    """What a record says of a task; the selection score is that of all tasks, so that they choose the same setting."""
    if task not in record.get("by_task", {}):
        return record
    return {**record, **record["by_task"][task], "selection": record["selection"]}


def distinct(cells: Sequence[Mapping[str, Any]]) -> list[Any]:
    """The cells that can exist, one for all those that share their runs."""
    return list({cell["search"]: cell for cell in cells if not cell["refused"]}.values())


def specify(
    cell: Mapping[str, Any], hyperparameters: Mapping[str, Any], seed: int, before: Sequence[Finished]
) -> dict[str, Any]:
    """The specification of one run of a cell. With a pruner, the curves it is compared with are part of what it is."""
    starts = cell["starts"]
    specification = {
        **cell["specification"],
        **({"init": f"pretrained:{starts[seed]}"} if starts else {}),
        "seed": seed,
        "settings": {**cell["specification"]["settings"], **hyperparameters},
    }
    if specification["settings"].get("pruner", "none") != "none" and before:
        specification["before"] = [
            [e["selection"] for e in t.record.get("curve", ()) if e["selection"] is not None]
            for t in before
            if t.score is not None
        ]
    return specification
