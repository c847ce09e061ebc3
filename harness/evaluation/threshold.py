"""The threshold that tells pairs of one kind from the others by how similar they are (wu2020, section 5.5)."""

from __future__ import annotations

import numpy as np

EVERYTHING, NOTHING = -2.0, 2.0  # thresholds beyond every cosine


def best_threshold(similarities: np.ndarray, labels: np.ndarray) -> float:
    """The threshold t for which "class 1 where similarity >= t" is most often right; of equally good ones the lowest.

    similarities: (N,) cosines; labels: (N,) of 0 and 1; N at least 1. t lies midway between two neighbouring
    similarities, or at EVERYTHING (all are class 1) or NOTHING (none is). O(N log N).
    Raises ValueError for a similarity that is not finite or no cosine, another label, or lengths that differ.
    """
    similarities, labels = np.asarray(similarities, np.float64), np.asarray(labels)
    if similarities.shape != labels.shape or similarities.ndim != 1 or not len(labels):
        raise ValueError(f"one similarity per label is needed, not {similarities.shape} for {labels.shape}")
    if not (np.abs(similarities) < NOTHING).all():  # false for NaN too
        raise ValueError("a similarity is not a cosine")
    if not np.isin(labels, (0, 1)).all():
        raise ValueError("a label is neither 0 nor 1")
    order = np.argsort(similarities)
    values, ones = similarities[order], labels[order].astype(np.int64)
    # Cut k calls the k least similar pairs class 0: right are the zeros below it and the ones above.
    right = np.concatenate([[0], np.cumsum(1 - ones)]) + ones.sum() - np.concatenate([[0], np.cumsum(ones)])
    possible = np.concatenate([[True], values[:-1] < values[1:], [True]])  # equal similarities stay together
    cut = int(np.where(possible, right, -1).argmax())
    if cut == 0:
        return EVERYTHING
    if cut == len(values):
        return NOTHING
    below, above = float(values[cut - 1]), float(values[cut])
    middle = (below + above) / 2
    return middle if middle > below else above  # between neighbouring floats there is none
