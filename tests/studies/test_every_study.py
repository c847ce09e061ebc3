"""What every registered study must hold to: it plans in all its profiles, and answers tables that exist."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.planning.explaining import explained
from harness.planning.planned import Plan
from harness.registry import STUDIES
from tests import published
from tests.conftest import ROOT
from tests.studies.builders import declared as planned

PROFILES = ("quick", "small", "paper")
SHARED = (
    "matrix_settings",
    "sra_settings",
    "lstm_settings",
    "profiles",
    "told",
)  # files of what studies have in common


NAMES = STUDIES.names()  # before other tests add theirs
each = pytest.mark.parametrize("name", NAMES)


@each
@pytest.mark.parametrize("profile", PROFILES)
def test_is_planned_in_every_profile(name: str, profile: str) -> None:
    plan = planned(name, profile)
    assert plan.cells and (profile != "quick" or not plan.notices)
    rows = {cell.row for cell in plan.cells}
    study = STUDIES.get(name)
    expected = [r for r in study.rows if not r.improves and (not r.checkpoint or study.procedure == "speed")]
    assert rows == {row.name for row in expected if not row.tasks or set(row.tasks) & set(plan.tasks)}
    for cell in plan.cells:
        assert not (cell.refused and study.published), (cell.row, cell.refused)
        assert set(cell.after) <= set(plan.first)
    assert {cell.row for cell in plan.cells if not cell.refused} == rows  # ours may set all beside all, some in vain
    for first in plan.first.values():
        assert set(first.after) <= set(plan.first)
    if profile == "paper":  # the largest searches
        text = json.dumps(plan.to_json())
        assert json.dumps(Plan.from_json(json.loads(text)).to_json()) == text, "stored, its trials go by another order"
    runs = [made.run for made in (*plan.first.values(), *plan.cells)]
    protocols = {run.settings.get("protocol") for run in runs} - {None}
    assert protocols <= {"published" if profile == "paper" else "held_out"}, "paper chooses on dev, as the works did"
    if profile == "paper" and study.published:
        others = {line.name: line.ours for line in explained(plan, study) if not line.kept}
        assert not others, f"studies/told.py has other values of {name}, or none: {others}"


def test_nothing_is_told_of_a_setting_that_no_study_has() -> None:
    told = {name for study in map(STUDIES.get, NAMES) for name in study.told}
    shown = {line.name for name in NAMES for line in explained(planned(name, "paper"), STUDIES.get(name))}
    assert not told - shown


@each
def test_declares_its_three_profiles_and_says_what_it_asks(name: str) -> None:
    study = STUDIES.get(name)
    assert set(study.profiles) == set(PROFILES) and study.question.endswith("?") and study.title
    assert len({row.name for row in study.rows}) == len(study.rows)


def test_every_printed_number_is_beside_a_cell_or_under_published_only_or_named() -> None:
    """Of all files, before any run; a number counts where the comparison shows it as it is printed."""
    tables = {name: published.table(planned(name, "paper")) for name in published.studies()}
    counts = published.count(tables.values())
    assert len(counts) == 28 and {file: found[4] for file, found in counts.items() if found[4]} == {}
    assert counts["wang2023_table1_task_specific.csv"] == [135, 135, 0, 0, 0]  # 72 scores, 63 with their spread
    assert set(published.unread()) == {file for file, found in counts.items() if found[1] + found[2] == 0} - {
        "galke2022_table06_search_space.csv"  # left out by its study, with the reason
    }
    for made in tables.values():
        assert not any(remark.startswith("Printed too") for remark in made.comparison.remarks), made.study
        assert not any("published as" in note for note in made.comparison.notes), made.study  # another metric than ours


def test_studies_and_their_files_have_the_same_names() -> None:
    files = {path.stem for path in (ROOT / "studies").glob("*.py")} - {"__init__", *SHARED}
    assert files == {n for n in STUDIES.names() if Path(STUDIES.origin(n)).parent == ROOT / "studies"}
