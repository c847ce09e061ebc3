"""What a run is: one type a kind, whose JSON is what its identity is a hash of. Free of torch.

A kind says once what it depends on, what people call it, what may start from it, and how it is performed. A plugin's
procedure may bring kinds of its own: a subclass of `Run` with a `kind` is known as soon as its file is loaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from harness.errors import UserError, near
from harness.files import digest

if TYPE_CHECKING:
    from harness.training.work import Performed, Work

RunId = str  # 16 hexadecimal digits
PRETRAINED = "pretrained"  # the initialisation by general distillation, or by the run named after a colon
ONE_STAGE = "one_stage"  # the procedure of what is trained by one objective
MULTI_TASK = "multi_task"  # the initialisation by a student distilled on several tasks
JSON = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class BaseTeacher:
    """A teacher as it was before any task. content: a hash of its weights; pretrained: the run that trained them."""

    name: str
    content: str
    pretrained: RunId | None = None


Teacher = BaseTeacher | RunId  # base weights, or those that a run left


def base_weights(teacher: Teacher) -> RunId | None:
    """The run whose weights a teacher's model is loaded from; None where they are the teacher's own."""
    return teacher if isinstance(teacher, str) else teacher.pretrained


@dataclass(frozen=True, kw_only=True)
class Run:
    """A training or a measurement. What a field holds None or False of is not part of what the run is.

    settings: all of them, those of plugins under "student.NAME" or "objective.NAME". seed: None of a cell, whose runs
    differ in it. plugins: code of plugins outside the distribution, see `code_versions.outside`.
    """

    kind: ClassVar[str] = ""
    known: ClassVar[dict[str, type[Run]]] = {}  # kind -> its type
    role: ClassVar[str] = ""  # what those call it that start from it
    scored: ClassVar[bool] = False  # it stands in a table: its record tells metrics, and what it was selected by
    predicts: ClassVar[bool] = False  # it answers a task, so that its predictions can be submitted
    starts_students: ClassVar[bool] = False  # a student may start from the weights that it leaves
    shared_out: ClassVar[bool] = False  # several processes may train it together
    trains: ClassVar[bool] = True  # otherwise it measures
    takes_all: ClassVar[bool] = False  # it reads every training example, whatever limits its students

    settings: JSON
    seed: int | None = None
    plugins: Mapping[str, str] | None = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        if "kind" in vars(cls):
            Run.known[cls.kind] = cls

    @classmethod
    def read(cls, specification: JSON) -> Run:
        """The run that `specification` told. Raises UserError for a kind that nothing loaded knows."""
        kind = specification.get("kind", "")
        if kind not in cls.known:
            raise UserError(f"unknown kind of run {kind!r}: {near(kind, cls.known)}; name its file with --plugin")
        given = {name: _typed(name, value) for name, value in specification.items() if name != "kind"}
        return cls.known[kind](**given)

    @classmethod
    def kind_of(cls, specification: JSON) -> type[Run]:
        """The kind of run that `specification` tells; `Run` itself where nothing loaded knows it."""
        return cls.known.get(specification.get("kind", ""), Run)

    def specification(self) -> dict[str, Any]:
        """As JSON: everything that decides what the run is, and nothing else."""
        told = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        found = {name: as_json(value) for name, value in told.items() if value is not None and value is not False}
        return {"kind": self.kind, **found} if self.kind else found

    def identity(self, defaults: JSON) -> RunId:
        """The specification's hash, its settings reduced to differences from defaults.

        A setting that is added later with a default thus changes no earlier identity.
        """
        settings = {k: v for k, v in self.settings.items() if k not in defaults or v != defaults[k]}
        return digest({**self.specification(), "settings": settings})[:16]

    @property
    def title(self) -> str:
        """What the run is, for people."""
        return self.kind

    @property
    def data_of(self) -> Mapping[str, str]:
        """The tasks whose examples it reads, with their content."""
        return {}

    @property
    def learns_from(self) -> Teacher | None:
        """Whom it imitates or fine-tunes, if anybody."""
        return None

    @property
    def replaces_words(self) -> Teacher | None:
        """The masked language model that its texts are augmented by."""
        return None

    @property
    def starts_from(self) -> RunId | None:
        """The run whose student it starts from."""
        return None

    @property
    def depends_on(self) -> tuple[RunId, ...]:
        """The runs whose weights it reads."""
        teachers = [base_weights(who) for who in (self.learns_from, self.replaces_words) if who is not None]
        return tuple(dict.fromkeys(run for run in (*teachers, self.starts_from) if run))

    @property
    def student_name(self) -> str:
        """The student that it trains or measures, or ""."""
        return ""

    @property
    def by_procedure(self) -> str:
        """The procedure that decides its stages, or ""."""
        return ""

    def expressions(self) -> Sequence[str]:
        """The objectives that it trains by, sums as they are written."""
        return ()

    @property
    def curves_before(self) -> Sequence[Sequence[float]]:
        """The selection scores, epoch by epoch, of the trials that a pruner compares it with."""
        return ()

    def perform(self, work: Work) -> Performed:
        raise TypeError(f"a run of kind {self.kind!r} cannot be performed")


@dataclass(frozen=True, kw_only=True)
class Impossible(Run):
    """What stands in the place of the runs of a cell that cannot exist."""

    kind: ClassVar[str] = ""

    metric: str


# ------------------------------------------------------------ of one task


@dataclass(frozen=True, kw_only=True)
class TaskRun(Run):
    """A run on one task. data: a hash of its examples; metric: what epochs and settings are chosen by.

    analysis: what is recorded beyond scores; test: task -> a hash of the test splits that it predicts too.
    """

    scored: ClassVar[bool] = True
    predicts: ClassVar[bool] = True

    task: str
    data: str
    metric: str
    analysis: str | None = None
    test: Mapping[str, str] | None = None
    before: Sequence[Sequence[float]] | None = None
    pair_encoding: str | None = None  # where it is none of the student's settings

    @property
    def data_of(self) -> Mapping[str, str]:
        return {self.task: self.data}

    @property
    def curves_before(self) -> Sequence[Sequence[float]]:
        return self.before or ()


@dataclass(frozen=True, kw_only=True)
class TeacherRun(TaskRun):
    """The teacher, fine-tuned on the labels; with `evaluate_only` its weights answer the task as they are."""

    kind: ClassVar[str] = "teacher"
    role: ClassVar[str] = "its teacher"
    takes_all: ClassVar[bool] = True

    teacher: BaseTeacher
    evaluate_only: bool = False

    @property
    def title(self) -> str:
        return f"teacher {self.teacher.name} on {self.task}"

    @property
    def learns_from(self) -> Teacher:
        return self.teacher

    def expressions(self) -> Sequence[str]:
        from harness.training.settings import LABELS

        return (LABELS,)

    def perform(self, work: Work) -> Performed:
        from harness.training.labelled import fine_tune

        return fine_tune(self, work)


@dataclass(frozen=True, kw_only=True)
class CheckpointRun(TaskRun):
    """Another model than the study's teacher, fine-tuned on the labels as it is: a row of the table."""

    kind: ClassVar[str] = "checkpoint"

    teacher: BaseTeacher

    @property
    def title(self) -> str:
        return f"checkpoint {self.teacher.name} on {self.task}"

    @property
    def learns_from(self) -> Teacher:
        return self.teacher

    def expressions(self) -> Sequence[str]:
        from harness.training.settings import LABELS

        return (LABELS,)

    def perform(self, work: Work) -> Performed:
        from harness.training.labelled import fine_tune

        return fine_tune(self, work)


