"""Mixtures of normal distributions about 0: how far they reach, and the sums of what they may vary by."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy.special import ndtr

NEAR, FAR = 1e-6, 8.0  # between these lies every difference of scores that is asked for
TURNS = 14  # of halving their ratio, the last two by a line
PORTION = 256  # pairs that are compared at once


def portions(size: int) -> Iterator[slice]:
    """Parts of so many pairs whose mixtures a processor's cache holds."""
    return (slice(start, start + PORTION) for start in range(0, size, PORTION))


def tail(distance: np.ndarray, deviations: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(n,) the chance that a mixture of normal distributions, (n, M), is so far, (n,), above its mean."""
    return np.einsum("nm,nm->n", weights, ndtr(-distance[:, None] / deviations))


def reach(level: float, deviations: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(n,) the distances whose `tail` is `level`."""
    def logarithm(distance: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(tail(distance, deviations, weights), 1e-300))

    aim, low, high = np.log(level), np.full(len(weights), NEAR), np.full(len(weights), FAR)
    at_low, at_high = np.full((2, len(weights)), np.nan)  # of an end that was not looked at: it is halved then
    for turn in range(TURNS):
        middle = np.sqrt(low * high)
        if turn >= TURNS - 2:  # by then the logarithms are as good as a line
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.nan_to_num((at_low - aim) / (at_low - at_high), nan=0.5)
            middle = low * (high / low) ** np.clip(share, 0.0, 1.0)
        if turn < TURNS - 1:
            found = logarithm(middle)
            over = found > aim
            low, at_low = np.where(over, middle, low), np.where(over, found, at_low)
            high, at_high = np.where(over, high, middle), np.where(over, at_high, found)
    return middle


def sums(
    one: np.ndarray, weights: np.ndarray, other: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(n, M * M) each: every sum of two variances of (n, M) each, and how probable it is."""
    variances, shares = one[:, :, None] + other[:, None, :], weights[:, :, None] * others[:, None, :]
    shape = len(one), one.shape[1] * other.shape[1]  # told, as of a row alone there are no pairs
    return variances.reshape(shape), shares.reshape(shape)


def fewer(variances: np.ndarray, weights: np.ndarray, points: int) -> tuple[np.ndarray, np.ndarray]:
    """Of n rows of variances and their weights so many points of the same mean each."""
    k = len(variances)
    kept, shares = np.zeros((k, points)), np.zeros((k, points))
    for row in range(k):
        low, high = variances[row].min(), variances[row].max()
        edges = np.geomspace(low, high, points + 1)[1:-1] if low > 0 and high > low else np.full(points - 1, high)
        group = np.searchsorted(edges, variances[row])
        shares[row] = np.bincount(group, weights[row], points)
        total = np.bincount(group, weights[row] * variances[row], points)
        kept[row] = np.divide(total, shares[row], out=np.zeros(points), where=shares[row] > 0)
    return kept, shares


def merged(variances: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variances in order and their weights, with what is the same variance as one: pairs have fewer to be asked of."""
    weights = weights.copy()
    for at in range(1, variances.shape[1]):
        same = variances[:, at] == variances[:, at - 1]
        weights[same, at] += weights[same, at - 1]
        weights[same, at - 1] = 0.0
    return variances, weights
