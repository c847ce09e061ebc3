"""python -m benchmarks.steps: a training step of each kind of student, as the engine makes it, on this device.

Of MiniLM's width. Prints the time of a step, and what of it the host takes to hand it over: where that is nearly all,
the device waits for the host, and runs that share it gain. Of the transformer also what a CUDA graph of its forward and
backward pass at one length gains, alone and where processes share the device; of matrices the tree of products against
one after the other. Asserts nothing.
"""

from __future__ import annotations

import multiprocessing
import time
from collections.abc import Callable
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import BertConfig

from harness.contracts import Batch, Encoding, Want
from harness.evaluation.parameters import build_student
from harness.runs.settings import Settings
from harness.training import machine
from harness.training.optimisation import Optimisation

ROWS, LENGTH = 32, 32
STEPS, WARM = 50 if torch.cuda.is_available() else 5, 5
SECONDS, MOST = 5.0, 8  # for which processes that share the device make steps, and how many of them
PATIENCE = 300.0  # seconds until one that has died is no longer waited for
TRANSFORMER = "transformer, 3 layers"
MINILM: dict[str, Any] = {
    "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536
}  # fmt: skip
SETTINGS = Settings({"learning_rate": 1e-4, "warmup_ratio": 0.0})
STUDENTS: dict[str, tuple[str, dict[str, Any]]] = {
    TRANSFORMER: ("transformer", {"layers": 3}),
    "BiLSTM": ("bilstm", {"vocabulary": "teacher"}),
    "bi-attentive LSTM": ("biattentive_lstm", {}),
    "hybrid, product sequential": ("hybrid", {"product": "sequential"}),
    "hybrid, product logarithmic": ("hybrid", {"product": "logarithmic"}),
}


def batch(device: torch.device, vocabulary: int) -> Batch:
    """Random texts of one length."""
    ids = torch.randint(1000, vocabulary, (ROWS, LENGTH), device=device)
    encoding = Encoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, torch.full((ROWS,), LENGTH))
    return Batch(torch.arange(ROWS), torch.zeros(ROWS, dtype=torch.long, device=device), (encoding,))


def timed(step: Callable[[], object], device: torch.device) -> tuple[float, float]:
    """Milliseconds of a step, and of handing it over."""
    for _ in range(WARM):
        step()
    _wait(device)
    began = time.perf_counter()
    for _ in range(STEPS):
        step()
    handed = time.perf_counter()
    _wait(device)
    return 1000 * (time.perf_counter() - began) / STEPS, 1000 * (handed - began) / STEPS


def _wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


class Logits(nn.Module):
    """A student as a function of its tokens, for `make_graphed_callables`."""

    def __init__(self, model: nn.Module, read: Batch):
        super().__init__()
        self.model, self.read = model, read

    def forward(self, ids: Tensor) -> Tensor:
        self.read.encodings[0]["input_ids"] = ids
        logits: Tensor = self.model(self.read, Want(logits=True)).logits
        return logits


def stepping(label: str, device: torch.device, graphed: bool = False) -> Callable[[], None]:
    """A training step of a student on one batch; graphed: forward and backward as a CUDA graph."""
    (plugin, own), source = STUDENTS[label], BertConfig(**MINILM).to_dict()
    torch.manual_seed(0)
    with device:
        model = build_student(plugin, own, source, 2).train()
    optimisation, read = Optimisation(model, nn.Module(), SETTINGS, STEPS), batch(device, source["vocab_size"])
    ids = read.encodings[0]["input_ids"]
    graph: Any = torch.cuda.make_graphed_callables(Logits(model, read), (ids,)) if graphed else None

    def step() -> None:
        logits = graph(ids) if graphed else model(read, Want(logits=True)).logits
        optimisation.step(F.cross_entropy(logits, read.labels))

    return step


def _together(graphed: bool, ready: Any, made: Any) -> None:
    """What each of several processes does: steps for SECONDS, from when all are ready."""
    torch.set_num_threads(1)
    machine.repeatable()
    device = machine.device()
    step = stepping(TRANSFORMER, device, graphed)
    timed(step, device)
    ready.wait()
    number, until = 0, time.monotonic() + SECONDS
    while time.monotonic() < until:
        timed(step, device)
        number += WARM + STEPS
    made.put(number)


def together(number: int, graphed: bool) -> float:
    """Steps a second of so many processes that share the device."""
    context = multiprocessing.get_context("spawn")
    ready, made = context.Barrier(number, timeout=PATIENCE), context.Queue()
    processes = [context.Process(target=_together, args=(graphed, ready, made)) for _ in range(number)]
    for process in processes:
        process.start()
    found = [made.get(timeout=PATIENCE) for _ in processes]
    for process in processes:
        process.join()
    return sum(found) / SECONDS


def main() -> None:
    machine.repeatable()
    device = machine.device()
    cuda = device.type == "cuda"
    name = torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}; torch {torch.__version__}; {ROWS} texts of {LENGTH} tokens")
    for label in STUDENTS:
        whole, handed = timed(stepping(label, device), device)
        print(f"{label:30} {whole:8.2f} ms a step, {100 * handed / whole:3.0f}% of it until it is handed over")
        if cuda and label == TRANSFORMER:
            faster, _ = timed(stepping(label, device, graphed=True), device)
            print(f"{'as a CUDA graph':30} {faster:8.2f} ms a step, {whole / faster:.2f} times as fast")
    for number in (1, MOST) if cuda else ():
        plain, graphed = (together(number, how) for how in (False, True))
        print(f"{number} processes: {plain:.0f} steps a second together, {graphed / plain:.2f} times as many by graphs")


if __name__ == "__main__":
    main()
