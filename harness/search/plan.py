"""A study and a command line, worked out: every cell, what it trains, and why some cells cannot exist.

A plan is plain JSON: the driver follows it, and tables are made from it and the ledger without loading a plugin.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import registry
from harness.contracts import Hyperparameter, LayerMap, ModelInfo, Profile, Row, Study, Task, Want
from harness.errors import UserError
from harness.ledger import digest, identity
from harness.search import settings as merging
from harness.training.settings import PREDICTION, TRAINING


@dataclass(frozen=True)
class Request:
    """What the command line asks for; None takes what the profile says."""

    study: str
    profile: str = "quick"
    teacher: str | None = None
    data: str | None = None
    objectives: Sequence[str] | None = None
    students: Sequence[str] | None = None
    inits: Sequence[str] | None = None
    tasks: Sequence[str] | None = None
    seeds: int | None = None
    trials: int | None = None
    overrides: Sequence[str] = ()
    plugins: Sequence[str] = ()


def check_early(request: Request) -> None:
    """Raise UserError for whatever can be refused before torch is loaded: study, profile, tasks, plain settings."""
    from harness.data.tasks import get_task

    if request.plugins and request.study not in registry.STUDIES.names():
        return  # a plugin file may bring the study; it is loaded next
    registry.STUDIES.get(request.study).profile(request.profile)
    for task in request.tasks or ():
        get_task(task)
    for name, count in (("--seeds", request.seeds), ("--trials", request.trials)):
        if count is not None and count < 1:
            raise UserError(f"{name} must be at least 1, not {count}")
    merging.check_plain(merging.parse_set(request.overrides))


class Planner:
    """Works out one request. `resolve` gives the plan; `lenient` plans even where data or teacher cannot be read."""

    def __init__(self, request: Request, lenient: bool = False):
        for path in request.plugins:
            registry.load_file(path)
        check_early(request)
        self.request, self.lenient = request, lenient
        self.study: Study = registry.STUDIES.get(request.study)
        self.profile: Profile = self.study.profile(request.profile)
        self.overrides = merging.parse_set(request.overrides)
        self.used: set[str] = set()  # overrides that reached some cell
        self.notices: list[str] = []
        self._found: dict[str, tuple[str, int]] = {}  # task -> (content, examples); "" for the teacher's content
        self.defaults: dict[str, Any] = {name: declared.default for name, declared in TRAINING.items()}
        name, _, argument = (request.teacher or self.profile.teacher).partition(":")
        if name not in registry.TEACHERS.names():
            name, argument = "huggingface", request.teacher or self.profile.teacher
        self.teacher = registry.TEACHERS.get(name)(argument)
        self.source = request.data or ("embedded" if name == "embedded" else "hub")
        folder = Path(self.teacher.argument)  # in a table a folder is called by its name, whatever machine it is on
        self.label = folder.resolve().name if argument and folder.is_dir() else argument or name

    def resolve(self) -> dict[str, Any]:
        """The plan. Raises UserError for anything asked that does not exist or would have no effect."""
        from harness.data.tasks import get_task
        from harness.modeling import combine

        request = self.request
        tasks = [get_task(name) for name in request.tasks or self.profile.tasks]
        rows = self._rows(combine)
        students = [registry.STUDENTS.get(name) for name in request.students or self.study.students]
        inits = {s: [s.canonical_init(init) for init in request.inits or self.profile.inits] for s in students}
        self._check_settings(combine, rows, students)
        teachers = {task.name: self._teacher_runs(task) for task in tasks}
        cells: list[dict[str, Any]] = []
        wants: dict[str, Want] = {task.name: Want() for task in tasks}
        for student in students:
            for init in dict.fromkeys(inits[student]):
                for row in rows:
                    for task in tasks:
                        cell, want = self._cell(combine, student, init, row, task, teachers[task.name][-1])
                        cells.append(cell)
                        wants[task.name] |= want
        for key in sorted(set(self.overrides) - self.used):
            raise UserError(f"setting {key!r} has no effect: no selected cell uses it")
        return {
            "study": self.study.name,
            "profile": request.profile,
            "teacher": self.teacher.name,
            "argument": self.teacher.argument,
            "label": self.label,
            "source": self.source,
            "plugins": [str(Path(p).resolve()) for p in request.plugins],
            "tasks": [task.name for task in tasks],
            "students": [s.name for s in students],
            "inits": list(dict.fromkeys(init for asked in inits.values() for init in asked)),
            "examples": {task.name: self._read(task)[1] for task in tasks},
            "rows": [dataclasses.asdict(row) for row in rows],
            "defaults": self.defaults,
            "teachers": teachers,
            "outputs": {task.name: want.parts() for task in tasks if (want := wants[task.name]).parts()},
            "cells": cells,
            "notices": self.notices,
            "origins": self._origins(combine, rows, students),
        }

    def _origins(self, combine: Any, rows: Sequence[Row], students: Sequence[Any]) -> dict[str, str]:
        """The file of every objective and student of the plan, for telling when its code has changed since."""
        names = {name for row in rows for _, name in combine.parse(row.objective)}
        return {name: registry.OBJECTIVES.origin(name) for name in sorted(names)} | {
            s.name: registry.STUDENTS.origin(s.name) for s in students
        }

    def _rows(self, combine: Any) -> list[Row]:
        if not self.request.objectives:
            return list(self.study.rows)
        known = {row.name: row for row in self.study.rows}
        rows = []
        for asked in dict.fromkeys(self.request.objectives):
            if asked not in known:
                same = [
                    r
                    for r in self.study.rows
                    if not r.equal_epochs and r.objective == _canonical(combine, asked, known)
                ]
                rows.append(same[0] if same else Row(asked, combine.canonical(asked), asked))
            else:
                rows.append(known[asked])
        return list(dict.fromkeys(rows))

    def _declared(self, combine: Any, student: Any, row: Row) -> dict[str, Hyperparameter]:
        """Every setting that a cell of this student and row has."""
        terms = combine.parse(row.objective)
        declared = dict(TRAINING)
        declared |= {f"{student.name}.{name}": h for name, h in student.hyperparameters.items()}
        declared |= combine.declared(terms)
        if self.study.procedure == "two_stage" and combine.stage(terms) == "intermediate":
            declared |= combine.declared(combine.parse(PREDICTION))
        return declared

    def _check_settings(self, combine: Any, rows: Sequence[Row], students: Sequence[Any]) -> None:
        everything: dict[str, Hyperparameter] = {f"teacher.{name}": h for name, h in TRAINING.items()}
        for student in students:
            for row in rows:
                everything |= self._declared(combine, student, row)
        self.defaults |= {name: h.default for name, h in everything.items() if not name.startswith("teacher.")}
        for key, value in self.overrides.items():
            merging.check(key, value, everything)

    def _teacher_runs(self, task: Task) -> list[dict[str, Any]]:
        """Specifications of the runs that make the teacher for a task, in order; the last is the teacher itself."""
        runs: list[dict[str, Any]] = []
        who: dict[str, Any] = {"name": self.teacher.name, "content": self._content()}
        pretraining = self.teacher.pretraining()
        if pretraining is not None:
            runs.append({"kind": "pretraining", "teacher": who, "settings": dict(pretraining), "seed": 0})
            who = {**who, "pretrained": identity(runs[0], self.defaults)}
        answers = not self.lenient and self.teacher.answers(task)
        settings: dict[str, Any] = {name: h.default for name, h in TRAINING.items()}
        shared = {**self.profile.settings, **self.profile.task_settings.get(task.name, {}), **self.overrides}
        given = {
            "max_length": shared.get("max_length"),
            "protocol": shared.get("protocol"),
            "threads": shared.get("threads"),
            "precision": shared.get("precision"),
        }
        given = {k: v for k, v in given.items() if v is not None} | dict(self.teacher.recipe(task))
        given |= {key[8:]: value for key, value in self.overrides.items() if key.startswith("teacher.") and not answers}
        self.used |= {key for key in self.overrides if key.startswith("teacher.") and not answers}
        settings |= {key: merging.check(key, value, TRAINING) for key, value in given.items()}
        specification = {
            "kind": "teacher",
            "task": task.name,
            "teacher": who,
            "metric": self._metric(task),
            "data": self._read(task)[0],
            "settings": settings,
            "seed": 0,
        }
        if answers:
            specification["evaluate_only"] = True
        return [*runs, specification]

    def _cell(
        self, combine: Any, student: Any, init: str, row: Row, task: Task, teacher_run: dict[str, Any]
    ) -> tuple[dict[str, Any], Want]:
        declared = self._declared(combine, student, row)
        terms = combine.parse(row.objective)
        fixed = {key: value for key, value in self.overrides.items() if key in declared}
        settings: dict[str, Any] = {name: h.default for name, h in declared.items()}
        for layer in (self.profile.settings, self.profile.task_settings.get(task.name, {}), fixed):
            settings |= {key: merging.check(key, value, declared) for key, value in layer.items() if key in declared}
        stages = 2 if self.study.procedure == "two_stage" and combine.stage(terms) == "intermediate" else 1
        if row.equal_epochs and stages == 1 and self.study.procedure == "two_stage":
            settings["epochs"] *= 2
        encodings = student.pair_encodings
        teacher = self.teacher.info(task)
        described: ModelInfo = student.describe(
            {name: settings[f"{student.name}.{name}"] for name in student.hyperparameters}, teacher, task
        )
        layers: LayerMap = student.layer_map(init, described, teacher)
        from harness import pairing

        refused = pairing.refusal(row.objective, self.study.procedure, described, teacher, task)
        specification = {
            "kind": "student",
            "task": task.name,
            "data": self._read(task)[0],
            "teacher": identity(teacher_run, self.defaults),
            "student": student.name,
            "init": init,
            "objective": combine.canonical(row.objective),
            "procedure": self.study.procedure,
            "pair_encoding": encodings[0],
            "metric": self._metric(task),
            "settings": settings,
        }
        space = merging.space_of(self.profile.search, declared, fixed)
        cell = {
            "id": digest([identity(specification, self.defaults), space])[:16],
            "row": row.name,
            "student": student.name,
            "init": init,
            "task": task.name,
            "metric": specification["metric"],
            "refused": refused,
            "stages": stages,
            "specification": specification,
            "space": space,
            "layers": [list(pair) for pair in layers.pairs],
            "size": {"layers": described.layers, "width": described.width},
            "trials": self.request.trials or self.profile.trials,
            "seeds": self.request.seeds or self.profile.seeds,
        }
        want = Want()
        if not refused:
            self.used |= set(fixed)
            for trained in [terms, combine.parse(PREDICTION)][:stages]:
                want |= combine.wants(trained, described, teacher, layers)[1]
        return cell, want

    def _content(self) -> str:
        if "" not in self._found:
            self._found[""] = self._or_unknown(self.teacher.content), 0
        return self._found[""][0]

    def _metric(self, task: Task) -> str:
        return self.study.metrics.get(task.name, task.metric)

    def _read(self, task: Task) -> tuple[str, int]:
        """(content hash, number of training examples) of the task's data; ("unknown", 0) in a lenient plan without."""
        from harness.data import sources

        if task.name not in self._found:
            # A hub that did not answer once is not asked again: every question costs half a minute.
            unreachable = self.source == "hub" and bool(self.notices)
            content = "unknown" if unreachable else self._or_unknown(lambda: sources.content(task, self.source))
            size = 0 if content == "unknown" else len(sources.load(task, self.source).train.text_a)
            self._found[task.name] = content, size
        return self._found[task.name]

    def _or_unknown(self, read: Callable[[], str]) -> str:
        """What `read` gives; in a lenient plan "unknown", with a notice, where it cannot be read."""
        try:
            return read()
        except UserError as error:
            if not self.lenient:
                raise
            self.notices.append(str(error))
            return "unknown"


def _canonical(combine: Any, asked: str, known: Any) -> str:
    from harness.errors import near

    try:
        return str(combine.canonical(asked))
    except UserError as error:
        if "unknown" in str(error):
            names = [*known, *registry.OBJECTIVES.names()]
            raise UserError(f"unknown objective {asked!r}: {near(asked, names)}") from error
        raise


def runs_of(plan: dict[str, Any]) -> int:
    """How many runs a plan's cells ask for at most: trials, then the remaining seeds."""
    from harness.search.proposals import size

    return sum(
        min(c["trials"], size(c["space"]) or c["trials"]) + c["seeds"] - 1 for c in plan["cells"] if not c["refused"]
    )
