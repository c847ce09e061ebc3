"""Studies on a Ray cluster: what is refused, how it stops, and that runs see nothing of the driver's folders."""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.ledger import Ledger
from tests.conftest import SMALL_STUDY, Harness
from tests.executors.ray_nodes import RAY, Nodes, nodes, trainers
from tests.launching import begun
from tests.results import done, records, refused, without_times, written

pytest.importorskip("ray")


def driver(*words: object, folder: Path, **more: Any) -> Any:
    """The process of harness run with these words; what it says is in the folder. more: as `begun` takes it."""
    return begun("run", *words, "--executor", "ray", folder=folder, **{"more": RAY, **more})


def said(process: Any, folder: Path) -> tuple[int, str, str]:
    """The status of a driver that ends, and its text and errors."""
    process.join(200)
    return process.exitcode, (folder / "out").read_text(), (folder / "error").read_text()


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


@pytest.fixture(scope="module")
def same(glue: Path, checkpoint: Path) -> tuple[str, ...]:
    """The study of the first two tests, all its paths being relative."""
    return ("--study", "objectives_vs_init", "--tasks", "sst2", "--inits", "every", "--seeds", "1", "--trials", "1",
            "--set", "train_examples=64", "teacher.epochs=1", "epochs=2", "--data", os.path.relpath(glue),
            "--teacher", os.path.relpath(checkpoint))  # fmt: skip


