"""Looking at what is recorded: report, status and show. Nothing here trains or writes."""

from __future__ import annotations

import dataclasses
import gc
import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, cast

from harness import registry, reports
from harness.contracts import Study, Task
from harness.data.tasks import MEASURED, get_task
from harness.errors import UserError, near, plain, sentence, unknown
from harness.evaluation import server_scores
from harness.ledger import LOG, Held, Ledger
from harness.planning import recipe
from harness.planning.plan import resolve
from harness.planning.planned import FORMAT, Cell, Plan, distinct
from harness.planning.recipe import as_known
from harness.planning.request import Request
from harness.runs import CountRun
from harness.runs.told import Record
from harness.search import frame, results
from harness.search.index import Index
from harness.search.progress import progress


def report(options: Namespace) -> int:
    """Print the table of the last plan from what is recorded; a study that only counts is counted at once."""
    if options.format not in reports.FORMATS:
        raise unknown("report format", options.format, reports.FORMATS)
    study = _study(options)
    plan, ledger = _counted(options) if registry.PROCEDURES.get(study.procedure).at_once else recorded(options)
    table = table_of(plan, ledger)
    if options.compare:
        table = reports.with_published(table, registry.STUDIES.get(plan.study))
    for damage in ledger.damaged.values():
        say(damage)
    print(reports.render(table, options.format), end="")
    return 0


def status(options: Namespace) -> int:
    """Print what is done, running, failed and left."""
    plan, ledger = recorded(options)
    index = Index(ledger)
    done = failed = left = refused = complete = 0
    shared = {cell.search: cell.id for cell in distinct(plan.cells)}
    for cell in plan.cells:
        if cell.refused:
            refused += 1
            continue
        found = index.progress(cell, plan.defaults)
        runs = [*found.trials, *found.seeds[1:]]
        bad = sum(1 for r in runs if r.score is None)
        wanted = found.wanted_trials + cell.seeds - 1
        if shared[cell.search] == cell.id:  # otherwise another cell's runs
            done, failed, left = done + len(runs) - bad, failed + bad, left + wanted - len(runs)
        complete += not bad and len(runs) == wanted
    made = sum(1 for run in plan.first if (index.read(run) or {}).get("status") == "finished")
    tell(f"study {plan.study}, profile {plan.profile}, in {ledger.out}")
    print(f"cells: {complete} of {len(plan.cells) - refused} complete, {refused} impossible")
    print(f"runs: {done} done, {failed} failed, {left} left; teacher runs: {made} of {len(plan.first)} done")
    working = _is_locked(ledger)
    running = ledger.running() if working else {}
    for run, since in running.items():
        print(f"running since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(since))}: {run}")
    if working and not running:
        print("a harness run is working here")
    if begun := [run for run in ledger.interrupted(index.read) if run not in running]:
        interrupted = "interrupted (the same harness run command continues them)"
        print(f"{'begun and not finished' if working is None else interrupted}: {', '.join(begun)}")
    if working is None:
        tell(f"whether a harness run is working here cannot be told: {ledger.out / '.lock'} cannot be written")
    for damage in ledger.damaged.values():
        tell(damage)
    return 0


def show(options: Namespace) -> int:
    """Print one cell or run."""
    ledger = Ledger(Path(options.out))
    asked = options.what
    plans, unread = plans_in(ledger.out)
    cells = {cell.id: (plan, cell) for plan in plans for cell in plan.cells}
    runs = list(ledger.runs())
    matches = [i for i in {*cells, *runs} if i.startswith(asked)]
    if not matches:
        for error in unread:
            say(str(error))
        raise UserError(f"there is no cell or run {asked!r} in {ledger.out}: {near(asked, [*cells, *runs])}")
    if len(matches) > 1:
        raise UserError(f"{asked!r} is the start of {len(matches)} ids: {near(asked, matches)}; give more of it")
    if matches[0] in cells:
        _show_cell(*cells[matches[0]], ledger)
    else:
        _show_run(matches[0], ledger)
    return 0


