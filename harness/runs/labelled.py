"""Runs on the labelled examples of one task, or of several together."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from harness.registry import PROCEDURES
from harness.runs.base import BaseTeacher, Run, RunId, Teacher
from harness.runs.settings import LABELS


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


@dataclass(frozen=True, kw_only=True)
class TeacherRun(TaskRun):
    """The teacher, fine-tuned on the labels; with `evaluate_only` its weights answer the task as they are."""

    kind: ClassVar[str] = "teacher"
    by_folds: ClassVar[bool] = True
    leaves_model: ClassVar[bool] = True
    performed_by: ClassVar[str] = "labelled:fine_tune"
    trained_by: ClassVar[str] = LABELS
    role: ClassVar[str] = "its teacher"

    teacher: BaseTeacher
    evaluate_only: bool = False

    @property
    def title(self) -> str:
        return f"teacher {self.teacher.name} on {self.task}"


@dataclass(frozen=True, kw_only=True)
class JoinedTeachersRun(TeacherRun):
    """An ensemble: the mean of the probabilities of teachers of a task. members: their runs, in order."""

    kind: ClassVar[str] = "joined_teachers"
    leaves_model: ClassVar[bool] = False
    performed_by: ClassVar[str] = "joined:join"
    trained_by: ClassVar[str] = ""

    members: Sequence[RunId]

    @property
    def title(self) -> str:
        return f"{len(self.members)} teachers together on {self.task}"

    @property
    def depends_on(self) -> tuple[RunId, ...]:
        return tuple(dict.fromkeys(self.members))


@dataclass(frozen=True, kw_only=True)
class CheckpointRun(TaskRun):
    """Another model than the study's teacher, fine-tuned on the labels as it is: a row of the table."""

    kind: ClassVar[str] = "checkpoint"
    by_folds: ClassVar[bool] = True
    leaves_model: ClassVar[bool] = True
    performed_by: ClassVar[str] = "labelled:fine_tune"
    trained_by: ClassVar[str] = LABELS

    teacher: BaseTeacher

    @property
    def title(self) -> str:
        return f"checkpoint {self.teacher.name} on {self.task}"


@dataclass(frozen=True, kw_only=True)
class StudentRun(TaskRun):
    """A student, trained on a task by an objective in the stages of a procedure.

    init: as the student spells it, a file by its content, or "pretrained:RUN". teacher: base weights where the student
    has learnt from it before, and now learns from labels alone.
    """

    kind: ClassVar[str] = "student"
    by_folds: ClassVar[bool] = True
    leaves_model: ClassVar[bool] = True
    performed_by: ClassVar[str] = "labelled:distil"

    teacher: Teacher
    student: str
    init: str
    objective: str
    procedure: str
    masked_teacher: Teacher | None = None

    @property
    def title(self) -> str:
        return f"{self.objective} {self.student} {self.init} {self.task}"

    def expressions(self) -> Sequence[str]:
        return PROCEDURES.get(self.procedure).objectives(self.objective)


@dataclass(frozen=True, kw_only=True)
class UntunedRun(TaskRun):
    """Sentence vectors that no label of the task has tuned: a student's, or (student "") the teacher's own."""

    kind: ClassVar[str] = "untuned"
    performed_by: ClassVar[str] = "untuned:untuned"

    teacher: BaseTeacher
    student: str
    init: str
    objective: str

    @property
    def title(self) -> str:
        if self.student:
            return f"untuned {self.student} {self.objective} {self.task}"
        return f"untuned teacher {self.teacher.name} on {self.task}"


# ---------------------------------------------------------------- of several tasks


@dataclass(frozen=True, kw_only=True)
class JointRun(Run):
    """One model trained on several tasks together. tasks: each with a hash of its examples; metrics: each with its."""

    leaves_model: ClassVar[bool] = True
    scored: ClassVar[bool] = True
    predicts: ClassVar[bool] = True

    part_kind: ClassVar[type[TaskRun]]  # what the run is on one of its tasks

    tasks: Mapping[str, str]
    metrics: Mapping[str, str]
    test: Mapping[str, str] | None = None
    before: Sequence[Sequence[float]] | None = None

    @property
    def data_of(self) -> Mapping[str, str]:
        return self.tasks

    def part(self, task: str) -> Any:
        """What the run is on one of its tasks."""
        of_all = ("tasks", "metrics", "before", "plugins")
        shared = {name: value for name, value in vars(self).items() if name not in of_all}
        return self.part_kind(task=task, data=self.tasks[task], metric=self.metrics[task], **shared)

    def parts(self) -> dict[str, Any]:
        """`part` of every task, in order of name: the order in which they are listed is none."""
        return {task: self.part(task) for task in sorted(self.tasks)}


@dataclass(frozen=True, kw_only=True)
class JointTeacherRun(JointRun):
    """The teacher, refined on the labels of several tasks (liu2020, section 4.1.1)."""

    kind: ClassVar[str] = "multi_task_teacher"
    performed_by: ClassVar[str] = "joint:joint_teacher"
    trained_by: ClassVar[str] = LABELS
    role: ClassVar[str] = "the teacher of several tasks"
    part_kind: ClassVar[type[TaskRun]] = TeacherRun

    teacher: BaseTeacher

    @property
    def title(self) -> str:
        return f"teacher {self.teacher.name} on {', '.join(self.tasks)}"

    @property
    def tells(self) -> str:
        what = "Joint fine-tuning" if len(self.tasks) > 1 else "Fine-tuning"
        return f"{what} of the teacher on {', '.join(self.tasks)}"


@dataclass(frozen=True, kw_only=True)
class JointStudentRun(JointRun):
    """A student, distilled on several tasks together from a teacher's head for each (liu2020, section 4.2)."""

    kind: ClassVar[str] = "multi_task"
    performed_by: ClassVar[str] = "joint:joint_student"
    role: ClassVar[str] = "its distillation on several tasks"
    part_kind: ClassVar[type[TaskRun]] = StudentRun
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
    def tells(self) -> str:  # one for each seed
        what = f"Joint distillation of {self.student} by {self.objective}, init {self.init}"
        return f"{what}, once a seed, on {', '.join(self.tasks)}"
