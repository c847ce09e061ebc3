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
    r"""att_kl plus val_kl of the last layers: Wang et al. (2020), MiniLM, sections 3.1 and 3.2.

    $$
    \frac{1}{H n} \sum_{h, i} \left(\operatorname{KL}(a^T_{h i} \,\|\, a^S_{h i}) + \operatorname{KL}(r^T_{h i} \,\|\,
    r^S_{h i})\right), \quad a = \operatorname{softmax}(A), \quad r = \operatorname{softmax}(R), \quad R = \frac{V
    V^\top}{\sqrt{d}}
    $$

    A: scores before softmax, V: values of width d, of the last layers; n real tokens, H heads.
    """

    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap):
        super().__init__(student, teacher, last_layers(student, teacher))

    @classmethod
    def wants(cls, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
        return super().wants(student, teacher, last_layers(student, teacher))

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        (ours, theirs), *_ = self.pairs
        values = value_relation(student.values[ours]), value_relation(teacher.values[theirs].detach())
        return super().forward(student, teacher, batch) + relation_kl(*values, batch)


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
    r"""KL(R_T || R_S), R = softmax(X X^T / sqrt(d)) over the real tokens; X queries, keys, values in turn, and summed.

    $$
    \sum_{X \in \{Q, K, V\}} \frac{1}{H_r n} \sum_{h, i} \operatorname{KL}\left(R^T_{X h i} \,\|\, R^S_{X h i}\right),
    \quad R_X = \operatorname{softmax}\left(\frac{X X^\top}{\sqrt{d}}\right)
    $$

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
            relation_kl(self._relation(ours[self.layer]), self._relation(theirs[self.teacher_layer].detach()), batch)
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
