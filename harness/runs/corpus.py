"""Runs on text without labels."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.runs.base import BaseTeacher, Run, Teacher

if TYPE_CHECKING:
    from harness.training.work import Performed, Work


@dataclass(frozen=True, kw_only=True)
class PretrainingRun(Run):
    """The teacher's own pre-training, where its plugin asks for one."""

    kind: ClassVar[str] = "pretraining"
    role: ClassVar[str] = "the teacher's pre-training"
    teacher: BaseTeacher

    @property
    def title(self) -> str:
        return f"pre-training of teacher {self.teacher.name}"

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

    def perform(self, work: Work) -> Performed:
        from harness.training.general import general

        return general(self, work)
