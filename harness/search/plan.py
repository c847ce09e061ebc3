"""A study and a command line, worked out: every cell, what it trains, and why some cells cannot exist.

A plan is plain JSON: the driver follows it, and tables are made from it and the ledger without loading a plugin.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness import registry
from harness.contracts import Profile, Row, Study
from harness.errors import UserError
from harness.search import settings as merging
from harness.search.contents import Contents
from harness.search.making import Making
from harness.search.progress import PLAN_FORMAT
from harness.training.settings import GENERAL_TRAINING, MASKING, SPEED_SETTINGS, TRAINING

MEASURED = ("count", "speed")  # procedures that train nothing


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
    corpus: str | None = None
    checkpoints: Sequence[str] = ()
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
        self.request = request
        self.study: Study = registry.STUDIES.get(request.study)
        self.profile: Profile = self.study.profile(request.profile)
        self.measured = self.study.procedure in MEASURED
        self.overrides = merging.parse_set(request.overrides)
        name, _, argument = (request.teacher or self.profile.teacher).partition(":")
        if name not in registry.TEACHERS.names():
            name, argument = "huggingface", request.teacher or self.profile.teacher
        self.teacher = registry.TEACHERS.get(name)(argument)
        source = request.data or ("embedded" if name == "embedded" else "hub")
        self.contents = Contents(source, request.corpus or self.profile.corpus, lenient)
        folder = Path(self.teacher.argument)  # in a table a folder is called by its name, whatever machine it is on
        self.label = folder.resolve().name if argument and folder.is_dir() else argument or name

    def resolve(self) -> dict[str, Any]:
        """The plan. Raises UserError for anything asked that does not exist or would have no effect."""
        from harness.data.tasks import get_task
        from harness.search.cells import Cells  # loads torch, which the refusals above must not wait for

        request = self.request
        tasks = [get_task(name) for name in request.tasks or self.profile.tasks]
        checkpoints = self._checkpoints()
        rows = self._rows(checkpoints)
        for name in request.students or ():
            registry.STUDENTS.get(name)
        trained = [row for row in rows if not row.checkpoint]
        students = list(dict.fromkeys(student for row in trained for student in self.students_of(row)))
        defaults = self._check_settings(rows, students)
        making = Making(self.teacher, self.profile, self.overrides, self.contents, defaults)
        teachers = (
            {} if self.measured else {task.name: making.of_task(task, self.study.shown(task)[0]) for task in tasks}
        )
        cells = Cells(self, making, teachers, checkpoints, defaults)
        for row in rows:
            for task in tasks:
                cells.add(row, task)
        for key in sorted(set(self.overrides) - cells.used - making.used):
            raise UserError(f"setting {key!r} has no effect: no selected cell uses it")
        if request.corpus and "corpus" not in self.contents.read():
            raise UserError("--corpus has no effect: no selected cell distils on unlabelled text")
        return {
            "format": PLAN_FORMAT,
            "study": self.study.name,
            "profile": request.profile,
            "procedure": self.study.procedure,
            "teacher": self.teacher.name,
            "argument": self.teacher.argument,
            "label": self.label,
            "source": self.contents.source,
            "corpus": self.contents.corpus_source,
            "checkpoints": cells.sources,
            "files": self.contents.files,
            "plugins": [str(Path(p).resolve()) for p in request.plugins],
            "tasks": [task.name for task in tasks],
            "students": [student.name for student in students],
            "inits": cells.inits,
            "examples": {} if self.measured else {task.name: self.contents.examples(task) for task in tasks},
            "rows": [dataclasses.asdict(row) for row in rows],
            "defaults": defaults,
            "first": making.first,
            "teachers": teachers,
            "outputs": {name: want.parts() for name, want in cells.wants.items() if want.parts()},
            "cells": cells.found,
            "notices": self.contents.notices,
            "origins": self._origins(rows, students),
        }

    def students_of(self, row: Row) -> list[Any]:
        """The students that a row has cells for."""
        asked = self.request.students
        names = asked or self.study.students
        if row.student:
            names = [row.student] if not asked or row.student in asked else []
        return [registry.STUDENTS.get(name) for name in names]

    def inits_of(self, row: Row) -> Sequence[str]:
        """The initialisations that a row has cells for; one that the row fixes may be given more exactly."""
        asked = self.request.inits
        if not row.init:
            return asked or self.profile.inits
        return [init for init in asked if init.partition(":")[0] == row.init] if asked else [row.init]

    def _origins(self, rows: Sequence[Row], students: Sequence[Any]) -> dict[str, str]:
        """The file of every objective and student of the plan, for telling when its code has changed since."""
        from harness.modeling import combine

        names = {name for row in rows if not self.measured for _, name in combine.parse(row.objective)}
        return {name: registry.OBJECTIVES.origin(name) for name in sorted(names)} | {
            s.name: registry.STUDENTS.origin(s.name) for s in students
        }

    def _checkpoints(self) -> dict[str, str]:
        """Row -> the model that --checkpoints gives for it, a hub name or a folder; where only shapes count, all."""
        declared = {row.name: row.checkpoint for row in self.study.rows if row.checkpoint}
        if self.measured:
            if self.request.checkpoints:
                raise UserError(f"--checkpoints has no effect: study {self.study.name} reads no weights")
            return declared
        given: dict[str, str] = {}
        for word in self.request.checkpoints:
            name, equals, model = word.partition("=")
            given[name if equals or name in declared else Path(name).name] = model or declared.get(name, name)
        return given

    def _rows(self, checkpoints: dict[str, str]) -> list[Row]:
        from harness.modeling import combine

        known = {row.name: row for row in self.study.rows if not row.checkpoint or row.name in checkpoints}
        known |= {
            name: Row(name, "labels_only", name, checkpoint=model)
            for name, model in checkpoints.items()
            if name not in known
        }
        if not self.request.objectives:
            return list(known.values())
        rows = [known[name] for name in checkpoints]
        for asked in dict.fromkeys(self.request.objectives):
            if asked in known:
                rows.append(known[asked])
                continue
            plain = [r for r in known.values() if not (r.equal_epochs or r.settings or r.student or r.init)]
            same = [r for r in plain if r.objective == _canonical(combine, asked, known)]
            rows.append(same[0] if same else Row(asked, combine.canonical(asked), asked))
        return list({row.name: row for row in rows}.values())

    def _check_settings(self, rows: Sequence[Row], students: Sequence[Any]) -> dict[str, Any]:
        """Refuse overrides that nothing declares or that rows fix; the default of every setting there is."""
        from harness.search.cells import declared_by

        known: dict[str, Any] = {f"teacher.{name}": h for name, h in TRAINING.items()}
        known |= {f"general.{name}": h for name, h in GENERAL_TRAINING.items()}
        own: dict[str, Any] = SPEED_SETTINGS if self.study.procedure == "speed" else {} if self.measured else TRAINING
        for student in students:
            known |= {f"student.{name}": h for name, h in student.hyperparameters.items()}
            for row in rows:
                if not row.checkpoint:
                    own = own | declared_by(student, row.objective, row.procedure or self.study.procedure)
        for row in rows:
            for key in sorted(set(row.settings) & set(self.overrides)):
                names = " ".join(r.name for r in rows[:3])
                raise UserError(f"{key} is what rows of {self.study.name} differ in: choose by --objectives {names}")
        for key, value in self.overrides.items():
            merging.check(key, value, known | own)
        return {name: h.default for name, h in (MASKING | TRAINING | own).items()}


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
