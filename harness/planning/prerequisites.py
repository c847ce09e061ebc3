"""The runs that others start from: pre-training, teachers and corpus distillation, each made once."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from harness.answers import Faulty, answered, ask, pretraining_of
from harness.code_versions import identified
from harness.contracts import Hyperparameter, Task
from harness.data import own
from harness.data.tasks import CORPUS, as_asked, get_task
from harness.errors import UserError, counted
from harness.hyperparameters import Hyperparameters, Value
from harness.planning import merging
from harness.planning.declarations import OWNERS
from harness.planning.planned import First
from harness.planning.request import ResolvedRequest
from harness.registry import TEACHERS
from harness.runs import (
    BaseTeacher,
    CorpusDistillationRun,
    JoinedTeachersRun,
    JointStudentRun,
    JointTeacherRun,
    MaskedTeacherRun,
    PretrainingRun,
    Run,
    RunId,
    StudentRun,
    Teacher,
    TeacherRun,
)
from harness.runs.settings import (
    ADAM,
    GENERAL_TRAINING,
    JOINT_TRAINING,
    MASKED,
    MASKED_LABELS,
    ON_MASKED_TEXT,
    SHARED,
    TRAINING,
    Settings,
    refused_rate,
)

Augmented = TypeVar("Augmented", StudentRun, JointStudentRun)

# Settings of the distillation that the training of a teacher's masked-language-model head does not share.
OF_STUDENT = ("epochs", "batch_size", "learning_rate", "steps", *ADAM, "transferred_layers", "stored_top_k")
ELSEWHERE = tuple(f"{owner}." for owner in OWNERS)  # begin settings of the runs that a cell starts from


class Prerequisites:
    """The runs that must exist before those of a cell, in `first`.

    used: the settings, by the names that overrides give them, that act in what was added since the last cell.
    teachers: how many of a task there are, one for each seed of its cells where it is not 1. teacher_of: the teacher
    of a task, or of a corpus.
    """

    def __init__(self, asked: ResolvedRequest, defaults: Hyperparameters):
        self.teacher_of, self.teachers = asked.teachers_named.of, asked.teachers()
        self.study, self.metric = asked.study, asked.metric
        self.profile, self.overrides, self.contents = asked.profile, asked.overrides, asked.contents
        self.defaults = defaults
        self.first: dict[RunId, First] = {}
        self.used: set[str] = set()
        self.notices: dict[str, None] = {}

    def of_task(self, task: Task, own: Hyperparameters | None = None) -> list[RunId]:
        """The runs, by seed, that fine-tune the teacher for a task; or one that scores it where its weights answer it.

        own: settings that a cell shares with its teacher, in place of the profile's. Raises UserError where there can
        be no more than one.
        """
        made = [self.teacher_run(task, own or {}, seed) for seed in range(self.teachers)]
        if self.teachers > 1 and made[0][0] == made[1][0] and made[0][0].evaluate_only:
            raise UserError(
                f"setting 'teacher.seeds' has no effect on {task.name}: the teacher's weights answer it as they are"
            )
        return [self.add(replace(run, seed=seed), after) for seed, (run, after) in enumerate(made)]

    def teacher_run(self, task: Task, own: Hyperparameters, seed: int = 0) -> tuple[TeacherRun, list[RunId]]:
        """(`of_task`'s run without its seed, the runs that it waits for). seed: of an ensemble's members."""
        source = self.teacher_of(task)
        if not source.members:
            return self._of(source, task, own)
        if refused := self.refused_answers(as_asked(task, Settings(self._shared(task, own)))):
            raise UserError(refused)
        made = [self._of(member, task, own) for member in source.members]
        runs = [self.add(replace(run, seed=0 if run.evaluate_only else seed), after) for run, after in made]
        first = made[0][0]
        fields: dict[str, Any] = {"task": first.task, "metric": first.metric, "data": first.data, "evaluate_only": True}
        base = BaseTeacher(name=source.name, content=self.contents.teacher(source))
        settings = self._teaching(self._shared(task, own), {}, True)
        return JoinedTeachersRun(**fields, teacher=base, settings=settings, members=runs), runs

    def _shared(self, task: Task, own: Hyperparameters) -> dict[str, Any]:
        """What a task's teacher and its students have in common, and what is set of teachers."""
        return {**self.profile.settings, **self.profile.task_settings.get(task.name, {}), **own, **self.overrides}

    def _of(self, source: Any, task: Task, own: Hyperparameters) -> tuple[TeacherRun, list[RunId]]:
        """`teacher_run` of a single teacher."""
        base, after = self._base(source)
        shared = self._shared(task, own)
        task = as_asked(task, Settings(shared))
        if refused := self._refused(source, task):
            raise UserError(refused)
        answers = self._answers(source, task)
        if not answers:
            self._tell_unused_head(source, task)
        run = TeacherRun(
            task=task.name,
            teacher=base,
            metric=self.metric(task),
            data=self.contents.data(task),
            settings=self._teaching(shared, _recipe(source, task), answers),
            evaluate_only=answers,
        )
        return run, after

    def refused_answers(self, task: Task) -> str:
        """Why the teacher's answers cannot stand for the labels of a task that is to be trained without, or ""."""
        return self._refused(self.teacher_of(task), task)

    def _refused(self, source: Any, task: Task) -> str:
        if task.labelled or self._answers(source, task):
            return ""
        who = source.argument or source.name
        return (
            f"without labels the teacher's answers stand for them, but {who} has "
            f"no head of {counted(task.outputs, 'output')} that answers {task.name}: give a model that "
            "was fine-tuned for it, by folder or hub name"
        )

    def _answers(self, source: Any, task: Task) -> bool:
        return self._ask(lambda: answered(source, task), otherwise=not task.labelled)

    def _tell_unused_head(self, source: Any, task: Task) -> None:
        """Note that a head is replaced which has the task's classes, whatever it calls them: it may be meant."""
        if not (task.labelled and task.classification):
            return
        unnamed = replace(task, labelled=False, labels=tuple(f"LABEL_{n}" for n in range(len(task.labels))))
        if self._ask(lambda: answered(source, unnamed), otherwise=False):
            config = getattr(source, "config", None)
            named = tuple(str(name) for _, name in sorted(dict(getattr(config, "id2label", None) or {}).items()))
            where = f'where its config.json has "finetuning_task": "{task.name}"'
            turned = task.name in own.KNOWN and named != task.labels and sorted(named) == sorted(task.labels)
            if turned and not any("," in name for name in named):
                order = shlex.quote(f"{task.name}.classes={','.join(named)}")
                where += f" and its own order of the classes is given, --set {order}, it answers as it is"
            else:
                where += f", and id2label the classes {', '.join(task.labels)} in this order, it answers as it is"
            self.notices[
                f"the head of teacher {source.argument or source.name} is not used for {task.name}, but a fresh one is "
                f"fine-tuned; {where}; do not reorder id2label by hand: it says which class each output is"
            ] = None

    def joint_teacher_run(
        self, tasks: Mapping[str, Task], own: Hyperparameters
    ) -> tuple[JointTeacherRun, list[RunId]]:
        """(the run, without its seed, that refines the teacher on several tasks together, the runs that it waits for).

        own: settings that a cell shares with its teacher, in place of the profile's. Its recipe is that of the task
        that asks for most epochs.
        """
        if self.teachers > 1:
            raise UserError(
                "setting 'teacher.seeds' applies to a teacher of one task: a teacher of several is trained once"
            )
        source = self.teacher_of(tasks[min(tasks)])
        base, after = self._base(source)
        recipes = [_recipe(source, tasks[name]) for name in sorted(tasks)]
        recipe = max(recipes, key=lambda found: found.get("epochs", 0))
        run = JointTeacherRun(
            tasks={name: self.contents.data(tasks[name]) for name in sorted(tasks)},
            teacher=base,
            metrics={name: self.study.shown(tasks[name])[0] for name in sorted(tasks)},
            settings=self._teaching({**self.profile.settings, **own, **self.overrides}, recipe, False),
        )
        return run, after

    def joint_settings(self, of_row: Mapping[str, object], of_cell: Settings) -> Settings:
        """The settings of a joint distillation: those of "multi_task.NAME" in profile, row and overrides.

        Of the cell that starts from it, it takes what a teacher does too, and the settings of student and objective.
        """
        settings = {name: h.default for name, h in TRAINING.items()} | {name: of_cell[name] for name in SHARED}
        for layer in self._given("multi_task", of_row):
            settings |= {key: merging.check(key, value, JOINT_TRAINING) for key, value in layer.items()}
        self.used |= {f"multi_task.{name}" for name in JOINT_TRAINING.keys() - merging.unused(settings)}
        settings |= {name: TRAINING[name].default for name in merging.idle(settings)}
        return Settings(settings | {name: value for name, value in of_cell.items() if "." in name})

    def _teaching(self, shared: Mapping[str, object], recipe: Mapping[str, object], answers: bool) -> Settings:
        """The settings of fine-tuning the teacher; those called "teacher.NAME" have no effect where it answers."""
        settings: dict[str, Any] = {name: h.default for name, h in TRAINING.items()}
        own = {} if answers else Settings(shared).of("teacher")
        own.pop("seeds", None)
        given = {name: shared[name] for name in SHARED if shared.get(name) is not None} | dict(recipe) | own
        settings |= {key: merging.check(key, value, TRAINING) for key, value in given.items()}
        self.used |= {f"teacher.{name}" for name in own.keys() - merging.unused(settings)}
        return Settings({**settings, **{name: TRAINING[name].default for name in merging.idle(settings)}})

    def augmented(self, run: Augmented) -> tuple[Augmented, list[RunId]]:
        """(the run with its augmentation as one setting, vectors and all, by content; the runs it waits for)."""
        from harness.jobs.augmented import check  # loads torch, which early refusals must not wait for

        settings = Settings(run.settings)
        vectors = settings.pop("augmentation_vectors")
        if settings["augmentation"] == MASKED and vectors != "none":
            settings["augmentation"] = f"{MASKED}:{vectors}"
        check(settings["augmentation"])
        if ":" in settings["augmentation"]:
            settings["augmentation"] = self.contents.by_content(settings["augmentation"])
            self.contents.check_vectors(settings["augmentation"], run.data_of)
        if not settings["augmentation"].startswith(MASKED):
            return replace(run, settings=settings), []
        base, after = self.masked(get_task(min(run.data_of)))
        return replace(run, settings=settings, masked_teacher=base), after

    def masked(self, task: Task) -> tuple[Teacher, list[RunId]]:
        """The teacher as a masked language model, as specifications name it, and the runs that make it.

        Where its weights hold no head for that, it is first trained on the corpus.
        """
        source = self.teacher_of(task)
        base, after = self._base(source)
        if self._ask(source.predicts_masked, otherwise=True):
            return base, after
        given = self.corpus_settings({}, idle=OF_STUDENT) | _recipe(source, CORPUS)
        settings = {name: given[name] for name in GENERAL_TRAINING}
        settings["micro_batch"] = 0 if settings["micro_batch"] >= settings["batch_size"] else settings["micro_batch"]
        head = MaskedTeacherRun(
            teacher=base,
            corpus=self.contents.corpus(),
            objective=MASKED_LABELS,
            settings=Settings({**settings, "stored_top_k": 0, "text": "masked", "fraction": 1.0}),
            seed=0,
        )
        run = self.add(head, after)
        return run, [run]

    def corpus_distillation(self, student: str, init: str, objective: str, settings: Settings) -> RunId:
        """The run that distils the teacher into a student on the corpus. settings: of student and objective, too."""
        masked = settings["text"] == "masked"
        teacher, after = self.masked(CORPUS) if masked else self.base_teacher(CORPUS)
        vocabulary = self.teacher_of(CORPUS).info(CORPUS).vocabulary
        if settings["stored_top_k"] > vocabulary:
            raise UserError(
                f"general.stored_top_k must be at most {vocabulary}, the teacher's vocabulary, "
                f"not {settings['stored_top_k']}"
            )
        run = CorpusDistillationRun(
            corpus=self.contents.corpus(),
            teacher=teacher,
            student=student,
            init=init,
            objective=objective,
            settings=settings,
            seed=0,
        )
        return self.add(run, after)

    def corpus_settings(self, of_row: Mapping[str, object], idle: Sequence[str]) -> Settings:
        """The settings of corpus distillation: those of "general.NAME" in profile, row and overrides.

        What has no effect beside the others, or is `idle`, has its default: it makes no other run.
        """
        settings = {name: h.default for name, h in GENERAL_TRAINING.items()}
        for given in self._given("general", of_row):
            plain = {key: value for key, value in given.items() if "." not in key}  # the rest: `corpus_own`
            settings |= {key: merging.check(key, value, GENERAL_TRAINING) for key, value in plain.items()}
        nothing = set(idle) | ({"epochs"} if settings["steps"] else set())
        nothing |= ADAM if settings["optimiser"] == "adadelta" else set()
        nothing |= {"micro_batch"} if settings["micro_batch"] >= settings["batch_size"] else set()
        settings |= {name: GENERAL_TRAINING[name].default for name in nothing}
        nothing |= set() if settings["text"] == "masked" else ON_MASKED_TEXT
        nothing |= merging.unused(settings)
        self.used |= {f"general.{name}" for name in settings.keys() - nothing}
        return Settings(settings)

    def corpus_own(self, student: Any, of_row: Mapping[str, object]) -> Hyperparameters:
        """The student's own settings that are others in its distillation: those of "general.student.NAME"."""
        known = apart(student)
        found: dict[str, Value] = {}
        for given in self._given("general", of_row):
            own = {own_name(student, key): value for key, value in given.items()}
            found |= {key: merging.check(key, value, known) for key, value in own.items() if key in known}
        asked = Settings(self.overrides).of("general")
        self.used |= {f"general.{key}" for key in asked if own_name(student, key) in known}
        return found

    def _given(self, owner: str, of_row: Mapping[str, object]) -> list[Mapping[str, object]]:
        """The settings of "OWNER.NAME" in profile, row and overrides, by name."""
        return [Settings(layer).of(owner) for layer in (self.profile.settings, of_row, self.overrides)]

    def base_teacher(self, task: Task) -> tuple[BaseTeacher, list[RunId]]:
        """The base weights of a task's teacher, and the run that pre-trains them if there is one."""
        return self._base(self.teacher_of(task))

    def _base(self, source: Any) -> tuple[BaseTeacher, list[RunId]]:
        base = BaseTeacher(name=source.name, content=self.contents.teacher(source))
        pretraining = pretraining_of(source)
        if pretraining is None:
            return base, []
        run = self.add(PretrainingRun(teacher=base, settings=Settings(pretraining), seed=0), [])
        return replace(base, pretrained=run), [run]

    def _ask(self, question: Callable[[], bool], otherwise: bool) -> bool:
        """The teacher's answer; `otherwise` in a lenient plan where it cannot be read."""
        try:
            return question()
        except Faulty:
            raise
        except UserError:
            if not self.contents.lenient:
                raise
            return otherwise

    def add(self, run: Run, after: Sequence[RunId]) -> RunId:
        """Take up a run that others start from, and those that it waits for."""
        if refused := refused_rate(run.settings):
            raise UserError(f"{refused} (of {run.kind})")
        run = identified(run)
        name = run.identity(self.defaults)
        self.first[name] = First(run, after)
        return name


def own_name(student: Any, key: str) -> str:
    """A setting of "student.NAME" as the student's own; any other as it is."""
    return f"{student.name}.{key.removeprefix('student.')}" if student and key.startswith("student.") else key


def apart(student: Any) -> dict[str, Hyperparameter]:
    """Those of a student's settings that may be others in its distillation on a corpus than after it.

    Rates of dropout: any other decides which weights there are, or what they mean.
    """
    return {
        f"{student.name}.{name}": h
        for name, h in student.hyperparameters.items()
        if name.endswith("dropout") and name not in student.head_settings
    }


def _recipe(source: Any, task: Task) -> dict[str, Any]:
    """The settings that a teacher recommends for its training on a task."""
    return dict(ask(TEACHERS, source.name, "recipe", Mapping, lambda: source.recipe(task)))
