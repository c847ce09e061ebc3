"""The command `submit`: predictions on GLUE's test splits, as its server takes them, and what it said of them.

The same run gives the same numbers: the best run of a cell is made again, and this time predicts the test split
too. That is a run of its own in the ledger, whose specification names the test data.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness.commands.recorded import recorded, tasks_of
from harness.commands.telling import say, tell
from harness.contracts import Task
from harness.errors import UserError, check_known, listed, unknown
from harness.evaluation import server_scores
from harness.executors import environment
from harness.executors.choosing import cores
from harness.executors.local import LocalExecutor
from harness.files import check_writable
from harness.ledger import Ledger
from harness.planning.planned import Cell, Plan, all_trials_of, waited_for
from harness.runs import JointRun, Run
from harness.search.display import display
from harness.search.driver import Driver
from harness.search.progress import Finished, progress


def submit(options: Namespace) -> int:
    """Make what is missing, write one file a test split and print where they are; or keep the scores given.

    Raises UserError for a row, cell or test file that is not there or not finished.
    """
    if options.scores:
        return _keep_scores(options)
    from harness.data import loading
    from harness.evaluation import submission

    environment.launched()  # refuses what cannot be a launch
    plan, ledger = recorded(options)
    source = options.data or plan.source
    cells = _cells(plan, options)
    best = {name: _best(plan, ledger, cell) for name, cell in cells.items()}
    known_tasks = tasks_of(plan)
    tasks = {name: known_tasks[name] for name in cells}
    tests = {name: loading.load_test(task, source) for name, task in tasks.items()}
    submission.check_apart(tasks.values())
    for name, task in tasks.items():
        if loading.content(task, source) != best[name].made.data_of[name]:
            raise UserError(f"the training data of {name} in {source} are not those that row {options.row} was made of")
    contents = {name: content for name, (_, content) in tests.items()}
    repeated = replace(
        plan,
        source=source,
        cells=[_repeated(cell, best, contents) for cell in cells.values()],
        first=waited_for(plan.first, (run for cell in cells.values() for run in cell.after)),
    )
    folder = Path(options.to)
    check_writable(folder, "--to")
    with ledger.lock(), closing(LocalExecutor(min(cores(), len(cells)))) as executor, display(repeated) as listener:
        Driver(repeated, ledger, executor, listener).run()
    status, others = 0, submission.held(folder)
    for cell in repeated.cells:
        task = tasks[cell.task]
        again = progress(cell, plan.defaults, ledger.read)
        if again.best is None:
            which = f": harness show {again.trials[0].run} tells why" if again.trials else ""
            say(f"row {options.row} on {task.name} could not be made again{which}")
            status = 1
            continue
        _say_differences(task, best[task.name], again.best)
        others -= _write(task, tests[task.name][0], ledger, again.best, folder)
    if others:
        say(f"{folder} held {listed(sorted(others))} before: the archive is of row {options.row} if they are too")
    if lacking := submission.lacking(folder):
        say(f"the server takes an archive of all of its files; {folder} has no {', '.join(lacking)}")
    return status


def _keep_scores(options: Namespace) -> int:
    """Keep what the server said of the row's submitted runs, for comparisons with published test scores."""
    for flag in ("data", "tasks"):
        if getattr(options, flag):
            raise UserError(f"--{flag} has no effect with --scores, whose lines name their tasks")
    plan, ledger = recorded(options)
    said = server_scores.read(Path(options.scores), plan.tasks)
    cells = _cells(plan, Namespace(**{**vars(options), "tasks": list(said)}))
    with ledger.lock():
        scores: dict[str, dict[str, Mapping[str, float]]] = {}
        submitted = _submitted(plan, ledger)
        for task, cell in cells.items():
            run = _best(plan, ledger, cell).run
            if (run, task) not in submitted:
                raise UserError(
                    f"row {options.row} on {task} was not submitted as it is now: --to FOLDER writes its predictions"
                )
            scores.setdefault(run, {})[task] = said[task]
        server_scores.keep(ledger, scores)
    tell(
        f"scores of row {options.row} kept for {', '.join(said)}: harness report --compare published shows them beside "
        "published test scores"
    )
    return 0


