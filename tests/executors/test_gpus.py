"""Which GPU a run of the local executor is given, where there are several."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.executors import gpus, local
from harness.runs.messages import Finished


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
