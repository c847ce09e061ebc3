"""What the teacher says of a training batch: read from the cache, or computed when a signal is too wide for it."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor, nn
from transformers import PreTrainedModel

from harness.contracts import HEAD_SIGNALS, Batch, ModelInfo, Outputs, Signal, Task, Want
from harness.data.encoding import Encoded, evaluation_batches
from harness.data.tasks import get_task
from harness.files import checksums
from harness.modeling import signals
from harness.registry import TEACHERS, told_to_transformers
from harness.runs import BaseTeacher, StudentRun, TeacherName
from harness.teaching.cache import TeacherCache
from harness.training import machine
from harness.training.joint_model import Joint, check_head, heads_in, load_joint_teacher
from harness.training.weights import check_opens
from harness.training.workspace import Workspace, teacher_fingerprint, teacher_source

BATCH = 32  # examples a teacher call when filling the cache
REOPENED = "it must load the weights it is given, and all its state must be in them"


class Encoder(nn.Module):
    """A Hugging Face model that answers to (batch, want). exact: a signal has the same bits whatever else is asked."""

    def __init__(self, model: PreTrainedModel, exact: bool = False):
        super().__init__()
        signals.prepare(model)
        self.model = model
        self.exact = exact

    def forward(self, batch: Batch, want: Want) -> Outputs:
        return signals.emit(self.model, batch.encodings[0], want, exact=self.exact, predicted=batch.predicted)


class Ensemble(nn.Module):
    """Encoders that answer together; each reads the batch's encoding of its own place. It gives logits alone."""

    def __init__(self, members: Iterable[Encoder]):
        super().__init__()
        self.members = nn.ModuleList(members)

    def forward(self, batch: Batch, want: Want) -> Outputs:
        alone = zip(self.members, batch.encodings, strict=True)
        found = [one(replace(batch, encodings=(encoding,)), Want(logits=True)).logits for one, encoding in alone]
        return Outputs(logits=mean_of(torch.stack(found)))


def mean_of(logits: Tensor) -> Tensor:
    """(M, B, C) -> (B, C): the logarithm of the mean of M models' probabilities; of scores, C = 1, the mean."""
    if logits.size(2) == 1:
        return logits.mean(0)
    return logits.log_softmax(2).logsumexp(0) - math.log(len(logits))


def ensemble(source: Any, task: Task, folder: Path) -> Ensemble:
    """The members of an ensemble, whose weights for a task are in the folders 0, 1, ... of this one."""
    models = (one.model(task, folder / str(number)) for number, one in enumerate(source.members))
    return Ensemble(Encoder(model.requires_grad_(False), exact=True) for model in models)


def check_teacher(
    encoder: nn.Module, source: Any, opens: Callable[[Path], PreTrainedModel], workspace: Workspace, some: Batch
) -> None:
    """Raise TrainingFailure for a user's teacher that answers otherwise once it is opened from the run's folder."""
    if TEACHERS.ships(source.name) and not told_to_transformers():
        return
    with torch.random.fork_rng(devices=[]):
        opened = Encoder(opens(workspace.run / "weights")).to(machine.device())
    check_opens(encoder, opened, some, TEACHERS.called(source.name), REOPENED)


class NoTeacher:
    """In a teacher's place where a run asks none."""

    def how(self, want: Want) -> dict[str, str]:
        return {}

    def __call__(self, batch: Batch, want: Want) -> Outputs:
        return Outputs()


def teacher_of(
    run: StudentRun, workspace: Workspace, imitated: Encoded, device: torch.device
) -> TeacherOutputs | NoTeacher:
    """The teacher of a student's run; none where it names base weights alone."""
    if isinstance(run.teacher, BaseTeacher):
        return NoTeacher()
    return TeacherOutputs(run, workspace, imitated, device)


