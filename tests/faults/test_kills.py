"""Drivers, workers and nodes killed or stopped at random moments: the same table, no finished run trained twice."""

from __future__ import annotations

import os
import random
import signal
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.conftest import SMALL_STUDY, Harness
from tests.executors.ray_nodes import RAY, Nodes, nodes, trainers
from tests.faults.killing import newest, servers, workers
from tests.launching import begun
from tests.results import done, same_runs, same_tables, written

# A new driver takes its time to begin; a new worker does not. With KILLS=50 there are more, at other moments.
VICTIMS = ("driver", "server", "stopped", *("worker",) * 4) * max(1, int(os.environ.get("KILLS", "7")) // 7)
ENDS = (-signal.SIGKILL, 128 + signal.SIGTERM)
LOSSES = ("worker", "node", "driver")
# Long enough to be hit in the middle, and for as many kills as there are.
LONGER = (f"epochs={6 * (len(VICTIMS) // 7)}", "train_examples=100", "batch_size=16")


def _arguments(glue: Path, checkpoint: Path, often: Path, out: Path) -> list[object]:
    """Two cells of three runs each."""
    study = [word for word in SMALL_STUDY if not word.startswith(("train_examples", "batch_size", "random"))]
    places = ["--data", glue, "--teacher", checkpoint, "--plugin", often, "--out", out]
    return ["run", *study, *LONGER, *places]


@pytest.fixture(scope="module")
def calm(glue: Path, checkpoint: Path, often: Path, call: Harness, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("calm") / "out"
    done(call(*_arguments(glue, checkpoint, often, out), "--workers", 2))
    return out


def _unharmed(out: Path, finished: dict[str, int], calm: Path) -> None:
    """What is here is what would be here without any kill. finished: the runs that had ended before one, and when."""
    assert written(out).items() >= finished.items(), "a finished run was trained again"
    assert not list(out.rglob("*.tmp"))
    same_runs(out, calm)
    same_tables(out, calm)


def _stop(driver: Any, said: Path) -> None:
    """Send SIGTERM twice, as `timeout` does: workers end before the driver, which says so."""
    those = [*workers(driver.pid), *servers(driver.pid)]
    for _ in range(2):
        os.kill(driver.pid, signal.SIGTERM)
    driver.join(60)
    assert driver.exitcode == 128 + signal.SIGTERM
    last = said.read_text().splitlines()[-1]
    assert last == "harness: stopped by SIGTERM; finished runs are kept, and the same command goes on from here"
    assert not psutil.wait_procs(those, timeout=10)[1]


def test_kills_change_nothing(
    calm: Path, glue: Path, checkpoint: Path, often: Path, tmp_path: Path, call: Harness
) -> None:
    draw = random.Random(os.environ.get("KILLS", 20))
    out, victims, finished = tmp_path / "killed", draw.sample(VICTIMS, len(VICTIMS)), dict[str, int]()
    victims.sort(key=lambda victim: victim == "server")  # from the end: after it drivers need no server of their own
    arguments, process = [*_arguments(glue, checkpoint, often, out), "--workers", 2], None
    while victims:
        if process is None or not process.is_alive():
            assert process is None or process.exitcode in ENDS, "the study ended before all kills"
            process = begun(*arguments, folder=tmp_path / "said", shared="server" not in victims)
        before, deadline = newest(out, "*"), time.monotonic() + 60
        while newest(out, "*") == before and process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)  # until something was written: at least an epoch of progress a kill
        time.sleep(draw.uniform(0, 0.15))
        finished |= {run: when for run, when in written(out).items() if run not in finished}
        if victims[-1] == "driver":
            process.kill()
            process.join()
            victims.pop()
        elif victims[-1] == "stopped":
            _stop(process, tmp_path / "said" / "error")
            victims.pop()
        elif those := (servers if victims[-1] == "server" else workers)(process.pid):
            with suppress(ProcessLookupError):  # its run has just ended
                os.kill(draw.choice(those).pid, signal.SIGKILL)
                victims.pop()
    if process is not None and process.is_alive():
        process.kill()
        process.join()
    done(call(*arguments))
    _unharmed(out, finished, calm)


def _training(cluster: Nodes) -> list[psutil.Process]:
    """Ray's processes that train, and those that they have for their runs."""
    found = trains = trainers(cluster.process.pid)
    for worker in trains:
        with suppress(psutil.NoSuchProcess):
            found = [*found, *(run for server in worker.children() for run in server.children())]
    return found


def test_losses_of_a_cluster_change_nothing(
    calm: Path, glue: Path, checkpoint: Path, often: Path, tmp_path: Path
) -> None:
    pytest.importorskip("ray")
    draw, out, said, finished = random.Random(6), tmp_path / "lost", tmp_path / "said", dict[str, int]()
    with tempfile.TemporaryDirectory(prefix="ray") as folder, nodes(Path(folder)) as cluster:
        words = [*_arguments(glue, checkpoint, often, out), "--executor", "ray", "--address", cluster.address]
        driver = begun(*words, folder=said, more=RAY)
        for loss in LOSSES:
            before, deadline = newest(out, "[cr]*"), time.monotonic() + 240
            while newest(out, "[cr]*") == before:
                assert driver.is_alive(), (said / "error").read_text()
                assert time.monotonic() < deadline, "nothing was written for four minutes"
                time.sleep(0.02)
            time.sleep(draw.uniform(0, 0.5))
            finished |= {run: when for run, when in written(out).items() if run not in finished}
            if loss == "worker":
                if training := _training(cluster):
                    with suppress(psutil.NoSuchProcess):
                        draw.choice(training).kill()
            elif loss == "node":
                cluster.remove()
                cluster.add()
            else:
                driver.kill()
                driver.join()
                driver = begun(*words, folder=said, more=RAY)
        driver.join(300)
        assert driver.exitcode == 0, (said / "error").read_text()
    _unharmed(out, finished, calm)


SUICIDAL = '''
import os, signal, time
from harness.contracts import Signal
from harness.registry import objective
from harness.training import loop

STEPS = []

@objective("suicidal", needs={Signal.LOGITS}, stage="prediction")
def suicidal(student, teacher, batch):
    """Is told of within the epoch, then dies as if for want of memory."""
    loop.TELL_SECONDS = 0.0  # in the worker alone: this file is imported where it is asked for, too
    STEPS.append(1)
    deaths = open(__file__ + ".deaths", "ab", 0)
    if len(STEPS) == LAST and deaths.tell() < 9:  # not for ever
        deaths.write(b".")
        time.sleep(0.1)
        os.kill(os.getpid(), signal.SIGKILL)
    return student.logits.sum()
'''


@pytest.mark.parametrize("last", [2, 12])  # of eight steps an epoch at most
def test_a_run_that_always_kills_its_worker_fails_in_the_end(
    last: int, glue: Path, checkpoint: Path, call: Harness, tmp_path: Path
) -> None:
    """Steps and epochs that no checkpoint has are lost with the worker, and do not count as progress."""
    name = f"suicidal_in_step_{last}"
    (tmp_path / "suicidal.py").write_text(SUICIDAL.replace("LAST", str(last)).replace('"suicidal"', f'"{name}"'))
    failed = call(
        "run", "--study", "objectives_vs_init", "--tasks", "sst2", "--objectives", name, "--inits", "random",
        "--seeds", 1, "--trials", 1, "--workers", 1, "--plugin", tmp_path / "suicidal.py", "--data", glue,
        "--teacher", checkpoint, "--out", tmp_path / "out", "--set", "train_examples=64", "batch_size=8",
        "teacher.epochs=1", "epochs=3",
    )  # fmt: skip
    assert failed.returncode == 1 and "its worker died 5 times" in failed.stderr, failed.stdout + failed.stderr
