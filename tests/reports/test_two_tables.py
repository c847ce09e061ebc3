"""A table beside the same rows of another one: which are compared, by what noise, and how it reads."""

import csv
import io
import json
import re
from dataclasses import replace

import numpy as np
import pytest

from harness.errors import UserError
from harness.reports import render, with_other
from harness.reports.statistics.estimation import sums
from harness.reports.statistics.noise import holm
from harness.reports.tables.pairs import differences
from harness.reports.tables.two_tables import noise_of_both, other_key
from tests.reports.synthetic import ROWS, STUDY, TASKS, cell, score, table

VANILLA, HID, ATT, VAL = ROWS
AGAINST = replace(STUDY, relative_to="vanilla_kd")
NAMES = ("epochs=3", "--teacher large", "--study toy")


def beside(ours, theirs):
    return with_other(ours, theirs, NAMES, TASKS, score)


def lines(made):
    """{(label, initialisation): line} of what stands beside."""
    return {(line.label, line.init): line for _, lines in made.beside.blocks for line in lines}


def gains(made):
    return {line.label: line for _, lines in made.beside.gains for line in lines}


def compared(ours, theirs, row="Att-KL", other="Vanilla KD"):
    return differences(ours, row, other, theirs, noise_of_both(ours, theirs, TASKS, score))


@pytest.mark.parametrize("paired", [False, True])
def test_rows_of_two_tables_are_compared_as_if_they_stood_in_one(paired):
    """As of two teachers; the noise is that of the rows of both."""
    ours, theirs = cell(ATT, "sst2", (86, 80, 83)), cell(VANILLA, "sst2", (60, 64, 62))
    drawn = {"drawn_by_seed": ("sst2",)} if paired else {}
    first, second = table([ours], **drawn), table([theirs], **drawn)
    (apart,) = compared(first, second)
    (joined,) = differences(table([ours, theirs], **drawn), "Att-KL", "Vanilla KD")
    assert apart == pytest.approx(joined) and apart["difference"] == pytest.approx(0.21) and apart["p"] < 0.05
    (back,) = compared(second, first, "Vanilla KD", "Att-KL")
    assert (back["low"], back["high"]) == pytest.approx((-apart["high"], -apart["low"]))
    (same,) = compared(first, table([ours]), "Att-KL", "Att-KL")  # the same runs, of two kinds of results
    assert (same["difference"], same["low"], same["high"], same["p"]) == (0, 0, 0, 1)
    alike = [replace(one, run=other.run) for one, other in zip(theirs.seeds, ours.seeds, strict=True)]
    again = table([replace(theirs, row=ATT, seeds=alike)], **drawn)  # another machine made them, with other scores
    (anew,) = compared(first, again, "Att-KL", "Att-KL")
    assert [anew[name] for name in ("low", "high", "p")] == [apart[name] for name in ("low", "high", "p")]
    with pytest.raises(UserError, match="unknown row 'Vanilla KD'"):
        compared(first, second, "Vanilla KD")
    assert compared(first, table([cell(VANILLA, "rte", (60, 64))])) == []


@pytest.mark.parametrize(
    ("ours", "theirs", "seeds", "paired"),
    [(("sst2",), ("sst2",), (0, 1), True), (("sst2",), (), (0, 1), False), (("sst2",), ("sst2",), (0, 2), False)],
)
def test_rows_are_compared_seed_by_seed_only_where_both_draw_and_have_the_same_seeds(ours, theirs, seeds, paired):
    others = cell(ATT, "sst2", (80, 84))
    others = replace(others, seeds=tuple(replace(run, seed=s) for run, s in zip(others.seeds, seeds, strict=True)))
    made = beside(
        table([cell(ATT, "sst2", (70, 75))], samples=2, drawn_by_seed=ours),
        table([others], samples=2, drawn_by_seed=theirs),
    )
    assert ("seed by seed in SST-2" in made.beside.notes[0]) == paired
    assert ("as if the seeds of the two had nothing in common" in made.beside.notes[0]) != paired


@pytest.mark.parametrize("why", ["examples", "seed"])
def test_rows_of_other_examples_or_one_seed_have_a_difference_and_no_interval(why):
    ours, theirs = cell(ATT, "sst2", (86, 80)), cell(VANILLA, "sst2", (62, 62))
    if why == "examples":
        answers = theirs.seeds[0].record["predictions"]()
        fewer = {"predictions": lambda: tuple(array[:60] for array in answers)}
        theirs = replace(theirs, seeds=tuple(replace(run, record={**run.record, **fewer}) for run in theirs.seeds))
    else:  # nobody knows how far others lie
        theirs = cell(VANILLA, "sst2", (62,), wanted_seeds=1)
    first, second = table([ours]), table([theirs])
    (found,) = compared(first, second)
    assert found["difference"] == pytest.approx(0.21) and found["low"] is found["high"] is found["p"] is None
    made = beside(first, table([replace(theirs, row=ATT)]))
    told = {"examples": "without answers to the same dev examples", "seed": "of one seed"}[why]
    assert f"Without an interval: the teachers and rows {told}" in made.beside.notes
    assert lines(made)["Att-KL", "every"].found[0] is None
    (told,) = (line for line in render(made, "markdown").split("\n") if "difference" in line and "21" in line)
    assert [cell.strip() for cell in told.strip("|").split("|")] == ["", "difference", "+21.0"]


