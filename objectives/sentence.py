"""The objective of sentence representation approximation."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from harness.contracts import Batch, ModelInfo, Outputs, Signal, Task
from harness.modeling.bases import Objective
from harness.registry import objective


@objective("cosine", needs={Signal.SENTENCE})
class Cosine(Objective):
    """1/2 (1 - cos(T_x, S_x)) of the sentence vectors, mean over the batch: wu2020, Eq. 1. Between 0 and 1."""

    @classmethod
    def refuse(cls, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
        widths = [model.sentence_width or model.width for model in (student, teacher)]
        if widths[0] == widths[1]:
            return ""
        return (
            f"{cls.name} compares sentence vectors of one width, but the student's is {widths[0]} "
            f"and that of teacher {teacher.name} is {widths[1]}"
        )

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        theirs = teacher.sentence.detach()
        return 0.5 * (1 - F.cosine_similarity(student.sentence, theirs, dim=-1)).mean()
