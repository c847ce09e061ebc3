"""The GPUs of this machine, by the names that a process is given them by."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

VISIBLE = "CUDA_VISIBLE_DEVICES"
NONE = f"no GPU is to be seen (nvidia-smi lists them, {VISIBLE} chooses among them)"


def visible() -> tuple[str, ...]:
    """Of each GPU that this process may use its number or name; without loading torch, and without a GPU none."""
    if VISIBLE in os.environ:
        return tuple(name.strip() for name in os.environ[VISIBLE].split(",") if name.strip() not in ("", "-1"))
    return tuple(_asked("uuid"))


def used() -> float | None:
    """The share of its memory that is in use, of the fullest GPU; None where it cannot be told."""
    with suppress(ValueError, ZeroDivisionError):
        numbers = [[float(part) for part in line.split(",")] for line in _asked("memory.used,memory.total")]
        return max((used / total for used, total in numbers), default=None)
    return None


def _asked(what: str) -> list[str]:
    """What nvidia-smi says, a line a GPU; nothing without it."""
    with suppress(OSError, subprocess.SubprocessError):
        asked = ["nvidia-smi", f"--query-gpu={what}", "--format=csv,noheader,nounits"]
        if os.environ.get(VISIBLE):
            asked += ["-i", os.environ[VISIBLE]]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stdout
        return [line.strip() for line in said.splitlines() if line.strip()]
    return []


def least_used(gpus: tuple[str, ...], used: Iterable[str]) -> dict[str, str]:
    """What a run's environment is given: the GPU on which the fewest of `used` are, the first of several."""
    if not gpus:
        return {}
    count = Counter(used)
    return {VISIBLE: min(gpus, key=lambda gpu: count[gpu])}
