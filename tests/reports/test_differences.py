"""Rows against a named one and against the best: the grid, the records, the notes."""

import csv
import io
import json
from dataclasses import replace

import numpy as np
import pytest

from harness.contracts import RunResult
from harness.errors import UserError
from harness.reports import build, render
from harness.reports.tables.pairs import differences
from harness.reports.tables.ranking import key_of
from tests.reports.synthetic import LABELS, PROVENANCE, ROWS, STUDY, TASKS, cell, mixed, score, table

VANILLA, HID, ATT, VAL = ROWS


def against(row, cells=None, study=STUDY, **provenance):
    made = mixed() if cells is None else cells
    return build(study, "quick", made, TASKS, replace(PROVENANCE, **provenance), score, row)


def lines(made):
    return {(b.init, x.row.name): x for b in made.blocks for x in b.lines}


def test_each_row_stands_against_the_reference_of_its_own_start():
    cells = [cell(row, "sst2", (k, k + 2), init) for row, k in zip(ROWS, (50, 60, 70, 80), strict=True)
             for init in ("every", "random")]  # fmt: skip
    cells[1] = cell(VANILLA, "sst2", (56, 58), "random")
    found = {key: x.entries[0].to_reference for key, x in lines(against("Vanilla KD", cells)).items()}
    assert found["every", "vanilla_kd"] is None and found["random", "vanilla_kd"] is None
    assert [found[init, "hid_seq"].value for init in ("every", "random")] == pytest.approx([0.10, 0.04])
    assert all(one.low < one.value < one.high and one.p <= one.corrected for one in found.values() if one)


def test_where_the_reference_has_one_place_all_stand_against_it():
    alone = replace(VANILLA, student="bilstm", init="random")
    study = replace(STUDY, rows=(alone, HID))
    cells = [cell(alone, "sst2", (50, 52), ""), cell(HID, "sst2", (60, 62)), cell(HID, "sst2", (70, 72), "last")]
    found = [x.entries[0].to_reference for x in lines(against("vanilla_kd", cells, study)).values()]
    assert sorted(one.value for one in found if one) == pytest.approx([0.1, 0.2])
    assert "Each row minus Vanilla KD, with 95% intervals" in render(against("vanilla_kd", cells, study), "markdown")


@pytest.mark.parametrize("changes", [{"seeds": ()}, {"wanted_seeds": 3}, {"seeds": (), "refused": "no"}])
def test_a_row_whose_own_reference_is_not_finished_stands_against_none(changes):
    both = ((VANILLA, (50, 52)), (HID, (60, 62)))
    cells = [cell(row, "sst2", right, init) for row, right in both for init in ("every", "random")]
    cells[1] = replace(cells[1], **changes)
    made = against("vanilla_kd", cells)
    found = {key: x.entries[0].to_reference for key, x in lines(made).items()}
    assert found["every", "hid_seq"].value == pytest.approx(0.1) and found["random", "hid_seq"] is None
    assert "Each row minus Vanilla KD of the same student and initialisation" in render(made, "markdown")


@pytest.mark.parametrize(("asked", "named"), [("vanilla_kd", "Vanilla KD: in no column"), ("best", "the best: in no")])
def test_who_asks_for_differences_that_nothing_is_finished_for_is_told(asked, named):
    cells = [cell(VANILLA, "sst2", (50,)), cell(HID, "sst2", (60, 62))]
    for form in ("markdown", "terminal", "latex", "html", "json"):
        assert f"No row is compared with {named}" in render(against(asked, cells), form), form
    assert "No row is compared" not in render(against("", cells, replace(STUDY, relative_to="vanilla_kd")), "markdown")
    assert "No row is compared" not in render(against(asked, [*cells[1:], cell(VANILLA, "sst2", (50, 52))]), "markdown")


def test_a_reference_that_the_table_leaves_out_is_told_as_such():
    made = against("vanilla_kd", [cell(HID, "sst2", (60, 62))])
    assert "No row is compared with Vanilla KD, which is no row of this table." in render(made, "markdown")


