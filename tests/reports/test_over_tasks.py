"""Ranks, tests and probabilities over tasks against hand-made and second computations; rows and refusals in words."""

import csv
import io
import json
import math
from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from harness.contracts import Profile, TeacherRow
from harness.errors import UserError
from harness.reports import render, with_additions
from harness.reports.additions.over_tasks import over_tasks
from harness.reports.figures import critical_differences
from harness.reports.statistics.noise import holm
from harness.reports.statistics.over_tasks import (
    all_pairs,
    interquartile,
    mean_ranks,
    next_task,
    reach,
    signed_rank,
    smallest_p,
    together,
    wins,
)
from tests.reports.synthetic import ROWS, STUDY, TASKS, cell, table


def test_holm_by_hand():
    # sorted .01 .02 .03 .04: times 4, 3, 2, 1 are .04 .06 .06 .04, and none below the one before it
    assert holm(np.array([0.02, 0.01, 0.04, 0.03])).tolist() == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm(np.array([0.9, 0.6])).tolist() == [1.0, 1.0] and len(holm(np.array([]))) == 0


@settings(max_examples=30, deadline=None)
@given(st.lists(st.floats(0, 1), min_size=1, max_size=8))
def test_holm_rejects_what_its_steps_reject(p):
    expected, order = set(), sorted(range(len(p)), key=lambda k: p[k])
    for step, k in enumerate(order):
        if (len(p) - step) * p[k] >= 0.05:
            break
        expected.add(k)
    assert {k for k, adjusted in enumerate(holm(np.array(p))) if adjusted < 0.05} == expected


@settings(max_examples=40, deadline=None)
@given(st.lists(st.integers(-4, 4), min_size=5, max_size=9))
def test_the_signed_rank_test_is_that_of_all_signs(values):
    """With ties and zeros, against every assignment of signs."""
    kept = np.array([v for v in values if v], float)
    ranks = stats.rankdata(np.abs(kept))
    sums = np.array([ranks @ np.array(signs) for signs in product((0, 1), repeat=len(kept))])
    centre = ranks.sum() / 2
    expected = np.mean(np.abs(sums - centre) >= abs(ranks @ (kept > 0) - centre) - 1e-9)
    assert signed_rank(np.array(values, float)) == pytest.approx(expected)


def test_what_so_many_tasks_can_never_show_is_said():
    assert smallest_p(5) == 0.0625 == signed_rank(np.arange(1.0, 6.0))
    assert "the smallest p that Wilcoxon's test can give is 0.062; 6 tasks are needed" in reach(5, 1)
    assert "0.18 once corrected for 45 pairs; 11 tasks are needed" in reach(9, 45)
    assert reach(6, 1) == reach(11, 45) == "" and reach(10, 45)


