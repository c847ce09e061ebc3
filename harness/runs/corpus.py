"""Runs on text without labels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.runs.base import BaseTeacher, Run, Teacher


@dataclass(frozen=True, kw_only=True)
class PretrainingRun(Run):
    """The teacher's own pre-training, where its plugin asks for one."""

    kind: ClassVar[str] = "pretraining"
    performed_by: ClassVar[str] = "pretraining:pretraining"
    role: ClassVar[str] = "the teacher's pre-training"

    teacher: BaseTeacher

    @property
    def title(self) -> str:
        return f"pre-training of teacher {self.teacher.name}"


@dataclass(frozen=True, kw_only=True)
class CorpusRun(Run):
    """A run on unlabelled text. corpus: a hash of it."""

    shared_out: ClassVar[bool] = True

    corpus: str
    teacher: Teacher
    objective: str


@dataclass(frozen=True, kw_only=True)
class MaskedTeacherRun(CorpusRun):
    """The training of a masked-language-model head for a teacher that has none."""

    kind: ClassVar[str] = "masked_teacher"
    performed_by: ClassVar[str] = "corpus:masked_head"
    role: ClassVar[str] = "the teacher's masked-language-model head"

    @property
    def title(self) -> str:
        name = self.teacher if isinstance(self.teacher, str) else self.teacher.name
        return f"masked-language-model head of teacher {name}"

    @property
    def tells(self) -> str:
        return "Masked-language-model head of the teacher"


@dataclass(frozen=True, kw_only=True)
class CorpusDistillationRun(CorpusRun):
    """A student, distilled on a corpus, which knows no task yet."""

    kind: ClassVar[str] = "general"
    performed_by: ClassVar[str] = "corpus:corpus_distillation"
    role: ClassVar[str] = "its corpus distillation"
    starts_students: ClassVar[bool] = True

    student: str
    init: str

    @property
    def title(self) -> str:
        return f"corpus distillation of {self.student} by {self.objective}"
