"""make bench: where time goes on this machine, always as shares or ratios within one run. Judges and asserts nothing:
seconds differ between machines, shares and ratios hardly do.

python -m benchmarks.time_shares [engine|speed|step] [FOLDER]   one part, or all; `engine` keeps its results in FOLDER,
a new one
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, PreTrainedModel

from harness import registry
from harness.cli import main
from harness.contracts import Want
from harness.evaluation.parameters import build_student
from harness.evaluation.precision import training_step
from harness.evaluation.speed import as_batch, compare, encode, over, random_batches, ratio
from harness.modeling.bases import Student
from harness.runs.settings import Settings
from harness.teachers.architectures import KNOWN
from harness.training import machine

THREADS = 1
ROUNDS = 3
BATCH = 256
PUBLISHED = 6.5  # galke2022, table V: the hybrid's sentences per second over BERT-base's, 30.0k / 4.6k, on an A100
REFERENCE = "BERT-base"
BASELINES = {
    REFERENCE: "bert-base-uncased",
    "DistilBERT": "distilbert-base-uncased",
    "MobileBERT": "google/mobilebert-uncased",
    "TinyBERT, 4 layers": "huawei-noah/TinyBERT_General_4L_312D",
}
VOCABULARY = KNOWN["bert-base-uncased"]["vocab_size"]


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:5.1f}%"


def engine(out: Path) -> None:
    """Run the quick profile into an empty folder and print the engine's share of its time."""
    for kind in registry.ALL.values():  # the driver's imports are not its work
        kind.names()
    import optuna  # noqa: F401

    began, cpu = time.perf_counter(), time.process_time()
    status = main(["run", "--study", "objectives_vs_init", "--out", str(out)])
    wall, driver = time.perf_counter() - began, time.process_time() - cpu
    records = [json.loads(p.read_bytes())["record"] for p in out.glob("ledger/*/record.json")]
    runs = sum(r["seconds"] for r in records)
    model = sum(r["model_seconds"] for r in records)
    whole = runs + driver
    print(f"\nexit status {status}; {len(records)} runs in {wall:.0f} s")
    print("share of all run and driver time (runs are worker seconds, the driver's are CPU seconds):")
    print(f"  {share(model, whole)}  training steps and predictions: forward, backward, update")
    print(f"  {share(runs - model, whole)}  around them in the workers: data, teacher outputs, metrics, checkpoints")
    print(f"  {share(driver, whole)}  the driver: plan, proposals, ledger, Optuna's database, tables, figures")
    print(f"  {share(whole - model, whole)}  the engine in all")
    students = [r for r in records if r["specification"]["kind"] == "student"]
    inside = sum(r["seconds"] - r["model_seconds"] for r in students) / sum(r["seconds"] for r in students)
    print(f"  {100 * inside:5.1f}%  of a student run alone is spent around its steps")


# ---------------------------------------------------------------- encoding


def speed(length: int = 64) -> None:
    """Print sentences per second of encoding, all models of random weights and timed in turns.

    A GPU is given larger batches too, until it no longer waits for the processor.
    """
    device = _machine()
    best: dict[str, float] = {}
    for batch in (BATCH, 4 * BATCH, 16 * BATCH) if device.type == "cuda" else (BATCH,):
        for name, found in _speeds(batch, length, device).items():
            best[name] = max(found, best.get(name, 0.0))
    reference = max(found for name, found in best.items() if name.startswith(REFERENCE))
    print("each with the batch that suits it:")
    for name, found in best.items():
        print(f"{name:35}{found:12,.1f}{found / reference:13,.1f} x {REFERENCE}")


