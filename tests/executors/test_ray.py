"""Studies on a Ray cluster: what is refused, how it stops, and that runs see nothing of the driver's folders."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from harness.ledger import Ledger
from tests.conftest import SMALL_STUDY, Harness
from tests.executors.ray_nodes import Nodes, nodes, ray_environment
from tests.results import done, records, refused, without_times, written

pytest.importorskip("ray")


def ray_run(*words: object) -> subprocess.Popen[str]:
    """harness run with --executor ray as a process of its own group, as a terminal starts it."""
    command = [sys.executable, "-m", "harness", "run", *map(str, words), "--executor", "ray"]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "stdin": subprocess.DEVNULL}
    return subprocess.Popen(command, env=ray_environment(), text=True, start_new_session=True, **pipes)  # type: ignore[call-overload,no-any-return]


@pytest.fixture(scope="module")
def cluster() -> Iterator[Nodes]:
    with tempfile.TemporaryDirectory(prefix="ray") as folder, nodes(Path(folder)) as found:
        yield found


HERE = {"examined", "plans", "tables"}  # rooms of the cache that are of the machine which looked or planned
TRAVELLED = '''
from pathlib import Path
from harness.contracts import Signal
from harness.registry import objective

@objective("travelled", needs={Signal.LOGITS}, stage="prediction")
def travelled(student, teacher, batch):
    """Logit-MSE that only nodes of a cluster may compute."""
    if "distill-harness-" not in __file__:
        raise RuntimeError("computed in the driver's folder")
    return float(Path(__file__).with_name("factor.txt").read_text()) * (student.logits - teacher.logits).square().mean()
'''


def test_data_teacher_and_plugins_travel_to_two_nodes(
    cluster: Nodes, glue: Path, checkpoint: Path, tmp_path: Path, call: Harness
) -> None:
    """Each node fetches its own copies, all paths being relative; the records are those of a local run."""
    (tmp_path / "travelled.py").write_text(TRAVELLED)
    (tmp_path / "factor.txt").write_text("0.5")
    same = ("--study", "objectives_vs_init", "--tasks", "sst2", "rte", "--inits", "every", "--seeds", 1, "--trials", 1,
            "--set", "train_examples=64", "teacher.epochs=1", "epochs=2", "--data", os.path.relpath(glue),
            "--teacher", os.path.relpath(checkpoint))  # fmt: skip
    local, out = tmp_path / "local", tmp_path / "ray"
    done(call("run", *same, "--objectives", "att_kl", "--out", local, "--workers", 2))
    own = ("--plugin", os.path.relpath(tmp_path / "travelled.py"), "--address", cluster.address)
    process = ray_run(*same, "--objectives", "att_kl", "travelled", *own, "--out", os.path.relpath(out))
    text, errors = process.communicate(timeout=200)
    assert process.returncode == 0 and "Traceback" not in errors, errors
    assert "travelled" in text and "4 of 4 runs done" in errors and "runs done" not in text
    here, there = records(local), records(out)
    assert len(here) == 4 and len(there) == 6  # two teachers each
    for run, record in here.items():
        assert without_times(record) == without_times(there[run]), run
    kept = {path.parent.name for path in local.glob("ledger/*/weights")}
    assert len(kept) == 4, "of two teachers and of each cell's best run"
    assert not any(Ledger(out).trouble_with_weights(run) for run in kept)
    shared = tmp_path / "shared"  # where the nodes see the folder of results, nothing of it travels
    process = ray_run(*same, "--objectives", "att_kl", *own[2:], "--shared-out", "--out", os.path.relpath(shared))
    _, errors = process.communicate(timeout=200)
    assert process.returncode == 0 and "Traceback" not in errors, errors
    assert {run: without_times(record) for run, record in records(shared).items()} == {
        run: without_times(record) for run, record in records(local).items()
    }
    assert not any(Ledger(shared).trouble_with_weights(run) for run in kept)
    assert not [*shared.rglob("*.tmp")] and not [*shared.rglob("checkpoint*")]
    stored = [(folder / "cache").glob("[!.]*/[!.]*") for folder in (local, out)]
    here, there = ({path.name for path in paths if path.parent.name not in HERE} for paths in stored)
    assert here == there and len(here) > 1, "the cache did not come back"


def test_sigterm_stops_at_once_and_the_next_start_goes_on(tmp_path: Path, call: Harness) -> None:
    """Ray started on this machine, with our own data and teacher: nothing of it is left, and the study can be finished
    without it."""
    out = tmp_path / "out"
    study = (word for word in SMALL_STUDY if word not in ("--tasks", "sst2", "att_kl", "teacher.epochs=2"))
    words = [*study, "epochs=30", "--tasks", "entailment", "--out", out]
    process = ray_run(*words)
    deadline = time.monotonic() + 200
    while len(written(out)) < 3:
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.05)
    ours = psutil.Process(process.pid).children(recursive=True)
    assert any(p.name().startswith("ray::train") for p in ours)
    status = call("status", "--study", "objectives_vs_init", "--out", out)
    assert status.returncode == 0 and " left; teacher runs: 1 of 1 done" in status.stdout
    process.terminate()
    text, errors = process.communicate(timeout=60)
    assert process.returncode == 143 and "stopped by SIGTERM; finished runs are kept" in errors, errors
    assert "Traceback" not in errors + text
    gone, alive = psutil.wait_procs(ours, timeout=60)
    assert not alive
    assert len(kept := written(out)) >= 3
    again = call("run", *words, "--workers", 2)
    assert again.returncode == 0 and "FAILED" not in again.stderr, again.stderr
    assert written(out).items() >= kept.items()


def test_more_than_any_node_has_is_refused(cluster: Nodes, tmp_path: Path) -> None:
    study = ("--study", "objectives_vs_init", "--address", cluster.address, "--out", tmp_path / "out")
    process = ray_run(*study, "--gpus-per-run", 0.5)
    _, errors = process.communicate(timeout=100)
    assert process.returncode == 2 and len(errors.splitlines()) == 1
    assert "no node of the Ray cluster has what a run takes, 1 CPUs and 0.5 GPUs: the largest of 2 has" in errors


IMPATIENT = """
import sys
from harness.executors import ray_cluster
ray_cluster.PATIENCE, ray_cluster.LOOK = 0.5, 2.0
{}
from harness.cli import main
sys.exit(main(sys.argv[1:]))
"""
# The head is gone when the first run is handed to Ray, which waits for it then.
UNFORTUNATE = """
import contextlib, os, signal
ray_cluster.END = 4.0
submit = ray_cluster.RayExecutor.submit
def without_head(self, *arguments):
    for process in map(int, input().split()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, signal.SIGKILL)
    submit(self, *arguments)
    raise SystemExit("Ray did not wait")
