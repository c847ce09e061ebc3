"""A task without labels: the teacher's answers stand for them, and nothing that is trained or chosen sees one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from harness.contracts import Want
from harness.data.encoding import Encoded, evaluation_batches
from harness.data.sources import blank
from harness.data.tasks import get_task
from harness.evaluation.metrics import predictions_of
from harness.jobs.examples import Examples, read_by_teacher
from harness.runs import StudentRun
from harness.teaching.outputs import BATCH, TeacherOutputs
from harness.training import machine
from harness.training.workspace import Workspace


def answered(examples: Examples, run: StudentRun, workspace: Workspace) -> Examples:
    """The examples with the teacher's answers, and without the labels of those that are trained or chosen on.

    Dev keeps its own, where it has any: they are scored by and by nothing else.
    """
    storing = replace(workspace, outputs={})  # of these examples the logits alone are asked for
    answers = tuple(_answers(encoded, run, storing) for encoded in read_by_teacher(run, workspace))
    unseen = (examples.train, examples.imitated, examples.selection)
    train, imitated, selection = (
        replace(encoded, labels=torch.from_numpy(blank(encoded.labels.numpy()))) for encoded in unseen
    )
    return replace(examples, train=train, imitated=imitated, selection=selection, answers=answers)


def _answers(encoded: Encoded, run: StudentRun, workspace: Workspace) -> np.ndarray:
    """(N,) what the teacher answers of these examples, computed once for all runs."""
    encoded = replace(encoded, ids=torch.arange(len(encoded)))  # by which its outputs are found
    teacher = TeacherOutputs(run, workspace, encoded, machine.device())
    found = np.empty((len(encoded), get_task(run.task).outputs), np.float32)
    for index in evaluation_batches(encoded.lengths, BATCH):
        found[index.numpy()] = teacher(encoded.batch(index), Want(logits=True)).logits.float().cpu().numpy()
    return np.asarray(predictions_of(get_task(run.task), found))
