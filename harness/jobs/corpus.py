"""Distillation on unlabelled text: masked pieces of a corpus, or its sentences, read by student and teacher alike."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase

from harness import combine, registry
from harness.contracts import Batch, LayerMap, Outputs, Want
from harness.data import corpora
from harness.data.encoding import evaluation_batches, hold_out, subset_index, training_batches
from harness.data.masking import MaskedText
from harness.data.sentences import SentenceText, sentences, tokenised_sentences
from harness.data.sentences import texts as read
from harness.data.tasks import CORPUS
from harness.errors import UserError
from harness.evaluation.parameters import count
from harness.jobs.examples import own_settings
from harness.jobs.starting import start
from harness.runs import CorpusDistillationRun, CorpusRun, MaskedTeacherRun
from harness.runs.settings import Settings
from harness.runs.told import Performed
from harness.seeds import derive_seed
from harness.teaching.masked import MaskedTeacher, load_masked_teacher
from harness.teaching.outputs import Encoder, NoTeacher, check_teacher
from harness.teaching.sentences import SentenceTeacher, part_of
from harness.training import machine, processes
from harness.training.corpus_loop import train_on_corpus
from harness.training.loop import in_float32, precision
from harness.training.sums import Sum
from harness.training.weights import save
from harness.training.work import Work
from harness.training.workspace import Workspace, teacher_source, teacher_tokenizer

HELD_OUT, MOST_HELD_OUT = 0.02, 500  # share and number of the corpus' pieces that nothing is trained on
CORPORA = "corpora"  # in the cache: their tokens and sentences


@dataclass(frozen=True)
class Part:
    """Some pieces of a text, in place of all. index: (N,) their places in it."""

    text: MaskedText | SentenceText
    index: Tensor

    def __len__(self) -> int:
        return len(self.index)

    @cached_property
    def lengths(self) -> Tensor:
        """(N,) tokens of each piece."""
        return self.text.lengths[self.index]

    @property
    def keys(self) -> np.ndarray:
        return self.index.numpy()

    def subset(self, index: Tensor) -> Part:
        return Part(self.text, self.index[index])

    def batches(self, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
        return training_batches(self.lengths, batch_size, seed, epoch)

    def batch(self, index: Tensor, device: torch.device | None = None, epoch: int = 0) -> Batch:
        return replace(self.text.batch(self.index[index], device or torch.device("cpu"), epoch), epoch=epoch)


def corpus_distillation(run: CorpusDistillationRun, work: Work) -> Performed:
    """Distil the teacher into a student on the corpus (galke2022, section III-B; wang2023, Table 2); keep its weights.

    Of masked pieces the masked tokens may be predicted; sentences are read as they are (wu2020, section 3.1). Raises
    UserError if the corpus cannot be read or changed since the study was planned.
    """
    settings, workspace = run.settings, work.workspace
    source, reader, theirs = teacher_source(workspace.teacher), teacher_tokenizer(workspace), None
    plugin = registry.STUDENTS.get(run.student)
    teacher: Any
    if settings["text"] == "sentences":
        reader = _reader(plugin, run, workspace)
        trained, held_out = _sentences(run, workspace, reader)
        theirs = SentenceText(_store(run, workspace, teacher_tokenizer(workspace)), teacher_tokenizer(workspace))
        asked = Part(theirs, torch.cat([trained.index, held_out.index]).sort().values)
        teacher = SentenceTeacher(run, workspace, asked, machine.device())
    else:
        trained, held_out = _parts(run, workspace)
        teacher = MaskedTeacher(run, workspace, trained, machine.device())
    info = source.info(CORPUS)
    described = plugin.describe(own_settings(run), info, CORPUS)
    layers = plugin.layer_map(run.init, described, info)
    if settings["transferred_layers"] == "last":
        layers = LayerMap(((described.layers, info.layers),))
    machine.seed(derive_seed("weights", run.seed))
    student, started = start(run, workspace, CORPUS, teacher, reader)
    nn.Module.to(student, machine.device())
    objective = Sum(combine.parse(run.objective), described, info, layers, settings)
    record = train_on_corpus(student, objective, trained, teacher, work.regime(run))
    if not processes.leads():
        return record, None
    save(student, workspace.run / "weights", reader if reader is not teacher_tokenizer(workspace) else None)
    record |= count(student) | {"initialisation": started, "teacher_signals": dict(teacher.how)}
    if not objective.wants()[0].mlm_logits:  # the student has not learned to predict what is masked
        loss = _mean_loss(student, objective, teacher, held_out, settings)
        return record | {"metrics": {"distillation_loss": loss}}, None
    return record | {
        "stored_top_k_divergence": teacher.divergence,
        "metrics": {
            "masked_cross_entropy": _cross_entropy(student, held_out, settings),
            "teacher_masked_cross_entropy": _cross_entropy(teacher.encoder(), held_out, settings),
        },
    }, None


def masked_head(run: MaskedTeacherRun, work: Work) -> Performed:
    """Train the masked-language-model head of a teacher that has none, with its encoder, on the corpus."""
    settings, workspace = run.settings, work.workspace
    trained, held_out = _parts(run, workspace)
    machine.seed(derive_seed("weights", run.seed))
    encoder = Encoder(load_masked_teacher(run.teacher, workspace)).to(machine.device())
    info = teacher_source(workspace.teacher).info(CORPUS)
    objective = Sum(combine.parse(run.objective), info, info, LayerMap(()), settings)
    record = train_on_corpus(encoder, objective, trained, NoTeacher(), work.regime(run))
    if not processes.leads():
        return record, None
    save(encoder.model, workspace.run / "weights")
    source, some = teacher_source(workspace.teacher), held_out.batch(torch.arange(1), machine.device())
    check_teacher(encoder, source, source.masked_language_model, workspace, some)
    return record | {"metrics": {"masked_cross_entropy": _cross_entropy(encoder, held_out, settings)}}, None


def _parts(run: CorpusRun, workspace: Workspace) -> tuple[Part, Part]:
    """(the masked pieces to train on, those held out): the same for every run on the same corpus."""
    settings = run.settings
    corpora.check_unchanged(workspace.corpus, run.corpus)
    tokenizer = teacher_tokenizer(workspace)
    length, packed = settings["max_length"], settings["pack"]
    folder = workspace.cache / CORPORA
    corpus = corpora.tokenised(workspace.corpus, run.corpus, tokenizer, length, folder, packed, workspace.once)
    return _divided(MaskedText(corpus, tokenizer, settings["mask_probability"]), run, workspace)


def _sentences(run: CorpusRun, workspace: Workspace, reader: PreTrainedTokenizerBase) -> tuple[Part, Part]:
    """(the sentences to train on, those held out), as the student reads them."""
    return _divided(SentenceText(_store(run, workspace, reader), reader), run, workspace)


def _divided(text: MaskedText | SentenceText, run: CorpusRun, workspace: Workspace) -> tuple[Part, Part]:
    index, held_out = _indices(len(text), run, workspace)
    return Part(text, index), Part(text, held_out)


def _store(run: CorpusRun, workspace: Workspace, tokenizer: PreTrainedTokenizerBase) -> corpora.Corpus:
    length, folder = run.settings["max_length"], workspace.cache / CORPORA
    return tokenised_sentences(workspace.corpus, run.corpus, tokenizer, length, folder, workspace.once)


def _reader(plugin: Any, run: CorpusRun, workspace: Workspace) -> PreTrainedTokenizerBase:
    """The student's tokenizer; a vocabulary of its own is made of the sentences that it is trained on."""
    corpora.check_unchanged(workspace.corpus, run.corpus)
    own = own_settings(run)

    def texts() -> Iterator[str]:
        store = sentences(workspace.corpus, run.corpus, workspace.cache / CORPORA, workspace.once)
        chosen = set(_indices(store.told["count"], run, workspace)[0].tolist())
        yield from (text for i, text in enumerate(read(store)) if i in chosen)

    return plugin.tokenizer(own, teacher_tokenizer(workspace), texts())


