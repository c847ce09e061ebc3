"""What plugins answer as a plan is made: one that fails, or answers something else, is named with its file."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness.contracts import LayerMap, ModelInfo, Task, Want
from harness.errors import UserError
from harness.registry import ALL, OBJECTIVES, TEACHERS, Registry

# What a ModelInfo says of a model, and how its configuration calls that.
SIZES = {
    "layers": "num_hidden_layers", "width": "hidden_size", "heads": "num_attention_heads", "vocabulary": "vocab_size",
}  # fmt: skip

# The settings of a pre-training: their type, and between what they are.
_WHOLE = (int, 1, 10**9)
PRETRAINING: dict[str, tuple[Any, float, float]] = {
    "examples": _WHOLE, "steps": _WHOLE, "batch_size": _WHOLE, "max_length": (int, 4, 65_536),
    "learning_rate": ((int, float), 0.0, 100.0), "warmup_ratio": ((int, float), 0.0, 1.0),
    "weight_decay": ((int, float), 0.0, 100.0), "mask_probability": ((int, float), 0.01, 0.9),
}  # fmt: skip


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
        raise Faulty(f"{who}: {method} failed: {type(error).__name__}: {error}{where(error)}") from error
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


def configured(teacher: Any) -> dict[str, Any]:
    """A teacher's configuration. Raises Faulty where it says something else."""
    return ask(TEACHERS, teacher.name, "configuration", dict, teacher.configuration)


def check_configured(teacher: Any, info: ModelInfo) -> None:
    """Raise Faulty for a teacher's configuration, of which students are built, that is none, or of others than `info`.

    Decoders are none that students could be built alike.
    """
    from transformers import AutoConfig  # loads torch, which early refusals must not wait for

    found = configured(teacher)
    if TEACHERS.ships(teacher.name) or not info.students_alike:
        return
    who = TEACHERS.called(teacher.name)
    try:
        known = AutoConfig.for_model(**found)
    except Exception as error:  # whatever the library raises of what is none
        told = " ".join(f"{type(error).__name__}: {error}".split())[:200]
        raise Faulty(f"{who}: configuration is of no model that transformers knows: {told}") from error
    for ours, theirs in SIZES.items():
        if (size := getattr(known, theirs, None)) is not None and size != getattr(info, ours):
            said = getattr(info, ours)
            raise Faulty(f"{who}: info says {ours}={said}, but configuration, of which students are built, {size}")


def parts_of(teacher: Any) -> Sequence[Path] | None:
    """The files and folders that a teacher is read from, or None. Raises Faulty where it says something else."""
    found = ask(TEACHERS, teacher.name, "parts", object, teacher.parts)
    listed = isinstance(found, Sequence) and all(isinstance(part, Path) for part in found)
    if not (found is None or listed):
        raise Faulty(f"{TEACHERS.called(teacher.name)}: parts returned {found!r}, but must return Paths, or None")
    return found


def answered(teacher: Any, task: Task) -> bool:
    """Whether a teacher's weights answer a task as they are. Raises Faulty where it says neither."""
    return bool(ask(TEACHERS, teacher.name, "answers", bool, lambda: teacher.answers(task)))


def pretraining_of(teacher: Any) -> Mapping[str, Any] | None:
    """The settings of a teacher's pre-training, or None. Raises Faulty where they are not all that it has."""
    found: Any = ask(TEACHERS, teacher.name, "pretraining", object, teacher.pretraining)
    if found is None or TEACHERS.ships(teacher.name):
        return found
    who = f"{TEACHERS.called(teacher.name)}: pretraining returned"
    if not isinstance(found, Mapping):
        raise Faulty(f"{who} {found!r}, but must return a Mapping of settings, or None")
    for name, (kind, low, high) in PRETRAINING.items():
        if name not in found:
            raise Faulty(f"{who} no {name!r}: it must have {', '.join(PRETRAINING)}")
        value = found[name]
        if not isinstance(value, kind) or isinstance(value, bool) or not low <= value <= high:
            raise Faulty(f"{who} {name} {value!r}, but it must be a number from {low:g} to {high:g}")
    return found


def check_members(teacher: Any) -> None:
    """Raise Faulty for members of an ensemble that are no teachers."""
    from harness.modeling.bases import Teacher  # loads torch, which early refusals must not wait for

    found = teacher.members
    if not isinstance(found, (list, tuple)) or any(not isinstance(one, Teacher) for one in found):
        told = f"members is a sequence of teachers, not {found!r}: harness.registry.teacher_named makes one of a name"
        raise Faulty(f"{TEACHERS.called(teacher.name)}: {told}")


def wanted(name: str, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
    """What an objective wants of student and teacher. Raises Faulty where it says something else."""
    found = ask(OBJECTIVES, name, "wants", object, lambda: OBJECTIVES.get(name).wants(student, teacher, layers))
    if not (isinstance(found, tuple) and len(found) == 2 and all(isinstance(want, Want) for want in found)):
        told = f"wants returned {found!r}, but must return two Wants, of student and teacher"
        raise Faulty(f"{OBJECTIVES.called(name)}: {told}")
    return found


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
        if place := where(error):
            what = f"{type(error).__name__}: {error}" if isinstance(error, Exception) else "it calls sys.exit"
            raise Faulty(f"a plugin failed: {what}{place}") from error
        raise


def where(error: BaseException) -> str:
    """Where in a plugin file of yours an error came about, or ""."""
    yours = {origin for known in ALL.values() for name, (_, origin) in known.known().items() if not known.ships(name)}
    frames = traceback.extract_tb(error.__traceback__)
    return next((f" ({f.filename}, line {f.lineno}, {f.name})" for f in reversed(frames) if f.filename in yours), "")
