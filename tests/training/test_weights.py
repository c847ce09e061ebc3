"""A folder that takes its name when it is whole: by two at once, stopped on the way, taken by somebody else."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
import transformers
from transformers import BertConfig, BertModel, configuration_utils

from harness import files
from harness.errors import UserError
from harness.training.weights import save, whole_folder


@pytest.mark.parametrize("other", ["process", "machine"])
def test_two_that_write_the_same_folder_do_not_mix(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, other: str) -> None:
    folder = tmp_path / "student"
    with pytest.raises(UserError, match="cannot be written"), whole_folder(folder, new=True) as one:
        (one / "of_one").write_text("")
        with monkeypatch.context() as patch:
            if other == "process":
                patch.setattr(os, "getpid", os.getppid)  # alive too
            else:  # whose process has our number, as in two containers over one storage
                patch.setattr(files, "_machine", lambda: "0" * 8)
            with whole_folder(folder, new=True) as another:
                (another / "of_other").write_text("")
        assert os.listdir(one) == ["of_one"]
    assert os.listdir(tmp_path) == ["student"] and os.listdir(folder) == ["of_other"]


def test_an_older_one_of_ours_is_replaced(tmp_path: Path) -> None:
    for name in ("before", "after"):
        with whole_folder(tmp_path / "weights") as folder:
            (folder / name).write_text("")
    assert os.listdir(tmp_path / "weights") == ["after"]


def test_whoever_may_read_the_folder_may_read_its_weights(tmp_path: Path) -> None:
    before = os.umask(0o022)
    try:
        model = BertModel(BertConfig(vocab_size=8, hidden_size=4, num_hidden_layers=1, num_attention_heads=1))
        save(model, tmp_path / "weights")
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "weights").iterdir()} == {0o644}


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


def test_what_another_machine_writes_stays_until_nobody_has_touched_it_for_a_day(tmp_path: Path) -> None:
    left = tmp_path / f".weights.{2**31 - 1}-00000000.tmp"  # no process here has that number
    left.mkdir()
    with whole_folder(tmp_path / "weights"):
        assert left.exists()
    os.utime(left, (0, time.time() - 25 * 3600))
    with whole_folder(tmp_path / "weights"):
        assert not left.exists()


def test_what_another_users_process_writes_stays(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def kill(process: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(os, "kill", kill)
    left = tmp_path / f".weights.{os.getppid()}.tmp"
    left.mkdir()
    with whole_folder(tmp_path / "weights"):
        pass
    assert left.exists()


@pytest.mark.parametrize(
    ("error", "told", "said"),
    [
        (ValueError("a weight is missing"), ValueError, "^a weight is missing$"),
        (OSError(28, "No space left on device"), UserError, "the disk is full: .*weights could not be written"),
        (ValueError("I/O error: full (os error 28)"), UserError, "the disk is full: .*weights could not be written"),
    ],
)
def test_of_what_fails_only_what_the_system_says_is_of_the_disk(
    error: Exception, told: type[Exception], said: str, tmp_path: Path
) -> None:
    with pytest.raises(told, match=said) as caught, whole_folder(tmp_path / "weights"):
        raise error
    assert (caught.value is error) == (told is ValueError) and not any(tmp_path.iterdir())


@pytest.mark.skipif(not Path("/proc/self/ns/pid").is_symlink(), reason="no namespaces here")
def test_two_containers_of_one_name_that_number_processes_apart_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = files._machine.__wrapped__()
    assert ours == files._machine.__wrapped__()
    monkeypatch.setattr(os, "readlink", lambda path: "pid:[4026532571]")
    assert files._machine.__wrapped__() != ours


def test_the_same_weights_are_the_same_folder_under_any_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Or a teacher that is made once more after an update would be told as one of other weights."""
    torch.manual_seed(0)
    model = BertModel(BertConfig(hidden_size=4, num_hidden_layers=1, num_attention_heads=1, vocab_size=8))
    save(model, tmp_path / "before")
    monkeypatch.setattr(configuration_utils, "__version__", "9.9.9")
    assert "9.9.9" in model.config.to_json_string() and transformers.__version__ != "9.9.9"
    save(model, tmp_path / "after")
    assert files.checksums(tmp_path / "before") == files.checksums(tmp_path / "after")
    again = BertModel.from_pretrained(tmp_path / "after", local_files_only=True)
    assert all(torch.equal(again.state_dict()[name], tensor) for name, tensor in model.state_dict().items())
    assert again.config.hidden_size == 4