def test_each_column_is_one_family_of_comparisons():
    """So intervals are wider than one alone, p-values corrected; an average is of the tasks."""
    ours = [cell(row, task, (k, k + 3)) for row, k in zip(ROWS, (50, 60, 70), strict=False) for task in ("sst2", "rte")]
    theirs = [cell(r, t, (k, k + 2)) for r, k in zip(ROWS, (52, 70, 90), strict=False) for t in ("sst2", "rte")]
    first, second = table(ours), table(theirs)
    made = beside(first, second)
    assert [column.name for column in made.beside.columns] == ["SST-2", "RTE", "Average"]
    found = lines(made)
    assert found["Teacher", ""].found == (None,) * 3 and list(found)[0] == ("Teacher", "")
    own = [found[row.label, "every"].found for row in ROWS[:3]]
    for j in range(3):
        of_column = [line[j] for line in own]
        assert [one.value for one in of_column] == pytest.approx([-0.015, -0.095, -0.195])
        corrected = holm(np.array([one.p for one in of_column]))
        assert [one.corrected for one in of_column] == pytest.approx(corrected.tolist())
    (alone,) = [d for d in compared(first, second, "Hid-Seq", "Hid-Seq") if d["task"] == "sst2"]
    assert own[1][0].low < alone["low"] and alone["high"] < own[1][0].high and alone["p"] == pytest.approx(own[1][0].p)
    noise = noise_of_both(first, second, TASKS, score)[0]
    assert {other_key(("transformer", "every", "hid_seq")), ("transformer", "every", "hid_seq")} <= {*noise.keys}


def test_a_row_that_another_study_calls_otherwise_is_in_both():
    study = replace(STUDY, rows=tuple(replace(row, label=f"{row.label} again") for row in ROWS))
    ours = table([cell(VANILLA, "sst2", (60, 61))])
    theirs = table([cell(study.rows[0], "sst2", (70, 71)), cell(study.rows[1], "sst2", (70, 71))], study)
    assert beside(ours, theirs).beside.notes[-1] == "Only in the other: Hid-Seq again"
    assert "Vanilla KD" not in " ".join(beside(ours, theirs).beside.notes)


def test_an_average_over_other_tasks_is_not_compared():
    ours = table([cell(ATT, task, (70, 72)) for task in ("sst2", "rte")])
    theirs = table([cell(ATT, task, (60, 62)) for task in ("sst2", "cola")])
    assert [column.name for column in beside(ours, theirs).beside.columns] == ["SST-2"]
    all_three = table([cell(ATT, task, (60, 62)) for task in ("sst2", "rte", "cola")])
    assert [column.name for column in beside(ours, all_three).beside.columns] == ["SST-2", "RTE"]


def test_what_both_have_is_shown_and_what_one_has_is_named():
    ours = table([cell(VANILLA, "sst2", (60, 61)), cell(ATT, "sst2", (80,)), cell(ATT, "sst2", (), "random")])
    theirs = table([cell(VANILLA, "sst2", (70, 71)), cell(ATT, "sst2", (85, 86)), cell(HID, "sst2", (70, 71))])
    made = beside(ours, theirs)
    assert list(lines(made)) == [("Teacher", ""), ("Vanilla KD", "every"), ("Att-KL", "every")]
    assert lines(made)["Att-KL", "every"].found == (None,), "which is not finished here"
    assert made.beside.notes[-2:] == ("Only in this table: transformer, init random", "Only in the other: Hid-Seq")
    assert beside(theirs, ours).beside.notes[-2:] == (
        "Only in this table: Hid-Seq",
        "Only in the other: transformer, init random",
    )
    with pytest.raises(UserError, match="no row of the same student and initialisation in common"):
        beside(ours, table([cell(HID, "sst2", (70, 71))]))
    with pytest.raises(UserError, match="none is of the same task and metric in both"):
        beside(ours, table([cell(VANILLA, "rte", (70, 71))]))


