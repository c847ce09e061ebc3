"""The machine a run is on: its device, its memory, the versions of what runs there."""

from __future__ import annotations

import ctypes
import functools
import os
import random
import re
import sys
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy
import torch

from harness.errors import UserError
from harness.runs import CorpusRun, Run
from harness.runs.settings import Settings
from harness.training import processes

MMAP_THRESHOLD, TRIM_THRESHOLD = -3, -1  # of malloc.h: M_MMAP_THRESHOLD and M_TRIM_THRESHOLD, in bytes
RandomState = dict[str, Any]
SLOWER = 15  # times: bfloat16 against float32, a step of the MiniLM student on MRPC on a processor with AVX2 alone


@functools.cache
def device() -> torch.device:
    """The device that accelerate gives this process."""
    found: torch.device = processes.state().device
    return torch.device("cpu") if found.type == "cpu" else found  # "cpu:0" among several, which torch.load refuses


def seed(number: int) -> None:
    """Seed torch, and what plugins may draw from otherwise: `random` and numpy's global generator.

    Without an accelerator `torch.manual_seed` spends 2 ms on those that could still be found.
    """
    random.seed(number)
    numpy.random.seed(number % 2**32)
    if torch.accelerator.is_available():
        torch.manual_seed(number)
    else:
        torch.default_generator.manual_seed(number)


def random_state() -> RandomState:
    """The state of all that `seed` seeds, as a checkpoint takes it."""
    _, keys, *rest = numpy.random.get_state(legacy=True)
    state: RandomState = {"cpu": torch.get_rng_state(), "python": random.getstate()}
    state["numpy"] = (torch.from_numpy(numpy.asarray(keys, numpy.int64)), *rest)
    if device().type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device())
    return state


def set_random_state(state: RandomState) -> None:
    """Go on drawing from where `random_state` was asked, on the same kind of device."""
    keys, *rest = state["numpy"]
    torch.set_rng_state(state["cpu"].cpu())
    random.setstate(state["python"])
    numpy.random.set_state(("MT19937", keys.cpu().numpy().astype(numpy.uint32), *rest))
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"].cpu(), device())


def repeatable(strictly: bool = True) -> None:
    """Let a GPU compute float32 as such, where cuDNN's LSTMs would take tf32, and the same numbers each time.

    strictly: what it cannot compute so is an error, see `unrepeatable`; attention repeats its numbers only then.
    """
    if device().type != "cuda":
        return
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")  # read at the first product; without it none repeats
    torch.backends.cudnn.allow_tf32 = False
    torch.use_deterministic_algorithms(True, warn_only=not strictly)
    setattr(torch.utils.deterministic, "fill_uninitialized_memory", False)  # noqa: B010 - it costs time


def unrepeatable(error: BaseException) -> str:
    """What a GPU cannot compute twice the same, if this is torch's error for it or comes of it; otherwise ""."""
    while error.__cause__ is not None:
        error = error.__cause__
    what, says, _ = str(error).partition(" does not have a deterministic implementation")
    return what if says else ""


def check_precision(settings: Settings) -> None:
    """Raise UserError if a run asks for bfloat16 of an accelerator that has not got it."""
    if settings["precision"] != "bfloat16" or device().type != "cuda":
        return
    if not torch.cuda.is_bf16_supported(including_emulation=False):
        name = torch.cuda.get_device_name()
        raise UserError(f"{name} has no bfloat16: --set precision=float32, and general.precision=float32 on a corpus")


def has_bfloat16(cpuinfo: Path = Path("/proc/cpuinfo")) -> bool:
    """True if this processor has instructions for bfloat16 and oneDNN may use them; also where that cannot be told."""
    limit = (os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "ALL").upper()
    if not limit.startswith(("ALL", "DEFAULT", "AVX10", "AVX512_CORE_BF16", "AVX512_CORE_FP16", "AVX512_CORE_AMX")):
        return False
    # One line for each core: x86's begins with "flags", Arm's with "Features".
    flags = re.search(r"^(?:flags|Features)\s*:(.*)$", cpuinfo.read_text() if cpuinfo.exists() else "", re.MULTILINE)
    return flags is None or not {"avx512_bf16", "amx_bf16", "bf16"}.isdisjoint(flags[1].split())


def slow_precision(runs: Iterable[Run]) -> str:
    """A sentence where these runs would compute in bfloat16 on this processor, which lacks it; otherwise ""."""
    asked = {
        "general.precision" if isinstance(run, CorpusRun) else "precision"
        for run in runs
        if run.settings["precision"] == "bfloat16"
    }
    if not asked or has_bfloat16() or torch.accelerator.is_available():
        return ""
    return (
        f"this processor has no instructions for bfloat16 (avx512_bf16, AMX or Arm's bf16) or may not use them: expect "
        f"about {SLOWER} times the time of --set {' '.join(f'{name}=float32' for name in sorted(asked))}"
    )


@functools.cache
def versions() -> dict[str, str]:
    """Of the libraries that numbers depend on."""
    return {name: version(name) for name in ("torch", "transformers", "numpy")} | {"python": sys.version.split()[0]}


def keep_freed_memory() -> None:
    """Let this process use again what it frees, where its C library is glibc.

    That gives blocks of 32 MB and more, such as the gradient of a table of word vectors, back to the system, which
    clears every page of them anew in each step: 5% of the time of a MiniLM student's, and half of what the hybrid's
    states of all tokens take. More memory is not held at a time.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform.startswith("linux") else None
    if mallopt is not None:  # other C libraries have none
        mallopt(MMAP_THRESHOLD, 1 << 30)
        mallopt(TRIM_THRESHOLD, (1 << 31) - 1)


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
