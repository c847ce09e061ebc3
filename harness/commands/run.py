"""harness plan and harness run. Each returns the exit status."""

from __future__ import annotations

import functools
import os
import shlex
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harness import registry, reports
from harness.code_versions import here
from harness.commands import columns
from harness.commands.kept_table import KeptTable, of_report
from harness.commands.recorded import chosen_on, say_damage, table_of
from harness.commands.telling import say, tell
from harness.data.tasks import get_task
from harness.errors import UserError, counted, near
from harness.executors import choosing, environment
from harness.files import atomic_write, check_writable
from harness.folders import check_free, holds_results
from harness.ledger import Ledger
from harness.planning import filed, naming
from harness.planning import plan as planning
from harness.planning.explaining import VERDICTS, explained
from harness.planning.planned import Cell, Plan, runs_of
from harness.planning.recipe import budget, families, in_float32, protocol, recipe, recipes_before, span
from harness.planning.request import Request, check_early
from harness.reports.papers import printed
from harness.runs import JointStudentRun, JointTeacherRun, Run, StudentRun
from harness.search import tracking
from harness.search.database import View, database
from harness.search.display import display
from harness.search.driver import Driver
from harness.search.estimate import estimate, to_make
from harness.search.progress import done
from harness.search.results import counts, older_code, replayed, shared_draws, started_from

CELL = ("cell", "task", "init", "student", "row")  # above what `harness plan` prints of each
FILES = {"html": "table.html", "latex": "table.tex", "markdown": "table.md", "csv": "table.csv", "json": "table.json"}


@dataclass(frozen=True)
class Done:
    """What `harness run` leaves: the plan, its table, what was trained, in words, and the table's folder and files.

    text, failed: the table as it is printed, and the ids of its cells that failed. table: makes the table, or has it.
    """

    plan: Plan
    ledger: Ledger
    trained: str
    folder: Path
    files: Sequence[Path]
    text: str
    failed: Sequence[str]
    table: Callable[[], reports.Table]


def run(options: Namespace) -> int:
    """Train what is missing, then print the table and where its files are."""
    done = work(options)
    print(done.text)
    print(f"{done.trained}. The table as a page, in LaTeX, Markdown, CSV and JSON:")
    tell(f"  {done.folder}/{', '.join(path.name for path in done.files)}")
    return status_of(done)


def work(options: Namespace) -> Done:
    """Train what is missing, and write the table's files."""
    request, code = Request.of(options), here(options.plugin)
    if environment.launched() > 1:
        raise UserError(
            "harness run starts its own workers: give harness distil-corpus to torchrun or accelerate launch, then "
            "harness run by itself"
        )
    filed.check_study(Path(options.out), request)
    check_early(request)
    tracking.check(options.track)
    if options.keep == "none" and (weighed := {*options.columns} - {"parameters"}):
        raise UserError(f"--columns {min(weighed)} reads the weights of students: --keep best keeps them")
    if sys.stderr.isatty():  # loading torch, and looking at the teacher, takes its seconds
        say(f"working out what is to do of study {request.study}, profile {request.profile}")
    start = choosing.executor(options)
    out = Path(options.out)
    check_writable(out)
    storage = database(options.storage, out)
    ledger = Ledger(out, create=True)
    with ledger.lock(), closing(start(out)) as executor:
        plan = planning.resolve(request, cache=out / "cache", anew=executor.prepare)
        _check_published(plan)
        _check_pretrained(plan, ledger)
        for told in plan.declared.values():
            say(told["told"])
        plan = filed.keep(out, plan)
        for notice in (*plan.notices, *plan.unseen):
            say(notice)
        if options.executor == "local":
            _say_cost(plan, ledger, choosing.processes(options))
        ended = _train(plan, ledger, executor, storage, options)
        say_damage(ledger)
        done = _reported(plan, ledger, ended, options, naming.folder_of(out, plan), code)
    if options.columns:  # after the lock, which timing takes: nothing else works here meanwhile
        with _told():
            table = columns.added(plan, ledger, done.table(), options.columns)
            _write_reports(plan, table, done.folder)
            done = replace(done, table=lambda: table, text=reports.render(table, "terminal"))
    return done


