"""Rows that say by how much one row is better than another."""

import csv
import io
import json
import math
from dataclasses import replace

import pytest

from harness.contracts import GainRow, Published, Row
from harness.errors import UserError
from harness.reports import render, with_published
from harness.reports.tables.layout import entry_text, heading
from tests.reports.synthetic import STUDY, cell, run, table

PLAIN = Row("plain", "labels_only", "BiLSTM", {"row_id": "3"}, student="bilstm", init="random")
SRA = Row("sra", "vanilla_kd", "BiLSTM SRA", {"row_id": "11"}, student="sentence", init="pretrained")
GAIN = GainRow("gain", "SRA", ("sra", "plain"), {"row_id": "17"}, mark="a difference")
PUBLISHED = Published(("wu2020_table1_glue_test.csv",), "Wu et al., Table 1")


def study(*rows, **changes):
    return replace(STUDY, rows=rows or (PLAIN, SRA, GAIN), **{"published": PUBLISHED, **changes})


def cells(sra=(84, 90), **changes):
    return [
        *(cell(PLAIN, task, (80, 82), "random", student="bilstm") for task in ("sst2", "rte")),
        cell(SRA, "sst2", sra, "pretrained", student="sentence", **changes),
        cell(SRA, "rte", (79, 85), "pretrained", student="sentence"),
    ]


def gains(made):
    """{(student, init, row): its entries} of the improvements."""
    return {(b.student, b.init, x.row.name): x.entries for b in made.blocks if b.improvement for x in b.lines}


def test_rows_of_different_students_are_subtracted_with_the_spread_of_paired_seeds():
    made = table(cells(), study())
    assert [heading(b.student, b.init, b.improvement) for b in made.blocks] == ["", "Improvement"]
    (entries,) = gains(made).values()
    # SST-2: 4 and 8; RTE: -1 and 3; their averages by seed: 1.5 and 5.5
    assert [e.value for e in entries] == pytest.approx([0.06, 0.01, 0.035])
    assert [e.std for e in entries] == pytest.approx([0.04 / math.sqrt(2)] * 3)
    assert [entry_text(e, "accuracy") for e in entries] == ["+6.0 ± 2.8", "+1.0 ± 2.8", "+3.5 ± 2.8"]
    assert not any(e.best or e.tied or e.runs or e.cell for e in entries)


def test_a_gain_is_of_the_test_set_where_both_rows_were_submitted():
    rows = [replace(PLAIN, student="bilstm"), SRA]
    both = {f"{row.name}-{row.init}-{task}": {"accuracy": 0.9} for row in rows for task in ("sst2", "rte")}
    both["plain-random-sst2"] = {"accuracy": 0.805}
    del both["sra-pretrained-rte"]
    made = with_published(replace(table(cells(), study()), submitted=both), study()).comparison
    (gain,) = (line for block in made.blocks if block.improvement for line in block.lines)
    (sst2,) = (pair for pair, column in zip(gain.pairs, made.columns, strict=True) if column.task == "sst2")
    assert sst2.ours.tested and sst2.ours.value == pytest.approx(0.9 - 0.805)
    one = {name: said for name, said in both.items() if name.startswith("sra")}
    made = with_published(replace(table(cells(), study()), submitted=one), study()).comparison
    (gain,) = (line for block in made.blocks if block.improvement for line in block.lines)
    assert not gain.pairs[0].ours.tested and gain.pairs[0].ours.value == pytest.approx(0.06), "never one of each"


def test_improvements_leave_everything_above_them_as_it_was():
    alone = render(table(cells(), study(PLAIN, SRA)), "markdown").splitlines()
    with_gain = render(table(cells(), study()), "markdown").splitlines()
    assert [line for line in with_gain if line not in alone] == [
        "| *Improvement*     |                       |                       |                       |",
        "| SRA†              |            +6.0 ± 2.8 |            +1.0 ± 2.8 |            +3.5 ± 2.8 |",
        "- † a difference",
        "- Improvement: SRA is BiLSTM SRA minus BiLSTM; ± of the differences between the same seeds.",
    ]


def test_other_seeds_are_not_paired():
    other = (run(84, 5), run(90, 6))
    (entries,) = gains(table(cells(seeds=other, trials=other[:1]), study())).values()
    assert (entries[0].value, entries[0].std) == (pytest.approx(0.06), None)
    assert entries[2].std is None and entries[1].std is not None


