"""What a search of k trials gives: worked out by hand, by brute force, and by the library of the bands' authors."""

from __future__ import annotations

import itertools
import json
import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts import Row
from harness.errors import UserError
from harness.reports import FIGURES, render, with_additions
from harness.reports.additions import tuning
from harness.reports.figures.drawing import svg
from harness.reports.statistics.tuning import band, expected, fewest_trials, most_rows, p_values
from tests.reports.drawn import searched
from tests.reports.synthetic import ROWS
from tests.reports.test_figures import texts

scores = st.integers(0, 5).map(lambda tenth: tenth / 10)  # with ties
trials = st.lists(st.tuples(scores, scores), min_size=1, max_size=6)


@given(trials)
@settings(max_examples=60, deadline=None)
def test_the_expected_score_is_the_mean_over_all_choices_of_trials(made: list[tuple[float, float]]) -> None:
    for k, found in enumerate(expected(*np.array(made).T[:, None])[0], 1):
        chosen = [max(some, key=lambda i: (made[i][0], -i)) for some in itertools.combinations(range(len(made)), k)]
        assert found == pytest.approx(np.mean([made[i][1] for i in chosen]))


def test_the_bands_are_those_of_opda() -> None:
    """Of EmpiricalDistribution.confidence_bands(ys, 0.95, method="ld_equal_tailed") of opda 0.8.0, the median."""
    eight = [0.126, -0.132, 0.64, 0.105, -0.536, 0.362, 1.304, 0.947]
    found = band(eight)
    assert [found[k - 1] for k in (1, 2, 4, 8)] == [
        (0.126, -0.536, 1.304),
        (0.64, -0.132, None),
        (0.947, 0.126, None),
        (1.304, 0.362, None),
    ]


def test_the_band_of_one_trial_reaches_as_far_above_as_below() -> None:
    _, low, high = band(range(10))[0]
    assert high is not None and low + high == 9


def test_bands_of_all_numbers_of_trials_hold_together() -> None:
    """By simulation: 400 searches of 10 uniform scores, where the median of the best of k is 2 to the -1/k."""
    generator = np.random.default_rng(0)
    truth = [0.5 ** (1 / k) for k in range(1, 11)]
    held = 0
    for _ in range(400):
        found = band(generator.random(10).tolist())
        held += all(low <= x <= (math.inf if up is None else up) for x, (_, low, up) in zip(truth, found, strict=True))
    assert held / 400 >= 0.95 - 3 * math.sqrt(0.05 * 0.95 / 400)


def arrays(selection: Any, score: Any) -> np.ndarray:
    return np.array([[selection], [score]])


def test_two_rows_are_compared_trial_by_trial() -> None:
    high, low = arrays([0.5, 0.6, 0.7, 0.8], [0.5, 0.6, 0.7, 0.8]), arrays([0.1, 0.2, 0.3, 0.4], [0.1, 0.2, 0.3, 0.4])
    # Of 8 ways to swap, up to the sign, one is as far apart in the mean of all; in the best of 4, swaps that leave the
    # fourth trial leave the greatest gap: 0.8 against at most 0.7. Against 0.4, none but the first.
    assert p_values(high, low) == pytest.approx([1 / 8] * 4)
    same = p_values(high, high)
    assert same == [1.0] * 4


def test_rows_without_a_difference_are_seldom_told_apart() -> None:
    """By simulation of 600 pairs of rows on common points: at most 5%, within three errors of it."""
    generator, told = np.random.default_rng(1), np.zeros(6)
    for _ in range(600):
        point = generator.normal(size=6)
        rows = [point + generator.normal(size=(2, 1, 6)) for _ in range(2)]
        told += np.array(p_values(*rows)) < 0.05
    assert (told / 600 <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / 600)).all() and told[0] / 600 > 0.01


def test_how_many_trials_and_rows_it_takes() -> None:
    assert [fewest_trials(pairs) for pairs in (1, 6, 91)] == [6, 8, 12]  # 2^-5 = .031; 6 x 2^-7 = .047; 91 x 2^-11
    assert [most_rows(trials) for trials in (3, 6, 8, 12)] == [1, 2, 4, 14]
    # of many trials so many swaps are drawn that no p is below 1 in 10,000
    best = np.tile(np.linspace(0.1, 0.9, 16), (2, 1, 1))
    assert p_values(best, best - 0.5)[0] == 1e-4 and [fewest_trials(pairs) for pairs in (499, 500)] == [16, 0]
    assert [most_rows(trials) for trials in (14, 15, 20)] == [29, 22, 32]  # of 15 two of the swaps change nothing


def leading(n: int = 8, only: Any = ("vanilla_kd", "hid_seq", "att_kl"), **changes: Any) -> Any:
    """On SST-2 Att-KL and Hid-Seq far ahead of Vanilla KD, at every point, and of each other by turns."""
    base = [0.5 + 0.01 * ((7 * i) % n) for i in range(n)]
    found = {
        ("vanilla_kd", "sst2"): [(x, x) for x in base],
        ("hid_seq", "sst2"): [(x + 0.2 + 0.011 * (-1) ** i, x + 0.2 + 0.011 * (-1) ** i) for i, x in enumerate(base)],
        ("att_kl", "sst2"): [(x + 0.201, x + 0.201) for x in base],
    }
    return searched({(row, task): made for (row, task), made in found.items() if row in only}, **changes)


