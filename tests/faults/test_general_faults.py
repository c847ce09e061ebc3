"""A worker and then the driver killed in the middle of a general distillation: the same losses and the same weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from safetensors.torch import load_file

from tests.conftest import Harness
from tests.faults.killing import run_and_kill

SETTINGS = (
    "student.matrix_size=4", "student.vector_size=16", "max_length=16", "teacher.epochs=1", "epochs=1",
    "train_examples=32", "general.max_length=16", "general.batch_size=1", "general.epochs=2",
)  # fmt: skip
SENTENCES = 330  # nearly as many steps an epoch; saved are the 250th, that at the epoch's end, and the next 250th


def _arguments(glue: Path, checkpoint: Path, corpus: Path, out: Path) -> list[str]:
    study = ("run", "--study", "general_vs_task_specific", "--objectives", "general", "--tasks", "sst2", "--seeds", "1")
    places = ("--data", glue, "--teacher", checkpoint, "--corpus", corpus, "--out", out)
    return [*study, *map(str, places), "--trials", "1", "--workers", "1", "--set", *SETTINGS]


def _general(out: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the general distillation and its record."""
    records = {p.parent: json.loads(p.read_text())["record"] for p in out.glob("ledger/*/record.json")}
    ((folder, record),) = [f for f in records.items() if f[1]["specification"]["kind"] == "general"]
    return folder, record


def test_a_killed_distillation_goes_on_with_the_same_result(
    glue: Path, checkpoint: Path, call: Harness, tmp_path: Path
) -> None:
    lines = (glue / "SST-2" / "train.tsv").read_text().splitlines()[1:]
    sentences = [line.split("\t")[0] for line in lines]
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("".join(f"{sentences[i % len(sentences)]}\n" for i in range(SENTENCES)))
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    process = call(*_arguments(glue, checkpoint, corpus, calm))
    assert process.returncode == 0, process.stderr

    run_and_kill(_arguments(glue, checkpoint, corpus, killed), killed)

    process = call(*_arguments(glue, checkpoint, corpus, killed))
    assert process.returncode == 0, process.stderr
    (folder, record), (other, expected) = _general(killed), _general(calm)
    assert folder.name == other.name and not (folder / "checkpoint.pt").exists()
    assert record["metrics"] == expected["metrics"] and record["curve"] == expected["curve"]
    assert (record["tokens"], record["pieces"]) == (expected["tokens"], expected["pieces"])
    ours, theirs = (load_file(place / "weights" / "model.safetensors") for place in (folder, other))
    assert ours.keys() == theirs.keys() and all(bool((ours[name] == theirs[name]).all()) for name in ours)