@pytest.mark.parametrize(
    "sra, changes, text, reasons",
    [
        ((84,), {}, "+3.0 (1/2)", ()),
        ((), {}, "0/2", ()),
        ((), {"failures": {"x": "NaN"}}, "failed", ()),
        ((), {"refused": "no corpus"}, "–", ("no corpus",)),
        ((84, 90), {"wanted_trials": 3}, "+6.0 ± 2.8 (1/3 trials)", ()),
    ],
)
def test_the_less_finished_of_the_two_rows_is_told(sra, changes, text, reasons):
    made = table(cells(sra, **changes), study())
    (entries,) = gains(made).values()
    assert entry_text(entries[0], "accuracy") == text and entry_text(entries[2]) == ""
    assert made.reasons == reasons and entries[0].note == len(reasons)
    assert len([e for e in made.entries() if e.status == entries[0].status and e.cell]) == 1  # counted once


@pytest.mark.parametrize(("ours", "theirs"), [(2, 1), (1, 2)])
def test_of_two_unfinished_rows_that_of_fewer_seeds_says_what_the_difference_rests_on(ours, theirs):
    rows = [(SRA, "pretrained", "sentence", ours), (PLAIN, "random", "bilstm", theirs)]
    made = [cell(row, "sst2", (80,) * n, init, student=student, wanted_seeds=3) for row, init, student, n in rows]
    (entries,) = gains(table(made, study())).values()
    assert (entries[0].n, entry_text(entries[0], "accuracy")) == (1, "+0.0 (1/3)")


def test_a_task_that_one_row_lacks_has_no_difference():
    (entries,) = gains(table(cells()[:3], study())).values()
    assert [e.status for e in entries] == ["complete", "absent", "absent"]


def test_rows_that_leave_axes_free_are_subtracted_where_they_agree():
    free = replace(SRA, student="", init="")
    two = [cell(free, "sst2", (84, 90), init) for init in ("every", "random")]
    same = replace(PLAIN, student="", init="")
    made = table([*two, *(cell(same, "sst2", (80, 80), i) for i in ("every", "random"))], study(same, free, GAIN))
    assert list(gains(made)) == [("transformer", "every", "gain"), ("transformer", "random", "gain")]
    made = table([*two, cells()[0]], study(PLAIN, free, GAIN))
    assert list(gains(made)) == [("transformer", "every", "gain"), ("transformer", "random", "gain")]
    made = table([*two, cell(replace(PLAIN, student=""), "sst2", (80, 80), "random")], study(same, free, GAIN))
    assert list(gains(made)) == [("transformer", "random", "gain")]


def test_a_row_that_is_not_in_the_plan_takes_its_improvements_with_it():
    assert gains(table(cells()[:2], study())) == {}


def test_an_unknown_row_is_one_sentence():
    with pytest.raises(UserError, match="unknown row in improves of gain 'plan': did you mean plain"):
        table(cells(), study(PLAIN, SRA, replace(GAIN, improves=("sra", "plan"))))


def test_published_improvements_stand_beside_ours():
    made = with_published(table(cells(), study()), study())
    ours, gained = made.comparison.blocks
    assert [line.pairs[0].printed for line in ours.lines] == ["84.5", "90.0"] and gained.improvement
    (pair,) = gained.lines[0].pairs
    assert (pair.printed, pair.difference, pair.note) == ("+5.5", pytest.approx(0.5), 0)
    others = {line.label: line.pairs[0].printed for line in made.comparison.others}
    assert others["BERT_LARGE (Devlin et al., 2019)"] == "94.9"
    assert others["PKD (Sun et al., 2019) (improvement)"] == "+1.1" and "SRA(Ours) (improvement)" not in others
    unfinished = with_published(table(cells(()), study()), study())
    for comparison in (made.comparison, unfinished.comparison):
        assert "published as" not in " ".join(comparison.notes)


def test_another_metric_than_the_published_difference_is_noted():
    other = study(metrics={"sst2": "f1"})
    found = [replace(c, seeds=tuple(replace(r, metrics={"f1": 0.5}) for r in c.seeds)) for c in cells()[::2]]
    made = with_published(table(found, other), other).comparison
    assert "published as delta_acc, ours is delta_f1" in made.notes


def test_csv_and_json_name_the_difference():
    made = with_published(table(cells(), study()), study())
    found = [x for x in csv.DictReader(io.StringIO(render(made, "csv"))) if x["row"] == "SRA"]
    assert [(x["metric"], x["value"], x["std"], x["published"], x["difference"]) for x in found] == [
        ("delta_accuracy", "6.0", "2.828427", "5.5", "0.5"),
        ("delta_accuracy", "1.0", "2.828427", "", ""),
        ("delta", "3.5", "2.828427", "", ""),
    ]
    (one, *_) = [x for x in json.loads(render(made, "json"))["entries"] if x["row"] == "SRA"]
    assert (one["metric"], one["runs"], one["mark"]) == ("delta_accuracy", [], "a difference")
    agreement = json.loads(render(made, "json"))["comparison"]["agreement"]
    assert [(x["metric"], x["rows"]) for x in agreement] == [("accuracy", 2), ("delta_accuracy", 1)]
