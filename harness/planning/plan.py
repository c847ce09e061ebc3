"""A study and a command line, worked out: every cell, what it trains, and why some cells cannot exist."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import registry
from harness.answers import Faulty, configured, named
from harness.code_versions import plugins
from harness.collecting import uncollected
from harness.contracts import Hyperparameter, TableRow, Task
from harness.data.tasks import get_task
from harness.errors import UserError, counted
from harness.planning import merging
from harness.planning.naming import flags_of, names_of
from harness.planning.planned import Cell, Plan, called, declaration_of, waited_for
from harness.planning.prerequisites import ELSEWHERE, Prerequisites, apart, own_name
from harness.planning.reading import unseen
from harness.planning.remembered import Remembered, held_by, looks
from harness.planning.request import Request, ResolvedRequest, Variant, check_early
from harness.planning.space import size
from harness.planning.spelling import ambiguous
from harness.plugin_code import ROOT
from harness.runs import BaseTeacher, JointTeacherRun, Run
from harness.runs.settings import GENERAL_TRAINING, JOINT_TRAINING, MASKING, SEARCH, TEACHER_TRAINING, TRAINING

if TYPE_CHECKING:
    from harness.planning.cells import Cells

# What trials are compared by, and what a machine has: the best of trials that differ in these is no better setting.
SAME = ("protocol", "train_sample", "labels", "pruner", "threads", "cache_gib")


@uncollected()
def resolve(
    request: Request, lenient: bool = False, cache: Path | None = None, anew: Callable[[], None] = lambda: None
) -> Plan:
    """The plan of a request; with `lenient` even where data or teacher cannot be read, and nothing is written.

    cache: the folder that keeps what was found out of teachers, and plans: see `Remembered`. anew: called, once or
    twice, before a plan is worked out that is not remembered, which takes seconds.

    Raises UserError for anything asked that does not exist or would have no effect.
    """
    remembered = Remembered(request, cache)
    if request.plugins and not remembered.of_this_code:
        anew()  # beside the loading of plugins, which may import torch
    for path in request.plugins:
        registry.load_file(path)
    check_early(request)
    doubtful = [*ambiguous(request)]  # by the current folder: no part of what is remembered
    if found := remembered.plan():
        return replace(found, notices=[*doubtful, *found.notices])
    anew()
    with named():
        asked = ResolvedRequest(request, lenient, cache)
        plan = _worked_out(request, asked)
    held = None if lenient else held_by(asked.contents.places)
    plan = replace(plan, read=looks(held or {}))
    if asked.contents.told and not (lenient or asked.contents.notices):
        remembered.keep(plan, held)
    return replace(plan, notices=[*doubtful, *plan.notices])


def _worked_out(request: Request, asked: ResolvedRequest) -> Plan:
    from harness.planning.cells import Cells  # loads torch, which the refusals above must not wait for

    tasks = [get_task(name) for name in asked.tasks]
    checkpoints = asked.checkpoints()
    rows = asked.rows(checkpoints)
    for name in request.students or ():
        Variant.of(name)
    trained = [row for row in rows if not (row.checkpoint or row.teacher or row.improves or row.baseline)]
    students = list({student.name: student for row in trained for student in asked.students_of(row)}.values())
    for init in (request.inits or ()) if asked.procedure.trains and students else ():
        if not any(student.knows(init) for student in students):
            students[0].plugin.canonical_init(init)
    known = _check_settings(asked, rows, [student.plugin for student in students])
    defaults = {name: h.default for name, h in known.items()}
    prerequisites = Prerequisites(asked, defaults)
    cells = Cells(asked, prerequisites, tasks, checkpoints)
    for row in rows:
        for task in tasks:
            cells.of_row(row, task)
    possible = {cell.task for cell in cells.found if not cell.refused} or set(asked.tasks)
    teachers = _teachers(asked, prerequisites, [task for task in tasks if task.name in possible])
    asked_for = {run for cell in cells.found if not cell.refused for run in cell.after} | {*teachers.values()}
    first = waited_for(prerequisites.first, asked_for)
    _check_effects(asked, cells, rows)
    return Plan(
        study=asked.study.name,
        profile=request.profile,
        procedure=asked.study.procedure,
        teacher=asked.teachers_named.first.name,
        argument=asked.teachers_named.first.argument,
        label=asked.teachers_named.label,
        source=asked.contents.source,
        corpus=asked.contents.corpus_source,
        checkpoints={**cells.sources, **_sources(asked)},
        files=asked.contents.files,
        plugins=[str(Path(p).resolve()) for p in request.plugins],
        tasks=[task.name for task in tasks],
        students=[student.name for student in students],
        inits=cells.inits,
        examples={task.name: asked.contents.examples(task) for task in tasks} if asked.procedure.trains else {},
        rows=rows,
        defaults=defaults,
        shown={name: [h.alias, h.complement] for name, h in known.items() if h.alias},
        first=first,
        teachers=teachers,
        outputs={task: want.parts() for task, want in cells.wants.items() if want.parts()},
        cells=cells.found,
        declared={name: known.to_json() for name, known in asked.declared.items()},
        notices=[
            *(*asked.contents.notices, *asked.contents.shared),
            *(*_beyond_the_grid(request.trials, cells), *_beyond_the_run(asked, cells)),
            *prerequisites.notices,
        ],
        unseen=[sentence for task in tasks for sentence in _unseen(asked, task, cells.found)],
        variant="/".join(filter(None, names_of(request))),
        flags=flags_of(request),
        declaration=declaration_of(asked.study, request.profile),
        origins=_origins([*(one.run for one in first.values()), *(cell.run for cell in cells.found)]),
    )


def _check_effects(asked: ResolvedRequest, cells: Cells, rows: Sequence[TableRow]) -> None:
    """Refuse what was asked for and has no cell, or no effect on any."""
    possible = {cell.row for cell in cells.found}
    named = [row.name for row in rows if row.name in (asked.request.objectives or ()) and row.name not in possible]
    if named or not cells.found:
        which = f"row {named[0]} has" if named else "there is"
        raise UserError(f"{which} no cell for these tasks, students and initialisations in study {asked.study.name}")
    # Where every cell is refused, the reasons say more than that no setting acts.
    acting = any(not cell.refused for cell in cells.found)
    if not (acting or asked.contents.lenient):
        raise UserError(f"no cell of study {asked.study.name} is possible as asked: {cells.found[0].refused}")
    for key in sorted(asked.searched.keys() - cells.used if acting else ()):
        raise UserError(f"--search {asked.typed[key]} has no effect: it makes no trials of any selected cell differ")
    for key in sorted(asked.overrides.keys() - cells.used - cells.prerequisites.used if acting else ()):
        raise UserError(f"setting {asked.typed[key]!r} has no effect: no selected cell uses it{_would_use(key, cells)}")
    if asked.request.corpus and "corpus" not in asked.contents.found:
        raise UserError("--corpus has no effect: no selected cell distils on unlabelled text")


def _would_use(setting: str, cells: Cells) -> str:
    """Which cell would use a setting if it were not refused, for a sentence; "" where there is none."""
    last = setting.rpartition(".")[2]
    for cell in cells.found:
        if cell.refused and (setting in cell.run.settings or f"{cell.student}.{last}" in cell.run.settings):
            return f"; {cell.row} on {cell.task} would, but is refused: {cell.refused}"
    return ""


def _beyond_the_grid(trials: int | None, cells: Cells) -> list[str]:
    """Says that --trials asks for more than there are settings, where that is so."""
    spaces = [cell.space for cell in cells.found if not cell.refused]
    if trials is None or not spaces or (most := max(size(space) or trials for space in spaces)) >= trials:
        return []
    names = sorted({name for space in spaces for name in space})
    none = f"none is searched (--search {merging.SEARCHES})"
    grid = f"the grid of {', '.join(names)} has {counted(most, 'setting')}, and each is tried once" if names else none
    return [f"--trials {trials} is more than there are settings to try: {grid}"]


def _beyond_the_run(asked: ResolvedRequest, cells: Cells) -> list[str]:
    """Says of patience and of a number of examples from --set that no cell has as many epochs, or its data."""
    found = []
    possible = [cell for cell in cells.found if not cell.refused and "epochs" not in cell.space]
    if "patience" in asked.overrides and possible:
        most = max(int(cell.run.settings["epochs"]) for cell in possible)
        if (given := max(int(cell.run.settings["patience"]) for cell in possible)) >= most:
            found.append(f"patience {given} stops nothing: no cell has more than {counted(most, 'epoch')}")
    if "train_examples" in asked.overrides and possible:
        most = max(asked.contents.examples(get_task(cell.task)) for cell in possible)
        if (given := max(int(cell.run.settings["train_examples"]) for cell in possible)) >= most > 0:
            found.append(f"train_examples {given} leaves out nothing: no task has more than {most} to train on")
    return found


def _unseen(asked: ResolvedRequest, task: Task, cells: Sequence[Cell]) -> list[str]:
    """What the models of a task do not see of its texts, where they can be read."""
    settings = [cell.run.settings for cell in cells if cell.task == task.name and not cell.refused]
    texts = asked.contents.samples.get(task.name)
    if not (texts and settings and asked.procedure.trains):
        return []
    ways = [own.get(name) for own in settings for name in ("augmentation", "multi_task.augmentation")]
    masked = any(str(way).startswith("masking") for way in ways)  # also masking+pos
    named, most = asked.teachers_named, max(own["max_length"] for own in settings)
    return unseen(task, texts, named.of(task), most, masked, named.called(task))


def _teachers(asked: ResolvedRequest, prerequisites: Prerequisites, tasks: Sequence[Task]) -> dict[str, str]:
    """The runs whose scores stand above the table, by task: of the teacher refined on all tasks where one is."""
    if not (asked.procedure.trains and asked.procedure.tunes):
        return {}
    firsts = ((run, first.run) for run, first in prerequisites.first.items())
    joint = {run: first.tasks for run, first in firsts if isinstance(first, JointTeacherRun)}
    found: dict[str, str] = {}
    for task in tasks:
        trained = [run for run, of in joint.items() if task.name in of]
        widest = max(trained, key=lambda run: len(joint[run]), default="")
        found[task.name] = widest or prerequisites.of_task(task)[0]
    return found


def _sources(asked: ResolvedRequest) -> dict[str, list[str]]:
    """`called` -> the name and argument of each teacher, where there are several."""
    every = asked.teachers_named.every()
    if len(every) == 1 or not asked.procedure.trains:
        return {}
    bases = ((BaseTeacher(name=source.name, content=asked.contents.teacher(source)), source) for source in every)
    return {called(base): [source.name, source.argument] for base, source in bases}


def _origins(runs: Iterable[Run]) -> dict[str, str]:
    """The file of every plugin of these runs, for telling when its code has changed since; ours from their folders.

    Not of a name that plugins of several kinds have: records tell code by names alone.
    """
    found: dict[str, set[str]] = {}
    for run in runs:
        for known, name in plugins(run):
            origin = known.origin(name)
            found.setdefault(name, set()).add(str(Path(origin).relative_to(ROOT)) if known.ships(name) else origin)
    return {name: files.pop() for name, files in found.items() if len(files) == 1}


def _check_settings(
    asked: ResolvedRequest, rows: Sequence[TableRow], students: Sequence[Any]
) -> dict[str, Hyperparameter]:
    """Refuse overrides that nothing declares or that rows fix; every setting there is, as records name them."""
    known = {f"teacher.{name}": h for name, h in TEACHER_TRAINING.items()}
    known |= {f"general.{name}": h for name, h in GENERAL_TRAINING.items()} | SEARCH
    own = dict(asked.procedure.settings)
    own |= {f"multi_task.{name}": h for name, h in JOINT_TRAINING.items() if asked.procedure.trains}
    for student in students:
        known |= {f"student.{name}": h for name, h in student.hyperparameters.items()}
        for name, h in apart(student).items():
            known |= {f"general.{name}": h, f"general.student.{name.partition('.')[2]}": h}
        for row in rows:
            if not (row.checkpoint or row.improves):
                own |= asked.procedure_of(row).declared(student, row.objective, asked.study.general)
    fixed = {
        row.name: {
            own_name(student, key)
            for key in row.settings
            for student in (None, *(each.plugin for each in asked.students_of(row)))
        }
        for row in rows
        if not row.improves
    }
    typed = {*asked.overrides, *asked.searched}
    for key in sorted(set().union(*fixed.values()) & typed):
        free = [name for name, ways in fixed.items() if key not in ways] or list(fixed)
        what = f"{asked.typed[key]} is what rows of {asked.study.name} differ in"
        raise UserError(f"{what}: choose by --objectives {' '.join(free[:3])}")
    for key in sorted(key for key in asked.searched if key.startswith(ELSEWHERE) or key in {*SEARCH, *SAME}):
        raise UserError(f"{asked.typed[key]} is the same in every trial of a cell: use --set, not --search")
    for key, value in (*asked.overrides.items(), *merging.each(asked.searched)):
        if key not in known | own and (owners := _owners(key)):
            why = f"it is of {owners}, which no selected cell has"
            raise UserError(f"setting {asked.typed[key]!r} has no effect: {why}")
        checked = merging.check(key, value, known | own)
        if key.rpartition(".")[2] == "max_length" and asked.procedure.trains and checked > (limit := _positions(asked)):
            who = asked.teachers_named.label
            raise UserError(f"{key} must be at most {limit}, the tokens that teacher {who} reads, not {value}")
    return MASKING | TRAINING | own


def _owners(key: str) -> str:
    """The objective, students or procedures, of those that there are, that have a setting; "" where none has."""
    owner, _, name = key.partition(".")
    if owner in registry.OBJECTIVES.names():
        return owner if name in registry.OBJECTIVES.get(owner).hyperparameters else ""
    students = [one for one in registry.STUDENTS.names() if key in (f"student.{name}", f"{one}.{name}")]
    found = [one for one in students if name in registry.STUDENTS.get(one).hyperparameters]
    made = [one for one in registry.PROCEDURES.names() if key in registry.PROCEDURES.get(one).settings]
    return " or ".join(found or (f"procedure {one}" for one in made))


def _positions(asked: ResolvedRequest) -> float:
    """The longest text that all teachers can read, in tokens; infinite where nothing tells."""
    found = [math.inf]
    for teacher in asked.teachers_named.every():
        try:
            shape = configured(teacher)
        except Faulty:
            raise
        except UserError:  # told elsewhere, unless the plan is lenient
            continue
        positions = shape.get("max_position_embeddings") or 0
        if "roberta" in shape.get("model_type", ""):  # its positions begin after that of padding
            positions -= 1 + shape["pad_token_id"]
        found += [positions] if positions > 0 else []
    return min(found)
