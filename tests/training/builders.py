"""Small encoded examples and models for the training tests, runs of every kind, and what they are performed with."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor, nn

from harness.contracts import Batch, Outputs, Want
from harness.data.encoding import Encoded
from harness.ledger import CHECKPOINT
from harness.runs import BaseTeacher, Run, TeacherName
from harness.runs.settings import TRAINING, Settings
from harness.training.checkpoints import Checkpoint, Timer
from harness.training.loop import Clock, Regime
from harness.training.workspace import Workspace

CPU = torch.device("cpu")
VOCABULARY = 20
BASE = BaseTeacher(name="huggingface", content="base")
USUAL = {
    "task": "sst2", "data": "data", "metric": "accuracy", "tasks": {"sst2": "data"}, "metrics": {"sst2": "accuracy"},
    "corpus": "corpus", "teacher": BASE, "student": "transformer", "init": "random", "objective": "vanilla_kd",
    "procedure": "one_stage", "seed": 0,
}  # fmt: skip
Kind = TypeVar("Kind", bound=Run)


def a_run(kind: type[Kind], **changes: Any) -> Kind:
    """A run of a kind, usual but for the changes."""
    known = {field.name for field in dataclasses.fields(kind)}
    given = {name: value for name, value in USUAL.items() if name in known} | {"settings": settings()} | changes
    return kind(**given | {"settings": Settings(given["settings"])})


def workspace_of(folder: Path, argument: object = "", **changes: Any) -> Workspace:
    """Where a run in `folder` finds what it needs: its teacher is Hugging Face's at `argument`."""
    given = {
        "run": folder, "runs": folder, "cache": folder / "cache", "source": "", "corpus": "", "files": {},
        "teacher": TeacherName("huggingface", str(argument)), "plugins": (), "outputs": {},
    }  # fmt: skip
    return Workspace(**given | changes)  # type: ignore[arg-type]


def every(number: int) -> Callable[[Timer, float], bool]:
    """In the place of Timer.due: that many questions are as long as any time."""
    asked = itertools.count(1)
    return lambda timer, seconds: next(asked) % number == 0


def ignore(entry: dict[str, Any]) -> None:
    """Listen to a run, and do nothing."""


def regime(folder: Path, settings: Mapping[str, Any], **changes: Any) -> Regime:
    """To train by these settings on the CPU, with a checkpoint in `folder`."""
    given = {"seed": 0, "device": CPU, "clock": Clock(), "tell": ignore}
    return Regime(settings, checkpoint=Checkpoint(folder / CHECKPOINT, "code"), **given | changes)  # type: ignore[arg-type]


def examples(count: int, seed: int = 0) -> Encoded:
    """`count` examples of 3 to 7 tokens; the label says whether token 5 occurs."""
    generator = torch.Generator().manual_seed(seed)
    sizes = torch.randint(3, 8, (count,), generator=generator)
    tokens = torch.randint(1, VOCABULARY, (count, 7), generator=generator)
    mask = (torch.arange(7) < sizes[:, None]).int()
    tokens = tokens.int() * mask
    labels = (tokens == 5).any(1).long()
    keys = np.array([hash_of(row) for row in tokens.tolist()], np.uint64)
    return Encoded(torch.arange(count), labels, keys, ({"input_ids": tokens, "attention_mask": mask},), (sizes,))


def hash_of(tokens: list[int]) -> int:
    number = 7
    for token in tokens:
        number = (number * 1_000_003 + token) % 2**64
    return number


def settings(**changes: Any) -> Settings:
    usual = {name: h.default for name, h in TRAINING.items()} | {"batch_size": 8, "learning_rate": 0.01}
    return Settings(usual | changes)


class Bag(nn.Module):
    """Mean of word vectors (B, L, D) -> (B, D), with dropout, then a linear layer to 2 logits."""

    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(VOCABULARY, 8)
        self.drop = nn.Dropout(0.2)
        self.head = nn.Linear(8, 2)

    def forward(self, batch: Batch, want: Want) -> Outputs:
        mask = batch.mask.unsqueeze(-1)
        sentence = (self.words(batch.encodings[0]["input_ids"]) * mask).sum(1) / mask.sum(1)
        return Outputs(logits=self.head(self.drop(sentence)))


def emit(batch: Batch, want: Want) -> Outputs:
    """Signals that are a plain function of the tokens: 2 heads, width 4."""
    tokens = batch.encodings[0]["input_ids"].float()  # (B, L)
    mask = batch.mask.float()

    def states(layer: int) -> Tensor:
        return torch.stack([tokens * layer, tokens + layer, tokens**2, -tokens], -1) * mask.unsqueeze(-1)

    def scores(layer: int) -> Tensor:
        pair = tokens[:, :, None] * 100 + tokens[:, None, :] + layer
        return torch.stack([pair, -pair], 1) * (mask[:, None, :, None] * mask[:, None, None, :])

    def values(layer: int) -> Tensor:
        return states(layer).unflatten(-1, (2, 2)).transpose(1, 2)  # (B, L, 4) -> (B, 2, L, 2)

    found: dict[str, Any] = {}
    if want.logits:
        found["logits"] = torch.stack([tokens.sum(1), mask.sum(1)], -1)
    if want.sentence:
        found["sentence"] = states(1)[:, 0]
    if want.embeddings:
        found["embeddings"] = states(0)
    return Outputs(
        hidden_states={layer: states(layer) for layer in want.hidden_states},
        attention_scores={layer: scores(layer) for layer in want.attention_scores},
        values={layer: values(layer) for layer in want.values},
        queries={layer: values(layer + 10) for layer in want.queries},
        keys={layer: values(layer + 20) for layer in want.keys},
        **found,
    )
