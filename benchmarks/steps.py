"""python -m benchmarks.steps: a training step of each kind of student, as the engine makes it, on this device.

Of MiniLM's width. Prints the time of a step, and what of it the host takes to hand it over: where that is nearly all,
the device waits for the host, and runs that share it gain. Of the transformer also what a CUDA graph of its forward and
backward pass at one length gains; of matrices the tree of products against one after the other. Asserts nothing.
"""

from __future__ import annotations

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
STEPS = 50 if torch.cuda.is_available() else 5
MINILM: dict[str, Any] = {
    "hidden_size": 384, "num_hidden_layers": 6, "num_attention_heads": 12, "intermediate_size": 1536
}  # fmt: skip
SETTINGS = Settings({"learning_rate": 1e-4, "warmup_ratio": 0.0})
STUDENTS: dict[str, tuple[str, dict[str, Any]]] = {
    "transformer, 3 layers": ("transformer", {"layers": 3}),
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
    for _ in range(5):
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


def main() -> None:
    device, source = machine.device(), BertConfig(**MINILM).to_dict()
    name = torch.cuda.get_device_name() if device.type == "cuda" else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}; torch {torch.__version__}; {ROWS} texts of {LENGTH} tokens")
    for label, (plugin, own) in STUDENTS.items():
        torch.manual_seed(0)
        with device:
            model = build_student(plugin, own, source, 2).train()
        optimisation, read = Optimisation(model, nn.Module(), SETTINGS, STEPS), batch(device, source["vocab_size"])

        def step(answer: Callable[[], Tensor], optimisation: Optimisation = optimisation, read: Batch = read) -> None:
            optimisation.step(F.cross_entropy(answer(), read.labels))

        whole, handed = timed(lambda: step(lambda: model(read, Want(logits=True)).logits), device)  # noqa: B023
        print(f"{label:30} {whole:8.2f} ms a step, {100 * handed / whole:3.0f}% of it until it is handed over")
        if device.type == "cuda" and plugin == "transformer":
            ids = read.encodings[0]["input_ids"]
            graphed: Any = torch.cuda.make_graphed_callables(Logits(model, read), (ids,))
            faster, _ = timed(lambda: step(lambda: graphed(ids)), device)  # noqa: B023
            print(f"{'as a CUDA graph':30} {faster:8.2f} ms a step, {whole / faster:.2f} times as fast")


if __name__ == "__main__":
    main()