def test_the_studys_own_reference_is_the_default_and_none_has_no_grid():
    assert "Differences" not in render(table(mixed()), "markdown")
    own = replace(STUDY, relative_to="vanilla_kd")
    assert "Differences to Vanilla KD" in render(against("", study=own), "markdown")
    for form in ("markdown", "latex", "html", "json", "csv"):
        assert render(against("none", study=own), form) == render(table(mixed()), form)
    study = replace(STUDY, relative_to="vanilla_kd")
    assert render(against("", study=study), "markdown") == render(against("vanilla_kd"), "markdown")
    assert "## Differences to Vanilla KD" in render(against("", study=study), "markdown")
    with pytest.raises(UserError, match="did you mean vanilla_kd"):
        against("vanila_kd")


def test_records_hold_differences_with_intervals_and_p():
    rows = list(csv.DictReader(io.StringIO(render(against("vanilla_kd"), "csv"))))
    (row,) = [r for r in rows if (r["row"], r["task"], r["init"]) == ("Att-KL", "sst2", "every")]
    assert row["against"] == "Vanilla KD" and float(row["against_difference"]) == pytest.approx(26)
    assert float(row["against_low"]) < 26 < float(row["against_high"])
    assert 0 < float(row["p"]) <= float(row["p_holm"]) <= 1 and float(row["p_best"]) == 1.0
    assert float(row["best_difference"]) == pytest.approx(1.0)  # before Hid-Seq
    assert row["difference"] == ""  # that to the published number has its own column
    told = json.loads(render(against("vanilla_kd"), "json"))
    assert {d["task"] for d in told["detectable"]} == {"sst2", "rte", "average"} and told["difference_notes"]


def test_against_the_best_bold_are_those_that_are_not_underlined_in_the_table():
    cells = [cell(row, "sst2", (k, k + 1, k)) for row, k in zip(ROWS, (50, 95, 94, 60), strict=True)]
    cells = [replace(c, wanted_seeds=3) for c in cells]
    made = against("best", cells)
    marks = {name: (x.entries[0].best, x.entries[0].tied, x.entries[0].to_best) for (_, name), x in lines(made).items()}
    assert [marks[row.name][:2] for row in ROWS] == [(False, False), (True, False), (False, True), (False, False)]
    assert marks["vanilla_kd"][2].high == 0 and marks["att_kl"][2].high > 0 and marks["hid_seq"][2].low <= 0
    text = render(made, "markdown")
    assert "## Differences to the best" in text and r"**−45.0 \[" in text


def test_notes_say_what_is_drawn_by_chance():
    cells = [cell(row, "sst2", (k, k)) for row, k in zip(ROWS, (50, 90, 88, 60), strict=True)]
    single = [replace(c, seeds=c.seeds[:1], wanted_seeds=1) for c in cells]
    assert "over seeds and dev examples)" in render(table(cells), "markdown")
    assert "over seeds and dev examples, for this teacher alone)" in render(table(cells, teachers=1), "markdown")
    assert "dev examples, each seed with its own teacher)" in render(table(cells, teachers=2), "markdown")
    drawn = render(table(cells, teachers=1, samples=1), "markdown")
    assert "n = 2 seeds, one teacher, one draw of training examples." in drawn
    assert "dev examples, for this teacher and these training examples alone)" in drawn
    own = render(table(cells, teachers=1, samples=2), "markdown")
    assert "n = 2 seeds, each with its own training examples, one teacher." in own
    assert "dev examples, each seed with its own training examples, for this teacher alone)" in own
    found = render(table(cells, teachers=1, samples=1, searches=1), "markdown")
    assert "2 seeds, one teacher, one draw of training examples, one search of settings." in found
    assert "dev examples, for this teacher, these training examples and the settings found alone)" in found
    each = render(table(cells, teachers=1, samples=2, searches=2), "markdown")
    assert "2 seeds, each with its own training examples and search of settings, one teacher." in each
    assert "each seed with its own training examples and search of settings, for this teacher alone)" in each
    distilled = render(table(cells, teachers=1, samples=2, distillations=1), "markdown")
    assert "its own training examples, one teacher, one distillation on the corpus." in distilled
    assert "own training examples, for this teacher and this distillation on the corpus alone)" in distilled
    alone = render(table(single, teachers=1, samples=2), "markdown")
    assert "tells nothing of others, for this teacher and these training examples alone)" in alone
    assert "over dev examples alone, as one seed tells nothing of others)" in render(table(single), "markdown")