def _speeds(batch: int, length: int, device: torch.device) -> dict[str, float]:
    """Print and return sentences per second with one size of batch."""
    print(f"encoding {batch} random sequences of length {length}, {ROUNDS} rounds; published ratio: {PUBLISHED}")
    batches = random_batches(VOCABULARY, batch, length, device)
    models: dict[str, Callable[[], object]] = {}
    precisions = (torch.float32, torch.bfloat16) if device.type == "cuda" else (torch.float32,)
    larger = batch > BATCH  # there the fastest alone are timed
    for name, hub in BASELINES.items() if not larger else ((REFERENCE, BASELINES[REFERENCE]),):
        for precision in precisions if not larger else precisions[-1:]:
            with device:
                model = AutoModel.from_config(AutoConfig.for_model(**KNOWN[hub]), dtype=precision)
            models[f"{name}, {str(precision).removeprefix('torch.')}"] = over(partial(encode, model.eval()), batches)
    for product in ("sequential", "logarithmic") if not larger else ("logarithmic",):
        # in float32: bfloat16 cannot hold a matrix near the identity
        student = _hybrid(device, product=product).eval()
        models[f"hybrid, pooled, {product}"] = over(partial(encode, student), batches)
        models[f"hybrid, all prefixes, {product}"] = over(partial(_prefixes, student), batches)
    models["the hybrid's look-ups alone"] = over(partial(_look_up, student), batches)
    seconds = compare(models, ROUNDS)
    reference = min((times for name, times in seconds.items() if name.startswith(REFERENCE)), key=statistics.median)
    print(f"{'':35}{'sentences/s':>12}{'x ' + REFERENCE:>13}  in each round")
    for name, own in seconds.items():
        each = ", ".join(f"{r / s:,.1f}" for r, s in zip(reference, own, strict=True))
        print(f"{name:35}{batch / statistics.median(own):12,.1f}{ratio(own, reference):13,.1f}  {each}")
    return {name: batch / statistics.median(own) for name, own in seconds.items()}


def _machine() -> torch.device:
    """The device to measure on; prints what it is."""
    machine.keep_freed_memory()  # as in a run
    torch.set_num_threads(THREADS)
    cuda = torch.cuda.is_available()
    name = torch.cuda.get_device_name() if cuda else f"CPU, {THREADS} thread, in that thread's own seconds"
    print(f"\n{name}; torch {torch.__version__}; what else runs on the machine changes ratios less than seconds")
    return torch.device("cuda" if cuda else "cpu")


def _hybrid(device: torch.device, **settings: object) -> Student:
    source = AutoConfig.for_model(**KNOWN["bert-base-uncased"]).to_dict()
    with device:
        return build_student("bidirectional_hybrid", settings, source, 2)


def _prefixes(student: Student, ids: Tensor) -> Tensor:
    with torch.no_grad():
        return student(as_batch(ids), Want(hidden_states=frozenset({1}))).hidden_states[1]


def _tables(model: PreTrainedModel) -> list[nn.Embedding]:
    return [m for m in model.modules() if isinstance(m, nn.Embedding)]


def _look_up(student: Student, ids: Tensor) -> list[Tensor]:
    with torch.no_grad():
        return [nn.functional.embedding(ids, table.weight) for table in _tables(student)]


# ---------------------------------------------------------------- a training step


def step(batch: int = 32, length: int = 32) -> None:
    """Print the time of the engine's training step of the hybrid, and of the same step with dense gradients."""
    device = _machine()
    print(f"training step of the hybrid: {batch} random sequences of length {length}; forward, backward, update")
    batches = random_batches(VOCABULARY, batch, length, device)
    rows, dense = (_hybrid(device).train() for _ in range(2))
    for table in _tables(dense):
        table.sparse = False
    models = {"rows": rows, "dense": dense}
    seconds = compare({n: over(training_step(m, Settings()), batches) for n, m in models.items()}, rounds=9)
    for name, what in (("dense", "AdamW over whole tables"), ("rows", "SparseAdam over the rows used, AdamW else")):
        print(f"{what:45}{1000 * statistics.median(seconds[name]):9.1f} ms")
    print(f"{'times as fast':45}{ratio(seconds['rows'], seconds['dense']):9.1f}")


if __name__ == "__main__":
    arguments = argparse.ArgumentParser(prog="python -m benchmarks.time_shares")
    arguments.add_argument("part", nargs="?", default="all", choices=("all", "engine", "speed", "step"))
    arguments.add_argument("folder", nargs="?", type=Path)
    asked = arguments.parse_args()
    if asked.part in ("all", "engine"):
        with tempfile.TemporaryDirectory() as temporary:
            engine(asked.folder or Path(temporary) / "results")
    if asked.part in ("all", "speed"):
        speed()
    if asked.part in ("all", "step"):
        step()
