"""What a plan trains by, in words: its budget, its protocol, its settings and those of its distillations."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from harness.errors import counted, listed
from harness.hyperparameters import Values, complement
from harness.planning import merging
from harness.planning.planned import Cell, Plan, trials_of
from harness.planning.space import Dimension, is_grid, size
from harness.registry import STUDENTS
from harness.runs import CorpusDistillationRun, CorpusRun, Run, TeacherRun
from harness.runs.settings import MASKING, ON_MASKED_TEXT, SHARED, Settings

Known = TypeVar("Known")  # the value of a setting, or a dimension of a space
# What is not told where it is so: nothing is made, left out or drawn otherwise than elsewhere.
USUAL = {"augmentation": "none", "labels": "given", "train_sample": "one"}
FLOAT32 = "float32"
SILENT_BEFORE = {"cache_gib", "pruner"}  # of a run that cells start from: no trial is stopped there
Where = Mapping[str, str]  # the task, student and row that a setting is of


def protocol(plan: Plan) -> str:
    """What epochs and settings were chosen on; "" where nothing is trained."""
    return _cells(plan)[0].run.settings["protocol"] if plan.trains else ""


def budget(plan: Plan) -> str:
    """The search budget of every cell, as a sentence; "" where nothing is trained."""
    if not plan.trains:
        return ""
    cells = _cells(plan)
    spaces = [{shared_name(c.student, name): v for name, v in as_known(plan, c.space).items()} for c in cells]
    space = max(spaces, key=len)
    fewest, seeds, count = min(c.seeds for c in cells), max(c.seeds for c in cells), size(space)
    budgets = sorted({trials_of(cell) for cell in cells})
    trials = budgets[-1]
    apart = by_student(plan)
    over = _over(space, apart)
    # A row's own settings may be in no cell that searches the most.
    if rest := {name: v for one in spaces for name, v in one.items() if name not in space}:
        over += f"; in other cells {_over(rest, apart)}"
    grid = f"{'spread over' if 1 < trials < (count or 0) else 'of'} a grid of {count}"
    sampler = next((cell.sampler for cell in cells if cell.space), "")  # a cell without a search has none
    how = _SAMPLED.get(sampler, grid if is_grid(space) else _SAMPLED["tpe"])
    number = str(trials) if len(budgets) == 1 else f"{budgets[0]} to {trials}"
    searched = f"{number} trial{'s' * (trials > 1)} {how} ({over})" if space else "no search"
    searched += " in a search for each seed" * any(cell.searched_by_seed for cell in cells)
    certain = f" ({fewest} of what no seed changes)" if fewest < seeds else ""
    same = "the same for every cell"
    if any(other != space for other in spaces):
        same += " that searches the same; where a setting does nothing it is not searched"
    return f"{searched}, {counted(seeds, 'seed')}{certain}, {same}"


def _over(space: Mapping[str, Dimension], apart: Collection[str]) -> str:
    return ", ".join(f"{name} {'by student' if name in apart else span(v)}" for name, v in space.items())


_SAMPLED = {"random": "drawn at random, the same for all cells that search the same range", "tpe": "proposed by TPE"}


def by_student(plan: Plan) -> set[str]:
    """The settings that students search over ranges of their own."""
    found: dict[str, list[Dimension]] = {}
    for cell in _cells(plan):
        for name, values in as_known(plan, cell.space).items():
            found.setdefault(shared_name(cell.student, name), []).append(values)
    return {name for name, all_of in found.items() if any(values != all_of[0] for values in all_of)}


def families(plan: Plan) -> tuple[str, ...]:
    """A sentence on how each family of students starts and over which ranges of its own it is searched."""
    apart, alike = by_student(plan), dict[str, dict[str, None]]()
    for student in plan.students if apart else ():
        own = [cell for cell in _cells(plan) if cell.student == student]
        inits = dict.fromkeys(cell.init for cell in own)
        spaces = [as_known(plan, cell.space).items() for cell in own]
        ranges = {shared_name(student, name): span(values) for space in spaces for name, values in space}
        searched = [f"{name} searched from {ranges[name]}" for name in sorted(apart & ranges.keys())]
        alike.setdefault("; ".join([f"init {' or '.join(inits)}", *searched]), {})[student] = None
    return tuple(f"{', '.join(students)}: {how}." for how, students in alike.items())


def in_float32(plan: Plan) -> tuple[str, ...]:
    """Says which students `precision` does not reach."""
    told = [cell.run.student_name for cell in _cells(plan) if cell.run.settings.get("precision", FLOAT32) != FLOAT32]
    known = [name for name in dict.fromkeys(told) if name in STUDENTS.names() and not STUDENTS.get(name).autocasts]
    verb = "computes" if len(known) == 1 else "compute"
    return (f"The setting precision has no effect on {listed(known)}, which {verb} in float32.",) if known else ()


def span(values: Dimension) -> str:
    """What is searched, in words."""
    if isinstance(values, list):
        return " or ".join(map(number, values))
    return f"{values['low']:g} to {values['high']:g}{' (logarithmic)' * values['log']}"


def recipe(plan: Plan) -> str:
    """The training settings that all cells share, and those that differ by task; "" where nothing is trained."""
    if not plan.trains:
        return ""
    rows = {row.name: row for row in plan.rows}
    searched = {shared_name(cell.student, name) for cell in _cells(plan) for name in as_known(plan, cell.space)}
    values: dict[str, list[tuple[Where, Any]]] = {}
    for cell in _cells(plan):
        settings, row = as_told(plan, cell.run.settings), rows[cell.row]
        silent = saying_nothing(settings)
        for key, value in settings.items():
            name = shared_name(cell.student, key)
            elsewhere = name in searched or name in as_known(plan, row.settings) or key in ("protocol", "cache_gib")
            if not (key in silent or elsewhere or (name == "epochs" and row.equal_epochs)):
                values.setdefault(name, []).append((where_of(cell), value))
    procedures = dict.fromkeys(row.procedure or plan.procedure for row in rows.values() if not row.baseline)
    return f"procedure {' or '.join(procedures)}; {_together(values)}"


def _together(values: Mapping[str, Sequence[tuple[Where, Any]]]) -> str:
    """Settings in words: first those with one value, then those that differ."""
    shared = [f"{name} {number(found[0][1])}" for name, found in sorted(values.items()) if _constant(found)]
    differing = [f"{name} {varied(found)}" for name, found in sorted(values.items()) if not _constant(found)]
    return "; ".join([*shared, *differing])


def saying_nothing(settings: Values) -> set[str]:
    """The settings of training that are not told beside the others: those without effect, and that nothing is made."""
    told = Settings(settings)
    usual = {name for name, value in USUAL.items() if told[name] == value}
    return merging.unused(settings) | usual


def _constant(found: Sequence[tuple[Any, Any]]) -> bool:
    return len({value for _, value in found}) == 1


def varied(found: Sequence[tuple[Where, Any]]) -> str:
    """The values of a setting with what decides them: the task, the student or the row."""
    for axis in ("task", "student", "row"):
        if named := _decided([(where[axis], value) for where, value in found]):
            told = {value: ", ".join(key or "no student" for key in keys) for value, keys in named.items()}
            return ", ".join(f"{number(value)} ({keys})" for value, keys in told.items())
    if named := _decided([((where["student"], where["task"]), value) for where, value in found]):
        return ", ".join(f"{number(value)} ({_on_tasks(named, value)})" for value in named)
    for axis in ("task", "student", "row"):  # what has several values of its own, beside what has others
        alike: dict[str, list[str]] = {}
        for key in dict.fromkeys(where[axis] for where, _ in found):
            own = {value for where, value in found if where[axis] == key}
            some = " or ".join(number(value) for value in dict.fromkeys(v for _, v in found) if value in own)
            alike.setdefault(some, []).append(key or "no student")
        if len(alike) > 1:
            return ", ".join(f"{values} ({', '.join(keys)})" for values, keys in alike.items())
    return " or ".join(map(number, dict.fromkeys(value for _, value in found)))


def _decided(found: Sequence[tuple[Any, Any]]) -> dict[Any, list[Any]]:
    """value -> the keys that have it; none where a key has several values."""
    values: dict[Any, dict[Any, None]] = {}
    named: dict[Any, list[Any]] = {}
    for key, value in dict.fromkeys(found):
        values.setdefault(key, {})[value] = None
        named.setdefault(value, []).append(key)
    return named if all(len(own) == 1 for own in values.values()) else {}


def _on_tasks(named: Mapping[Any, Sequence[tuple[str, str]]], value: Any) -> str:
    """ "bilstm; transformer on mrpc, rte": the students that have a value, with their tasks where not on all."""
    own: dict[str, list[str]] = {}
    for student, task in named[value]:
        own.setdefault(student, []).append(task)
    apart = {student for other, keys in named.items() if other != value for student, _ in keys}
    told = {student: f" on {', '.join(tasks)}" if student in apart else "" for student, tasks in own.items()}
    return "; ".join(f"{student or 'no student'}{tasks}" for student, tasks in told.items())


def where_of(cell: Cell) -> Where:
    return {"task": cell.task, "student": cell.student, "row": cell.row}


def shared_name(student: str, key: str) -> str:
    """A setting's name without whose it is: "hybrid.head" and "cmow.head" are "student.head"."""
    own = f"{student.partition(':')[0]}."
    return f"student.{key.removeprefix(own)}" if student and key.startswith(own) else key


