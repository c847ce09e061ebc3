import dataclasses
import math
import shutil
import warnings
from pathlib import Path

import numpy as np
import pytest

from harness.data import metric_names
from harness.data.tasks import get_task
from harness.evaluation import metrics
from harness.evaluation.metrics import graded, predictions_of, score
from harness.registry import TASKS


def test_classes_by_hand():
    """3 true positives, 1 false positive, 2 false negatives, 4 true negatives."""
    labels = [1, 1, 1, 1, 1, 0, 0, 0, 0, 0]
    predictions = [1, 1, 1, 0, 0, 1, 0, 0, 0, 0]
    assert score(get_task("mrpc"), predictions, labels) == pytest.approx(
        {"accuracy": 0.7, "f1": 6 / 9, "accuracy_f1_mean": (0.7 + 6 / 9) / 2}
    )
    matthews = (3 * 4 - 1 * 2) / math.sqrt((3 + 1) * (3 + 2) * (4 + 1) * (4 + 2))
    assert score(get_task("cola"), predictions, labels) == pytest.approx({"matthews": matthews, "accuracy": 0.7})


def test_several_classes_by_hand():
    """Of classes 0, 1, 2: right 1 of 1, 1 of 2, 1 of 1; predicted once, once and twice."""
    task = dataclasses.replace(get_task("mnli"), metrics=(*metric_names.CLASSES,))
    f1 = (1, 2 / 3, 2 / 3)
    assert score(task, [0, 1, 2, 2], [0, 1, 2, 1]) == pytest.approx(
        {
            "accuracy": 3 / 4,
            "macro_f1": sum(f1) / 3,
            "weighted_f1": (f1[0] + 2 * f1[1] + f1[2]) / 4,
            "macro_precision": (1 + 1 + 1 / 2) / 3,
            "balanced_accuracy": (1 + 1 / 2 + 1) / 3,
            "matthews": (3 * 4 - (1 + 2 + 2)) / math.sqrt((16 - 6) * (16 - 6)),
            "kappa": (3 / 4 - 5 / 16) / (1 - 5 / 16),
        }
    )
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert all(math.isfinite(value) for value in score(task, [1, 1], [0, 0]).values())


def test_scores_of_own_tasks_by_hand():
    task = dataclasses.replace(get_task("stsb"), metrics=("kendall", "r2"))
    assert score(task, [1.0, 2.0, 4.0, 3.0], [1.0, 2.0, 3.0, 4.0]) == pytest.approx({"kendall": 4 / 6, "r2": 1 - 2 / 5})
    assert score(task, [1.0, 2.0], [1.0, 1.0]) == {"kendall": 0.0, "r2": 0.0}


def test_scores_by_hand():
    """Deviations (-1.5, -.5, .5, 1.5) and (-2, -1, 0, 3): Pearson 8/sqrt(5 * 14); the order is the same."""
    found = score(
        get_task("stsb"), np.array([1.0, 2.0, 3.0, 4.0], np.float32), np.array([0.0, 1.0, 2.0, 5.0], np.float32)
    )
    pearson = 8 / math.sqrt(5 * 14)
    assert found == pytest.approx(
        {"pearson": pearson, "spearman": 1.0, "pearson_spearman_mean": (pearson + 1) / 2}, abs=1e-12
    )


def test_spearman_with_ties_by_hand():
    """Ranks (1.5, 1.5, 3) and (1, 2, 3): Pearson of the ranks is 1.5 / sqrt(1.5 * 2)."""
    assert score(get_task("stsb"), [1, 1, 9], [1, 2, 3])["spearman"] == pytest.approx(1.5 / math.sqrt(3))


def test_binned_scores_are_correlated_by_their_values():
    task = get_task("stsb_classes")
    logits = np.zeros((3, 21))
    logits[[0, 1, 2], [0, 5, 20]] = 1
    predictions = predictions_of(task, logits)
    assert predictions.tolist() == [1.0, 2.0, 5.0]
    assert score(task, predictions, [0, 5, 20]) == pytest.approx(dict.fromkeys(task.metrics, 1.0))
    assert score(task, predictions, [20, 5, 0])["spearman"] == pytest.approx(-1.0)


