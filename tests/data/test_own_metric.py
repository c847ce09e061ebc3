"""A metric that a plugin gives its task: it chooses epochs, stands in tables, and is part of what the runs are."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.code_versions import fingerprint
from harness.contracts import Task
from harness.data import own
from harness.data.embedded import generate
from harness.errors import UserError
from harness.evaluation.metrics import score
from harness.ledger import Ledger
from harness.registry import TASKS
from tests.conftest import ROOT, Harness
from tests.data.test_new_source import forget as forget

pytestmark = pytest.mark.usefixtures("no_figures")
TASK = Task("graded", "graded", "nearness", ("accuracy", "nearness"), labels=("a", "b", "c"))
SECTION = (ROOT / "docs/plugins/task.md").read_text(encoding="utf-8").partition("## A metric of your own\n")[2]
PLUGIN = re.findall(r"^```python\n(.*?)^```$", SECTION, re.MULTILINE | re.DOTALL)[0]
QUICK = ("--study", "objectives_vs_init", "--objectives", "labels_only", "vanilla_kd", "--inits", "random",
         "--trials", "1", "--seeds", "2")  # fmt: skip
FAST = ("--set", "epochs=1", "teacher.epochs=1", "--workers", "1")


@pytest.fixture(autouse=True)
def forgotten(forget: Callable[[], None]) -> Iterator[None]:
    yield
    own.KNOWN.clear()


def declared(metric: Any) -> None:
    own.task("graded", metric=metric)(lambda: "no.csv")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The plugin of the section, with its data beside it."""
    (tmp_path / "essays.py").write_text(PLUGIN)
    texts = [text for text, *_ in generate("sentiment", 120, 1)[0]]
    lines = "".join(f"{text.replace(',', '')},{1 + len(text) % 4}\n" for text in texts)
    (tmp_path / "essays.csv").write_text(f"text,label\n{lines}")
    return tmp_path


def weighted(predictions: np.ndarray, labels: np.ndarray) -> float:
    """1 less the mean squared distance over that of answers drawn apart from the labels."""
    by_chance = np.mean((predictions[:, None] - labels) ** 2.0)
    return float(1 - np.mean((predictions - labels) ** 2.0) / by_chance)


def test_from_a_function_to_the_table(folder: Path, forked: Harness) -> None:
    """In a process, too, that has not been told of the plugin."""
    done = forked("run", *QUICK, *FAST, "--plugin", "essays.py", "--tasks", "essays", cwd=folder)
    assert done.returncode == 0, done.stderr
    report = forked("report", "--format", "json", cwd=folder)
    assert report.returncode == 0, report.stderr
    told = json.loads(report.stdout)
    (entry,) = (entry for entry in told["entries"] if entry["row"] == "Vanilla KD")
    ledger, values = Ledger(folder / "results"), []
    for run in entry["runs"]:
        found = ledger.predictions(run["run"])
        assert found is not None
        values.append(weighted(found["predictions"], found["labels"]))
        record = ledger.read(run["run"])
        assert record is not None and record["metrics"]["quadratic_kappa"] == pytest.approx(values[-1], abs=1e-12)
    assert len(values) == 2 and entry["metric"] == "quadratic_kappa" and told["detectable"], "and it is tested"
    assert entry["value"] == pytest.approx(100 * np.mean(values), abs=1e-5)


def test_an_edited_metric_is_of_other_runs(folder: Path) -> None:
    edited = folder / "edited.py"
    edited.write_text(PLUGIN.replace("quadratic\")", "linear\")"))
    assert fingerprint(str(edited)) != fingerprint(str(folder / "essays.py"))


def nearness(predictions: np.ndarray, labels: np.ndarray) -> float:
    predictions.sort()  # changes what it was given
    return float(1 - np.abs(predictions - np.sort(labels)).mean())


def test_it_is_computed_with_copies_beside_ours() -> None:
    declared(nearness)
    predictions, labels = np.array([2, 0, 1, 1]), np.array([2, 1, 1, 0])
    assert score(TASK, predictions, labels) == {"accuracy": 0.5, "nearness": 1.0}
    assert predictions.tolist() == [2, 0, 1, 1]


def of_nothing(predictions: np.ndarray, labels: np.ndarray) -> float:
    return float("nan")


def in_percent(predictions: np.ndarray, labels: np.ndarray) -> float:
    return 87.3


def broken(predictions: np.ndarray, labels: np.ndarray) -> Any:
    return {"value": predictions[len(labels)]}


def worded(predictions: np.ndarray, labels: np.ndarray) -> Any:
    return "high"


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        (in_percent, "in_percent of task graded in .*test_own_metric.py gives 87.3, but must be at most 1"),
        (of_nothing, "of_nothing of task graded in .* gives nan, but must give a number of any answers"),
        (broken, "broken of task graded in .*, line [0-9]+, failed: IndexError: index 2 is out of bounds"),
        (worded, "worded of task graded in .*, failed: ValueError: could not convert string to float: 'high'"),
    ],
)
def test_what_it_gives_is_checked(metric: Any, told: str) -> None:
    declared(metric)
    task = Task("graded", "graded", metric.__name__, (metric.__name__,), labels=("a", "b"))
    with pytest.raises(UserError, match=told):
        score(task, np.array([0, 1]), np.array([0, 1]))


def test_one_of_a_plugin_that_is_not_loaded_is_told() -> None:
    declared(in_percent)
    with pytest.raises(UserError, match="metric nearness of task graded is a function of a plugin, and no plugin that"):
        score(TASK, np.array([0, 1]), np.array([0, 1]))


def accuracy(predictions: np.ndarray, labels: np.ndarray) -> float:
    return 0.5


def alone(predictions: np.ndarray) -> float:
    return 0.5


def swapped(y_true: np.ndarray, y_pred: np.ndarray) -> float:
    return 0.5


def mean_absolute_error(predictions: np.ndarray, labels: np.ndarray) -> float:
    return 0.5


@pytest.mark.parametrize(
    ("metric", "told"),
    [
        (swapped, r"swapped, takes \(y_true, y_pred\) but must take \(predictions, labels\): write a function"),
        (mean_absolute_error, "mean_absolute_error, is best when lowest, but tables take the highest"),
        (lambda predictions, labels: 1.0, "must be a function with a name, which tables show"),
        (partial(nearness), "must be a function with a name, which tables show"),
        (accuracy, "is called accuracy, as one of ours is: give it another name"),
        (alone, r"task graded: its metric alone takes \(predictions\) but must take \(predictions, labels\)"),
    ],
)
def test_what_can_be_no_metric_is_refused_as_it_is_declared(metric: Any, told: str) -> None:
    with pytest.raises(UserError, match=told):
        declared(metric)
    assert "graded" not in TASKS.known()


def test_another_can_be_chosen_and_a_misspelt_one_is_told(folder: Path, call: Harness) -> None:
    asked = ("plan", *QUICK, "--plugin", folder / "essays.py", "--tasks", "essays", "--set")
    assert "metric macro_f1" in call(*asked, "essays.metric=macro_f1").stdout
    misspelt = call(*asked, "essays.metric=quadratic_kapa")
    told = "unknown metric 'quadratic_kapa' of task essays: did you mean quadratic_kappa?"
    assert misspelt.returncode == 2 and told in misspelt.stderr
