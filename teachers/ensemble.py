"""Several teachers as one, which says the mean of their probabilities: `--teacher a+b`."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from transformers import PreTrainedModel, PreTrainedTokenizerBase

from harness.contracts import ModelInfo, Signal, Task
from harness.errors import UserError
from harness.modeling.bases import Teacher
from harness.registry import teacher, teacher_named

WHY = "an ensemble says the mean of its members' probabilities, and nothing else is one for all of them"


@teacher("ensemble")
class Ensemble(Teacher):
    """Teachers joined by +, such as minilm+bert-base-uncased. Each is fine-tuned as it would be alone, and reads with
    its own tokenizer; students are built in the sizes of the first, and read as it does where they have no vocabulary
    of their own.
    """

    def __init__(self, argument: str = ""):
        super().__init__(argument)
        names = [name.strip() for name in argument.split("+")]
        if len(names) < 2 or not all(names):
            raise UserError("an ensemble needs two or more teachers joined by +, as in minilm+bert-base-uncased")
        self.members: Sequence[Teacher] = [teacher_named(name) for name in names]
        for one in self.members:
            if one.pretraining() is not None:
                raise UserError(f"teacher {one.name} is pre-trained anew, so it cannot be part of an ensemble")

    def info(self, task: Task) -> ModelInfo:
        first = self.members[0].info(task)
        return replace(
            first,
            name=" + ".join(one.info(task).name for one in self.members),
            emits=frozenset({Signal.LOGITS}),
            lacks={signal.value: WHY for signal in sorted(set(Signal) - {Signal.LOGITS})},
            uncopied="an ensemble has no layers of its own",
            students_alike=first.students_alike and Signal.HIDDEN_STATES not in first.emits,
        )

    def content(self) -> str:
        told = "".join(f"{one.name} {one.content()}\n" for one in self.members)
        return hashlib.sha256(told.encode()).hexdigest()

    def parts(self) -> Sequence[Path] | None:
        found = [one.parts() for one in self.members]
        return None if None in found else [path for parts in found for path in parts or ()]

    def tokenizer(self) -> PreTrainedTokenizerBase:
        return self.members[0].tokenizer()

    def answers(self, task: Task) -> bool:
        return all(one.answers(task) for one in self.members)

    def configuration(self) -> dict[str, Any]:
        return self.members[0].configuration()

    def model(self, task: Task, weights: Path | None) -> PreTrainedModel:
        raise UserError("an ensemble is several models, which are loaded one by one")

    def masked_language_model(self, weights: Path | None = None) -> PreTrainedModel:
        return self.members[0].masked_language_model(weights)  # where words are replaced: any model will do

    def predicts_masked(self) -> bool:
        return self.members[0].predicts_masked()