def test_a_sentence_tells_who_leads_and_who_cannot_be_told_apart() -> None:
    (curves,) = tuning.found(leading())
    assert tuning.sentence(curves) == (
        "At 1, 2 and 4 trials Att-KL and Hid-Seq cannot be told apart; at 8 Hid-Seq and Att-KL score the same and lead."
    )
    assert curves.common == ("learning_rate",) and curves.trials == 8
    two = leading(only=("vanilla_kd", "att_kl"))
    assert [tuning.sentence(curves) for curves in tuning.found(two)] == ["At 1, 2, 4 and 8 trials Att-KL leads."]


def test_too_few_trials_for_so_many_rows_are_told_with_what_to_type() -> None:
    text = render(leading_of(4), "markdown")
    assert "No 4 trials can tell one of 3 rows from another, however they end: 7 trials could (--trials)." in text


def leading_of(n: int) -> Any:
    return with_additions(leading(n), ["tuning"])


def test_trials_of_a_search_for_each_seed_are_said_to_be_of_all_together() -> None:
    results = [(0.1 * i, 0.1 * i) for i in range(4)]
    made = searched({(row.name, "sst2"): results for row in ROWS[:3]})
    assert not any("together, more than any one search" in said for _, said in tuning.grids(made)[-1].notes)
    for place, run in enumerate(made.runs):
        run["seed"] = place % 4 // 2
    notes = [said for _, said in tuning.grids(made)[-1].notes]
    assert any("searches together, more than any one search has made: the bounds" in said for said in notes)
    assert any("7 trials could (of all seeds together)" in said for said in notes)


def test_json_holds_every_point_of_the_curves() -> None:
    rows = json.loads(render(leading_of(8), "json"))["tuning"]["rows"]
    assert len(rows) == 24 and rows[0]["trials"] == 1 and rows[0]["upper"] is not None
    assert rows[7]["upper"] is None and rows[7]["dev"] == pytest.approx(57.0)


def test_rows_and_averages_need_every_task() -> None:
    both = {
        (row, task): [(0.1 * i, 0.1 * i) for i in range(4)]
        for row in ("vanilla_kd", "hid_seq")
        for task in ("sst2", "rte")
    }
    del both["hid_seq", "rte"]
    found = tuning.found(searched(both))
    assert [(one.title, [curve.label for curve in one.curves]) for one in found] == [
        ("SST-2", ["Vanilla KD", "Hid-Seq"]),
        ("RTE", ["Vanilla KD"]),
        ("Average", ["Vanilla KD"]),
    ]
    assert found[2].curves[0].expected == pytest.approx(found[0].curves[0].expected)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        (
            {"sampler": "grid", "space": {"learning_rate": [1e-3, 2e-3]}},
            "the trials come from a grid, and are no random",
        ),
        ({"sampler": "tpe"}, "the trials were proposed by TPE, each from those before it"),
        ({"space": {"batch_size": [8, 16]}}, "settings are drawn from lists of words or whole numbers"),
        ({"pruned": True}, "a pruner stopped trials early"),
        ({"wanted_trials": 9}, "only 8 of 9 trials are finished"),
        ({"n": 2}, "the budget is 2 trials, and a curve needs 3"),
    ],
)
def test_what_is_no_random_sample_is_refused_with_what_to_type(changes: Any, reason: str) -> None:
    table = leading(**changes)
    with pytest.raises(UserError, match=reason) as error:
        tuning.grids(table)
    assert "give the harness run of this table --trials 8 --set sampler=random too" in str(error.value)
    assert "--study" not in str(error.value), "a command without the teacher and the settings makes another table"
    assert FIGURES["tuning"].rows(table) == ((), str(error.value))


def test_a_table_without_searches_says_so() -> None:
    with pytest.raises(UserError, match="study toy searches no settings"):
        tuning.grids(leading(space={}))


def test_the_figure_has_a_panel_a_row_and_is_the_same_each_time() -> None:
    table = leading()
    first, again = (svg(FIGURES["tuning"].drawn(table)) for _ in range(2))
    assert first == again
    assert {"Vanilla KD", "Hid-Seq", "Att-KL", "trials"} <= texts(FIGURES["tuning"].drawn(table, 3.3))


def test_references_are_drawn_and_never_lead() -> None:
    rows = (*ROWS[:2], Row("att_kl", "att_kl", "Att-KL", reference=True))
    (curves,) = tuning.found(leading(rows=rows))
    assert len(curves.curves) == 3 and {standing.ahead for standing in curves.standings} == {("Hid-Seq",)}


def test_rows_of_equal_scores_are_ahead_together() -> None:
    table = leading()
    runs = [{**run, "metrics": dict.fromkeys(run["metrics"], 0.5)} for run in table.runs]
    (curves,) = tuning.found(replace(table, runs=runs))
    assert tuning.sentence(curves) == "At 1, 2, 4 and 8 trials all rows score the same."
    (grid,) = tuning.grids(replace(table, runs=runs))
    assert all(cell.bold for group in grid.groups for line in group.lines[::2] for cell in line[2:])


def test_other_points_are_said() -> None:
    table = leading()
    runs = [{**run, "hyperparameters": {"learning_rate": 0.001 * i}} for i, run in enumerate(table.runs)]
    text = render(with_additions(replace(table, runs=runs), ["tuning"]), "markdown")
    assert "(which share no setting that is searched)" in text


@pytest.mark.parametrize("name", ["tuning", "sensitivity", "selection"])
def test_what_trials_are_chosen_on_is_said(name: str) -> None:
    nested = leading()
    nested = replace(nested, provenance=replace(nested.provenance, protocol="nested"))
    said = "folds of the training data"
    assert said in render(with_additions(nested, [name]), "markdown").partition(name.capitalize())[2]
