"""What a search of k trials gives, worked out from n trials that were drawn at random.

Expected score: the mean over all choices of k of the n trials, without bias (Tang et al., Showing Your Work Doesn't
Always Work, ACL 2020). Its band: Lourie, Cho and He, Show Your Work with Confidence: Confidence Bands for Tuning Curves
(NAACL 2024), with the equal-tailed band of order statistics. Their library opda gives the same numbers; these lines
spare a dependency of 200 kB of which one function would be used.
"""

from __future__ import annotations

import functools
import itertools
import math
import zlib
from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import special

from harness.reports.statistics import LEVEL

SAMPLES = 50_000  # of uniform order statistics, by which a band is calibrated
SWAPS = 10_000  # of rows within trials; all of them where there are no more than this


def expected(selection: np.ndarray, score: np.ndarray) -> np.ndarray:
    """(B, n) the mean score of the trial that is chosen among k of the n, for k = 1 to n, of each of B searches.

    selection, score: (B, n). Chosen is the greatest selection score, of equals the earliest, as a search does.
    """
    order = np.argsort(-selection, axis=1, kind="stable")[:, ::-1]  # the chosen last, of equals the earliest
    return np.take_along_axis(score, order, axis=1) @ _weights(selection.shape[1])


@functools.cache
def _weights(n: int) -> np.ndarray:
    """(n, n): how likely the jth worst of n is the best of k of them, by j and k."""
    return np.array([[math.comb(j - 1, k - 1) / math.comb(n, k) for k in range(1, n + 1)] for j in range(1, n + 1)])


def band(values: Sequence[float], level: float = LEVEL) -> list[tuple[float, float, float | None]]:
    """(median, lower, upper) of the greatest of k values, for k = 1 to n, from n independent ones.

    With probability 1 - level all lower and upper bounds hold together, whatever the distribution: they are order
    statistics. upper is None where n values bound nothing from above.
    """
    ordered, n = sorted(values), len(values)
    place, local = np.arange(1, n + 1), _local_level(n, level)
    below = special.betaincinv(place, n + 1 - place, local / 2)  # of the distribution function at each value
    above = special.betaincinv(place, n + 1 - place, 1 - local / 2)
    found = []
    for k in range(1, n + 1):
        quantile = 0.5 ** (1 / k)  # the median of the greatest of k is this quantile of one
        median = ordered[math.ceil(n * quantile - 1e-9) - 1]
        surely_below = np.flatnonzero(above < quantile)
        surely_above = np.flatnonzero(below >= quantile)
        lower = ordered[surely_below[-1]] if len(surely_below) else -math.inf
        found.append((median, lower, ordered[surely_above[0]] if len(surely_above) else None))
    return found


@functools.cache
def _local_level(n: int, level: float) -> float:
    """The level at which each of n uniform order statistics is in its interval, so that all are at 1 - level."""
    generator = np.random.default_rng(zlib.crc32(f"order statistics of {n}".encode()))
    place = np.arange(1, n + 1)
    tails = special.betainc(place, n + 1 - place, np.sort(generator.random((SAMPLES, n)), axis=1))
    return float(np.quantile(2 * np.minimum(tails, 1 - tails).min(axis=1), level))


def p_values(one: np.ndarray, other: np.ndarray) -> list[float]:
    """How likely two rows differ by as much as they do if chance alone says which has which result, for k = 1 to n.

    one, other: (2, T, n), selection and score of n trials on T tasks, the kth trials of both at the same point. The two
    results of a trial, on all tasks together, are swapped: an exact paired permutation test, two-sided, of the
    difference of `expected`, averaged over tasks.
    """
    swapped = _swaps(one.shape[2])[:, None, :]  # (S, 1, n)
    gaps: Any = 0.0  # (S, n), summed over tasks
    for a, b in zip(one.transpose(1, 0, 2), other.transpose(1, 0, 2), strict=True):  # (2, n) each
        first, second = np.where(swapped, b, a), np.where(swapped, a, b)  # (S, 2, n)
        gaps = gaps + expected(first[:, 0], first[:, 1]) - expected(second[:, 0], second[:, 1])
    found = np.abs(gaps) >= np.abs(gaps[0]) - 1e-9  # the first is as it was, and counts
    return [float(share) for share in found.mean(axis=0)]


@functools.cache
def _swaps(n: int) -> np.ndarray:
    """(S, n) bool, the first all False; one of each pair that differ in sign alone."""
    if 2 ** (n - 1) <= SWAPS:
        return np.array([(False, *bits) for bits in itertools.product((False, True), repeat=n - 1)])
    made = np.random.default_rng(zlib.crc32(f"swaps of {n}".encode())).random((SWAPS, n)) < 0.5
    made[0] = False
    return made


def fewest_trials(pairs: int) -> int:
    """The fewest trials with which one of so many pairs can be told apart, corrected for their number; 0 if none."""
    return next((n for n in range(1, SWAPS.bit_length() + 3) if pairs * _smallest_p(n) < LEVEL), 0)


def most_rows(trials: int) -> int:
    """The most rows of which so many trials can tell two apart; 1 if none."""
    return next(m for m in itertools.count(1) if math.comb(m + 1, 2) * _smallest_p(trials) >= LEVEL)


def _smallest_p(trials: int) -> float:
    """The smallest that `p_values` gives: the share of swaps that change nothing, or all trials."""
    swaps = _swaps(trials)
    return float((swaps.all(axis=1) | ~swaps.any(axis=1)).mean())
