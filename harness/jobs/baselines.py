"""What the training examples tell of dev without any model: their commonest class, or a regression on tf-idf.

scikit-learn is loaded on first use: it takes a second to import.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from harness.contracts import Task
from harness.data.sources import Split
from harness.data.tasks import get_task
from harness.evaluation.metrics import score
from harness.jobs.examples import texts_of
from harness.runs import BaselineRun
from harness.runs.told import Performed
from harness.training.work import Work

FEATURES = 100_000  # the commonest words and pairs of words: a larger task takes no more memory
WORDS = r"\w+|[^\w\s]"  # a sign is a word, so that no text is without any
Told = tuple[np.ndarray, dict[str, np.ndarray]]  # (N,) predictions, see `metrics`; "probabilities" (N, C) of classes
Answer = Callable[[Split], Told]


def measure(run: BaselineRun, work: Work) -> Performed:
    """Fit the baseline to the training examples, and score it where a student is scored."""
    task = get_task(run.task)
    train, selection, dev = texts_of(run, work.workspace)
    answer = _majority(task, train) if run.baseline == "majority" else _regression(task, train)
    metrics: dict[str, float] = {}
    for name, split in reversed(list(zip(task.dev_splits, dev, strict=True))):
        predictions, graded = answer(split)
        prefix = "" if name == task.dev_splits[0] else name.removeprefix("dev_") + "_"
        metrics |= {prefix + metric: value for metric, value in score(task, predictions, split.labels).items()}
    kept = {"ids": np.arange(len(dev[0].labels)), "predictions": predictions, "labels": dev[0].labels, **graded}
    chosen = score(task, answer(selection)[0], selection.labels)[run.metric] if len(selection.labels) else 0.0
    record = {"metrics": metrics, "selection": chosen, "best": {"epoch": 0}, "curve": [], "pruned": False}
    return record | {"examples": len(train.labels)}, kept


def _classes(task: Task) -> int:
    """How many classes are told apart; 0 where scores are predicted, binned ones too."""
    return len(task.labels) if task.classification and not task.bins else 0


def _targets(task: Task, split: Split) -> np.ndarray:
    return np.array(task.bins)[split.labels] if task.bins else split.labels


def _majority(task: Task, train: Split) -> Answer:
    """The commonest class, the first of equals, with all classes' shares; or the mean score."""
    targets, classes = _targets(task, train), _classes(task)
    if not classes:
        return lambda split: (np.full(len(split.labels), targets.mean(dtype=np.float64)), {})
    shares = np.bincount(targets, minlength=classes) / len(targets)
    return lambda split: _of_classes(np.tile(shares, (len(split.labels), 1)))


def _of_classes(probabilities: np.ndarray) -> Told:
    return probabilities.argmax(1), {"probabilities": probabilities.astype(np.float32)}


def _regression(task: Task, train: Split) -> Answer:
    """scikit-learn's logistic regression with its defaults, or ridge regression of scores, on `_features`."""
    from sklearn.linear_model import LogisticRegression, Ridge

    targets, classes = _targets(task, train), _classes(task)
    if classes and len(np.unique(targets)) == 1:  # too few examples to tell any other
        return _majority(task, train)
    features = _features(train)
    if not classes:
        scores = Ridge(solver="lsqr").fit(features(train), targets.astype(np.float64))
        return lambda split: (scores.predict(features(split)).astype(np.float64), {})
    model = LogisticRegression(max_iter=1000).fit(features(train), targets)

    def answer(split: Split) -> Told:
        probabilities = np.zeros((len(split.labels), classes))
        probabilities[:, model.classes_] = model.predict_proba(features(split))
        return _of_classes(probabilities)

    return answer


def _features(train: Split) -> Callable[[Split], Any]:
    """tf-idf of words and pairs of words, u; of pairs of texts u, v, |u - v|, u * v and their cosine: (N, F) sparse."""
    from scipy import sparse
    from sklearn.feature_extraction.text import TfidfVectorizer

    made = TfidfVectorizer(ngram_range=(1, 2), max_features=FEATURES, sublinear_tf=True, token_pattern=WORDS)
    made.fit([*train.text_a, *(train.text_b or ())])

    def features(split: Split) -> Any:
        first = made.transform(split.text_a)
        if split.text_b is None:
            return first
        second = made.transform(split.text_b)
        both = first.multiply(second).tocsr()
        cosine = sparse.csr_matrix(both.sum(1))
        return sparse.hstack([first, second, abs(first - second), both, cosine], format="csr")

    return features
