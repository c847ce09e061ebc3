"""What harness plan says a study will be able to see."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harness.commands.sight import _told
from harness.reports.statistics.planning import assumed
from tests.conftest import Harness

ASKED = ("--study", "objectives_vs_init", "--tasks", "entailment", "--inits", "every", "--objectives", "vanilla_kd")
SENTENCE = re.compile(r"  entailment, (\d+) dev examples, (\d+) seeds? \(assumed\): ([\d.]+) points")


def test_the_least_difference_is_told_with_what_is_assumed(call: Harness, tmp_path: Path) -> None:
    for seeds in (2, 20):
        said = call("plan", *ASKED, "--out", tmp_path / "none", "--seeds", seeds).stdout
        assert "a standard deviation of 1 point (" in said and "two rows answer 10% of the examples differently" in said
        (size, number, least), rows = SENTENCE.search(said).groups(), re.search(r"^(\d+) cells?,", said, re.M)  # type: ignore[union-attr]
        assert int(number) == seeds and rows is not None
        assert float(least) == pytest.approx(100 * assumed(int(size), max(int(rows[1]), 2)).least(seeds), abs=0.051)


def test_one_seed_sees_for_itself_alone(call: Harness, tmp_path: Path) -> None:
    said = call("plan", *ASKED, "--out", tmp_path / "none", "--seeds", 1).stdout
    assert SENTENCE.search(said) and "points, for this seed alone, as one tells nothing of others; " in said


def test_one_point_takes_seeds_and_several_take_them() -> None:
    said = _told(assumed(40_000, 9), 3)
    assert re.fullmatch(r"\d\.\d points; 1 point takes \d+ seeds, 2 points take \d seeds, 5 points take 2 seeds", said)


def test_where_the_examples_are_too_few_for_any_difference_the_sentence_is_whole() -> None:
    said = _told(assumed(72, 3), 3)
    assert said.endswith("points; 1 or 2 or 5 points take more than 100 seeds, as the examples are too few")


def test_where_they_are_too_few_for_some_the_others_say_what_is_counted() -> None:
    said = _told(assumed(1_000, 3), 3)
    assert re.search(r"points; 5 points take \d+ seeds, 1 or 2 more than 100, as the examples are too few$", said)


def test_the_cells_of_a_plan_stand_in_columns(call: Harness, tmp_path: Path) -> None:
    asked = ("--study", "objectives_vs_students", "--profile", "quick", "--objectives", "labels_only")
    students = ("bilstm", "averaged_transformer:layers=2")
    heading, *cells = call("plan", *asked, "--students", *students, "--out", tmp_path / "none").stdout.splitlines()[:3]
    assert heading.split() == ["cell", "task", "init", "student", "row"]
    assert [line[heading.index("student") :].split()[0] for line in cells] == [*students]
    assert all(line[heading.index("row") :].startswith("labels_only  1 stage of ") for line in cells)


def test_studies_that_train_nothing_see_nothing(call: Harness, tmp_path: Path) -> None:
    assert "a test of two rows" not in call("plan", "--study", "parameter_counts", "--out", tmp_path / "none").stdout
