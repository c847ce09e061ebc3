"""A ledger of many records: what the driver costs a run, and how long status and report take. Asserts nothing.

python -m benchmarks.ledger [RECORDS] [FOLDER] [--tpe] [--reuse] [--wide]
FOLDER: where it is written, a new one if left out
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import registry
from harness.contracts import Hyperparameter
from harness.ledger import Ledger
from harness.planning.filed import keep
from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.planning.request import Request
from harness.search.driver import Driver
from tests.at_once import AtOnce, Silent

STUDY, PROFILE = "objectives_vs_init", "quick"
TASKS, INITS, TRIALS, SEEDS = ("acceptability", "entailment", "sentiment", "paraphrase"), 4, 8, 3
WIDEST = (
    16  # objectives: 64 rows in each column of the table, as of the largest study, of 65; more records, more trials
)
RANGE = {
    "learning_rate": Hyperparameter(5e-4, low=1e-4, high=1e-3, log=True),
    "warmup_ratio": Hyperparameter(0.1, low=0.0, high=0.3),
}
ROUNDS = 3


def planned(records: int, tpe: bool, wide: bool) -> Plan:
    """A plan of the study with enough cells for so many records, of 8 trials or more and 2 further seeds each."""
    rows = max(1, round(records / (len(TASKS) * INITS * (TRIALS + SEEDS - 1))))
    rows = rows if wide else min(rows, WIDEST)
    trials = max(TRIALS, round(records / (len(TASKS) * INITS * rows)) - SEEDS + 1)
    grid = {"learning_rate": tuple(1e-3 / (1 + step) for step in range(-(-trials // 2))), "warmup_ratio": (0.1, 0.2)}
    study = registry.STUDIES.get(STUDY)
    profile = replace(study.profile(PROFILE), search=RANGE if tpe else grid, trials=trials, seeds=SEEDS)
    origin = registry.STUDIES.origin(STUDY)
    registry.STUDIES._found[STUDY] = (replace(study, profiles={**study.profiles, PROFILE: profile}), origin)
    objectives = [f"{1 + number}*att_kl+hid_seq" for number in range(rows)]
    return resolve(Request(STUDY, PROFILE, objectives=objectives, tasks=TASKS))


def driven(plan: Plan, ledger: Ledger, executor: AtOnce) -> int:
    """What `harness run` does between planning and the table."""
    keep(ledger.out, plan)
    return Driver(plan, ledger, executor, Silent()).run()


def generate(out: Path, *size: Any) -> None:
    began = time.perf_counter()
    plan = planned(*size)
    print(f"planning {len(plan.cells)} cells: {time.perf_counter() - began:.1f} s", flush=True)
    executor = AtOnce()
    began, cpu = time.perf_counter(), time.process_time()
    trained = driven(plan, Ledger(out, create=True), executor)
    wall, cpu = time.perf_counter() - began - executor.seconds, time.process_time() - cpu - executor.cpu
    print(f"driver: {trained} runs, {1000 * wall / trained:.2f} ms a run ({1000 * cpu / trained:.2f} ms of CPU)")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB", flush=True)


def started_again(out: Path, *size: Any) -> None:
    """A driver that finds everything done."""
    plan = planned(*size)
    began = time.perf_counter()
    trained = driven(plan, Ledger(out), AtOnce())
    print(f"driver started again: {trained} runs, {time.perf_counter() - began:.2f} s", flush=True)


def _apart(what: Callable[..., None], *given: Any) -> None:
    """In a process of its own: a child that is started by a large one counts that one's memory as its own."""
    process = multiprocessing.get_context("spawn").Process(target=what, args=given)
    process.start()
    process.join()
    if process.exitcode:
        sys.exit(process.exitcode)


def timed(out: Path, *words: str) -> None:
    said(words, [sys.executable, "-m", "harness", *words, "--study", STUDY, "--out", str(out)])


def said(words: Sequence[str], command: Sequence[str]) -> None:
    """How long a command takes, in seconds of the clock and of CPU, and its memory."""
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    seconds, busy, memory = [], [], 0.0
    for _ in range(ROUNDS):
        began = time.perf_counter()
        nowhere = subprocess.DEVNULL
        process = subprocess.Popen(command, stdout=nowhere, stderr=nowhere, env=environment)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            raise subprocess.CalledProcessError(process.returncode, command)
        seconds.append(time.perf_counter() - began)
        busy.append(used.ru_utime + used.ru_stime)
        memory = max(memory, used.ru_maxrss / 1024)
    every = ", ".join(f"{s:.2f}" for s in seconds)
    middle, cpu = statistics.median(seconds), statistics.median(busy)
    what = f"median {middle:.2f} s of {every} ({cpu:.2f} s of CPU), {memory:.0f} MiB"
    print(f"harness {' '.join(words)}: {what}", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", nargs="?", type=int, default=20_000)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--tpe", action="store_true", help="a search space of ranges, proposed by TPE; else a grid")
    parser.add_argument(
        "--wide", action="store_true", help="more records are more rows, not more trials: the driver alone"
    )
    parser.add_argument("--reuse", action="store_true", help="time what FOLDER holds")
    options = parser.parse_args()
    out = options.folder or Path(tempfile.mkdtemp(prefix="bench_ledger_"))
    print(f"{options.records} records in {out}, {'TPE' if options.tpe else 'grid'}")
    size = options.records, options.tpe, options.wide
    if not options.reuse:
        _apart(generate, out, *size)
    _apart(started_again, out, *size)
    if options.wide:  # comparing all rows of so long a column is no report that anybody asks for
        return
    timed(out, "status")
    timed(out, "report")
    timed(out, "report", "--format", "markdown")


if __name__ == "__main__":
    main()
