"""What the ledger says of a cell, and which runs it needs next. A pure function of the plan and the records."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from harness.hyperparameters import Hyperparameters, Values
from harness.planning.planned import Cell, all_trials_of, runs_of, searches_of, trials_of
from harness.planning.space import default_sampler
from harness.runs import PRETRAINED, Run, RunId
from harness.runs.settings import PRUNERS, Settings
from harness.runs.told import Record
from harness.search.proposals import propose

Lookup = Callable[[str], "Record | None"]


@dataclass
class Finished:
    """A run of a cell with its record. specified: gives what the run is, which few ask who look at thousands."""

    run: RunId
    specified: Callable[[], Run] = field(compare=False)
    hyperparameters: Hyperparameters
    record: Record

    @functools.cached_property
    def made(self) -> Run:
        return self.specified()

    @property
    def score(self) -> float | None:
        """The selection metric at its best epoch, or None if the run failed."""
        return None if self.record["status"] == "failed" else float(self.record["selection"])


@dataclass
class Progress:
    """trials: finished search runs in order; seeds: finished runs that count; missing: what to run now.

    Where a search serves all seeds, these are runs of its best setting, of which the first is a trial; otherwise each
    is the best trial of its own search. best: the best trial of all.

    look_beyond: gives the runs, with their records, that came after a trial which is lost, and count again once it is
    made anew; a driver, which asks again after every run, does not need them.
    """

    trials: list[Finished] = field(default_factory=list)
    best: Finished | None = None
    seeds: list[Finished] = field(default_factory=list)
    missing: list[Run] = field(default_factory=list)
    look_beyond: Callable[[], list[tuple[RunId, Record]]] = field(default=list, compare=False)

    @property
    def further(self) -> list[Finished]:
        """The runs of seeds that are no trials."""
        trials = {one.run for one in self.trials}
        return [one for one in self.seeds if one.run not in trials]

    @property
    def runs(self) -> list[Finished]:
        """Trials, then further seeds."""
        return [*self.trials, *self.further]

    @property
    def records(self) -> list[tuple[RunId, Record]]:
        """All runs that the cell has, with their records."""
        return [*((one.run, one.record) for one in self.runs), *self.look_beyond()]


def by_search(cell: Cell, found: Progress) -> dict[int, list[Finished]]:
    """Seed -> the trials that were made with it, in order: one search, or one for each seed."""
    searches: dict[int, list[Finished]] = {}
    for trial in found.trials:  # a run is only built where its seed is not known
        searches.setdefault((trial.made.seed or 0) if cell.searched_by_seed else 0, []).append(trial)
    return searches


def left(cell: Cell, found: Progress) -> int:
    """How many runs a cell still asks for, at most."""
    over = len(found.trials) >= all_trials_of(cell)
    if over and all("diverged" in trial.record for trial in found.trials):  # which none is tried again of
        return 0
    return runs_of(cell) - len(found.records)


def done(found: Progress) -> int:
    """How many runs of a cell are finished."""
    return sum(record["status"] != "failed" for _, record in found.records)


@dataclass
class Proposed:
    """What the search of a cell has proposed so far. It spares asking again, and never changes an answer.

    trials: (hyperparameters, run) of each trial proposed, in order. evidence: of each finished one, all that its
    record adds to what later proposals come from: where a record says otherwise now, they are forgotten. seeds: the
    best trial's run -> the runs of its setting with the further seeds, in order.
    """

    trials: list[tuple[Hyperparameters, RunId]] = field(default_factory=list)
    evidence: list[Any] = field(default_factory=list)
    seeds: dict[str, list[str]] = field(default_factory=dict)

    def learn(self, number: int, evidence: Any) -> None:
        """Take note of what trial `number` ended with; forget what was proposed from anything else."""
        if self.evidence[number : number + 1] != [evidence]:
            del self.evidence[number:], self.trials[number + 1 :]
            self.evidence.append(evidence)


def best_of(trials: Sequence[Finished]) -> Finished | None:
    """The trial with the highest selection score, the earliest of equals; None if all failed or were pruned."""
    scored = [(score, t) for t in trials if (score := t.score) is not None and not t.record.get("pruned")]
    return max(scored, key=lambda one: one[0], default=(0.0, None))[1]


def progress(
    cell: Cell, defaults: Hyperparameters, lookup: Lookup, proposed: Sequence[Proposed] | None = None
) -> Progress:
    """Replay the searches of one cell of a plan against the records that `lookup` finds; of a refused one it is empty.

    Trials of a search run strictly one after another (each is proposed from those before). Of a search for all seeds
    the best setting then runs over the remaining ones, all at once: the winning trial is its first seed. Where each
    seed has its own search, they run beside each other, and the winning trials are the seeds. proposed: what earlier
    replays of the same cell with the same defaults found, search by search; this one adds to it.
    """
    if cell.refused:
        return Progress()
    known = proposed or [Proposed() for _ in range(searches_of(cell))]
    parts = [_searched(cell, defaults, lookup, seed, known[seed]) for seed in range(searches_of(cell))]
    if not cell.searched_by_seed:
        return parts[0]
    seeds = [part.best for part in parts if part.best is not None]
    return Progress(
        [trial for part in parts for trial in part.trials],
        best_of(seeds),
        seeds,
        [run for part in parts for run in part.missing],
        lambda: [one for part in parts for one in part.look_beyond()],
    )


def _searched(cell: Cell, defaults: Hyperparameters, lookup: Lookup, first: int, known: Proposed) -> Progress:
    """Replay the search whose trials have seed `first`, and where it is for all seeds, the runs of the others."""
    found, usually = Progress(), prunes(cell.run.settings)

    def compared(hyperparameters: Hyperparameters) -> bool:
        return prunes(hyperparameters) if "pruner" in hyperparameters else usually

    def specified(hyperparameters: Hyperparameters, seed: int) -> Callable[[], Run]:
        before = tuple(found.trials) if seed == first and compared(hyperparameters) else ()
        return functools.partial(specify, cell, hyperparameters, seed, before)

    def finished(run: RunId, hyperparameters: Hyperparameters, seed: int) -> Finished | None:
        made, record = specified(hyperparameters, seed), lookup(run)
        if record is None:
            found.missing.append(made())
            return None
        return Finished(run, made, hyperparameters, _part(record, cell.task))

    def run_of(hyperparameters: Hyperparameters, seed: int) -> RunId:
        return specified(hyperparameters, seed)().identity(defaults)

    def recorded(hyperparameters: Hyperparameters, seed: int) -> tuple[RunId, Record] | None:
        run = run_of(hyperparameters, seed)
        return (run, record) if (record := lookup(run)) else None

    before: list[tuple[Hyperparameters, float | None]] = []
    for number in range(trials_of(cell)):
        if number == len(known.trials):
            hyperparameters = propose(cell.search, cell.space, cell.trials, number, before, cell.sampler, first)
            known.trials.append((hyperparameters, run_of(hyperparameters, first)))
        hyperparameters, run = known.trials[number]
        trial = finished(run, hyperparameters, first)
        if trial is None:
            beyond = functools.partial(_beyond, cell, tuple(found.trials), hyperparameters, first, recorded)
            found.look_beyond = functools.cache(beyond)
            return found
        found.trials.append(trial)
        before.append((hyperparameters, score := trial.score))
        known.learn(number, [score, curve(trial.record)] if compared(hyperparameters) else score)
    found.best = best_of(found.trials)
    if found.best is not None and not cell.searched_by_seed:
        found.seeds = [found.best]
        best = found.best.hyperparameters
        runs = known.seeds.get(found.best.run, [])
        runs = runs + [run_of(best, seed) for seed in range(len(runs) + 1, cell.seeds)]
        known.seeds = {found.best.run: runs}
        for seed, run in enumerate(runs[: cell.seeds - 1], 1):
            if (one := finished(run, best, seed)) is not None:
                found.seeds.append(one)
    return found


def _beyond(
    cell: Cell,
    done: Sequence[Finished],
    missing: Hyperparameters,
    first: int,
    made: Callable[[Hyperparameters, int], tuple[RunId, Record] | None],
) -> list[tuple[RunId, Record]]:
    """What came after a trial that is missing, which was lost then: made anew, it comes to the same number.

    Trials whose settings its score does not decide, and further seeds: of a setting whose trial is missing, which was
    the best; else of the best of those that are here, if a later trial tells that the missing one was lost. With their
    records. first: the seed of the trials. made: the run of a setting with a seed, where it has a record.
    """
    trials: list[tuple[Hyperparameters, tuple[RunId, Record] | None]]
    trials = [*((t.hyperparameters, (t.run, t.record)) for t in done), (missing, None)]
    known = len(trials)
    if (cell.sampler or default_sampler(cell.space)) != "tpe" and not prunes(cell.run.settings):
        while len(trials) < trials_of(cell):
            before = [(tried, None) for tried, _ in trials]
            tried = propose(cell.search, cell.space, cell.trials, len(trials), before, cell.sampler, first)
            trials.append((tried, made(tried, first)))
    later = [one for _, one in trials[known:] if one is not None]
    lost = [tried for tried, one in trials if one is None]
    scored = [(tried, one[1]["selection"]) for tried, one in trials if one and one[1]["status"] != "failed"]
    best = [max(scored, key=lambda one: one[1])[0]] if later and scored else []

    def seeds(setting: Hyperparameters) -> list[tuple[RunId, Record]]:
        further = range(1, 1 if cell.searched_by_seed else cell.seeds)
        return [one for seed in further if (one := made(setting, seed)) is not None]

    return later + (max(map(seeds, lost), key=len) or next(map(seeds, best), []))


def _part(record: Record, task: str) -> Record:
    """What a record says of a task; the selection score is that of all tasks, so that they choose the same setting."""
    if task not in record.get("by_task", {}):
        return record
    return {**record, **record["by_task"][task], "selection": record["selection"]}


def specify(cell: Cell, hyperparameters: Hyperparameters, seed: int, before: Sequence[Finished]) -> Run:
    """One run of a cell. With a pruner, the curves it is compared with are part of what it is.

    seed: counted from that of the cell's run, where it has one, as a cell has of a single run that is made again.
    """
    settings = Settings({**cell.run.settings, **hyperparameters})
    changes: dict[str, Any] = {"seed": (cell.run.seed or 0) + seed, "settings": settings}
    if cell.lengthened:
        changes["settings"]["epochs"] *= 2
    if cell.teachers:
        changes["teacher"] = cell.teachers[seed]
    if cell.starts:
        changes["init"] = f"{PRETRAINED}:{cell.starts[seed]}"
    if prunes(changes["settings"]) and before:
        changes["before"] = [curve(t.record) for t in before if t.score is not None]
    return replace(cell.run, **changes)


def prunes(settings: Values) -> bool:
    """True if a run with these settings is compared with the curves of the trials before it."""
    return Settings(settings)["pruner"] in PRUNERS


def curve(record: Record) -> list[float]:
    """The selection scores that a run recorded, epoch by epoch."""
    return [e["selection"] for e in record.get("curve", ()) if e["selection"] is not None]