@pytest.fixture(scope="module")
def local(same: tuple[str, ...], call: Harness, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a local run: of the teacher and of att_kl."""
    out = tmp_path_factory.mktemp("local") / "out"
    done(call("run", *same, "--objectives", "att_kl", "--out", out, "--workers", 1))
    assert len(records(out)) == 2 and len(kept(out)) == 2, "weights of the teacher and of the cell's best run"
    return out


def kept(out: Path) -> set[str]:
    """The runs whose weights are there."""
    return {path.parent.name for path in out.glob("ledger/*/weights")}


def test_data_teacher_and_plugins_travel_to_two_nodes(
    cluster: Nodes, same: tuple[str, ...], local: Path, tmp_path: Path
) -> None:
    """Each node fetches its own copies, all paths being relative; the records are those of a local run."""
    (tmp_path / "travelled.py").write_text(TRAVELLED)
    (tmp_path / "factor.txt").write_text("0.5")
    out = tmp_path / "ray"
    words = (*same, "--objectives", "att_kl", "travelled", "--plugin", os.path.relpath(tmp_path / "travelled.py"),
             "--address", cluster.address, "--out", os.path.relpath(out))  # fmt: skip
    status, text, errors = said(driver(*words, folder=tmp_path / "said", cwd=Path.cwd()), tmp_path / "said")
    assert status == 0 and "Traceback" not in errors, errors
    assert "travelled" in text and "2 of 2 runs done" in errors and "runs done" not in text
    there = records(out)
    assert len(there) == 3  # a teacher each
    for run, record in records(local).items():
        assert without_times(record) == without_times(there[run]), run
    assert not any(Ledger(out).trouble_with_weights(run) for run in kept(local))
    stored = [(folder / "cache").glob("[!.]*/[!.]*") for folder in (local, out)]
    ours, theirs = ({path.name for path in paths if path.parent.name not in HERE} for paths in stored)
    assert ours == theirs and len(ours) > 1, "the cache did not come back"


CROWDED = """
import os
from pathlib import Path
import psutil
import torch
from harness.contracts import Signal
from harness.registry import objective

@objective("crowded", needs={{Signal.LOGITS}}, stage="prediction")
def crowded(student, teacher, batch):
    mark, server = Path({mark!r}), psutil.Process(os.getppid())
    first = not mark.exists()
    with mark.open("a") as file:
        print(server.ppid(), file=file)
    if first:
        raise torch.OutOfMemoryError("CUDA out of memory.")
    return (student.logits - teacher.logits).square().mean()
"""


def test_a_run_that_others_leave_too_little_memory_has_a_whole_gpu(
    cluster: Nodes, same: tuple[str, ...], local: Path, tmp_path: Path
) -> None:
    """In the same process of Ray, and on nodes that see the folder of results: nothing of it travels."""
    (tmp_path / "crowded.py").write_text(CROWDED.format(mark=str(tmp_path / "mark")))
    out = tmp_path / "shared"
    words = (*same, "--objectives", "att_kl", "crowded", "--plugin", tmp_path / "crowded.py", "--gpus-per-run", 0.5,
             "--address", cluster.address, "--shared-out", "--out", os.path.relpath(out))  # fmt: skip
    status, text, errors = said(driver(*words, folder=tmp_path / "said", cwd=Path.cwd()), tmp_path / "said")
    assert status == 0 and "FAILED" not in text + errors and "Traceback" not in errors, errors
    assert "lacked memory on 0.5 of a GPU: it goes on once a whole one is free" in errors
    assert len({*(tmp_path / "mark").read_text().split()}) == 1, "its process began anew, with all that it imports"
    there = records(out)
    assert len(there) == 3 and kept(out) > kept(local)
    for run, record in records(local).items():
        assert without_times(record) == without_times(there[run]), run
    assert not any(Ledger(out).trouble_with_weights(run) for run in kept(out))
    assert not [*out.rglob("*.tmp")] and not [*out.rglob("checkpoint*")]


def test_sigterm_stops_at_once_and_the_next_start_goes_on(tmp_path: Path, call: Harness) -> None:
    """Ray started on this machine, with our own data and teacher: nothing of it is left, and the study can be finished
    without it."""
    out = tmp_path / "out"
    words = ("--study", "objectives_vs_init", "--tasks", "entailment", "--objectives", "vanilla_kd", "--inits", "every",
             "--seeds", 1, "--trials", 1, "--set", "train_examples=64", "batch_size=32", "epochs=60",
             "--out", out)  # fmt: skip
    process = driver(*words, folder=tmp_path / "said")
    deadline = time.monotonic() + 200
    while not written(out) or not trainers(process.pid):  # the teacher is done, and its student has begun
        assert process.is_alive() and time.monotonic() < deadline, (tmp_path / "said" / "error").read_text()
        time.sleep(0.05)
    ours = psutil.Process(process.pid).children(recursive=True)
    told = call("status", "--study", "objectives_vs_init", "--out", out)
    assert told.returncode == 0 and " left; teacher runs: 1 of 1 done" in told.stdout
    process.terminate()
    status, text, errors = said(process, tmp_path / "said")
    assert status == 143 and "stopped by SIGTERM; finished runs are kept" in errors, errors
    assert "Traceback" not in errors + text
    assert not psutil.wait_procs(ours, timeout=60)[1]
    kept = written(out)
    again = call("run", *words, "--workers", 1)
    assert again.returncode == 0 and "FAILED" not in again.stderr, again.stderr
    assert written(out).items() > kept.items() and len(written(out)) == 2


def test_more_than_any_node_has_is_refused(cluster: Nodes, tmp_path: Path) -> None:
    study = ("--study", "objectives_vs_init", "--address", cluster.address, "--out", tmp_path / "out")
    words = (*study, "--gpus-per-run", 0.5, "--cpus-per-run", 9)
    status, _, errors = said(driver(*words, folder=tmp_path / "said"), tmp_path / "said")
    assert status == 2 and len(errors.splitlines()) == 1
    assert "no node of the Ray cluster has what a run takes, 9 CPUs and 0.5 GPUs: the largest of 2 has" in errors


def impatient(*words: str) -> int:
    from harness.cli import main
    from harness.executors import ray_cluster

    ray_cluster.PATIENCE, ray_cluster.LOOK = 0.5, 1.0
    return main(words)


def unfortunate(*words: str) -> int:
    """The head is gone when the first run is handed to Ray, which waits for it then."""
    from harness.executors import ray_cluster

    ray_cluster.END, submit = 2.0, ray_cluster.RayExecutor.submit

    def without_head(self: Any, *arguments: Any) -> None:
        for process in map(int, os.environ["HEAD"].split()):
            with suppress(ProcessLookupError):
                os.kill(process, signal.SIGKILL)
        submit(self, *arguments)
        raise SystemExit("Ray did not wait")

    ray_cluster.RayExecutor.submit = without_head  # type: ignore[method-assign]
    return impatient(*words)


def test_a_cluster_that_shrinks_or_goes_is_given_up(
    cluster: Nodes, glue: Path, checkpoint: Path, tmp_path: Path
) -> None:
    """The only node that is large enough leaves, then the head: a sentence each instead of waiting for ever.

    The last test of this cluster.
    """
    study = (*SMALL_STUDY, "epochs=200", "--data", glue, "--teacher", checkpoint, "--address", cluster.address)

    def start(name: str, *words: object, **more: Any) -> Any:
        process = driver(*study, "--out", tmp_path / name, *words, folder=tmp_path / f"{name}-said", **more)
        deadline = time.monotonic() + 100
        while not list((tmp_path / name).glob("*/*/**/plan.json")):
            assert process.is_alive() and time.monotonic() < deadline
            time.sleep(0.05)
        return process

    cluster.add(cpus=2)
    large = start("large", "--cpus-per-run", 2, work=impatient)
    cluster.remove()
    small = start("small", work=impatient)
    status, _, errors = said(large, tmp_path / "large-said")
    assert status == 2, errors
    assert "no node of the Ray cluster has what a run takes, 2 CPUs" in errors.splitlines()[-1]
    head = " ".join(str(process.pid) for process in psutil.Process(cluster.process.pid).children(recursive=True))
    stuck = start("stuck", work=unfortunate, more={**RAY, "HEAD": head})
    for process, name in ((stuck, "stuck"), (small, "small")):
        status, _, errors = said(process, tmp_path / f"{name}-said")
        assert status == 2, errors
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
        (("--executor", "ray", "--gpus-per-run", "1.5"), "a whole number or a fraction, such as 0.5, not 1.5"),
        (("--executor", "ray", "--gpus-per-run", "2"), "--gpus-per-run must be at most 1: a run computes on one GPU"),
        (("--executor", "ray", "--gpus-per-run", "nan"), "a whole number or a fraction, such as 0.5, not nan"),
        (("--executor", "ray", "--cpus-per-run", "0.00001"), "a whole number or a fraction, such as 0.5, not 1e-05"),
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
