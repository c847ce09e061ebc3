"""What was planned of what flags ask for, what is recorded of it, and the table of that."""

from __future__ import annotations

import json
import shlex
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import registry, reports
from harness.collecting import uncollected
from harness.commands.telling import say
from harness.contracts import Study, Task
from harness.data import metric_names, own
from harness.data.tasks import MEASURED, get_task
from harness.errors import UserError, check_known, close, listed, near
from harness.evaluation import server_scores
from harness.ledger import Ledger
from harness.planning import filed, naming, recipe, together
from harness.planning.planned import Cell, Plan
from harness.planning.remembered import edited
from harness.planning.request import Request
from harness.runs import Run
from harness.runs.told import Record
from harness.search import alike, frame, results, terms
from harness.search.progress import Progress


def recorded(options: Namespace) -> tuple[Plan, Ledger]:
    """What was planned of what the flags ask for, and the ledger."""
    study_asked_for(options)
    ledger = Ledger(Path(options.out))
    plan = together.recorded(ledger.out, request_of(options))
    own.recall(plan.declared)
    return plan, ledger


def say_damage(ledger: Any) -> None:
    """Tell which records and predictions were found damaged, of those that were read."""
    for damage in ledger.damaged.values():
        say(damage)


def study_asked_for(options: Namespace) -> Study:
    """The study asked for, or the only one of the folder; so too its profile. Raises UserError if there is none."""
    options.study, options.profile = filed.only(Path(options.out), options.study, options.profile)
    filed.load_study(Path(options.out), options.study, options.plugin)
    check_known("study", options.study, registry.STUDIES.names())
    study = registry.STUDIES.get(options.study)
    study.profile(options.profile)
    return study


def request_of(options: Namespace) -> Request:
    """What the flags select. Of harness submit, --tasks and --data are no part of that."""
    request = Request.of(options)
    return replace(request, tasks=None, data=None) if options.command == "submit" else request


def find(ledger: Ledger, asked: str) -> tuple[str, Mapping[str, tuple[Plan, Cell]], Sequence[Plan]]:
    """(the id of the one cell or run that begins so, every cell with its plan, every plan). Raises UserError.

    Of plans that have a cell in common it is that of the most trials, then seeds, then searches.
    """
    plans, unread = filed.every(ledger.out)
    planned = [(plan, cell) for plan in plans for cell in plan.cells]
    planned.sort(key=lambda one: (one[1].trials, one[1].seeds, one[1].searched_by_seed))
    cells = {cell.id: (plan, cell) for plan, cell in planned}
    runs = list(ledger.runs())
    matches = [i for i in {*cells, *runs} if i.startswith(asked)]
    if not matches:
        for error in unread:
            say(str(error))
        meant = close(asked, [*cells, *runs]) or "the lines of harness plan begin with the ids of cells"
        where = f"what can be read of {ledger.out}" if unread else str(ledger.out)
        raise UserError(f"there is no cell or run {asked!r} in {where}: {meant}; --out names another folder")
    if len(matches) > 1:
        raise UserError(f"{asked!r} is the start of {len(matches)} ids: {near(asked, matches)}; give more of it")
    (which,) = matches
    if len({cell.searched_by_seed for _, cell in planned if cell.id == which}) > 1:
        how = {True: "a search for each seed", False: "one search for all seeds"}
        taken = cells[which][1].searched_by_seed
        say(f"cell {which} was planned with {how[taken]}, which is taken here, and with {how[not taken]}")
    return which, cells, plans


@uncollected()
def table_of(plan: Plan, ledger: Ledger, layout: str | None = None, against: str = "") -> reports.Table:
    """The table of what is recorded, made from a row a run, which it keeps.

    layout, against (the row that others are compared with): where not the study's own.
    """
    declared = registry.STUDIES.get(plan.study)
    replays = results.replayed(plan, ledger)
    runs = frame.runs(plan, ledger, replays)
    cells = frame.cells(plan, runs)
    known = tasks_of(plan)
    shown = results.shown(declared, known, cells)
    tasks = {name: replace(task, metric=shown[name][0]) for name, task in known.items()}
    inits, profile = tuple(plan.inits), declared.profile(plan.profile)
    study = replace(
        declared,
        metrics={**declared.metrics, **shown},
        students=tuple(plan.students),
        layout=layout or declared.layout,
        profiles={**declared.profiles, plan.profile: replace(profile, inits=inits, tasks=tuple(plan.tasks))},
    )
    scores = server_scores.kept(ledger) if isinstance(ledger, Ledger) else {}  # models that are counted have no ledger
    provenance = reports.Provenance(
        teacher=plan.label,
        teacher_scores=results.teacher_scores(plan, ledger),
        teacher_progress=results.teacher_progress(plan, ledger),
        teachers=results.teachers(plan),
        samples=results.samples(plan),
        searches=results.searches(plan),
        distillations=results.distillations(plan),
        drawn_by_seed=results.drawn_by_seed(plan),
        tuned=bool(plan.teachers),
        protocol=recipe.protocol(plan),
        budget=recipe.budget(plan),
        recipe=recipe.recipe(plan),
        notes=_notes(plan, declared, replays, ledger, scores),
        older_code=results.older_code(plan, ledger.read, replays),
    )
    table = reports.build(study, plan.profile, cells, tasks, provenance, score_of, against)
    submitted = server_scores.of_cells(plan, ledger, replays)
    before = {run: record for run in plan.first if (record := ledger.read(run))}
    return replace(table, submitted=submitted, runs=runs, before=before, kind=naming.kind_of(plan))