def _reported(
    plan: Plan, ledger: Ledger, ended: tuple[int, int], options: Namespace, folder: Path, code: str | None
) -> Done:
    """The table and its files, which are left as they are where nothing that they rest on has changed.

    ended: how many runs were trained just now, and how many failed.
    """
    files = [folder / name for name in FILES.values()]
    kept = KeptTable(f"run {os.path.relpath(folder, ledger.out)} {options.layout}", plan, ledger, code)
    made = functools.cache(lambda: table_of(plan, ledger, options.layout))
    # With columns or damage there is more to say than what is kept.
    said = {} if any(ended) or options.columns or ledger.damaged else kept.said()
    if not said:
        _write_reports(plan, made(), folder)
        said = {
            "text": reports.render(made(), "terminal"),
            "failed": reports.failed_cells(made()),
            "older": made().provenance.older_code,
        }
        if not (options.columns or ledger.damaged):
            kept.keep(said, files, of_report(plan, "terminal", options.layout))
    for sentence in () if options.refresh else said["older"]:
        say(_refreshed(sentence, "--refresh"))
    trained, failed = ended
    told = f"{counted(trained, 'run')} trained{f', {failed} failed' if failed else ''}"
    return Done(plan, ledger, told, folder, files, said["text"], said["failed"], made)


def plan(options: Namespace) -> int:
    """Print every cell, run and refusal, and an estimate of the time. Trains and writes nothing."""
    worked_out, lines = planned(options)
    for said in _slow(worked_out) if not options.explain else ():
        say(said)
    for line in lines:
        tell(line)
    if not options.explain:
        with _told():  # measured, of the teacher's sizes: the plan stands without it
            for line in _in_bfloat16(worked_out):
                tell(line)
    return 0


def planned(options: Namespace) -> tuple[Plan, list[str]]:
    """What a run would do, and all that is to be said of it. Trains and writes nothing."""
    from harness.commands.sight import sight

    request, out = Request.of(options), Path(options.out)
    filed.check_study(out, request)
    check_early(request)
    workers = choosing.workers(options.workers)
    ledger = Ledger(out) if holds_results(out) else None
    if ledger is None:
        check_free(out)
    worked_out = planning.resolve(request, lenient=True, cache=out / "cache")
    _check_published(worked_out)
    if options.explain:
        return worked_out, _explain(worked_out)
    _check_pretrained(worked_out, ledger)
    replays = replayed(worked_out, ledger, whole=True)
    heading, *labels = _aligned([CELL, *((c.id, c.task, c.init, c.student, c.row) for c in worked_out.cells)])
    lines = [heading.rstrip()]
    for cell, found, label in zip(worked_out.cells, replays, labels, strict=True):
        if cell.refused:
            lines.append(f"{label}  refused: {cell.refused}")
            continue
        epochs = _epochs(cell)
        trains = f"{counted(cell.stages, 'stage')} of {epochs}, " if epochs else ""
        lines.append(f"{label}  {trains}runs {done(found)} of {runs_of(cell)} done")
    lines += ["\n" + told["told"] for told in worked_out.declared.values()]
    real = [cell for cell in worked_out.cells if not cell.refused]
    tasks, refused = ", ".join(worked_out.tasks), len(worked_out.cells) - len(real)
    lines.append(f"\nstudy {worked_out.study}, profile {request.profile}: teacher {worked_out.label}, tasks {tasks}")
    made, bad, lacking = counts(worked_out, replays)
    runs, told = counted(made + bad + lacking, "run"), f", {bad} failed" if bad else ""
    lines.append(f"{counted(len(real), 'cell')}, {refused} refused; {runs}, {lacking} missing{told}")
    if before := started_from(worked_out, replays):
        what = f"{counted(len(before), 'run')} that these start from (teachers, distillations)"
        lines.append(f"{what}, {len(to_make(worked_out, replays, ledger))} missing")
    if real and (chosen := protocol(worked_out)):
        how = f"{chosen} (epochs and settings are selected on {chosen_on(chosen)})"
        lines += [f"budget: {budget(worked_out)}", f"protocol: {how}", f"recipe: {recipe(worked_out)}"]
        lines += shared_draws(worked_out)
    older = older_code(worked_out, ledger.read, replays) if ledger else ()
    lines += [
        *families(worked_out),
        *in_float32(worked_out),
        *recipes_before(worked_out),
        *(_refreshed(sentence, "harness run --refresh") for sentence in older),
        *(f"note: {notice}" for notice in (*worked_out.notices, *worked_out.unseen)),
    ]
    lines += sight(worked_out, replays, ledger)
    return worked_out, [*lines, estimate(worked_out, replays, workers, ledger)]


