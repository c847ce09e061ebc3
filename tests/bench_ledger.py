"""A ledger of many records: what the driver costs a run, and how long status and report take. Asserts nothing.

python -m tests.bench_ledger [RECORDS] [FOLDER] [--tpe] [--reuse]   FOLDER: where it is written, a new one if left out
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness import registry
from harness.contracts import Hyperparameter, Task
from harness.data.tasks import get_task
from harness.evaluation.metrics import score
from harness.files import atomic_write
from harness.ledger import Ledger
from harness.search.driver import Driver
from harness.search.plan import resolve
from harness.search.request import Request
from harness.seeds import derive_seed
from harness.viewing import plan_file

STUDY, PROFILE = "objectives_vs_init", "quick"
TASKS, INITS, TRIALS, SEEDS = ("acceptability", "entailment", "sentiment", "paraphrase"), 4, 8, 3
GRID = {"learning_rate": (1e-3, 5e-4, 2e-4, 1e-4), "warmup_ratio": (0.1, 0.2)}
RANGE = {
    "learning_rate": Hyperparameter(5e-4, low=1e-4, high=1e-3, log=True),
    "warmup_ratio": Hyperparameter(0.1, low=0.0, high=0.3),
}
EXAMPLES, ROUNDS = 200, 3


class Silent:
    """A listener that says nothing."""

    def started(self, done: int, wanted: int) -> None: ...

    def note(self, sentence: str) -> None: ...

    def epoch(self, specification: Mapping[str, Any], entry: Mapping[str, Any]) -> None: ...

    def ended(self, specification: Mapping[str, Any], record: Mapping[str, Any]) -> None: ...


class AtOnce:
    """An executor that answers every run at once with a record of the usual shape, drawn from the run's identity."""

    def __init__(self) -> None:
        self.queue: deque[tuple[str, dict[str, Any], Any]] = deque()
        self.seconds = 0.0  # spent here, which the driver is not to be blamed for

    def submit(self, run: str, specification: Any, place: Any) -> None:
        self.queue.append((run, specification, place))

    def next(self) -> tuple[Any, ...]:
        began = time.perf_counter()
        run, specification, place = self.queue.popleft()
        message = ("finished", run, *answer(run, specification))
        if specification["kind"] not in ("student", "untuned"):
            (Path(place.run) / "weights").mkdir(parents=True, exist_ok=True)
        self.seconds += time.perf_counter() - began
        return message

    def close(self) -> None: ...


def answer(run: str, specification: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, np.ndarray] | None]:
    """(record, predictions) of a run, plausible and always the same."""
    draw = np.random.default_rng(derive_seed("bench", run))
    curve = [
        {"epoch": epoch, "loss": float(draw.random()), "selection": chosen, "stage": stage}
        for stage, epoch, chosen in (
            ("intermediate", 1, None),
            ("intermediate", 2, None),
            ("prediction", 1, float(draw.random())),
            ("prediction", 2, float(draw.random())),
        )
    ]
    best = max((e for e in curve if e["selection"] is not None), key=lambda e: e["selection"] or 0.0)
    record: dict[str, Any] = {
        "best": best,
        "classifier_parameters": 4290,
        "code": {"att_kl": "486f1bff99a3", "training": "49b33cd71a6a", "transformer": "c4d3710d1658"},
        "curve": curve,
        "device": "cpu",
        "examples": 896,
        "examples_per_second": 1e4 * float(draw.random()),
        "initialisation": {},
        "metrics": {},
        "model_seconds": float(draw.random()),
        "parameters": 83074,
        "parameters_without_embeddings": 71362,
        "peak_memory_mib": 411.16796875,
        "pruned": False,
        "seconds": float(draw.random()),
        "selection": best["selection"],
        "specification": specification,
        "status": "finished",
        "teacher_signals": {"attention_scores": "stored", "logits": "stored"},
        "versions": {"numpy": "2.4.6", "python": "3.11.7", "torch": "2.13.0+cpu", "transformers": "5.23.0"},
    }
    if "task" not in specification:
        return record, None
    task, shown = dev(specification["task"], specification["metric"])
    labels = np.random.default_rng(derive_seed(task.name)).integers(0, task.outputs, EXAMPLES)
    wrong = draw.random(EXAMPLES) < 0.1 + 0.3 * draw.random()
    predictions = np.where(wrong, (labels + 1) % task.outputs, labels)
    record["metrics"] = score(shown, predictions, labels)
    return record, {"ids": np.arange(EXAMPLES), "predictions": predictions, "labels": labels}


