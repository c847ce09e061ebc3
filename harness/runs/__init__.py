"""What a run is: one type a kind, whose JSON is what its identity is a hash of. Free of torch."""

from harness.runs.base import (
    MULTI_TASK,
    ONE_STAGE,
    PRETRAINED,
    BaseTeacher,
    Impossible,
    Run,
    RunId,
    Teacher,
    TeacherName,
    as_json,
    base_weights,
)
from harness.runs.corpus import CorpusDistillationRun, CorpusRun, MaskedTeacherRun, PretrainingRun
from harness.runs.labelled import (
    CheckpointRun,
    JoinedTeachersRun,
    JointRun,
    JointStudentRun,
    JointTeacherRun,
    StudentRun,
    TaskRun,
    TeacherRun,
    UntunedRun,
)
from harness.runs.measured import BaselineRun, CountRun, MeasuredRun, SpeedRun

OfStudent = StudentRun | UntunedRun | CorpusDistillationRun  # those that start a student and keep it whole

__all__ = [
    "MULTI_TASK",
    "ONE_STAGE",
    "PRETRAINED",
    "BaseTeacher",
    "BaselineRun",
    "CheckpointRun",
    "CorpusRun",
    "CountRun",
    "CorpusDistillationRun",
    "Impossible",
    "JoinedTeachersRun",
    "JointRun",
    "JointStudentRun",
    "JointTeacherRun",
    "MaskedTeacherRun",
    "MeasuredRun",
    "OfStudent",
    "PretrainingRun",
    "Run",
    "RunId",
    "SpeedRun",
    "StudentRun",
    "TaskRun",
    "Teacher",
    "TeacherName",
    "TeacherRun",
    "UntunedRun",
    "as_json",
    "base_weights",
]
