"""A folder that takes its name when it is whole: by two at once, stopped on the way, taken by somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from harness.errors import UserError
from harness.training.weights import whole_folder


def test_two_that_write_the_same_folder_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "student"
    with pytest.raises(UserError, match="cannot be written"), whole_folder(folder, new=True) as one:
        (one / "of_one").write_text("")
        with monkeypatch.context() as patch:
            patch.setattr(os, "getpid", os.getppid)  # the other is another process, alive too
            with whole_folder(folder, new=True) as other:
                (other / "of_other").write_text("")
        assert os.listdir(one) == ["of_one"]
    assert os.listdir(tmp_path) == ["student"] and os.listdir(folder) == ["of_other"]


def test_an_older_one_of_ours_is_replaced(tmp_path: Path) -> None:
    for name in ("before", "after"):
        with whole_folder(tmp_path / "weights") as folder:
            (folder / name).write_text("")
    assert os.listdir(tmp_path / "weights") == ["after"]


def test_one_that_is_stopped_leaves_nothing_and_one_that_is_killed_until_the_next(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt), whole_folder(tmp_path / "weights") as folder:
        (folder / "half").write_text("")
        raise KeyboardInterrupt
    assert os.listdir(tmp_path) == []
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    left = tmp_path / f".weights.{gone.pid}.tmp"
    left.mkdir()
    with whole_folder(tmp_path / "weights"):
        pass
    assert os.listdir(tmp_path) == ["weights"]
