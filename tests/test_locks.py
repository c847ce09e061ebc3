"""Locks where the file system locks no files, as Lustre without its option flock."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

import pytest

from harness.cli import parser
from harness.data.store import alone
from harness.errors import UserError
from harness.executors.choosing import executor
from harness.folders import LOCK, MARKER
from harness.ledger import Held, Ledger
from harness.locks import lock_of_machine, locks_files

ELSEWHERE = "30041\nnode17\n5586739810061573170578826490934857879488980379167516652230\n"  # as filelock writes it


@pytest.fixture
def lockless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder in which flock is not implemented."""
    folder, real = tmp_path / "lockless", fcntl.flock
    folder.mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)

    def flock(file: int, how: int) -> None:
        if Path(os.readlink(f"/proc/self/fd/{file}")).is_relative_to(folder):
            raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))
        real(file, how)

    monkeypatch.setattr(fcntl, "flock", flock)
    return folder


def test_who_holds_a_folder_is_told_and_which_file_to_delete(lockless: Path) -> None:
    first, second = Ledger(lockless, create=True), Ledger(lockless)
    with first.lock(), pytest.raises(Held, match=f"process {os.getpid()} on machine"), second.lock():
        pytest.fail("two drivers held one folder")
    (lockless / MARKER).write_text(ELSEWHERE)  # of a driver that was killed on another node
    assert second.is_worked_in()
    with pytest.raises(Held, match="process 30041 on machine node17: .* delete this file") as told, second.lock():
        pass
    assert str(lockless / MARKER) in str(told.value)
    (lockless / MARKER).unlink()
    with second.lock():
        pass
    assert not (lockless / MARKER).exists()


def test_a_lock_that_came_with_a_copy_holds_nothing(lockless: Path) -> None:
    ledger = Ledger(lockless, create=True)
    (lockless / LOCK).touch()
    with ledger.lock():
        pass


@pytest.mark.parametrize("number", [errno.ENOSYS, errno.EOPNOTSUPP])
def test_a_file_system_without_locks_is_told_from_one_that_fails(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def flock(file: int, how: int) -> None:
        raise OSError(number, os.strerror(number))

    assert locks_files(tmp_path / "a")
    monkeypatch.setattr(fcntl, "flock", flock)
    assert not locks_files(tmp_path / "a")
    number = errno.EIO
    with pytest.raises(OSError, match=os.strerror(errno.EIO)):
        locks_files(tmp_path / "a")


def test_a_lock_of_this_machine_is_one_from_wherever_its_place_is_named(
    lockless: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(lockless)
    assert lock_of_machine(Path("a")).lock_file == lock_of_machine(lockless / "a").lock_file
    assert lock_of_machine(Path("a")).lock_file != lock_of_machine(Path("b")).lock_file


def test_a_marker_that_says_nothing_holds_a_folder_all_the_same(lockless: Path) -> None:
    ledger = Ledger(lockless, create=True)
    (lockless / MARKER).touch()  # of who has just taken the folder, or of a full disk
    with pytest.raises(Held, match="process unknown on machine unknown: .* delete this file"), ledger.lock():
        pass


@pytest.mark.filterwarnings("error")
def test_a_marker_of_another_machine_in_the_cache_is_not_waited_for(lockless: Path) -> None:
    """It was waited for without end and without a word."""
    (lockless / LOCK).write_text(ELSEWHERE)
    with alone(lockless):
        assert list(lockless.parent.glob("distill-harness-*.lock")), "held on this machine"


def test_nodes_share_no_folder_in_which_they_could_not_keep_out_of_each_others_way(lockless: Path) -> None:
    words = ["run", "--study", "objectives_vs_init", "--executor", "ray", "--address", "auto", "--shared-out"]
    with pytest.raises(UserError, match="cannot lock files, which --shared-out needs"):
        executor(parser().parse_args(words))(lockless)
