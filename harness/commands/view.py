"""Looking at what is recorded: report, status and show. Nothing here trains, or writes but into the cache."""

from __future__ import annotations

import json
import sys
import time
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from harness import registry, reports
from harness.code_versions import here
from harness.collecting import uncollected
from harness.commands import columns, exchange, long_form, methods
from harness.commands.kept_table import KeptTable
from harness.contracts import CellResult, Study, Task
from harness.data import own
from harness.data.tasks import MEASURED, get_task
from harness.errors import UserError, near, plain, sentence, unknown
from harness.evaluation import server_scores
from harness.ledger import LOG, Held, Ledger
from harness.planning import filed, recipe
from harness.planning.plan import resolve
from harness.planning.planned import Cell, Plan, distinct
from harness.planning.recipe import as_known
from harness.planning.request import Request
from harness.runs import CountRun
from harness.runs.told import Entry, Record
from harness.search import frame, results, terms
from harness.search import kept as weights
from harness.search.estimate import estimate
from harness.search.index import Index
from harness.search.progress import Progress, progress


def report(options: Namespace) -> int:
    """Print the table of the last plan from what is recorded; a study that only counts is counted at once."""
    formats = (*reports.FORMATS, *methods.FORMATS, *long_form.FORMATS, *exchange.FORMATS)
    if options.format not in formats:
        raise unknown("report format", options.format, formats)
    if (options.format in exchange.FORMATS) != (options.to is not None):
        raise UserError(f"--to FOLDER goes with --format {' or '.join(exchange.FORMATS)}: they write files")
    if options.additions and options.format not in reports.FORMATS:
        raise UserError(f"--with goes with --format {', '.join(reports.FORMATS)}: what it adds stands below a table")
    code = here(options.plugin)
    study = _study(options)
    plan, ledger = _counted(options) if registry.PROCEDURES.get(study.procedure).at_once else recorded(options)
    if options.format in long_form.FORMATS:
        long_form.write(plan, ledger, options.format)
        return 0
    if options.format in exchange.FORMATS:
        for line in exchange.write(plan, tasks_of(plan), cast(Ledger, ledger), options.format, Path(options.to)):
            tell(line)
        return 0
    if isinstance(ledger, Ledger):
        print(_kept_text(plan, ledger, options, code), end="")
    else:
        print(_text(plan, ledger, options), end="")
    return 0


def _kept_text(plan: Plan, ledger: Ledger, options: Namespace, code: str | None) -> str:
    """The table as asked for, of the cache where nothing has changed; what it is to be read with is told."""
    asked = [options.format, options.layout, options.against, options.compare, options.additions]
    # Plugins that the plan alone names are loaded by now, as they were, and columns are measured.
    vouches = not options.columns and (options.plugin or not plan.plugins)
    name = f"report {plan.study} {plan.profile} {plan.variant} {asked}"
    kept = KeptTable(name, plan, ledger, code if vouches else None)
    text = kept.said().get("text")
    if text is None:
        text = _text(plan, ledger, options)
        if not ledger.damaged:
            with suppress(UserError):  # a folder that others may only read
                kept.keep({"text": text})
    for damage in ledger.damaged.values():
        say(damage)
    _say_how_it_goes(plan, ledger)
    return text


def _text(plan: Plan, ledger: Any, options: Namespace) -> str:
    table = table_of(plan, ledger, options.layout, options.against)
    if options.compare:
        table = reports.with_published(table, registry.STUDIES.get(plan.study))
    if options.columns:
        table = columns.added(plan, ledger, table, options.columns, say)
    table = reports.with_additions(table, options.additions)
    if options.format in methods.FORMATS:
        return methods.write(plan, ledger, table, options.format)
    return reports.render(table, options.format)


def _say_how_it_goes(plan: Plan, ledger: Ledger) -> None:
    """Where a harness run is working: what it does, and how long the rest of the plan takes."""
    if not (running := ledger.running()) or not _is_locked(ledger):
        return
    say(f"a harness run is working here, now on {'; '.join(name for _, name in running.values())}")
    replays = results.replayed(plan, ledger)
    if any(found.missing for found in replays):
        say(estimate(plan, replays, len(running)))