def test_what_else_sets_them_apart_is_told():
    rows = [cell(ATT, "sst2", (70, 72))]
    alike = beside(table(rows), table(rows)).beside.notes
    older = {"budget": "8 trials, 2 seeds", "protocol": "nested", "older_code": ("Made otherwise: a.",)}
    found = beside(table(rows), table(rows, **older)).beside.notes
    assert found[len(alike) :] == (
        "Selected by other protocols: held_out here, nested in the other",
        "Search budgets differ: 1 trial, 2 seeds; in the other 8 trials, 2 seeds",
        "Of the other: Made otherwise: a.",
    )


@pytest.mark.parametrize("drawn", [(2, 1), (1, 2)])
def test_what_one_of_them_drew_once_is_not_said_to_be_drawn_by_each_seed(drawn):
    ours, theirs = (table([cell(ATT, "sst2", (70, 72))], samples=n) for n in drawn)
    (told,) = [note for note in beside(ours, theirs).beside.notes if note.startswith("Difference")]
    assert "for these training examples alone" in told and "each seed with its own" not in told


def test_a_task_without_answers_is_no_obstacle_to_another_that_is_compared_seed_by_seed():
    def drawn(*scores):
        bare = cell(ATT, "rte", scores)
        seeds = tuple(replace(run, record={**run.record, "predictions": lambda: None}) for run in bare.seeds)
        return table([cell(ATT, "sst2", scores), replace(bare, seeds=seeds)], drawn_by_seed=("sst2", "rte"))

    made = beside(drawn(70, 72), drawn(75, 78))
    found = lines(made)["Att-KL", "every"].found
    assert found[0] is not None and found[1] is None
    assert any("seed by seed in SST-2" in note for note in made.beside.notes)


def test_gains_over_the_reference_are_compared_too():
    """Whether what a row gains over another depends on the teacher: the difference of two differences."""
    def made_of(scores):
        return table([cell(row, "sst2", k) for row, k in zip(ROWS, scores, strict=False)], AGAINST)

    ours, theirs = made_of([(50, 53), (70, 72), (80, 85)]), made_of([(52, 54), (60, 64), (84, 86)])
    made = beside(ours, theirs)
    found = gains(made)
    assert made.beside.reference == "Vanilla KD" and list(found) == ["Hid-Seq", "Att-KL"]
    assert [[one.value for one in found[row].entries[0]] for row in found] == [
        pytest.approx([0.195, 0.09]), pytest.approx([0.31, 0.32])
    ]  # fmt: skip
    first, second = (found[row].found[0] for row in found)
    assert (first.value, second.value) == (pytest.approx(0.105), pytest.approx(-0.01))
    tested = noise_of_both(ours, theirs, TASKS, score)[0]
    at = {key: tested.keys.index(key) for key in tested.keys}
    row, reference = (("transformer", "every", name) for name in ("hid_seq", "vanilla_kd"))
    four = sums(tested.noise, [at[row], at[other_key(reference)]], [at[other_key(row)], at[reference]])
    assert first.p == pytest.approx(four.p_value(np.array([0]), np.array([1])).item())
    assert first.high - first.value == pytest.approx(four.reach(0.05 / 2 / 2, np.array([0]), np.array([1])).item())
    assert [first.corrected, second.corrected] == pytest.approx(holm(np.array([first.p, second.p])).tolist())
    text = render(made, "markdown")
    assert "## Gains over Vanilla KD, beside other results" in text and "+19.5" in text
    rows = list(csv.DictReader(io.StringIO(render(made, "csv"))))
    assert [row["gain_difference"] for row in rows] == ["", "", "10.5", "-1.0"]
    assert json.loads(render(made, "json"))["beside"]["against"] == "Vanilla KD"


@pytest.mark.parametrize("paired", [True, False])
def test_it_is_said_why_averages_of_gains_have_no_interval(paired):
    """What the seeds of rows that are compared by these do is kept of single tasks alone."""
    cells = [
        [cell(row, task, (k, k + 4)) for row, k in zip((VANILLA, ATT), scores, strict=True) for task in ("sst2", "rte")]
        for scores in ((60, 70), (50, 65))
    ]
    made = beside(*(table(own, AGAINST, drawn_by_seed=("sst2", "rte") * paired) for own in cells))
    assert [found is None for found in gains(made)["Att-KL"].found] == [False, False, paired]
    told = "Without an interval: averages over tasks, where rows are compared seed by seed"
    assert (told in render(made, "markdown")) == paired


def test_a_row_whose_own_reference_is_in_one_table_alone_has_no_gain():
    """Another initialisation's reference, which both have, is none of it."""
    both = [cell(row, "sst2", (60, 64), init) for init in ("every", "random") for row in (VANILLA, ATT)]
    ours, theirs = table(both, AGAINST), table([one for one in both if one.cell != "vanilla_kd-random-sst2"], AGAINST)
    assert [line.init for line in gains(beside(ours, theirs)).values()] == ["every"]


