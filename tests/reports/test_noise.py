"""What means are uncertain by: against Student's t, known formulas and tables that are drawn with known differences."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchmarks.statistics import HARD, SCENARIOS, chosen, drawn, errors, known, power
from harness.reports.statistics import LEVEL
from harness.reports.statistics.estimation import averaged, of_moments, of_pairs, of_runs
from harness.reports.statistics.noise import Noise
from harness.reports.statistics.planning import MOST_SEEDS, Expected, assumed, detectable

SIZE = 1000


def independent(values, sampled, seeds, examples=0.0):
    k = len(values)
    return of_moments(values, sampled, np.full(k, seeds), examples * np.eye(k), np.zeros(k), SIZE)


def test_without_seeds_it_is_the_paired_normal_test_of_the_examples():
    rng = np.random.default_rng(0)
    right = rng.random((2, 500)) < [[0.8], [0.86]]
    made = of_runs([np.array([row.mean()]) for row in right], [(row - row.mean())[None] for row in right])
    difference = right[1] * 1.0 - right[0]
    expected = 2 * stats.norm.sf(abs(difference.mean()) / (difference.std(ddof=1) / np.sqrt(500)))
    assert made.p_value(np.array([0]), np.array([1]))[0] == pytest.approx(expected, rel=1e-6)
    assert np.isnan(made.spread) and made.size == 500


def test_one_noisy_row_against_a_certain_one_is_students_t():
    seeds, sampled, distance = 4, 0.02**2, 0.05
    made = of_moments([0.5, 0.5 - distance], [sampled, 0.0], np.array([seeds, 1]), np.zeros((2, 2)), np.zeros(2), SIZE)
    expected = 2 * stats.t.sf(distance / np.sqrt(sampled / seeds), seeds - 1)
    assert made.p_value(np.array([0]), np.array([1]))[0] == pytest.approx(expected, rel=0.05)


def test_an_average_of_tasks_with_unequal_numbers_of_seeds_has_the_noise_of_their_means():
    values = [0.7, 0.72, 0.74]
    few, many = (independent(values, np.full(3, sampled), seeds) for sampled, seeds in ((0.03**2, 2), (0.01**2, 10)))
    one_way, other_way = averaged([few, many]), averaged([many, few])
    assert one_way.spread / one_way.count == pytest.approx((0.03**2 / 2 + 0.01**2 / 10) / 4)
    assert detectable(one_way) == pytest.approx(detectable(other_way), rel=0.01)


def test_many_rows_alike_teach_what_their_seeds_vary_by():
    rng = np.random.default_rng(1)
    scores = rng.normal(0.8, 0.02, (200, 3))
    made = independent(scores.mean(1), scores.var(1, ddof=1), 3)
    means = (made.seeds * made.weights).sum(1) * 3
    assert np.median(np.sqrt(means)) == pytest.approx(0.02, rel=0.2)
    alone = independent(scores[:2].mean(1), scores[:2].var(1, ddof=1), 3)
    pair = np.array([0]), np.array([1])
    assert made.reach(0.001, *pair) < alone.reach(0.001, *pair)


def test_the_seeds_own_part_of_the_examples_is_not_counted_twice():
    # Every seed answers other examples rightly, and all score alike: no seed noise beyond that of single examples.
    rng = np.random.default_rng(2)
    right = (rng.random((2, 5, 2000)) < 0.7).astype(float)
    made = of_runs([r.mean(1) for r in right], [r - r.mean(1, keepdims=True) for r in right])
    pure = made.variance(np.array([0]), np.array([1]))[0]
    assert pure < 0.2 * 2 * 0.7 * 0.3 / 2000 / 5  # means of 5 seeds: all of it is the seeds' own
    assert (made.seeds >= 0.8 * 0.7 * 0.3 / 2000 / 5).all()


def test_rows_that_share_what_a_seed_draws_are_compared_by_the_paired_t_test():
    rng, still = np.random.default_rng(4), np.zeros((5, 10**6))
    scores = 0.7 + 0.03 * rng.normal(size=5) + 0.01 * rng.normal(size=(4, 5))
    made, alone = (of_runs(list(scores), [still] * 4, paired) for paired in (True, False))
    a, b = np.triu_indices(4, 1)
    pairs = list(zip(a, b, strict=True))
    expected = [stats.ttest_rel(scores[i], scores[j]).pvalue for i, j in pairs]
    assert made.p_value(b, a) == pytest.approx(expected, rel=0.05)
    assert made.values.tolist() == alone.values.tolist() and made.spread < alone.spread / 3
    assert made.spread == pytest.approx(np.mean([np.var(scores[i] - scores[j], ddof=1) for i, j in pairs]) / 2)
    some = made.among([3, 1])
    other = made.p_value(np.array([3]), np.array([1]))
    assert some.p_value(np.array([0]), np.array([1])) == pytest.approx(other)
    # A difference of differences is tested by what it is in each seed.
    contrast = of_pairs(made.drawn.sums(np.array([[1, 0, 0, 1], [0, 1, 1, 0]])), np.zeros((2, 2)), 10**6)
    of_seeds = stats.ttest_1samp(scores[0] - scores[1] - scores[2] + scores[3], 0).pvalue
    assert contrast.p_value(np.array([0]), np.array([1])) == pytest.approx(of_seeds, rel=0.05)
    rows = [scores[0], scores[1][:4]]  # not the same seeds
    fewer, unpaired = (of_runs(rows, [still, still[:4]], paired) for paired in (True, False))
    assert fewer.reach(0.1, a[:1], b[:1]) == unpaired.reach(0.1, a[:1], b[:1])
    # An average of both kinds of tasks has both tasks' variances.
    both = averaged([alone, made])
    assert (averaged([made, made]).reach(LEVEL, a, b) < both.reach(LEVEL, a, b)).all()
    parts = [part.in_pairs() for part in (alone, made)]
    means = sum((part.seeds * part.weights).sum(1) for part in parts) / 4
    assert (both.seeds * both.weights).sum(1) == pytest.approx(means)
    assert parts[0].reach(0.001, a, b) == pytest.approx(alone.reach(0.001, a, b), rel=0.02)  # as fine as before


@pytest.mark.parametrize("seeds", [5, 8, 9, 20, 50, 100])
@pytest.mark.parametrize("paired", [True, False])
def test_many_seeds_are_told_by_as_fine_a_grid(paired: bool, seeds: int):
    """Wherever the spread lies in the grid, a row is compared with a constant as by the t-test."""
    rng = np.random.default_rng(8)
    for sd in np.geomspace(0.01, 0.02, 5):
        drawn = rng.normal(size=seeds)
        drawn = sd * (drawn - drawn.mean()) / drawn.std(ddof=1)
        scores = [0.7 + 2.2 / np.sqrt(seeds) * sd + drawn, np.full(1 if not paired else seeds, 0.7)]
        found = of_runs(scores, [np.zeros((len(row), 10**4)) for row in scores], paired)
        expected = stats.ttest_1samp(scores[0], 0.7).pvalue
        assert found.p_value(np.array([0]), np.array([1]))[0] == pytest.approx(expected, abs=0.003)


def test_a_row_of_one_seed_leaves_the_others_of_a_column_compared_by_theirs():
    rng = np.random.default_rng(6)
    right = [(rng.random((5, 300)) + 0.1 * rng.normal(size=(5, 1)) < 0.7).astype(float) for _ in range(3)]
    right += [right[0][:1], right[1][:1]]
    runs = [row.mean(1) for row in right], [row - row.mean(1, keepdims=True) for row in right]
    made, fewer = of_runs(*runs, True), of_runs(*(of[:3] for of in runs), True)
    a, b = np.triu_indices(3, 1)
    assert made.p_value(a, b) == pytest.approx(fewer.p_value(a, b)) and made.spread == pytest.approx(fewer.spread)
    still = np.zeros((5, 10**6))
    scores = [runs[0][0], np.array([0.6])]
    pair = np.array([0]), np.array([1])
    found = of_runs(scores, [still, still[:1]], True)
    assert found.p_value(*pair)[0] == pytest.approx(stats.ttest_1samp(scores[0], 0.6).pvalue, rel=0.05)
    certain = of_runs(*(of[3:] for of in runs), True)  # nothing is known of other seeds
    last = np.array([3]), np.array([4])
    assert made.p_value(*last) == pytest.approx(certain.p_value(*pair))


def test_an_average_of_a_row_alone_that_is_compared_by_its_seeds():
    scores = 0.7 + 0.01 * np.random.default_rng(7).normal(size=5)
    one = of_runs([scores], [np.zeros((5, 50))], True)
    made = averaged([one, one])
    assert made.values == pytest.approx([scores.mean()]) and made.to_best().corrected.tolist() == [1.0]


def test_what_a_seed_does_to_the_same_examples_in_two_rows_is_in_no_difference():
    # Two rows and their difference with nothing, which is one row: the same variance, whatever both share.
    rng = np.random.default_rng(5)
    both = rng.normal(size=(6, 400))
    rows = [(both + rng.normal(size=(6, 400)) + rng.normal(size=400) > 0.3).astype(float) for _ in range(2)]
    runs = [row.mean(1) for row in rows], [row - row.mean(1, keepdims=True) for row in rows]
    alone = of_runs([runs[0][0] - runs[0][1]], [runs[1][0] - runs[1][1]])
    made, pair = of_runs(*runs, True), (np.array([0]), np.array([1]))
    assert made.variance(*pair)[0] == pytest.approx(alone.examples[0, 0], rel=1e-6)
    assert made.seeds[0] == pytest.approx(alone.seeds[0]) and made.weights[0] == pytest.approx(alone.weights[0])
    assert made.spread == pytest.approx(alone.spread / 2)


def test_rows_that_answer_every_example_alike_are_not_known_to_answer_all_alike():
    runs = [np.full(3, 0.9375)] * 2, [np.repeat([[0.0625] * 60 + [-0.9375] * 4], 3, 0)] * 2
    made, pair = of_runs(*runs), (np.array([0]), np.array([1]))
    one = 1 / 64  # an example
    assert made.variance(*pair)[0] == pytest.approx(one**2)
    assert detectable(made) == pytest.approx((1.96 + 0.84) * one, rel=0.02)
    assert made.reach(LEVEL / 2, *pair)[0] > 1.9 * one  # and no interval is within the example that it knows nothing of
    assert averaged([made, made]).variance(*pair)[0] == pytest.approx(one**2 / 2)


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.floats(0.1, 0.9), min_size=2, max_size=8),
    st.floats(0, 0.1),
    st.integers(2, 5),
    st.floats(1e-6, 1e-3),
)
def test_intervals_reach_as_far_as_the_tail_says(values, sd, seeds, examples):
    made = independent(values, [sd**2] * len(values), seeds, examples)
    a, b = np.zeros(len(values) - 1, int), np.arange(1, len(values))
    for level in (0.2, 0.01, 1e-4):
        assert made.tail(made.reach(level, a, b), a, b) == pytest.approx(np.full(len(b), level), rel=0.02)
    found = made.compare(a, b)
    assert (found.low <= found.value).all() and (found.value <= found.high).all()
    excluded = (found.low > 1e-9) | (found.high < -1e-9)
    assert (found.corrected[excluded] < LEVEL + 1e-3).all()  # where Bonferroni's interval is away from 0, Holm rejects
    best = made.to_best()
    assert ((best.corrected >= LEVEL) == (best.high > 0)).all() and best.corrected[np.argmax(values)] >= LEVEL
    assert (best.low <= 0).all() and (best.high >= 0).all()


def test_what_is_far_below_is_not_the_best_and_what_is_near_may_be():
    made = independent([0.90, 0.895, 0.5], [1e-4] * 3, 5, 1e-5)
    found = made.to_best()
    assert (found.corrected >= LEVEL).tolist() == [True, True, False]
    assert found.value == pytest.approx([0.005, -0.005, -0.4]) and found.high[2] == 0 and found.low[2] < -0.4


def test_the_only_row_that_may_be_the_best_is_above_by_an_interval():
    made = independent([0.95, 0.7, 0.699, 0.5], [1e-4] * 4, 5, 1e-5)
    found = made.to_best()
    assert (found.corrected >= LEVEL).tolist() == [True, False, False, False]
    reach = made.reach(LEVEL / 3, np.array([0, 0]), np.array([1, 2]))
    assert found.value[0] == pytest.approx(0.25) and found.low[0] == 0
    assert found.high[0] == pytest.approx(min(0.25 + reach[0], 0.251 + reach[1]))


def test_a_row_that_is_not_the_best_bounds_from_above_how_far_another_is_above_the_best():
    made = independent([0.787, 0.780, 0.726], [1e-4] * 3, 5, 1e-5)
    made = replace(made, seeds=made.seeds * [[1.0], [80.0], [1.0]])  # the second may be almost anywhere
    found = made.to_best()
    assert (found.corrected >= LEVEL).tolist() == [True, True, False]
    to_second, to_third = made.reach(LEVEL / 2, np.array([0, 0]), np.array([1, 2]))
    assert 0.061 + to_third < 0.007 + to_second  # so the third, which is not the best, says more of the first
    assert found.high[0] == pytest.approx(0.061 + to_third) and found.low[0] == pytest.approx(0.007 - to_second)
    assert found.low[2] == pytest.approx(-0.054 - made.reach(LEVEL / 2, np.array([2]), np.array([1]))[0])


def test_the_differences_to_the_best_are_in_their_intervals_where_one_row_is_far_ahead():
    truth, generator, held = np.array([0.9, 0.8, 0.79, 0.75]), np.random.default_rng(0), 0
    differences = truth - [np.delete(truth, row).max() for row in range(4)]
    for _ in range(100):
        drawn = truth[:, None] + generator.normal(0, 0.01, (4, 5))
        found = independent(drawn.mean(1), drawn.var(1, ddof=1), 5, 0.0).to_best()
        held += ((found.low <= differences) & (differences <= found.high)).all()
    assert held >= 91


def test_an_average_has_the_variance_of_independent_tasks():
    parts = [independent([0.8, 0.7], [s**2] * 2, 4, e) for s, e in ((0.02, 1e-5), (0.04, 3e-5))]
    made = averaged(parts)
    assert made.values == pytest.approx([0.8, 0.7]) and made.examples == pytest.approx(np.eye(2) * 1e-5)
    both = sum((part.seeds * part.weights).sum(1) for part in parts) / 4
    assert (made.seeds * made.weights).sum(1) == pytest.approx(both) and made.weights.sum(1) == pytest.approx([1, 1])
    assert made.spread == pytest.approx((0.02**2 + 0.04**2) / 4)
    assert made.shared() == pytest.approx(2e-5)  # of a difference: no row is compared with itself


def test_seeds_that_all_agree_leave_the_examples():
    made = independent([0.8, 0.7], [0.0, 0.0], 5, 1e-4)
    p = made.p_value(np.array([0]), np.array([1]))[0]
    assert 2 * stats.norm.sf(0.1 / np.sqrt(2e-4)) < p < 1e-3


@pytest.mark.parametrize("scenario", [s for s in SCENARIOS if s.name != "sd 0.5"], ids=lambda s: s.name)
def test_equal_rows_are_told_apart_in_at_most_5_percent(scenario):
    repeats, rows = 120, 6
    for seeds in (2, 4):
        found = errors(chosen, scenario, rows, seeds, 277, repeats)
        allowed = 5 + 300 * np.sqrt(0.05 * 0.95 / repeats)  # three standard errors of the simulation
        assert found.pair < allowed and found.reference < allowed and found.lost < allowed, (seeds, found)


@pytest.mark.parametrize("paired", [False, True])
def test_equal_rows_that_answer_real_examples_are_told_apart_in_at_most_5_percent(paired: bool):
    # Examples of unequal difficulty, of which half is the row's and half each seed's own; seeds that differ in truth.
    # paired: what a seed draws moves the same examples in all rows.
    rng, counts, repeats = np.random.default_rng(3), np.zeros(2), 80
    a, b = np.triu_indices(4, 1)
    for _ in range(repeats):
        hard, right = rng.normal(size=277) + paired * rng.normal(size=(3, 277)), []
        for _row in range(4):
            own = rng.normal(size=277) + rng.normal(size=(3, 277))
            right.append((hard + own < 0.9 + rng.normal(size=(3, 1)) * 0.1).astype(float))
        made = of_runs([r.mean(1) for r in right], [r - r.mean(1, keepdims=True) for r in right], paired)
        counts += (made.p_value(a, b) < LEVEL).mean(), (made.to_best().corrected < LEVEL).mean()
    assert (counts / repeats < 0.05 + 3 * np.sqrt(0.05 * 0.95 / repeats)).all()


def test_true_differences_are_found_nearly_as_often_as_with_known_noise():
    scenario = next(s for s in SCENARIOS if s.name == "sd 2")
    single, corrected, best = power(chosen, scenario, 12, 5, SIZE, 5.0, 100)
    assert single > known(scenario, 5, SIZE, 5.0) - 12 and single >= best > 40 and corrected > 40


@pytest.mark.parametrize(("name", "seeds"), [("sd 2", 4), ("sd 1, draws 3", 2)])
def test_the_detectable_difference_is_found_in_four_of_five_tables(name: str, seeds: int):
    scenario, rng = next(s for s in SCENARIOS if s.name == name), np.random.default_rng(0)
    least = np.mean([detectable(drawn(rng, scenario, 12, seeds, SIZE).noise()) for _ in range(20)])
    assert power(chosen, scenario, 12, seeds, SIZE, 100 * least, 200)[0] == pytest.approx(80, abs=8)


@pytest.mark.parametrize(
    ("name", "rows", "seeds"),
    [("sd 2", 2, 2), ("sd 2", 4, 2), ("sd 2", 3, 3), ("sd 1, draws 3", 2, 3), ("sd 1, draws 3", 2, 5)],
)
def test_a_plan_of_few_rows_and_seeds_is_as_careful_as_the_test(name: str, rows: int, seeds: int):
    scenario = next(s for s in SCENARIOS if s.name == name)
    learned = 1 if scenario.draws else rows
    expected = Expected((scenario.sd / 100) ** 2 + HARD / SIZE, 2 * HARD / SIZE, learned)
    found = power(chosen, scenario, rows, seeds, SIZE, 100 * expected.least(seeds), 400)[0]
    assert found == pytest.approx(80, abs=7)


def test_planned_seeds_find_what_they_are_planned_for():
    expected = assumed(277, 12)
    assert expected.least(4) > expected.least(5) > expected.least(MOST_SEEDS) > expected.least(1) * 0.99
    needed = expected.seeds_for(0.058)
    assert expected.least(needed) <= 0.058 < expected.least(needed - 1)
    assert expected.seeds_for(0.01) == 0  # hidden by 277 examples, whatever the seeds
    normal = stats.norm.ppf(0.975) + stats.norm.ppf(0.8)
    assert expected.least(1) == pytest.approx(normal * np.sqrt(0.1 / 277), rel=1e-3)


def test_a_subset_keeps_what_was_learned_from_all():
    made = independent([0.9, 0.8, 0.7], [1e-4, 4e-4, 1e-4], 3)
    part = made.among([0, 2])
    assert isinstance(part, Noise) and (part.weights == made.weights[[0, 2]]).all()
    assert part.p_value(np.array([0]), np.array([1])) == made.p_value(np.array([0]), np.array([2]))
