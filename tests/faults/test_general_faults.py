"""Distillations killed in their middle: the same losses and the same weights as without that."""

from __future__ import annotations

import os
import random
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from safetensors.torch import load_file

from tests.conftest import Harness
from tests.faults.killing import run_and_kill, wait_for_another
from tests.launching import ranks, together
from tests.results import done, records, table_folder, without_times, written

SETTINGS = ("max_length=16", "teacher.epochs=1", "epochs=1", "train_examples=32", "general.max_length=16")
MATRIX = ("student.matrix_size=4", "student.vector_size=16", "general.batch_size=1", "general.epochs=2")
STEPS, SENTENCES = 100, 120
SHARED_OUT = ("general.batch_size=8", "general.micro_batch=3", f"general.steps={STEPS}", "transformer.layers=1")


@pytest.fixture
def corpus(glue: Path, tmp_path: Path) -> Path:
    lines = (glue / "SST-2" / "train.tsv").read_text().splitlines()[1:]
    sentences = [line.split("\t")[0] for line in lines]
    path = tmp_path / "corpus.txt"
    path.write_text("".join(f"{sentences[i % len(sentences)]}\n" for i in range(SENTENCES)))
    return path


def distilled(out: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the distillation and its record."""
    ((run, record),) = records(out, "general").items()
    return out / "ledger" / run, record


def same(killed: Path, calm: Path) -> None:
    """The same distillation: what is recorded of it, what it predicts and its weights."""
    (folder, record), (other, expected) = distilled(killed), distilled(calm)
    assert folder.name == other.name and not (folder / "checkpoint.pt").exists()
    assert without_times(record) == without_times(expected)
    for file in (path.relative_to(other) for path in other.rglob("*.safetensors")):
        ours, theirs = load_file(folder / file), load_file(other / file)
        assert ours.keys() == theirs.keys() and all(bool((ours[name] == theirs[name]).all()) for name in ours), file


def test_a_killed_distillation_goes_on_with_the_same_result(
    glue: Path, checkpoint: Path, corpus: Path, often: Path, call: Harness, tmp_path: Path
) -> None:
    """A worker of `harness run`, and then its driver. On several tasks it is one loop: see jobs/test_multi_task.py."""
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    study = (
        "general_vs_task_specific", "--objectives", "general", "--tasks", "sst2", "--corpus", corpus, "--set",
        *SETTINGS, *MATRIX,
    )  # fmt: skip

    def arguments(out: Path) -> list[object]:
        places = ("--data", glue, "--teacher", checkpoint, "--plugin", often, "--out", out)
        return ["run", "--seeds", "1", "--trials", "1", "--workers", "1", *places, "--study", *study]

    done(call(*arguments(calm)))
    run_and_kill(arguments(killed), killed)
    done(call(*arguments(killed)))
    same(killed, calm)
    tables = [(table_folder(out, study[0]) / "table.json").read_bytes() for out in (killed, calm)]
    assert tables[0] == tables[1]


def test_killed_processes_of_one_launch_go_on_with_the_same_result(
    glue: Path, checkpoint: Path, corpus: Path, often: Path, tmp_path: Path
) -> None:
    """One of two, the leading one and then the other, at moments that chance decides."""
    calm, killed, draw = tmp_path / "calm", tmp_path / "killed", random.Random()

    def arguments(out: Path) -> list[object]:
        study = ("pretrain", "--study", "task_agnostic_objectives", "--objectives", "att_mse+hid_seq")
        places = ("--data", glue, "--teacher", checkpoint, "--corpus", corpus, "--plugin", often, "--out", out)
        return [*study, *places, "--tasks", "sst2", "--set", *SETTINGS, *SHARED_OUT]

    statuses, said = together(*arguments(calm), folder=tmp_path / "said")
    assert statuses == [0, 0], said
    steps = []
    for hit in range(2):
        with ranks(*arguments(killed), folder=tmp_path / "said") as both:
            wait_for_another(killed, *both)
            time.sleep(draw.uniform(0, 0.1))
            os.kill(both[hit].pid, signal.SIGKILL)
            for process in both:
                process.join(30)  # one alone notices that the other is gone
                assert process.exitcode not in (0, None)
        assert not written(killed) and not list(killed.glob("ledger/*/weights"))
        steps.append(saved_step(killed))
    assert 0 < steps[0] <= steps[1] < STEPS
    statuses, said = together(*arguments(killed), folder=tmp_path / "said")
    assert statuses == [0, 0], said
    same(killed, calm)


def saved_step(out: Path) -> int:
    import torch

    (path,) = out.glob("ledger/*/checkpoint.pt")
    return int(torch.load(path, weights_only=True)["course"]["step"])
