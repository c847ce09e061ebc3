"""What the command line asks for, and what it names, looked up: study, profile, teacher, rows, students."""

from __future__ import annotations

import math
import os
from argparse import Namespace
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from harness import combine, registry
from harness.answers import ask, check_configured, described, parts_of
from harness.contracts import AGREEMENT, CheckpointRow, ModelInfo, Row, Study, TableRow, Task
from harness.data import metric_names, own, own_metric
from harness.data.declaration import SETTINGS, Declaration
from harness.data.tasks import get_task
from harness.errors import UserError, close, unknown
from harness.hyperparameters import Recipe, Value
from harness.planning import declarations, merging
from harness.planning.contents import Contents
from harness.planning.space import Space, default_sampler
from harness.planning.teachers import Teachers
from harness.rows import BASELINES, CONTROLS
from harness.runs import MULTI_TASK, PRETRAINED
from harness.runs.settings import SEARCH, TEACHER_TRAINING

MOST = 10_000  # seeds, or trials, of a cell


def by_another_run(init: str) -> bool:
    """Whether an initialisation is by a student that another run of ours leaves, so that the engine makes it."""
    return init.partition(":")[0].strip() in (PRETRAINED, MULTI_TASK)


@dataclass(frozen=True)
class Variant:
    """A student as it is asked for: "bilstm", or with settings of its own fixed, "transformer:layers=6,...".

    name: as tables call it; settings: by their names with the plugin's before them.
    """

    name: str
    plugin: Any
    settings: Mapping[str, Value] = field(default_factory=dict, hash=False)

    @classmethod
    def of(cls, word: str) -> Variant:
        """Raises UserError for an unknown student, or a setting that it has not."""
        name, _, fixed = word.partition(":")
        plugin = registry.STUDENTS.get(name.strip())
        given = merging.parse_set((part.strip() for part in fixed.split(",")), "a student") if fixed else {}
        found = {key: merging.check(key, given[key], plugin.hyperparameters) for key in sorted(given)}
        said = ",".join(f"{key}={value}" for key, value in found.items())
        called = f"{plugin.name}:{said}" if said else plugin.name
        return cls(called, plugin, {f"{plugin.name}.{k}": v for k, v in found.items()})

    def knows(self, init: str) -> bool:
        """Whether the student knows an initialisation, or the engine makes it."""
        if by_another_run(init):
            return True
        try:
            self.plugin.canonical_init(init)
        except UserError:
            return False
        return True


@dataclass(frozen=True)
class Request:
    """What the command line asks for; None takes what the profile says."""

    study: str
    profile: str = "quick"
    teacher: str | Sequence[str] | None = None  # several: TASK=TEACHER each
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
    search: Sequence[str] = ()  # as it is typed: KEY=A,B,... or KEY=LOW..HIGH each
    plugins: Sequence[str] = ()
    baselines: bool = False
    controls: bool = False

    @classmethod
    def of(cls, options: Namespace) -> Request:
        """What the flags of a command ask for, as far as it has them."""
        names = {field.name for field in fields(cls)}
        asked = {name: value for name, value in vars(options).items() if name in names}
        words: Sequence[str] = asked.get("teacher") or []
        if len(words) == 1:
            asked["teacher"] = words[0]
        return cls(**asked, overrides=options.set, plugins=options.plugin)


