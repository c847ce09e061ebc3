"""The paired bootstrap over examples."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.contracts import Task

if TYPE_CHECKING:
    import numpy as np

Score = Callable[[Task, "np.ndarray", "np.ndarray"], float]  # (task, predictions, labels) -> the value of task.metric

RESAMPLES = 1000
LEVEL = 0.05


def resample(size: int, name: str) -> np.ndarray:
    """(RESAMPLES, size) float32: how often each example is drawn, with replacement. The same for the same arguments."""
    import numpy as np

    generator = np.random.default_rng(zlib.crc32(name.encode()))
    counts = np.empty((RESAMPLES, size), dtype=np.float32)  # exact: whole numbers far below 2^24
    for row in counts:
        row[:] = np.bincount(generator.integers(0, size, size), minlength=size)
    return counts


def resampled_scores(
    task: Task, predictions: np.ndarray, labels: np.ndarray, counts: np.ndarray, score: Score
) -> np.ndarray:
    """(R,) task.metric on every resample. predictions, labels: (N,); counts: (R, N), how often each example is drawn.

    Accuracy, F1, what follows from the classes' counts, the correlations and their means depend on few sums and are
    taken for all resamples at once; any other metric asks `score` once a resample.
    """
    import numpy as np

    if task.metric == "accuracy":
        return (counts @ (predictions == labels).astype(np.float32)).astype(np.float64) / len(labels)
    if task.metric in ("f1", "matthews") and task.outputs == 2:
        pair = np.stack([(predictions == p) & (labels == y) for p, y in ((1, 1), (1, 0), (0, 1), (0, 0))], axis=1)
        tp, fp, fn, tn = (counts @ pair.astype(np.float32)).astype(np.float64).T
        if task.metric == "f1":
            above, below = 2 * tp, 2 * tp + fp + fn
        else:
            above, below = tp * tn - fp * fn, np.sqrt((tp + fp) * (tp + fn) * (tn + fp) * (tn + fn))
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)
    if task.metric in CONFUSED and task.labels:
        return _confused(task, predictions, labels, counts)
    if task.metric in ("pearson", "spearman"):
        x, y = (v.astype(np.float64) for v in (predictions, np.array(task.bins)[labels] if task.bins else labels))
        weights = counts.astype(np.float64)
        return _correlation(weights, *((_ranks(weights, v) for v in (x, y)) if task.metric == "spearman" else (x, y)))
    parts = {"accuracy_f1_mean": ("accuracy", "f1"), "pearson_spearman_mean": ("pearson", "spearman")}
    if task.metric in parts:
        both = (replace(task, metric=part) for part in parts[task.metric])
        return np.mean([resampled_scores(one, predictions, labels, counts, score) for one in both], axis=0)
    numbers = np.arange(len(labels))
    drawn = (np.repeat(numbers, row.astype(np.int64)) for row in counts)
    return np.array([score(task, predictions[i], labels[i]) for i in drawn])


CONFUSED = ("macro_f1", "weighted_f1", "balanced_accuracy", "matthews", "kappa")


def _confused(task: Task, predictions: np.ndarray, labels: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """(R,) a metric of how often each class is taken for each, as scikit-learn defines it."""
    import numpy as np

    classes, numbers = len(task.labels), np.arange(len(task.labels) ** 2)
    place = labels.astype(np.int64) * classes + predictions.astype(np.int64)
    table = (counts @ (place[:, None] == numbers).astype(np.float32)).astype(np.float64).reshape(-1, classes, classes)
    right, of, as_ = np.diagonal(table, axis1=1, axis2=2), table.sum(2), table.sum(1)  # (R, C) each
    size = of.sum(1)

    def share(above: np.ndarray, below: np.ndarray) -> np.ndarray:
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)

    if task.metric == "macro_f1":  # of the classes that are there, or are predicted
        return share(share(2 * right, of + as_).sum(1), ((of + as_) > 0).sum(1).astype(np.float64))
    if task.metric == "weighted_f1":
        return (share(2 * right, of + as_) * of).sum(1) / size
    if task.metric == "balanced_accuracy":  # of the classes that are there
        return share(share(right, of).sum(1), (of > 0).sum(1).astype(np.float64))
    chance = (of * as_).sum(1)
    above = right.sum(1) * size - chance
    if task.metric == "kappa":
        return share(above, size**2 - chance)
    return share(above, np.sqrt((size**2 - (of**2).sum(1)) * (size**2 - (as_**2).sum(1))))


def _ranks(counts: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(RESAMPLES, N) mid-ranks of the values, equal ones sharing a rank, where each is drawn `counts` times."""
    import numpy as np

    order = np.argsort(values, kind="stable")
    _, starts, which = np.unique(values[order], return_index=True, return_inverse=True)
    drawn = np.add.reduceat(counts[:, order], starts, axis=1)  # (RESAMPLES, distinct values)
    ranks = np.cumsum(drawn, axis=1)
    ranks -= (drawn - 1) / 2
    return ranks[:, which[np.argsort(order)]]


def _correlation(counts: np.ndarray, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(RESAMPLES,) Pearson correlation of x and y drawn `counts` times, 0 where one is constant.

    x, y: (N,), or (RESAMPLES, N) where they differ by resample.
    """
    import numpy as np

    total = counts.sum(axis=1, keepdims=True)
    x, y = (v - (counts * v).sum(axis=1, keepdims=True) / total for v in (x, y))  # (RESAMPLES, N), centred
    xy, xx, yy = (np.einsum("rn,rn,rn->r", counts, a, b) for a, b in ((x, y), (x, x), (y, y)))
    below = np.sqrt(xx * yy)
    return np.divide(xy, below, out=np.zeros_like(xy), where=below > 1e-12)


def p_value(best: np.ndarray, other: np.ndarray) -> float:
    """One-sided paired bootstrap: how often `best` does not beat `other` on the same resample. Both (RESAMPLES,).

    Efron and Tibshirani, An Introduction to the Bootstrap (1993), chapter 16, with the usual one added to both counts.
    """
    import numpy as np

    return float((1 + np.count_nonzero(~(best - other > 1e-12))) / (1 + len(best)))