def _notes(
    plan: Plan, declared: Study, replays: Sequence[Progress], ledger: Ledger, scores: server_scores.Scores
) -> tuple[str, ...]:
    """What is told below a table, in order."""
    return (
        *_of_data(plan),
        *results.misnamed(plan, declared),
        *results.redeclared(plan, declared),
        *(f"{sentence}." for sentence in edited(plan)),
        *results.how_far(plan, replays),
        *recipe.families(plan),
        *recipe.in_float32(plan),
        *recipe.recipes_before(plan),
        *results.coverage(plan, replays),
        *results.pruned(plan, replays),
        *terms.unequal(replays),
        *terms.at_their_least(replays),
        *alike.without_effect(plan, replays),
        *results.other_weights(replays, ledger),
        *results.not_chosen(plan, replays, scores),
        *results.made_apart(replays),
        *results.unlabelled(plan),
        *results.other_teachers(plan),
        *results.unfamiliar(plan, ledger),
        *results.recreated(plan, replays, ledger),
    )


def beside(plan: Plan, table: reports.Table, its: Plan, other: reports.Table) -> reports.Table:
    """The table with that of another plan beside it. Raises UserError where they have nothing in common."""
    made = reports.with_other(table, other, named(plan, its), tasks_of(plan), score_of)
    notes = unlike(plan, its)
    if plan.study != its.study:
        notes.append("Rows of one name may be made otherwise in another study")
    return replace(made, beside=made.beside and replace(made.beside, notes=(*made.beside.notes, *notes)))


def unlike(plan: Plan, its: Plan) -> list[str]:
    """What two plans have by the same names that is not the same: data of tasks, code of plugins."""
    ours, theirs = (together.rests_on(one, one.cells) for one in (plan, its))
    others = {what for what in ours.keys() & theirs if ours[what].isdisjoint(theirs[what])}
    data = [task for task in plan.tasks if f"the data of task {task}" in others]
    code = sorted(what for what in others if what.startswith("the code of "))
    notes = [f"The data of {listed(data)} are not the same in both"] if data else []
    return notes + [f"{what[:1].upper()}{what[1:]} is not the same in both" for what in code]


def named(*plans: Plan) -> tuple[str, str, str]:
    """What two tables are asked for by: what is this one's alone, the other's alone, and that of both."""
    ours, theirs = ([f"--study {plan.study}", f"--profile {plan.profile}", *_flags(plan)] for plan in plans)
    both = [word for word in ours if word in theirs]
    this, other = (" ".join(word for word in own if word not in both) for own in (ours, theirs))
    if not this + other:
        this, other = "these results", "results of the same flags in another folder"
    return this or "as the profile has it", other or "as the profile has it", " ".join(both)


def _flags(plan: Plan) -> Iterator[str]:
    """Each flag of a plan's kind with its values, and each setting by itself; by the name of its folder, where an
    earlier version did not write them down.
    """
    kind = naming.kind_of(plan)
    flags = plan.flags or naming.flags_named(kind)
    if kind and not flags:
        yield f"the flags that made {kind}"
    for part in f" {flags}".split(" --")[1:]:
        flag, *words = shlex.split(part)
        yield from words if flag == "set" else [shlex.join((f"--{flag}", *words))]


def _of_data(plan: Plan) -> list[str]:
    """What is told of the data: of a table that is narrowed not that of tasks which no run of it has."""
    first = {name for cell in plan.cells for name in cell.after if name in plan.first}
    runs = [*(cell.run for cell in plan.cells), *(plan.first[name].run for name in first)]
    gone = {*plan.examples, *plan.declared}.difference(plan.tasks, *(run.data_of for run in runs))
    cut = [sentence for sentence in plan.unseen if not any(f"s of {name} " in sentence for name in gone)]
    told = [told["told"] for name, told in plan.declared.items() if name not in gone]
    return [*told, *(f"{sentence[:1].upper()}{sentence[1:]}." for sentence in cut)]


def score_of(task: Task, predictions: Any, labels: Any) -> float:
    """The value of task.metric. predictions, labels: (N,)."""
    from harness.evaluation.metrics import score

    return score(task, predictions, labels)[task.metric]


def tasks_of(plan: Plan) -> dict[str, Task]:
    """The tasks of a plan, by name; those of its plugin files are found there again.

    Raises UserError for one of a plugin that is not installed any more.
    """
    there = {name for name, told in plan.declared.items() if {*told["task"]["metrics"]} <= {*metric_names.ALL}}
    lacking = {*plan.tasks} - {*MEASURED, *registry.TASKS.names(), *there}
    if lacking and not plan.plugins:
        raise filed.not_installed(f"task {min(lacking)}", plan.origins.values())
    for path in plan.plugins if lacking else ():
        registry.load_file(path)
    own.recall(plan.declared)
    return {name: get_task(name) for name in plan.tasks}


def chosen_on(protocol: str) -> str:
    return {"published": "dev", "nested": "each fold of the training data"}.get(protocol, "held-out training data")


def title_of(record: Record | None) -> str:
    """What a run was, for a sentence."""
    try:
        run = Run.read((record or {})["specification"])
    except (KeyError, TypeError, UserError):  # of a plugin that is not loaded
        return json.dumps((record or {}).get("specification", {}).get("kind", "a run"))
    return f"{run.title}, seed {run.seed or 0}"