ray_cluster.RayExecutor.submit = without_head
"""


def test_a_cluster_that_shrinks_or_goes_is_given_up(glue: Path, checkpoint: Path, tmp_path: Path) -> None:
    """The only node that is large enough leaves, then the head: a sentence each instead of waiting for ever."""
    study = ["run", *SMALL_STUDY, "epochs=200", "--data", str(glue), "--teacher", str(checkpoint), "--executor", "ray"]

    def start(out: Path, *words: str, change: str = "") -> subprocess.Popen[str]:
        command = [sys.executable, "-c", IMPATIENT.format(change), *study, "--out", str(out), *words]
        pipes = {"stdin": subprocess.PIPE, "stderr": subprocess.PIPE}
        process = subprocess.Popen(command, env=ray_environment(), text=True, **pipes)  # type: ignore[call-overload]
        deadline = time.monotonic() + 100
        while not list(out.glob("*/*/**/plan.json")):
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        return process

    with tempfile.TemporaryDirectory(prefix="ray") as folder, nodes(Path(folder), cpus=2, head_cpus=1) as cluster:
        large = start(tmp_path / "large", "--address", cluster.address, "--cpus-per-run", "2")
        cluster.remove()
        _, errors = large.communicate(timeout=100)
        assert large.returncode == 2, errors
        assert "no node of the Ray cluster has what a run takes, 2 CPUs" in errors.splitlines()[-1]
        small = start(tmp_path / "small", "--address", cluster.address)
        stuck = start(tmp_path / "stuck", "--address", cluster.address, change=UNFORTUNATE)
        head = psutil.Process(cluster.process.pid).children(recursive=True)
        deaths = " ".join(str(process.pid) for process in head)
        for process, line in ((stuck, deaths), (small, "")):
            _, errors = process.communicate(line + "\n", timeout=100)
            assert process.returncode == 2, errors
            assert f"the Ray cluster at {cluster.address} is gone: finished runs are kept" in errors.splitlines()[-1]
        cluster.process.kill()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--address", "auto"), "--address has no effect without --executor ray"),
        (("--shared-out",), "--shared-out has no effect without --executor ray"),
        (("--executor", "ray", "--shared-out"), "--shared-out has no effect without --address: there is one machine"),
        (("--cpus-per-run", "0"), "--cpus-per-run has no effect without --executor ray"),
        (("--executor", "ray", "--workers", "2"), "--workers has no effect with --executor ray"),
        (("--executor", "ray", "--gpus-per-run", "1.5"), "a whole number or a part of one, such as 0.5, not 1.5"),
        (("--executor", "ray", "--gpus-per-run", "2"), "--gpus-per-run must be at most 1: a run computes on one GPU"),
        (("--executor", "ray", "--gpus-per-run", "nan"), "a whole number or a part of one, such as 0.5, not nan"),
        (("--executor", "ray", "--cpus-per-run", "0.00001"), "a whole number or a part of one, such as 0.5, not 1e-05"),
        (("--executor", "ray", "--cpus-per-run", "0"), "--cpus-per-run must be more than 0"),
        (("--executor", "ray", "--address", "ray://head:1"), "HOST:PORT of a Ray cluster's head node, or auto, not"),
        (("--executor", "ray", "--address", "127.0.0.1:9"), "no Ray cluster answers at 127.0.0.1:9"),
        (("--executor", "Ray"), "argument --executor: invalid choice: 'Ray'"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_flags_that_make_no_sense_are_refused(
    words: tuple[str, ...], sentence: str, call: Harness, tmp_path: Path
) -> None:
    process = call("run", "--study", "objectives_vs_init", "--out", tmp_path / "out", *words)
    assert process.returncode == 2 and sentence in process.stderr and len(process.stderr.splitlines()) == 1


def test_a_study_that_times_models_stays_on_this_machine(call: Harness, tmp_path: Path) -> None:
    process = call("run", "--study", "size_and_speed", "--executor", "ray", "--out", tmp_path / "out")
    assert process.returncode == 2 and "leave out --executor ray" in process.stderr and not (tmp_path / "out").exists()


def test_a_missing_ray_is_named(call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    refused(
        call("run", "--study", "objectives_vs_init", "--executor", "ray", "--out", tmp_path / "out"),
        'pip install "distill-harness[ray]"',
    )