def recipes_before(plan: Plan) -> tuple[str, ...]:
    """Sentences on what cells start from: teachers' fine-tuning, distillations on a corpus or on several tasks."""
    said = dict.fromkeys(_fine_tuning(plan))
    for first in plan.first.values():
        if (run := first.run).tells:
            found = as_told(plan, apart_from_students(plan, run))
            silent = SILENT_BEFORE | (_idle(found) if isinstance(run, CorpusRun) else saying_nothing(found))
            told = "; ".join(f"{name} {value}" for name, value in _listed(found, silent).items())
            said[f"{run.tells}: {told}."] = None
    return (*said, *_general(plan))


def _listed(settings: Values, silent: Collection[str]) -> dict[str, str]:
    """Settings of a run in words; of pieces a number is a limit, which a corpus may not reach."""
    told = {name: number(value) for name, value in sorted(settings.items()) if name not in silent}
    if "pieces" in told:
        told["pieces"] = f"at most {told['pieces']}" if settings["pieces"] else "all"
    return told


def _general(plan: Plan) -> Iterator[str]:
    """A sentence on the students that are distilled on a corpus before any task."""
    runs = [first.run for first in plan.first.values() if isinstance(first.run, CorpusDistillationRun)]
    layers = {(run.objective, run.settings["transferred_layers"]) for run in runs}
    both = Counter(objective for objective, _ in layers)  # 2: some transfer the last layer, some all
    objectives: dict[tuple[str, str], dict[str, None]] = {}  # of a student and where it starts
    values: dict[str, list[tuple[Where, Any]]] = {}
    for run in runs:
        found, init = as_told(plan, run.settings), by_name(plan, run.init)
        objectives.setdefault((run.student, init), {})[run.objective] = None
        idle = _idle(found) - ({"transferred_layers"} if both[run.objective] > 1 else set())
        for name, value in _listed(found, idle).items():
            where = {"task": run.objective, "student": run.student, "row": init}
            values.setdefault(shared_name(run.student, name), []).append((where, value))
    alike: dict[tuple[str, str], list[str]] = {}  # objectives and init -> students
    for (student, init), own in objectives.items():
        alike.setdefault((", ".join(own), init), []).append(student)
    who = "; of ".join(f"{', '.join(students)} by {by}, init {init}" for (by, init), students in alike.items())
    if runs:
        yield (
            f"General distillation of {who}, once (seed 0), on corpus {Path(plan.corpus).name}: {_together(values)}."
        )


