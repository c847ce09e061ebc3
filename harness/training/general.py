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
from harness.contracts import IGNORED, Batch, LayerMap, Outputs, Want
from harness.data import corpora
from harness.data.encoding import evaluation_batches, hold_out, subset_index, training_batches
from harness.data.masking import MaskedText
from harness.data.sentences import SentenceText, sentences, tokenised_sentences
from harness.data.sentences import texts as read
from harness.data.tasks import CORPUS
from harness.errors import UserError
from harness.evaluation.parameters import count
from harness.runs import CorpusRun, GeneralRun, MaskedTeacherRun
from harness.runs.settings import Settings
from harness.runs.told import Performed
from harness.seeds import derive_seed
from harness.training import machine, processes
from harness.training.corpus_loop import train_on_corpus
from harness.training.examples import own_settings
from harness.training.loop import in_float32, precision
from harness.training.masked_teacher import MaskedTeacher, load_masked_teacher
from harness.training.place import Place, teacher_source, teacher_tokenizer
from harness.training.sentence_teacher import SentenceTeacher, part_of
from harness.training.starting import start
from harness.training.sums import Sum
from harness.training.teacher_outputs import Encoder, NoTeacher
from harness.training.weights import save
from harness.training.work import Work

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


def general(run: GeneralRun, work: Work) -> Performed:
    """Distil the teacher into a student on the corpus (galke2022, section III-B; wang2023, Table 2); keep its weights.

    Of masked pieces the masked tokens may be predicted; sentences are read as they are (wu2020, section 3.1). Raises
    UserError if the corpus cannot be read or changed since the study was planned.
    """
    settings, place = run.settings, work.place
    source, reader, theirs = teacher_source(place.teacher, place.argument), teacher_tokenizer(place), None
    plugin = registry.STUDENTS.get(run.student)
    teacher: Any
    if settings["text"] == "sentences":
        reader = _reader(plugin, run, place)
        trained, held_out = _sentences(run, place, reader)
        theirs = SentenceText(_store(run, place, teacher_tokenizer(place)), teacher_tokenizer(place))
        asked = Part(theirs, torch.cat([trained.index, held_out.index]).sort().values)
        teacher = SentenceTeacher(run, place, asked, machine.device())
    else:
        trained, held_out = _parts(run, place)
        teacher = MaskedTeacher(run, place, trained, machine.device())
    info = source.info(CORPUS)
    described = plugin.describe(own_settings(run), info, CORPUS)
    layers = plugin.layer_map(run.init, described, info)
    if settings["transferred_layers"] == "last":
        layers = LayerMap(((described.layers, info.layers),))
    torch.manual_seed(derive_seed("weights", run.seed))
    student, started = start(run, place, CORPUS, teacher, reader)
    nn.Module.to(student, machine.device())
    objective = Sum(combine.parse(run.objective), described, info, layers, settings)
    record = train_on_corpus(student, objective, trained, teacher, work.regime(run))
    if not processes.leads():
        return record, None
    save(student, place.run / "weights", reader if reader is not teacher_tokenizer(place) else None)
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


def masked_teacher(run: MaskedTeacherRun, work: Work) -> Performed:
    """Train the masked-language-model head of a teacher that has none, with its encoder, on the corpus."""
    settings, place = run.settings, work.place
    trained, held_out = _parts(run, place)
    torch.manual_seed(derive_seed("weights", run.seed))
    encoder = Encoder(load_masked_teacher(run.teacher, place)).to(machine.device())
    info = teacher_source(place.teacher, place.argument).info(CORPUS)
    objective = Sum(combine.parse(run.objective), info, info, LayerMap(()), settings)
    record = train_on_corpus(encoder, objective, trained, NoTeacher(), work.regime(run))
    if not processes.leads():
        return record, None
    save(encoder.model, place.run / "weights")
    return record | {"metrics": {"masked_cross_entropy": _cross_entropy(encoder, held_out, settings)}}, None


def _parts(run: CorpusRun, place: Place) -> tuple[Part, Part]:
    """(the masked pieces to train on, those held out): the same for every run on the same corpus."""
    settings, content = run.settings, run.corpus
    corpora.check_unchanged(place.corpus, run.corpus)
    tokenizer = teacher_tokenizer(place)
    length, packed = settings["max_length"], settings["pack"]
    folder = place.cache / CORPORA
    corpus = corpora.tokenised(place.corpus, content, tokenizer, length, folder, packed, place.once)
    text = MaskedText(corpus, tokenizer, settings["mask_probability"])
    index, held_out = _indices(len(text), run, place)
    return Part(text, index), Part(text, held_out)


def _sentences(run: CorpusRun, place: Place, reader: PreTrainedTokenizerBase) -> tuple[Part, Part]:
    """(the sentences to train on, those held out), as the student reads them."""
    text = SentenceText(_store(run, place, reader), reader)
    index, held_out = _indices(len(text), run, place)
    return Part(text, index), Part(text, held_out)


def _store(run: CorpusRun, place: Place, tokenizer: PreTrainedTokenizerBase) -> corpora.Corpus:
    length, folder = run.settings["max_length"], place.cache / CORPORA
    return tokenised_sentences(place.corpus, run.corpus, tokenizer, length, folder, place.once)


def _reader(plugin: Any, run: CorpusRun, place: Place) -> PreTrainedTokenizerBase:
    """The student's tokenizer; a vocabulary of its own is made of the sentences that it is trained on."""
    corpora.check_unchanged(place.corpus, run.corpus)
    own = own_settings(run)

    def texts() -> Iterator[str]:
        store = sentences(place.corpus, run.corpus, place.cache / CORPORA, place.once)
        chosen = set(_indices(store.told["count"], run, place)[0].tolist())
        yield from (text for i, text in enumerate(read(store)) if i in chosen)

    reader: PreTrainedTokenizerBase = plugin.tokenizer(own, teacher_tokenizer(place), texts())
    return reader


def _indices(size: int, run: CorpusRun, place: Place) -> tuple[Tensor, Tensor]:
    """(places of what is trained on, of what is held out) among `size` pieces or sentences."""
    content = run.corpus
    index, held_out = hold_out(size, content, HELD_OUT, MOST_HELD_OUT)
    index = subset_index(index, part_of(len(index), run.settings), content)
    if not len(index):
        raise UserError(f"corpus {place.corpus} has a single piece of text: too little to train on and hold out from")
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
            raise TypeError("masked text has targets")
        targets = batch.targets[batch.targets != IGNORED]
        total += F.cross_entropy(outputs.mlm_logits.float(), targets, reduction="sum").item()
        number += len(targets)
    return total / number


def _at_once(settings: Settings) -> int:
    """How many pieces are computed together."""
    return int(settings["micro_batch"] or settings["batch_size"])
