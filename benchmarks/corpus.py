"""python -m benchmarks.corpus [--pieces 256] [--length 128] [--updates 10]: a 6-layer student distilled by Att-MSE.

Prints updates per second of the loop that `harness distil-corpus` runs, in bfloat16, from a BERT-base of random
weights, and what share of this machine's speed at multiplying large matrices that is: measured here, in one run.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from harness import combine
from harness.contracts import Batch, Encoding, LayerMap
from harness.data.tasks import CORPUS
from harness.evaluation.parameters import build_student
from harness.runs.settings import GENERAL_TRAINING, Settings
from harness.students.transformer import Transformer
from harness.teachers.huggingface import HuggingFaceTeacher
from harness.teaching.outputs import Encoder
from harness.training import machine
from harness.training.checkpoints import Checkpoint
from harness.training.corpus_loop import train_on_corpus
from harness.training.loop import Clock, Regime, precision
from harness.training.sums import Sum

TEACHER, LAYERS, SIDE = "bert-base-uncased", 6, 8192


class Random:
    """`updates` batches of random tokens, all of one length."""

    def __init__(self, pieces: int, length: int, updates: int, vocabulary: int):
        self.lengths = torch.full((pieces * updates,), length)
        self.pieces, self.vocabulary = pieces, vocabulary

    def __len__(self) -> int:
        return len(self.lengths)

    def batches(self, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
        return list(torch.arange(len(self)).split(self.pieces))

    def batch(self, index: Tensor, device: torch.device | None = None, epoch: int = 0) -> Batch:
        ids = torch.randint(self.vocabulary, (len(index), int(self.lengths[0])), device=device)
        encoding = Encoding({"input_ids": ids, "attention_mask": torch.ones_like(ids)}, self.lengths[index])
        return Batch(index, torch.zeros(len(index)), (encoding,), torch.full_like(ids, -100))


def measure(pieces: int, length: int, updates: int) -> None:
    machine.repeatable()
    device = machine.device()
    cuda = device.type == "cuda"
    name = torch.cuda.get_device_name() if cuda else f"CPU, {torch.get_num_threads()} threads"
    print(f"{name}; torch {torch.__version__}; {pieces} pieces of {length} tokens, {updates} updates")
    source = HuggingFaceTeacher(TEACHER)
    info, plugin = source.info(CORPUS), Transformer
    own = {"batch_size": pieces, "steps": updates, "precision": "bfloat16", "transformer.layers": LAYERS}
    settings = Settings({name: h.default for name, h in GENERAL_TRAINING.items()} | own)
    described = plugin.describe({"layers": LAYERS}, info, CORPUS)
    torch.manual_seed(0)
    configuration = source.configuration()
    with device:
        student = build_student(plugin.name, {"layers": LAYERS}, configuration, 0)
        teacher = Encoder(build_student(plugin.name, {"layers": info.layers}, configuration, 0).model).eval()
    objective = Sum(combine.parse("att_mse"), described, info, LayerMap(((LAYERS, info.layers),)), settings)

    def imitated(batch: Batch, want: Any) -> Any:
        with torch.no_grad(), precision(settings, device):
            return teacher(batch, want)

    def run(number: int) -> dict[str, Any]:
        data = Random(pieces, length, number, info.vocabulary)
        with tempfile.TemporaryDirectory() as folder:
            checkpoint = Checkpoint(Path(folder) / "c", "")
            asked = Settings({**settings, "steps": number})
            regime = Regime(asked, 0, device, checkpoint, Clock(), lambda entry: None)
            return train_on_corpus(student, objective, data, imitated, regime)

    run(2)  # what is made at the first call
    machine.reset_peak_memory()
    speed = run(updates)["steps_per_second"]
    done = speed * operations(pieces, length, info.width, info.layers) / 1e12
    memory, side = machine.peak_memory() / 1024, SIDE if cuda else SIDE // 8
    most = matrices(device, side)
    print(f"{speed:.3f} updates/s, {speed * pieces * length:,.0f} tokens/s, {memory:.1f} GiB at most")
    print(f"{done:.1f} TFLOP/s in the encoders' products, {most:.1f} in those of {side} x {side} matrices:")
    print(f"{100 * done / most:.0f}% of what this machine does at best")


def operations(pieces: int, length: int, width: int, layers: int) -> float:
    """Floating-point operations of an update: the teacher forward, the student forward and (twice that) backward.

    A layer multiplies each token by 12 width^2 weights, and each query by all keys and all values; 2 operations each.
    Backward through the last layer only its queries, its keys and their products take part.
    """
    layer = 2 * pieces * length * (12 * width**2 + 2 * length * width)
    compared = 2 * pieces * length * (2 * width**2 + length * width)
    return float(layer * (layers + LAYERS + 2 * (LAYERS - 1)) + 2 * compared)


def matrices(device: torch.device, side: int) -> float:
    """TFLOP/s of this device at multiplying square matrices of so many rows in bfloat16."""
    matrix = torch.randn(side, side, device=device, dtype=torch.bfloat16)
    seconds = []
    for _ in range(8):
        began = _now(device)
        for _ in range(10):
            matrix @ matrix
        seconds.append((_now(device) - began) / 10)
    return 2 * side**3 / min(seconds) / 1e12


def _now(device: torch.device) -> float:
    if device.type == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter()


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.corpus")
    arguments.add_argument("--pieces", type=int, default=256 if torch.cuda.is_available() else 8)
    arguments.add_argument("--length", type=int, default=128)
    arguments.add_argument("--updates", type=int, default=30 if torch.cuda.is_available() else 3)
    asked = arguments.parse_args()
    measure(asked.pieces, asked.length, asked.updates)
