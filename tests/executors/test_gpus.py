"""Which GPU a run of the local executor is given, where there are several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from harness.executors import gpus, local
from harness.executors.worker import attempt
from harness.runs.messages import Began, Failed, Finished, Noted


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Any]]:
    """The attempts in the order in which they began; each says what is put into `says`."""
    found: list[Any] = []

    def attempt(run: str, specification: Any, workspace: Any, limit: Any, environment: dict[str, str]) -> Any:
        one = SimpleNamespace(run=run, environment=environment, signs=(), says=None, left=lambda: 0, end=lambda: None)
        one.message = lambda: one.says
        found.append(one)
        return one

    monkeypatch.setattr(local, "Attempt", attempt)
    monkeypatch.setattr(local, "wait", lambda signs, seconds: None)
    return found


def given(attempts: list[Any]) -> list[str]:
    return [attempt.environment[gpus.VISIBLE] for attempt in attempts]


def test_runs_are_spread_and_the_next_takes_the_gpu_that_is_free(
    begun: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(gpus.VISIBLE, "0, 2")
    with closing(local.LocalExecutor(4)) as executor:
        for number in range(6):
            executor.submit(str(number), None, None)
        assert given(begun) == ["0", "2", "0", "2"]
        begun[1].says = Finished("1", {}, {})
        assert any(isinstance(executor.next(), Finished) for _ in range(6))  # after what was told before it
        assert given(begun[4:]) == ["2"]


def test_a_run_without_memory_waits_for_others_and_fails_alone(
    begun: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(gpus.VISIBLE, "0")
    with closing(local.LocalExecutor(3)) as executor:
        for number in range(4):
            executor.submit(str(number), None, None)
        told = [executor.next() for _ in range(3)]
        begun[1].says = Failed("1", "no memory", "", crowded=True)
        assert executor.next() == Noted("1", "2 runs go on at a time from here: one more lacked memory on a GPU")
        assert [one.run for one in begun] == ["0", "1", "2"] and told == [Began("0"), Began("1"), Began("2")]
        begun[0].says = Finished("0", {}, {})
        assert [executor.next() for _ in range(2)] == [begun[0].says, Began("1")]
        begun[3].says = Failed("1", "no memory", "", crowded=True)
        assert isinstance(executor.next(), Noted)
        for done in (begun[2], begun[3]):
            done.says = Finished(done.run, {}, {})
        assert executor.next() == begun[2].says
        assert executor.next() == Began("1")
        begun[4].says = Failed("1", "no memory", "", crowded=True)
        assert executor.next() == begun[4].says
        assert executor.next() == Began("3")


@pytest.mark.parametrize(
    ("error", "crowded"),
    [
        (torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB."), True),
        (RuntimeError("CUDA error: out of memory"), True),
        (RuntimeError("CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`"), True),
        (RuntimeError("mat1 and mat2 shapes cannot be multiplied"), False),
        (ValueError("CUDA out of memory"), False),
    ],
)
def test_what_a_gpu_says_without_memory(error: Exception, crowded: bool) -> None:
    def work() -> Any:
        raise error

    told = attempt("run", work)
    assert isinstance(told, Failed) and told.crowded == crowded and str(error) in told.error


@pytest.mark.parametrize("value", ["", "-1"])
def test_where_none_is_visible_nothing_is_set(
    value: str, begun: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(gpus.VISIBLE, value)
    with closing(local.LocalExecutor(1)) as executor:
        executor.submit("0", None, None)
    assert [attempt.environment for attempt in begun] == [{}]


def test_gpus_are_named_as_the_driver_names_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(gpus.VISIBLE, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    assert gpus.visible() == ()
    program = tmp_path / "nvidia-smi"
    program.write_text("#!/bin/sh\necho GPU-1\necho GPU-2\n")
    program.chmod(0o755)
    assert gpus.visible() == ("GPU-1", "GPU-2")
    program.write_text("#!/bin/sh\necho 'no driver' >&2; exit 9\n")
    assert gpus.visible() == ()
