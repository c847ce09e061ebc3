"""Published numbers stand beside ours with differences, order, notes and source, and never inside our table."""

from dataclasses import replace

import pytest

from harness.contracts import CheckpointRow, Profile, Row, RunResult, TeacherRow
from harness.errors import UserError
from harness.reports import render, with_published
from tests.reports.synthetic import ROWS, STUDY, TASKS, cell, compared, mixed, table

SEVEN = {"qnli": "QNLI", "sst2": "SST-2", "mnli": "MNLI", "mrpc": "MRPC", "qqp": "QQP", "rte": "RTE", "cola": "CoLA"}


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
    read = wang(printed_metrics={"MRPC": "acc", "CoLA": "acc"})
    study = replace(read, profiles={"quick": Profile("embedded", tuple(SEVEN), ("every",), 1, 2)})
    made = compared([cell(ROWS[0], name, (70, 70)) for name in SEVEN], study)
    assert made.blocks[0].lines[0].pairs[-1].difference == pytest.approx(70 - 71.8)
    assert not any("on the average only the order" in remark for remark in made.remarks)


def test_averages_of_other_metrics_are_compared_by_their_order_alone(monkeypatch):
    for name, label in SEVEN.items():
        monkeypatch.setitem(TASKS, name, replace(TASKS["sst2"], name=name, label=label))
    study = replace(STUDY, profiles={"quick": Profile("embedded", tuple(SEVEN), ("every",), 1, 2)})
    made = compared([cell(row, name, (70, 70)) for name in SEVEN for row in ROWS[:2]], study)
    assert [line.pairs[-1].difference for line in made.blocks[0].lines] == [None, None]
    assert [line.pairs[-1].ranks for line in made.blocks[0].lines] == [(1, 2), (1, 1)]
    assert (
        "The averages are of different metrics on MRPC (published f1, ours accuracy), CoLA (published matthews, ours "
        "accuracy), so on the average only the order of the rows is compared."
    ) in made.remarks


def test_what_is_headed_otherwise_is_compared_with_the_metric_that_it_is():
    shown = {"cola": ("accuracy", "matthews")}
    both = RunResult("r", 0, {}, {"accuracy": 0.7, "matthews": 0.1}, 0.0, {})
    cells = [cell(ROWS[0], "cola", (), seeds=(both,), trials=(both,), wanted_seeds=1)]
    made = compared(cells, replace(wang(printed_metrics={"CoLA": "acc"}), metrics=shown))
    assert [c.name for c in made.columns] == ["CoLA accuracy"]
    assert made.blocks[0].lines[0].pairs[0].difference == pytest.approx(70 - 69.1)
    made = compared(cells, replace(STUDY, metrics=shown))
    assert [c.name for c in made.columns] == ["CoLA matthews"]


@pytest.mark.parametrize("protocol, told", [("held_out", True), ("published", False)])
def test_another_protocol_than_the_published_one_is_told(protocol, told):
    made = with_published(table(mixed(), protocol=protocol), STUDY).comparison
    assert told == any("chosen on a part held out of the training data" in remark for remark in made.remarks)


def test_a_released_checkpoint_stands_beside_its_numbers_or_under_published_only():
    """It has no initialisation, so that of the published students is not asked of it; it is named until it is run."""
    tiny = CheckpointRow("tiny", "Tiny", "hub/tiny", "Hid-Seq")
    study = replace(STUDY, rows=(ROWS[0], tiny))
    run = compared([cell(ROWS[0], "sst2", (60, 60)), cell(tiny, "sst2", (70, 70), "", student="")], study)
    assert {line.label: line.pairs[0].printed for b in run.blocks for line in b.lines}["Tiny"] == "87.4"
    assert "Hid-Seq" not in {line.label for line in run.others}
    without = compared([cell(ROWS[0], "sst2", (60, 60))], study)
    assert {line.label: line.pairs[0].printed for line in without.others}["Hid-Seq"] == "87.4"
    assert "Not made here: Tiny; --checkpoints tiny fine-tunes them." in without.remarks
    made = table([cell(ROWS[0], "sst2", (60, 60))], study)
    unread = replace(made, provenance=replace(made.provenance, protocol=""))  # it was only measured
    measured = with_published(unread, study).comparison
    assert not any("Not made here" in remark for made in (run, measured) for remark in made.remarks)