def test_predictions_of_classes_and_scores():
    assert predictions_of(get_task("rte"), np.array([[0.1, 0.2], [3.0, -1.0]])).tolist() == [1, 0]
    assert predictions_of(get_task("stsb"), np.array([[0.25], [4.5]], np.float32)).tolist() == [0.25, 4.5]
    assert predictions_of(get_task("qnli_ranking"), np.array([[0.25], [-4.5], [3.0]])).tolist() == [0, 1, 0]


@pytest.mark.parametrize("name", TASKS.names())
@pytest.mark.parametrize("size", [1, 5])
def test_constant_predictions_are_never_nan(name, size):
    task = get_task(name)
    labels = np.arange(size) % task.outputs if task.classification else np.arange(size) / 2
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for constant in (0, 1):
            found = score(task, np.full(size, constant), labels)
            assert tuple(found) == task.metrics and all(map(math.isfinite, found.values()))
            assert all(found[name] == 0 for name in ("matthews", "pearson", "spearman") if name in found)
    assert score(get_task("mrpc"), [0, 0], [0, 0])["f1"] == 0.0


@pytest.mark.parametrize(("predictions", "labels"), [([1, 0], [1]), ([], []), ([[1], [0]], [1, 0])])
def test_wrong_shapes_are_refused(predictions, labels):
    with pytest.raises(ValueError, match="one prediction per label"):
        score(get_task("rte"), predictions, labels)


def test_predictions_that_are_no_numbers_are_refused():
    with pytest.raises(ValueError, match="not finite"):
        score(get_task("stsb"), [1.0, math.nan], [1.0, 2.0])


def test_every_metric_of_every_task_exists():
    found = {metric for name in TASKS.names() for metric in get_task(name).metrics}
    assert found <= {*metric_names.ALL} == {*metrics.METRICS, *metrics.MEANS}


# ---------------------------------------------------------------- the evaluate module

SCRIPT = Path(metrics.__file__).with_name("glue_metric.py")


@pytest.mark.parametrize("name", TASKS.names())
def test_evaluate_module_gives_the_same(name):
    from harness.evaluation.glue_metric import GlueMetric

    task, random = get_task(name), np.random.default_rng(0)
    logits = random.normal(size=(40, task.outputs))
    labels = random.integers(task.outputs, size=40) if task.classification else random.uniform(0, 5, 40)
    predictions = predictions_of(task, logits)
    metric = GlueMetric(config_name=name, keep_in_memory=True)
    for part in (slice(0, 15), slice(15, 40)):
        metric.add_batch(predictions=predictions[part], references=labels[part])
    assert metric.compute() == score(task, predictions, labels)


def test_evaluate_loads_the_file_without_a_network(tmp_path, monkeypatch):
    import evaluate

    monkeypatch.setattr(evaluate.config, "HF_MODULES_CACHE", str(tmp_path / "modules"))
    metric = evaluate.load(str(SCRIPT), "mrpc", cache_dir=str(tmp_path), experiment_id="test")
    assert metric.compute(predictions=[1, 0, 1], references=[1, 1, 1]) == pytest.approx(
        {"accuracy": 2 / 3, "f1": 0.8, "accuracy_f1_mean": (2 / 3 + 0.8) / 2}
    )
    shutil.rmtree(tmp_path)


def test_what_predictions_rest_on_is_kept_in_single_precision():
    logits = np.array([[0.0, np.log(3.0)], [1000.0, -1000.0], [20.0, 0.0]], np.float32)
    found = graded(get_task("sst2"), logits)["probabilities"]
    assert found.dtype == np.float32
    assert found[:2] == pytest.approx(np.array([[0.25, 0.75], [1.0, 0.0]]))
    assert found[2, 1] == pytest.approx(2.0612e-9, rel=1e-4)  # which half precision has not
    assert graded(get_task("stsb_classes"), np.zeros((2, 21)))["probabilities"].shape == (2, 21)
    scores = graded(get_task("qnli_ranking"), np.array([[0.5], [-2.0]]))
    assert scores.keys() == {"scores"} and scores["scores"].tolist() == [0.5, -2.0]
    assert graded(get_task("similarity"), np.array([[0.5]])) == {}, "a score is the prediction itself"
