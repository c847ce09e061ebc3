"""Published numbers stand beside ours with differences, order, notes and source, and never inside our table."""

import csv
import math
from dataclasses import replace
from importlib.resources import files

import pytest

from harness.contracts import Profile, Published, Row
from harness.errors import UserError
from reports import render, with_published
from tests.reports.synthetic import ROWS, STUDY, TASKS, cell, mixed, table

SEVEN = {"qnli": "QNLI", "sst2": "SST-2", "mnli": "MNLI", "mrpc": "MRPC", "qqp": "QQP", "rte": "RTE", "cola": "CoLA"}


def compared(cells=None, study=STUDY):
    return with_published(table(mixed() if cells is None else cells, study), study).comparison


def test_differences_are_ours_minus_the_printed_number_of_finished_cells():
    made = {line.label: line.pairs for line in compared().blocks[0].lines}
    assert made["Vanilla KD"][0].printed == "84.7" and made["Vanilla KD"][0].printed_std == "0.16"
    assert made["Vanilla KD"][0].difference == pytest.approx(60.0 - 84.7)
    assert made["Hid-Seq"][1].printed == "51.8" and made["Hid-Seq"][1].difference is None  # 1 of 2 seeds


def test_order_of_rows_by_hand():
    # ours 60, 85, 86, 72; printed 84.7, 87.4, 89.0, 89.6: of six pairs, (Hid-Seq, Val-KL) and (Att-KL, Val-KL) disagree
    agreement = compared().blocks[0].agreement
    assert (agreement[0].tau, agreement[0].n) == (pytest.approx((4 - 2) / 6), 4)
    assert [a.n for a in agreement] == [4, 3, 3]


def test_averages_over_other_tasks_are_compared_by_their_order_alone():
    made = compared()
    averages = [line.pairs[-1] for line in made.blocks[0].lines]
    assert all(pair.difference is None for pair in averages)
    assert [pair.ranks for pair in averages] == [(3, 3), None, (1, 2), (2, 1)]
    assert any("the tasks differ" in remark for remark in made.remarks)


def test_averages_over_the_same_tasks_are_subtracted(monkeypatch):
    for name, label in SEVEN.items():
        monkeypatch.setitem(TASKS, name, replace(TASKS["sst2"], name=name, label=label))
    study = replace(STUDY, profiles={"quick": Profile("embedded", tuple(SEVEN), ("every",), 1, 2)})
    made = compared([cell(ROWS[0], name, (70, 70)) for name in SEVEN], study)
    assert made.blocks[0].lines[0].pairs[-1].difference == pytest.approx(70 - 71.8)
    assert not any("the tasks differ" in remark for remark in made.remarks)


def test_tasks_the_print_lacks_leave_the_order_of_the_averages(monkeypatch):
    monkeypatch.setitem(TASKS, "rte", replace(TASKS["rte"], label="Entailment by quantifiers"))
    made = compared()
    assert [c.label for c in made.columns] == ["SST-2", "Average"]
    assert any(remark == "No published column: Entailment by quantifiers." for remark in made.remarks)


def test_another_metric_than_the_printed_one_is_noted_with_the_csvs_own_note():
    made = compared([cell(ROWS[0], "cola", (70, 70))])
    assert len(made.notes) == 1 and made.notes[0].startswith("column is headed Mcc")
    assert made.notes[0].endswith("published as mcc, ours is accuracy") and made.blocks[0].lines[0].pairs[0].note == 1


@pytest.mark.parametrize(
    "cells, remark",
    [
        ([cell(ROWS[0], "sst2", (70, 70), "random")], "of which this table has no cell."),
        ([cell(Row("mine", "mine", "Mine"), "sst2", (70, 70))], "No cell of this table has a published counterpart."),
    ],
)
def test_nothing_to_compare_is_said(cells, remark):
    made = compared(cells)
    assert not made.blocks and any(sentence.endswith(remark) for sentence in made.remarks)


def test_the_source_and_the_notes_are_carried_and_our_table_stays_as_it_was():
    alone = render(table(mixed()), "markdown")
    beside = render(with_published(table(mixed()), STUDY), "markdown")
    assert beside.startswith(alone)
    assert "Published: Wang et al. (2023), Table 1." in beside and "A note of the study." in beside
    assert '"+Val-KL" read as Att-KL+Val-KL' in beside


def test_a_wrong_declaration_is_one_sentence():
    with pytest.raises(UserError, match="answers no published table"):
        with_published(table([]), replace(STUDY, published=None))
    with pytest.raises(UserError, match="did you mean wang2023_table1_task_specific.csv"):
        with_published(table([]), replace(STUDY, published=Published("wang2023_table1_task_specifc.csv", "x")))
    ambiguous = Published("wang2023_table1_task_specific.csv", "x", row_column="row")  # two rows print "+Hid-Seq"
    row = Row("hid", "hid_seq", "Hid", published="+Hid-Seq")
    with pytest.raises(UserError, match="several numbers"):
        with_published(table([cell(row, "sst2", (60, 60))]), replace(STUDY, published=ambiguous))


def test_every_published_table_is_installed_and_reads_as_numbers():
    tables = sorted(p.name for p in (files("reports") / "published").iterdir() if p.name.endswith(".csv"))
    assert len(tables) == 28
    for name in tables:
        lines = list(csv.DictReader((files("reports") / "published" / name).read_text(encoding="utf-8").splitlines()))
        assert lines and all(None not in line and None not in line.values() for line in lines), name
        if "std" in lines[0]:
            assert all(math.isfinite(float(line[c])) for line in lines for c in ("value", "std") if line[c]), name