def test_teachers_and_other_references_are_not_ranked_among_the_students():
    rows = (
        TeacherRow("vanilla_kd", "Vanilla KD", "Vanilla KD"),
        CheckpointRow("hid_seq", "Hid-Seq", "hub/large", "Hid-Seq", reference=True),
        *ROWS[2:],
    )
    made = compared(
        [cell(r, t, (90 - i,) * 2) for i, r in enumerate(rows) for t in ("sst2", "rte")], replace(STUDY, rows=rows)
    )
    pairs = {line.label: line.pairs for block in made.blocks for line in block.lines}
    assert [pair[-1].ranks for pair in pairs.values()] == [None, None, (1, 2), (2, 1)]
    assert pairs["Vanilla KD"][0].difference == pytest.approx(90 - 84.7)
    assert {a.n for block in made.blocks for a in block.agreement} <= {0, 2}


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


@pytest.mark.parametrize("form", ["terminal", "markdown", "latex", "html"])
def test_where_no_column_is_printed_a_sentence_stands_in_place_of_a_table(monkeypatch, form):
    monkeypatch.setitem(TASKS, "rte", replace(TASKS["rte"], label="Entailment by quantifiers"))
    study = replace(STUDY, profiles={"quick": Profile("embedded", ("rte",), ("every",), 1, 2)})
    alone = table([cell(ROWS[0], "rte", (70, 70))], study)
    made = with_published(alone, study)
    assert made.comparison.remarks == ("No cell of this table has a published counterpart.",)
    text = render(made, form)
    assert made.comparison.remarks[0] in text and "A note of the study." not in text
    for drawn in ("───", "| ---", "begin{tabular}", "<table"):
        assert text.count(drawn) == render(alone, form).count(drawn)


def test_the_source_and_the_notes_are_carried_and_our_table_stays_as_it_was():
    alone = render(table(mixed()), "markdown")
    beside = render(with_published(table(mixed()), STUDY), "markdown")
    assert beside.startswith(alone)
    assert "Published: Wang et al. (2023), Table 1." in beside and "A note of the study." in beside
    assert '"+Val-KL" read as Att-KL+Val-KL' in beside


def wang(**changes):
    return replace(STUDY, published=replace(STUDY.published, **changes))


@pytest.mark.parametrize(
    "study, message",
    [
        (replace(STUDY, published=None), "answers no published table"),
        (wang(files=("wang2023_table1_task_specifc.csv",)), "did you mean wang2023_table1_task_specific.csv"),
        (wang(axes={"row": "head"}), "unknown axis of a published table 'head'"),
        (wang(axes={"embedding": "student"}), "unknown column of .* 'embedding'"),
        (wang(printed_metrics={"Cola": "acc"}), "unknown task in .* 'Cola': did you mean CoLA"),
        (wang(printed_metrics={"CoLA": "accuracy"}), "unknown metric of .* 'accuracy'"),
        (replace(STUDY, rows=(replace(ROWS[0], published="Vanila KD"),)), "'Vanila KD': did you mean Vanilla KD"),
        (
            replace(STUDY, rows=(replace(ROWS[0], published={"row": "+Val-KL", "objective": "Att-KL"}),)),
            "row vanilla_kd is to be compared with row \\+Val-KL, objective Att-KL, which no line",
        ),
    ],
)
def test_a_wrong_declaration_is_one_sentence(study, message):
    with pytest.raises(UserError, match=message):
        with_published(table([], study), study)
