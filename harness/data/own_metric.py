"""A metric of the user's own: a function that a plugin gives its task, `@task(NAME, metric=FUNCTION)`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from harness import declaring
from harness.data import metric_names
from harness.data.declaration import Declaration, Metric
from harness.errors import UserError, failed_at
from harness.registry import TASKS

if TYPE_CHECKING:
    import numpy as np

HIGHEST = 1 + 1e-6
TAKES = ["predictions", "labels"]  # by these names: functions of scikit-learn take the labels first


def checked(task: str, given: object) -> Metric | None:
    """The function that a task gives as its metric, None for a name. Raises UserError for one that cannot be."""
    if not callable(given):
        return None
    name = getattr(given, "__name__", "")
    if not name.isidentifier():
        raise UserError(f"the metric of task {task} must be a function with a name, which tables show, not {given!r}")
    if name in {*metric_names.ALL, *metric_names.ALIASES, *metric_names.QUANTITIES}:
        raise UserError(f"the metric of task {task} is called {name}, as one of ours is: give it another name")
    if name in metric_names.LESS:
        raise UserError(f"the metric of task {task}, {name}, is best when lowest, but tables take the highest")
    declaring.takes(f"task {task}", f"its metric {name}", given, TAKES)
    if (takes := list(inspect.signature(given).parameters)[:2]) != TAKES:
        raise UserError(
            f"the metric of task {task}, {name}, takes ({', '.join(takes)}) but must take (predictions, labels): write "
            "a function of these that calls it"
        )
    return given


def names(task: str) -> set[str]:
    """What the function is called that a task has as its metric; nothing where it has none."""
    metric = _of(task)
    return {metric.__name__} if metric else set()


def _of(task: str) -> Metric | None:
    found: Any = TASKS.known().get(task, (None,))[0]
    return found.metric if isinstance(found, Declaration) else None


def function(task: str, name: str) -> Callable[[np.ndarray, np.ndarray], float]:
    """The metric as the engine calls it, (N,) predictions and (N,) labels -> a finite number of at most 1.

    Raises UserError where the plugin is not loaded. The metric raises it where the plugin's function fails, or gives
    anything else.
    """
    metric = _of(task)
    if metric is None or metric.__name__ != name:
        raise UserError(
            f"metric {name} of task {task} is a function of a plugin, and no plugin that is loaded has it: name its "
            "file with --plugin, or give the function its name again"
        )
    file = TASKS.origin(task)
    who = f"metric {name} of task {task} in {file}"

    def score(predictions: np.ndarray, labels: np.ndarray) -> float:
        try:
            found = metric(predictions.copy(), labels.copy())
            value = float(found)
        except UserError:
            raise
        except Exception as error:
            raise UserError(f"{who}{failed_at(error, file)}") from error
        if value > HIGHEST:
            raise UserError(f"{who} gives {value:g}, but must be at most 1, which is best: tables show it times 100")
        if not math.isfinite(value):  # 0 would be the best of what is never above it
            raise UserError(f"{who} gives {value}, but must give a number of any answers, such as one answer for all")
        return value

    return score
