"""One trained model out of a folder of results, for those who take it home: found, and made again where it is lost."""

from __future__ import annotations

import hashlib
import shutil
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from harness import code_versions, registry
from harness.commands.recorded import find, tasks_of
from harness.commands.telling import say
from harness.contracts import Task
from harness.errors import UserError, listed
from harness.executors.local import LocalExecutor
from harness.files import checksums, remove
from harness.ledger import Ledger, packed
from harness.planning import filed
from harness.planning.planned import Cell, Plan, waited_for
from harness.runs import Run, RunId
from harness.runs.messages import Failed, Finished, Refused
from harness.runs.told import Record, metrics_of
from harness.search.display import display
from harness.search.driver import Driver, workspace_of
from harness.search.kept import best_run
from harness.search.progress import Progress, progress

if TYPE_CHECKING:
    from harness.exporting.opened import Opened


@dataclass(frozen=True)
class Taken:
    """A run that answers a task. cell, found: that it is one of, with what the ledger says of it; None of a teacher."""

    plan: Plan
    ledger: Ledger
    task: Task
    run: RunId
    made: Run
    record: Record
    cell: Cell | None
    found: Progress | None


def taken(out: Path, asked: str) -> Taken:
    """The best run of a cell, or a run, by its id or the start of it.

    Raises UserError where there is none, it is not finished, failed, or leaves no model that answers a task.
    """
    ledger = Ledger(out)
    which, cells, plans = find(ledger, asked)
    if which in cells:
        return _of_cell(*cells[which], ledger)
    held: dict[str, Taken] = {}  # by task
    # Of plans that have a cell in common each may have runs of its own: other seeds of another setting, more searches.
    every = [(plan, cell) for plan in plans for cell in plan.cells if not cell.refused]
    for plan, cell in [*cells.values(), *every]:
        found = progress(cell, plan.defaults, ledger.read)
        for one in (*found.seeds, *found.trials):
            if one.run == which and cell.task not in held:
                task = tasks_of(plan)[cell.task]
                held[cell.task] = Taken(plan, ledger, task, which, one.made, one.record, cell, found)
    if len(held) > 1:
        which_cell = ", ".join(f"{one.cell.id} on {task}" for task, one in held.items() if one.cell)
        raise UserError(f"run {which} answers several tasks: give the cell of one of them: {which_cell}")
    if held:
        return _checked(*held.values())
    record = ledger.read(which)
    for plan in plans:
        if which in plan.first and record is not None:
            made = plan.first[which].run
            tasks = list(made.data_of)
            if len(tasks) == 1:
                return _checked(Taken(plan, ledger, tasks_of(plan)[tasks[0]], which, made, record, None, None))
            raise UserError(f"run {which} ({made.title}) does not answer a single task: give a cell of a study")
    raise UserError(f"run {which} is part of no plan in {out}: the harness run command that made it plans it again")


def _of_cell(plan: Plan, cell: Cell, ledger: Ledger) -> Taken:
    where = f"cell {cell.id} ({cell.row} on {cell.task})"
    if cell.refused:
        raise UserError(f"{where} is impossible: {cell.refused}")
    found = progress(cell, plan.defaults, ledger.read)
    if found.missing:
        raise UserError(
            f"{where} is not finished, with {len(found.missing)} or more runs left: "
            "the harness run command that planned it goes on with it"
        )
    best = best_run(found)
    if best is None:
        raise UserError(f"{where} failed in every trial: harness show {cell.id} tells why")
    return _checked(Taken(plan, ledger, tasks_of(plan)[cell.task], best.run, best.made, best.record, cell, found))


