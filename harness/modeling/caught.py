"""Attention that a model computes itself, without transformers' attention interface, caught at its softmax.

Whatever is added to the scores, relative positions or matrices of disentangled attention, the softmax sees their sum.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.overrides import TorchFunctionMode

SOFTMAX = (F.softmax, torch.softmax, Tensor.softmax)
PRODUCTS = (torch.matmul, torch.bmm, Tensor.matmul, Tensor.__matmul__, Tensor.bmm)


class Caught(TorchFunctionMode):
    """While it is entered, every softmax over (B, H, L, L) is noted, and what its weights are multiplied with.

    scores: (B, H, L, L) each, in the order of the layers, with all that was added or masked. values: (B, H, L, D / H)
    each. Of this thread alone; changes nothing that is computed.
    """

    def __init__(self) -> None:
        super().__init__()
        self.scores: list[Tensor] = []
        self.values: list[Tensor] = []
        self._weights: Tensor | None = None  # those of the last softmax, as they are on their way to the values

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        first = args[0] if args else None
        if func in SOFTMAX and result.dim() == 4 and result.shape[-1] == result.shape[-2]:
            self.scores.append(args[0])
            self._weights = result
        elif self._weights is not None and first is self._weights:
            if func in PRODUCTS:
                heads = self.scores[-1].shape[:2]
                self.values.append(args[1].reshape(*heads, *args[1].shape[-2:]))  # (B * H, L, d) -> (B, H, L, d)
                self._weights = None
            elif isinstance(result, Tensor):  # dropped out, or of another shape
                self._weights = result
        return result
