"""What a plan tells of a user's own data: of a teacher with other classes, and of columns that are not read."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from transformers import AutoModelForSequenceClassification

from harness.data import own
from harness.errors import UserError
from harness.planning.contents import _mixed
from harness.planning.plan import resolve
from harness.planning.request import Request
from tests.data.test_new_source import forget as forget
from tests.data.test_own_data import ROWS, table
from tests.data.test_own_data import forgotten as forgotten
from tests.small_models import checkpoint

pytestmark = pytest.mark.usefixtures("no_figures")


def test_a_teacher_with_the_classes_in_another_order_is_given_its_own(tmp_path: Path) -> None:
    place = table(tmp_path / "mine.csv", [{"text": f"{n} go", "label": "a b" if n % 2 else "no"} for n in range(40)])
    changes = {"finetuning_task": "mine", "id2label": {0: "no", 1: "a b"}}
    teacher = checkpoint(tmp_path, "bert", AutoModelForSequenceClassification, **changes)
    asked = {"teacher": str(teacher), "tasks": [f"mine={place}"], "objectives": ["vanilla_kd"], "inits": ["random"]}
    (note,) = [said for said in resolve(Request("objectives_vs_init", **asked)).notices if "the head of" in said]
    assert "--set 'mine.classes=no,a b', it answers as it is; do not reorder id2label" in note
    plan = resolve(Request("objectives_vs_init", **asked, overrides=["mine.classes=no,a b"]))
    assert not plan.notices, "as the note says"


def test_a_column_that_names_splits_is_told_not_to_be_read(tmp_path: Path) -> None:
    def notes(rows: list[dict[str, Any]]) -> str:
        place = table(tmp_path / "mine.csv", rows)
        asked = {"tasks": [f"mine={place}"], "objectives": ["vanilla_kd"], "inits": ["random"]}
        return " ".join(resolve(Request("objectives_vs_init", **asked)).notices)

    split = [{**row, "split": "test" if row["id"] % 5 else "Train"} for row in ROWS]
    assert "mine.csv is not read, so its rows of Train and test are mixed: " in notes(split)
    assert not notes([{**row, "split": "train"} for row in ROWS]), "of one split alone"
    assert not notes([{**row, "by": "test" if row["id"] % 5 else "taxi"} for row in ROWS]), "other words"


def test_rows_that_a_plugin_gives_once_are_not_asked_for_again_in_vain(monkeypatch: Any) -> None:
    def again(name: str) -> Any:
        raise UserError("read twice")

    source = SimpleNamespace(read=SimpleNamespace(train_name="train"), rows=again)
    monkeypatch.setitem(own.KNOWN, "mine", SimpleNamespace(source=source))
    assert _mixed("mine") == []
