"""Transfer of self-attention from the last layer to the last, whatever the layer map: MiniLM and MiniLMv2."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from harness.contracts import Batch, Hyperparameter, LayerMap, ModelInfo, Outputs, Signal, Want
from harness.modeling.bases import Objective
from harness.objectives.attention import AttentionKL, relation_kl, value_relation
from harness.registry import objective


def last_layers(student: ModelInfo, teacher: ModelInfo) -> LayerMap:
    return LayerMap(((student.layers, teacher.layers),))


@objective("minilm", needs={Signal.ATTENTION_SCORES, Signal.VALUES}, token_level=True)
class MiniLM(AttentionKL):
    """att_kl plus val_kl of the last layers: Wang et al. (2020), MiniLM, sections 3.1 and 3.2."""

    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap):
        super().__init__(student, teacher, last_layers(student, teacher))

    @classmethod
    def wants(cls, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
        return super().wants(student, teacher, last_layers(student, teacher))

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        (ours, theirs), *_ = self.pairs
        values = value_relation(student.values[ours]), value_relation(teacher.values[theirs].detach())
        return super().forward(student, teacher, batch) + relation_kl(*values, batch.mask)


@objective(
    "minilmv2",
    needs={Signal.QUERIES, Signal.KEYS, Signal.VALUES},
    token_level=True,
    hyperparameters={
        "relation_heads": Hyperparameter(
            48, choices=(1, 2, 4, 8, 12, 16, 24, 32, 48, 64), says="or the most of its divisors that divide both widths"
        ),
    },
)
class MiniLMv2(Objective):
    """KL(R_T || R_S), R = softmax(X X^T / sqrt(d)) over the real tokens; X queries, keys, values in turn, and summed.

    Wang et al. (2021), MiniLMv2, section 3.1. Of the last layers the heads are put side by side and cut into relation
    heads of width d, as many on both sides, so that student and teacher may have different numbers of heads. Mean over
    relation heads and real tokens. 48 is theirs for a teacher of BERT-base's size; of a large one they take a layer
    before the last, which is not offered here.
    """

    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap, *, relation_heads: int):
        super().__init__(student, teacher, layers)
        self.layer, self.teacher_layer = student.layers, teacher.layers
        self.heads = math.gcd(relation_heads, student.width, teacher.width)

    @classmethod
    def wants(cls, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
        return super().wants(student, teacher, last_layers(student, teacher))

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        losses = [
            relation_kl(
                self._relation(ours[self.layer]), self._relation(theirs[self.teacher_layer].detach()), batch.mask
            )
            for ours, theirs in (
                (student.queries, teacher.queries),
                (student.keys, teacher.keys),
                (student.values, teacher.values),
            )
        ]
        return torch.stack(losses).sum()

    def _relation(self, vectors: Tensor) -> Tensor:
        """(B, H, L, D / H) -> (B, relation heads, L, L)."""
        joined = vectors.transpose(1, 2).flatten(2)  # (B, L, D)
        return value_relation(joined.unflatten(-1, (self.heads, -1)).transpose(1, 2))
