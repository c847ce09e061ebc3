"""What a run does to its process ends with it: state, prints, children, exits and time without end."""

from __future__ import annotations

import dataclasses
import errno
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from multiprocessing import forkserver
from pathlib import Path
from typing import Any

import psutil
import pytest

from harness.code_versions import identified
from harness.errors import UserError
from harness.executors.environment import LAUNCHER
from harness.executors.local import LocalExecutor
from harness.planning.filed import read
from harness.planning.planned import Plan
from harness.runs import Run
from harness.runs.messages import Began, Failed, Finished, Told
from harness.search.driver import workspace_of
from tests.conftest import Harness, environment
from tests.faults.killing import workers
from tests.launching import begun
from tests.results import done, table_folder

# Each that STATE names does what its name says to whatever runs after it in the same process.
PLUGIN = '''
import os, subprocess, sys, time, warnings
import torch
from harness.contracts import Signal
from harness.registry import objective

entropy = torch.nn.functional.cross_entropy
before = dict(os.environ), os.getcwd()

def flags():
    denormal = torch.tensor([1e-40]).mul(0.5).item()
    return torch._C._get_mkldnn_enabled(), torch.are_deterministic_algorithms_enabled(), denormal > 0

def patch(): torch.nn.functional.cross_entropy = lambda *a, **k: 0.01 * entropy(*a, **k)
def variables(): os.environ["OMP_NUM_THREADS"] = os.environ["LEFT_BEHIND"] = "7"
def exit(): sys.exit(3)
def interrupt(): raise KeyboardInterrupt
def hang(): time.sleep(600)

def child(seconds=20):
    if not os.fork():
        open(f"CHILDREN/{os.getpid()}", "w").close()
        time.sleep(seconds)
        os._exit(0)

def child_and_death():
    child()
    os._exit(3)

def words():
    print("printed")
    warnings.warn("warned")
    subprocess.run(["sh", "-c", "echo of a child; echo and its errors >&2"])

def many_words():
    print("first")
    for _ in range(40): print("x" * 100_000)
    print("last")

ACTS = {
    "dtype": lambda: torch.set_default_dtype(torch.float64),
    "gradients": lambda: torch.set_grad_enabled(False),
    "patch": patch,
    "kernels": lambda: torch.backends.mkldnn.set_flags(False),
    "denormals": lambda: torch.set_flush_denormal(True),
    "threads": lambda: torch.set_num_threads(7),
    "deterministic": lambda: torch.use_deterministic_algorithms(True),
    "variables": variables,
    "folder": lambda: os.chdir("/"),
    "exit": exit, "interrupt": interrupt, "hang": hang, "child": child, "child_and_death": child_and_death,
    "words": words, "many_words": many_words,
}

def register(name, act):
    @objective(name, needs={Signal.LOGITS}, stage="prediction")
    def bad(student, teacher, batch):
        """Acts, then computes."""
        act()
        return student.logits.sum()

STATE = (
    "dtype", "gradients", "patch", "kernels", "denormals", "threads", "deterministic", "variables", "folder"
)
ACTS["state"] = lambda: [ACTS[name]() for name in STATE]
for name, act in ACTS.items():
    register(name, act)

@objective("clean", needs={Signal.LOGITS}, stage="prediction")
def clean(student, teacher, batch):
    """Labels only, in an orderly process."""
    same = before == (dict(os.environ), os.getcwd()) and before[1] != "/" and "LEFT_BEHIND" not in os.environ
    if not same or flags() != (True, False, True):
        raise RuntimeError("not as it was begun")
    return torch.nn.functional.cross_entropy(student.logits, batch.labels)
'''


@dataclasses.dataclass
class Bench:
    """A finished run of `clean`, and its like with another objective."""

    out: Path
    plan: Plan
    record: dict[str, Any]

    def job(self, objective: str, run: str = "") -> tuple[str, Any, Any]:
        run = run or objective
        what = identified(dataclasses.replace(Run.read(self.record["specification"]), objective=objective))
        return run, what.specification(), workspace_of(self.plan, self.out, run, what)

    @property
    def children(self) -> list[int]:
        return [int(path.name) for path in (self.out.parent / "children").iterdir()]


def words_of(glue: Path, checkpoint: Path, folder: Path, objective: str) -> list[str]:
    return [
        "run", "--study", "objectives_vs_init", "--tasks", "sst2", "--objectives", objective, "--inits", "random",
        "--trials", "1", "--seeds", "1", "--workers", "1", "--plugin", str(folder / "acts.py"), "--data", str(glue),
        "--teacher", str(checkpoint), "--set", "train_examples=64", "teacher.epochs=1", "max_length=16",
        "--out", str(folder / "out"),
    ]  # fmt: skip