def dev(name: str, metric: str) -> tuple[Task, Task]:
    task = get_task(name)
    return task, replace(task, metric=metric)


def planned(records: int, tpe: bool) -> dict[str, Any]:
    """A plan of the study with enough cells for so many records, of 8 trials and 2 further seeds each."""
    study = registry.STUDIES.get(STUDY)
    profile = replace(study.profile(PROFILE), search=RANGE if tpe else GRID, trials=TRIALS, seeds=SEEDS)
    origin = registry.STUDIES.origin(STUDY)
    registry.STUDIES._found[STUDY] = (replace(study, profiles={**study.profiles, PROFILE: profile}), origin)
    rows = max(1, round(records / (len(TASKS) * INITS * (TRIALS + SEEDS - 1))))
    objectives = [f"{1 + number}*att_kl+hid_seq" for number in range(rows)]
    return resolve(Request(STUDY, PROFILE, objectives=objectives, tasks=TASKS))


def driven(plan: dict[str, Any], ledger: Ledger, executor: AtOnce) -> int:
    """What `harness run` does between planning and the table."""
    atomic_write(plan_file(ledger.out, STUDY, PROFILE), json.dumps(plan, indent=1).encode())
    return Driver(plan, ledger, executor, Silent()).run()


def generate(records: int, out: Path, tpe: bool) -> None:
    began = time.perf_counter()
    plan = planned(records, tpe)
    print(f"planning {len(plan['cells'])} cells: {time.perf_counter() - began:.1f} s", flush=True)
    executor = AtOnce()
    began, cpu = time.perf_counter(), time.process_time()
    trained = driven(plan, Ledger(out, create=True), executor)
    wall, cpu = time.perf_counter() - began - executor.seconds, time.process_time() - cpu - executor.seconds
    print(f"driver: {trained} runs, {1000 * wall / trained:.2f} ms a run ({1000 * cpu / trained:.2f} ms of CPU)")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB", flush=True)


def started_again(records: int, out: Path, tpe: bool) -> None:
    """A driver that finds everything done."""
    plan = planned(records, tpe)
    began = time.perf_counter()
    trained = driven(plan, Ledger(out), AtOnce())
    print(f"driver started again: {trained} runs, {time.perf_counter() - began:.2f} s", flush=True)


def timed(out: Path, *words: str) -> None:
    command = [sys.executable, "-m", "harness", *words, "--study", STUDY, "--out", str(out)]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parent.parent)}
    seconds, busy = [], []
    for _ in range(ROUNDS):
        began, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL, env=environment)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(time.perf_counter() - began)
        busy.append(after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime)
    every = ", ".join(f"{s:.2f}" for s in seconds)
    cpu = statistics.median(busy)
    print(f"harness {' '.join(words)}: median {statistics.median(seconds):.2f} s of {every} ({cpu:.2f} s of CPU)")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("records", nargs="?", type=int, default=20_000)
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--tpe", action="store_true", help="a search space of ranges, proposed by TPE; else a grid")
    parser.add_argument("--reuse", action="store_true", help="time what FOLDER holds")
    options = parser.parse_args()
    out = options.folder or Path(tempfile.mkdtemp(prefix="bench_ledger_"))
    print(f"{options.records} records in {out}, {'TPE' if options.tpe else 'grid'}")
    if not options.reuse:
        generate(options.records, out, options.tpe)
    started_again(options.records, out, options.tpe)
    timed(out, "status")
    timed(out, "report")
    timed(out, "report", "--format", "markdown")


if __name__ == "__main__":
    main()