class TeacherOutputs:
    """Called with (batch, want) of the run's training examples."""

    def __init__(
        self, run: StudentRun, workspace: Workspace, train: Encoded, device: torch.device, info: ModelInfo | None = None
    ):
        """Fill the cache with what the study asks for. train: as the teacher reads it; info: of one not the study's."""
        self.train, self.run = train, run
        self.folder = workspace.runs / str(run.teacher) / "weights"
        self.task, self.workspace, self.device = get_task(run.task), workspace, device
        self.heads = heads_in(self.folder)
        if self.heads:
            check_head(self.task.name, self.folder)
        # Texts are told apart by their hash alone, and two tasks may have the same: each head's outputs are apart.
        head = self.task.name if self.heads else ""
        name = [checksums(self.folder), head, teacher_fingerprint(workspace), run.settings["max_length"]]
        self.cache = TeacherCache(workspace.cache, name, train, workspace.once)
        self.rows = self.cache.rows(train.keys)
        info = info or teacher_source(workspace.teacher).info(self.task)
        numbers = {
            **dict.fromkeys((Signal.EMBEDDINGS, Signal.HIDDEN_STATES, *HEAD_SIGNALS), info.width),
            Signal.MLM_LOGITS: info.vocabulary,
            Signal.ATTENTION_SCORES: info.heads,
        }
        gib = run.settings["cache_gib"]
        self.keeps = {s.value: self.cache.fits(s.value, numbers.get(s, 1), gib) for s in Signal}
        self._asked: dict[Want, tuple[list[tuple[str, int]], Want]] = {}  # its parts that are stored, and the others
        self._fill(Want.of_parts(workspace.outputs.get(run.task, ())), looked=False)

    def _fill(self, want: Want, looked: bool = True) -> None:
        """Store what is asked for, unless it is there; looked: and as it was written."""
        if stored := [part for part in want.parts() if self.keeps[part[0]]]:
            batches = evaluation_batches(self.cache.data.lengths, BATCH)
            self.cache.fill(stored, self._compute, batches, self.device, looked)

    def how(self, want: Want) -> dict[str, str]:
        """Of each signal that is asked for: stored or computed."""
        return {name: "stored" if self.keeps[name] else "computed" for name, _ in want.parts()}

    def model(self) -> PreTrainedModel:
        """The teacher's model, loaded once a process, and not prepared for signals: those may all be stored."""
        if self.heads:
            return cast(PreTrainedModel, self._encoder().model)
        model = _model(self.workspace.teacher, self.task.name, self.folder)
        return nn.Module.to(model, self.device)

    def __call__(self, batch: Batch, want: Want) -> Outputs:
        if want not in self._asked:
            self._fill(want)  # this run alone answers for what it reads; a plugin's may ask for what no cell does
            computed = [part for part in want.parts() if not self.keeps[part[0]]]
            self._asked[want] = [part for part in want.parts() if self.keeps[part[0]]], Want.of_parts(computed)
        stored, missing = self._asked[want]
        ids = batch.ids  # the student may read the same examples otherwise: its encodings are not the teacher's
        outputs = self._compute(self.train.batch(ids, self.device), missing) if missing != Want() else Outputs()
        rows = self.rows[ids.numpy()]
        length = int(self.train.sizes[0][ids].max())
        for name, layer in stored:
            signal = self.cache.read((name, layer), rows, length, self.device)
            if layer < 0:
                setattr(outputs, name, signal)
            else:
                getattr(outputs, name)[layer] = signal
        return outputs

    @torch.no_grad()  # not inference mode: the losses save these tensors for backward
    def _compute(self, batch: Batch, want: Want) -> Outputs:
        return self._encoder()(batch, want)

    def _encoder(self) -> Any:
        teacher = self.workspace.teacher
        if self.heads:
            return _joint_teacher(teacher, self.folder, self.device).models[self.task.name]
        return _teacher_model(teacher, self.task.name, self.folder, self.device)


@functools.lru_cache(maxsize=4)
def _teacher_model(teacher: TeacherName, task: str, folder: Path, device: torch.device) -> nn.Module:
    source = teacher_source(teacher)
    if source.members:
        return ensemble(source, get_task(task), folder).to(device).eval()
    return Encoder(_model(teacher, task, folder), exact=True).to(device).eval()


@functools.lru_cache(maxsize=4)
def _model(teacher: TeacherName, task: str, folder: Path) -> PreTrainedModel:
    model: PreTrainedModel = teacher_source(teacher).model(get_task(task), folder)
    return model.requires_grad_(False)


@functools.lru_cache(maxsize=2)
def _joint_teacher(teacher: TeacherName, folder: Path, device: torch.device) -> Joint:
    """Every head of a teacher refined on several tasks, over one encoder."""
    source = teacher_source(teacher)
    models = ((t, Encoder(load_joint_teacher(source, get_task(t), folder), exact=True)) for t in heads_in(folder))
    return Joint(models).requires_grad_(False).to(device).eval()
