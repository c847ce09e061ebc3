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

from harness.errors import UserError, counted

# One process may tokenise a corpus or write a checkpoint while others wait; a dead one ends the launch at once anyway.
PATIENCE = timedelta(hours=12)


def state() -> PartialState:
    """Where this process stands among them: process_index, num_processes, device."""
    if PartialState._shared_state:
        return PartialState()
    _check_gpus()
    # Without an accelerator accelerate makes a group of processes only where it is told to use the CPU.
    together = {"timeout": PATIENCE} if "LOCAL_RANK" in os.environ else {}
    return PartialState(cpu=not torch.accelerator.is_available(), **together)


def _check_gpus() -> None:
    """Raise UserError where a launcher started more processes than there are GPUs: two cannot train by one of them."""
    started, gpus = int(os.environ.get("LOCAL_WORLD_SIZE", "1")), torch.cuda.device_count()
    if "LOCAL_RANK" in os.environ and 0 < gpus < started:
        raise UserError(
            f"{started} processes were started on a machine with {counted(gpus, 'GPU')}, and each needs its own: "
            f"--nproc_per_node {gpus} (accelerate's --num_processes), or CUDA_VISIBLE_DEVICES= to train without"
        )


def number() -> int:
    """How many there are."""
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

    A parameter without a gradient in every process keeps none. Gradients of sparse embeddings stay sparse, with a row
    for everything that any process looked up: lazy Adam moves such a row also where its gradient is zero.
    """
    if number() == 1:
        return told
    present = torch.tensor([float(p.grad is not None) for p in parameters], device=told.device)
    torch.distributed.all_reduce(present, torch.distributed.ReduceOp.MAX)
    shared = [p for p, has in zip(parameters, present.tolist(), strict=True) if has]
    sparse = torch.tensor([float(p.grad is not None and p.grad.is_sparse) for p in shared], device=told.device)
    torch.distributed.all_reduce(sparse, torch.distributed.ReduceOp.MAX)
    tables = [p for p, is_table in zip(shared, sparse.tolist(), strict=True) if is_table]
    pieces = [told, *(_dense(p).flatten() for p in shared), *map(_looked_up, tables)]
    flat = torch.cat([piece.float() for piece in pieces])  # one message
    torch.distributed.all_reduce(flat)
    told, *summed = flat.split([piece.numel() for piece in pieces])
    for parameter, gradient in zip(shared, summed, strict=False):
        parameter.grad = gradient.view_as(parameter)
    for parameter, times in zip(tables, summed[len(shared) :], strict=True):
        rows = times.nonzero()  # (R, 1)
        values = _dense(parameter)[rows[:, 0]]
        parameter.grad = torch.sparse_coo_tensor(
            rows.T, values, parameter.shape, check_invariants=False, is_coalesced=True
        )
    return told


def _dense(parameter: nn.Parameter) -> Tensor:
    """The gradient in the parameter's shape, zeros where there is none."""
    if parameter.grad is None:
        return torch.zeros_like(parameter)
    return parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad


def _looked_up(table: nn.Parameter) -> Tensor:
    """(V,) more than 0 for each row of a sparse gradient, also where that is zero."""
    times = torch.zeros(len(table), device=table.device)
    if table.grad is not None:
        times[table.grad.coalesce().indices()[0]] = 1.0
    return times