def _checked(one: Taken) -> Taken:
    if one.record["status"] == "failed":
        raise UserError(f"run {one.run} failed: harness show {one.run} tells why")
    for path in one.plan.plugins:
        registry.load_file(path)
    for known, name in ((registry.STUDENTS, one.made.student_name), (registry.TEACHERS, one.plan.teacher)):
        if name and name not in known.names():
            raise filed.not_installed(f"{known.kind} {name}", one.plan.origins.values())
    if not one.made.leaves_model:
        raise UserError(f"run {one.run} ({one.made.title}) leaves no model that answers a task")
    return one


@contextmanager
def opened(one: Taken) -> Iterator[tuple[Opened, Record]]:
    """The model, with the record of the run that its weights are from: made again, here, where they are not kept.

    Raises UserError where that is not possible.
    """
    from harness.exporting.opened import of_run

    workspace = workspace_of(one.plan, one.ledger.out, one.run, one.made)
    if not (trouble := one.ledger.trouble_with_weights(one.run)):
        try:
            student = of_run(one.made, one.task, workspace)
        except (OSError, ValueError):
            if not (trouble := one.ledger.trouble_with_weights(one.run)):  # taken away as they were opened
                raise
        else:
            if changed := code_versions.opened_otherwise(one.made):
                say(
                    f"the code of {listed(changed)} is another now than when run {one.run} was made: what follows is "
                    "of its weights with the new code"
                )
            yield student, one.record
            return
    say(f"the weights of run {one.run} {trouble}: it is made again")
    aside = one.ledger.out / "cache" / f"again-{one.run}"
    with one.ledger.lock():
        try:
            again = _made_again(one, aside)
            if differences := _differences(one, again):
                say(differences)
                yield of_run(one.made, one.task, replace(workspace, run=aside)), again.record
                return
            _keep(one, aside)
        finally:
            remove(aside)
    yield of_run(one.made, one.task, workspace), one.record


def _made_again(one: Taken, aside: Path) -> Finished:
    """The run as it ends this time, its files in another folder. Raises UserError where it cannot be made."""
    plan, ledger, after = one.plan, one.ledger, one.cell.after if one.cell else one.plan.first[one.run].after
    first = waited_for(plan.first, after)
    remove(aside)
    aside.mkdir(parents=True)
    with closing(LocalExecutor(1)) as executor:
        if first:
            needed = replace(plan, cells=[], first=first)
            with display(needed) as listener:
                Driver(needed, ledger, executor, listener, wanted=after).run()
        workspace = workspace_of(plan, ledger.out, one.run, one.made, keep=True)
        executor.submit(one.run, one.made.specification(), replace(workspace, run=aside))
        while not isinstance(message := executor.next(), (Finished, Failed, Refused)):
            pass
    if isinstance(message, Refused):
        raise message.error()
    if isinstance(message, Failed):
        raise UserError(f"run {one.run} could not be made again: {message.error}")
    return message


def _differences(one: Taken, again: Finished) -> str:
    """A sentence on how the numbers of a run differ from those recorded, or ""."""
    recorded = one.ledger.read(one.run) or {}
    before, now = metrics_of(recorded), metrics_of(again.record)
    if changed := [name for name in before if now.get(name) != before[name]]:
        mine, theirs = now.get(changed[0], float("nan")), before[changed[0]]
        told = f"has {changed[0]} {mine:.4f} on dev, where {theirs:.4f} is recorded"
    elif recorded.get("predictions_sha256") != hashlib.sha256(packed(again.predictions or {})).hexdigest():
        told = "has the scores recorded, but predicts other examples right"
    else:
        return ""
    return (
        f"run {one.run}, made again, {told}: the code, a library or the machine is another now; what follows is of the "
        "new weights"
    )


def _keep(one: Taken, aside: Path) -> None:
    """Put the weights beside the record, which vouches for them from now on."""
    folder, recorded = one.ledger.folder(one.run) / "weights", one.ledger.read(one.run) or {}
    shutil.rmtree(folder, ignore_errors=True)
    (aside / "weights").replace(folder)
    one.ledger.write(one.run, {**recorded, "weights": checksums(folder)}, None)
