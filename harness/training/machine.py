"""The machine a run is on: its device, its memory, the versions of what runs there."""

from __future__ import annotations

import functools
import sys
from collections.abc import Mapping
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from harness.errors import UserError
from harness.training import processes


@functools.cache
def device() -> torch.device:
    """The device that accelerate gives this process."""
    found: torch.device = processes.state().device
    return torch.device("cpu") if found.type == "cpu" else found  # "cpu:0" among several, which torch.load refuses


def check_precision(settings: Mapping[str, Any]) -> None:
    """Raise UserError if a run asks for bfloat16 of an accelerator that has not got it."""
    if settings.get("precision") != "bfloat16" or device().type != "cuda":
        return
    if not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name()
        raise UserError(f"{name} has no bfloat16: --set precision=float32, and general.precision=float32 on a corpus")


@functools.cache
def versions() -> dict[str, str]:
    """Of the libraries that numbers depend on."""
    return {name: version(name) for name in ("torch", "transformers", "numpy")} | {"python": sys.version.split()[0]}


def reset_peak_memory() -> None:
    """Start measuring `peak_memory` anew where the system can."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
    try:
        Path("/proc/self/clear_refs").write_text("5")
    except OSError:
        return  # not Linux: the peak is then that of the worker's whole life


def peak_memory() -> float:
    """Largest resident memory of this process in MiB since the last reset; of the accelerator where there is one."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 1024
