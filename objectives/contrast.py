"""Contrastive representation distillation with a memory bank (Tian et al. 2020; Sun et al. 2020; wang2023)."""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.contracts import Batch, Hyperparameter, LayerMap, ModelInfo, Outputs, Signal, Task, Want, onto
from harness.errors import UserError
from harness.modeling.bases import Objective
from harness.objectives.hidden import blind_first_token
from harness.registry import objective

TEMPERATURE = 0.07
MOMENTUM = 0.5


def first_tokens(outputs: Outputs) -> Tensor:
    """(B, layers * D): the first token's state in every layer, side by side."""
    return torch.cat([outputs.hidden_states[layer][:, 0] for layer in sorted(outputs.hidden_states)], -1)


def draw_others(order: Tensor, block: Tensor, number: int) -> Tensor:
    """(B, number) examples of other labels, drawn with replacement by torch's global generator.

    order: (size,) examples sorted by label, so that those of one label are one block; block: (2, B) where the block
    of each example's own label starts and how many it holds.
    """
    start, count = block[:, :, None]
    place = onto(torch.randint(2**62, (len(start), number)), order.device) % (len(order) - count)
    return order[place + count * (place >= start)]


@objective(
    "hid_cls_contrast",
    needs={Signal.HIDDEN_STATES},
    labels=True,
    hyperparameters={
        "width": Hyperparameter(128, low=8, high=1024, log=True, says="numbers of the vectors that are compared"),
        "negatives": Hyperparameter(
            100, low=1, high=16384, log=True, says="examples of other labels that each is compared with"
        ),
    },
)
class HiddenCLSContrast(Objective):
    r"""Noise-contrastive loss: each side's view of an example against the other side's memory of it and of K others.

    $$
    -\frac{1}{B} \sum_{\text{sides}} \sum_{b} \left(\log h(u_b, m_b) + \sum_{k=1}^{K} \log (1 - h(u_b, m_{b k}))\right),
    \quad h(u, m) = \sigma\left(\frac{u \cdot m}{\tau} - \log Z - \log K\right)
    $$

    u = normalised projection of the first token's states in all layers, the embedding layer included;
    h(u, m) = sigmoid(u.m / temperature - log Z - log K); loss = -log h(u, m_own) - sum of log(1 - h(u, m_other)),
    summed over both sides, mean over the batch. m_other are K examples of other labels, drawn with replacement; Z is
    the mean of exp(u.m / temperature) over the first batch (Wu et al. 2018). m <- normalised (momentum m +
    (1 - momentum) u) after each training step. Temperature 0.07, momentum 0.5. Tian et al. (2020); Sun et al. (2020);
    wang2023, section 3.
    """

    memory: Tensor
    log_z: Tensor
    order: Tensor
    block: Tensor

    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap, *, width: int, negatives: int):
        super().__init__(student, teacher, layers)
        self.negatives = negatives
        self.projections = nn.ModuleList(nn.Linear((m.layers + 1) * m.width, width) for m in (student, teacher))
        self.register_buffer("memory", torch.empty(2, 0, width))  # teacher's, student's: what each is compared with
        self.register_buffer("log_z", torch.full((2,), math.nan))  # unknown before the first batch

    @classmethod
    def refuse(cls, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
        if not task.classification:
            return f"{cls.name} needs class labels, but task {task.name} has {'none' if task.corpus else 'scores'}"
        return blind_first_token(cls.name, student, task)

    @classmethod
    def wants(cls, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
        return Want.of(cls.needs, range(student.layers + 1)), Want.of(cls.needs, range(teacher.layers + 1))

    def prepare(self, labels: Tensor, size: int) -> None:
        classes, index, counts = labels.unique(return_inverse=True, return_counts=True)
        if len(classes) < 2:
            raise UserError(f"{self.name} draws negatives from other labels, but all {size} examples have the same one")
        self.memory = F.normalize(torch.randn(2, size, self.memory.shape[-1]), dim=-1).to(self.memory)
        self.register_buffer("order", labels.argsort(stable=True).to(self.memory.device), persistent=False)
        block = torch.stack([counts.cumsum(0) - counts, counts])[:, index]
        self.register_buffer("block", block.to(self.memory.device), persistent=False)

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        states = (first_tokens(student), first_tokens(teacher).detach())
        views = torch.stack([F.normalize(f(x), dim=-1) for f, x in zip(self.projections, states, strict=True)])
        ids = onto(batch.ids, self.memory.device)
        others = draw_others(self.order, self.block[:, ids], self.negatives)
        compared = self.memory[:, torch.cat([ids[:, None], others], 1)]  # (2, B, 1 + K, width)
        # A row times a matrix: the same product as an einsum over the width, with a backward three times as fast.
        scores = (views[:, :, None] @ compared.transpose(2, 3)).squeeze(2) / TEMPERATURE  # (2, B, 1 + K)
        first = scores.detach().flatten(1).logsumexp(1) - math.log(scores[0].numel())
        self.log_z = torch.where(self.log_z.isnan(), first, self.log_z)  # not asked on the host, which would wait
        logits = scores - self.log_z[:, None, None] - math.log(self.negatives)
        if self.training:
            kept = MOMENTUM * self.memory[:, ids] + (1 - MOMENTUM) * views.flip(0).detach()
            self.memory[:, ids] = F.normalize(kept, dim=-1)
        return -(F.logsigmoid(logits[..., 0]) + F.logsigmoid(-logits[..., 1:]).sum(-1)).mean(1).sum()
