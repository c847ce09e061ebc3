"""Drivers and workers killed at random moments: the same table, and no finished run trained twice."""

from __future__ import annotations

import os
import random
import signal
import time
from contextlib import suppress
from pathlib import Path

from harness.ledger import Ledger
from tests.conftest import SMALL_STUDY, Harness
from tests.faults.killing import newest, without_times, workers
from tests.launching import begun

VICTIMS = ("driver",) * 3 + ("worker",) * 9  # a new driver takes its time to begin; a new worker does not
LONGER = ("epochs=18", "train_examples=100", "batch_size=16")  # long enough to be hit in the middle


def _records(out: Path) -> dict[str, int]:
    """Each finished run and when its record was written."""
    return {p.parent.name: p.stat().st_mtime_ns for p in out.glob("ledger/*/record.json")}


def _arguments(glue: Path, checkpoint: Path, out: Path) -> list[str]:
    study = [w for w in SMALL_STUDY if not w.startswith(("train_examples", "batch_size"))]
    return [
        "run",
        *study,
        *LONGER,
        "--data",
        str(glue),
        "--teacher",
        str(checkpoint),
        "--out",
        str(out),
        "--workers",
        "2",
    ]


def test_kills_change_nothing(glue: Path, checkpoint: Path, tmp_path: Path, call: Harness) -> None:
    calm = call(*_arguments(glue, checkpoint, tmp_path / "calm"))
    assert calm.returncode == 0, calm.stderr
    draw = random.Random(20)
    out, victims, finished = tmp_path / "killed", draw.sample(VICTIMS, len(VICTIMS)), {}
    process = None
    while victims:
        if process is None or not process.is_alive():
            assert process is None or process.exitcode == -signal.SIGKILL, "the study ended before all kills"
            process = begun(*_arguments(glue, checkpoint, out), folder=tmp_path / "said")
        before, deadline = newest(out, "*"), time.monotonic() + 60
        while newest(out, "*") == before and process.is_alive() and time.monotonic() < deadline:
            time.sleep(0.02)  # until something was written: at least an epoch of progress a kill
        time.sleep(draw.uniform(0, 0.15))
        finished |= {run: when for run, when in _records(out).items() if run not in finished}
        if victims[-1] == "driver":
            process.kill()
            process.join()
            victims.pop()
        elif training := workers(process.pid):
            with suppress(ProcessLookupError):  # its run has just ended
                os.kill(draw.choice(training).pid, signal.SIGKILL)
                victims.pop()
    if process is not None and process.is_alive():
        process.kill()
        process.join()
    last = call(*_arguments(glue, checkpoint, out))
    assert last.returncode == 0, last.stderr
    after = _records(out)
    assert {run: after[run] for run in finished} == finished, "a finished run was trained again"
    assert set(after) == set(_records(tmp_path / "calm"))
    for name in ("table.md", "table.tex", "table.csv", "table.json", "table.html"):
        place = Path("objectives_vs_init") / "quick" / name
        assert (out / place).read_bytes() == (tmp_path / "calm" / place).read_bytes(), name
    ours, theirs = Ledger(out), Ledger(tmp_path / "calm")
    for run in after:
        assert without_times(ours.read(run) or {}) == without_times(theirs.read(run) or {}), run


SUICIDAL = '''
import os, signal, time
from harness.contracts import Signal
from harness.registry import objective

STEPS = []

@objective("suicidal", needs={Signal.LOGITS}, stage="prediction")
def suicidal(student, teacher, batch):
    """Takes long enough to be told of within the epoch, then dies as if for want of memory."""
    STEPS.append(1)
    if len(STEPS) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(2.2)
    return student.logits.sum()
'''


def test_a_run_that_always_kills_its_worker_fails_in_the_end(
    glue: Path, checkpoint: Path, call: Harness, tmp_path: Path
) -> None:
    """Progress within an epoch, which is lost with the worker, does not count as progress."""
    (tmp_path / "suicidal.py").write_text(SUICIDAL)
    done = call(
        "run", "--study", "objectives_vs_init", "--tasks", "sst2", "--objectives", "suicidal", "--inits", "random",
        "--seeds", 1, "--trials", 1, "--workers", 1, "--plugin", tmp_path / "suicidal.py", "--data", glue,
        "--teacher", checkpoint, "--out", tmp_path / "out", "--set", "train_examples=64", "teacher.epochs=1",
    )  # fmt: skip
    assert done.returncode == 1 and "its worker died 5 times" in done.stderr, done.stdout + done.stderr
