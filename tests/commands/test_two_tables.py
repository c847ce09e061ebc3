"""harness report --compare FOLDER: the same rows with other settings, or in another folder of results."""

from __future__ import annotations

import csv
import io
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

import harness
from harness.commands.recorded import named, unlike
from tests.conftest import Harness
from tests.results import done, records, refused
from tests.search.builders import cell, plan, student_run

pytestmark = pytest.mark.usefixtures("no_figures", "here")

STUDY = (
    "--study", "objectives_vs_init", "--objectives", "labels_only", "vanilla_kd", "--inits", "every", "--tasks",
    "acceptability", "--seeds", "2", "--trials", "1", "--set", "epochs=1",
)  # fmt: skip
FEW, MORE = "train_examples=32", "train_examples=200"


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, call: Harness) -> Path:
    out = tmp_path_factory.mktemp("kinds") / "results"
    for size in (FEW, MORE):
        done(call("run", *STUDY, size, "--out", out))
    return out


def folder(out: Path, size: str) -> Path:
    (found,) = (path.parent for path in out.glob("objectives_vs_init/quick/**/plan.json") if f"--{size}" in str(path))
    return found


def test_rows_stand_beside_those_of_other_settings(trained: Path, call: Harness) -> None:
    asked = ("report", *STUDY, MORE, "--out", trained, "--format", "csv", "--compare")
    for place in (folder(trained, FEW), folder(trained, FEW).parent):  # that of the table, or of its kind
        rows = list(csv.DictReader(io.StringIO(done(call(*asked, place)).stdout)))
        assert "not the same in both" not in done(call(*asked[:-2], "markdown", "--compare", place)).stdout
        found = {row["row"]: row for row in rows}
        assert list(found) == ["Teacher", "Labels only", "Vanilla KD"]
        kinds = [
            harness.load_results(trained, seeds=2, trials=1, set={"epochs": 1, "train_examples": n}) for n in (200, 32)
        ]
        (one,) = kinds[0].compare("labels_only", "labels_only", of=kinds[1]).to_dict("records")
        own = found["Labels only"]
        assert float(own["difference"]) == pytest.approx(100 * one["difference"])
        assert float(own["p"]) == pytest.approx(one["p"], rel=0.01)
        assert float(own["low"]) < 100 * one["low"], "the interval of two comparisons is wider than that of one"
    said = done(call("report", *STUDY, FEW, "--out", trained, "--compare", folder(trained, MORE))).stdout
    assert "This: train_examples=32. The other: train_examples=200. Both: --study objectives_vs_init" in said
    assert "--profile quick --seeds 2 --trials 1 epochs=1." in said


def test_flags_that_a_plan_does_not_hold_are_those_of_its_folder(trained: Path) -> None:
    """As of plans of earlier versions."""
    plan = harness.load_results(trained, seeds=2, trials=1, set={"epochs": 1, "train_examples": 32}).plan
    older, cut = replace(plan, flags=""), replace(plan, flags="", variant="seeds=2--train_exam--8637ba")
    assert named(older, plan)[:2] == ("these results", "results of the same flags in another folder")
    assert named(cut, replace(plan, flags="", variant=""))[:2] == (
        "the flags that made seeds=2--train_exam--8637ba", "as the profile has it",
    )  # fmt: skip


def test_a_table_is_found_by_a_link_to_its_folder(trained: Path, tmp_path: Path, call: Harness) -> None:
    """Whatever other results the link lies in."""
    (tmp_path / "ledger").mkdir()
    (tmp_path / "few").symlink_to(folder(trained, FEW))
    said = done(call("report", *STUDY, MORE, "--out", trained, "--compare", tmp_path / "few")).stdout
    assert "0/2" not in said and "difference" in said
    assert "The other: train_examples=32." in said