def status(options: Namespace) -> int:
    """Print what is done, running, failed and left."""
    plan, ledger = recorded(options)
    index = Index(ledger)
    done = failed = left = refused = complete = 0
    shared = {cell.search: cell.id for cell in distinct(plan.cells)}
    held: dict[str, int] = {}  # run -> bytes of its weights
    seen: list[Progress] = []
    for cell in plan.cells:
        if cell.refused:
            refused += 1
            continue
        found = index.progress(cell, plan.defaults)
        held |= {run: weights.size(ledger, run) for run in weights.leaves(plan, found)}
        seen.append(found)
        runs = [*found.trials, *found.seeds[1:]]
        bad = sum(1 for r in runs if r.score is None)
        wanted = found.wanted_trials + cell.seeds - 1
        if shared[cell.search] == cell.id:  # otherwise another cell's runs
            done, failed, left = done + len(runs) - bad, failed + bad, left + wanted - len(runs)
        complete += not bad and len(runs) == wanted
    made = sum(1 for run in plan.first if (index.read(run) or {}).get("status") == "finished")
    which = f" ({plan.variant.replace('--', ' ').replace('/', ' ')})" if plan.variant else ""
    tell(f"study {plan.study}, profile {plan.profile}{which}, in {ledger.out}")
    print(f"cells: {complete} of {len(plan.cells) - refused} complete, {refused} impossible")
    print(f"runs: {done} done, {failed} failed, {left} left; teacher runs: {made} of {len(plan.first)} done")
    if any(held.values()):
        print(f"weights kept: {sum(map(bool, held.values()))} runs, {sum(held.values()) / 1e6:.1f} MB")
    _tell_going(plan, ledger, index, seen)
    for damage in ledger.damaged.values():
        tell(damage)
    return 0


def _tell_going(plan: Plan, ledger: Ledger, index: Index, seen: Sequence[Progress]) -> None:
    """Which runs go on, by name, how long the rest takes, and which were interrupted."""
    working = _is_locked(ledger)
    running = ledger.running() if working else {}
    for run, (since, name) in running.items():
        tell(f"running since {time.strftime('%Y-%m-%d %H:%M:%S', time.localtime(since))}: {name} ({run})")
    if running and any(found.missing for found in seen):
        tell(estimate(plan, results.replayed(plan, ledger), len(running)))
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
    which, cells, _ = find(ledger, options.what)
    if which in cells:
        _show_cell(*cells[which], ledger)
    else:
        _show_run(which, ledger)
    return 0


def find(ledger: Ledger, asked: str) -> tuple[str, Mapping[str, tuple[Plan, Cell]], Sequence[Plan]]:
    """(the id of the one cell or run that begins so, every cell with its plan, every plan). Raises UserError."""
    plans, unread = filed.every(ledger.out)
    cells = {cell.id: (plan, cell) for plan in plans for cell in plan.cells}
    runs = list(ledger.runs())
    matches = [i for i in {*cells, *runs} if i.startswith(asked)]
    if not matches:
        for error in unread:
            say(str(error))
        raise UserError(f"there is no cell or run {asked!r} in {ledger.out}: {near(asked, [*cells, *runs])}")
    if len(matches) > 1:
        raise UserError(f"{asked!r} is the start of {len(matches)} ids: {near(asked, matches)}; give more of it")
    return matches[0], cells, plans


@uncollected()
def table_of(plan: Plan, ledger: Ledger, layout: str | None = None, against: str = "") -> reports.Table:
    """The table of what is recorded, made from one frame of runs, which it keeps.

    layout, against (the row that others are compared with): where not the study's own.
    """
    study = registry.STUDIES.get(plan.study)
    replays = results.replayed(plan, ledger)
    runs = frame.runs(plan, ledger, replays)
    cells = frame.cells(plan, runs)
    shown = results.shown(study, tasks_of(plan), cells)
    tasks = shown_of(plan, cells)
    inits, profile = tuple(plan.inits), study.profile(plan.profile)
    study = replace(
        study,
        metrics={**study.metrics, **shown},
        students=tuple(plan.students),
        layout=layout or study.layout,
        profiles={
            **study.profiles,
            plan.profile: replace(profile, inits=inits, tasks=tuple(plan.tasks)),
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
            *(told["told"] for told in plan.declared.values()),
            *results.how_far(plan, replays),
            *recipe.families(plan),
            *recipe.corpus_recipe(plan),
            *results.coverage(plan, replays),
            *results.pruned(replays),
            *terms.unequal(replays),
            *results.other_weights(replays, ledger),
            *results.unlabelled(plan),
        ),
        older_code=tuple(results.older_code(plan, ledger.read, replays)),
    )
    table = reports.build(study, plan.profile, cells, tasks, provenance, score_of, against)
    submitted = server_scores.of_cells(plan, ledger, replays)
    before = {run: record for run in plan.first if (record := ledger.read(run))}
    return replace(table, submitted=submitted, runs=runs, before=before, kind=filed.kind_of(plan))


