"""A student with the weights it starts from: random, its teacher's, those of a general distillation, a file's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import load_file

from harness import registry
from harness.contracts import Task
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.modeling.bases import Student, StudentConfig
from harness.training.loop import TrainingFailure
from harness.training.place import Place, teacher_source


def start(
    specification: Mapping[str, Any], place: Place, own: Mapping[str, Any], task: Task, teacher: Any
) -> tuple[Student, dict[str, Any]]:
    """`started_student`, whose refusals concern this run alone: a TrainingFailure, which stops no other run."""
    try:
        return started_student(specification, place, own, task, teacher)
    except UserError as error:
        raise TrainingFailure(str(error)) from error


def started_student(
    specification: Mapping[str, Any], place: Place, own: Mapping[str, Any], task: Task, teacher: Any
) -> tuple[Student, dict[str, Any]]:
    """The student of a run, and what is recorded of how it started.

    own: its settings; teacher.model() gives the teacher's weights where the initialisation copies some. Draws random
    weights from torch's global generator. Raises UserError for a `pretrained` run that is missing or does not fit.
    """
    plugin = registry.STUDENTS.get(specification["student"])
    source = teacher_source(place.teacher, place.argument)
    kind, colon, argument = specification["init"].partition(":")
    if kind == "pretrained":
        folder = _weights(place.runs / argument, argument)
        student = _built(plugin, own, source.configuration(), task)
        return student, load_pretrained(student, folder, argument)
    model = teacher.model()
    student = _built(plugin, own, model.config.to_dict(), task)
    init = f"{kind}:{place.files[argument]}" if argument in place.files else specification["init"]
    return student, student.initialise(init, model, source.tokenizer())


def load_pretrained(student: Student, folder: Path, run: str) -> dict[str, Any]:
    """Take every weight from a generally distilled student, but those that answer the task.

    Raises UserError, naming a weight, if the two are not of the same sizes.
    """
    found, own = load_file(folder / "model.safetensors"), student.state_dict()
    names = _check_fits(student, {name: tuple(tensor.shape) for name, tensor in found.items()}, run)
    with torch.no_grad():
        for name in names:
            own[name].copy_(found[name])
    return {"pretrained": run}


def check_pretrained(specification: Mapping[str, Any], teacher: str, argument: str, folder: Path) -> None:
    """Raise UserError if the student of a run cannot start from the weights in `folder`. Nothing is loaded."""
    plugin = registry.STUDENTS.get(specification["student"])
    own = {name: specification["settings"][f"{plugin.name}.{name}"] for name in plugin.hyperparameters}
    configuration = teacher_source(teacher, argument).configuration()
    with torch.device("meta"):
        student = _built(plugin, own, configuration, get_task(specification["task"]))
    with safe_open(folder / "model.safetensors", "pt") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    _check_fits(student, shapes, specification["init"].partition(":")[2])


def _check_fits(student: Student, shapes: Mapping[str, tuple[int, ...]], run: str) -> list[str]:
    """The names of the weights to take. Raises UserError, naming a weight, if one is missing or of another shape."""
    own = student.state_dict()
    wanted = sorted(set(own) - student.head_weights())
    for name in wanted:
        if name not in shapes:
            raise UserError(f"run {run} cannot start this {student.name}: it has no weight {name}")
        if shapes[name] != tuple(own[name].shape):
            raise UserError(
                f"run {run} cannot start this {student.name}: its {name} is {shapes[name]}, "
                f"but {tuple(own[name].shape)} is needed"
            )
    return wanted


def _built(plugin: Any, own: Mapping[str, Any], configuration: Mapping[str, Any], task: Task) -> Student:
    config = StudentConfig(student=plugin.name, settings=dict(own), source=dict(configuration), outputs=task.outputs)
    student: Student = plugin(config)
    return student


def _weights(folder: Path, run: str) -> Path:
    weights = folder / "weights"
    if not (weights / "model.safetensors").is_file() or not (folder / "record.json").is_file():
        raise UserError(f"there is no finished run {run} whose weights a student could start from")
    return weights