def _fine_tuning(plan: Plan) -> Iterator[str]:
    """A sentence on teachers that are fine-tuned on one task at a time and are no rows of the table."""
    values: dict[str, list[tuple[Where, Any]]] = {}
    # Not what is one too: an ensemble and a control's teacher are never fine-tuned themselves.
    runs = [run for first in plan.first.values() if type(run := first.run) is TeacherRun]
    for run in runs:
        if not run.evaluate_only:
            settings = apart_from_students(plan, run)
            for name in settings.keys() - saying_nothing(settings) - SILENT_BEFORE:
                where = {"task": run.task, "student": run.teacher.name, "row": ""}
                values.setdefault(name, []).append((where, by_name(plan, settings[name])))
    if values:
        some = ", where its weights do not answer as they are" if any(run.evaluate_only for run in runs) else ""
        yield f"Fine-tuning of teacher {plan.label}{some}: {_together(values)}."


def apart_from_students(plan: Plan, run: Run) -> Values:
    """The settings of a run that students start from, without those that it shares with students of its tasks."""
    others = (cell.run for cell in plan.cells if cell.student and cell.run.kind != run.kind)
    students = [other.settings for other in others if other.data_of.keys() & run.data_of]
    shared = {name for name in SHARED if any(own[name] == run.settings[name] for own in students)}
    return {name: value for name, value in run.settings.items() if name not in shared}


def _idle(settings: Values) -> set[str]:
    """The settings of a corpus distillation that say nothing beside the others."""
    told = Settings(settings)
    usual = ("micro_batch", "pack", "transferred_layers", "stored_top_k")
    idle = {name for name in usual if told[name] == MASKING[name].default}
    idle |= {"epochs" if told["steps"] else "steps"} | merging.unused(settings)
    return idle if told["text"] == "masked" else idle | ON_MASKED_TEXT


def as_known(plan: Plan, settings: Mapping[str, Known]) -> dict[str, Known]:
    """Settings, or the dimensions of a space, by the names that people know where records have older ones."""
    if plan.shown.keys().isdisjoint(settings):
        return dict(settings)
    found = {}
    for key, value in settings.items():
        name, complements = plan.shown.get(key, (key, False))
        found[name] = _complement(value) if complements else value
    return found


def as_told(plan: Plan, settings: Values) -> dict[str, Any]:
    """Settings as `as_known`, in sentences: a file by its name, not by its content."""
    return {name: by_name(plan, value) for name, value in as_known(plan, settings).items()}


def by_name(plan: Plan, value: Any) -> Any:
    """ "kind:CONTENT" as "kind:FILE", as it was asked for; anything else as it is."""
    kind, colon, content = value.partition(":") if isinstance(value, str) else ("", "", "")
    return f"{kind}{colon}{Path(plan.files[content]).name}" if content in plan.files else value


def _complement(value: Any) -> Any:
    if isinstance(value, list):
        return [complement(one) for one in value]
    if isinstance(value, Mapping):
        return {**value, "low": complement(value["high"]), "high": complement(value["low"])}
    return complement(value)


def number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def _cells(plan: Plan) -> list[Cell]:
    """Those that are told of: what is measured beside students has neither a search nor a training."""
    alike = [cell for cell in plan.cells if cell.run.trains == plan.trains]
    return [cell for cell in alike if not cell.refused] or alike
