"""Every student on every kind of task, with every choice that it declares: what the conformance tests try."""

from __future__ import annotations

import functools
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor
from transformers import AutoModelForMaskedLM, AutoModelForSequenceClassification, BertConfig, PreTrainedModel

from harness.contracts import IGNORED, Batch, Encoding, ModelInfo, Signal, Task, Want
from harness.data.tasks import CORPUS
from harness.errors import UserError
from harness.modeling.bases import Student, StudentConfig
from harness.registry import STUDENTS
from harness.training import machine

torch.set_num_threads(1)  # of models this small several only wait, on a busy machine for long

SINGLE = Task("single", "Single", "accuracy", ("accuracy",), labels=("x", "y", "z"))
PAIR = Task("pair", "Pair", "accuracy", ("accuracy",), labels=("x", "y"), pair=True)
SCORES = Task("scores", "Scores", "pearson", ("pearson",), pair=True)
VOCABULARY = 40
HEADS = 4  # of the teacher
LENGTHS = ((9, 5, 7, 3, 8, 6), (4, 8, 3, 6, 5, 7))  # tokens of the first sentences and of the second


@dataclass(frozen=True)
class Case:
    """A student on a task; `choices` are settings other than the defaults. Whole numbers, which are sizes, are 4."""

    name: str
    task: Task
    choices: tuple[tuple[str, Any], ...] = ()

    @property
    def plugin(self) -> type[Student]:
        return STUDENTS.get(self.name)

    @property
    def settings(self) -> dict[str, Any]:
        declared = self.plugin.hyperparameters
        small = {name: 4 if type(h.default) is int else h.default for name, h in declared.items()}
        return small | dict(self.choices)

    def describe(self, teacher_width: int = 32) -> ModelInfo:
        return self.plugin.describe(self.settings, self.teacher_info(teacher_width), self.task)

    def teacher_info(self, width: int = 32) -> ModelInfo:
        return ModelInfo("teacher", 4, width, HEADS, VOCABULARY, self.task.outputs, frozenset(Signal), "the teacher's")

    def build(self, seed: int = 0, teacher_width: int = 32) -> Student:
        """With its random start, as the engine makes it."""
        teacher = small_bert(self.task.corpus, teacher_width)
        machine.seed(seed)
        own = 0 if self.describe().vocabulary else VOCABULARY  # one made of the training texts, of the same size
        shape = self.task.outputs, self.task.pair, own
        student = self.plugin(StudentConfig(self.name, self.settings, teacher.config.to_dict(), *shape))
        tokenizer: Any = None  # a random start takes nothing from it
        student.initialise("random", lambda: teacher, tokenizer)
        return student

    def batch(self, apart: bool | None = None, padding: int = 0) -> Batch:
        """Six examples as the student reads them, with `padding` positions more, of which anything may be in the ids.

        apart: a pair as two sequences; that of the student itself unless given.
        """
        apart = self.describe().pair_encoding != "joint" if apart is None else apart
        encodings = [_encoding(lengths, padding, seed) for seed, lengths in enumerate(LENGTHS[: 2 if apart else 1])]
        labels = torch.arange(6) % max(self.task.outputs, 2) if self.task.classification else torch.linspace(0, 5, 6)
        targets = None
        if self.task.corpus:
            chosen = encodings[0]["attention_mask"].bool() & (torch.arange(len(encodings[0]["input_ids"][0])) % 3 == 1)
            targets = torch.where(chosen, encodings[0]["input_ids"], IGNORED)
        return Batch(torch.arange(6), labels, tuple(map(Encoding, encodings)), targets)

    def everything(self) -> Want:
        """All that the student emits on the task."""
        described, batch = self.describe(), self.batch()
        signals = described.emits - {Signal.LOGITS if self.task.corpus else Signal.MLM_LOGITS}
        if len(batch.encodings) > 1:  # of a pair there is no sequence of states; its sentences have their own test
            signals = frozenset({Signal.LOGITS})
        want = Want.of(signals, range(1, described.layers + 1))
        return replace(want, hidden_states=want.hidden_states | {0}) if want.hidden_states else want


@functools.cache  # one for all students, as a random start takes nothing from it
def small_bert(masked: bool, width: int, labels: int = 2, seed: int = 0) -> PreTrainedModel:
    """In evaluation mode, of random weights that are drawn wide, so that attention is far from uniform."""
    torch.manual_seed(seed)
    ends: dict[str, Any] = {"vocab_size": VOCABULARY, "max_position_embeddings": 32, "num_labels": labels}
    sizes: dict[str, Any] = {"num_hidden_layers": 4, "hidden_size": width, "intermediate_size": 2 * width}
    config = BertConfig(**ends, **sizes, num_attention_heads=HEADS)
    head = AutoModelForMaskedLM if masked else AutoModelForSequenceClassification
    model = head.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def _encoding(lengths: tuple[int, ...], padding: int, seed: int) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = len(lengths), max(lengths)
    mask = (torch.arange(shape[1]) < torch.tensor(lengths)[:, None]).long()
    ids = torch.randint(5, VOCABULARY, shape, generator=generator) * mask
    if padding:
        mask = torch.cat([mask, torch.zeros(shape[0], padding, dtype=torch.long)], 1)
        ids = torch.cat([ids, torch.randint(VOCABULARY, (shape[0], padding), generator=generator)], 1)
        ids = torch.where(mask.bool(), ids, torch.randint(VOCABULARY, ids.shape, generator=generator))
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": torch.zeros_like(ids)}


def cases(name: str) -> list[Case]:
    """On every task with the defaults, and with every other choice of each setting that has choices."""
    found = [Case(name, task) for task in (SINGLE, PAIR, SCORES, CORPUS)]
    for setting, declared in STUDENTS.get(name).hyperparameters.items():
        others = [choice for choice in declared.choices if choice != declared.default]
        tasks = (PAIR, SCORES) if setting == "pair_encoding" else (SINGLE, PAIR)
        found += [Case(name, task, ((setting, choice),)) for choice in others for task in tasks]
    return found


def named(case: Case) -> str:
    return "-".join([case.name, case.task.name, *(str(value) for _, value in case.choices)])


def possible(case: Case) -> bool:
    try:
        case.describe()
    except UserError:
        return False
    return True


def plain(case: Case) -> bool:
    """True of one whose settings are the defaults, but for how it reads a pair."""
    return not case.choices or case.choices[0][0] == "pair_encoding"