@contextmanager
def _uncollected() -> Iterator[None]:
    """Without the search for unreachable cycles, which would pass over all records read so far again and again."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


@_uncollected()
def table_of(plan: Plan, ledger: Ledger) -> reports.Table:
    """The table of what is recorded, made from one frame of runs, which it keeps."""
    study = registry.STUDIES.get(plan.study)
    replays = results.replayed(plan, ledger)
    runs = frame.runs(plan, ledger, replays)
    inits, profile = tuple(plan.inits), study.profile(plan.profile)
    study = dataclasses.replace(
        study,
        students=tuple(plan.students),
        profiles={
            **study.profiles,
            plan.profile: dataclasses.replace(profile, inits=inits, tasks=tuple(plan.tasks)),
        },
    )
    provenance = reports.Provenance(
        teacher=plan.label,
        teacher_scores=results.teacher_scores(plan, ledger),
        teachers=results.teachers(plan),
        tuned=bool(plan.teachers),
        protocol=recipe.protocol(plan),
        budget=recipe.budget(plan),
        recipe=recipe.recipe(plan),
        notes=(
            *recipe.corpus_recipe(plan),
            *results.coverage(plan, replays),
            *results.pruned(replays),
            *results.other_weights(replays, ledger),
        ),
        older_code=tuple(results.older_code(plan, ledger.read, replays)),
    )
    table = reports.build(study, plan.profile, frame.cells(plan, runs), shown_of(plan), provenance, score_of)
    return dataclasses.replace(table, submitted=server_scores.of_cells(plan, ledger, replays), runs=runs)


def shown_of(plan: Plan) -> dict[str, Task]:
    """The tasks of a plan, by name, each with the metric that its study shows first."""
    study = registry.STUDIES.get(plan.study)
    return {name: dataclasses.replace(task, metric=study.shown(task)[0]) for name, task in tasks_of(plan).items()}


def score_of(task: Task, predictions: Any, labels: Any) -> float:
    """The value of task.metric. predictions, labels: (N,)."""
    from harness.evaluation.metrics import score

    return score(task, predictions, labels)[task.metric]


def tasks_of(plan: Plan) -> dict[str, Task]:
    """The tasks of a plan, by name; those of its plugin files are found there again."""
    for path in plan.plugins if {*plan.tasks} - {*MEASURED, *registry.TASKS.names()} else ():
        registry.load_file(path)
    return {name: get_task(name) for name in plan.tasks}


def _study(options: Namespace) -> Study:
    """The study asked for. Raises UserError if there is none of that name or profile."""
    if options.study not in registry.STUDIES.names():
        raise unknown("study", options.study, registry.STUDIES.names())
    study = registry.STUDIES.get(options.study)
    study.profile(options.profile)
    return study


class _Counted:
    """Records of counted models, as a ledger that was never written."""

    damaged: Mapping[str, str] = {}

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}

    def read(self, run: str) -> Any:
        return self.records.get(run)

    def predictions(self, run: str) -> None:
        return None


def _counted(options: Namespace) -> tuple[Plan, Any]:
    from harness.jobs.measuring import count_parameters

    plan, ledger = resolve(Request(options.study, options.profile)), _Counted()
    for cell in plan.cells:
        for run in progress(cell, plan.defaults, ledger.read).missing:
            record = {**count_parameters(cast(CountRun, run))[0], "status": "finished"}
            ledger.records[run.identity(plan.defaults)] = record
    return plan, ledger


def recorded(options: Namespace) -> tuple[Plan, Ledger]:
    _study(options)
    ledger = Ledger(Path(options.out))
    path = plan_file(ledger.out, options.study, options.profile)
    with suppress(FileNotFoundError):
        return _read_plan(path), ledger
    raise UserError(
        f"study {options.study} has no results of profile {options.profile} in {ledger.out}; start with "
        f"harness run --study {options.study} --profile {options.profile} --out {ledger.out}"
    )


def plans_in(out: Path) -> tuple[Sequence[Plan], Sequence[Exception]]:
    """(every plan in a folder of results, what is wrong with those that cannot be read)."""
    plans: list[Plan] = []
    unread: list[Exception] = []
    for path in sorted(out.glob("*/*/plan.json")):
        try:
            plans.append(_read_plan(path))
        except (UserError, FileNotFoundError) as error:  # a link that leads nowhere
            unread.append(error)
    return plans, unread


def _read_plan(path: Path) -> Plan:
    again = "the harness run command that made it writes it again"
    try:
        plan = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {again}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged; {again}") from error
    if isinstance(plan, dict) and plan.get("format", FORMAT) != FORMAT:
        raise UserError(f"{path} was written by another version; {again}")
    try:
        return Plan.from_json(plan)
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # it was not written by us, or not whole
        raise UserError(f"{path} is damaged; {again}") from error


def plan_file(out: Path, study: str, profile: str) -> Path:
    return out / study / profile / "plan.json"


def _show_cell(plan: Plan, cell: Cell, ledger: Ledger) -> None:
    tell(f"cell {cell.id}: {cell.row}, {cell.student}, init {cell.init}, task {cell.task}")
    if cell.refused:
        tell(f"impossible: {cell.refused}")
        return

    found = Index(ledger).progress(cell, plan.defaults, ledger.read)
    tell(f"learns by layer (student, teacher): {', '.join(str(tuple(pair)) for pair in cell.layers)}")
    protocol = cell.run.settings.get("protocol")
    if protocol:  # a cell that only measures has nothing to choose
        on = chosen_on(protocol)
        tell(f"search: {len(found.trials)} of {found.wanted_trials} trials, chosen by {cell.metric} on {on}")
    for number, trial in enumerate(found.trials):
        mark = " <- best" if found.best and trial.run == found.best.run else ""
        what = f"failed: {trial.record['error']}" if trial.score is None else f"selection {trial.score:.4f}"
        tell(f"  trial {number}: run {trial.run}, {as_known(plan, trial.hyperparameters)}, {what}{mark}")
    for one in found.seeds:
        what = (
            f"failed: {one.record['error']}"
            if one.score is None
            else f"dev {one.record['metrics'][cell.metric]:.4f}, epoch {one.record['best']['epoch']}"
        )
        tell(f"  seed {one.made.seed}: run {one.run}, {what}")
    if found.missing:
        tell(f"  still to run: {len(found.missing)}")


def chosen_on(protocol: str) -> str:
    return "dev" if protocol == "published" else "held-out training data"


def _show_run(run: str, ledger: Ledger) -> None:
    record = ledger.read(run)
    if record is None:
        tell(ledger.damaged.get(run, f"run {run} was begun and is not finished"))
    else:
        _show_record(run, record)
    if said := ledger.log(run):
        tell(f"what it printed, in {ledger.folder(run) / LOG}:\n{said.rstrip()}")


def _show_record(run: str, record: Record) -> None:
    tell(f"run {run}: {record['status']}")
    for name, value in sorted(record.items()):
        if name not in ("curve", "traceback", "status", "specification"):
            tell(f"  {name}: {value}")
    tell(f"  specification: {json.dumps(record.get('specification'), indent=2, sort_keys=True)}")
    for entry in record.get("curve", ()):
        chosen = "" if entry["selection"] is None else f", selection {entry['selection']:.4f}"
        tell(f"  {entry['stage']} {entry['epoch']}: loss {entry['loss']:.5f}{chosen}")
    if "traceback" in record:
        tell(record["traceback"])


def _is_locked(ledger: Ledger) -> bool | None:
    """Whether another process works in the folder; None where the lock cannot tell."""
    try:
        with ledger.lock():
            return False
    except Held:
        return True
    except UserError:
        return None


def say(text: str) -> None:
    """Tell something beside the output."""
    print(f"harness: {sentence(text)}", file=sys.stderr)


def tell(text: str) -> None:
    """Print lines that may hold text from outside."""
    print("\n".join(map(plain, text.split("\n"))))
