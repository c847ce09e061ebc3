"""The processes of one training: those that torchrun or `accelerate launch` started together, or this one alone."""

from __future__ import annotations

import os
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from torch import Tensor, nn

# One process may tokenise a corpus or write a checkpoint while others wait; a dead one ends the launch at once anyway.
PATIENCE = timedelta(hours=12)


def state() -> PartialState:
    """Where this process stands among them: process_index, num_processes, device."""
    if PartialState._shared_state:
        return PartialState()
    # Without an accelerator accelerate makes a group of processes only where it is told to use the CPU.
    together = {"timeout": PATIENCE} if "LOCAL_RANK" in os.environ else {}
    return PartialState(cpu=not torch.accelerator.is_available(), **together)


def number() -> int:
    return int(state().num_processes)


def leads() -> bool:
    """True in the process that writes and tells; the others only compute."""
    return bool(state().is_main_process)


def from_leader(value: Any) -> Any:
    """What the leading process gave, in every process."""
    if number() == 1:
        return value
    found = [value]
    broadcast_object_list(found, from_process=0)
    return found[0]


def add_up(told: Tensor, parameters: Sequence[nn.Parameter]) -> Tensor:
    """The sum of `told`, (n,), over all processes; the gradients of the parameters are summed in place.

    A parameter without a gradient in every process keeps none. Gradients of sparse embeddings stay sparse.
    """
    if number() == 1:
        return told
    present = torch.tensor([float(p.grad is not None) for p in parameters], device=told.device)
    torch.distributed.all_reduce(present, torch.distributed.ReduceOp.MAX)
    shared = [p for p, has in zip(parameters, present.tolist(), strict=True) if has]
    sparse = torch.tensor([float(p.grad is not None and p.grad.is_sparse) for p in shared], device=told.device)
    torch.distributed.all_reduce(sparse, torch.distributed.ReduceOp.MAX)
    pieces = [told, *(_dense(p).flatten() for p in shared)]
    flat = torch.cat([piece.float() for piece in pieces])  # one message
    torch.distributed.all_reduce(flat)
    told, *gradients = flat.split([piece.numel() for piece in pieces])
    for parameter, gradient, rows in zip(shared, gradients, sparse.tolist(), strict=True):
        dense = gradient.view_as(parameter)
        parameter.grad = dense.to_sparse(1) if rows else dense
    return told


def _dense(parameter: nn.Parameter) -> Tensor:
    if parameter.grad is None:
        return torch.zeros_like(parameter)
    return parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
