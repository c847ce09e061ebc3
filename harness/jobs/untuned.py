"""Sentence vectors that no label of a task has tuned, as a judge of paraphrase (wu2020, section 5.5, Table 5).

Each sentence of a pair is read alone. A pair is a paraphrase where the cosine of its two vectors reaches a threshold,
which is chosen on the training examples: their labels serve for nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property
from typing import cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from harness import combine, pairing, registry
from harness.contracts import Batch, LayerMap, ModelInfo, Outputs, Signal, Task, Want
from harness.data.encoding import Encoded, evaluation_batches
from harness.data.tasks import get_task
from harness.evaluation.parameters import count
from harness.evaluation.threshold import best_threshold
from harness.jobs.examples import Examples, examples_of, own_settings, reader_of
from harness.jobs.scoring import EVALUATION_BATCH, evaluate, scores
from harness.jobs.starting import start
from harness.runs import UntunedRun
from harness.runs.told import Performed, Record
from harness.seeds import derive_seed
from harness.teaching.cache import TeacherCache
from harness.teaching.masked import load_masked_teacher, weights_of
from harness.teaching.outputs import BATCH, Encoder
from harness.training import machine
from harness.training.loop import Stage, predict, train
from harness.training.sums import Sum
from harness.training.work import Work
from harness.training.workspace import Workspace, teacher_fingerprint, teacher_source, teacher_tokenizer

APART = "compare"  # a pair encoding that reads each sentence alone


def refusal(objective: str, student: ModelInfo | None, teacher: ModelInfo, task: Task, pooling: str = "first") -> str:
    """Why no cosine can judge this task, or none of this student (None: the teacher, so pooled), trained so; or ""."""
    if not task.pair or "f1" not in task.metrics:
        return f"a cosine tells paraphrases from other pairs, which is not what task {task.name} asks"
    if student is None:
        signal = Signal.SENTENCE if pooling == "first" else Signal.HIDDEN_STATES
        return "" if signal in teacher.emits else f"{teacher.name} does not emit {signal.value}"
    if student.pair_encoding in ("joint", "biattention") or Signal.SENTENCE not in student.emits:
        return f"{student.name} has no vector of each sentence of a pair alone"
    if not objective:
        return ""
    for _, name in combine.parse(objective):
        if registry.OBJECTIVES.get(name).needs != {Signal.SENTENCE}:
            return f"{name} compares more than sentence vectors, and no task has tuned the rest"
    return pairing.refusal(objective, "untuned", student, replace(teacher, pair_encoding=student.pair_encoding), task)


class Apart(nn.Module):
    """An encoder that reads each sentence of a pair alone; its `sentence` is (B, 2, D)."""

    def __init__(self, encoder: Encoder, pooling: str):
        """pooling: "first", the first token's state in the last layer, or "mean", that of all tokens."""
        super().__init__()
        self.encoder, self.pooling = encoder, pooling

    def forward(self, batch: Batch, want: Want) -> Outputs:
        alone = [replace(batch, encodings=(encoding,)) for encoding in batch.encodings]
        return Outputs(sentence=torch.stack([self._vector(sentences) for sentences in alone], 1))

    def _vector(self, batch: Batch) -> Tensor:
        """(B, D)"""
        if self.pooling == "first":
            return self.encoder(batch, Want(sentence=True)).sentence
        last = self.encoder.model.config.num_hidden_layers
        states = self.encoder(batch, Want(hidden_states=frozenset({last}))).hidden_states[last].float()  # (B, L, D)
        mask = batch.mask.unsqueeze(-1)
        return states.masked_fill(~mask, 0).sum(1) / mask.sum(1)


class Cosines(nn.Module):
    """Where logits are asked of it, the cosine of the two sentence vectors of each pair: (B, 1) float64."""

    def __init__(self, model: nn.Module):
        super().__init__()
        self.model = model

    def forward(self, batch: Batch, want: Want) -> Outputs:
        vectors = self.model(batch, Want(sentence=True)).sentence.double()  # (B, 2, D)
        return Outputs(logits=F.cosine_similarity(vectors[:, 0], vectors[:, 1], dim=-1).unsqueeze(1))


class Judge(nn.Module):
    """A classifier by the cosine: its logits (B, 2) are 1 for class 1 where that reaches the threshold, else for 0."""

    def __init__(self, cosines: Cosines, threshold: float):
        super().__init__()
        self.cosines, self.threshold = cosines, threshold

    def forward(self, batch: Batch, want: Want) -> Outputs:
        found = self.cosines(batch, want).logits[:, 0]
        return Outputs(logits=F.one_hot((found >= self.threshold).long(), 2).float())


