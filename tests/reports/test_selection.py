"""The gap between a selection on held-out data and one on dev, of the same trials."""

import csv
import io
import json
from dataclasses import replace

import pytest

from harness.errors import UserError
from harness.reports import render, with_additions
from harness.reports.additions.selection import gaps
from tests.reports.synthetic import ROWS, cell, table


def of_trials(*trials, protocol="held_out"):
    """A table whose runs are these trials of two cells: (cell, selection, dev score, further columns)."""
    usual = {"part": "trial", "status": "finished", "pruned": False, "task": "sst2", "metric": "accuracy",
             "student": "transformer", "init": "every", "seed": 0}  # fmt: skip
    rows = [
        {**usual, "cell": name, "row": name, "selection": selection, "score": score, **more}
        for name, selection, score, more in trials
    ]
    made = table([cell(row, "sst2", (60, 61)) for row in ROWS[:2]], protocol=protocol)
    return replace(made, runs=rows)


NAMES = ("row", "trials", "dev_of_chosen", "dev_of_best_on_dev")
TRIALS = (
    ("vanilla_kd", 0.80, 0.70, {}),
    ("vanilla_kd", 0.78, 0.75, {}),  # dev would have chosen it: 5 points more
    ("vanilla_kd", 0.70, 0.99, {"pruned": True}),
    ("vanilla_kd", None, None, {"status": "failed"}),
    ("vanilla_kd", 0.99, 0.99, {"part": "seed"}),
    ("vanilla_kd", 0.99, None, {}),  # which did not record the metric
    ("hid_seq", 0.90, 0.85, {}),
    ("hid_seq", 0.80, 0.85, {}),  # dev is indifferent, so both choose alike
)


def test_the_gap_is_that_between_the_trial_chosen_and_the_best_on_dev():
    made = with_additions(of_trials(*TRIALS), ["selection"])
    assert [tuple(gap[name] for name in NAMES) for gap in gaps(made)] == [
        ("vanilla_kd", 2, 0.70, 0.75), ("hid_seq", 2, 0.85, 0.85),
    ]  # fmt: skip
    text = render(made, "markdown")
    lines = [line.split("|") for line in text.split("Selection on dev")[1].splitlines() if "|" in line]
    cells = {line[1].strip(): line[2].strip() for line in lines}
    assert (cells["Vanilla KD"], cells["Hid-Seq"], cells["All rows"]) == ("+5.0 (0/1)", "+0.0 (1/1)", "+2.5 (1/2)")


def test_rows_that_share_a_cell_have_its_trials_each():
    shared = [(name, selection, score, {"row": "hid_seq"}) for name, selection, score, _ in TRIALS[:2]]
    found = [tuple(gap[name] for name in NAMES) for gap in gaps(of_trials(*TRIALS[:2], *shared))]
    assert found == [("vanilla_kd", 2, 0.70, 0.75), ("hid_seq", 2, 0.70, 0.75)]
    text = render(with_additions(of_trials(*TRIALS[:2], *shared), ["selection"]), "markdown")
    assert text.count("+5.0 (0/1)") == 3, "of all rows, too, the search of both counts once"


def test_of_a_search_for_each_seed_each_has_its_gap():
    further = [(name, selection - 0.1, score, {"seed": 1}) for name, selection, score, _ in TRIALS[:2]]
    made = with_additions(of_trials(*TRIALS[:2], *further), ["selection"])
    assert [gap["seed"] for gap in gaps(made)] == [0, 1]
    text = render(made, "markdown")
    assert "+5.0 (0/2)" in text and "each seed by its own search" in text


def test_json_and_csv_hold_it_cell_by_cell_and_only_where_it_was_asked_for():
    made = with_additions(of_trials(*TRIALS), ["selection"])
    first = json.loads(render(made, "json"))["selection"]["rows"][0]
    assert (first["row"], first["dev_of_chosen"], first["dev_of_best_on_dev"]) == ("vanilla_kd", 70.0, 75.0)
    (line, _) = csv.DictReader(io.StringIO(render(made, "csv")))
    assert (line["row"], line["trials"], line["dev_of_best_on_dev"]) == ("vanilla_kd", "2", "75.0")
    assert "selection" not in json.loads(render(of_trials(*TRIALS), "json"))


def test_without_two_trials_or_two_scores_it_is_refused():
    with pytest.raises(UserError, match="no cell of this table has tried two settings"):
        gaps(of_trials(TRIALS[0], TRIALS[-1]))
    with pytest.raises(UserError, match="chosen on dev alone"):
        gaps(of_trials(*TRIALS, protocol="published"))
