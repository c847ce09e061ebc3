"""How many times as fast as in float32 a student trains in bfloat16 on this machine, which only measuring tells."""

from __future__ import annotations

import time
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.contracts import Want
from harness.evaluation.parameters import build_student
from harness.evaluation.speed import as_batch, finish, over, random_batches, ratio
from harness.files import JSON
from harness.modeling.bases import Student
from harness.runs.settings import Settings
from harness.training.loop import in_float32, precision
from harness.training.machine import device
from harness.training.optimisation import Optimisation

LENGTH, OUTPUTS = 32, 2  # tokens of a typical sentence; classes
SECONDS = 1.0  # of steps of one student, in turns: at least one of each precision beside the warm-up


def factor(student: str, settings: Settings, source: JSON) -> float:
    """The time of a training step in float32 over that in bfloat16, of a student of random weights on random texts.

    A step: forward, cross-entropy, backward and update of `settings["batch_size"]` texts, with as many threads as the
    run is to have. source: the teacher's Hugging Face configuration.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(settings["threads"] or threads)
    try:
        batches = random_batches(source["vocab_size"], settings["batch_size"], LENGTH, device())
        steps = {
            name: over(_step(student, Settings({**settings, "precision": name}), source), batches)
            for name in ("float32", "bfloat16")
        }
        return ratio(*_in_turns(steps["bfloat16"], steps["float32"]))
    finally:
        torch.set_num_threads(threads)


def _in_turns(*steps: Callable[[], None]) -> list[list[float]]:
    """Seconds of each call of each of these steps, which take turns."""
    for step in steps:
        step()
    finish()
    taken: list[list[float]] = [[] for _ in steps]
    while sum(map(sum, taken)) < SECONDS:
        for step, seconds in zip(steps, taken, strict=True):
            began = time.perf_counter()
            step()
            finish()
            seconds.append(time.perf_counter() - began)
    return taken


def _step(student: str, settings: Settings, source: JSON) -> Callable[[Tensor], None]:
    with device():
        model: Student = build_student(student, settings.of(student), source, OUTPUTS).train()
    optimisation = Optimisation(model, nn.Module(), settings, steps=1)

    def step(ids: Tensor) -> None:
        with precision(settings, device()):
            outputs = model(as_batch(ids), Want(logits=True))
        optimisation.step(F.cross_entropy(in_float32(outputs).logits, ids[:, 0] % OUTPUTS))

    return step
