"""Which teacher layers a student starts from and learns from. Layers are 1-based; embedding outputs are no layer."""

from __future__ import annotations

import re

from harness.contracts import LayerMap
from harness.errors import UserError, unknown

NAMES = ("random", "random:embeddings", "every", "first", "last")
PREFIX = "teacher_layers:"


def canonical_init(init: str) -> str:
    """The one spelling of an initialisation: "teacher_layers: 01, 8,12" is "1,8,12".

    "random" takes nothing from the teacher, "random:embeddings" its embeddings, all others embeddings and layers.
    Raises UserError for anything but these, `every`, `first`, `last` or a list of layers.
    """
    text = "".join(init.split())
    name = text.removeprefix(PREFIX)
    if name in NAMES and not (name != text and name.startswith("random")):
        return name
    if not re.fullmatch(r"[0-9]{1,9}(,[0-9]{1,9})*", name):
        if name and ("," in name or not re.search("[a-zA-Z]", name)):
            raise UserError(
                f"initialisation {init!r} is not a list of layers: it must be whole numbers "
                "separated by commas, like 1,8,12"
            )
        raise unknown("initialisation", init, (*NAMES, "a list like 1,8,12"))
    numbers = [int(number) for number in name.split(",")]
    if 0 in numbers:
        raise UserError(f"initialisation {init!r} names layer 0, but layers are counted from 1 (embeddings are not)")
    return ",".join(map(str, numbers))


def every(student_layers: int, teacher_layers: int) -> tuple[int, ...]:
    """Evenly spread: for student layer i the layer floor(i * teacher_layers / student_layers + 1/2), at least 1."""
    return tuple(
        max(1, (2 * i * teacher_layers + student_layers) // (2 * student_layers)) for i in range(1, student_layers + 1)
    )


def layers_of(init: str, student_layers: int, teacher_layers: int) -> tuple[int, ...]:
    """The teacher layer that each student layer is copied from; empty for the random initialisations.

    Raises UserError for an unknown initialisation, a list that does not have one layer for each of the student's, or
    a layer that the teacher does not have.
    """
    init = canonical_init(init)
    if init.startswith("random"):
        return ()
    if init == "every":
        return every(student_layers, teacher_layers)
    if init == "first":
        chosen = tuple(range(1, student_layers + 1))
    elif init == "last":
        chosen = tuple(range(teacher_layers - student_layers + 1, teacher_layers + 1))
    else:
        chosen = tuple(int(number) for number in init.split(","))
        if len(chosen) != student_layers:
            raise UserError(f"initialisation {init} lists {_layers(len(chosen))}, but the student has {student_layers}")
    if init in ("first", "last") and student_layers > teacher_layers:
        raise UserError(f"initialisation {init} needs {_layers(student_layers)}, but the teacher has {teacher_layers}")
    if missing := [layer for layer in chosen if layer > teacher_layers]:
        raise UserError(
            f"initialisation {init} names layer {missing[0]}, but the teacher's layers are 1 to {teacher_layers}"
        )
    return chosen


def layer_map(init: str, student_layers: int, teacher_layers: int) -> LayerMap:
    """Each student layer learns from the teacher layer that initialised it; a random student through `every`.

    Raises UserError as `layers_of`.
    """
    teachers = layers_of(init, student_layers, teacher_layers) or every(student_layers, teacher_layers)
    return LayerMap(tuple(enumerate(teachers, start=1)))


def _layers(count: int) -> str:
    return "1 layer" if count == 1 else f"{count} layers"
