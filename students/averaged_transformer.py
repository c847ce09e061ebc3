"""A transformer student that answers from the average of all layers' [CLS] states (liu2020, section 4.1.3)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from harness.contracts import Batch, Hyperparameter, ModelInfo, Outputs, Signal, Task, Want
from harness.modeling.bases import StudentConfig
from harness.modeling.signals import emit
from harness.registry import student
from harness.students.transformer import LAYERS, Transformer

HEAD_UNITS = Hyperparameter(512, low=1, says="of the ReLU layer before the answers")


@student(
    "averaged_transformer",
    hyperparameters={"layers": LAYERS, "head_units": HEAD_UNITS},
    emits=set(Signal),
    head_settings=("head_units",),
)
class AveragedTransformer(Transformer):
    """`transformer` without pooler, whose `sentence` is the average of all layers' first states, under a ReLU layer."""

    def __init__(self, config: StudentConfig):
        super().__init__(config)
        units = HEAD_UNITS.check("head_units", config.settings.get("head_units", HEAD_UNITS.default))
        if config.outputs:
            for name in [name for name, _ in self.model.named_children() if name != self.model.base_model_prefix]:
                delattr(self.model, name)  # the library's head
            if getattr(self.model.base_model, "pooler", None) is not None:
                setattr(self.model.base_model, "pooler", None)  # noqa: B010 - unknown to type checkers
            width = self.model.config.hidden_size
            self.head = nn.Sequential(nn.Linear(width, units), nn.ReLU(), nn.Linear(units, config.outputs))

    @classmethod
    def describe(cls, settings: Mapping[str, Any], teacher: ModelInfo, task: Task) -> ModelInfo:
        HEAD_UNITS.check("head_units", settings.get("head_units", HEAD_UNITS.default))
        return super().describe(settings, teacher, task)

    @classmethod
    def refuse_teacher(cls, init: str, settings: Mapping[str, Any], teacher: ModelInfo) -> str:
        if teacher.students_alike and Signal.HIDDEN_STATES not in teacher.emits:  # nor can a student of its kind
            return f"{cls.name} averages hidden states, which {teacher.name} does not emit"
        return super().refuse_teacher(init, settings, teacher)

    def plain(self) -> None:
        """transformers has no such head."""

    def forward(self, batch: Batch, want: Want) -> Outputs:
        averaged = frozenset(range(1, self.model.config.num_hidden_layers + 1) if want.sentence or want.logits else ())
        inner = replace(want, logits=False, sentence=False, hidden_states=want.hidden_states | averaged)
        outputs = emit(self.model, batch.encodings[0], inner, predicted=batch.predicted)
        states = outputs.hidden_states
        outputs.hidden_states = {layer: states[layer] for layer in sorted(want.hidden_states)}
        if averaged:
            average = torch.stack([states[layer][:, 0] for layer in sorted(averaged)]).mean(0)  # (B, D)
            if want.sentence:
                outputs.sentence = average
            if want.logits:
                outputs.logits = self.head(average)
        return outputs