def _indices(size: int, run: CorpusRun, workspace: Workspace) -> tuple[Tensor, Tensor]:
    """(places of what is trained on, of what is held out) among `size` pieces or sentences."""
    index, held_out = hold_out(size, run.corpus, HELD_OUT, MOST_HELD_OUT)
    index = subset_index(index, part_of(len(index), run.settings), run.corpus)
    if not len(index):
        raise UserError(
            f"corpus {workspace.corpus} has a single piece of text: too little to hold any out of"
        )
    return index, held_out


@torch.no_grad()
def _mean_loss(student: nn.Module, objective: Sum, teacher: Any, data: Part, settings: Settings) -> float:
    """The objective's mean over all sentences of `data`."""
    student.eval()
    total, (ours, theirs) = 0.0, objective.wants()
    for index in evaluation_batches(data.lengths, _at_once(settings)):
        batch = data.batch(index, machine.device())
        with precision(settings, machine.device()):
            outputs = student(batch, ours)
        loss, _ = objective(in_float32(outputs), in_float32(teacher(batch, theirs)), batch)
        total += loss.item() * len(index)
    return total / len(data)


@torch.inference_mode()
def _cross_entropy(model: nn.Module, data: Part, settings: Settings) -> float:
    """Mean cross-entropy, in nats, of the masked tokens of all pieces."""
    model.eval()
    total, number = 0.0, 0
    for index in evaluation_batches(data.lengths, _at_once(settings)):
        batch = data.batch(index, machine.device())
        with precision(settings, machine.device()):
            outputs: Outputs = model(batch, Want(mlm_logits=True))
        if batch.targets is None:
            raise TypeError("masked text must have targets")
        targets = batch.targets.flatten()[batch.predicted]
        total += F.cross_entropy(outputs.mlm_logits.float(), targets, reduction="sum").item()
        number += len(targets)
    return total / number


def _at_once(settings: Settings) -> int:
    """How many pieces are computed together."""
    return int(settings["micro_batch"] or settings["batch_size"])
