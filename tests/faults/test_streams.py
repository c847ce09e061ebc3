"""Where what is printed and what is temporary goes: a full disk, nowhere, a reader that went away, other encodings."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import environment

COMMAND = f"{sys.executable} -m harness list studies"


def through(shell: str, folder: Path, **more: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(shell, shell=True, capture_output=True, cwd=folder, env={**environment(), **more})


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="this system has no device that is always full")
def test_a_full_disk_is_told_in_a_sentence(tmp_path: Path) -> None:
    done = through(f"{COMMAND} > /dev/full", tmp_path)
    assert done.returncode == 4
    assert done.stderr.decode() == "harness: what is printed cannot be written: No space left on device\n"


def test_a_disk_that_fills_up_is_told_even_where_nothing_is_buffered(tmp_path: Path) -> None:
    done = through(f"ulimit -f 1; {COMMAND} > half", tmp_path, PYTHONUNBUFFERED="1")
    assert (done.returncode, done.stderr) == (4, b"harness: what is printed cannot be written: File too large\n")


@pytest.mark.parametrize("where", [">&-", ">&- 2>&-", "| head -c 10"])
def test_output_that_nobody_reads_is_no_fault(where: str, tmp_path: Path) -> None:
    done = through(f"{COMMAND} {where}", tmp_path)
    assert done.returncode == 0 and not done.stderr


INHERITED = """
import os
from harness import cli
cli._open_streams()
print([os.get_inheritable(number) for number in range(3)], file=open("seen", "w"))
"""


@pytest.mark.parametrize("closed", [">&-", "2>&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_processes_that_train_have_streams_where_those_of_the_command_were_closed(closed: str, tmp_path: Path) -> None:
    """Their prints go to a log by the numbers of these."""
    (tmp_path / "streams.py").write_text(INHERITED)
    through(f"{sys.executable} streams.py {closed}", tmp_path)
    assert (tmp_path / "seen").read_text() == "[True, True, True]\n"


def test_files_are_in_utf8_whatever_the_system_says(tmp_path: Path) -> None:
    plain = through(f"{sys.executable} -m harness list objectives", tmp_path).stdout
    other = through(f"{sys.executable} -m harness list objectives", tmp_path, PYTHONIOENCODING="ascii").stdout
    assert other == plain


def test_a_current_folder_that_is_gone_is_told(tmp_path: Path) -> None:
    (gone := tmp_path / "gone").mkdir()
    done = through(f"rmdir ../gone && {sys.executable} -m harness status --study objectives_vs_init", gone)
    assert done.returncode == 2 and done.stderr.startswith(b"harness: ") and done.stderr.count(b"\n") == 1


NOWHERE = "import sys, tempfile; tempfile._candidate_tempdir_list = lambda: ['/nowhere']; import harness.cli; "
NOWHERE += "sys.exit(harness.cli.main(sys.argv[1:]))"


@pytest.mark.parametrize("start", [("-c", NOWHERE), ("-m", "harness")], ids=["none", "too long"])
def test_a_temporary_folder_that_cannot_be_used_is_told(start: tuple[str, ...], tmp_path: Path) -> None:
    deep = tmp_path.with_name("deep" * 25)
    deep.mkdir(exist_ok=True)
    study = ("run", "--study", "objectives_vs_init", "--tasks", "sentiment", "--workers", "1", "--out", tmp_path)
    command, variables = [sys.executable, *start, *study], {**environment(), "TMPDIR": str(deep)}
    done = subprocess.run(command, env=variables, capture_output=True, text=True)
    assert done.returncode == 2 and "Traceback" not in done.stderr
    assert done.stderr.splitlines()[-1].startswith("harness: TMPDIR must name a folder ")
