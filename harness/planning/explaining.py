"""The settings of a plan beside what the text of the study's work tells of them (`Study.told`)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from harness.contracts import Study, Told
from harness.hyperparameters import Values
from harness.planning.planned import Plan, distinct
from harness.planning.recipe import (
    Where,
    apart_from_students,
    as_known,
    as_told,
    number,
    saying_nothing,
    shared_name,
    span,
    varied,
    where_of,
)
from harness.runs import CorpusDistillationRun, JointStudentRun, JointTeacherRun, Run, TeacherRun
from harness.runs.settings import SHARED

VERDICTS = {
    "equal": "As the text says",
    "ours": "Ours, where the text says something else",
    "untold": "Not told by the text",
}
# Shown at their defaults too: a reader who repeats the study needs them, told or not.
ALWAYS = (
    "optimiser", "learning_rate", "schedule", "warmup_ratio", "weight_decay", "gradient_clip", "batch_size", "epochs",
    "max_length",
)  # fmt: skip
OF_MACHINE = ("threads", "cache_gib", "pruner", "micro_batch")  # not of the work
TEACHERS = (TeacherRun, JointTeacherRun)
NOWHERE = {"task": "", "student": "", "row": ""}


@dataclass(frozen=True)
class Explained:
    """One setting. text: the place in the text, with what stands there if not ours; kept: as the study tells it."""

    name: str
    ours: str
    verdict: str
    text: str
    why: str
    kept: bool


def explained(plan: Plan, study: Study) -> list[Explained]:
    """Every setting that the profile gives, that has not its default, that the study's table tells of, or of `ALWAYS`.

    What only the rows give is part of them, and left out where the table tells nothing of it.
    """
    profile = study.profile(plan.profile)
    given = {*profile.settings, *profile.search, *(key for by in profile.task_settings.values() for key in by)}
    given = {_shared(plan, key) for key in given}
    free: dict[str, list[tuple[Where, Any]]] = {}
    of_rows: dict[str, list[tuple[Where, Any]]] = {}
    changed = set()
    for name, where, value, default, of_row in (*_facts(plan), *_settings(plan)):
        (of_rows if of_row else free).setdefault(name, []).append((where, value))
        changed |= set() if default or of_row else {name}
    shown = (given | changed) & free.keys() | study.told.keys() & (free.keys() | of_rows.keys())
    usual = {name for name in free if name.rpartition(".")[2] in ALWAYS} - shown
    named = (name for name in sorted(shown | usual) if name.rpartition(".")[2] not in OF_MACHINE)
    told = {name: Told(free[name][0][1], why="the harness's default") for name in usual} | {**study.told}
    return [_explained(name, free.get(name) or of_rows[name], told.get(name)) for name in named]


def _explained(name: str, values: list[tuple[Where, Any]], told: Told | None) -> Explained:
    ours, told = _said(values), told or Told(None)
    kept = _is(values, told.ours)
    why = told.why if kept else ""
    if not told.section:
        return Explained(name, ours, "untold", "", why, kept)
    if kept and not told.says:
        return Explained(name, ours, "equal", told.section, why, kept)
    return Explained(name, ours, "ours", f"{told.section}: {told.says or _text(told.ours)}", why, kept)


def _is(values: list[tuple[Where, Any]], ours: Any) -> bool:
    if isinstance(ours, Mapping):
        return all(value == ours.get(where["task"], ours.get("")) for where, value in values)
    return {value for _, value in values} == set(ours if isinstance(ours, tuple) else (ours,))


def _said(values: list[tuple[Where, Any]]) -> str:
    if all(where is NOWHERE for where, _ in values):
        return "; ".join(number(value) for _, value in values)
    if len({value for _, value in values}) == 1:
        return number(values[0][1])
    return varied([({**where, "row": ""}, value) for where, value in values])  # which row has which, the table shows


def _text(ours: Any) -> str:
    if isinstance(ours, Mapping):
        return varied([({**NOWHERE, "task": task or "other tasks"}, value) for task, value in ours.items()])
    return " or ".join(map(number, ours if isinstance(ours, tuple) else (ours,)))


def _facts(plan: Plan) -> list[tuple[str, Where, Any, bool, bool]]:
    """What is no setting of a run: as `_settings`."""
    if not plan.trains:
        return []
    of_rows = {row.init for row in plan.rows}
    distils = any(isinstance(first.run, CorpusDistillationRun) for first in plan.first.values())
    facts = {
        "teacher": [plan.label],
        "tasks": plan.tasks,
        "inits": [init for init in plan.inits if init not in of_rows],
        "seeds": [max(cell.seeds for cell in plan.cells)],
        "corpus": [plan.corpus] if distils else [],
    }
    return [(name, NOWHERE, value, False, False) for name, values in facts.items() for value in values]


def _settings(plan: Plan) -> Iterator[tuple[str, Where, Any, bool, bool]]:
    """(name, where, value, whether it is the default, whether the row gives it), of cells and what they start from."""
    rows = {row.name: row for row in plan.rows}
    of_rows = {name: {_shared(plan, key) for key in as_known(plan, row.settings)} for name, row in rows.items()}
    for cell in distinct(plan.cells):
        prefix = f"{cell.run.kind}." if isinstance(cell.run, TEACHERS) else ""
        where = where_of(cell)
        grid = {key: values if isinstance(values, list) else [values] for key, values in cell.space.items()}
        for key, values in {**{k: [v] for k, v in _own(plan, cell.run).items()}, **grid}.items():
            if key == "epochs" and rows[cell.row].equal_epochs:
                continue
            for value in values:
                name, known = _known(plan, key, value)
                shared = shared_name(cell.student, name)
                yield prefix + shared, where, known, plan.defaults.get(key) == value, shared in of_rows[cell.row]
    of_any = set().union(*of_rows.values())
    for run in (first.run for first in plan.first.values()):
        if not isinstance(run, (CorpusDistillationRun, JointStudentRun, *TEACHERS)):
            continue
        where = {"task": getattr(run, "task", ""), "student": run.student_name, "row": ""}
        for key, value in _own(plan, run).items():
            if not key.startswith(f"{run.student_name}."):
                name, known = _known(plan, key, value)
                name = f"{run.kind}.{name}"
                yield name, where, known, plan.defaults.get(key) == value, name in of_any


def _own(plan: Plan, run: Run) -> Values:
    """The settings of a run that do something and that it does not take from its students."""
    settings = apart_from_students(plan, run) if isinstance(run, (JointStudentRun, *TEACHERS)) else run.settings
    if isinstance(run, TeacherRun) and run.evaluate_only:  # nothing trains it
        settings = {name: value for name, value in settings.items() if name in SHARED}
    silent = saying_nothing(settings) | ({"epochs"} if settings.get("steps") else set())
    return {name: value for name, value in settings.items() if name not in silent}


def _known(plan: Plan, key: str, value: Any) -> tuple[str, Any]:
    name, told = next(iter(as_told(plan, {key: value}).items()))
    is_range = isinstance(told, Mapping)
    return name, span(told) if is_range else told


def _shared(plan: Plan, key: str) -> str:
    """A setting's name without whose it is, as `shared_name` has it."""
    owner, _, rest = key.partition(".")
    return f"student.{rest}" if owner in {name.partition(":")[0] for name in plan.students} else key
