"""Killing a harness run where it hurts: its worker in the middle of training, then its driver."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil

from tests.launching import begun


def workers(driver: int) -> list[psutil.Process]:
    """The processes that train: what the driver's fork server forked."""
    found: list[psutil.Process] = []
    with suppress(psutil.NoSuchProcess):  # the driver has just ended
        for server in psutil.Process(driver).children():
            with suppress(psutil.NoSuchProcess):
                found += server.children()
    return found


def run_and_kill(arguments: Sequence[str], out: Path) -> None:
    """Start the command, kill its worker after a checkpoint, and its driver after the next one."""
    driver = begun(*arguments, folder=out.with_name(f"{out.name}-said"))
    try:
        _wait_for_another(out, driver)
        (worker,) = workers(driver.pid)
        os.kill(worker.pid, signal.SIGKILL)  # the driver goes on with another
        _wait_for_another(out, driver)
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


def _wait_for_another(out: Path, process: Any) -> None:
    """Until the next checkpoint is written, and a little longer: some steps are then to be made again."""
    before, deadline = newest(out), time.monotonic() + 300
    while newest(out) == before:
        assert process.is_alive() and time.monotonic() < deadline, "the run was not hit in its middle"
        time.sleep(0.01)
    time.sleep(0.05)


def without_times(record: dict[str, Any]) -> dict[str, Any]:
    times = ("seconds", "model_seconds", "examples_per_second", "peak_memory_mib")
    return {name: value for name, value in record.items() if name not in times}
