"""A student in a teacher's place: what the weights that its run left say of the training examples."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from torch import nn

from harness import registry
from harness.contracts import Batch, ModelInfo, Outputs, Want
from harness.data.encoding import Encoded
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.jobs.examples import Examples, encoding_of, examples_of, own_settings, reader_left
from harness.jobs.inputs import record_of
from harness.jobs.labelled import Imitated
from harness.runs import Run, RunId, StudentRun
from harness.runs.settings import Settings
from harness.teaching.outputs import TeacherOutputs
from harness.training import machine
from harness.training.loop import TrainingFailure
from harness.training.workspace import Workspace, teacher_source, teacher_tokenizer


class StudentOutputs(TeacherOutputs):
    """Called with (batch, want) of the run's training examples, which another student of its kind reads in its way."""

    def __init__(self, run: StudentRun, workspace: Workspace, train: Encoded, info: ModelInfo):
        """run: whose `teacher` is the run of the other student; train: as that one reads it; info: what that one is."""
        super().__init__(run, replace(workspace, outputs={}), train, machine.device(), info)
        self._student: Any = None

    def __call__(self, batch: Batch, want: Want) -> Outputs:
        """As a teacher's. Raises TrainingFailure for what the student does not emit, which concerns this run alone."""
        try:
            return super().__call__(batch, want)
        except UserError as error:
            raise TrainingFailure(str(error)) from error

    def _encoder(self) -> Any:
        if self._student is None:
            plugin = registry.STUDENTS.get(self.run.student)
            student = plugin.from_pretrained(self.folder)
            self._student = nn.Module.to(student.requires_grad_(False), self.device)
        return self._student


def imitating(other: RunId, run: StudentRun, workspace: Workspace, init: str = "") -> Imitated:
    """What `run` imitates: the student that run `other` left. init: as `Imitated` has it."""
    own, task = Run.read(record_of(other, workspace)["specification"]), get_task(run.task)
    teacher = teacher_source(workspace.teacher).info(task)
    info = registry.STUDENTS.get(own.student_name).describe(own_settings(own), teacher, task)

    def outputs(run: StudentRun, examples: Examples) -> TeacherOutputs:
        train = _read(own, other, run, examples, workspace)
        return StudentOutputs(replace(run, teacher=other), workspace, train, info)

    return Imitated(info, outputs, init)


def _read(own: Run, other: RunId, run: StudentRun, examples: Examples, workspace: Workspace) -> Encoded:
    """The run's training examples as the student reads them that run `other`, which is `own`, left.

    In its own words, where it has any: they are those of the examples that it was trained on itself.
    """
    theirs = {name: value for name, value in own.settings.items() if name.startswith(f"{own.student_name}.")}
    alike = replace(run, settings=Settings({**run.settings, **theirs}))
    reader = reader_left(other, workspace)
    if reader is teacher_tokenizer(workspace) and encoding_of(alike) == encoding_of(run):
        return examples.train
    return examples_of(alike, workspace, reader).train
