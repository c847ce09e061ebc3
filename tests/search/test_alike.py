"""Cells that learned the same to the last digit: what they differ in is told to be without effect."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.search import alike
from harness.search.alike import without_effect
from harness.search.progress import Finished, Progress
from tests.search import builders as search

LOSSES = (0.7, 0.5)


def replay(run: str, *losses: float, metrics: dict[str, float] | None = None, **made: Any) -> Progress:
    """Of a cell with one run, which has these losses."""
    curve = [{"stage": "prediction", "epoch": e, "loss": loss, "selection": 0.5} for e, loss in enumerate(losses, 1)]
    record = {"status": "finished", "selection": 0.5, "curve": curve, "metrics": metrics or {"accuracy": 0.8}}
    done = Finished(run, lambda: search.student_run(**made), {}, record)
    return Progress([done], done, [done])


def told(*replays: Progress, tasks: tuple[str, ...] = ("sst2",) * 3) -> tuple[str, ...]:
    cells = [
        search.cell(found.seeds[0].made, str(number), task=task)
        for number, (found, task) in enumerate(zip(replays, tasks, strict=False))
    ]
    return without_effect(search.plan(cells), replays)


def test_what_two_cells_differ_in_that_learned_the_same_is_named() -> None:
    first = replay("a", *LOSSES, init="every", settings={"epochs": 2, "gradient_clip": 0.0})
    second = replay("b", *LOSSES, init="every", settings={"epochs": 2, "gradient_clip": 100.0})
    third = replay("c", *LOSSES, init="first", settings={"epochs": 2, "gradient_clip": 0.0})
    row, student = first.seeds[0].made.objective, first.seeds[0].made.student  # type: ignore[attr-defined]
    tail = f"made no difference to the last digit of a loss or a metric: {row} of {student} on sst2."
    choices = ("gradient_clip 0.0 or 100.0", "init every or first")
    assert told(first, second, third) == tuple(f"The choice of {choice} {tail}" for choice in choices)


@pytest.mark.parametrize(
    "other",
    [
        pytest.param(replay("a", *LOSSES), id="the same run"),
        pytest.param(replay("b", 0.7, 0.5000001), id="another loss"),
        pytest.param(replay("b", *LOSSES, metrics={"accuracy": 0.81}), id="another metric"),
        pytest.param(replay("b"), id="a measurement"),
    ],
)
def test_what_differs_in_a_digit_or_is_the_same_run_is_not_meant(other: Progress) -> None:
    assert told(replay("a", *LOSSES), other) == ()


def test_failed_measured_and_missing_runs_and_other_tasks_are_not_compared() -> None:
    failed = replay("b", *LOSSES)
    failed.seeds[0].record["status"] = "failed"
    waiting = replay("c", *LOSSES)
    waiting.missing.append(search.student_run(seed=1))
    assert told(replay("a", *LOSSES), failed, waiting) == ()
    assert told(replay("a", *LOSSES), replay("d", *LOSSES, init="first"), tasks=("sst2", "rte")) == ()
    assert told(replay("a"), replay("b")) == () and without_effect(search.plan([]), []) == ()


def test_a_difference_is_told_by_the_names_of_plugins_not_by_their_code() -> None:
    one, other = (replace(search.student_run(), plugins={f"objective {name}": "c97259"}) for name in ("a", "b"))
    assert "plugins" not in alike._difference(one, other)