@dataclass(frozen=True, kw_only=True)
class StudentRun(TaskRun):
    """A student, trained on a task by an objective in the stages of a procedure.

    init: as the student spells it, a file by its content, or "pretrained:RUN". teacher: base weights where the student
    has learnt from it before, and now learns from labels alone.
    """

    kind: ClassVar[str] = "student"

    teacher: Teacher
    student: str
    init: str
    objective: str
    procedure: str
    masked_teacher: Teacher | None = None

    @property
    def title(self) -> str:
        return f"{self.objective} {self.init} {self.task}"

    @property
    def learns_from(self) -> Teacher:
        return self.teacher

    @property
    def replaces_words(self) -> Teacher | None:
        return self.masked_teacher

    @property
    def starts_from(self) -> RunId | None:
        return run_of(self.init)

    @property
    def student_name(self) -> str:
        return self.student

    @property
    def by_procedure(self) -> str:
        return self.procedure

    def expressions(self) -> Sequence[str]:
        from harness.registry import PROCEDURES

        return PROCEDURES.get(self.procedure).objectives(self.objective)

    def perform(self, work: Work) -> Performed:
        from harness.training.labelled import distil

        return distil(self, work)


@dataclass(frozen=True, kw_only=True)
class UntunedRun(TaskRun):
    """Sentence vectors that no label of the task has tuned: a student's, or (student "") the teacher's own."""

    kind: ClassVar[str] = "untuned"

    teacher: BaseTeacher
    student: str
    init: str
    objective: str

    @property
    def title(self) -> str:
        if self.student:
            return f"untuned {self.student} {self.objective} {self.task}"
        return f"untuned teacher {self.teacher.name} on {self.task}"

    @property
    def learns_from(self) -> Teacher:
        return self.teacher

    @property
    def starts_from(self) -> RunId | None:
        return run_of(self.init)

    @property
    def student_name(self) -> str:
        return self.student

    def expressions(self) -> Sequence[str]:
        return (self.objective,) if self.objective else ()

    def perform(self, work: Work) -> Performed:
        from harness.training.untuned import untuned

        return untuned(self, work)


