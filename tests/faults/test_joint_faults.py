"""A worker and then the driver killed in the middle of a distillation on several tasks: the same student in the end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import load_file

from tests.conftest import Harness
from tests.faults.killing import run_and_kill

# 216 steps an epoch, which is saved at its end, unless it is the last
SETTINGS = (
    "student.hidden_units=4", "student.head_units=4", "student.embedding_size=8", "student.projection_units=4",
    "max_length=16", "epochs=1", "train_examples=32", "teacher.epochs=1", "multi_task.batch_size=1",
    "multi_task.epochs=3",
)  # fmt: skip


def _arguments(glue: Path, checkpoint: Path, out: Path) -> list[str]:
    study = ("run", "--study", "multi_task", "--objectives", "mkd_lstm", "--tasks", "sst2", "mrpc", "--seeds", "1")
    places = ("--data", glue, "--teacher", checkpoint, "--out", out)
    return [*study, *map(str, places), "--trials", "1", "--workers", "1", "--set", *SETTINGS]


def _joint(out: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of the joint distillation and its record."""
    records = {p.parent: json.loads(p.read_text())["record"] for p in out.glob("ledger/*/record.json")}
    ((folder, record),) = [f for f in records.items() if f[1]["specification"]["kind"] == "multi_task"]
    return folder, record


def test_a_killed_joint_distillation_goes_on_with_the_same_result(
    glue: Path, checkpoint: Path, call: Harness, tmp_path: Path
) -> None:
    calm, killed = tmp_path / "calm", tmp_path / "killed"
    process = call(*_arguments(glue, checkpoint, calm))
    assert process.returncode == 0, process.stderr

    run_and_kill(_arguments(glue, checkpoint, killed), killed)

    process = call(*_arguments(glue, checkpoint, killed))
    assert process.returncode == 0, process.stderr
    (folder, record), (other, expected) = _joint(killed), _joint(calm)
    assert folder.name == other.name and not (folder / "checkpoint.pt").exists()
    assert len(expected["curve"]) == 3 and record["curve"] == expected["curve"] and record["best"] == expected["best"]
    assert record["by_task"].keys() == {"mrpc", "sst2"}
    for task, part in expected["by_task"].items():
        assert record["by_task"][task]["metrics"] == part["metrics"]
        assert record["by_task"][task]["selection"] == part["selection"]
    for name in ("predictions.safetensors", "weights/model.safetensors"):
        ours, theirs = (load_file(place / name) for place in (folder, other))
        assert ours.keys() == theirs.keys() and all(np.array_equal(ours[key], theirs[key]) for key in ours), name
    tables = [(out / "multi_task" / "quick" / "table.json").read_bytes() for out in (killed, calm)]
    assert tables[0] == tables[1]
