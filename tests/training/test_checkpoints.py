"""A checkpoint vouches for itself and its run; one that does not is set aside with a sentence, and never continued."""

from __future__ import annotations

import random
import resource
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.errors import UserError
from harness.ledger import CHECKPOINT
from harness.runs import StudentRun
from harness.training import machine
from harness.training.checkpoints import ASIDE, Checkpoint, checkpoint_of
from tests.training.builders import a_run, workspace_of

STATE = {"epoch": 3, "model": {"weight": torch.arange(3000.0).reshape(30, 100)}, "random": torch.get_rng_state()}
CODE = "of today"


def path_in(folder: Path) -> Path:
    return folder / "run" / CHECKPOINT


@pytest.fixture
def written(tmp_path: Path) -> Path:
    path = path_in(tmp_path)
    Checkpoint(path, CODE).write(STATE)
    return path


def refused(path: Path, code: str = CODE) -> str:
    """The note about a checkpoint that is not taken."""
    told: list[dict[str, Any]] = []
    assert Checkpoint(path, code).read(told.append) is None
    (entry,) = told
    assert not path.exists() and path.with_name(ASIDE).exists()
    assert "set aside" in entry["note"] and "starts over" in entry["note"] and path.parent.name in entry["note"]
    return str(entry["note"])


def test_what_is_written_is_read(written: Path) -> None:
    found = Checkpoint(written, CODE).read(pytest.fail)
    assert found is not None and found["epoch"] == 3 and torch.equal(found["model"]["weight"], STATE["model"]["weight"])
    assert Checkpoint(written.with_name("none.pt"), CODE).read(pytest.fail) is None


def test_no_flipped_bit_is_continued_from(written: Path) -> None:
    whole, draw = written.read_bytes(), random.Random(0)
    places = [0, len(whole) - 1, len(whole) - 70, *(draw.randrange(len(whole)) for _ in range(200))]
    for place in places:
        raw = bytearray(whole)
        raw[place] ^= 1 << draw.randrange(8)
        written.write_bytes(raw)
        assert "damaged" in refused(written), place


def test_no_truncated_file_is_continued_from(written: Path) -> None:
    whole = written.read_bytes()
    for size in (0, 1, 70, 71, 72, len(whole) // 2, len(whole) - 71, len(whole) - 1):
        written.write_bytes(whole[:size])
        assert "damaged" in refused(written), size


def test_neither_another_runs_nor_one_of_other_code_is(written: Path, tmp_path: Path) -> None:
    other = tmp_path / "other" / CHECKPOINT
    other.parent.mkdir()
    other.write_bytes(written.read_bytes())
    assert "belongs to another run" in refused(other)
    old = path_in(tmp_path / "old")
    old.parent.mkdir(parents=True)
    torch.save({"format": 2, **STATE}, old)  # as it was written before checkpoints had a checksum
    assert "another version" in refused(old)
    assert "another version" in refused(written, "of tomorrow")


@pytest.mark.parametrize(("wrote", "reads"), [("cpu", "cuda"), ("cuda", "cpu")])
def test_none_of_another_kind_of_device_is(
    wrote: str, reads: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its random states are none here, and the record would tell one device for what two have computed."""
    found = {}
    for kind in (wrote, reads):
        monkeypatch.setattr(machine, "device", lambda kind=kind: torch.device(kind))
        found[kind] = checkpoint_of(a_run(StudentRun), workspace_of(path_in(tmp_path).parent))
    found[wrote].write(STATE)
    assert found[wrote].read(pytest.fail)
    told: list[dict[str, Any]] = []
    assert found[reads].read(told.append) is None
    assert f"was written on another kind of device ({wrote}): it is set aside" in told[0]["note"]


def test_one_that_would_run_code_is_not_opened(tmp_path: Path) -> None:
    class Evil:
        def __reduce__(self) -> tuple[Callable[..., Any], tuple[str]]:
            return (tmp_path / "executed").mkdir, ()  # type: ignore[return-value]

    path = path_in(tmp_path)
    Checkpoint(path, CODE).write({"evil": Evil()})
    assert "cannot be read" in refused(path) and not (tmp_path / "executed").exists()


@pytest.mark.parametrize("free", [0, 1, 5000, 300_000])
def test_a_full_disk_is_told_in_one_sentence(free: int, written: Path) -> None:
    """Of a file no more bytes than are free can be written; torch itself tells only at which one it was."""
    before, limits = written.read_bytes(), resource.getrlimit(resource.RLIMIT_FSIZE)
    handler = signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (free, limits[1]))
    try:
        with pytest.raises(UserError, match="the disk is full"):
            Checkpoint(written, CODE).write({**STATE, "more": [torch.ones(70_000) for _ in range(4)]})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
        signal.signal(signal.SIGXFSZ, handler)
    assert written.read_bytes() == before and list(written.parent.iterdir()) == [written]
