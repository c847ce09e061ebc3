"""What asks a command to end is not lost, whatever Python is at when it comes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from argparse import Namespace

import pytest

from harness import cli
from tests.conftest import ROOT

SIGNALS = {signal.SIGINT: (130, "stopped;"), signal.SIGTERM: (143, "stopped by SIGTERM;")}


class Ended:
    """Is sent a signal while its `__del__` runs, in which Python only prints what is raised."""

    def __init__(self, number: int):
        self.number = number

    def __del__(self) -> None:
        os.kill(os.getpid(), self.number)
        time.sleep(0.01)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_that_comes_while_something_is_deleted_stops_the_command(
    number: signal.Signals, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    waited: list[int] = []

    def work(options: Namespace) -> int:
        Ended(number)
        for _ in range(200):
            time.sleep(0.01)
            waited.append(1)
        return 0

    monkeypatch.setattr(cli, "work_of", lambda command: work)
    hook, before = sys.unraisablehook, signal.getsignal(signal.SIGTERM)
    try:
        status, said = SIGNALS[number]
        assert cli.main(["list", "studies"]) == status and len(waited) < 100
        assert said in capsys.readouterr().err and sys.unraisablehook is hook
    finally:
        signal.signal(signal.SIGTERM, before)


def test_what_else_is_raised_there_is_told_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    class Broken:
        def __del__(self) -> None:
            raise ValueError("broken")

    def work(options: Namespace) -> int:
        Broken()
        return 0

    told: list[object] = []
    monkeypatch.setattr(cli, "work_of", lambda command: work)
    monkeypatch.setattr(sys, "unraisablehook", lambda what: told.append(what.exc_value))
    assert cli.main(["list", "studies"]) == 0 and [str(error) for error in told] == ["broken"]


def test_ctrl_c_while_the_fork_server_imports_prints_nothing() -> None:
    """A terminal sends it to all processes at once."""
    code = (
        "import os, signal, threading\n"
        "for wait in (0.3, 0.6, 1.2):\n"
        "    threading.Timer(wait, os.kill, (os.getpid(), signal.SIGINT)).start()\n"
        "import harness.executors.preload\n"
        "print(signal.getsignal(signal.SIGINT) is signal.default_int_handler)\n"
    )
    began = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env={**os.environ, "PYTHONPATH": str(ROOT)}
    )
    assert time.monotonic() - began > 1.2, "all of them came while it was importing"
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
