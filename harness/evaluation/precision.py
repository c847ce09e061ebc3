"""How many times as fast as in float32 a student trains in bfloat16 on this machine, which only measuring tells."""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from harness.contracts import Want
from harness.evaluation.parameters import build_student
from harness.evaluation.speed import as_read, compare, over, random_batches, ratio
from harness.files import JSON
from harness.modeling.bases import Student
from harness.runs.settings import Settings
from harness.training.loop import in_float32, precision
from harness.training.machine import device
from harness.training.optimisation import Optimisation

LENGTH, OUTPUTS = 32, 2  # tokens of a typical sentence; classes


def factor(student: str, settings: Settings, source: JSON, pairs: bool) -> float:
    """The time of a training step in float32 over that in bfloat16, of a student of random weights on random texts.

    With as many threads as the run is to have. source: the teacher's Hugging Face configuration; pairs: whether the
    task's examples are pairs.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(settings["threads"])
    try:
        batches = random_batches(source["vocab_size"], settings["batch_size"], LENGTH, device())
        steps = {}
        for name in ("float32", "bfloat16"):
            with device():
                model = build_student(student, settings.of(student), source, OUTPUTS, pairs).train()
            steps[name] = over(training_step(model, Settings({**settings, "precision": name})), batches)
        seconds = compare(steps, rounds=1)
        return ratio(seconds["bfloat16"], seconds["float32"])
    finally:
        torch.set_num_threads(threads)


def training_step(model: Student, settings: Settings) -> Callable[[Tensor], None]:
    """A step on token ids (B, L) as the engine makes it: forward, cross-entropy, backward and update."""
    optimisation = Optimisation(model, nn.Module(), settings, steps=1)

    def step(ids: Tensor) -> None:
        with precision(settings, device()):
            outputs = model(as_read(model, ids), Want(logits=True))
        optimisation.step(F.cross_entropy(in_float32(outputs).logits, ids[:, 0] % OUTPUTS))

    return step
