"""How a student that reads the two sentences of a pair apart puts them together again."""

from __future__ import annotations

from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from harness.errors import UserError

PARTS = {"joint": 1, "diffcat": 3, "compare": 4}  # how many times as wide as one sentence the result is
APART = "it reads the two sentences of a pair apart"  # why it lacks what there is of a sequence alone


def combine(encoding: str, sentences: Sequence[Tensor]) -> Tensor:
    """Combine equally shaped (..., D) into (..., PARTS[encoding] * D).

    joint: the one sequence itself. diffcat: [u, v, |u - v|] (galke2022, section III-C). compare: [u, v, |u - v|, u * v]
    (wu2020, section 3.2; liu2020, Eq. 3.2, in another order). Raises UserError if the number of sentences is not what
    the encoding reads.
    """
    if len(sentences) != (1 if encoding == "joint" else 2):
        raise UserError(f"a student built for the pair encoding {encoding} was given {len(sentences)} sequences")
    if encoding == "joint":
        return sentences[0]
    u, v = sentences
    return torch.cat([u, v, (u - v).abs(), u * v][: PARTS[encoding]], -1)


def align(states: Sequence[Tensor], masks: Sequence[Tensor]) -> list[Tensor]:
    """Make per-token states of several sequences equally long: zero where a sequence has no token.

    states: (B, L_i, D) each; masks: (B, L_i) bool. Returns the states, (B, L, D) each with L the longest L_i.
    """
    length = max(mask.size(1) for mask in masks)
    masks = [F.pad(mask, (0, length - mask.size(1))) for mask in masks]
    padded = [F.pad(state, (0, 0, 0, length - state.size(1))) for state in states]
    return [s * m.unsqueeze(-1) for s, m in zip(padded, masks, strict=True)]
