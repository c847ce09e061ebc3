"""Where a batch's numbers go."""

from __future__ import annotations

import torch
from torch import Tensor


def onto(tensor: Tensor, device: torch.device | None) -> Tensor:
    """The tensor on the device, the host not waiting for it: on a GPU the copy is made from page-locked memory."""
    if device is None or device.type == "cpu":
        return tensor
    return (tensor.pin_memory() if device.type == "cuda" else tensor).to(device, non_blocking=True)