# ------------------------------------------------------------ of several tasks


@dataclass(frozen=True, kw_only=True)
class JointRun(Run):
    """One model trained on several tasks together. tasks: each with a hash of its examples; metrics: each with its."""

    scored: ClassVar[bool] = True
    predicts: ClassVar[bool] = True

    tasks: Mapping[str, str]
    metrics: Mapping[str, str]
    test: Mapping[str, str] | None = None
    before: Sequence[Sequence[float]] | None = None

    @property
    def data_of(self) -> Mapping[str, str]:
        return self.tasks

    @property
    def curves_before(self) -> Sequence[Sequence[float]]:
        return self.before or ()

    def part(self, task: str) -> TaskRun:
        """What the run is on one of its tasks."""
        raise NotImplementedError

    def parts(self) -> dict[str, Any]:
        """`part` of every task, in order of name: the order in which they are listed is none."""
        return {task: self.part(task) for task in sorted(self.tasks)}


@dataclass(frozen=True, kw_only=True)
class JointTeacherRun(JointRun):
    """The teacher, refined on the labels of several tasks (liu2020, section 4.1.1)."""

    kind: ClassVar[str] = "multi_task_teacher"
    role: ClassVar[str] = "the teacher of several tasks"
    takes_all: ClassVar[bool] = True

    teacher: BaseTeacher

    @property
    def title(self) -> str:
        return f"teacher {self.teacher.name} on {', '.join(self.tasks)}"

    @property
    def learns_from(self) -> Teacher:
        return self.teacher

    def part(self, task: str) -> TeacherRun:
        return TeacherRun(
            task=task,
            data=self.tasks[task],
            metric=self.metrics[task],
            teacher=self.teacher,
            settings=self.settings,
            seed=self.seed,
            test=self.test,
        )

    def expressions(self) -> Sequence[str]:
        from harness.training.settings import LABELS

        return (LABELS,)

    def perform(self, work: Work) -> Performed:
        from harness.training.multi_task import multi_task_teacher

        return multi_task_teacher(self, work)


@dataclass(frozen=True, kw_only=True)
class JointStudentRun(JointRun):
    """A student, distilled on several tasks together from a teacher's head for each (liu2020, section 4.2)."""

    kind: ClassVar[str] = "multi_task"
    role: ClassVar[str] = "its distillation on several tasks"
    starts_students: ClassVar[bool] = True

    teacher: RunId
    student: str
    init: str
    objective: str
    procedure: str
    masked_teacher: Teacher | None = None
    pair_encoding: str | None = None

    @property
    def title(self) -> str:
        return f"{self.objective} {self.student} on {', '.join(self.tasks)}"

    @property
    def learns_from(self) -> Teacher:
        return self.teacher

    @property
    def replaces_words(self) -> Teacher | None:
        return self.masked_teacher

    @property
    def starts_from(self) -> RunId | None:
        return run_of(self.init)

    @property
    def student_name(self) -> str:
        return self.student

    def part(self, task: str) -> StudentRun:
        names = ("teacher", "student", "init", "objective", "procedure", "settings", "seed", "masked_teacher")
        shared: dict[str, Any] = {name: getattr(self, name) for name in (*names, "pair_encoding", "test")}
        return StudentRun(task=task, data=self.tasks[task], metric=self.metrics[task], **shared)

    def expressions(self) -> Sequence[str]:
        return (self.objective,)

    def perform(self, work: Work) -> Performed:
        from harness.training.multi_task import multi_task

        return multi_task(self, work)


