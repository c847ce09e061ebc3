"""The commands `clean` and `remove`: what a folder of results can do without, and runs that are to be made again."""

from __future__ import annotations

import os
import re
import sys
from argparse import Namespace
from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import registry
from harness.code_versions import of_stored
from harness.commands.recorded import find, title_of
from harness.commands.telling import say, tell
from harness.data.store import INDEX
from harness.errors import UserError, counted
from harness.files import abandoned, half_written, read_sealed, size_of
from harness.files import remove as delete
from harness.ledger import Ledger
from harness.planning import filed
from harness.planning.planned import Cell, Plan
from harness.runs import Run, RunId
from harness.runs.told import Record
from harness.search.progress import specify
from harness.search.results import replayed

OF_CODE = re.compile("[0-9a-f]{12}")  # a folder of the cache, named after the code that made what it holds


def clean(options: Namespace) -> int:
    """Tell what can go, and remove it once that is agreed to."""
    ledger = Ledger(Path(options.out))
    with ledger.lock():
        parts = _unneeded(ledger)
        sizes = {what: sum(map(size_of, paths)) for what, paths in parts.items()}
        for what, size in sizes.items():
            tell(f"{size / 1e6:10.1f} MB  {what}")
        if not parts:
            tell(f"there is nothing in {ledger.out} that could go")
            return 0
        tell(f"{sum(sizes.values()) / 1e6:10.1f} MB  in all")
        if options.dry_run or not _agreed("remove them?", options.yes):
            return 0
        for path in (path for paths in parts.values() for path in paths):
            _take_away(path)
    tell(f"{sum(sizes.values()) / 1e6:.1f} MB freed; records, predictions and tables are as they were")
    return 0


def remove(options: Namespace) -> int:
    """Remove a run, or those of a cell, once that is agreed to: harness run makes them again."""
    ledger = Ledger(Path(options.out))
    with ledger.lock():
        name, _, plans = find(ledger, options.what)
        holdings = [Holdings(plan, ledger) for plan in plans]
        chosen = _chosen(name, holdings, ledger)
        for run in chosen:
            record = ledger.read(run)
            tell(f"run {run}: {title_of(record) if record else 'not finished'}")
        for said in _resting_on(chosen, holdings, ledger):
            tell(f"  {said}")
        if not _agreed(f"remove {'it' if len(chosen) == 1 else f'these {len(chosen)} runs'}?", options.yes):
            return 0
        for run in reversed(chosen):  # later trials are found by those before: one that is killed is given again
            _take_away(ledger.folder(run))
    tell(f"{counted(len(chosen), 'run')} removed; the harness run command that made them makes them again")
    return 0


class Holdings:
    """The runs that a plan has, found or not. cells: cell -> its runs; all: with those that they start from."""

    def __init__(self, plan: Plan, ledger: Ledger):
        self.plan, self.cells, self.open = plan, {}, list[Cell]()
        for cell, found in zip(plan.cells, replayed(plan, ledger), strict=True):
            runs = [one.run for one in found.runs]
            self.cells[cell.id] = [*dict.fromkeys(runs), *(run.identity(plan.defaults) for run in found.missing)]
            self.open += [cell] if found.missing else []
        self.all = {run for runs in self.cells.values() for run in runs} | set(plan.first)

    def has(self, run: RunId, record: Record | None) -> bool:
        """Whether a run is the plan's, or one of them made again to predict a test split, or may be of a search that is
        not over, as where a trial was lost whose score decides which the later ones are.
        """
        if run in self.all:
            return True
        told = dict((record or {}).get("specification") or {})
        of_test = bool(told.pop("test", None))
        if not (of_test or self.open) or Run.kind_of(told) is Run:
            return False
        made = Run.read(told)
        name = made.identity(self.plan.defaults)
        return name in self.all or any(name == self._with_settings_of(made, cell) for cell in self.open)

    def _with_settings_of(self, run: Run, cell: Cell) -> RunId:
        """The run of a cell with what another has of the cell's search space; "" where that is no run of the cell."""
        alike = ("kind", "task", "tasks", "objective", "student")  # looked at first, since a hash takes its time
        if any(getattr(run, name, "") != getattr(cell.run, name, "") for name in alike):
            return ""
        if run.seed is None or run.seed >= cell.seeds or cell.space.keys() - run.settings.keys():
            return ""
        settings = {name: run.settings[name] for name in cell.space}
        if cell.lengthened:
            settings["epochs"] //= 2
        pruned_by: dict[str, Any] = {"before": run.curves_before} if run.curves_before else {}
        return replace(specify(cell, settings, run.seed, ()), **pruned_by).identity(self.plan.defaults)


# ---------------------------------------------------------------- clean