def check_early(request: Request) -> None:
    """Raise UserError for whatever can be refused before torch is loaded: study, profile, tasks, plain settings."""
    if request.plugins and request.study not in registry.STUDIES.names():
        return  # a plugin file may bring the study; it is loaded next
    registry.STUDIES.get(request.study).profile(request.profile)
    tasks, declared, overrides = _told_apart(request)
    for task in tasks or () if not request.plugins else ():
        if task not in declared:
            get_task(task)
    for name, count in (("--seeds", request.seeds), ("--trials", request.trials)):
        if count is not None and not 1 <= count <= MOST:
            raise UserError(f"{name} must be between 1 and {MOST}, not {count}")
    for name in ("teacher", "data", "corpus"):
        given = getattr(request, name)
        if given is not None and not all(map(str.strip, [given] if isinstance(given, str) else given)):
            raise UserError(f"--{name} is empty: name something, or leave it out")
    for name in ("objectives", "students", "inits", "tasks"):
        words = list(tasks or ()) if name == "tasks" else list(getattr(request, name) or ())
        for twice in (word for word in words if words.count(word) > 1):
            raise UserError(f"--{name} names {twice} twice: give it once")
    of_data = [f"{name}.{setting}" for name in declared for setting in SETTINGS]
    merging.check_plain(fixed := merging.parse_set(overrides), of_data)
    search = merging.parse_search(request.search)
    if search and request.trials == 1:
        raise UserError("--search has nothing to try with --trials 1: leave it out, or give a trial for each setting")
    for key, value in merging.each(search):
        merging.check_plain({key: value})
    for key in sorted(search.keys() & fixed.keys()):
        raise UserError(f"--search {key} and --set {key}: what is fixed is not searched, so give one of them")


def _told_apart(request: Request) -> tuple[list[str] | None, dict[str, Declaration], list[str]]:
    """`own.told_apart` of the tasks that are named or else the profile's, which a plugin may declare by `@task`."""
    named = request.tasks is not None
    tasks = request.tasks if named else registry.STUDIES.get(request.study).profile(request.profile).tasks
    names, declared, overrides = own.told_apart(tasks, request.overrides)
    return names if named else None, declared, overrides