def _submitted(plan: Plan, ledger: Ledger) -> set[tuple[str, str]]:
    """(run, task) of every run that was made again to predict the task's test splits."""
    found = set()
    for record in map(ledger.read, ledger.runs()):
        if record is None or record["status"] != "finished":
            continue
        if asked := (record.get("specification") or {}).get("test"):
            again = Run.read({name: v for name, v in record["specification"].items() if name != "test"})
            found |= {(again.identity(plan.defaults), task) for task in asked}
    return found


def _cells(plan: Plan, options: Namespace) -> dict[str, Cell]:
    """The one cell of the row on each task. Raises UserError where there is none, or several."""
    rows = [row.name for row in plan.rows]
    check_known(f"row of study {plan.study}", options.row, rows)
    for task in options.tasks or ():
        check_known("task of this plan", task, plan.tasks)
    found: dict[str, Cell] = {}
    for task in options.tasks or plan.tasks:
        of_row = [cell for cell in plan.cells if cell.row == options.row and cell.task == task]
        for axis in ("student", "init"):
            asked = getattr(options, axis)
            if asked is not None and of_row and asked not in {getattr(cell, axis) for cell in of_row}:
                raise unknown(f"{axis} of row {options.row} on {task}", asked, {getattr(cell, axis) for cell in of_row})
            of_row = [cell for cell in of_row if asked in (None, getattr(cell, axis))]
        possible = [cell for cell in of_row if not cell.refused]
        if len(possible) > 1:
            axis = "student" if len({cell.student for cell in possible}) > 1 else "init"
            values = " or ".join(sorted({getattr(cell, axis) for cell in possible}))
            raise UserError(f"row {options.row} has {len(possible)} cells on {task}: add --{axis} {values}")
        if possible:
            found[task] = possible[0]
        elif options.tasks:
            why = f": {of_row[0].refused}" if of_row else ""
            raise UserError(f"row {options.row} has no cell on {task}{why}")
    if not found:
        raise UserError(f"row {options.row} has no cell that could predict anything")
    return found


def _best(plan: Plan, ledger: Ledger, cell: Cell) -> Finished:
    """The run that chose the cell's setting. Raises UserError where the search is not over, or nothing succeeded."""
    where = f"row {cell.row} on {cell.task}"
    if not cell.run.predicts:
        raise UserError(f"{where} only measures ({cell.run.kind}): it predicts nothing")
    found = progress(cell, plan.defaults, ledger.read)
    if len(found.trials) < (wanted := all_trials_of(cell)):
        raise UserError(
            f"{where} is not finished, with {len(found.trials)} of {wanted} trials made: "
            "the harness run command that planned it goes on with it"
        )
    if found.best is None:
        raise UserError(f"{where} failed in every trial; harness show {cell.id} tells why")
    return found.best


def _repeated(cell: Cell, best: Mapping[str, Finished], contents: Mapping[str, str]) -> Cell:
    """A cell of a single run: the best one, which predicts the test splits of its tasks too."""
    run = best[cell.task]
    asked = {task: content for task, content in contents.items() if best[task].run == run.run}
    again = Run.read({**run.made.specification(), "test": asked})
    alone = replace(cell, space={}, trials=1, seeds=1, searched_by_seed=False, lengthened=False)
    return replace(alone, run=again, starts=(), teachers=())


def _say_differences(task: Task, before: Finished, now: Finished) -> None:
    for name, value in before.record["metrics"].items():
        again = now.record["metrics"][name]
        if again != value:
            say(
                f"the repeated run of {task.name} has {name} {again:.4f} on dev, where {value:.4f} is recorded: "
                "the code, a library or the machine is another now"
            )


def _write(task: Task, tests: Sequence[Any], ledger: Ledger, made: Finished, folder: Path) -> set[str]:
    """The names of the files that are written."""
    from harness.evaluation import submission

    predictions = ledger.predictions(made.run)
    if predictions is None:
        raise UserError(
            f"the predictions of run {made.run} are damaged: remove {ledger.folder(made.run)} and try again"
        )
    of_task = f"{task.name}/" if isinstance(made.made, JointRun) else ""  # of a run of several tasks
    written = [
        submission.write(task, test, predictions[f"{of_task}{test.split.name}/predictions"], folder) for test in tests
    ]
    print(*written, sep="\n")
    return {path.name for path in written}
