"""The table of what is recorded, printed: harness report. Nothing here trains, or writes but into the cache."""

from __future__ import annotations

from argparse import Namespace
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

from harness import registry, reports
from harness.code_versions import here
from harness.commands import columns, exchange, long_form, methods
from harness.commands.kept_table import KeptTable, of_report
from harness.commands.recorded import (
    beside,
    recorded,
    request_of,
    say_damage,
    study_asked_for,
    table_of,
    tasks_of,
)
from harness.commands.telling import say, tell
from harness.errors import UserError, check_known, close
from harness.folders import names
from harness.ledger import Ledger
from harness.planning import filed, naming, together
from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.runs import CountRun
from harness.runs.told import Record
from harness.search import results
from harness.search.estimate import estimate
from harness.search.progress import progress

PUBLISHED = "published"


def report(options: Namespace) -> int:
    """Print the table of the last plan from what is recorded; a study that only counts is counted at once."""
    formats = (*reports.FORMATS, *methods.FORMATS, *long_form.FORMATS, *exchange.FORMATS)
    check_known("report format", options.format, formats)
    if (options.format in exchange.FORMATS) != (options.to is not None):
        raise UserError(f"--to FOLDER goes with --format {' or '.join(exchange.FORMATS)}: they write files")
    _check_effective(options)
    code = here(options.plugin)
    study = study_asked_for(options)
    plan, ledger = _counted(options) if registry.PROCEDURES.get(study.procedure).at_once else recorded(options)
    if options.format in long_form.FORMATS:
        long_form.write(plan, ledger, options.format)
    elif options.format in exchange.FORMATS:
        for line in exchange.write(plan, tasks_of(plan), cast(Ledger, ledger), options.format, Path(options.to)):
            tell(line)
    elif isinstance(ledger, Ledger):
        print(_kept_text(plan, ledger, options, code), end="")
    else:
        print(_text(plan, ledger, options), end="")
    say_damage(ledger)
    if isinstance(ledger, Ledger):
        _say_how_it_goes(plan, ledger)
    return 0


def _check_effective(options: Namespace) -> None:
    """Raise UserError for a flag that shapes a table, with a format that is none or has one shape."""
    given = {"--layout": options.layout, "--against": options.against, "--with": options.additions}
    given |= {"--compare": options.compare, "--columns": options.columns}
    for flag, value in given.items():
        formats = [name for name in reports.FORMATS if (flag, name) != ("--layout", "json")]
        if value and options.format not in formats:
            raise UserError(f"{flag} has no effect on --format {options.format}, only on {', '.join(formats)}")
    to_another = options.compare not in (None, PUBLISHED)
    other = "--with" if options.additions else "--compare FOLDER" if to_another else ""
    of_the_table = ["--layout", "--columns"]
    of_the_table += ["--against"] * bool(options.additions) + ["--compare"] * (not to_another)
    for flag in of_the_table:
        if given[flag] and other and options.format == "csv":
            raise UserError(f"{flag} has no effect on --format csv with {other}, whose lines it then holds")


def _kept_text(plan: Plan, ledger: Ledger, options: Namespace, code: str | None) -> str:
    """The table as asked for, of the cache where nothing has changed; what it is to be read with is told."""
    # Plugins that the plan alone names are loaded by now, as they were; columns are measured; another folder has a life
    # of its own.
    other = options.compare not in (None, PUBLISHED)
    vouches = not options.columns and not other and (options.plugin or not plan.plugins)
    name = of_report(plan, options.format, options.layout, options.against, options.compare, options.additions)
    kept = KeptTable(name, plan, ledger, code if vouches else None)
    text = kept.said().get("text")
    if text is None:
        text = _text(plan, ledger, options)
        if not ledger.damaged:
            with suppress(UserError):  # a folder that others may only read
                kept.keep({"text": text})
    return text


def _text(plan: Plan, ledger: Any, options: Namespace) -> str:
    other = _other(options, plan, ledger) if options.compare not in (None, PUBLISHED) else None
    table = table_of(plan, ledger, options.layout, options.against)
    if other:
        table = beside(plan, table, *other)
    elif options.compare:
        table = reports.with_published(table, registry.STUDIES.get(plan.study))
    if options.columns:
        table = columns.added(plan, ledger, table, options.columns)
    table = reports.with_additions(table, options.additions)
    if options.format in methods.FORMATS:
        return methods.write(plan, ledger, table, options.format)
    return reports.render(table, options.format)


def _other(options: Namespace, plan: Plan, ledger: Any) -> tuple[Plan, reports.Table]:
    """The table of --compare FOLDER, and its plan. Raises UserError where it is this one, or none."""
    folder = Path(options.compare)
    if not folder.is_dir():
        meant = close(options.compare, [PUBLISHED])
        rule = f"--compare takes {PUBLISHED} or a folder, and there is no folder {folder}"
        raise UserError(f"{rule}: {meant}" if meant else rule)
    if "ledger" in names(folder):
        asked = Namespace(**{**vars(options), "out": folder})
        other, its = recorded(asked)
    else:
        out, other = together.of_folder(folder)
        filed.load_study(out, other.study, options.plugin)
        its = Ledger(out)
    places = [(one.study, one.profile, naming.kind_of(one)) for one in (plan, other)]  # cells are of any budget
    if isinstance(ledger, Ledger) and its.out.resolve() == ledger.out.resolve() and places[0] == places[1]:
        raise UserError(f"{folder} holds this very table: there is nothing to compare")
    table = table_of(other, its)
    say_damage(its)
    return other, table


def _say_how_it_goes(plan: Plan, ledger: Ledger) -> None:
    """Where a harness run is working: what it does, and how long the rest of the plan takes."""
    if not (running := ledger.running()) or not ledger.is_worked_in():
        return
    say(f"a harness run is working here, now on {'; '.join(name for _, name in running.values())}")
    replays = results.replayed(plan, ledger)
    if any(found.missing for found in replays):
        say(estimate(plan, replays, len(running), ledger))


def _counted(options: Namespace) -> tuple[Plan, Any]:
    """The plan, and the records of its models, which are counted now, as a ledger that was never written."""
    from harness.jobs.measuring import count_parameters

    plan, records = resolve(request_of(options)), dict[str, Record]()
    for cell in plan.cells:
        for run in progress(cell, plan.defaults, records.get).missing:
            record = {**count_parameters(cast(CountRun, run))[0], "status": "finished"}
            records[run.identity(plan.defaults)] = record
    return plan, SimpleNamespace(read=records.get, predictions=lambda run: None, damaged={})