class UntunedTeacher:
    """The teacher as it was before any task: called with (batch, want) of the training pairs, whose vectors are stored.

    how says of each signal: stored.
    """

    def __init__(self, run: UntunedRun, workspace: Workspace):
        self.run, self.workspace = run, workspace
        self.pooling = run.settings["untuned.pooling"]
        self.how: dict[str, str] = {}

    @cached_property
    def apart(self) -> Apart:
        """The model, loaded when it is first needed."""
        model = load_masked_teacher(self.run.teacher, self.workspace)
        return Apart(Encoder(model), self.pooling).to(machine.device()).eval()

    def model(self) -> PreTrainedModel:
        return self.apart.encoder.model

    def __call__(self, batch: Batch, want: Want) -> Outputs:
        """Once they are stored."""
        rows = self._cache.rows(self.keys[batch.ids.numpy()])
        return Outputs(sentence=self._cache.read(("sentence", -1), rows, 0, machine.device()))

    def store(self, pairs: Encoded) -> None:
        """Compute the vectors of these pairs, read apart, unless they are on disk. pairs: ids are 0..size-1."""
        weights, limit = weights_of(self.run.teacher, self.workspace), self.run.settings["max_length"]
        name = ["apart", weights, self.pooling, teacher_fingerprint(self.workspace), limit]
        self.keys = pairs.keys
        self._cache = TeacherCache(self.workspace.cache, name, pairs, self.workspace.once)
        batches = evaluation_batches(self._cache.data.lengths, BATCH)
        self._cache.fill([("sentence", -1)], self._compute, batches, machine.device())
        self.how = {"sentence": "stored"}

    @torch.no_grad()  # not inference mode: the losses save these tensors for backward
    def _compute(self, batch: Batch, want: Want) -> Outputs:
        return self.apart(batch, want)


def untuned(run: UntunedRun, work: Work) -> Performed:
    """Choose the threshold on the training pairs and score it on the dev pairs.

    The vectors are those of the teacher's base weights, of a student as it starts, or of a student that learns from
    the teacher's vectors of the training pairs, without their labels; its last epoch counts, for there is no better or
    worse one without labels.
    """
    task, settings, workspace, clock = get_task(run.task), run.settings, work.workspace, work.clock
    teacher = UntunedTeacher(run, workspace)
    reader = reader_of(run, workspace)
    alone = run if run.student else replace(run, pair_encoding=APART)
    examples = examples_of(alone, workspace, reader)
    record: Record = {"curve": [], "best": {"epoch": 0}, "pruned": False}
    if run.student:
        machine.seed(derive_seed("weights", run.seed))
        student, started = start(run, workspace, task, teacher, reader)
        model: nn.Module = nn.Module.to(student, machine.device())
        record |= {"initialisation": started, **count(student)}
        if run.objective:
            record |= _learn(model, run, work, examples, teacher)
    else:
        model = teacher.apart
        record |= count(cast(PreTrainedModel, teacher.model().base_model))
    cosines = Cosines(model)
    known = predict(cosines, examples.train, EVALUATION_BATCH, settings, machine.device(), clock)[:, 0]
    judge = Judge(cosines, best_threshold(known.numpy(), examples.train.labels.numpy()))
    found = predict(judge, examples.selection, EVALUATION_BATCH, settings, machine.device(), clock)
    selection = scores(task, found, examples.selection)[run.metric]
    scored, predictions = evaluate(judge, task, alone, work, examples, reader)
    del predictions["probabilities"]  # a cosine tells none
    record["best"]["selection"] = selection
    return record | scored | {
        "selection": selection,
        "threshold": judge.threshold,
        "examples": len(examples.train),
        "teacher_signals": teacher.how,
    }, predictions


def _learn(student: nn.Module, run: UntunedRun, work: Work, examples: Examples, teacher: UntunedTeacher) -> Record:
    """Train the student on the teacher's vectors of the training pairs. Returns the curve, and its last entry."""
    settings, task, workspace = run.settings, get_task(run.task), work.workspace
    theirs = replace(run, student="", pair_encoding=APART)
    teacher.store(examples_of(theirs, workspace, teacher_tokenizer(workspace)).train)
    info = teacher_source(workspace.teacher).info(task)
    described = registry.STUDENTS.get(run.student).describe(own_settings(run), info, task)
    objective = Sum(
        combine.parse(run.objective),
        described,
        replace(info, pair_encoding=described.pair_encoding),
        LayerMap(()),
        settings,
    )
    objective.prepare(examples.train.labels, len(examples.train))
    history = train(
        student,
        [Stage("intermediate", objective, objective.wants(), settings["epochs"], selects=False)],
        examples.train,
        teacher,
        lambda trained: 0.0,
        work.regime(run),
    )
    return {"curve": history.curve, "best": dict(history.curve[-1])}
