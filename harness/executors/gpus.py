"""The GPUs of this machine, by the names that a process is given them by."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from collections.abc import Iterable
from contextlib import suppress

VISIBLE = "CUDA_VISIBLE_DEVICES"


def visible() -> tuple[str, ...]:
    """Of each GPU that this process may use its number or name; without loading torch, and without a GPU none."""
    if VISIBLE in os.environ:
        return tuple(name.strip() for name in os.environ[VISIBLE].split(",") if name.strip() not in ("", "-1"))
    with suppress(OSError, subprocess.SubprocessError):
        asked = ["nvidia-smi", "--query-gpu=uuid", "--format=csv,noheader"]
        said = subprocess.run(asked, capture_output=True, text=True, timeout=30, check=True).stdout
        return tuple(line.strip() for line in said.splitlines() if line.strip())
    return ()


def least_used(gpus: tuple[str, ...], used: Iterable[str]) -> dict[str, str]:
    """What a run's environment is given: the GPU on which the fewest of `used` are, the first of several."""
    if not gpus:
        return {}
    count = Counter(used)
    return {VISIBLE: min(gpus, key=lambda gpu: count[gpu])}
