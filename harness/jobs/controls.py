"""Who is asked in the place of a student's teacher, to see what of its help is the teacher's knowledge."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch

from harness.contracts import Batch, Outputs, Want
from harness.data.encoding import Encoded
from harness.data.tasks import as_asked, get_task
from harness.jobs.examples import Examples
from harness.jobs.labelled import Imitated
from harness.runs import RunId, StudentRun
from harness.seeds import derive_seed
from harness.teaching.outputs import TeacherOutputs
from harness.training import machine
from harness.training.workspace import Workspace, teacher_source


class ShuffledOutputs(TeacherOutputs):
    """Says of a training example what the teacher says of another one of its class."""

    def __init__(self, run: StudentRun, workspace: Workspace, train: Encoded):
        super().__init__(run, workspace, train, machine.device())
        self.others = torch.from_numpy(shuffled(train.keys, train.labels.numpy(), derive_seed("shuffled", run.seed)))

    def __call__(self, batch: Batch, want: Want) -> Outputs:
        return super().__call__(replace(batch, ids=self.others[batch.ids]), want)


def shuffled(keys: np.ndarray, labels: np.ndarray, seed: int) -> np.ndarray:
    """(N,) for each example the position of another of its class, each position once: one circle a class.

    keys: (N,) uint64 of the texts, on which the order depends, and so on no batch and no position, but for equal texts.
    labels: (N,) classes. An only example of its class stays itself.
    """
    order = np.lexsort((np.arange(len(keys)), keys))  # by text
    order = order[np.random.default_rng(seed).permutation(len(order))]
    found = np.empty(len(keys), np.int64)
    for label in np.unique(labels):
        circle = order[labels[order] == label]
        found[circle] = np.roll(circle, 1)
    return found


def shuffling(run: StudentRun, workspace: Workspace) -> Imitated:
    """The run's teacher, its outputs shuffled within the classes of the training examples."""
    info = teacher_source(workspace.teacher).info(as_asked(get_task(run.task), run.settings))
    return Imitated(info, lambda run, examples: ShuffledOutputs(run, workspace, examples.imitated))


def taught_by(other: RunId, run: StudentRun, workspace: Workspace) -> Imitated:
    """A teacher of the same kind, whose weights run `other` left."""
    info = teacher_source(workspace.teacher).info(as_asked(get_task(run.task), run.settings))
    alone = replace(workspace, outputs={})  # no other run asks this one

    def outputs(run: StudentRun, examples: Examples) -> TeacherOutputs:
        return TeacherOutputs(replace(run, teacher=other), alone, examples.imitated, machine.device())

    return Imitated(info, outputs)
