"""Attention that a model computes itself, without transformers' attention interface, caught at its softmax.

Whatever is added to the scores, relative positions or matrices of disentangled attention, the softmax sees their sum.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

# Scores of tokens that see nothing of each other. No infinity: a difference of two must be a number, in bfloat16 too.
OUT_OF_SIGHT = -(2.0**14)
SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)
PRODUCTS = (torch.matmul, torch.bmm, Tensor.matmul, Tensor.__matmul__, Tensor.bmm)
QUOTIENTS = (torch.div, Tensor.div, Tensor.__truediv__)


@dataclass
class Attention:
    """One layer's, (B, H, L, L) and (B, H, L, D / H); what is masked in the scores is `OUT_OF_SIGHT`.

    Queries and keys are those whose product is the first that has the shape of the scores; None where there is none.
    """

    attention_scores: Tensor
    queries: Tensor | None = None
    keys: Tensor | None = None
    values: Tensor | None = None


@dataclass
class _Product:
    """Of two matrices, and what it became when it was divided by a number."""

    result: Tensor
    left: Tensor
    right: Tensor
    scale: float = 1.0


class Caught(TorchFunctionMode):
    """While it is entered, every softmax over (B, H, L, L) of this thread is noted, in order; nothing is changed."""

    def __init__(self) -> None:
        super().__init__()
        self.attentions: list[Attention] = []
        self._products: list[_Product] = []  # since the last softmax
        self._weights: Tensor | None = None  # of the last softmax, on their way to the values

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in SOFTMAX and result.dim() == 4 and result.shape[-1] == result.shape[-2]:
            self.attentions.append(self._attention(args[0]))
            self._products, self._weights = [], result
        elif self._weights is not None and args and args[0] is self._weights:
            if func in PRODUCTS:
                last = self.attentions[-1]
                last.values = _by_head(args[1], last.attention_scores)
                self._weights = None
            elif isinstance(result, Tensor):  # dropped out, or of another shape
                self._weights = result
        elif func in PRODUCTS:
            self._products.append(_Product(result, args[0], args[1]))
        elif func in QUOTIENTS and not isinstance(args[1], Tensor):
            for product in self._products:
                if product.result is args[0]:
                    product.result, product.scale = result, product.scale / args[1]
        return result

    def _attention(self, scores: Tensor) -> Attention:
        hidden = scores <= torch.finfo(scores.dtype).min / 2  # as the library masks
        attention = Attention(scores.masked_fill(hidden, OUT_OF_SIGHT))
        for product in self._products:
            if product.result.shape[-2:] == scores.shape[-2:] and product.result.numel() == scores.numel():
                queries, keys = _by_head(product.left, scores), _by_head(product.right.mT, scores)
                scale = product.scale * queries.shape[-1] ** 0.5  # XLM's queries come scaled
                attention.queries = queries if math.isclose(scale, 1) else queries * scale
                attention.keys = keys
                break
        return attention


def _by_head(tensor: Tensor, scores: Tensor) -> Tensor:
    """(B * H, L, D / H) -> (B, H, L, D / H)."""
    return tensor.reshape(*scores.shape[:2], *tensor.shape[-2:])
