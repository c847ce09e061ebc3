"""CUDA's Multi-Process Service, started and stopped; its programs are stood in for by scripts."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.executors import gpus
from harness.executors.local import LocalExecutor
from harness.executors.mps import CONTROL, service
from tests.conftest import Harness

# In the foreground it goes on until it is told to quit; each answer needs it to be there.
STAND_IN = """#!/bin/sh
here=$CUDA_MPS_PIPE_DIRECTORY/control
if [ "$1" = -f ]; then
    echo $$ > "$here"; while [ -e "$here" ]; do sleep 0.05; done; exit 0
fi
read -r word
[ -e "$here" ] || exit 1
[ "$word" = quit ] && rm "$here"
exit 0
"""
HANG = {"-f": "sleep 61\n", "quit": "read -r word\n"}  # what an answer does
REFUSING = "#!/bin/sh\n[ \"$1\" = -f ] && echo 'Cannot start: compute mode is prohibited'\nexit 1\n"


@pytest.fixture
def programs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder of programs that comes first in PATH; one GPU is visible."""
    folder = tmp_path / "programs"
    folder.mkdir()
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
    monkeypatch.setenv(gpus.VISIBLE, "0")
    return folder


def write(path: Path, script: str) -> None:
    path.write_text(script)
    path.chmod(0o755)


def gone(folder: Path) -> bool:
    """Whether the service has ended, in ten seconds."""
    until = time.monotonic() + 10
    while (folder / "control").exists() and time.monotonic() < until:
        time.sleep(0.05)
    return not (folder / "control").exists()


def test_runs_are_given_it_and_it_ends_with_the_executor(programs: Path) -> None:
    write(programs / CONTROL, STAND_IN)
    with closing(LocalExecutor(2, mps=True)) as executor:
        folder = Path(executor._given["CUDA_MPS_PIPE_DIRECTORY"])
        assert (folder / "control").exists()
    assert not folder.exists()


def test_it_ends_where_the_driver_is_killed(programs: Path) -> None:
    write(programs / CONTROL, STAND_IN)
    script = (
        "import time; from harness.executors.mps import service\n"
        "with service(('0',)) as told: print(told['CUDA_MPS_PIPE_DIRECTORY'], flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", script], stdout=subprocess.PIPE, text=True) as driver:
        assert driver.stdout is not None
        folder = Path(driver.stdout.readline().strip())
        assert (folder / "control").exists()
        driver.send_signal(signal.SIGKILL)
    assert gone(folder)


def test_the_service_sees_every_gpu_by_the_numbers_that_runs_are_given(
    programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started with some of them it would count them anew from 0."""
    write(programs / CONTROL, STAND_IN.replace("echo $$", 'echo "visible: $CUDA_VISIBLE_DEVICES"'))
    monkeypatch.setenv(gpus.VISIBLE, "0,2")
    with service(gpus.visible()) as told:
        assert (Path(told["CUDA_MPS_PIPE_DIRECTORY"]) / "control").read_text().strip() == "visible:"
        assert gpus.VISIBLE not in told


@pytest.mark.parametrize("hangs", ["-f", "quit"])
def test_a_service_that_hangs_is_given_up(hangs: str, programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that does not answer, and one that does not end: neither is left behind."""
    ends = "exec sleep 61" if hangs == "-f" else "trap '' TERM; while true; do sleep 61; done"
    write(
        programs / CONTROL, STAND_IN.replace("while [ -e", f"{ends}; while [ -e").replace("read -r word\n", HANG[hangs])
    )
    monkeypatch.setattr("harness.executors.mps.PATIENCE", 0.5)
    began = time.monotonic()
    if hangs == "-f":
        with pytest.raises(UserError, match="did not start"), service(("0",)):
            pass
    else:
        with service(("0",)):
            pass
    assert time.monotonic() - began < 10
    assert not subprocess.run(["pgrep", "-f", str(programs / CONTROL)], capture_output=True, check=False).stdout


def test_what_cannot_be_is_refused(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(programs))
    with pytest.raises(UserError, match=f"needs the program {CONTROL}"), service(("0",)):
        pass
    with pytest.raises(UserError, match="no GPU is to be seen"), service(()):
        pass


def test_why_it_does_not_start_is_told(programs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(programs / CONTROL, REFUSING)
    monkeypatch.setattr("harness.executors.mps.PATIENCE", 0.5)
    with pytest.raises(UserError, match="did not start: Cannot start: compute mode is prohibited"), service(("0",)):
        pass


def test_flags_without_effect_are_refused(tmp_path: Path, call: Harness) -> None:
    study = ("run", "--study", "objectives_vs_init", "--out", str(tmp_path), "--mps")
    for more, said in (
        (("--executor", "ray"), "--mps has no effect with --executor ray"),
        (("--workers", "2", "--run-timeout", "1h"), "--run-timeout ends processes, which under --mps may disturb"),
        (("--workers", "1"), "--mps has no effect where only one run trains at a time"),
        (("--workers", "2"), "--mps lets runs share a GPU, and no GPU is to be seen"),
    ):
        found = call(*study, *more)
        assert found.returncode == 2 and said in found.stderr, found.stderr
        assert found.stderr.count("\n") <= 2


def test_how_much_memory_is_used_is_that_of_the_fullest_gpu(programs: Path) -> None:
    write(programs / "nvidia-smi", "#!/bin/sh\necho '100, 1000'; echo '700, 1000'\n")
    assert gpus.used() == 0.7
    write(programs / "nvidia-smi", "#!/bin/sh\necho '[N/A], 1000'\n")
    assert gpus.used() is None
    write(programs / "nvidia-smi", "#!/bin/sh\nexit 9\n")
    assert gpus.used() is None
