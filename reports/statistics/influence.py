"""How much each dev example moves a metric: what a resample of the examples changes it by, to first order."""

from __future__ import annotations

import zlib
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from harness.contracts import Task

Score = Callable[[Task, np.ndarray, np.ndarray], float]  # (task, predictions, labels) -> the value of task.metric

COUNTED = ("f1", "macro_f1", "weighted_f1", "balanced_accuracy", "matthews", "kappa")
MEANS = {"accuracy_f1_mean": ("accuracy", "f1"), "pearson_spearman_mean": ("pearson", "spearman")}
GROUPS = 250  # of examples, left out together where a metric has no form of its own here


def influence(
    task: Task, predictions: np.ndarray, labels: np.ndarray, score: Score, metric: str = ""
) -> tuple[float, np.ndarray]:
    """(task.metric, or `metric`, and (N,) each example's influence on it, of mean 0). predictions, labels: (N,).

    A resample that draws example i c_i times has about the value + sum_i c_i influence_i / N, and exactly that for
    accuracy. So sum_i influence_i^2 / N^2 is the variance over resamples: the infinitesimal jackknife (Jaeckel 1972;
    Efron, The Jackknife, the Bootstrap and Other Resampling Plans, 1982, chapter 6). Metrics other than those of the
    classes' counts and the correlations ask `score` without one group of examples at a time.
    """
    metric = metric or task.metric
    if metric in MEANS:
        (one, a), (other, b) = (influence(task, predictions, labels, score, part) for part in MEANS[metric])
        return (one + other) / 2, (a + b) / 2
    if metric == "accuracy":
        moved = (predictions == labels).astype(np.float64)
        value = float(moved.mean())
    elif metric in COUNTED and task.labels:
        value, moved = _of_counts(metric, predictions.astype(np.int64), labels.astype(np.int64), len(task.labels))
    elif metric in ("pearson", "spearman"):
        expected = np.array(task.bins)[labels] if task.bins else labels
        ranked = metric == "spearman"
        value, moved = _of_correlation(predictions.astype(np.float64), expected.astype(np.float64), ranked)
    else:
        alone = replace(task, metric=metric, metrics=(metric,))  # or all would be computed each time
        value, moved = _by_leaving_out(alone, predictions, labels, score)
    return value, moved - moved.mean()


def _of_counts(metric: str, predictions: np.ndarray, labels: np.ndarray, classes: int) -> tuple[float, np.ndarray]:
    """Examples with the same label and answer move the metric alike: by half an example more against half one less."""
    classes = max(classes, int(predictions.max()) + 1, int(labels.max()) + 1)
    kind = labels * classes + predictions
    counts = np.bincount(kind, minlength=classes**2).astype(np.float64)
    found, which = np.unique(kind, return_inverse=True)
    step = 0.5 * np.eye(classes**2)[found]
    tables = np.concatenate([[counts], counts + step, counts - step]).reshape(-1, classes, classes)
    value, *around = of_counts(metric, tables)
    more, less = np.split(np.array(around), 2)
    return float(value), (len(labels) * (more - less))[which]


def of_counts(metric: str, tables: np.ndarray) -> np.ndarray:
    """(R,) one of COUNTED, as scikit-learn defines it. tables: (R, C, C), how often label y is answered by p."""
    right, of, as_ = np.diagonal(tables, axis1=1, axis2=2), tables.sum(2), tables.sum(1)  # (R, C) each
    size = of.sum(1)

    def share(above: np.ndarray, below: np.ndarray) -> np.ndarray:
        return np.divide(above, below, out=np.zeros_like(above), where=below > 0)

    if metric == "f1":  # of the second of two classes
        return share(2 * right[:, 1], (of + as_)[:, 1])
    if metric == "macro_f1":  # of the classes that are there, or are predicted
        return share(share(2 * right, of + as_).sum(1), ((of + as_) > 0).sum(1).astype(np.float64))
    if metric == "weighted_f1":
        return (share(2 * right, of + as_) * of).sum(1) / size
    if metric == "balanced_accuracy":  # of the classes that are there
        return share(share(right, of).sum(1), (of > 0).sum(1).astype(np.float64))
    chance = (of * as_).sum(1)
    above = right.sum(1) * size - chance
    if metric == "kappa":
        return share(above, size**2 - chance)
    return share(above, np.sqrt((size**2 - (of**2).sum(1)) * (size**2 - (as_**2).sum(1))))


def _of_correlation(x: np.ndarray, y: np.ndarray, ranked: bool) -> tuple[float, np.ndarray]:
    """The derivative of the correlation by each example's weight; of ranks by their own change, too."""
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        return 0.0, np.zeros(len(x))
    values = (x, y)
    if ranked:
        from scipy.stats import rankdata

        values = rankdata(x), rankdata(y)
    (a, wide), (b, high) = (((v - v.mean()) / v.std(), v.std()) for v in values)
    r = float((a * b).mean())
    moved = a * b - r * (a**2 + b**2) / 2
    if ranked:  # drawn once more, an example raises the ranks of those above it by 1, of its equals by a half
        moved = moved + _above((b - r * a) / wide, x) + _above((a - r * b) / high, y)
    return r, moved


def _above(weights: np.ndarray, values: np.ndarray) -> np.ndarray:
    """(N,) the sum of the weights of the examples with a greater value, and half of those with the same."""
    _, which = np.unique(values, return_inverse=True)
    sums = np.bincount(which, weights)
    return (sums.sum() - np.cumsum(sums) + sums / 2)[which]


def _by_leaving_out(task: Task, predictions: np.ndarray, labels: np.ndarray, score: Score) -> tuple[float, np.ndarray]:
    """The delete-a-group jackknife; every run of a task leaves out the same groups, of one example each if few."""
    size, groups = len(labels), min(GROUPS, len(labels))
    group = np.random.default_rng(zlib.crc32(task.name.encode())).permutation(size) % groups
    value, moved = score(task, predictions, labels), np.zeros(size)
    for number in range(groups if groups > 1 else 0):
        kept = group != number
        without = score(task, predictions[kept], labels[kept])
        moved[~kept] = (value - without) * kept.sum() / (~kept).sum() * np.sqrt((~kept).sum())
    return value, moved
