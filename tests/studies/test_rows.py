"""Rows of five types: kept in plans alike, chosen by their objective where they have one, and told apart to a user."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harness.contracts import Row, TableRow
from harness.errors import UserError
from harness.planning.plan import resolve
from harness.planning.planned import Cell
from harness.planning.request import Request
from harness.registry import STUDIES, load_file
from harness.search.progress import specify


def test_a_plan_gives_every_row_back() -> None:
    found = set()
    for row in (row for name in STUDIES.names() for row in STUDIES.get(name).rows):
        stored = json.loads(json.dumps(row.to_json()))
        again = TableRow.from_json(stored)
        assert type(again) is type(row) and json.loads(json.dumps(again.to_json())) == stored
        found.add(type(row).__name__)
    assert found == {"Row", "ModelRow", "CheckpointRow", "TeacherRow", "GainRow", "BaselineRow"}


def test_a_row_of_an_older_plan_has_fewer_fields() -> None:
    assert TableRow.from_json({"name": "a", "objective": "cosine", "label": "A"}) == Row("a", "cosine", "A")


def test_an_objective_by_its_name_is_never_the_teachers_row() -> None:
    plan = resolve(Request("distilled_bilstm", objectives=("labels_only",)))
    assert [row.name for row in plan.rows] == ["plain"]


@pytest.mark.parametrize(
    ("field", "kind"),
    [("teacher=True", "TeacherRow"), ('checkpoint="x"', "CheckpointRow"), ('improves=("a", "b")', "GainRow")],
)
def test_a_field_of_another_type_of_row_is_one_sentence(field: str, kind: str, tmp_path: Path) -> None:
    path = tmp_path / "older.py"
    path.write_text(f'from harness.contracts import Row\nRow("a", "labels_only", "A", {field})\n')
    name = field.partition("=")[0]
    with pytest.raises(UserError, match=f"a Row describes a student and has no {name}: declare a {kind}"):
        load_file(path)


def test_a_row_of_equal_epochs_has_them_where_epochs_are_searched(tmp_path: Path) -> None:
    """Twice those that a trial draws, which are the same for all rows."""
    plugin = tmp_path / "searched_epochs.py"
    plugin.write_text(
        "from harness.contracts import Profile, Row, Study\n"
        "from harness.registry import study\n"
        'ROWS = (Row("equal", "vanilla_kd", "A", equal_epochs=True), Row("hid_cls", "hid_cls", "B"))\n'
        'PROFILE = Profile("embedded", ("sentiment",), ("every",), trials=2, seeds=1, search={"epochs": (1, 3)})\n'
        'study(Study("searched_epochs", "", "", "two_stage", ROWS, ("transformer",), {"quick": PROFILE}))\n'
    )
    equal, other = resolve(Request("searched_epochs", plugins=[str(plugin)])).cells
    trials = [specify(each, {"epochs": 3}, 0, ()).settings["epochs"] for each in (equal, other)]
    assert equal.space == other.space and trials == [6, 3]
    assert specify(Cell.from_json(equal.to_json()), {"epochs": 3}, 0, ()).settings["epochs"] == 6
