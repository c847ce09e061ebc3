"""Task metrics from predictions. scikit-learn and SciPy are loaded on first use: they take a second to import.

Predictions and labels of a classification task are class indices; of a regression task, scores; of a task of binned
scores, predictions are scores and labels are class indices.

Where candidates are ranked, each is still predicted alone, as being right (class 0) where its score is above 0. Liu et
al. (2019) pick the best of a question's candidates, but that is no answer to version 2 of QNLI, on which liu2020 is
evaluated (section 4.3.1): half of its dev examples have no rival, and it was released so that no example is told by
another (Wang et al., 2019, GLUE, note 3).
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from harness.contracts import Task
from harness.data import own_metric
from harness.data.metric_names import MEANS


def predictions_of(task: Task, logits: np.ndarray) -> np.ndarray:
    """What a model predicts. logits: (N, C). Returns (N,) int64 classes, or float64 scores (a bin's value)."""
    if task.ranking:
        return np.where(logits[:, 0] > 0, 0, 1)
    if not task.classification:
        return logits[:, 0].astype(np.float64)
    classes = logits.argmax(1)
    return np.array(task.bins)[classes] if task.bins else classes


def graded(task: Task, logits: np.ndarray) -> dict[str, np.ndarray]:
    """What `predictions_of` is made of, as it is kept. logits: (N, C).

    "probabilities", (N, C) float32: of classes, those of a score's bins too. "scores", (N,) float32: of candidates that
    are ranked. Nothing for a score, which is the prediction itself. Half precision would round whatever is surer than
    0.9998 to certainty, of which no calibration can tell anything.
    """
    if task.ranking:
        return {"scores": logits[:, 0].astype(np.float32)}
    if not task.classification:
        return {}
    shifted = np.exp(logits.astype(np.float64) - logits.max(1, keepdims=True))
    return {"probabilities": (shifted / shifted.sum(1, keepdims=True)).astype(np.float32)}


def score(task: Task, predictions: Any, labels: Any) -> dict[str, float]:
    """Every metric of task.metrics, as a fraction or correlation.

    predictions, labels: (N,), N at least 1. Where a metric is undefined it is 0, never NaN: Matthews, Pearson and
    Spearman of constant predictions or labels, F1 (of class 1) without any true positive.
    Raises ValueError if a prediction is not finite or the lengths differ, UserError where a plugin's metric fails.
    """
    labels, predictions = np.asarray(labels), np.asarray(predictions)
    if task.bins:
        labels = np.array(task.bins)[labels]
    if predictions.shape != labels.shape or predictions.ndim != 1 or not len(labels):
        raise ValueError(f"one prediction per label is needed, not {predictions.shape} for {labels.shape}")
    if not np.isfinite(predictions).all():
        raise ValueError("a prediction is not finite")
    parts = {part for name in task.metrics for part in MEANS.get(name, (name,))}
    functions = {name: METRICS.get(name) or own_metric.function(task.name, name) for name in sorted(parts)}
    found = {name: metric(predictions, labels) for name, metric in functions.items()}
    found |= {mean: sum(found[part] for part in MEANS[mean]) / 2 for mean in MEANS if mean in task.metrics}
    return {name: found[name] for name in task.metrics}


def _accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    return float((predictions == labels).mean())


def _of_sklearn(function: str, **keywords: Any) -> Callable[[np.ndarray, np.ndarray], float]:
    """A metric of scikit-learn's, 0 where it is undefined."""

    def metric(predictions: np.ndarray, labels: np.ndarray) -> float:
        import sklearn.metrics

        with warnings.catch_warnings():  # it warns of classes that are not there, and of none predicted
            warnings.simplefilter("ignore")
            value = float(getattr(sklearn.metrics, function)(labels, predictions, **keywords))
        return value if math.isfinite(value) else 0.0

    return metric


def _r2(predictions: np.ndarray, labels: np.ndarray) -> float:
    from sklearn.metrics import r2_score

    return 0.0 if np.ptp(labels) == 0 else float(r2_score(labels, predictions))


def _correlation(function: str) -> Callable[[np.ndarray, np.ndarray], float]:
    """A correlation of SciPy's, 0 where one side is constant."""

    def metric(predictions: np.ndarray, labels: np.ndarray) -> float:
        import scipy.stats

        predictions, labels = predictions.astype(np.float64), labels.astype(np.float64)
        if np.ptp(predictions) == 0 or np.ptp(labels) == 0:
            return 0.0
        return float(getattr(scipy.stats, function)(predictions, labels).statistic)

    return metric


METRICS = {
    "accuracy": _accuracy,
    "f1": _of_sklearn("f1_score", pos_label=1, zero_division=0),
    "macro_f1": _of_sklearn("f1_score", average="macro", zero_division=0),
    "weighted_f1": _of_sklearn("f1_score", average="weighted", zero_division=0),
    "macro_precision": _of_sklearn("precision_score", average="macro", zero_division=0),
    "balanced_accuracy": _of_sklearn("balanced_accuracy_score"),
    "matthews": _of_sklearn("matthews_corrcoef"),
    "kappa": _of_sklearn("cohen_kappa_score"),
    "pearson": _correlation("pearsonr"),
    "spearman": _correlation("spearmanr"),
    "kendall": _correlation("kendalltau"),
    "r2": _r2,
}
