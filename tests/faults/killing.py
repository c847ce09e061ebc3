"""Killing a harness run where it hurts: its worker in the middle of training, then its driver."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

import psutil

from tests.launching import FORKED, begun


def servers(driver: int) -> list[psutil.Process]:
    """The process that forks a driver's runs, if it has begun."""
    with suppress(psutil.NoSuchProcess):  # the driver has just ended
        return [child for child in psutil.Process(driver).children() if "forkserver" in " ".join(child.cmdline())]
    return []


def workers(driver: int) -> list[psutil.Process]:
    """The processes that train: what the driver's fork server forked, or that of this process if they share it."""
    found: list[psutil.Process] = []
    for server in (*servers(driver), psutil.Process(FORKED._forkserver_pid)):
        with suppress(psutil.NoSuchProcess):
            found += server.children()
    return [process for process in found if process.pid != driver]


def run_and_kill(arguments: Sequence[object], out: Path) -> None:
    """Start the command, kill its worker after a checkpoint, and its driver after the next one."""
    driver = begun(*arguments, folder=out.with_name(f"{out.name}-said"), shared=True)
    try:
        wait_for_another(out, driver)
        (worker,) = workers(driver.pid)
        os.kill(worker.pid, signal.SIGKILL)  # the driver goes on with another
        wait_for_another(out, driver)
    finally:
        driver.kill()
        driver.join()
    assert newest(out) and not list(out.glob("ledger/*/weights/.*"))


def newest(out: Path, names: str = "checkpoint.pt") -> int:
    """When the newest file of these names of any run was written; 0 if there is none."""
    times = []
    for path in out.glob(f"ledger/*/{names}"):
        with suppress(FileNotFoundError):  # the run has just ended, or what was written got its name
            times.append(path.stat().st_mtime_ns)
    return max(times, default=0)


def wait_for_another(out: Path, *processes: Any) -> None:
    """Until the next checkpoint is written, and a little longer: some steps are then to be made again."""
    before, deadline = newest(out), time.monotonic() + 300
    while newest(out) <= before:  # a run that ends takes its checkpoint away, which is none
        alive = all(process.is_alive() for process in processes)
        assert alive and time.monotonic() < deadline, "the run was not hit in its middle"
        time.sleep(0.01)
    time.sleep(0.05)


def killed_at(call: str, number: int, *words: object, folder: Path) -> None:
    """`harness` with these words, killed at the call of this number, from 1.

    call: "module:name" or "module:class.name".
    """
    process = begun(call, number, *words, folder=folder, shared=True, work=_dying)
    process.join(60)
    assert process.exitcode == -signal.SIGKILL, (folder / "error").read_text()


def _dying(call: str, number: str, *words: str) -> int:
    from harness.cli import main

    where, _, name = call.rpartition("." if "." in call.partition(":")[2] else ":")
    owner, left = resolve_name(where), [int(number)]
    usual = getattr(owner, name)

    def counted(*given: Any, **more: Any) -> Any:
        left[0] -= 1
        if not left[0]:
            os.kill(os.getpid(), signal.SIGKILL)
        return usual(*given, **more)

    setattr(owner, name, counted)
    return main(words)
