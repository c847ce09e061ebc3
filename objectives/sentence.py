"""The objectives of sentence representation approximation."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from harness.contracts import Batch, Hyperparameter, LayerMap, ModelInfo, Outputs, Signal, Task
from harness.modeling.bases import Objective
from harness.registry import objective

PROJECTION = Hyperparameter(
    "where_needed",
    choices=("where_needed", "always"),
    says="a learned matrix from the student's vectors to the teacher's: where widths differ, or always",
)


@objective("cosine", needs={Signal.SENTENCE}, hyperparameters={"projection": PROJECTION})
class Cosine(Objective):
    r"""1/2 (1 - cos(T_x, W S_x)) of the sentence vectors, mean over the batch. Between 0 and 1.

    $$ \frac{1}{B} \sum_{b} \frac{1 - \cos(t_b, W s_b)}{2} $$

    wu2020, Eq. 1, which has no W: nor is there one here where the widths agree, unless `projection` asks for it.
    Otherwise it is learned, orthogonal at first.
    """

    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap, *, projection: str):
        super().__init__(student, teacher, layers)
        ours, theirs = (model.sentence_width or model.width for model in (student, teacher))
        self.projection: nn.Module = nn.Identity()
        if projection == "always" or ours != theirs:
            self.projection = nn.Linear(ours, theirs, bias=False)
            nn.init.orthogonal_(self.projection.weight)

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        ours, theirs = self.projection(student.sentence), teacher.sentence.detach()
        return 0.5 * (1 - F.cosine_similarity(ours, theirs, dim=-1)).mean()


@objective("pair_cosine", needs={Signal.SENTENCE})
class PairCosine(Objective):
    r"""(cos(S_u, S_v) - cos(T_u, T_v))^2 of the two sentences u, v of a pair, mean over the batch: wu2020, section 5.5.

    $$ \frac{1}{B} \sum_{b} \left(\cos(s_{b u}, s_{b v}) - \cos(t_{b u}, t_{b v})\right)^2 $$

    The sentence vectors of pairs are (B, 2, D) on each side; the widths may differ.
    """

    @classmethod
    def refuse(cls, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
        if not task.pair:
            return f"{cls.name} compares the two sentences of a pair, but task {task.name} has no pairs"
        if student.pair_encoding in ("joint", "biattention"):
            return (
                f"{cls.name} compares sentences read alone, but {student.name} reads a pair as {student.pair_encoding}"
            )
        return ""

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        ours, theirs = student.sentence, teacher.sentence.detach()
        return F.mse_loss(
            F.cosine_similarity(ours[:, 0], ours[:, 1], dim=-1),  # (B, 2, D) -> (B,)
            F.cosine_similarity(theirs[:, 0], theirs[:, 1], dim=-1),
        )
