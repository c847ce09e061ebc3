"""How many runs go on at the same time where nobody says."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from harness.executors import choosing

BOUND = len(os.sched_getaffinity(0))


@pytest.mark.parametrize(
    ("quota", "expected"),
    [
        ("max 100000\n", BOUND),
        ("100000 100000\n", 1),
        ("50000 100000\n", 1),  # half of a core
        ("150000 100000\n", min(BOUND, 2)),
        ("100000000 100000\n", BOUND),
        ("", BOUND),
    ],
)
def test_a_container_with_a_share_of_the_cores_has_no_more_workers(
    quota: str, expected: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "cpu.max").write_text(quota)
    monkeypatch.setattr(choosing, "QUOTA", tmp_path / "cpu.max")
    assert choosing.workers(None) == expected and choosing.workers(7) == 7


@pytest.mark.parametrize(
    ("asked", "expected"), [("1", 1), ("100000", BOUND), ("0", BOUND), ("1(x2)", BOUND), ("", BOUND)]
)
def test_a_task_of_slurm_has_no_more_workers_than_it_asked_for(
    asked: str, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLURM_CPUS_PER_TASK", asked)
    assert choosing.workers(None) == min(expected, choosing.cores())
    monkeypatch.delenv("SLURM_CPUS_PER_TASK")
    assert choosing.workers(None) >= expected


def test_a_process_that_is_bound_to_one_core_has_one_worker() -> None:
    bound = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(bound)})
    try:
        assert choosing.workers(None) == 1
    finally:
        os.sched_setaffinity(0, bound)
