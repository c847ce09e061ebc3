"""A student with the weights it starts from: random, its teacher's, those of a general distillation, a file's."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file

from harness import registry
from harness.contracts import Task
from harness.errors import UserError
from harness.modeling.bases import Student, StudentConfig
from harness.training.place import Place, teacher_source


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
    heads = student.head_weights()
    for name in sorted(set(own) - heads):
        if name not in found:
            raise UserError(f"run {run} cannot start this {student.name}: it has no weight {name}")
        if found[name].shape != own[name].shape:
            raise UserError(
                f"run {run} cannot start this {student.name}: its {name} is {tuple(found[name].shape)}, "
                f"but {tuple(own[name].shape)} is needed"
            )
    with torch.no_grad():
        for name in sorted(set(own) - heads):
            own[name].copy_(found[name])
    return {"pretrained": run}


def _built(plugin: Any, own: Mapping[str, Any], configuration: Mapping[str, Any], task: Task) -> Student:
    config = StudentConfig(student=plugin.name, settings=dict(own), source=dict(configuration), outputs=task.outputs)
    student: Student = plugin(config)
    return student


def _weights(folder: Path, run: str) -> Path:
    weights = folder / "weights"
    if not (weights / "model.safetensors").is_file() or not (folder / "record.json").is_file():
        raise UserError(f"there is no finished run {run} whose weights a student could start from")
    return weights
