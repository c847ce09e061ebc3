"""Losses on the probabilities of classes: other divergences, the teacher's own answers, decoupled KD, DIST."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from harness.contracts import Batch, Hyperparameter, LayerMap, ModelInfo, Outputs, Signal, Task
from harness.objectives.prediction import _LogitMatching
from harness.objectives.relational import directions
from harness.registry import objective

TEMPERATURE = Hyperparameter(2.0, low=1.0, high=10.0, log=True, says="what logits are divided by before the softmax")
WEIGHT = Hyperparameter(1.0, low=0.0, high=10.0)


class OfClasses(_LogitMatching):
    """Refuses scores, of which there are no probabilities."""

    @classmethod
    def refuse(cls, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
        if task.classification:
            return super().refuse(student, teacher, task)
        return f"{cls.name} compares probabilities of classes, but task {task.name} has scores; logit_mse learns them"


class _Divergence(OfClasses):
    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap, *, temperature: float):
        super().__init__(student, teacher, layers)
        self.temperature = temperature

    def softened(self, *outputs: Outputs) -> list[Tensor]:
        """Logarithms of probabilities, (B, C) each."""
        return [(one.logits / self.temperature).log_softmax(-1) for one in outputs]


def divergence(p: Tensor, q: Tensor) -> Tensor:
    """KL(p || q) of logarithms of probabilities (B, C), mean over the batch."""
    return F.kl_div(q, p, reduction="batchmean", log_target=True)


@objective("reverse_kl", needs={Signal.LOGITS}, stage="prediction", hyperparameters={"temperature": TEMPERATURE})
class ReverseKL(_Divergence):
    r"""T^2 KL(softmax(z_S / T) || softmax(z_T / T)), mean over the batch: Gu et al. (2024), MiniLLM, section 2.

    $$
    T^2 \, \frac{1}{B} \sum_{b} \operatorname{KL}\left(\operatorname{softmax}(z^S_b / T) \,\|\,
    \operatorname{softmax}(z^T_b / T)\right)
    $$

    It seeks a mode of the teacher's where vanilla_kd's soft loss covers all.
    """

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        ours, theirs = self.softened(student, teacher)
        return self.temperature**2 * divergence(ours, theirs.detach())


@objective("jensen_shannon", needs={Signal.LOGITS}, stage="prediction", hyperparameters={"temperature": TEMPERATURE})
class JensenShannon(_Divergence):
    r"""T^2 (KL(p_T || m) + KL(p_S || m)) / 2, m = (p_T + p_S) / 2, p = softmax(z / T), mean over the batch.

    $$
    T^2 \, \frac{1}{B} \sum_{b} \frac{\operatorname{KL}(p^T_b \,\|\, m_b) + \operatorname{KL}(p^S_b \,\|\, m_b)}{2},
    \quad m = \frac{p^T + p^S}{2}, \quad p = \operatorname{softmax}(z / T)
    $$

    Lin (1991), Divergence Measures Based on the Shannon Entropy; Agarwal et al. (2024), GKD, with beta 1/2.
    """

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        ours, theirs = self.softened(student, teacher)
        theirs = theirs.detach()
        middle = torch.logaddexp(ours, theirs) - math.log(2)
        return self.temperature**2 * (divergence(theirs, middle) + divergence(ours, middle)) / 2


@objective("hard_labels", needs={Signal.LOGITS}, stage="prediction")
class HardLabels(OfClasses):
    r"""Cross-entropy with the class that the teacher finds likeliest, mean over the batch.

    $$ -\frac{1}{B} \sum_{b} \log \operatorname{softmax}(z^S_b)_{c_b}, \quad c_b = \arg\max_c z^T_{b c} $$

    Touvron et al. (2021), DeiT, Eq. 3, whose loss is 0.5*hard_labels+0.5*labels_only.
    """

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        return F.cross_entropy(student.logits, teacher.logits.argmax(-1))


@objective(
    "dkd",
    needs={Signal.LOGITS},
    stage="prediction",
    labels=True,
    hyperparameters={
        "temperature": replace(TEMPERATURE, default=4.0),
        "target_weight": replace(WEIGHT, says="of the labelled class against all others together; their alpha"),
        "others_weight": replace(WEIGHT, default=8.0, says="of the other classes among themselves; their beta"),
    },
)
class DecoupledKD(OfClasses):
    r"""T^2 (a KL(b_T || b_S) + w KL(o_T || o_S)), mean over the batch: Zhao et al. (2022), Decoupled KD, Eq. 7.

    $$
    \frac{T^2}{B} \sum_{j} \left(\alpha \operatorname{KL}(b^T_j \,\|\, b^S_j) + \beta \operatorname{KL}(o^T_j \,\|\,
    o^S_j)\right)
    $$

    Alpha is `target_weight`, beta `others_weight`.

    b: the probabilities of the labelled class and of all others together; o: those of the others among themselves, all
    of softmax(z / T). The published loss adds labels_only. Of two classes there is one other: o teaches nothing.
    """

    def __init__(
        self,
        student: ModelInfo,
        teacher: ModelInfo,
        layers: LayerMap,
        *,
        temperature: float,
        target_weight: float,
        others_weight: float,
    ):
        super().__init__(student, teacher, layers)
        self.temperature, self.target_weight, self.others_weight = temperature, target_weight, others_weight

    @classmethod
    def idle(cls, task: Task) -> frozenset[str]:
        return frozenset({"others_weight"}) if task.outputs == 2 else frozenset()

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        ours, theirs = (self._parts(one.logits, batch.labels) for one in (student, teacher))
        target, others = (divergence(p.detach(), q) for p, q in zip(theirs, ours, strict=True))
        return self.temperature**2 * (self.target_weight * target + self.others_weight * others)

    def _parts(self, logits: Tensor, labels: Tensor) -> tuple[Tensor, Tensor]:
        """Logarithms of (b, o): (B, 2) and (B, C - 1)."""
        softened = logits / self.temperature
        places = torch.arange(logits.shape[-1] - 1, device=labels.device)  # of C classes all but one
        others = places + (places >= labels[:, None])  # (B, C - 1)
        own, others = softened.gather(1, labels[:, None]), softened.gather(1, others)
        both = torch.cat([own, others.logsumexp(1, keepdim=True)], 1)
        return both.log_softmax(1), others.log_softmax(1)


@objective(
    "dist",
    needs={Signal.LOGITS},
    stage="prediction",
    hyperparameters={
        "temperature": replace(TEMPERATURE, default=1.0),
        "inter_weight": replace(WEIGHT, says="of the correlation over an example's classes; their beta"),
        "intra_weight": replace(WEIGHT, says="of the correlation over a batch's examples, class by class; their gamma"),
    },
)
class DIST(OfClasses):
    r"""T^2 (b (1 - mean r of rows) + g (1 - mean r of columns)) of softmax(z / T), (B, C); r is Pearson's correlation.

    $$
    T^2 \left(\beta \left(1 - \frac{1}{B} \sum_{b} r(p^S_{b \cdot}, p^T_{b \cdot})\right) + \gamma \left(1 - \frac{1}{C}
    \sum_{c} r(p^S_{\cdot c}, p^T_{\cdot c})\right)\right), \quad p = \operatorname{softmax}(z / T)
    $$

    Beta is `inter_weight`, gamma `intra_weight`.

    Huang et al. (2022), Knowledge Distillation from a Stronger Teacher: between the classes of an example, and within a
    class between the examples of a batch. The published loss adds labels_only. Rows of two classes correlate by 1 or -1
    whatever they are, and teach nothing; nor do the columns of a batch of one.
    """

    def __init__(
        self,
        student: ModelInfo,
        teacher: ModelInfo,
        layers: LayerMap,
        *,
        temperature: float,
        inter_weight: float,
        intra_weight: float,
    ):
        super().__init__(student, teacher, layers)
        self.temperature, self.inter_weight, self.intra_weight = temperature, inter_weight, intra_weight

    @classmethod
    def idle(cls, task: Task) -> frozenset[str]:
        return frozenset({"inter_weight"}) if task.outputs == 2 else frozenset()

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        ours, theirs = ((one.logits / self.temperature).softmax(-1) for one in (student, teacher))
        theirs = theirs.detach()
        inter, intra = 1 - _correlation(ours, theirs).mean(), 1 - _correlation(ours.T, theirs.T).mean()
        return self.temperature**2 * (self.inter_weight * inter + self.intra_weight * intra)


def _correlation(x: Tensor, y: Tensor) -> Tensor:
    """Pearson's, of each row of x with that of y: (N, M) -> (N,); 0 of a constant row."""
    return (directions(x - x.mean(1, keepdim=True)) * directions(y - y.mean(1, keepdim=True))).sum(1)
