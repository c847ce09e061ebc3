"""Looking at what is done: harness status and show. Nothing here trains or writes."""

from __future__ import annotations

import time
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from harness import registry
from harness.commands.recorded import chosen_on, find, recorded, say_damage
from harness.commands.telling import tell
from harness.errors import counted
from harness.files import size_of
from harness.ledger import LOG, Ledger
from harness.planning.planned import Cell, Plan, all_trials_of, runs_of, waited_for
from harness.planning.recipe import as_known, number
from harness.planning.remembered import edited, edited_plugins
from harness.runs.told import Entry, Record
from harness.search import results
from harness.search.estimate import estimate, to_make
from harness.search.index import Index
from harness.search.kept import leaves
from harness.search.progress import Progress, by_search, done
from harness.search.progress import left as left_of

CAME_OUT = ("error", "metrics", "by_task", "selection", "best")  # of a record, what is told first


def status(options: Namespace) -> int:
    """Print what is done, running, failed and left."""
    plan, ledger = recorded(options)
    index = Index(ledger)
    seen = [index.progress(cell, plan.defaults) for cell in plan.cells]
    real = [(cell, found) for cell, found in zip(plan.cells, seen, strict=True) if not cell.refused]
    complete = sum(done(found) == runs_of(cell) for cell, found in real)
    held = {run: size_of(ledger.folder(run) / "weights") for _, found in real for run in leaves(plan, found)}  # bytes
    made, failed, left = results.counts(plan, seen)
    first = {run: (index.read(run) or {}).get("status") for run in plan.first}
    stands = [*first.values()]
    before = f"teacher runs: {stands.count('finished')} of {len(first)} done"
    before += f", {stands.count('failed')} failed" if "failed" in stands else ""
    lacking = [run for run in to_make(plan, seen, ledger) if first[run] == "finished"] if left else []
    if again := [run for run in lacking if run not in ledger.damaged]:  # what is damaged is told as that
        before += f", {len(again)} to be made again, as the weights are missing that others start from"
    which = f" ({plan.variant.replace('--', ' ').replace('/', ' ')})" if plan.variant else ""
    tell(f"study {plan.study}, profile {plan.profile}{which}, in {ledger.out}")
    print(f"cells: {complete} of {len(real)} complete, {len(plan.cells) - len(real)} impossible")
    print(f"runs: {made} done, {failed} failed, {left} left; {before}")
    records: dict[str, Any] = {run: record for _, found in real for run, record in found.records}
    records |= {run: record for run in plan.first if (record := index.read(run))}
    if again := sum(one["status"] == "failed" and "diverged" not in one for one in records.values()):
        print(f"the next harness run tries {counted(again, 'failed run')} again")
    if any(held.values()):
        print(f"weights kept: {counted(sum(map(bool, held.values())), 'run')}, {sum(held.values()) / 1e6:.1f} MB")
    _tell_going(plan, ledger, index, seen)
    changed = results.redeclared(plan, registry.STUDIES.get(plan.study))
    for sentence in (*changed, *edited(plan), *edited_plugins(plan), *ledger.damaged.values()):
        tell(sentence)
    return 0


def _tell_going(plan: Plan, ledger: Ledger, index: Index, seen: Sequence[Progress]) -> None:
    """Which runs go on, by name, how long the rest takes, and which were interrupted."""
    working = ledger.is_worked_in()
    running = ledger.running() if working else {}
    for run, (since, name) in running.items():
        tell(f"running since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(since))}: {name} ({run})")
    if running and any(found.missing for found in seen):
        tell(estimate(plan, results.replayed(plan, ledger), len(running), ledger))
    if working and not running:
        print("a harness run is working here")
    if begun := [run for run in ledger.interrupted(index.read) if run not in running]:
        known = {run.identity(plan.defaults): run for found in seen for run in found.missing}
        known |= {run: first.run for run, first in plan.first.items()}
        titles = {run: f"{what.title}, seed {what.seed} ({run})" for run, what in known.items()}
        interrupted = "interrupted (the same harness run command continues them)"
        what = "begun and not finished" if working is None else interrupted
        tell(f"{what}: {', '.join(titles.get(run, run) for run in begun)}")
    if working is None:
        tell(f"whether a harness run is working here cannot be told: {ledger.out / '.lock'} cannot be written")


def show(options: Namespace) -> int:
    """Print one cell or run."""
    ledger = Ledger(Path(options.out))
    which, cells, plans = find(ledger, options.what)
    if which in cells:
        places = [(cell.row, cell.student, cell.init, cell.task) for p in plans for cell in p.cells if cell.id == which]
        _show_cell(*cells[which], ledger, list(dict.fromkeys(places)))
        say_damage(ledger)
    else:
        _show_run(which, ledger)
    return 0


