"""Nodes, workers and drivers of a Ray cluster that go at random moments: the same table."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

from tests.conftest import SMALL_STUDY, Harness
from tests.executors.ray_nodes import Nodes, nodes, ray_environment
from tests.faults.killing import newest

pytest.importorskip("ray")

LOSSES = ("worker", "node", "driver", "worker", "node")
LONGER = ("epochs=18", "train_examples=100", "batch_size=16")  # long enough to be hit in the middle


def _arguments(glue: Path, checkpoint: Path, out: Path) -> list[str]:
    study = [word for word in SMALL_STUDY if not word.startswith(("train_examples", "batch_size"))]
    return ["run", *study, *LONGER, "--data", str(glue), "--teacher", str(checkpoint), "--out", str(out)]


def _training(cluster: Nodes) -> list[psutil.Process]:
    """Ray's processes that train, and those that they have for their runs."""
    found = psutil.Process(cluster.process.pid).children(recursive=True)
    workers = [process for process in found if process.name().startswith("ray::train")]
    with suppress(psutil.NoSuchProcess):
        workers += [run for worker in workers for server in worker.children() for run in server.children()]
    return workers


def _start(arguments: list[str], cluster: Nodes) -> subprocess.Popen[bytes]:
    words = [sys.executable, "-m", "harness", *arguments, "--executor", "ray", "--address", cluster.address]
    quiet = subprocess.DEVNULL
    return subprocess.Popen(words, env=ray_environment(), stdout=quiet, stderr=subprocess.PIPE)


def test_losses_change_nothing(glue: Path, checkpoint: Path, tmp_path: Path, call: Harness) -> None:
    calm = call(*_arguments(glue, checkpoint, tmp_path / "calm"), "--workers", 2)
    assert calm.returncode == 0, calm.stderr
    draw, out = random.Random(6), tmp_path / "lost"
    arguments = _arguments(glue, checkpoint, out)
    finished: dict[Path, int] = {}
    with tempfile.TemporaryDirectory(prefix="ray") as folder, nodes(Path(folder)) as cluster:
        driver = _start(arguments, cluster)
        for loss in LOSSES:
            before, deadline = newest(out, "[cr]*"), time.monotonic() + 240
            while newest(out, "[cr]*") == before:
                assert driver.poll() is None, driver.communicate()[1].decode()
                assert time.monotonic() < deadline, "nothing was written for four minutes"
                time.sleep(0.02)
            time.sleep(draw.uniform(0, 0.5))
            records = {path: path.stat().st_mtime_ns for path in out.glob("ledger/*/record.json")}
            finished |= {path: when for path, when in records.items() if path not in finished}
            if loss == "worker":
                if training := _training(cluster):
                    with suppress(psutil.NoSuchProcess):
                        draw.choice(training).kill()
            elif loss == "node":
                cluster.remove()
                cluster.add()
            else:
                os.kill(driver.pid, signal.SIGKILL)
                driver.wait()
                driver = _start(arguments, cluster)
        text = driver.communicate(timeout=300)[1].decode()
        assert driver.returncode == 0, text
    assert {path: path.stat().st_mtime_ns for path in finished} == finished, "a finished run was trained again"
    failed = [path for path in finished if json.loads(path.read_bytes())["record"]["status"] != "finished"]
    assert not failed and not list(out.glob("**/*.tmp"))
    for name in ("table.md", "table.tex", "table.csv", "table.json"):
        place = Path("objectives_vs_init") / "quick" / name
        assert (out / place).read_bytes() == (tmp_path / "calm" / place).read_bytes(), name