def shown_of(plan: Plan, cells: Sequence[CellResult]) -> dict[str, Task]:
    """The tasks of a plan, by name, each with the metric that its study shows first."""
    shown = results.shown(registry.STUDIES.get(plan.study), tasks_of(plan), cells)
    return {name: replace(task, metric=shown[name][0]) for name, task in tasks_of(plan).items()}


def score_of(task: Task, predictions: Any, labels: Any) -> float:
    """The value of task.metric. predictions, labels: (N,)."""
    from harness.evaluation.metrics import score

    return score(task, predictions, labels)[task.metric]


def tasks_of(plan: Plan) -> dict[str, Task]:
    """The tasks of a plan, by name; those of its plugin files are found there again."""
    known = {*MEASURED, *registry.TASKS.names(), *plan.declared}
    for path in plan.plugins if {*plan.tasks} - known else ():
        registry.load_file(path)
    own.recall(plan.declared)
    return {name: get_task(name) for name in plan.tasks}


def _study(options: Namespace) -> Study:
    """The study asked for. Raises UserError if there is none of that name or profile."""
    filed.load_study(Path(options.out), options.study, options.plugin)
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

    plan, ledger = resolve(_request(options)), _Counted()
    for cell in plan.cells:
        for run in progress(cell, plan.defaults, ledger.read).missing:
            record = {**count_parameters(cast(CountRun, run))[0], "status": "finished"}
            ledger.records[run.identity(plan.defaults)] = record
    return plan, ledger


def recorded(options: Namespace) -> tuple[Plan, Ledger]:
    """What was planned of what the flags ask for, and the ledger."""
    _study(options)
    ledger = Ledger(Path(options.out))
    plan = filed.recorded(ledger.out, _request(options))
    own.recall(plan.declared)
    return plan, ledger


def _request(options: Namespace) -> Request:
    """What the flags select. Of harness submit, --tasks and --data are no part of that."""
    request = Request.of(options)
    return replace(request, tasks=None, data=None) if options.command == "submit" else request


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
    _tell_tracebacks([*(done.run for done in (*found.trials, *found.seeds)), *_before(plan, cell.after)], ledger)


def _before(plan: Plan, runs: Iterable[str]) -> list[str]:
    """These runs of plan.first and those that they wait for."""
    return [each for run in runs for each in (*_before(plan, plan.first[run].after), run)]


def _tell_tracebacks(runs: Iterable[str], ledger: Ledger) -> None:
    """Why each of these runs failed that did; what several have in common once."""
    said: dict[str, list[str]] = {}
    for run in dict.fromkeys(runs):
        record = ledger.read(run) or {}
        if record.get("status") == "failed":
            said.setdefault(record.get("traceback") or record["error"], []).append(run)
    for text, failed in said.items():
        tell(f"run {', '.join(failed)} failed:\n{text.rstrip()}")


def chosen_on(protocol: str) -> str:
    return {"published": "dev", "nested": "each fold of the training data"}.get(protocol, "held-out training data")


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
        tell(f"  {entry['stage']} {entry['epoch']}: loss {entry['loss']:.5f}{_terms(entry)}{chosen}")
    if "traceback" in record:
        tell(record["traceback"])


def _terms(entry: Entry) -> str:
    """The terms of a point's loss where there are several, each with its share of the gradient's norm."""
    if len(found := entry.get("terms", {})) < 2:
        return ""
    shares = {name: "" if term["share"] is None else f", {100 * term['share']:.0f}%" for name, term in found.items()}
    told = (f"{name} {term['value']:.5f}{shares[name]}" for name, term in found.items())
    return f" ({'; '.join(told)} of the gradient)"


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
