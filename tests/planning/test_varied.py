"""How a setting that differs is told: with what decides it."""

from __future__ import annotations

import pytest

from harness.planning.recipe import varied


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ({("a", "x"): 1, ("a", "y"): 2, ("b", "x"): 1, ("b", "y"): 2}, "1 (x), 2 (y)"),
        ({("a", "x"): 1, ("a", "y"): 1, ("b", "x"): 2, ("b", "y"): 2}, "1 (a), 2 (b)"),
        (
            {("a", "x"): 2, ("a", "y"): 3, ("a", "z"): 3, ("b", "x"): 15, ("b", "y"): 15, ("b", "z"): 15},
            "2 (a on x), 3 (a on y, z), 15 (b)",
        ),
        (
            {("a", "x"): 2, ("a", "y"): 3, ("b", "x"): 3, ("b", "y"): 3, ("", "y"): 3},
            "2 (a on x), 3 (a on y; b; no student)",
        ),
    ],
)
def test_what_decides_a_setting_is_told(found: dict[tuple[str, str], int], told: str) -> None:
    """A student with its tasks, where it has not the same on all."""
    assert varied([({"task": t, "student": s, "row": "r"}, value) for (s, t), value in found.items()]) == told


@pytest.mark.parametrize(
    ("found", "told"),
    [
        ([("r", 1), ("r", 2), ("s", 2)], "1 or 2 (r), 2 (s)"),
        ([("r", 10), ("r", 9), ("s", 9), ("s", 10)], "10 or 9"),
    ],
)
def test_what_has_several_values_is_told_with_them(found: list[tuple[str, int]], told: str) -> None:
    where = {"task": "x", "student": "a"}
    assert varied([({**where, "row": row}, value) for row, value in found]) == told
