"""Losses on the layer that answers the task: labels alone, vanilla knowledge distillation, logit matching."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from harness.contracts import Batch, Hyperparameter, LayerMap, ModelInfo, Outputs, Signal, Task, Want
from harness.modeling.bases import Objective
from harness.registry import objective


def label_loss(logits: Tensor, labels: Tensor) -> Tensor:
    """Cross-entropy for classes, mean squared error for float scores. logits: (B, C); labels: (B,)."""
    if labels.is_floating_point():
        return F.mse_loss(logits.squeeze(-1), labels.to(logits.dtype))
    return F.cross_entropy(logits, labels)


class _LogitMatching(Objective):
    @classmethod
    def refuse(cls, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
        if student.labels == teacher.labels:
            return ""
        return (
            f"{cls.name} compares logits one to one, but the student has {student.labels} on task {task.name} "
            f"and teacher {teacher.name} has {teacher.labels}"
        )


@objective("labels_only", needs={Signal.LOGITS}, stage="prediction")
class LabelsOnly(Objective):
    """No distillation: the task's own loss. The teacher is asked for nothing."""

    @classmethod
    def wants(cls, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
        return Want(logits=True), Want()

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        return label_loss(student.logits, batch.labels)


@objective(
    "vanilla_kd",
    needs={Signal.LOGITS},
    stage="prediction",
    hyperparameters={
        "temperature": Hyperparameter(2.0, low=1.0, high=10.0, log=True),
        "soft_weight": Hyperparameter(0.5, low=0.0, high=1.0, alias="alpha"),  # the rest is the labels'
    },
)
class VanillaKD(_LogitMatching):
    """w T^2 CE(softmax(z_T / T), softmax(z_S / T)) + (1 - w) label loss, w the soft weight, means over the batch.

    Hinton et al. (2015), section 2; wang2023, section 3, whose alpha is w. T^2 keeps the soft gradient's size whatever
    T. A score has no softmax: where C = 1 the soft loss is the squared distance of the scores, and the temperature
    cannot act.
    """

    def __init__(
        self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap, *, temperature: float, soft_weight: float
    ):
        super().__init__(student, teacher, layers)
        self.temperature, self.soft_weight = temperature, soft_weight

    @classmethod
    def idle(cls, task: Task) -> frozenset[str]:
        return frozenset() if task.classification else frozenset({"temperature"})

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        ours, theirs = student.logits, teacher.logits.detach()  # (B, C) each
        if ours.shape[-1] == 1:
            soft = F.mse_loss(ours, theirs)
        else:
            soft = self.temperature**2 * F.cross_entropy(
                ours / self.temperature, (theirs / self.temperature).softmax(-1)
            )
        return self.soft_weight * soft + (1 - self.soft_weight) * label_loss(ours, batch.labels)


@objective("logit_mse", needs={Signal.LOGITS}, stage="prediction")
class LogitMSE(_LogitMatching):
    """Mean of (z_S - z_T)^2 over batch and classes: liu2020, Eq. 3.4, as a mean; Tang et al. (2019)."""

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        return F.mse_loss(student.logits, teacher.logits.detach())
