"""A printed table that a plugin brings: read as ours are, and refused where it is none, before anything is trained."""

from __future__ import annotations

import csv
from dataclasses import replace
from pathlib import Path

import pytest

from harness.contracts import Published, Row
from harness.errors import UserError
from harness.reports.papers.printed import printed_metric, read
from harness.reports.tables.shapes import Column
from tests.conftest import Harness
from tests.reports.synthetic import STUDY as MADE
from tests.reports.synthetic import compared

ROWS = (Row("labels_only", "labels_only", "Labels only", published="Labels"),)
HEAD = "row,task,metric,value"
PLUGIN = '''
from pathlib import Path
from harness.contracts import Profile, Published, Row, Study
from harness.registry import study

ROWS = (Row("labels_only", "labels_only", "Labels only", published="Labels"),)
MINE = Published((str(Path(__file__).with_name("mine_2020.csv")),), "mine, table 1")
QUICK = Profile("embedded", ("acceptability",), ("every",), trials=1, seeds=1, settings={"epochs": 1})
OF_MINE = {"rows": ROWS, "students": ("transformer",), "profiles": {"quick": QUICK}, "published": MINE}
study(Study("of_mine", "Mine", "Which?", "two_stage", **OF_MINE))
'''


def test_its_numbers_are_read_by_row_task_and_metric(tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    path.write_text(f"\ufeff{HEAD},std\nLabels,SST-2,acc,81.5,0.3\nLabels,CoLA,mcc,,\n", encoding="utf-8")
    found = read(Published((str(path),), "mine"), ROWS)
    assert [(line["task"], line["metric"], line["value"], line["std"]) for line in found] == [
        ("SST-2", "acc", "81.5", "0.3"), ("CoLA", "mcc", "", ""),
    ]  # fmt: skip


def test_a_metric_may_be_called_as_tables_here_call_it(tmp_path: Path) -> None:
    """Otherwise a note said that it is published as accuracy, and ours accuracy."""
    (path := tmp_path / "mine.csv").write_text(f"{HEAD}\nLabels,SST-2,accuracy,81.5\n", encoding="utf-8")
    (line,) = read(Published((str(path),), "mine"), ROWS)
    assert line["metric"] == printed_metric(Column("sst2", "SST-2", "accuracy"), False)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("row,task,value\nLabels,SST-2,81.5\n", "has no column metric: a number has row, task, metric and value"),
        (f"{HEAD}\nLabels,SST-2,acc,81.5\nLabels,CoLA,mcc,fifty\n", "line 2 of numbers: 'fifty' is not a number"),
        (f"{HEAD},std\nLabels,SST-2,acc,81.5,n/a\n", "line 1 of numbers: 'n/a' is not a number"),
        (f"{HEAD}\nLabels,SST-2,acc\n", "line 1 of numbers: not 4 columns"),
        (f"{HEAD}\nLabels,SST-2,acc,81.5,x\n", "line 1 of numbers: not 4 columns"),
        (f"{HEAD}\nLabels,SST-2,acc,0.815\nLabels,CoLA,matthews,0\n", "no score above 1: they stand beside ours x 100"),
        (f"{HEAD}\nLabel,SST-2,acc,81.5\n", "'Labels': did you mean Label?"),
        (f'{HEAD}\n"{"x" * 200_000}', "mine.csv cannot be read: field larger than field limit"),
        ("", "has no column row"),
        (None, "mine.csv cannot be read"),
    ],
)
def test_what_is_no_table_is_told(text: str | None, told: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.csv"
    if text is not None:
        path.write_text(text, encoding="utf-8")
    limit = csv.field_size_limit(131_072)  # Python's own, which reading a table in this process has raised
    try:
        with pytest.raises(UserError) as refused:
            read(Published((str(path),), "mine"), ROWS)
    finally:
        csv.field_size_limit(limit)
    assert told in str(refused.value)


@pytest.mark.parametrize("column", ["parameters", "workload"])
def test_columns_that_shipped_tables_have_are_columns_like_others(column: str, tmp_path: Path) -> None:
    (path := tmp_path / "mine.csv").write_text(f"{HEAD},{column}\nLabels,SST-2,acc,81.5,66M\n", encoding="utf-8")
    (line,) = read(Published((str(path),), "mine"), ROWS)
    assert (line["value"], line[column]) == ("81.5", "66M")


def test_a_table_of_quantities_below_one_is_one(tmp_path: Path) -> None:
    (path := tmp_path / "mine.csv").write_text(f"{HEAD}\nLabels,,megabytes,0.5\n", encoding="utf-8")
    assert [line["value"] for line in read(Published((str(path),), "mine"), ROWS)] == ["0.5"]


def test_nothing_is_claimed_of_how_its_numbers_were_chosen(tmp_path: Path) -> None:
    (path := tmp_path / "mine.csv").write_text(f"{HEAD}\nVanilla KD,SST-2,acc,81.5\n", encoding="utf-8")
    rows = (replace(MADE.rows[0], published="Vanilla KD"), *(replace(row, published="") for row in MADE.rows[1:]))
    said = compared(study=replace(MADE, rows=rows, published=Published((str(path),), "mine"))).remarks
    assert any("Ours were chosen" in remark for remark in said) and not any("on dev" in remark for remark in said)
    assert any("the published ones on dev" in remark for remark in compared().remarks)


def test_it_is_refused_before_anything_is_trained(forked: Harness, tmp_path: Path) -> None:
    plugin, out = tmp_path / "mine.py", tmp_path / "out"
    plugin.write_text(PLUGIN, encoding="utf-8")
    (tmp_path / "mine_2020.csv").write_text(f"{HEAD}\nLabels,Acceptability,mcc,much\n", encoding="utf-8")
    for command in ("plan", "run"):
        refused = forked(command, "--study", "of_mine", "--plugin", plugin, "--out", out)
        assert refused.returncode == 2 and "line 1 of numbers: 'much' is not a number" in refused.stderr
    assert not (out / "ledger").is_dir() or not list((out / "ledger").iterdir())
