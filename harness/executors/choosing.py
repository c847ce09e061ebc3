"""Which executor the command line asks for."""

from __future__ import annotations

import math
import os
import re
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import registry
from harness.errors import UserError
from harness.executors.local import LocalExecutor
from harness.executors.ray_cluster import RayExecutor
from harness.folders import LOCK
from harness.locks import locks_files

MOST = 1024  # workers
QUOTA = Path("/sys/fs/cgroup/cpu.max")  # as containers see it: microseconds of processor time in so many of the clock


def executor(options: Namespace) -> Callable[[Path], Any]:
    """What starts the executor, given the folder of results. Raises UserError for flags that do not go together."""
    measures = _measures(options)
    limit = _seconds(options.run_timeout)
    if options.executor == "local":
        for name in ("address", "cpus_per_run", "gpus_per_run", "shared_out"):
            if getattr(options, name) is not None and getattr(options, name) is not False:
                raise UserError(f"--{name.replace('_', '-')} has no effect without --executor ray")
        most, shares = processes(options), options.workers is None and not measures
        if options.mps and most == 1:
            raise UserError("--mps has no effect where only one run trains at a time")
        if options.mps and limit is not None:
            raise UserError("--run-timeout ends processes, which under --mps may disturb others: leave one of them out")
        return lambda out: LocalExecutor(most, limit, shares, options.mps)
    if options.mps:
        raise UserError("--mps has no effect with --executor ray: start CUDA's service on each node before Ray there")
    if measures:
        raise UserError(f"study {options.study} times models on this machine, undisturbed: leave out --executor ray")
    if options.workers is not None:
        raise UserError("--workers has no effect with --executor ray: --cpus-per-run says how many runs share a node")
    if options.shared_out and not options.address:
        raise UserError("--shared-out has no effect without --address: there is one machine")
    cpus = _amount("--cpus-per-run", options.cpus_per_run, 1.0)
    gpus = _amount("--gpus-per-run", options.gpus_per_run, 0.0)
    if gpus > 1:
        raise UserError("--gpus-per-run must be at most 1: a run computes on one GPU")
    if cpus == 0:
        raise UserError("--cpus-per-run must be more than 0: otherwise every run would start at once")

    def on_ray(out: Path) -> RayExecutor:
        if options.shared_out and not locks_files(out / LOCK):
            raise UserError(f"the file system of {out} cannot lock files, which --shared-out needs: leave it out")
        return RayExecutor(options.address or "", cpus, gpus, out, workers(None), limit, options.shared_out)

    return on_ray


def _measures(options: Namespace) -> bool:
    known = options.study in registry.STUDIES.names()
    return known and bool(registry.PROCEDURES.get(registry.STUDIES.get(options.study).procedure).undisturbed)


def processes(options: Namespace) -> int:
    """How many runs go on here at the same time; what is timed shares the machine with nothing of ours."""
    return 1 if _measures(options) else workers(options.workers)


def workers(asked: int | None) -> int:
    """How many runs go on at the same time on this machine: as asked, or one a core."""
    if asked is not None and not 1 <= asked <= MOST:
        raise UserError(f"--workers must be between 1 and {MOST}, not {asked}")
    return asked or cores()


def cores() -> int:
    """The cores that this process may use: those it is bound to, or fewer, if Slurm or a container gives it fewer."""
    bound = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    asked = os.environ.get("SLURM_CPUS_PER_TASK", "")  # a cluster need not bind its tasks to what they asked for
    bound = min(bound, int(asked)) if re.fullmatch("[1-9][0-9]*", asked) else bound
    try:
        quota, period = map(int, QUOTA.read_text().split())
    except (OSError, ValueError):  # of a machine that is no container, or "max": all
        return bound
    return min(bound, math.ceil(quota / period))


def _amount(flag: str, asked: float | None, default: float) -> float:
    amount = default if asked is None else asked
    if not 0 <= amount < math.inf or (amount > 1 and amount != int(amount)) or amount != round(amount, 4):
        raise UserError(f"{flag} must be a whole number or a fraction, such as 0.5, not {amount:g}")
    return amount


def _seconds(asked: str | None) -> float | None:
    """Those of --run-timeout."""
    if asked is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd]?)", asked)
    seconds = float(found[1]) * {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}[found[2]] if found else 0.0
    if not 0 < seconds < math.inf:
        raise UserError(f"--run-timeout is a number of seconds, or such as 30m, 2h or 1d, not {asked!r}")
    return seconds
