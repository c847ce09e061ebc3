"""A driver's executor and listener where nothing is trained: every run is answered at once."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.contracts import Task
from harness.data.tasks import get_task
from harness.evaluation.metrics import score
from harness.runs import Run
from harness.runs.messages import Finished
from harness.seeds import derive_seed

EXAMPLES = 200


class Silent:
    """A listener that says nothing."""

    def started(self, done: int, wanted: int) -> None: ...

    def began(self, run: Run) -> None: ...

    def note(self, sentence: str) -> None: ...

    def epoch(self, run: Run, entry: Mapping[str, Any]) -> None: ...

    def ended(self, run: Run, record: Mapping[str, Any]) -> None: ...


class AtOnce:
    """An executor that answers every run at once with a record of the usual shape, drawn from the run's identity."""

    def __init__(self) -> None:
        self.queue: deque[tuple[str, dict[str, Any], Any]] = deque()
        self.seconds = self.cpu = 0.0  # spent here, which the driver is not to be blamed for

    def prepare(self) -> None:
        pass

    def submit(self, run: str, specification: Any, place: Any) -> None:
        self.queue.append((run, specification, place))

    def next(self) -> Finished:
        began, busy = time.perf_counter(), time.process_time()
        run, specification, place = self.queue.popleft()
        message = Finished(run, *answer(run, specification))
        if specification["kind"] not in ("student", "untuned"):
            (Path(place.run) / "weights").mkdir(parents=True, exist_ok=True)
        self.seconds += time.perf_counter() - began
        self.cpu += time.process_time() - busy
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
