"""Transfer of attention and of value relations, head by head (wang2023, section 3, Attention and Value Transfer)."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from harness.contracts import Batch, LayerMap, ModelInfo, Outputs, Signal, Task
from harness.modeling.bases import Objective
from harness.registry import objective


class _HeadByHead(Objective):
    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap):
        super().__init__(student, teacher, layers)
        self.pairs = layers.pairs

    @classmethod
    def refuse(cls, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
        if student.heads == teacher.heads:
            return ""
        return (
            f"{cls.name} compares attention heads one to one, but the student has {student.heads} "
            f"and teacher {teacher.name} has {teacher.heads}"
        )


def relation_kl(student: Tensor, teacher: Tensor, batch: Batch) -> Tensor:
    """KL(teacher || student) of softmaxed scores over the real keys, mean over real queries and heads.

    student, teacher: (B, H, L, L) scores before softmax. Taken in log space, so that no
    probability needs a floor.
    """
    padded = ~batch.mask[:, None, None, :]
    lowest = torch.finfo(student.dtype).min  # not -inf: the difference of two padded keys must be a number
    log_student = student.masked_fill(padded, lowest).log_softmax(-1)
    log_teacher = teacher.masked_fill(padded, lowest).log_softmax(-1)
    divergence = F.kl_div(log_student, log_teacher, reduction="none", log_target=True).sum(-1)  # (B, H, L)
    return batch.real(divergence.mean(1)).mean()


def value_relation(values: Tensor) -> Tensor:
    """V V^T / sqrt(d): (B, H, L, d) -> (B, H, L, L)."""
    return values @ values.transpose(-1, -2) * values.shape[-1] ** -0.5


@objective("att_mse", needs={Signal.ATTENTION_SCORES}, token_level=True)
class AttentionMSE(_HeadByHead):
    r"""MSE(A_S, A_T) before softmax, mean over heads and pairs of real tokens, summed over the mapped layers.

    $$ \sum_{(l, m)} \frac{1}{H |R|} \sum_{h} \sum_{(i, j) \in R} \left(A^S_{l h i j} - A^T_{m h i j}\right)^2 $$

    R: the pairs of real tokens of one text, of all texts of the batch; H heads; (l, m) the mapped layers.
    """

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        losses = [
            batch.real_pairs(
                (student.attention_scores[ours] - teacher.attention_scores[theirs].detach()).square().mean(1)
            )
            for ours, theirs in self.pairs
        ]
        return torch.stack([loss.mean() for loss in losses]).sum()


@objective("att_kl", needs={Signal.ATTENTION_SCORES}, token_level=True)
class AttentionKL(_HeadByHead):
    r"""KL(a_T || a_S) of the attention distributions, mean over real queries and heads, summed over mapped layers.

    $$
    \sum_{(l, m)} \frac{1}{H n} \sum_{h, i} \operatorname{KL}\left(\operatorname{softmax}(A^T_{m h i}) \,\|\,
    \operatorname{softmax}(A^S_{l h i})\right)
    $$

    A: scores before softmax; n real queries of the batch, H heads, (l, m) the mapped layers.
    """

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        losses = [
            relation_kl(student.attention_scores[ours], teacher.attention_scores[theirs].detach(), batch)
            for ours, theirs in self.pairs
        ]
        return torch.stack(losses).sum()


@objective("val_kl", needs={Signal.VALUES}, token_level=True)
class ValueKL(_HeadByHead):
    r"""KL of softmax(V V^T / sqrt(d)), as in att_kl, d the head's width: Wang et al. (2020), MiniLM, section 3.2.

    $$
    \sum_{(l, m)} \frac{1}{H n} \sum_{h, i} \operatorname{KL}\left(\operatorname{softmax}(R^T_{m h i}) \,\|\,
    \operatorname{softmax}(R^S_{l h i})\right), \quad R = \frac{V V^\top}{\sqrt{d}}
    $$

    V: a head's values, (L, d); n real tokens of the batch, H heads, (l, m) the mapped layers.
    """

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        losses = [
            relation_kl(value_relation(student.values[ours]), value_relation(teacher.values[theirs].detach()), batch)
            for ours, theirs in self.pairs
        ]
        return torch.stack(losses).sum()