def _show_cell(plan: Plan, cell: Cell, ledger: Ledger, places: Iterable[tuple[str, str, str, str]]) -> None:
    """places: of every row, student, initialisation and task whose runs are these."""
    where = (f"{row}, {student}, init {init}, task {task}" for row, student, init, task in places)
    tell(f"cell {cell.id}: {'; and '.join(where)}")
    if cell.refused:
        tell(f"impossible: {cell.refused}")
        return

    found = Index(ledger).progress(cell, plan.defaults, ledger.read)
    tell(f"learns by layer (student, teacher): {', '.join(str(tuple(pair)) for pair in cell.layers)}")
    protocol = cell.run.settings.get("protocol")
    if protocol:  # a cell that only measures has nothing to choose
        on = chosen_on(protocol)
        each = " for each seed" * cell.searched_by_seed
        tell(f"search{each}: {len(found.trials)} of {all_trials_of(cell)} trials, chosen by {cell.metric} on {on}")
    chosen = {one.run for one in found.seeds}
    trials = [(seed, order, one) for seed, some in by_search(cell, found).items() for order, one in enumerate(some)]
    for seed, order, trial in trials:
        mark = " <- best" if trial.run in chosen else ""
        what = f"failed: {trial.record['error']}" if trial.score is None else f"selection {trial.score:.4f}"
        what += ", stopped early" if trial.record.get("pruned") else ""
        tried = _worded(as_known(plan, trial.hyperparameters)) or "no setting is searched"
        which = f"seed {seed}, " * cell.searched_by_seed + f"trial {order}"
        tell(f"  {which}: run {trial.run}, {tried}, {what}{mark}")
    for one in found.seeds:
        if one.score is None:
            what = f"failed: {one.record['error']}"
        else:
            epoch = (one.record.get("best") or {}).get("epoch")  # a teacher that answers as it is has none
            what = f"dev {one.record['metrics'][cell.metric]:.4f}{'' if epoch is None else f', epoch {epoch}'}"
        tell(f"  seed {one.made.seed}: run {one.run}, {what}")
    if found.missing:
        tell(f"  still to run: {left_of(cell, found)}")
    _tell_tracebacks([*(one.run for one in found.runs), *waited_for(plan.first, cell.after)], ledger)


def _tell_tracebacks(runs: Iterable[str], ledger: Ledger) -> None:
    """Why each of these runs failed that did; what several have in common once."""
    said: dict[str, list[str]] = {}
    for run in dict.fromkeys(runs):
        record = ledger.read(run) or {}
        if record.get("status") == "failed":
            said.setdefault(record.get("traceback") or record["error"], []).append(run)
    for text, failed in said.items():
        tell(f"run {', '.join(failed)} failed:\n{text.rstrip()}")


def _show_run(run: str, ledger: Ledger) -> None:
    record = ledger.read(run)
    if record is None:
        tell(ledger.damaged.get(run, f"run {run} was begun and is not finished"))
    else:
        _show_record(run, record)
    if said := ledger.log(run):
        tell(f"what it printed, in {ledger.folder(run) / LOG}:\n{said.rstrip()}")


def _show_record(run: str, record: Record) -> None:
    what = record.get("specification") or {}
    tell(f"run {run}: {record['status']}")
    for name in sorted(what.keys() - {"settings"}):
        tell(f"  {name}: {_worded(what[name])}")
    if settings := what.get("settings"):
        tell("\n    ".join(["  settings:", *(f"{name}: {_worded(settings[name])}" for name in sorted(settings))]))
    tell("what came out:")
    told = [*CAME_OUT, *sorted(record.keys() - {*CAME_OUT, "curve", "traceback", "status", "specification"})]
    for name in told:
        if record.get(name) not in (None, {}):
            tell(f"  {name}: {_worded(record[name])}")
    for entry in record.get("curve", ()):
        chosen = "" if entry["selection"] is None else f", selection {entry['selection']:.4f}"
        tell(f"  {entry['stage']} {entry['epoch']}: loss {entry['loss']:.5f}{_terms(entry)}{chosen}")
    if "traceback" in record:
        tell(record["traceback"])


def _worded(value: Any) -> str:
    """A value of a record for people, with six digits; what is nested stands in brackets."""
    if isinstance(value, Mapping):
        each = ((name, _worded(v), isinstance(v, Mapping)) for name, v in value.items())
        return ", ".join(f"{name} ({told})" if nested else f"{name} {told}" for name, told, nested in each)
    if isinstance(value, list | tuple):
        return ", ".join(map(_worded, value))
    if isinstance(value, bool | None):
        return {True: "yes", False: "no", None: "none"}[value]
    return number(value)


def _terms(entry: Entry) -> str:
    """The terms of a point's loss where there are several, each with its share of the gradient's norm."""
    if len(found := entry.get("terms", {})) < 2:
        return ""
    shares = {name: "" if term["share"] is None else f", {100 * term['share']:.0f}%" for name, term in found.items()}
    told = (f"{name} {term['value']:.5f}{shares[name]}" for name, term in found.items())
    return f" ({'; '.join(told)} of the gradient)"