@pytest.fixture(scope="module")
def bench(glue: Path, checkpoint: Path, call: Harness, tmp_path_factory: pytest.TempPathFactory) -> Bench:
    folder = tmp_path_factory.mktemp("acts")
    (folder / "children").mkdir()
    (folder / "acts.py").write_text(PLUGIN.replace("CHILDREN", str(folder / "children")))
    out = folder / "out"
    done(call(*words_of(glue, checkpoint, folder, "clean")))
    records = [json.loads(path.read_bytes())["record"] for path in out.glob("ledger/*/record.json")]
    (record,) = (record for record in records if record["specification"]["kind"] == "student")
    assert not list(out.glob("ledger/*/log.txt")), "a run that prints nothing has no log"
    return Bench(out, read(table_folder(out) / "plan.json", out), record)


def ends(executor: LocalExecutor) -> Iterator[Any]:
    """What the runs end with."""
    while True:
        message = executor.next()
        if not isinstance(message, (Began, Told)):
            yield message


def test_no_run_changes_the_next(bench: Bench) -> None:
    with closing(LocalExecutor(1)) as executor:
        for job in (bench.job("state"), bench.job("clean", "again")):
            executor.submit(*job)
        found = ends(executor)
        assert next(found).run == "state"
        message = next(found)
    assert isinstance(message, Finished)
    for part in ("metrics", "curve", "best", "initialisation", "teacher_signals"):
        assert message.record[part] == bench.record[part], part


def test_a_run_is_no_process_of_the_launcher_that_started_the_command(bench: Bench) -> None:
    """As of `srun -n 4`, where each task gives a command of its own."""
    with closing(LocalExecutor(1)) as executor:
        executor._given = dict.fromkeys(LAUNCHER, "4")  # as Ray's nodes hand on the whole environment
        executor.submit(*bench.job("clean", "launched"))
        message = next(ends(executor))
    assert isinstance(message, Finished), message


@pytest.mark.parametrize(("what", "said"), [("exit", "sys.exit(3)"), ("interrupt", "KeyboardInterrupt")])
def test_leaving_the_process_is_named_at_once(what: str, said: str, bench: Bench) -> None:
    with closing(LocalExecutor(1)) as executor:
        executor.submit(*bench.job(what))
        found = next(ends(executor))
    assert isinstance(found, Failed) and said in found.error and "died" not in found.error
    assert "acts.py" in found.traceback


def test_children_of_a_run_do_not_outlive_it(bench: Bench) -> None:
    """Those of a run that dies hold its pipe: the death is noticed all the same."""
    began = time.monotonic()
    with closing(LocalExecutor(1)) as executor:
        for what in ("child_and_death", "child"):
            executor.submit(*bench.job(what))
        found = ends(executor)
        failed, finished = next(found), next(found)
        assert failed.run == "child_and_death" and "its worker died 5 times (exit code 3;" in failed.error
        assert isinstance(finished, Finished) and finished.run == "child"
    assert time.monotonic() - began < 60 and len(bench.children) > 5
    _until(lambda: not any(map(psutil.pid_exists, bench.children)))


def test_a_run_that_hangs_is_given_up(bench: Bench) -> None:
    with closing(LocalExecutor(1, limit=2.0)) as executor:
        for job in (bench.job("hang"), bench.job("exit")):
            executor.submit(*job)
        found = ends(executor)
        failed = next(found)
        assert failed.run == "hang" and "ended after the 2 seconds of --run-timeout" in failed.error
        assert next(found).run == "exit"


def test_what_a_run_prints_is_shown_and_nowhere_else(bench: Bench, call: Harness, capfd: Any) -> None:
    few, many = "a" * 16, "b" * 16
    with closing(LocalExecutor(1)) as executor:
        for what, run in (("words", few), ("many_words", many)):
            executor.submit(*bench.job(what, run))
        found = ends(executor)
        made = [next(found) for _ in range(2)]
        assert [one.run for one in made] == [few, many] and all(isinstance(one, Finished) for one in made)
    assert "printed" not in "".join(capfd.readouterr())
    shown = call("show", few, "--out", bench.out).stdout
    assert all(said in shown for said in ("printed", "UserWarning: warned", "of a child", "and its errors"))
    log = (bench.out / "ledger" / many / "log.txt").read_bytes()
    assert log.startswith(b"first\n") and log.endswith(b"last\n") and len(log) < 1.1 * 2**20
    assert b"bytes left out]" in log
    status = call("status", "--study", "objectives_vs_init", "--out", bench.out).stdout
    assert few not in status, "a log alone is no interrupted run"


