"""What a record tells of the machine and the code that made it."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harness.executors import made_on


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    made_on.commit.cache_clear()
    yield
    made_on.commit.cache_clear()


def git(folder: Path, *words: str) -> None:
    who = ("-c", "user.name=x", "-c", "user.email=x@example.org")
    subprocess.run(("git", "-C", str(folder), *who, *words), check=True, capture_output=True)


def test_a_checkout_tells_its_commit_and_whether_files_differ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(made_on, "ROOT", tmp_path)
    assert made_on.commit() == ""  # installed from a wheel
    git(tmp_path, "init")
    (tmp_path / "file").write_text("one")
    git(tmp_path, "add", "file")
    git(tmp_path, "commit", "-m", "one")
    made_on.commit.cache_clear()
    clean = made_on.commit()
    assert clean.startswith("commit ") and len(clean) == len("commit 0123456789ab")
    (tmp_path / "file").write_text("two")
    made_on.commit.cache_clear()
    assert made_on.commit() == f"{clean} with changes"


def test_without_git_there_is_no_commit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / ".git").mkdir()
    monkeypatch.setattr(made_on, "ROOT", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert made_on.commit() == ""


def test_the_machine_is_named_without_saying_whose_it_is() -> None:
    import platform

    told = made_on.made_on()
    assert "cores" in told["machine"] and (not platform.node() or platform.node() not in told["machine"].split())