def _epochs(cell: Cell) -> str:
    """Those of a stage, or the numbers of them that are searched; "" of what has none."""
    if searched := cell.space.get("epochs"):
        return f"{'twice ' * cell.lengthened}{span(searched)} epochs"
    return counted(epochs, "epoch") if (epochs := cell.run.settings.get("epochs")) else ""


def _aligned(lines: Sequence[Sequence[str]]) -> list[str]:
    """A table of words as lines, each column as wide as its longest word."""
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return ["  ".join(f"{word:<{width}}" for word, width in zip(words, widths, strict=True)) for words in lines]


def _explain(plan: Plan) -> list[str]:
    found = explained(plan, registry.STUDIES.get(plan.study))
    said = [f"study {plan.study}, profile {plan.profile}: its settings beside what the text says of them"]
    for verdict, heading in VERDICTS.items():
        lines = [line for line in found if line.verdict == verdict]
        said.append(f"\n{heading}:" if lines else f"\n{heading}: none")
        for line in lines:
            place = f" [{line.text}]" if line.text else ""
            said.append(f"  {_as_set(line.name):<32} {line.ours}{place}{f' ({line.why})' if line.why else ''}")
    several = JointTeacherRun.kind
    if any(line.name.startswith(f"{several}.") for line in found):
        said.append(f"\n{several}: the teacher of several tasks, set as every teacher is: --set teacher.NAME")
    return said


def _as_set(name: str) -> str:
    """A setting as --set takes it: those of objectives are no others before the task."""
    rest = name.partition(".")[2]
    return rest if rest.partition(".")[0] in registry.OBJECTIVES.names() else name


# ---------------------------------------------------------------- shared


def _refreshed(older: str, by: str) -> str:
    """A sentence of `older_code`, with what makes these runs anew."""
    return f"{older}; {by} makes {'them' if 'were' in older else 'it'} anew"


def _slow(plan: Plan) -> list[str]:
    """A sentence, if runs compute in a precision that this machine is slow in."""
    runs = [first.run for first in plan.first.values()] + [cell.run for cell in plan.cells if not cell.refused]
    if all(run.settings["precision"] == "float32" for run in runs):
        return []
    from harness.training.machine import slow_precision  # loads torch, which those of float32 need not wait for

    return [sentence] if (sentence := slow_precision(runs)) else []


def _in_bfloat16(plan: Plan) -> list[str]:
    """What bfloat16 gains here, measured, of each student that is to be trained in it."""
    cells = ((cell.student, cell.run, get_task(cell.task).pair) for cell in plan.cells if not cell.refused)
    asked = {
        student: (run, pairs)
        for student, run, pairs in cells
        if isinstance(run, StudentRun | JointStudentRun) and run.settings["precision"] == "bfloat16"
    }
    if not asked or _slow(plan):
        return []
    from harness.evaluation.precision import factor  # loads torch, which those of float32 need not wait for

    source = registry.TEACHERS.get(plan.teacher)(plan.argument).configuration()
    faster = {student: factor(run.student, run.settings, source, pairs) for student, (run, pairs) in asked.items()}
    found = ", ".join(f"{student} {times:.2g}" for student, times in faster.items())
    return [f"bfloat16 on this machine, a training step, times as fast as in float32: {found}"]


