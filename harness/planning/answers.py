"""What plugins answer as a plan is made: one that fails, or answers something else, is named with its file."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from harness.contracts import LayerMap, ModelInfo, Task
from harness.errors import UserError
from harness.registry import ALL, Registry


class Faulty(UserError):
    """What is wrong with a plugin itself: no reason to leave out a cell, nor what a lenient plan passes over."""


def ask(known: Registry[Any], name: str, method: str, kind: Any, call: Callable[[], Any]) -> Any:
    """What a plugin's method answers, which is of this kind. Raises Faulty otherwise, or where yours fails."""
    who = known.called(name)
    try:
        found = call()
    except UserError:
        raise
    except Exception as error:
        if known.ships(name):
            raise
        raise Faulty(f"{who}: {method} failed: {type(error).__name__}: {error}{_where(error)}") from error
    if not isinstance(found, kind):
        raise Faulty(f"{who}: {method} returned {found!r}, but must return a {kind.__name__}")
    return found


def described(known: Registry[Any], name: str, method: str, task: Task, call: Callable[[], Any]) -> ModelInfo:
    """What a plugin says of its model on a task, which is of numbers that fit. Raises Faulty otherwise."""
    info: ModelInfo = ask(known, name, method, ModelInfo, call)
    who = f"{known.called(name)}: {method} returned a ModelInfo whose"
    for what in ("layers", "width", "heads", "vocabulary", "labels", "sentence_width", "embedding_width", "operations"):
        if type(number := getattr(info, what)) is not int or number < 0:
            raise Faulty(f"{who} {what} must be a whole number, not {number!r}")
    if info.labels != task.outputs:
        raise Faulty(f"{who} labels is {info.labels}, but task {task.name} has {task.outputs} (task.outputs)")
    if not isinstance(info.emits, (set, frozenset)):
        raise Faulty(f"{who} emits must be a set of signals, not {info.emits!r}")
    return info


def check_layers(known: Registry[Any], name: str, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> None:
    """Raise Faulty for pairs of layers that a student and its teacher do not have."""
    for ours, theirs in layers.pairs:
        if not (0 <= ours <= student.layers and 0 <= theirs <= teacher.layers):
            raise Faulty(
                f"{known.called(name)}: layer_map pairs layer {ours} of {student.layers} with "
                f"layer {theirs} of {teacher.layers} of {teacher.name}"
            )


@contextmanager
def named() -> Iterator[None]:
    """What fails within a plugin of yours is told as a sentence with its file and line."""
    try:
        yield
    except UserError:
        raise
    except (Exception, SystemExit) as error:
        if where := _where(error):
            what = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else "it calls sys.exit"
            raise Faulty(f"a plugin failed: {what}{where}") from error
        raise


def _where(error: BaseException) -> str:
    """Where in a plugin file of yours an error came about, or ""."""
    yours = {origin for known in ALL.values() for name, (_, origin) in known.known().items() if not known.ships(name)}
    frames = traceback.extract_tb(error.__traceback__)
    return next((f" ({f.filename}, line {f.lineno}, {f.name})" for f in reversed(frames) if f.filename in yours), "")
