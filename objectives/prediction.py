"""Losses on the layer that answers the task: labels alone, vanilla knowledge distillation, logit matching."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from harness.contracts import Batch, Hyperparameter, LayerMap, ModelInfo, Outputs, Signal, Task, Want
from harness.modeling.bases import Objective
from harness.registry import objective

NO_CANDIDATE = -1e9  # a logit that takes no part in a softmax, nor in its gradient


def label_loss(logits: Tensor, batch: Batch) -> Tensor:
    """Cross-entropy for classes, mean squared error for float scores. logits: (B, C).

    For candidates that are ranked, the negative log likelihood of the right one among those of its question: Liu et al.
    (2019), MT-DNN, Eqs. 7 and 8 with gamma 1, as a mean; liu2020, section 4.1.1, refers to it.
    """
    if batch.groups is not None:
        choices = choices_of(logits, batch)
        return F.cross_entropy(choices, torch.zeros(len(choices), dtype=torch.int64, device=choices.device))
    if batch.labels.is_floating_point():
        return F.mse_loss(logits.squeeze(-1), batch.labels.to(logits.dtype))
    return F.cross_entropy(logits, batch.labels)


def choices_of(scores: Tensor, batch: Batch) -> Tensor:
    """The choices among ranked candidates as rows of logits (R, B + 2), what is right in the first column.

    scores: (B, 1). Every right candidate (class 0) is set beside the wrong ones of its question. One without rivals, of
    which the texts say nothing, is set beside a score of 0: as right, or the 0 as right where it is wrong.
    """
    score, right = scores.squeeze(-1), batch.labels == 0  # (B,) each
    same = batch.groups.unsqueeze(1) == batch.groups  # type: ignore[union-attr]  # (B, B)
    rivals = same & right.unsqueeze(1) & ~right  # of the row's candidate, in the columns
    alone = ~(rivals.any(1) | rivals.any(0))
    others = rivals | torch.diag(alone & ~right)
    absent = torch.full_like(score, NO_CANDIDATE)
    rows = [
        torch.where(right, score, 0).unsqueeze(1),
        torch.where(others, score, absent),
        torch.where(alone & right, 0, absent).unsqueeze(1),
    ]
    return torch.cat(rows, 1)[right | alone]


class _LogitMatching(Objective):
    @classmethod
    def refuse(cls, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
        if student.labels == teacher.labels:
            return ""
        return (
            f"{cls.name} compares logits one to one, but the student has {student.labels} on task {task.name} "
            f"and teacher {teacher.name} has {teacher.labels}"
        )


@objective("labels_only", needs={Signal.LOGITS}, stage="prediction", ranks=True, labels=True)
class LabelsOnly(Objective):
    r"""No distillation: the task's own loss. The teacher is asked for nothing.

    $$
    -\frac{1}{B} \sum_{b} \log \operatorname{softmax}(z^S_b)_{y_b} \quad \text{or, of scores,} \quad \frac{1}{B}
    \sum_{b} (z^S_b - y_b)^2
    $$

    Candidates that are ranked: the negative log likelihood of the right one among those of its question.
    """

    @classmethod
    def wants(cls, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
        return Want(logits=True), Want()

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        return label_loss(student.logits, batch)


@objective(
    "vanilla_kd",
    needs={Signal.LOGITS},
    stage="prediction",
    ranks=True,
    labels={"soft_weight": 1.0},
    hyperparameters={
        "temperature": Hyperparameter(
            2.0, low=1.0, high=10.0, log=True, search=(1.0, 8.0), says="what logits are divided by before the softmax"
        ),
        "soft_weight": Hyperparameter(
            0.5, low=0.0, high=1.0, alias="alpha", search=(0.2, 1.0), says="of the teacher; the rest is the labels'"
        ),
    },
)
class VanillaKD(_LogitMatching):
    r"""w T^2 CE(softmax(z_T / T), softmax(z_S / T)) + (1 - w) label loss, w the soft weight, means over the batch.

    $$
    w \, T^2 \, \frac{1}{B} \sum_{b} \operatorname{CE}\left(\operatorname{softmax}(z^T_b / T),
    \operatorname{softmax}(z^S_b / T)\right) + (1 - w) \, \frac{1}{B} \sum_{b} \operatorname{CE}\left(y_b,
    \operatorname{softmax}(z^S_b)\right)
    $$

    Hinton et al. (2015), section 2; wang2023, section 3, whose alpha is w. T^2 keeps the soft gradient's size whatever
    T. A score has no softmax: where C = 1 the soft loss is the squared distance of the scores, and the temperature
    cannot act. Where candidates are ranked, both softmaxes are over those of `choices_of`.
    """

    def __init__(
        self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap, *, temperature: float, soft_weight: float
    ):
        super().__init__(student, teacher, layers)
        self.temperature, self.soft_weight = temperature, soft_weight

    @classmethod
    def refuse(cls, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
        if task.ranking and not task.labelled:
            return (
                f"{cls.name} sets right candidates beside wrong ones, and {task.name} is to be trained without labels"
            )
        return super().refuse(student, teacher, task)

    @classmethod
    def idle(cls, task: Task) -> frozenset[str]:
        return frozenset() if task.classification else frozenset({"temperature"})

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        ours, theirs = student.logits, teacher.logits.detach()  # (B, C) each
        if batch.groups is not None:
            ours, theirs = choices_of(ours, batch), choices_of(theirs, batch)
        if ours.shape[-1] == 1:
            soft = F.mse_loss(ours, theirs)
        else:
            soft = self.temperature**2 * F.cross_entropy(
                ours / self.temperature, (theirs / self.temperature).softmax(-1)
            )
        if self.soft_weight == 1:  # there may be no labels
            return soft
        return self.soft_weight * soft + (1 - self.soft_weight) * label_loss(student.logits, batch)


@objective("logit_mse", needs={Signal.LOGITS}, stage="prediction", ranks=True)
class LogitMSE(_LogitMatching):
    r"""Mean of (z_S - z_T)^2 over batch and classes: liu2020, Eq. 3.4, as a mean; Tang et al. (2019).

    $$ \frac{1}{B C} \sum_{b, c} \left(z^S_{b c} - z^T_{b c}\right)^2 $$

    Of candidates that are ranked the one score: liu2020, Eq. 4.14, has the same loss for every kind of task.
    """

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        return F.mse_loss(student.logits, teacher.logits.detach())
