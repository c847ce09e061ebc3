"""The threshold of a similarity: the best there is, the lowest of equals."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.evaluation.threshold import EVERYTHING, NOTHING, best_threshold

COSINES = st.one_of(st.floats(-1, 1), st.integers(-4, 4).map(lambda n: n / 4))  # the second kind repeats itself


def right(similarities: list[float], labels: list[int], threshold: float) -> int:
    return sum((s >= threshold) == bool(label) for s, label in zip(similarities, labels, strict=True))


@pytest.mark.parametrize(
    ("similarities", "labels", "expected"),
    [
        ([0.2, 0.6, 0.4, 0.9], [0, 1, 0, 1], 0.5),  # separable, between 0.4 and 0.6
        ([0.2, 0.4, 0.6, 0.8], [0, 1, 0, 1], 0.3),  # 0.3 and 0.7 are right three times: the lower
        ([0.5, 0.5, 0.5, 0.9], [0, 0, 1, 1], 0.7),  # equal similarities cannot be told apart
        ([0.1, 0.9], [1, 1], EVERYTHING),
        ([0.1, 0.9], [0, 0], NOTHING),
        ([0.1, 0.9], [1, 0], EVERYTHING),  # one of two is right with everything, with nothing, and never with more
        ([-0.5], [0], NOTHING),
        ([0.3, 0.3], [0, 1], EVERYTHING),
    ],
)
def test_golden_values(similarities: list[float], labels: list[int], expected: float) -> None:
    assert best_threshold(np.array(similarities), np.array(labels)) == pytest.approx(expected)


def test_neighbouring_floats_are_told_apart() -> None:
    below = 0.25
    above = math.nextafter(below, 1)
    assert below < best_threshold(np.array([above, below]), np.array([1, 0])) <= above


@given(st.lists(st.tuples(COSINES, st.integers(0, 1)), min_size=1, max_size=12))
def test_none_is_better_and_no_lower_one_as_good(pairs: list[tuple[float, int]]) -> None:
    similarities, labels = [s for s, _ in pairs], [label for _, label in pairs]
    found = best_threshold(np.array(similarities), np.array(labels))
    best = right(similarities, labels, found)
    for threshold in (EVERYTHING, *similarities, NOTHING):  # at a similarity is as good as just below it
        assert right(similarities, labels, threshold) <= best
        if not any(s < found and s >= threshold for s in similarities):
            continue  # the same cut
        assert right(similarities, labels, threshold) < best, "a lower threshold is as good"


@pytest.mark.parametrize(
    ("similarities", "labels", "said"),
    [
        ([], [], "one similarity per label"),
        ([0.1], [0, 1], "one similarity per label"),
        ([math.nan, 0.1], [0, 1], "not a cosine"),
        ([3.0, 0.1], [0, 1], "not a cosine"),
        ([0.2, 0.1], [0, 2], "neither 0 nor 1"),
    ],
)
def test_what_is_no_cosine_or_no_label_is_refused(similarities: list[float], labels: list[int], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        best_threshold(np.array(similarities), np.array(labels))
