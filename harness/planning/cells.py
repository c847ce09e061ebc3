"""The cells of a study: what each trains or measures, what it waits for, and why some cannot exist."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness import combine, pairing, registry
from harness.answers import Faulty, ask, parts_of
from harness.code_versions import identified
from harness.contracts import Hyperparameter, TableRow, Task, Want
from harness.data.tasks import CORPUS, as_asked
from harness.errors import UserError
from harness.evaluation import masked_words
from harness.files import digest
from harness.hyperparameters import Bounds, Hyperparameters
from harness.planning import merging
from harness.planning.choices import Choice, Choices
from harness.planning.joint_runs import JointRuns
from harness.planning.planned import Cell, called, size_of
from harness.planning.prerequisites import Prerequisites, own_name
from harness.planning.request import ResolvedRequest, Variant
from harness.planning.space import Dimension, chooses
from harness.runs import MULTI_TASK, ONE_STAGE, PRETRAINED, BaseTeacher, CheckpointRun, Impossible, JointRun, Run, RunId
from harness.runs.settings import Settings


def refused_folds(run: Run, start: str) -> str:
    """Why such a run is not chosen by folds of its training data, or "". start: what its student starts from."""
    settings = run.settings
    if not run.by_folds or start == MULTI_TASK:
        return "protocol nested is of models that are trained on one task"
    if settings["pruner"] != "none":
        return "with protocol nested a trial is several trainings, which no pruner compares"
    if settings["augmentation"] != "none":
        return "with protocol nested texts made of the held-out examples would be trained on, so none are made"
    return "protocol nested needs labels" if settings["labels"] == "none" else ""


class Cells:
    """Collects the cells of a plan, which procedures add.

    wants: the teacher signals asked for, by task. used: the overrides that reached a cell. sources:
    `called` -> the teacher and argument of a checkpoint that is fine-tuned as it is.
    """

    def __init__(
        self,
        asked: ResolvedRequest,
        prerequisites: Prerequisites,
        tasks: Sequence[Task],
        checkpoints: Mapping[str, str],
    ):
        self.asked, self.prerequisites, self.checkpoints = asked, prerequisites, checkpoints
        self.tasks = {task.name: task for task in tasks}
        self.choices = Choices(asked)
        self.wants: dict[str, Want] = {}
        self.joint_runs = JointRuns(asked, prerequisites, self.choices, self.tasks, self.wants)
        self.found: list[Cell] = []
        self.inits: list[str] = []
        self.used: set[str] = set()
        self.sources: dict[str, list[str]] = {}
        self._taken: set[tuple[str, ...]] = set()

    def of_row(self, row: TableRow, task: Task) -> None:
        """Add the row's cells on a task: one for each student and initialisation that it leaves free."""
        if row.improves or (row.tasks and task.name not in row.tasks):
            return
        procedure = self.asked.procedure_of(row)
        if row.baseline:
            procedure.cell(self.choices.choose(row, None, "", task, procedure), task, self)
        elif not procedure.trains:
            for student in [None] if row.checkpoint else self.asked.students_of(row):
                procedure.cell(self.choices.choose(row, student, "", task, procedure), task, self)
        elif row.checkpoint:
            self._fine_tuned(row, task)
        elif row.teacher:
            procedure.teacher_cell(row, task, self)
        else:
            for student in self.asked.students_of(row):
                for init in self.asked.inits_of(row, student):
                    self._student(student, init, row, task)

    def _student(self, student: Variant, init: str, row: TableRow, task: Task) -> None:
        procedure = self.asked.procedure_of(row)
        known = student.knows(init) or not any(s.knows(init) for s in self.asked.students_of(row))
        choice = self.choices.choose(row, student, init if known else "", None if procedure.joint else task, procedure)
        if not known:  # but another student does
            choice.shown = choice.init = choice.by_content = init
            choice.refused = f"{student.name} cannot start from {init}, which is for other students"
        if (place := (choice.called, choice.by_content, row.name, task.name)) in self._taken:
            return  # two spellings of one initialisation
        self._taken.add(place)
        procedure.check_init(row, init, choice.kind)
        task = as_asked(task, choice.settings)
        if not task.labelled and (procedure.joint or choice.kind == MULTI_TASK):
            choice.refused = choice.refused or "the teacher of several tasks is refined on their labels"
        if not choice.refused:
            try:
                choice.describe(task)
                if procedure.trains and procedure.tunes:
                    choice.check_layers(task)
            except Faulty:
                raise
            except UserError as error:  # settings that are sound each by itself, but not together
                choice.refused = str(error)
        self.inits += [choice.shown] if choice.shown not in self.inits else []
        if choice.refused:
            self.refused(choice, task, choice.refused)
        else:
            procedure.cell(choice, task, self)

    def _fine_tuned(self, row: TableRow, task: Task) -> None:
        """A cell of a checkpoint that is fine-tuned as it is."""
        source = self.model(self.checkpoints[row.name])
        who = BaseTeacher(name=source.name, content=self.asked.contents.teacher(source))
        self.sources[called(who)] = [source.name, source.argument]
        choice = self.choices.choose(row, None, "", task, registry.PROCEDURES.get(ONE_STAGE))
        labelled = as_asked(task, choice.settings).labelled
        run = CheckpointRun(
            task=task.name,
            data=self.asked.contents.data(task),
            teacher=who,
            metric=self.asked.metric(task),
            settings=choice.settings,
        )
        refused = "" if labelled else f"{row.name} is fine-tuned on labels, and is to do without"
        if self.add(choice, task, run, refused, size=size_of(self.asked.examined(source, task))):
            self.use(choice, task, set())

    # ------------------------------------------------------------ what procedures ask

    def model(self, checkpoint: str) -> Any:
        """The teacher plugin of a model that a row names."""
        found = registry.TEACHERS.get(registry.HUB)(checkpoint)
        self.asked.contents.note(parts_of(found))
        return found

    def own_of(self, choice: Choice) -> Hyperparameters:
        """The settings that a teacher's row gives."""
        return {name: choice.settings[name] for name in choice.row.settings if name in choice.settings}

    def refused_analysis(self, task: Task) -> str:
        return masked_words.refusal(task) if self.asked.study.analysis else ""

    def starts_of(self, choice: Choice, on_corpus: str, refused: str) -> tuple[str, list[RunId], list[RunId], str]:
        """(the initialisation, the runs that it waits for, by seed the joint runs it is, why there can be none).

        on_corpus: the objective of the distillation that the student comes from, or "".
        """
        start = choice.by_content
        if on_corpus and not refused:
            run, refused = self._distilled(choice, on_corpus)
            return f"{PRETRAINED}:{run}", [run] if run else [], [], refused
        if choice.kind == MULTI_TASK and not refused:
            starts, refused = self._joint_starts(choice)
            return f"{PRETRAINED}:{starts[0]}" if starts else start, starts, starts, refused
        return start, [], [], refused

    def _distilled(self, choice: Choice, objective: str) -> tuple[RunId, str]:
        """(the run that distils the choice's student on the corpus, why there can be none)."""
        if refused := self.asked.teachers_named.refused([CORPUS]):
            return "", refused
        student, teacher = choice.student, self.asked.info(CORPUS)
        described = choice.describe(CORPUS)
        refused = pairing.refusal(objective, "", described, teacher, CORPUS)
        idle = [] if combine.compares_layers(objective) else ["transferred_layers"]
        idle += [] if combine.masks(objective) else ["stored_top_k"]
        settings = self.prerequisites.corpus_settings(choice.row.settings, idle)
        if settings["text"] == "masked" and described.tokenizer != teacher.tokenizer:
            refused = refused or (
                f"masked text is that of the teacher's tokenizer, but {student.name} has a vocabulary of its own: "
                "general.text=sentences is read by each with its own"
            )
        elif settings["text"] == "sentences" and combine.masks(objective):
            refused = refused or f"{objective} predicts masked tokens, but general.text is sentences"
        if refused:
            return "", refused
        start = choice.by_content
        if choice.kind == PRETRAINED:  # what the distillation itself starts from
            begun = self.choices.before_distillation(choice)
            if begun.refused:
                return "", begun.refused
            start = begun.by_content
        names = {f"{student.name}.{n}" for n in set(student.hyperparameters) - student.head_settings}
        settings.update({name: choice.settings[name] for name in sorted(names | combine.settings_of(objective))})
        settings.update(self.prerequisites.corpus_own(student, choice.row.settings))
        return self.prerequisites.corpus_distillation(student.name, start, objective, settings), ""

    def _joint_starts(self, choice: Choice) -> tuple[list[RunId], str]:
        """(the joint runs, by seed, that the choice's student starts from, why there can be none)."""
        settings = self.prerequisites.joint_settings(choice.row.settings, choice.settings)
        run, refused = self.joint_runs.run(choice, self.asked.study.general, settings)
        if run is None:
            return [], refused
        run, more = self.prerequisites.augmented(run)
        after = [run.teacher, *more]
        return [self.prerequisites.add(replace(run, seed=seed), after) for seed in range(self.asked.seeds)], ""

    def teachers_of(self, task: Task, settings: Settings) -> list[RunId]:
        """The teachers' runs, by seed, that a cell with these settings imitates, with the same share of the data."""
        self.prerequisites.used.add("teacher.seeds")
        return self.prerequisites.of_task(task, {name: settings[name] for name in ("train_fraction", "labels")})

    def settings_on_task(self, choice: Choice, objective: str, on_corpus: str) -> Settings:
        """The settings that act on the task: those of an objective on the corpus do not."""
        only = self.only_general(objective) | (combine.settings_of(on_corpus) - combine.settings_of(objective))
        return Settings({name: value for name, value in choice.settings.items() if name not in only})

    def only_general(self, objective: str) -> set[str]:
        """The settings of the usual corpus distillation that the task's own objective has not."""
        return combine.settings_of(self.asked.study.general) - combine.settings_of(objective)

    # ------------------------------------------------------------ what they add

    def add(self, choice: Choice, task: Task, run: Run, refused: str = "", **more: Any) -> bool:
        """Add a cell, and say whether it can exist.

        more: fields of `Cell`, layers as a LayerMap; acting: the objectives' settings that act in it.
        """
        run = identified(run)
        if run.trains and run.settings.get("protocol") == "nested":
            refused = refused or refused_folds(run, choice.kind)
        space = self._space(choice, task, more.pop("acting", frozenset())) if run.trains else {}
        sampler, trials = self.asked.sampler(space), more.pop("trials", self.asked.trials)
        seeds = more.pop("seeds", self.asked.seeds)
        searches = seeds > 1 and chooses(space, trials, sampler)
        if not refused:
            self.used |= self.prerequisites.used | ({"sampler"} if space else set())
            self.used |= {"searches"} if searches else set()
        self.prerequisites.used = set()  # what only a refused cell would start from is never made
        parts = [run.identity(self.prerequisites.defaults), space, *([choice.row.name] if refused else [])]
        lengthened = choice.lengthened and "epochs" in space
        parts += ["lengthened"] if lengthened else []
        search = digest([*parts, sampler] if sampler else parts)[:16]
        joint = isinstance(run, JointRun)
        after, layers = more.pop("after", ()), more.pop("layers", None)
        self.found.append(
            Cell(
                id=digest([search, task.name])[:16] if joint else search,  # cells of one joint run propose the same
                search=search,
                row=choice.row.name,
                student=choice.called,
                init=choice.shown,
                task=task.name,
                metric=self.asked.metric(task),
                refused=refused,
                run=run,
                space=space,
                after=list(dict.fromkeys(after)),
                layers=[list(pair) for pair in layers.pairs] if layers else [],
                sampler=sampler,
                lengthened=lengthened,
                searched_by_seed=self.asked.searched_by_seed and searches,
                trials=trials,
                seeds=seeds,
                **more,
            )
        )
        return not refused

    def add_teacher(self, choice: Choice, task: Task, run: Run, after: Sequence[RunId], refused: str) -> None:
        """Add a cell of the teacher itself."""
        if self.add(choice, task, run, refused, after=after, size=size_of(self.asked.info(task))):
            self.use(choice, task, set())

    def refused(self, choice: Choice, task: Task, reason: str) -> None:
        """Add a cell that cannot exist."""
        self.add(choice, task, Impossible(metric=self.asked.metric(task), settings=choice.settings), reason)

    def first_tried(self, choice: Choice, task: Task) -> Hyperparameters:
        """The values, of the settings that a search of the choice tries, that are declared first."""
        search = self._search(choice, task)
        tried = self._space(choice, task)
        first = {key: v.default if isinstance(v := search[key], Hyperparameter) else v[0] for key in tried}
        return {key: merging.check(key, value, choice.declared) for key, value in first.items()}

    def _search(self, choice: Choice, task: Task, acting: Collection[str] = ()) -> merging.Search:
        """What the profile searches, or where it leaves it to them what family and objectives declare.

        "student.NAME" is the student's own. Without what does nothing on the task.
        """
        search: dict[str, Any] = {}
        if self.asked.profile.families:
            search = {**choice.recipe.search}
            search |= merging.searched({key: h for key, h in choice.declared.items() if key in acting})
        search |= {**self.asked.profile.search, **self.asked.searched}
        space = {own_name(choice.student, key): values for key, values in search.items()}
        for key in [key for key, values in space.items() if isinstance(values, Bounds)]:
            space |= {key: merging.between(key, space[key], choice.declared[key])} if key in choice.declared else {}
        return {key: v for key, v in space.items() if task.pair or not key.endswith(".pair_encoding")}

    def _space(self, choice: Choice, task: Task, acting: Collection[str] = ()) -> dict[str, Dimension]:
        """What a cell's search tries, as a plan holds it, without what is fixed."""
        fixed = {own_name(choice.student, key) for key in choice.row.settings} | set(choice.fixed)
        fixed |= set(choice.variant.settings) if choice.variant else set()
        space = merging.space_of(self._search(choice, task, acting), choice.declared, fixed)
        return merging.widened(space, choice.declared) if self.asked.drawn_by == "random" else space

    def use(self, choice: Choice, task: Task | None, idle: set[str]) -> None:
        """Note which overrides had an effect; those of `idle` had none."""
        idle = idle | merging.unused(choice.settings)
        if choice.student:
            student = choice.student
            nothing = ask(registry.STUDENTS, student.name, "idle", Collection, lambda: student.idle(choice.own))
            idle |= {f"{choice.name}.{name}" for name in nothing}
        if task and not task.pair:
            idle.add(own_name(choice.student, "student.pair_encoding"))
        space = self._space(choice, task) if task else {}
        idle |= merging.idle_pruner(choice.settings, space, self.asked.trials)
        effective = set(choice.fixed) - idle
        self.used |= {key for key in self.asked.overrides if own_name(choice.student, key) in effective}
        self.used |= {key for key in self.asked.searched if own_name(choice.student, key) in space.keys() - idle}