# ------------------------------------------------------------ of unlabelled text


@dataclass(frozen=True, kw_only=True)
class PretrainingRun(Run):
    """The teacher's own pre-training, where its plugin asks for one."""

    kind: ClassVar[str] = "pretraining"
    role: ClassVar[str] = "the teacher's pre-training"
    teacher: BaseTeacher

    @property
    def title(self) -> str:
        return f"pre-training of teacher {self.teacher.name}"

    @property
    def learns_from(self) -> Teacher:
        return self.teacher

    def perform(self, work: Work) -> Performed:
        from harness.training.pretraining import pretraining

        return pretraining(self, work)


@dataclass(frozen=True, kw_only=True)
class CorpusRun(Run):
    """A run on unlabelled text. corpus: a hash of it."""

    shared_out: ClassVar[bool] = True

    corpus: str
    teacher: Teacher
    objective: str

    @property
    def learns_from(self) -> Teacher:
        return self.teacher

    def expressions(self) -> Sequence[str]:
        return (self.objective,)


@dataclass(frozen=True, kw_only=True)
class MaskedTeacherRun(CorpusRun):
    """The training of a masked-language-model head for a teacher that has none."""

    kind: ClassVar[str] = "masked_teacher"
    role: ClassVar[str] = "the teacher's masked-language-model head"

    @property
    def title(self) -> str:
        name = self.teacher if isinstance(self.teacher, str) else self.teacher.name
        return f"masked-language-model head of teacher {name}"

    def perform(self, work: Work) -> Performed:
        from harness.training.general import masked_teacher

        return masked_teacher(self, work)


@dataclass(frozen=True, kw_only=True)
class GeneralRun(CorpusRun):
    """A student, distilled on a corpus, which knows no task yet."""

    kind: ClassVar[str] = "general"
    role: ClassVar[str] = "its general distillation"
    starts_students: ClassVar[bool] = True

    student: str
    init: str

    @property
    def title(self) -> str:
        return f"general distillation of {self.student} by {self.objective}"

    @property
    def starts_from(self) -> RunId | None:
        return run_of(self.init)

    @property
    def student_name(self) -> str:
        return self.student

    def perform(self, work: Work) -> Performed:
        from harness.training.general import general

        return general(self, work)


# ------------------------------------------------------------ that train nothing


@dataclass(frozen=True, kw_only=True)
class MeasuredRun(Run):
    """A model of random weights: a student, or (student "") the model of the configuration itself."""

    scored: ClassVar[bool] = True
    trains: ClassVar[bool] = False

    task: str
    student: str
    configuration: JSON
    metric: str

    @property
    def title(self) -> str:
        return f"{self.kind} of {self.student or self.configuration['model_type']}"

    @property
    def student_name(self) -> str:
        return self.student


@dataclass(frozen=True, kw_only=True)
class CountRun(MeasuredRun):
    """How many parameters a model has."""

    kind: ClassVar[str] = "count"

    def perform(self, work: Work) -> Performed:
        from harness.training.measuring import count_parameters

        return count_parameters(self, work)


@dataclass(frozen=True, kw_only=True)
class SpeedRun(MeasuredRun):
    """How fast a model encodes, beside a reference."""

    kind: ClassVar[str] = "speed"

    reference: JSON

    def perform(self, work: Work) -> Performed:
        from harness.training.measuring import measure_speed

        return measure_speed(self, work)


# ------------------------------------------------------------ shared

OfStudent = StudentRun | UntunedRun | GeneralRun  # that start a student and keep it whole


def run_of(init: str) -> RunId | None:
    """The run that an initialisation names."""
    kind, _, run = init.partition(":")
    return run if kind == PRETRAINED else None


def as_json(value: Any) -> Any:
    """A field of a run as its specification has it."""
    if isinstance(value, BaseTeacher):
        return {name: part for name, part in vars(value).items() if part is not None}
    return dict(value) if isinstance(value, Mapping) else value


def _typed(name: str, value: Any) -> Any:
    return BaseTeacher(**value) if name in ("teacher", "masked_teacher") and isinstance(value, Mapping) else value