def test_status_names_what_is_running_while_its_driver_lives(
    bench: Bench, glue: Path, checkpoint: Path, call: Harness, tmp_path: Path
) -> None:
    words = words_of(glue, checkpoint, bench.out.parent, "hang")
    driver = begun(*words, folder=tmp_path, shared=True)

    def status() -> str:
        return call("status", "--study", "objectives_vs_init", "--out", bench.out).stdout

    try:
        _until(lambda: "running since 20" in status())
        (line,) = (line for line in status().splitlines() if line.startswith("running since 20"))
        assert "\ntime: about " in status()
        said = call("report", "--study", "objectives_vs_init", "--out", bench.out).stderr
        assert "a harness run is working here, now on hang " in said and "time: about " in said
        again = call("run", *words[1:])
        assert again.returncode == 3 and line in status(), "who was refused changed what is said to run"
        trained = workers(driver.pid)
    finally:
        os.kill(driver.pid, signal.SIGKILL)
        driver.join()
    assert re.search(r": hang .*, seed 0 \([0-9a-f]{16}\)$", line) and "running" not in status()
    assert trained and not psutil.wait_procs(trained, timeout=20)[1], "a run went on without its driver"


SERVED = """
import sys, time
from harness.executors import process
from multiprocessing import forkserver
process._prepare()
process.CONTEXT.set_forkserver_preload([])  # nothing is forked from it
forkserver.ensure_running()
print("up", flush=True)
time.sleep(60)
"""


def test_a_killed_driver_leaves_nothing_for_longer_than_the_next_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    drivers = []
    for _ in range(2):
        command, variables = [sys.executable, "-c", SERVED], {**environment(), "TMPDIR": str(tmp_path)}
        drivers.append(subprocess.Popen(command, env=variables, stdout=subprocess.PIPE, text=True))
        assert drivers[-1].stdout and drivers[-1].stdout.readline() == "up\n"
    killed, living = drivers
    try:
        assert len(list(tmp_path.glob("pymp-*"))) == 2
        killed.kill()
        killed.wait()
        monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
        LocalExecutor(1)
        assert len(os.listdir(tmp_path)) == 1, "what is left of one, or nothing of the other"
    finally:
        living.kill()
        living.wait()


def test_without_a_run_no_server_is_started() -> None:
    script = "from harness.executors.local import LocalExecutor; import psutil; LocalExecutor(1).close();"
    script += "print(psutil.Process().children())"
    process = subprocess.run([sys.executable, "-c", script], env=environment(), capture_output=True, text=True)
    assert process.stdout == "[]\n", process.stderr


MANY = """
import resource
from pathlib import Path
from types import SimpleNamespace
from harness.errors import UserError
from harness.executors.local import LocalExecutor
_, most = resource.getrlimit(resource.RLIMIT_NOFILE)
for limits in ((40, most), (40, 40)):
    resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    executor = LocalExecutor(16)
    try:
        for number in range(16):
            executor.submit(str(number), {}, SimpleNamespace(run=Path("none"), exchange=None))
        print("all")
    except UserError as error:
        print(error)
    executor.close()
"""


def test_more_workers_than_the_usual_limit_of_open_files(tmp_path: Path) -> None:
    """The limit that may be raised is; of the other a sentence is said."""
    command = [sys.executable, "-c", MANY]
    process = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True, check=True)
    said = r"all\nno process can be started for a run beside \d+ others .*\(ulimit -n\).*\n"
    assert re.fullmatch(said, process.stdout), process.stdout + process.stderr


ELSEWHERE = """
import os
from pathlib import Path
from types import SimpleNamespace
from harness.executors.local import LocalExecutor
executor = LocalExecutor(1)
before = dict(os.environ)
executor.submit("run", {}, SimpleNamespace(run=Path("none"), exchange=None))
assert os.environ == before
print(*(type(executor.next()).__name__ for _ in range(2)))
executor.close()
"""


@pytest.mark.skipif(sys.version_info < (3, 11), reason="the current folder comes first there")
def test_runs_are_of_the_code_of_their_command_whatever_lies_in_the_current_folder(tmp_path: Path) -> None:
    (tmp_path / "script").mkdir()
    (tmp_path / "script" / "script.py").write_text(ELSEWHERE)
    (tmp_path / "harness").mkdir()
    (tmp_path / "harness" / "__init__.py").write_text("raise RuntimeError('another version')")
    command = [sys.executable, str(tmp_path / "script" / "script.py")]
    process = subprocess.run(command, env=environment(), cwd=tmp_path, capture_output=True, text=True)
    assert process.stdout == "Began Failed\n", process.stdout + process.stderr  # of what is no run


def test_a_temporary_folder_without_room_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def full() -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))  # as of the server's socket, without a path

    monkeypatch.setattr(forkserver, "ensure_running", full)
    with closing(LocalExecutor(1)) as executor, pytest.raises(UserError, match=f"room in {tempfile.gettempdir()}"):
        executor.prepare()


def _until(found: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 90
    while not found():
        assert time.monotonic() < deadline
        time.sleep(0.1)
