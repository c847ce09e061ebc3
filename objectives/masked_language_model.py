"""Distillation of a masked language model on unlabelled text."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from harness.contracts import Batch, Hyperparameter, LayerMap, ModelInfo, Outputs, Signal, Want
from harness.modeling.bases import Objective
from harness.registry import objective


@objective(
    "mlm_kd",
    needs={Signal.MLM_LOGITS},
    hyperparameters={
        # The alpha of records weighs the cross-entropy with the masked tokens.
        "soft_weight": Hyperparameter(
            0.5, low=0.0, high=1.0, alias="alpha", complement=True, says="of the teacher; the rest is the tokens'"
        ),
        "temperature": Hyperparameter(
            1.0, low=1.0, high=10.0, log=True, says="what logits are divided by before the softmax"
        ),
    },
)
def mlm_kd(student: Outputs, teacher: Outputs, batch: Batch, *, soft_weight: float, temperature: float) -> Tensor:
    r"""(1 - w) CE(y, z_S) + w T^2 KL(softmax(z_T / T) || softmax(z_S / T)), w the soft weight, means over the tokens.

    $$
    -\frac{1 - w}{P} \sum_{p} \log \operatorname{softmax}(z^S_p)_{y_p} + \frac{w \, T^2}{P} \sum_{p}
    \operatorname{KL}\left(\operatorname{softmax}(z^T_p / T) \,\|\, \operatorname{softmax}(z^S_p / T)\right)
    $$

    galke2022, sections III-B and IV-A: equal weights, no next-sentence prediction. y: the tokens that were masked.
    """
    targets = _masked_tokens(batch)
    ours, theirs = student.mlm_logits, teacher.mlm_logits.detach()  # (P, V) each
    hard = F.cross_entropy(ours, targets)
    soft = F.kl_div(
        (ours / temperature).log_softmax(-1), (theirs / temperature).log_softmax(-1), log_target=True, reduction="sum"
    )
    return (1 - soft_weight) * hard + soft_weight * temperature**2 * soft / len(targets)


@objective("mlm", needs={Signal.MLM_LOGITS})
class MaskedLanguageModel(Objective):
    r"""Cross-entropy with the tokens that were masked (Devlin et al., 2019, section 3.1). The teacher is not asked.

    $$ -\frac{1}{P} \sum_{p} \log \operatorname{softmax}(z^S_p)_{y_p} $$

    P: the masked tokens of the batch, y what they were.
    """

    @classmethod
    def wants(cls, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
        return Want(mlm_logits=True), Want()

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        return F.cross_entropy(student.mlm_logits, _masked_tokens(batch))


def _masked_tokens(batch: Batch) -> Tensor:
    """(P,) the tokens to predict, row by row."""
    if batch.targets is None:
        raise TypeError("a masked-language-model objective was given a batch without targets")
    return batch.targets.flatten()[batch.predicted]