def _check_published(plan: Plan) -> None:
    """Raise UserError where the printed table of a plugin's study is none, before it is set beside what was trained."""
    study = registry.STUDIES.get(plan.study)
    if study.published:
        printed.read(study.published, [row for row in study.rows if row.published])


def _check_pretrained(plan: Plan, ledger: Ledger | None) -> None:
    """Refuse `pretrained:RUN` of a run that is not there or does not fit, before anything is trained."""
    for cell in plan.cells:
        run = cell.run.starts_from
        if run is None or cell.refused:
            continue
        if run in plan.first and plan.first[run].run.starts_students:  # made before the cell
            continue
        if ledger is None or not _distilled(ledger, run):
            runs = [name for name in ledger.runs() if _distilled(ledger, name)] if ledger else []
            raise UserError(f"there is no finished run {run} that a student could start from: {near(run, runs)}")
        if trouble := ledger.trouble_with_weights(run):
            again = f"harness remove {run}, and then the command that made it, makes it again"
            raise UserError(f"the weights of run {run} {trouble}: {again}")
        from harness.jobs.starting import check_pretrained  # loads torch

        check_pretrained(cell.run, get_task(cell.task), plan.source_of(cell.run), ledger.folder(run) / "weights")


def _distilled(ledger: Ledger, run: str) -> bool:
    """True for a finished distillation on a corpus or on several tasks."""
    record = ledger.read(run) or {}
    return record.get("status") == "finished" and Run.kind_of(record["specification"]).starts_students


@contextmanager
def _told() -> Iterator[None]:
    """What goes wrong here is told, and ends nothing."""
    try:
        yield
    except UserError as error:
        say(str(error))


def _say_cost(plan: Plan, ledger: Ledger, workers: int) -> None:
    """What is about to be spent, before it is. Of a cluster only what is measured tells."""
    replays = replayed(plan, ledger)
    if any(found.missing for found in replays):
        for said in _slow(plan):
            say(said)
        say(estimate(plan, replays, workers, ledger))


def _train(plan: Plan, ledger: Ledger, executor: Any, storage: Any, options: Namespace) -> tuple[int, int]:
    """How many runs were trained, and how many failed."""
    view = View(plan.study, ledger.out, storage)
    for name in ledger.interrupted():
        say(f"run {name} was interrupted: it continues from its last checkpoint if it is part of this study")
    try:
        with display(plan) as shown, tracking.tracked(options.track, plan, ledger.out, shown) as listener:
            driver = Driver(plan, ledger, executor, listener, view, options.refresh, options.keep)
            return driver.run() - driver.failed, driver.failed
    finally:
        executor.close()
        if trouble := view.close():
            say(trouble)


def _write_reports(plan: Plan, table: Any, folder: Path) -> None:
    """Every format beside the plan; rewritten only where the text is new."""
    study = registry.STUDIES.get(plan.study)
    compared = reports.with_published(table, study) if study.published else table
    for form, name in FILES.items():
        content = reports.render(compared if form == "html" else table, form).encode()
        if not (folder / name).is_file() or (folder / name).read_bytes() != content:
            atomic_write(folder / name, content)


def status_of(done: Done) -> int:
    """The exit status, which is 1 where cells failed; these are said, with the command that tells why one did."""
    if done.failed:
        show, out = f"harness show {done.failed[0]}", str(done.ledger.out)
        where = "" if out == "results" else f" --out {shlex.quote(out)}"
        again = "the same command tries again what has not diverged"
        say(f"{counted(len(done.failed), 'cell')} failed; {show}{where} tells why, and {again}")
    return 1 if done.failed else 0
