"""Controls that ask no teacher: what soft labels do that say nothing of the example."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from harness.contracts import Batch, Hyperparameter, LayerMap, ModelInfo, Outputs, Signal, Task, Want
from harness.modeling.bases import Objective
from harness.registry import objective


@objective(
    "label_smoothing",
    needs={Signal.LOGITS},
    stage="prediction",
    labels=True,
    hyperparameters={
        "smoothing": Hyperparameter(0.1, low=0.0, high=1.0, says="share of the target that all classes have alike")
    },
)
class LabelSmoothing(Objective):
    r"""CE((1 - e) y + e / C, softmax(z_S)), e the smoothing, C classes, mean over the batch. The teacher is not asked.

    $$
    -\frac{1}{B} \sum_{b, c} \left((1 - \varepsilon) \, y_{b c} + \frac{\varepsilon}{C}\right) \log
    \operatorname{softmax}(z^S_b)_c
    $$

    Szegedy et al. (2016), Rethinking the Inception Architecture, section 7.
    """

    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap, *, smoothing: float):
        super().__init__(student, teacher, layers)
        self.smoothing = smoothing

    @classmethod
    def refuse(cls, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
        return "" if task.classification else f"{cls.name} smooths over classes, but {task.name} has scores"

    @classmethod
    def wants(cls, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
        return Want(logits=True), Want()

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        return F.cross_entropy(student.logits, batch.labels, label_smoothing=self.smoothing)
