"""General distillations killed in their middle: the same losses and the same weights as without that."""

from __future__ import annotations

import json
import os
import random
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from harness.training import corpus_loop
from tests.conftest import Harness
from tests.faults.killing import newest, run_and_kill
from tests.launching import ranks, together

SETTINGS = ("max_length=16", "teacher.epochs=1", "epochs=1", "train_examples=32", "general.max_length=16")
MATRIX = ("student.matrix_size=4", "student.vector_size=16", "general.batch_size=1", "general.epochs=2")
SHARED_OUT = ("general.batch_size=8", "general.micro_batch=3", "general.steps=200", "transformer.layers=1")
SENTENCES = 330
SECONDS = 0.1  # between checkpoints, so that they come at other steps every time


@pytest.fixture
def often(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A plugin that has checkpoints written every now and then, in whatever process loads it."""
    monkeypatch.setattr(corpus_loop, "CHECKPOINT_SECONDS", corpus_loop.CHECKPOINT_SECONDS)  # undone in this one
    path = tmp_path / "often.py"
    path.write_text(f"from harness.training import corpus_loop\n\ncorpus_loop.CHECKPOINT_SECONDS = {SECONDS}\n")
    yield path


@pytest.fixture
def corpus(glue: Path, tmp_path: Path) -> Path:
    lines = (glue / "SST-2" / "train.tsv").read_text().splitlines()[1:]
    sentences = [line.split("\t")[0] for line in lines]
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"{sentences[i % len(sentences)]}\n" for i in range(SENTENCES)))
    return path


def general(out: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the corpus distillation and its record."""
    records = {p.parent: json.loads(p.read_text())["record"] for p in out.glob("ledger/*/record.json")}
    ((folder, record),) = [f for f in records.items() if f[1]["specification"]["kind"] == "general"]
    return folder, record


def same(killed: Path, calm: Path) -> None:
    (folder, record), (other, expected) = general(killed), general(calm)
    assert folder.name == other.name and not (folder / "checkpoint.pt").exists()
    assert record["metrics"] == expected["metrics"] and record["curve"] == expected["curve"]
    assert (record["tokens"], record["pieces"]) == (expected["tokens"], expected["pieces"])
    ours, theirs = (load_file(place / "weights" / "model.safetensors") for place in (folder, other))
    assert ours.keys() == theirs.keys() and all(bool((ours[name] == theirs[name]).all()) for name in ours)


def test_a_killed_distillation_goes_on_with_the_same_result(
    glue: Path, checkpoint: Path, corpus: Path, often: Path, call: Harness, tmp_path: Path
) -> None:
    """A worker of `harness run`, and then its driver."""
    calm, killed = tmp_path / "calm", tmp_path / "killed"

    def arguments(out: Path) -> list[str]:
        study = ("run", "--study", "general_vs_task_specific", "--objectives", "general", "--tasks", "sst2")
        places = ("--data", glue, "--teacher", checkpoint, "--corpus", corpus, "--plugin", often, "--out", out)
        sizes = ("--seeds", "1", "--trials", "1", "--workers", "1", "--set", *SETTINGS, *MATRIX)
        return [*study, *map(str, places), *sizes]

    process = call(*arguments(calm))
    assert process.returncode == 0, process.stderr
    run_and_kill(arguments(killed), killed)
    process = call(*arguments(killed))
    assert process.returncode == 0, process.stderr
    same(killed, calm)


def test_killed_processes_of_one_launch_go_on_with_the_same_result(
    glue: Path, checkpoint: Path, corpus: Path, often: Path, tmp_path: Path
) -> None:
    """One of two, the leading one or the other, and then both, at moments that chance decides."""
    calm, killed, draw = tmp_path / "calm", tmp_path / "killed", random.Random()

    def arguments(out: Path) -> list[object]:
        study = ("pretrain", "--study", "task_agnostic_objectives", "--objectives", "att_mse+hid_seq")
        places = ("--data", glue, "--teacher", checkpoint, "--corpus", corpus, "--plugin", often, "--out", out)
        return [*study, *places, "--tasks", "sst2", "--set", *SETTINGS, *SHARED_OUT]

    statuses, said = together(*arguments(calm), folder=tmp_path / "said")
    assert statuses == [0, 0], said
    steps = []
    for turn, hit in enumerate(((0,), (1,), (0, 1), (1, 0))):
        before = newest(killed)
        with ranks(*arguments(killed), folder=tmp_path / "said") as both:
            deadline = time.monotonic() + 200
            while newest(killed) == before:
                assert all(p.is_alive() for p in both) and time.monotonic() < deadline, f"turn {turn} was not hit"
                time.sleep(0.01)
            time.sleep(draw.uniform(0, 0.1))
            for number in hit:
                os.kill(both[number].pid, signal.SIGKILL)
            for process in both:
                process.join(30)  # one alone notices that the other is gone
                assert process.exitcode not in (0, None)
        assert not list(killed.glob("ledger/*/record.json")) and not list(killed.glob("ledger/*/weights"))
        steps.append(saved_step(killed))
    assert 0 < steps[0] <= steps[1] <= steps[2] <= steps[3] < 200
    statuses, said = together(*arguments(killed), folder=tmp_path / "said")
    assert statuses == [0, 0], said
    same(killed, calm)


def saved_step(out: Path) -> int:
    import torch

    (path,) = out.glob("ledger/*/checkpoint.pt")
    return int(torch.load(path, weights_only=True)["course"]["step"])