@pytest.mark.parametrize("same", [("reference",), ("row",), ("row", "reference")])
def test_what_rests_on_the_same_runs_cancels_out_of_gains(same):
    """As labels alone do, whoever the teacher is: no other seed could set its two numbers apart."""
    ours = [cell(VANILLA, "sst2", (50, 53)), cell(ATT, "sst2", (80, 85))]
    theirs = [
        ours[0] if "reference" in same else cell(VANILLA, "sst2", (52, 54)),
        ours[1] if "row" in same else cell(ATT, "sst2", (84, 86)),
    ]
    made = beside(table(ours, AGAINST), table(theirs, AGAINST))
    (gain,) = (line.found[0] for line in gains(made).values())
    reference, row = (lines(made)[label, "every"].found[0] for label in ("Vanilla KD", "Att-KL"))
    assert gain.value == pytest.approx(row.value - reference.value)
    if len(same) == 2:
        assert (gain.low, gain.high, gain.p) == (0, 0, 1)
    elif same == ("reference",):
        assert (gain.low, gain.high, gain.p) == pytest.approx((row.low, row.high, row.p))
    else:
        assert (gain.low, gain.high, gain.p) == pytest.approx((-reference.high, -reference.low, reference.p))


@pytest.mark.parametrize("drawn", [{}, {"drawn_by_seed": ("sst2",), "samples": 2}])
def test_runs_that_both_tables_have_are_learned_from_once(drawn):
    """As labels alone under two teachers; as if each run stood once in one table."""
    same = cell(VANILLA, "sst2", (50, 53, 60))
    ours, theirs = cell(ATT, "sst2", (80, 85, 81)), cell(HID, "sst2", (70, 79, 72))
    first, second = table([same, ours], **drawn), table([same, theirs], **drawn)
    (apart,) = compared(first, second, "Att-KL", "Hid-Seq")
    (joined,) = differences(table([same, ours, theirs], **drawn), "Att-KL", "Hid-Seq")
    assert apart == pytest.approx(joined)
    (plain,) = differences(first, "Att-KL", "Vanilla KD")
    longer = table([same, ours, cell(VANILLA, "rte", (50, 53, 60))], **drawn), second  # of a task that one has alone
    for one, other, row, of in ((*longer, "Att-KL", "Hid-Seq"), (*longer[::-1], "Hid-Seq", "Att-KL")):
        found = compared(one, other, row, of)
        assert [each["p"] for each in found if each["task"] == "sst2"] == [pytest.approx(joined["p"])]
    (crossed,) = compared(first, table([same, ours], **drawn))
    assert crossed == pytest.approx(plain), "the very table beside itself"
    alone = table([same], **drawn)
    (found,) = lines(beside(alone, alone))["Vanilla KD", "every"].found
    assert (found.low, found.high, found.p) == (0, 0, 1)


def test_it_reads_the_same_in_every_format():
    ours, theirs = table([cell(ATT, "sst2", (86, 80))], teachers=1), table([cell(ATT, "sst2", (50, 56))], samples=1)
    made = beside(ours, theirs)
    for form in ("terminal", "markdown", "latex", "html"):
        text = render(made, form)
        assert "epochs=3" in text and "large" in text and re.search(r"\+30\.0\W+[−-]?\d", text), form
        assert "for these teachers and these training examples alone" in " ".join(text.split()), form
    (entry,) = [e for e in json.loads(render(made, "json"))["beside"]["entries"] if e["row"] == "Att-KL"]
    assert (entry["value"], entry["other"], entry["n"], entry["other_n"]) == (83, 53, 2, 2)
    assert entry["low"] < entry["difference"] == 30 < entry["high"] and entry["p"] == entry["p_holm"]
    rows = list(csv.DictReader(io.StringIO(render(made, "csv"))))
    assert [row["row"] for row in rows] == ["Teacher", "Att-KL"] and float(rows[1]["low"]) == entry["low"]
    with pytest.raises(UserError, match="ask for each of --with over_tasks, --compare FOLDER by itself"):
        render(replace(made, additions=("over_tasks",)), "csv")
    unlike = with_other(ours, theirs, ("--study toy", "--study other", ""), TASKS, score)
    assert "The other: --study other.\n" in render(unlike, "markdown")
    text = render(made, "markdown")
    assert "Both: --study toy." in text and "with 95% intervals" in text
    told = re.findall(r"^\| (.*?)\s*\|\s*(this|other|difference) \|", text, re.M)
    assert told[-3:] == [("Att-KL", "this"), ("", "other"), ("", "difference")]
    alone = render(ours, "markdown")
    assert render(made, "markdown").startswith(alone.rstrip("\n")), "the table itself is as without it"
