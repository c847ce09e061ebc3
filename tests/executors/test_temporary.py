"""Folders in the temporary one: kept while somebody holds them, removed by the next start afterwards."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from harness.executors import temporary


def write(folder: Path, files: dict[str, bytes]) -> Path:
    for name, content in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(content)
    return folder


HOLDER = """
import fcntl, os, sys, time
handle = os.open(sys.argv[1], os.O_CREAT | os.O_RDWR)
fcntl.flock(handle, fcntl.LOCK_SH)
print("held", flush=True)
time.sleep(60)
"""


def test_folders_of_killed_workers_are_swept_and_others_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    for name in (f"{temporary.PREFIX}held", f"{temporary.PREFIX}left", "pymp-left"):
        write(tmp_path / name, {"cache/file": b"1", ".held": b""})
    write(tmp_path / "pymp-other", {"listener": b""})  # of another program
    write(tmp_path / f"{temporary.REMNANT}1", {"cache/file": b"1"})  # of a sweep that was killed
    write(tmp_path / f"{temporary.PREFIX}main", {"results/table.md": b""})  # a checkout, with what was trained in it
    others = {"pymp-other", f"{temporary.PREFIX}main"}
    held = tmp_path / f"{temporary.PREFIX}held"
    holder = subprocess.Popen([sys.executable, "-c", HOLDER, str(held / ".held")], stdout=subprocess.PIPE, text=True)
    try:
        assert holder.stdout and holder.stdout.readline() == "held\n"
        temporary.sweep()
        assert set(os.listdir(tmp_path)) == {held.name, *others} and (held / "cache" / "file").exists()
    finally:
        holder.kill()
        holder.wait()
    temporary.sweep()
    assert set(os.listdir(tmp_path)) == others and (tmp_path / f"{temporary.PREFIX}main" / "results").is_dir()


def test_a_folder_that_is_held_outlives_every_sweep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder, ended = tmp_path / f"{temporary.PREFIX}one", threading.Event()

    def others() -> None:
        while not ended.is_set():
            temporary.sweep()

    def work(name: str) -> int:
        for number in range(200):
            handle = temporary.hold(folder)
            file = folder / f"{name}{number}"
            file.write_bytes(b"1")
            time.sleep(0.0005)
            file.unlink()  # it is there
            os.close(handle)
        return 200

    with ThreadPoolExecutor(6) as threads:
        sweepers = [threads.submit(others) for _ in range(3)]
        workers = [threads.submit(work, name) for name in "abc"]
        try:
            assert [worker.result() for worker in workers] == [200] * 3
        finally:
            ended.set()
        assert [sweeper.result() for sweeper in sweepers] == [None] * 3


def test_a_sweep_touches_nothing_of_a_folder_made_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.gettempdir", lambda: str(tmp_path))
    folder, remove = write(tmp_path / f"{temporary.PREFIX}one", {".held": b"", "cache/file": b"old"}), shutil.rmtree

    def meanwhile(path: Path) -> None:
        (path / ".held").unlink()  # the first to go
        write(folder, {f"cache/{temporary.hold(folder)}": b"new"})
        remove(path)

    monkeypatch.setattr(shutil, "rmtree", meanwhile)
    temporary.sweep()
    assert [path.read_bytes() for path in (folder / "cache").iterdir()] == [b"new"]
    assert os.listdir(tmp_path) == [folder.name]