@pytest.mark.parametrize("tasks, rows", [(6, 2), (8, 3), (11, 10), (10, 10)])
def test_reach_is_what_the_clearest_scores_give(tasks, rows):
    clearest = np.arange(rows)[:, None] + 0.01 * np.arange(tasks) * np.arange(1, rows + 1)[:, None]
    found = min(all_pairs(clearest).values())
    assert (found < 0.05) == (reach(tasks, rows * (rows - 1) // 2) == "")


def test_every_pair_is_tested_by_its_own_differences():
    scores = np.random.default_rng(0).random((4, 9)) + 0.3 * np.arange(4)[:, None]
    pairs = [(i, j) for j in range(4) for i in range(j)]
    alone = [stats.wilcoxon(scores[i], scores[j], method="exact").pvalue for i, j in pairs]
    assert all_pairs(scores) == pytest.approx(dict(zip(pairs, holm(np.array(alone)).tolist(), strict=True)))


def test_mean_ranks_by_hand_share_a_rank_where_scores_are_equal():
    scores = np.array([[0.9, 0.8, 0.5], [0.8, 0.8, 0.6], [0.7, 0.9, 0.6]])
    assert mean_ranks(scores).tolist() == pytest.approx([(1 + 2.5 + 3) / 3, (2 + 2.5 + 1.5) / 3, (3 + 1 + 1.5) / 3])
    assert wins(scores)[0].tolist() == [1.5, 1.5, 1.0] and (wins(scores) + wins(scores).T == 3).all()


@settings(max_examples=30, deadline=None)
@given(st.sets(st.tuples(st.integers(0, 5), st.integers(0, 5)).filter(lambda pair: pair[0] < pair[1])))
def test_two_rows_share_a_group_exactly_if_they_do_not_differ(apart):
    groups = together({(i, j): 0.01 if (i, j) in apart else 0.5 for j in range(6) for i in range(j)}, 6)
    for j in range(6):
        for i in range(j):
            assert any({i, j} <= set(group) for group in groups) != ((i, j) in apart)
    assert not any(set(a) < set(b) for a in groups for b in groups)


def test_the_chance_on_a_new_task_by_hand():
    probability, low, high = next_task(4, 5)
    assert probability == pytest.approx(4.5 / 6)
    assert stats.beta.cdf([low, high], 4.5, 1.5) == pytest.approx([0.025, 0.975])
    assert next_task(5, 5)[2] == 1.0 and next_task(0, 5)[1] == 0.0 and next_task(2.5, 5)[0] == 0.5


def test_the_interquartile_mean_by_hand():
    # a quarter of nine is 2.25: of 0, 1, 3, 4, 5, 6, 8, 20 and 90 the middle three and 0.75 of 3 and of 8 are left
    seeds = np.array([[90.0, 0.0, 3.0], [4.0, 8.0, 1.0], [5.0, 6.0, 20.0]])
    assert interquartile(seeds)[0] == pytest.approx((0.75 * (3 + 8) + 4 + 5 + 6) / 4.5)


def test_the_interval_of_an_interquartile_mean_holds_it_about_as_often_as_it_says():
    """Three seeds, where drawing all three of them would hold 85%."""
    generator, held = np.random.default_rng(0), 0
    means = np.linspace(0, 20, 9)[:, None]
    truth = stats.trim_mean(means + 2 * generator.standard_normal((9, 20_000)), 0.25, axis=None)
    for _ in range(60):
        _, low, high = interquartile(means + 2 * generator.standard_normal((9, 3)))
        held += low <= truth <= high
    assert held / 60 > 0.88


def test_the_interval_of_an_interquartile_mean_holds_it_where_tasks_are_far_apart():
    """Four seeds, of which three are drawn: both lose the same share, so that no draw is of other tasks."""
    generator, held = np.random.default_rng(0), 0
    means = np.array([15.0, 55.0, 62.0, 88.0, 91.0])[:, None]
    truth = (0.75 * 55 + 62 + 0.75 * 88) / 2.5
    for _ in range(200):
        middle, low, high = interquartile(means + generator.standard_normal((5, 4)))
        assert low < middle < high
        held += low <= truth <= high
    assert held / 200 > 0.88


SIX = [f"task{i}" for i in range(6)]


@pytest.fixture
def six(monkeypatch):
    for name in SIX:
        monkeypatch.setitem(TASKS, name, replace(TASKS["sst2"], name=name, label=name.capitalize()))
    return replace(STUDY, profiles={"quick": Profile("embedded", tuple(SIX), ("every",), 1, 3)}, published=None)


def cells(rows=ROWS[:2], seeds=3):
    return [
        cell(row, name, [60 + 10 * k + i + seed for seed in range(seeds)], wanted_seeds=seeds)
        for k, row in enumerate(rows)
        for i, name in enumerate(SIX)
    ]


def test_two_rows_by_hand(six):
    made = over_tasks(table(cells(), six))
    assert [(row.label, row.rank) for row in made.rows] == [("Hid-Seq", 1.0), ("Vanilla KD", 2.0)]
    assert made.rows[0].p[1] == 2 / 2**6 and made.rows[1].wins == (0.0, 3.0)
    assert [row.letters for row in made.rows] == ["a", "b"]
    # scores 70..77 of 18 runs, 4 cut from each end: 2 x 72, 3 x 73, 3 x 74, 2 x 75 remain
    assert made.rows[0].middle[0] == pytest.approx(0.735)


def test_rows_without_a_finished_score_are_left_out_by_name_and_others_that_do_not_compete(six):
    rows = (*ROWS[:3], TeacherRow("teacher", "Teacher"))
    study = replace(six, rows=rows)
    some = [replace(c, seeds=c.seeds[:1]) if (c.row, c.task) == (ROWS[2], "task4") else c for c in cells(rows)]
    made = over_tasks(table(some, study))
    assert [row.label for row in made.rows] == ["Hid-Seq", "Vanilla KD"]
    assert made.notes[-1] == "Left out, for want of a finished score on the tasks named: Att-KL (Task4)."


def test_too_little_is_refused_with_the_reason(six):
    with pytest.raises(UserError, match="need 5 tasks or more, .* has 2: SST-2, RTE"):
        over_tasks(table([cell(r, t, (60, 61)) for r in ROWS for t in ("sst2", "rte")]))
    with pytest.raises(UserError, match="finished on all 6 tasks, and this table has 1"):
        over_tasks(table(cells(ROWS[:1]), six))
    two = over_tasks(table(cells(seeds=2), six))
    assert two.rows[0].middle is None and any("needs 3 seeds or more" in note for note in two.notes)


def test_it_stands_below_the_table(six):
    text = render(with_additions(table(cells(), six), ["over_tasks"]), "markdown")
    assert "## Over tasks" in text and "0.07 (0.00 to 0.33)" in text and "Benavoli" in text


def test_csv_holds_its_rows_and_json_its_pairs(six):
    made = with_additions(table(cells(), six), ["over_tasks"])
    first, second = csv.DictReader(io.StringIO(render(made, "csv")))
    assert (first["row"], first["mean_rank"], first["groups"], second["groups"]) == ("hid_seq", "1.0", "a", "b")
    found = json.loads(render(made, "json"))["over_tasks"]
    assert len(found["pairs"]) == 2 and found["pairs"][0]["wins"] == 6 and found["pairs"][0]["p_holm"] == 0.03125
    assert math.isclose(found["pairs"][0]["probability"] + found["pairs"][1]["probability"], 1.0)


def test_the_diagram_has_a_point_a_row_and_none_where_there_is_nothing_to_draw(six):
    made = table(cells(ROWS), six)
    rows = critical_differences.rows(made)
    assert [row["row"] for row in rows] == ["Att-KL + Val-KL", "Att-KL", "Hid-Seq", "Vanilla KD"]
    ranked, grouped = critical_differences.draw(made, rows).axes
    assert list(ranked.lines[0].get_xdata()) == [row["mean_rank"] for row in rows]
    assert [label.get_text() for label in ranked.get_yticklabels()] == [row["row"] for row in rows]
    assert list(grouped.lines[0].get_ydata()) == [0, 3]  # six tasks cannot tell any of six pairs apart
    with pytest.raises(UserError, match="need 5 tasks or more"):
        critical_differences.rows(table([cell(ROWS[0], "sst2", (60, 60))]))


def test_no_bar_joins_rows_of_many_groups_whose_numbers_share_a_digit():
    rows = [{"row": f"Row {k}", "mean_rank": float(k), "groups": str(k), "tasks": 20} for k in range(1, 28)]
    _, grouped = critical_differences.draw(table([cell(ROWS[0], "sst2", (60, 60))]), rows).axes
    assert not grouped.lines
