"""How many small runs an hour one machine makes with 1, 2, 4, ... workers: on GPUs they share them. Asserts nothing.

python -m benchmarks.sharing [MOST] [RUNS]   up to MOST workers (8), RUNS runs each (16)
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path

import torch

from harness.cli import main
from harness.executors import gpus, mps

STUDY = (
    "run", "--study", "objectives_vs_init", "--tasks", "sentiment", "--inits", "every", "--trials", "1",
    "--objectives", "att_kl+hid_seq", "--set", "epochs=2",
)  # fmt: skip


def seconds(workers: int, runs: int, folder: Path, *flags: str) -> float:
    """Of so many runs by so many workers; one more is made before, with what all start from."""
    out = ("--out", str(folder / "-".join([str(workers), *flags])), "--workers", str(workers))
    with open(os.devnull, "w") as nothing, redirect_stdout(nothing):
        main([*STUDY, *out, "--seeds", "1"])
        began = time.time()
        status = main([*STUDY, *out, *flags, "--seeds", str(runs + 1)])
    if status:
        raise SystemExit(f"the runs of {workers} workers ended with status {status}")
    return time.time() - began


def compare(most: int = 8, runs: int = 16) -> None:
    """Print the runs an hour of each number of workers, and how many times those of one."""
    names = [torch.cuda.get_device_name(n) for n in range(torch.cuda.device_count())] or ["no GPU"]
    print(f"{', '.join(names)}; {os.cpu_count()} cores; {len(gpus.visible())} GPUs are shared; {runs} runs each time")
    numbers = [2**n for n in range(most.bit_length()) if 2**n <= most]
    flags = [("--mps",)] if gpus.visible() and shutil.which(mps.CONTROL) else []
    tried = [(n, ()) for n in numbers] + [(n, more) for more in flags for n in numbers if n > 1]
    one = 0.0
    with tempfile.TemporaryDirectory(prefix="bench_sharing_") as folder:
        for workers, more in tried:
            spent = seconds(workers, runs, Path(folder), *more)
            one = one or spent
            how = "".join(f" with {flag}" for flag in more)
            print(f"{workers:3} workers{how} {3600 * runs / spent:10,.0f} runs/hour {one / spent:6.2f} x one worker")


if __name__ == "__main__":
    compare(*map(int, sys.argv[1:]))
