"""A stored signal kept on the accelerator where it fits: its batches are put together there, and nothing is copied."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from harness.batch import onto

SHARE = 1 / 16  # of a GPU's memory in which one run keeps signals, and at most half of what is free: several share it
TAKEN: dict[torch.device, int] = {}  # bytes that this process, which is a run's, keeps on a device


def fits(size: int, device: torch.device) -> bool:
    """Whether so many bytes more may be kept on the device; never on one that is no GPU, whose memory is the host's."""
    if device.type != "cuda":
        return False
    free, whole = torch.cuda.mem_get_info(device)
    return TAKEN.get(device, 0) + size <= SHARE * whole and 2 * size <= free


class HeldSignal:
    """One signal of all examples; `read` gives what `TeacherCache.read` does, bit by bit.

    numbers: those of all examples one after another, without padding; offsets: (N,) where each begins; lengths: (N,)
    its tokens. axes: which dimensions of an example's signal are its length; shape: the others.
    """

    def __init__(
        self,
        numbers: np.ndarray,
        offsets: np.ndarray,
        lengths: np.ndarray,
        axes: tuple[int, ...],
        shape: tuple[int, ...],
        device: torch.device,
    ):
        TAKEN[device] = TAKEN.get(device, 0) + numbers.nbytes
        self.device = device
        sizes = list(shape)
        for axis in axes:
            sizes.insert(axis, -1)
        self.sizes = sizes[: max(axes, default=-1) + 1]  # of an example, -1 where it is its length
        self.rest = tuple(sizes[len(self.sizes) :])  # what is read in one piece
        piece = math.prod(self.rest)
        self.numbers = torch.from_numpy(np.array(numbers)).to(device).view(-1, *self.rest)
        self.offsets, self.lengths = torch.from_numpy(offsets // max(piece, 1)), torch.from_numpy(lengths)

    def read(self, rows: np.ndarray, length: int) -> Tensor:
        """(B, ...) padded with zeros to `length` tokens; the host waits for nothing."""
        chosen = torch.from_numpy(rows)
        index, size = (onto(t[chosen], self.device) for t in (self.offsets, self.lengths))  # (B,) each
        dimensions = len(self.sizes)
        if not dimensions:
            return self.numbers[index]
        inside = torch.ones((), dtype=torch.bool, device=self.device)
        index, stride = index.view(-1, *(1,) * dimensions), torch.ones_like(size)
        for place in reversed(range(dimensions)):  # the last dimension lies closest together
            whole = length if self.sizes[place] < 0 else self.sizes[place]
            at = torch.arange(whole, device=self.device).view(-1, *(1,) * (dimensions - 1 - place))
            index = index + at * stride.view(-1, *(1,) * dimensions)
            if self.sizes[place] < 0:
                inside = inside & (at < size.view(-1, *(1,) * dimensions))
                stride = stride * size
            else:
                stride = stride * whole
        found = self.numbers[torch.where(inside, index, 0)]
        return found.masked_fill(~inside.expand(index.shape).view(*index.shape, *(1,) * len(self.rest)), 0.0)