def test_rows_stand_beside_those_of_another_folder_of_results(trained: Path, tmp_path: Path, call: Harness) -> None:
    copy = tmp_path / "copy"
    shutil.copytree(trained, copy)
    asked = ("report", *STUDY, FEW, "--out", trained, "--compare", copy)
    said = done(call(*asked)).stdout
    assert "The other: results of the same flags in another folder. Both: --study" in said
    assert said.count("+0.0 [+0.0, +0.0]") == 2
    (gone,) = {
        run
        for run, record in records(copy, "student").items()
        if record["specification"]["objective"] == "vanilla_kd"
        and record["specification"]["settings"]["train_examples"] == 32
        and record["specification"]["seed"] == 1
    }
    shutil.rmtree(copy / "ledger" / gone)
    assert "(1/2)" in done(call(*asked)).stdout, "what is kept of a report is not told where the other folder changed"


def test_it_is_said_where_a_plugin_has_other_code() -> None:
    """As where two files have a metric of one name."""
    first, second = ({"task essays": code, "rkd": "0"} for code in ("a", "b"))
    one, other = (plan([cell(student_run(plugins=code))]) for code in (first, second))
    assert unlike(one, other) == ["The code of task essays is not the same in both"]
    assert unlike(one, one) == [] == unlike(one, plan([cell(student_run())]))


def test_it_is_said_where_a_task_has_other_data(tmp_path: Path, call: Harness) -> None:
    """Which is told by their content, whatever the task is called."""
    asked = ("--study", "objectives_vs_init", "--objectives", "labels_only", "--inits", "every", "--seeds", "2",
             "--trials", "1", "--set", "epochs=1")  # fmt: skip
    for name in ("one", "two"):
        lines = (f"a {'lovely' if i % 2 else 'dull'} film {name} {i},{'good' if i % 2 else 'bad'}" for i in range(60))
        data = tmp_path / name / "reviews.csv"
        data.parent.mkdir()
        data.write_text("\n".join(["text,label", *lines]))
        done(call("run", *asked, "--tasks", f"reviews={data}", "--out", tmp_path / f"of_{name}"))
    said = done(call("report", "--out", tmp_path / "of_one", "--compare", tmp_path / "of_two")).stdout
    assert "The data of reviews are not the same in both." in said


def test_tables_of_two_budgets_are_two(trained: Path, tmp_path: Path, call: Harness) -> None:
    """Though their cells are the same; those of a table and of what it is narrowed to are so, too, and it is one."""
    out = shutil.copytree(trained, tmp_path / "copy")
    two = folder(out, FEW).parent
    done(call("run", *STUDY, FEW, "--seeds", "1", "--out", out))
    asked = ("report", *STUDY, FEW, "--out", out)
    said = done(call(*asked, "--seeds", "1", "--compare", two)).stdout
    assert "This: --seeds 1. The other: --seeds 2." in said
    refused(call(*asked, "--objectives", "vanilla_kd", "--compare", two), f"{two} holds this very table")


def test_a_table_of_what_is_counted_has_no_scores_to_compare(trained: Path, call: Harness) -> None:
    asked = ("report", "--study", "parameter_counts", "--out", trained, "--compare", folder(trained, FEW))
    refused(call(*asked), "the two tables have no scores to compare")


def test_a_folder_that_is_no_other_table_is_refused(trained: Path, tmp_path: Path, call: Harness) -> None:
    asked = ("report", *STUDY, FEW, "--out", trained, "--compare")
    own = folder(trained, FEW)
    refused(call(*asked, own), f"{own} holds this very table")
    refused(call(*asked, "publish"), "published or a folder, and there is no folder publish: did you mean published?")
    for place in (tmp_path, trained / "ledger"):
        refused(call(*asked, place), "is not the folder of a table, which has a plan.json")
    (tmp_path / "plan.json").write_text("{}")
    refused(call(*asked, tmp_path), "is not the folder of a table")  # in no folder of results
    other = call("report", *STUDY, FEW, "--out", trained, "--format", "methods", "--compare", own)
    refused(other, "--compare has no effect on --format methods")