def _unneeded(ledger: Ledger) -> dict[str, Sequence[Path]]:
    """What can go of a folder of results -> its files and folders."""
    plans, unread = filed.every(ledger.out)
    runs = {run: ledger.read(run) for run in ledger.runs()}
    begun = [run for run, record in runs.items() if record is None and run not in ledger.damaged]
    parts: dict[str, Sequence[Path]] = {}
    if old := _old(ledger, plans):
        parts[f"cache of other versions of the code ({counted(len(old), 'folder')})"] = old
    going_on = set(ledger.interrupted())
    for what, which, found in (
        ("interrupted run", "which would go on from there", [run for run in begun if run in going_on]),
        ("run", "of which there is no record", [run for run in begun if run not in going_on]),
    ):
        if found:
            parts[f"what {counted(len(found), what)} left, {which}"] = [ledger.folder(run) for run in found]
    finished = [run for run, record in runs.items() if record and record["status"] == "finished"]
    # A driver was killed between the record and this.
    if over := [path for run in finished for path in ledger.folder(run).glob("checkpoint*.pt")]:
        parts[f"{counted(len(over), 'checkpoint')} of finished runs"] = over
    if again := sorted((ledger.out / "cache").glob("again-*")):
        parts[f"what {counted(len(again), 'export')} left, killed while making a run again"] = again
    if torn := _torn(ledger, [path for paths in parts.values() for path in paths]):
        parts[f"{counted(len(torn), 'file')} half written by a process that was killed"] = torn
    if unread:
        for error in unread:
            say(str(error))
        say("what runs in no plan left is kept: it cannot be told which those are")
        return parts
    needed = _needed(runs, [Holdings(plan, ledger) for plan in plans])
    free = [run for run in runs if run not in needed and run not in begun]
    if weights := [folder for run in free if (folder := ledger.folder(run) / "weights").is_dir()]:
        parts[f"weights of {counted(len(weights), 'run')} in no plan"] = weights
    names = _names(runs[run] for run in free) - _names(runs[run] for run in needed)
    current = [folder for folder in _of_code(ledger) if folder not in old]
    if stores := [
        store
        for folder in current
        for store in sorted(index.parent for index in folder.rglob(INDEX))
        if names & _strings(read_sealed(store / INDEX).get("key"))
    ]:
        parts[f"cache of runs in no plan ({counted(len(stores), 'folder')})"] = stores
    return parts


def _torn(ledger: Ledger, going: Sequence[Path]) -> list[Path]:
    """What is half written, but for what a report or an export is writing, and what is inside of what goes anyway."""
    found = [path for path in sorted(ledger.out.rglob(".*.tmp")) if abandoned(path) is not False]
    gone = {*going, *found}
    return [path for path in found if gone.isdisjoint(path.parents)]


def _needed(runs: dict[RunId, Record | None], holdings: Sequence[Holdings]) -> set[RunId]:
    """The runs that plans have, and all that these start from."""
    found = {run for run, record in runs.items() if any(held.has(run, record) for held in holdings)}
    waiting = list(found)
    while waiting:
        before = set(_rests_on(runs.get(waiting.pop()))) & runs.keys() - found
        found |= before
        waiting += before
    return found


def _rests_on(record: Record | None) -> Iterable[RunId]:
    """The runs that a run started from."""
    return (record or {}).get("started_from", {})


def _of_code(ledger: Ledger) -> list[Path]:
    cache = ledger.out / "cache"
    return sorted(path for path in cache.glob("*") if OF_CODE.fullmatch(path.name) and path.is_dir())


def _old(ledger: Ledger, plans: Sequence[Plan]) -> list[Path]:
    """The folders of the cache that no code reads any more."""
    if not (found := _of_code(ledger)):
        return []
    for path in {path for plan in plans for path in plan.plugins if Path(path).is_file()}:
        registry.load_file(path)
    today = {of_stored(teacher) for teacher in registry.TEACHERS.names()}
    return [path for path in found if path.name not in today]


def _names(records: Iterable[Record | None]) -> set[str]:
    """The hashes that what is stored for these runs is named after: of data, corpora and weights."""
    found: set[str] = set()
    for record in records:
        told = (record or {}).get("specification") or {}
        found |= {text for name in ("data", "tasks", "corpus", "teacher") for text in _strings(told.get(name))}
        found |= _strings((record or {}).get("weights"))
    return {text for text in found if re.fullmatch("[0-9a-f]{16,}", text)}


def _strings(value: Any) -> set[str]:
    if isinstance(value, dict):
        return {text for part in value.values() for text in _strings(part)}
    if isinstance(value, list):
        return {text for part in value for text in _strings(part)}
    return {value} if isinstance(value, str) else set()


# ---------------------------------------------------------------- remove


def _chosen(name: str, holdings: Sequence[Holdings], ledger: Ledger) -> list[RunId]:
    """The runs that are there of a cell in any plan, each after those it is found by, or the one of this name.

    Raises UserError where there is none.
    """
    of_cell = dict.fromkeys(run for held in holdings for run in held.cells.get(name, ()))
    chosen = [run for run in of_cell or [name] if ledger.folder(run).is_dir()]
    if not chosen:
        raise UserError(f"cell {name} has no run yet")
    return chosen


def _resting_on(chosen: Sequence[RunId], holdings: Sequence[Holdings], ledger: Ledger) -> list[str]:
    """Sentences on the cells that have these runs, and on the runs that started from them."""
    said = []
    for held in holdings:
        for cell in held.plan.cells:
            if shared := [run for run in held.cells[cell.id] if run in chosen]:
                where = f"{cell.row}, {cell.student}, init {cell.init}, {cell.task}"
                said.append(f"cell {cell.id} of {held.plan.study} ({where}) has {len(shared)} of these runs")
    for run in ledger.runs():
        if run not in chosen and (before := sorted(set(_rests_on(ledger.read(run))) & set(chosen))):
            said.append(f"run {run} ({title_of(ledger.read(run))}) started from {' and '.join(before)}, and stays")
    return list(dict.fromkeys(said))


# ---------------------------------------------------------------- shared


def _agreed(question: str, yes: bool) -> bool:
    if yes:
        return True
    if not sys.stdin.isatty():
        raise UserError("nobody is at the terminal to confirm the removal: give --yes")
    print(f"{question} [y/N] ", end="", flush=True)
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _take_away(path: Path) -> None:
    """Remove a file or folder such that it is there whole or not at all: what a killed process leaves is cleaned."""
    aside = half_written(path)
    os.replace(path, aside)
    delete(aside)
