"""Every row of the quick profile on two nodes: the same table, byte for byte, as by local workers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest

from tests.conftest import Harness
from tests.executors.ray_nodes import nodes
from tests.executors.test_ray import QUICK, TABLES, ray_run

pytest.importorskip("ray")

# All rows, with a teacher's weights and without; each training is short.
STUDY = (
    "--study", "objectives_vs_init", "--tasks", "entailment", "--inits", "every", "random",
    "--trials", "1", "--seeds", "1", "--set", "train_examples=32", "epochs=1",
)  # fmt: skip


def test_the_quick_profile_is_the_same_on_two_nodes(call: Harness, tmp_path: Path) -> None:
    local, out = tmp_path / "local", tmp_path / "ray"
    process = call("run", *STUDY, "--out", local, "--workers", 2)
    assert process.returncode == 0, process.stderr
    with tempfile.TemporaryDirectory(prefix="ray") as logs, nodes(Path(logs)) as cluster:
        _, errors = (there := ray_run(*STUDY, "--out", out, "--address", cluster.address)).communicate(timeout=400)
    assert there.returncode == 0 and "26 of 26 runs done" in errors, errors
    for name in TABLES:
        assert (out / QUICK / name).read_bytes() == (local / QUICK / name).read_bytes(), name