def test_only_columns_whose_seeds_draw_their_examples_are_compared_seed_by_seed():
    rows = zip(ROWS, (50, 60, 70), strict=False)
    cells = [cell(row, task, (k, k + 3)) for row, k in rows for task in ("sst2", "rte")]
    made = table(cells, samples=2, drawn_by_seed=("sst2",))
    assert [made.tested[j].noise.paired for j in range(3)] == [True, False, True]  # the third is the average
    one_row = table(cells[:2], samples=2, drawn_by_seed=("sst2", "rte"))
    assert one_row.tested[2].noise.values.tolist() == [0.515] and not one_row.detectable


def test_pairs_have_the_tables_noise():
    made = against("vanilla_kd")
    (one,) = [d for d in differences(made, "att_kl", "Vanilla KD") if d["task"] == "sst2"]
    own = lines(made)
    keys = [key_of(own["every", name]) for name in ("att_kl", "vanilla_kd")]
    tested = made.tested[0]
    a, b = (np.array([tested.keys.index(key)]) for key in keys)
    assert one["p"] == pytest.approx(tested.noise.p_value(a, b)[0]) and one["difference"] == pytest.approx(0.26)
    planned = own["every", "att_kl"].entries[0].to_reference  # those of a column hold together, so they are wider
    assert planned.low < one["low"] < 0.26 < one["high"] < planned.high


def test_a_teacher_for_each_seed_is_no_hindrance_to_testing_agreement():
    tasks = {"sst2": replace(TASKS["sst2"], metric="agreement", metrics=("accuracy",))}
    ids = np.arange(100)

    def answered(right, seed):
        said = np.where(ids % 2 == seed, LABELS, 1 - LABELS)  # each seed's own teacher
        ours = np.where(ids < right, said, 1 - said)
        record = {"teacher": lambda: (ids, ours, said), "predictions": lambda: (ids, ours, LABELS), "curve": []}
        return RunResult(f"run{right}-{seed}", seed, {}, {"agreement": right / 100}, right / 100, record)

    study = replace(STUDY, metrics={"sst2": "agreement"}, rows=ROWS[:2])
    cells = [
        replace(cell(row, "sst2", (1, 1)), seeds=tuple(answered(k, s) for s in range(2)), metric="agreement")
        for row, k in zip(ROWS, (60, 90), strict=False)
    ]
    made = build(study, "quick", cells, tasks, PROVENANCE, score)
    assert not made.untested and len(made.tested[0].keys) == 2


def test_rows_that_come_to_the_same_runs_differ_by_nothing_whatever_the_noise():
    """Of others with the same scores it is as unsure as ever."""
    same = cell(VANILLA, "sst2", (50, 60))
    other = cell(ATT, "sst2", (50, 60))
    other = replace(other, seeds=tuple(replace(run, run=f"other{run.run}") for run in other.seeds))
    made = against("vanilla_kd", [same, replace(same, row=HID), other])
    found = {key: x.entries[0].to_reference for key, x in lines(made).items()}
    one = found["every", "hid_seq"]
    assert (one.value, one.low, one.high, one.p, one.corrected) == (0, 0, 0, 1, 1)
    assert found["every", "att_kl"].low < 0 < found["every", "att_kl"].high
    (told,) = differences(made, "hid_seq", "vanilla_kd")
    assert (told["low"], told["high"], told["p"]) == (0, 0, 1)
