"""Products of sequences of matrices, whole or of every prefix, in two forms (galke2022, section III-A).

sequential: one matrix after the other, L - 1 steps. logarithmic: a tree for the whole product, a work-efficient scan
for the prefixes, about log2(L) and 2 log2(L) steps of many matrices each. Both are differentiable, and equal to
rounding. Products of a sequence read backwards are those of the flipped sequence.

Long inputs: a product of L matrices near the identity grows or shrinks exponentially in L. Measured: 64 sequences of
words drawn by Zipf's law from 30,522, whose 20 x 20 matrices are the identity plus Gaussian noise of standard deviation
s; the largest entry of their products.

    s       L = 128            L = 512
    0.01    1.1 to 1.8         4 to 15            as the students start
    0.05    2e1 to 1e2         8e5 to 3e8
    0.1     2e4 to 4e6         6e18 to 1e23, refused
    0.2     3e14 to 2e17       overflow, refused

Nothing is rescaled. `check` refuses products outside the range in which norms and losses can compute with them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import cache, reduce
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor

FORMS = ("auto", "sequential", "logarithmic")
LARGEST = 1e18  # squares, which norms and losses take, stay well inside float32's 3.4e38


def choose(form: str, device: torch.device) -> str:
    """The form that `auto` stands for on a device; other forms stand for themselves.

    While an ONNX graph is traced it is a third, "loop": the sequential form as a loop of the graph, of any length.
    """
    if torch.onnx.is_in_onnx_export():
        return "loop"
    if form != "auto":
        return form
    # One CPU thread, 20 x 20, time of the logarithmic form over that of the sequential: whole products 1.4 in inference
    # (batch 256, length 64; 0.8 at 32 x 32) and 1.1 to 1.2 in training, prefixes 1.8 to 2.4 and 1.3 to 1.4: it works on
    # what no longer is in the cache, and the scan multiplies twice as often. On an accelerator every step costs the
    # launch of a kernel, so the fewer the better.
    return "sequential" if device.type == "cpu" else "logarithmic"


def product(matrices: Tensor | Iterable[Tensor], form: str) -> Tensor:
    """M_1 M_2 ... M_L: (B, L, n, n), or in the sequential form any L matrices (B, n, n) as they come, to (B, n, n)."""
    if form == "loop":
        return _loops()[0](*_looped(_whole(matrices)))
    if form == "logarithmic":
        return _tree(_whole(matrices))
    return reduce(torch.bmm, _one_by_one(matrices))


def prefixes(matrices: Tensor | Iterable[Tensor], form: str) -> Tensor:
    """M_1 ... M_i for every i, from what `product` takes to (B, L, n, n)."""
    if form == "loop":
        return _loops()[1](*_looped(_whole(matrices)))
    if form == "logarithmic":
        return _scan(_whole(matrices))
    return torch.stack(list(accumulate(_one_by_one(matrices), torch.bmm)), 1)


def check(products: Tensor, length: int) -> Tensor | None:
    """Raise FloatingPointError if products (B, *) of `length` matrices overflowed or vanished; not in an ONNX graph.

    On an accelerator to look would wait for it in every batch. So (B,) is returned there, NaN of what is wrong and
    otherwise 1, to be multiplied with: a loss or logits that are not finite are told by those who read them.
    """
    if torch.onnx.is_in_onnx_export():
        return None
    found = factors(products)
    if products.device.type != "cpu":
        return found
    if found.isnan().any():
        peak = _peaks(products)
        raise FloatingPointError(
            f"a product of the matrices of {length} tokens has a largest entry of {peak.max().item():.1e} or "
            f"{peak.min().item():.1e}, where 1e-18 to 1e18 can be computed with; shorten the inputs (max_length) or "
            "train with a smaller learning rate"
        )
    return None


def factors(products: Tensor) -> Tensor:
    """(B, *) -> (B,): 1 of what can be computed with, NaN of what overflowed or vanished."""
    peak = _peaks(products)
    return torch.where((peak < LARGEST) & (peak > 1 / LARGEST), 1.0, torch.nan)  # NaN also where a number is none


def _peaks(products: Tensor) -> Tensor:
    """(B, *) -> (B,), the largest absolute entry."""
    return torch.linalg.vector_norm(products.detach(), float("inf"), dim=tuple(range(1, products.ndim)))


@cache
def _loops() -> tuple[Callable[..., Any], ...]:
    """`product` and `prefixes` as TorchScript, whose loops become loops of an ONNX graph. Arguments: `_looped`."""
    return torch.jit.script(_product_loop), torch.jit.script(_prefixes_loop)


def _looped(matrices: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """(B, L, n, n) with what the graph is to work out from it: identities (B, n, n), and L.

    Both follow from entries: whatever followed from the shape alone would be that of the traced example.
    """
    entries = matrices[0, :, 0, 0]
    return matrices, matrices[:, 0] * 0 + torch.eye(matrices.size(2)), (entries == entries).sum()


def _product_loop(matrices: Tensor, found: Tensor, length: Tensor) -> Tensor:
    for i in range(int(length)):
        found = torch.bmm(found, matrices[:, i])
    return found


def _prefixes_loop(matrices: Tensor, found: Tensor, length: Tensor) -> Tensor:
    kept: list[Tensor] = []
    for i in range(int(length)):
        found = torch.bmm(found, matrices[:, i])
        kept.append(found)
    return torch.stack(kept, 1)


def _one_by_one(matrices: Tensor | Iterable[Tensor]) -> Iterable[Tensor]:
    return matrices.unbind(1) if isinstance(matrices, Tensor) else matrices


def _whole(matrices: Tensor | Iterable[Tensor]) -> Tensor:
    return matrices if isinstance(matrices, Tensor) else torch.stack(list(matrices), 1)


def _tree(matrices: Tensor) -> Tensor:
    """Neighbours are multiplied until one is left: (B, L, n, n) -> (B, n, n)."""
    while (length := matrices.size(1)) > 1:
        pairs = matrices[:, : length - 1 : 2] @ matrices[:, 1::2]
        matrices = torch.cat([pairs, matrices[:, -1:]], 1) if length % 2 else pairs
    return matrices[:, 0]


def _scan(matrices: Tensor) -> Tensor:
    """Prefixes of even length are those of the pairs; the others need one more matrix each."""
    length = matrices.size(1)
    if length == 1:
        return matrices
    even = _scan(matrices[:, : length - 1 : 2] @ matrices[:, 1::2])  # M_1 M_2, M_1 ... M_4, ...
    odd = torch.cat([matrices[:, :1], even[:, : (length - 1) // 2] @ matrices[:, 2::2]], 1)  # M_1, M_1 ... M_3, ...
    both = torch.stack([odd[:, : length // 2], even], 2).flatten(1, 2)
    return torch.cat([both, odd[:, length // 2 :]], 1)
