"""Transfer of products of hidden states: of tokens with tokens (NST), of one layer with the next (FSP)."""

from __future__ import annotations

from itertools import pairwise

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.contracts import Batch, LayerMap, ModelInfo, Outputs, Signal, Want
from harness.modeling.bases import Objective
from harness.objectives.relational import directions
from harness.objectives.states import aligned
from harness.registry import objective


@objective("nst", needs={Signal.HIDDEN_STATES}, token_level=True)
def nst(student: Outputs, teacher: Outputs, batch: Batch, *, layers: LayerMap) -> Tensor:
    r"""|G_S - G_T|^2, G = 1/D sum of f f^T over the D columns f of an example's states, each made of length 1.

    $$
    \sum_{(l, m)} \frac{1}{B} \sum_{b} \left\| G^S_{l b} - G^T_{m b} \right\|_F^2, \quad G = \frac{1}{D} \sum_{j=1}^{D}
    \frac{f_j f_j^\top}{\|f_j\|^2}
    $$

    Huang and Wang (2017), Like What You Like, section 4: the squared maximum mean discrepancy of both sides' columns
    with the polynomial kernel k(x, y) = (x.y + c)^d, d = 2 and c = 0, which is this distance of Gram matrices (L x L)
    of the real tokens. Mean over the batch, summed over the mapped layers. The widths may differ.
    """
    mask = batch.mask.unsqueeze(-1)

    def gram(states: Tensor) -> Tensor:
        columns = directions(states * mask, dim=1)  # (B, L, D)
        return columns @ columns.mT / columns.shape[-1]

    losses = [
        (gram(student.hidden_states[ours]) - gram(teacher.hidden_states[theirs].detach())).square().sum((1, 2)).mean()
        for ours, theirs in layers.pairs
    ]
    return torch.stack(losses).sum()


@objective("fsp", needs={Signal.HIDDEN_STATES}, token_level=True)
class FSP(Objective):
    r"""Mean of (G_S - G_T)^2, G = H_l^T H_m / n (D x D) over an example's n real tokens, summed over the steps l to m.

    $$
    \sum_{\text{steps } l \to m} \frac{1}{B D^2} \sum_{b} \left\| G^S_{l m b} - G^T_{l m b} \right\|_F^2, \quad G_{l m}
    = \frac{1}{n} H_l^\top H_m
    $$

    Yim et al. (2017), A Gift from Knowledge Distillation, Eqs. 1 and 2, there a sum over the matrix. The steps lead
    from the embeddings to the first mapped layer and from each mapped layer to the next. A student's states of another
    width are compared through learned maps.
    """

    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap):
        super().__init__(student, teacher, layers)
        self.pairs = ((0, 0), *layers.pairs)
        self.alignments = nn.ModuleList(aligned(student.width, teacher.width) for _ in self.pairs)

    @classmethod
    def wants(cls, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
        return super().wants(student, teacher, LayerMap(((0, 0), *layers.pairs)))

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        mask = batch.mask.unsqueeze(-1)
        tokens = mask.sum(1, keepdim=True).clamp_min(1)  # (B, 1, 1)
        ours, theirs = [], []
        for align, (own, other) in zip(self.alignments, self.pairs, strict=True):
            ours.append(align(student.hidden_states[own]) * mask)
            theirs.append(teacher.hidden_states[other].detach() * mask)
        flows = [[before.mT @ after / tokens for before, after in pairwise(states)] for states in (ours, theirs)]
        return torch.stack([F.mse_loss(*steps) for steps in zip(*flows, strict=True)]).sum()