class ResolvedRequest:
    """A request with what it names looked up. lenient: even where data or teacher cannot be read."""

    def __init__(self, request: Request, lenient: bool, cache: Path | None):
        """request: that `check_early` lets pass, its plugins loaded. cache: see `examined`."""
        from harness.data import loading

        own.KNOWN.clear()
        names, declared, overrides = _told_apart(request)
        self.request = request = replace(request, tasks=names, overrides=overrides)
        self.declared = own.know(declared.values())
        self.study: Study = registry.STUDIES.get(request.study)
        profile = self.study.profile(request.profile)
        self.tasks = tuple(request.tasks or profile.tasks)
        tasks = [get_task(task) for task in self.tasks]
        declarations.check(self.study, tasks)
        self.profile = replace(  # its settings as records name them
            profile,
            settings=combine.recorded(profile.settings),
            task_settings={task: combine.recorded(settings) for task, settings in profile.task_settings.items()},
            search=combine.recorded(profile.search),
        )
        self.procedure = registry.PROCEDURES.get(self.study.procedure)
        search = merging.parse_search(request.search)
        typed = {**merging.parse_set(request.overrides), **search}
        recorded = combine.recorded(typed)
        self.typed = dict(zip(recorded, typed, strict=True))  # as records name them -> as they were typed
        self.searched = {key: way for key, way in recorded.items() if self.typed[key] in search}
        self.overrides = {key: value for key, value in recorded.items() if key not in self.searched}
        drawn_by = self.overrides.get("sampler", self.profile.sampler or "grid")
        self.drawn_by = merging.check("sampler", drawn_by, SEARCH)
        searches = self.overrides.get("searches", SEARCH["searches"].default)
        self.searched_by_seed = merging.check("searches", searches, SEARCH) == "each_seed"
        self.seeds, self.trials = request.seeds or self.profile.seeds, request.trials or self._trials()
        self.teachers_named = Teachers(request.teacher or self.profile.teacher, self.tasks)
        self._cache = cache
        self._infos: dict[tuple[str, str, str], ModelInfo] = {}
        having = [source for task in tasks for source in loading.sources_of(task)]
        if request.data and having and not any(source.given for source in having):
            raise UserError(f"--data has no effect: none of the tasks ({', '.join(self.tasks)}) is read from it")
        for task in tasks if having else ():
            if not {task.metric} <= {*task.metrics} <= {*metric_names.ALL, *own_metric.names(task.name)}:
                which = f"{', '.join(task.metrics)}, of which {task.metric} stands in tables"
                raise UserError(f"metrics of task {task.name} are {which}; there are {', '.join(metric_names.ALL)}")
        source = request.data or self.teachers_named.data or loading.default(tasks)
        self.contents = Contents(source, request.corpus or self.profile.corpus, lenient)

    def _trials(self) -> int:
        """The settings that a cell tries where nobody says how many: the profile's number, or all that --search lists.

        Raises UserError where --search gives a range, of which one trial alone would be drawn.
        """
        usual, search = self.profile.trials, {**self.profile.search, **self.searched}
        if not self.searched:
            return usual
        lists = [values for values in search.values() if isinstance(values, (list, tuple))]
        if len(lists) == len(search):
            return min(max(usual, math.prod(map(len, lists))), MOST)
        if usual == 1:
            key = next(iter(self.searched))
            raise UserError(f"--search {self.typed[key]} draws from a range: --trials N says how often in each cell")
        return usual

    def info(self, task: Task) -> ModelInfo:
        """What the teacher is on a task, and emits there."""
        return self.examined(self.teachers_named.of(task), task)

    def examined(self, source: Any, task: Task) -> ModelInfo:
        """What any teacher is on a task, as an examination of its model found it; its own word where only shapes count.

        So too in a lenient plan where its weights cannot be read. Raises UserError for one that cannot be used.
        """
        from harness.planning import examined  # loads torch, which early refusals must not wait for

        key = (source.name, source.argument, task.name)
        self.contents.note(parts_of(source))
        for member in source.members:
            self.examined(member, task)
        if source.members:
            self._infos[key] = source.info(task)
        if key not in self._infos:
            info = described(registry.TEACHERS, source.name, "info", task, lambda: source.info(task))
            check_configured(source, info)
            content = self.contents.teacher(source) if self.procedure.trains else "unknown"
            if content != "unknown":
                masked, lenient = task.corpus or not self.procedure.tunes, self.contents.lenient
                info = examined.narrowed(info, source, task, masked, content, self._cache, lenient)
            self._infos[key] = info
        return self._infos[key]

    def teachers(self) -> int:
        """How many teachers a task has: one, or one for each seed of its cells. Raises UserError for another number."""
        key, declared = "teacher.seeds", TEACHER_TRAINING["seeds"]
        given = {key: declared.default, **self.profile.settings, **self.overrides}[key]
        number = int(merging.check(key, given, {key: declared}))
        if number not in (1, self.seeds):
            raise UserError(
                f"{key} must be 1, one teacher for all, or {self.seeds}, one for each seed of a cell, not {number}"
            )
        return number

    def metric(self, task: Task) -> str:
        """What epochs and settings are chosen by."""
        return self.study.shown(task)[0] if task.labelled else AGREEMENT

    def procedure_of(self, row: TableRow) -> Any:
        """The procedure that a row's cells are made by."""
        return registry.PROCEDURES.get(row.procedure) if row.procedure else self.procedure

    def students_of(self, row: TableRow) -> list[Variant]:
        """The students that a row has cells for."""
        asked = self.request.students
        names = asked or self.profile.students or self.study.students
        if row.student:
            names = [row.student] if not asked or row.student in asked else []
        return list({made.name: made for made in map(Variant.of, names)}.values())

    def recipe_of(self, student: Any, task: Task | None) -> Recipe:
        """How the student's family is usually trained, where the profile leaves it to that; otherwise nothing."""
        if student is None or not self.profile.families:
            return Recipe()
        info = self.info(task or get_task(self.tasks[0]))
        return ask(registry.STUDENTS, student.name, "recipe", Recipe, lambda: student.recipe(info))

    def sampler(self, space: Space) -> str:
        """What draws from a space, "" where that is what it has of itself: a grid is walked, TPE draws from ranges.

        Raises UserError for a grid of a range.
        """
        asked = "sampler" in self.overrides or self.profile.sampler
        if not (asked and space) or self.drawn_by == default_sampler(space):
            return ""
        if self.drawn_by == "grid":
            name = next(name for name, values in space.items() if not isinstance(values, list))
            raise UserError(
                f"sampler grid tries the values that a study lists, but {name} is searched over a range: use random "
                "or tpe"
            )
        return self.drawn_by

    def inits_of(self, row: TableRow, student: Variant) -> Sequence[str]:
        """The initialisations that a row has cells for; one that the row fixes may be given more exactly.

        Of several it is those that the student knows, or all if it knows none.
        """
        asked = self.request.inits
        if not row.init:
            given = asked or self.profile.inits or (self.recipe_of(student.plugin, None).start,)
            return [init for init in given if student.knows(init)] or given
        kind = row.init.partition(":")[0]
        same = [init for init in asked or () if init.partition(":")[0] == kind]
        # A start from another run of ours is no alternative to what the command line asks for.
        return same if same or (asked and not by_another_run(row.init)) else [row.init]

    def checkpoints(self) -> dict[str, str]:
        """Row -> the model that --checkpoints gives for it, a hub name or a folder; where only shapes count, all."""
        declared = {row.name: row.checkpoint for row in self.study.rows if row.checkpoint}
        if not self.procedure.trains:
            if self.request.checkpoints:
                raise UserError(f"--checkpoints has no effect: study {self.study.name} reads no weights")
            chosen = self.request.objectives
            return {name: model for name, model in declared.items() if not chosen or name in chosen}
        given: dict[str, str] = {}
        for word in self.request.checkpoints:
            name, equals, model = word.partition("=")
            row = name if equals or name in declared else Path(name).name
            if row in given or row in {r.name for r in self.study.rows} - set(declared):
                raise UserError(f"--checkpoints gives {row} to two rows: rename one, as in mine={model or name}")
            given[row] = model or declared.get(name, name)
        return given

    def rows(self, checkpoints: dict[str, str]) -> list[TableRow]:
        """Those of the study that are asked for, then what the command line adds."""
        if self.request.baselines and not self.procedure.trains:
            raise UserError(f"--baselines has no effect: study {self.study.name} reads no examples")
        if self.request.controls and not (self.procedure.trains and self.procedure.tunes):
            raise UserError(f"--controls has no effect: study {self.study.name} trains nothing on the labels")
        found = self._declared(checkpoints)
        more = (*(CONTROLS if self.request.controls else ()), *(BASELINES if self.request.baselines else ()))
        known = {row.name for row in found}
        return [*found, *(row for row in more if row.name not in known)]

    def _declared(self, checkpoints: dict[str, str]) -> list[TableRow]:
        declared = [
            replace(row, settings=combine.recorded(row.settings)) if row.settings else row  # type: ignore[type-var]
            for row in self.study.rows_of(self.request.profile)
        ]
        known = {row.name: row for row in declared if not row.checkpoint or row.name in checkpoints}
        known |= {name: CheckpointRow(name, name, model) for name, model in checkpoints.items() if name not in known}
        if not self.request.objectives:
            return list(known.values())
        rows: dict[str, TableRow] = {}
        asked_as: dict[str, str] = {}  # row, or the objective of one that is no study's -> the word that asked for it
        for asked in self.request.objectives:
            if asked in known:
                row = known[asked]
            else:
                trained = [r for r in known.values() if isinstance(r, Row)]
                plain = [r for r in trained if not (r.equal_epochs or r.settings or r.student or r.init or r.reference)]
                same = [r for r in plain if r.objective == _canonical(asked, known)]
                row = same[0] if same else Row(asked, combine.canonical(asked), asked)
            which = row.name if row.name in known else row.objective
            if asked_as.setdefault(which, asked) != asked:
                raise UserError(f"--objectives names {asked_as[which]} twice, the second time as {asked}: give it once")
            rows[row.name] = row
        return list(({name: known[name] for name in checkpoints} | rows).values())


def _canonical(asked: str, known: Any) -> str:
    try:
        return str(combine.canonical(asked))
    except UserError as error:
        terms = [term.rpartition("*")[2].strip() for term in asked.split("+")]
        names = registry.OBJECTIVES.names()
        wrong = next((term for term in terms if term not in names), "")
        if "unknown" not in str(error) or not wrong:
            raise
        valid = names if len(terms) > 1 else [*known, *names]
        here = wrong.isidentifier() and os.path.isfile(f"{wrong}.py")
        mine = f"; --plugin {f'{wrong}.py' if here else 'FILE'} loads one of your own"
        told = mine if here or not close(wrong, valid) else ""
        raise UserError(f"{unknown('objective', wrong, valid)}{told}") from error
