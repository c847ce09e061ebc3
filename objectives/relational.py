"""Transfer of how the examples of a batch relate to each other, through their sentence vectors, of whatever widths.

Of pairs whose sentences are read apart each sentence counts as an example.
"""

from __future__ import annotations

from functools import lru_cache

import torch
import torch.nn.functional as F
from torch import Tensor

from harness.contracts import Batch, Outputs, Signal, onto
from harness.registry import objective


def directions(vectors: Tensor, dim: int = -1) -> Tensor:
    """The vectors at length 1. One of length 0 stays, and its gradient is finite, which that of F.normalize is not."""
    lengths = vectors.norm(dim=dim, keepdim=True)
    return vectors / torch.where(lengths > 0, lengths, 1)


@objective("rkd_distance", needs={Signal.SENTENCE})
def rkd_distance(student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
    r"""Huber(|s_i - s_j| / mu_S - |t_i - t_j| / mu_T), mean over pairs i != j; mu the mean distance in the batch.

    $$
    \frac{1}{B (B - 1)} \sum_{i \neq j} \ell\left(\frac{\|s_i - s_j\|}{\mu_S} - \frac{\|t_i - t_j\|}{\mu_T}\right),
    \quad \ell(x) = \begin{cases} x^2 / 2 & |x| \leq 1 \\ |x| - 1 / 2 & |x| > 1 \end{cases}
    $$

    Park et al. (2019), Relational Knowledge Distillation, section 3.2.1. Huber is x^2 / 2 up to |x| = 1, |x| - 1/2
    beyond. Their RKD-DA is rkd_distance+2*rkd_angle, beside labels of classes 25*rkd_distance+50*rkd_angle in their
    code. A batch of one has no pair, and a loss of 0.
    """
    return _huber(_distances(_vectors(student)), _distances(_vectors(teacher).detach()))


@objective("rkd_angle", needs={Signal.SENTENCE})
def rkd_angle(student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
    r"""Huber(cos s_i s_j s_k - cos t_i t_j t_k), the angle at j, mean over triples of different examples.

    $$
    \frac{1}{B (B - 1) (B - 2)} \sum_{i, j, k} \ell\left(\cos \angle s_i s_j s_k - \cos \angle t_i t_j t_k\right), \quad
    \ell(x) = \begin{cases} x^2 / 2 & |x| \leq 1 \\ |x| - 1 / 2 & |x| > 1 \end{cases}
    $$

    Park et al. (2019), section 3.2.2. A batch of two has no triple, and a loss of 0.
    """
    return _huber(_angles(_vectors(student)), _angles(_vectors(teacher).detach()))


@objective("similarity_preserving", needs={Signal.SENTENCE})
def similarity_preserving(student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
    r"""|G_S - G_T|^2 / b^2, G = X X^T with each row made of length 1, X the b sentence vectors.

    $$
    \frac{1}{b^2} \left\| \tilde{G}^S - \tilde{G}^T \right\|_F^2, \quad G = X X^\top, \quad \tilde{G}_{i} =
    \frac{G_{i}}{\|G_{i}\|}
    $$

    Tung and Mori (2019), Similarity-Preserving Knowledge Distillation, section 3. A batch of one teaches nothing.
    """
    ours, theirs = _vectors(student), _vectors(teacher).detach()
    return F.mse_loss(directions(ours @ ours.T), directions(theirs @ theirs.T))


def _vectors(outputs: Outputs) -> Tensor:
    """(B, D), or (B, 2, D) of pairs -> (N, D)."""
    return outputs.sentence.flatten(0, -2)


def _distances(vectors: Tensor) -> Tensor:
    """(N, D) -> (N (N - 1),), their mean 1 unless all are 0."""
    found = (vectors.unsqueeze(1) - vectors).norm(dim=-1).flatten()[_different(2, len(vectors), vectors.device)]
    return found / found.mean().clamp_min(torch.finfo(found.dtype).tiny)


def _angles(vectors: Tensor) -> Tensor:
    """(N, D) -> (N (N - 1) (N - 2),), cosines."""
    sides = directions(vectors - vectors.unsqueeze(1))  # (N, N, D): from j to i
    return (sides @ sides.mT).flatten()[_different(3, len(vectors), vectors.device)]


@lru_cache(maxsize=4)  # of another size is an epoch's last batch
def _different(size: int, count: int, device: torch.device) -> Tensor:
    """Places in (N, N) or (N, N, N), read row by row, of tuples of that size of N = count examples, all different."""
    other = ~torch.eye(count, dtype=torch.bool)  # on the host, which knows N
    if size == 3:
        other = other.unsqueeze(2) & other.unsqueeze(1) & other
    return onto(other.flatten().nonzero().squeeze(1), device)


def _huber(ours: Tensor, theirs: Tensor) -> Tensor:
    return F.huber_loss(ours, theirs, reduction="sum") / max(len(ours), 1)
