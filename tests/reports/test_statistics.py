"""Spread, bootstrap and rank correlation against numbers worked out by hand."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.contracts import Task
from harness.evaluation.metrics import score as all_scores
from harness.reports.statistics.resampling import CONFUSED, RESAMPLES, p_value, resample, resampled_scores
from harness.reports.statistics.summaries import mean_std, rank_correlation
from tests.reports.synthetic import TASKS, score


def test_spread_is_the_sample_standard_deviation():
    assert mean_std([0.84, 0.86]) == pytest.approx((0.85, 0.02 / math.sqrt(2)))
    assert mean_std([1.0, 2.0, 6.0]) == pytest.approx((3.0, math.sqrt(7)))


def test_one_seed_has_no_spread_and_a_correlation_of_constants_no_mean():
    assert mean_std([0.84]) == (0.84, None)
    mean, spread = mean_std([0.84, math.nan])
    assert math.isnan(mean) and spread is None


def test_every_resample_draws_as_many_examples_as_there_are_and_repeats():
    counts = resample(37, "sst2")
    assert counts.shape == (RESAMPLES, 37) and (counts.sum(axis=1) == 37).all()
    assert (counts == resample(37, "sst2")).all() and (counts != resample(37, "rte")).any()


@pytest.mark.parametrize("size, better, expected", [(50, 1, (1 - 1 / 50) ** 50), (50, 3, (1 - 3 / 50) ** 50)])
def test_p_value_of_nested_answers_is_the_chance_to_draw_none_of_the_examples_that_differ(size, better, expected):
    task, labels, counts = TASKS["sst2"], np.ones(size, int), resample(size, "sst2")
    best = resampled_scores(task, np.ones(size, int), labels, counts, score)
    worse = resampled_scores(task, (np.arange(size) >= better).astype(int), labels, counts, score)
    assert p_value(best, worse) == pytest.approx(expected, abs=0.04)
    assert p_value(best, best) == 1.0


def by_hand(task, predictions, labels):
    """F1 and Matthews correlation in their textbook form, one example at a time."""
    pairs = list(zip(predictions.tolist(), labels.tolist(), strict=True))
    tp, fp, fn, tn = (pairs.count(pair) for pair in ((1, 1), (1, 0), (0, 1), (0, 0)))
    if task.metric == "accuracy":
        return (tp + tn) / len(pairs)
    if task.metric == "f1":
        return 2 * tp / (2 * tp + fp + fn) if tp + fp + fn else 0.0
    product = (tp + fp) * (tp + fn) * (tn + fp) * (tn + fn)
    return (tp * tn - fp * fn) / math.sqrt(product) if product else 0.0


@settings(max_examples=20, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1, max_size=20),
    st.sampled_from(["accuracy", "f1", "matthews"]),
)
def test_scores_taken_at_once_equal_those_taken_one_by_one(pairs, metric):
    predictions, labels = np.array(pairs).T
    task, counts = replace(TASKS["sst2"], metric=metric), resample(len(pairs), "x")[:20]
    one_by_one = resampled_scores(
        replace(task, metric="other"), predictions, labels, counts, lambda _, p, y: by_hand(task, p, y)
    )
    assert resampled_scores(task, predictions, labels, counts, score) == pytest.approx(one_by_one, abs=1e-12)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=2, max_size=20))
def test_correlations_taken_at_once_equal_those_taken_one_by_one(pairs):
    predictions, labels = np.array(pairs, dtype=float).T
    drawn = resample(len(pairs), "x")[:20]
    metrics = ("pearson", "spearman", "pearson_spearman_mean")
    task = Task("stsb", "STS-B", "pearson", metrics)
    rows = [np.repeat(np.arange(len(pairs)), row.astype(int)) for row in drawn]
    for metric in metrics:
        expected = [all_scores(task, predictions[i], labels[i])[metric] for i in rows]
        at_once = resampled_scores(replace(task, metric=metric), predictions, labels, drawn, score)
        assert at_once == pytest.approx(expected, abs=1e-9)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)), min_size=1, max_size=20))
def test_metrics_of_several_classes_taken_at_once_equal_those_taken_one_by_one(pairs):
    predictions, labels = np.array(pairs).T
    task = Task("four", "Four", "accuracy", CONFUSED, labels=("a", "b", "c", "d"))
    drawn = resample(len(pairs), "x")[:10]
    rows = [np.repeat(np.arange(len(pairs)), row.astype(int)) for row in drawn]
    one_by_one = [all_scores(task, predictions[i], labels[i]) for i in rows]
    for metric in CONFUSED:
        at_once = resampled_scores(replace(task, metric=metric), predictions, labels, drawn, score)
        assert at_once == pytest.approx([found[metric] for found in one_by_one], abs=1e-9), metric


def test_binned_scores_are_resampled_by_the_value_of_their_bin():
    task = Task("bins", "Bins", "pearson", ("pearson",), bins=(0.0, 1.0, 10.0))
    predictions, labels = np.array([0.0, 1.0, 10.0, 10.0]), np.array([0, 1, 2, 1])
    once = np.ones((1, 4), dtype=np.float32)
    expected = np.corrcoef(predictions, [0, 1, 10, 1])[0, 1]
    assert resampled_scores(task, predictions, labels, once, score) == pytest.approx([expected])


def test_the_mean_of_accuracy_and_f1_is_resampled_as_a_mean():
    task = replace(TASKS["sst2"], metric="accuracy_f1_mean")
    predictions, labels = np.array([1, 1, 0, 0]), np.array([1, 0, 0, 1])
    counts = np.array([[1, 1, 1, 1], [2, 0, 1, 1]], dtype=np.float32)  # F1 2/4 and 4/5, accuracy 1/2 and 3/4
    assert resampled_scores(task, predictions, labels, counts, score) == pytest.approx([0.5, (0.75 + 0.8) / 2])


def test_rank_correlation_by_hand():
    # one discordant pair of six; squared rank differences 0, 1, 1, 0
    assert rank_correlation([1, 2, 3, 4], [1, 3, 2, 4]) == pytest.approx((4 / 6, 1 - 6 * 2 / (4 * 15)))
    # a tie on one side: 5 concordant pairs over sqrt(5 x 6)
    assert rank_correlation([1, 2, 2, 3], [1, 2, 3, 4])[0] == pytest.approx(5 / math.sqrt(30))


@pytest.mark.parametrize("ours, theirs", [([], []), ([1, 2], [1, 2]), ([1, 1, 1], [1, 2, 3])])
def test_no_rank_correlation_of_too_few_or_equal_values(ours, theirs):
    assert all(math.isnan(value) for value in rank_correlation(ours, theirs))
