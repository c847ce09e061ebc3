"""Transfer of hidden states through a learned transformation (wang2023, section 3, Hidden States Transfer)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.contracts import Batch, LayerMap, ModelInfo, Outputs, Signal, Task
from harness.modeling.bases import Objective
from harness.registry import objective


def blind_first_token(objective: str, student: ModelInfo, task: Task) -> str:
    """Why the student's first token cannot stand for its sentence, or ""."""
    if not student.first_token_sees_all:
        return f"{objective} learns from the first token's state, which in {student.name} has seen no other token"
    if task.pair and student.pair_encoding != "joint":
        return f"{objective} learns from the first token of a pair, but {student.name} reads the two sentences apart"
    return ""


class _Transformed(Objective):
    """Holds one W_h (d x d') for each mapped layer: the identity at first where d = d', orthogonal otherwise."""

    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap):
        super().__init__(student, teacher, layers)
        self.pairs = layers.pairs
        self.transformations = nn.ModuleList(nn.Linear(student.width, teacher.width, bias=False) for _ in self.pairs)
        start = nn.init.eye_ if student.width == teacher.width else nn.init.orthogonal_
        for weight in self.parameters():
            start(weight)


@objective("hid_cls", needs={Signal.HIDDEN_STATES})
class HiddenCLS(_Transformed):
    r"""MSE(h_S W_h, h_T) of the first token, mean over batch and width, summed over the mapped layers.

    $$ \sum_{(l, m)} \frac{1}{B d'} \sum_{b} \left\| h^S_{l b 1} W_l - h^T_{m b 1} \right\|^2 $$

    W_l: learned, d x d'; (l, m) the mapped layers; 1 the first token.
    """

    @classmethod
    def refuse(cls, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
        return blind_first_token(cls.name, student, task)

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        losses = [
            F.mse_loss(transform(student.hidden_states[ours][:, 0]), teacher.hidden_states[theirs][:, 0].detach())
            for transform, (ours, theirs) in zip(self.transformations, self.pairs, strict=True)
        ]
        return torch.stack(losses).sum()


@objective("hid_seq", needs={Signal.HIDDEN_STATES}, token_level=True)
class HiddenSequence(_Transformed):
    r"""MSE(H_S W_h, H_T) of the real tokens, mean over tokens and width, summed over the mapped layers.

    $$ \sum_{(l, m)} \frac{1}{n d'} \sum_{i} \left\| h^S_{l i} W_l - h^T_{m i} \right\|^2 $$

    W_l: learned, d x d'; i the n real tokens of the batch; (l, m) the mapped layers.
    """

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        # (B, L, D) -> (real tokens, D): padding is neither transformed nor counted
        losses = []
        for transform, (ours, theirs) in zip(self.transformations, self.pairs, strict=True):
            target = batch.real(teacher.hidden_states[theirs]).detach()
            losses.append(F.mse_loss(transform(batch.real(student.hidden_states[ours])), target))
        return torch.stack(losses).sum()
