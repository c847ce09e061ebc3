"""Spread, influences of examples and rank correlation against other ways to get them."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts import Task
from harness.evaluation.metrics import score as score_all
from harness.reports.statistics.influence import COUNTED, influence
from harness.reports.statistics.summaries import mean_std, rank_correlation
from tests.reports.synthetic import TASKS, score


def test_spread_is_the_sample_standard_deviation():
    assert mean_std([0.84, 0.86]) == pytest.approx((0.85, 0.02 / math.sqrt(2)))
    assert mean_std([1.0, 2.0, 6.0]) == pytest.approx((3.0, math.sqrt(7)))


def test_one_seed_has_no_spread():
    assert mean_std([0.84]) == (0.84, None)


def metric_of(task, predictions, labels, metric):
    return score_all(replace(task, metrics=(metric,)), predictions, labels)[metric]


CASES = {
    "accuracy": ("no", "yes"),
    "f1": ("no", "yes"),
    "accuracy_f1_mean": ("no", "yes"),
    "matthews": ("a", "b", "c"),
    "kappa": ("a", "b", "c"),
    "macro_f1": ("a", "b", "c"),
    "weighted_f1": ("a", "b", "c"),
    "balanced_accuracy": ("a", "b", "c"),
    "macro_precision": ("a", "b", "c"),
    "pearson": (),
    "spearman": (),
    "pearson_spearman_mean": (),
    "kendall": (),
    "r2": (),
}


def answered(labels, size=400, seed=3):
    """Predictions that are often right, with ties among scores."""
    rng = np.random.default_rng(seed)
    if not labels:
        expected = rng.integers(0, 20, size).astype(float)
        return np.round(expected + rng.normal(0, 8, size)), expected
    expected = rng.integers(0, len(labels), size)
    return np.where(rng.random(size) < 0.7, expected, rng.integers(0, len(labels), size)), expected


@pytest.mark.parametrize("metric, labels", CASES.items())
def test_influences_give_the_spread_of_a_bootstrap_that_scores_every_resample_anew(metric, labels):
    task = Task("made", "Made", metric, (metric,), labels=labels)
    predictions, expected = answered(labels)
    value, moved = influence(task, predictions, expected, lambda t, p, y: metric_of(t, p, y, t.metric))
    assert value == pytest.approx(metric_of(task, predictions, expected, metric), abs=1e-12)
    assert moved.shape == predictions.shape and moved.mean() == pytest.approx(0, abs=1e-9)
    rng = np.random.default_rng(0)
    drawn = [rng.integers(0, len(expected), len(expected)) for _ in range(200)]
    scores = [metric_of(task, predictions[i], expected[i], metric) for i in drawn]
    assert np.sqrt((moved**2).sum()) / len(moved) == pytest.approx(np.std(scores), rel=0.2)
    if metric not in ("macro_precision", "kendall", "r2"):  # of which groups are left out together
        to_first_order = [value + moved[i].mean() for i in drawn]
        assert np.corrcoef(scores, to_first_order)[0, 1] > 0.99


def by_hand(metric, pairs):
    """F1 and Matthews correlation in their textbook form, one example at a time."""
    tp, fp, fn, tn = (pairs.count(pair) for pair in ((1, 1), (1, 0), (0, 1), (0, 0)))
    if metric == "f1":
        return 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=20),
    st.sampled_from(["f1", "matthews"]),
)
def test_values_are_those_of_the_textbook(pairs, metric):
    predictions, labels = np.array(pairs).T
    assert influence(TASKS["sst2"], predictions, labels, score, metric)[0] == pytest.approx(by_hand(metric, pairs))


@pytest.mark.parametrize("metric", [metric for metric in COUNTED if metric != "f1"])  # which is of two classes
def test_classes_that_no_example_has_count_as_the_metric_counts_them(metric):
    task = Task("made", "Made", metric, (metric,), labels=("a", "b", "c", "d"))
    predictions, labels = np.array([0, 0, 1, 1, 2]), np.array([0, 1, 1, 1, 0])  # c is only answered, and d not even so
    value, _ = influence(task, predictions, labels, score)
    assert value == pytest.approx(metric_of(task, predictions, labels, metric))


def test_binned_scores_are_compared_by_the_value_of_their_bin():
    task = Task("bins", "Bins", "pearson", ("pearson",), bins=(0.0, 1.0, 10.0))
    predictions, labels = np.array([0.0, 1.0, 10.0, 10.0]), np.array([0, 1, 2, 1])
    expected = np.corrcoef(predictions, [0, 1, 10, 1])[0, 1]
    assert influence(task, predictions, labels, score)[0] == pytest.approx(expected)


def test_constant_scores_have_a_correlation_of_nothing_that_no_example_moves():
    task = Task("made", "Made", "spearman", ("spearman",))
    value, moved = influence(task, np.ones(5), np.arange(5.0), score)
    assert value == 0 and (moved == 0).all()


def test_rank_correlation_by_hand():
    # one discordant pair of six; squared rank differences 0, 1, 1, 0
    assert rank_correlation([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx((4 / 6, 1 - 6 * 2 / (4 * 15)))
    # a tie on one side: 5 concordant pairs over sqrt(5 x 6)
    assert rank_correlation([1, 2, 2, 3], [1, 2, 3, 4])[0] == pytest.approx(5 / math.sqrt(30))


@pytest.mark.parametrize("ours, theirs", [([], []), ([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3])])
def test_no_rank_correlation_of_too_few_or_equal_values(ours, theirs):
    assert all(math.isnan(value) for value in rank_correlation(ours, theirs))
