"""Starts a student from its teacher's weights (How to Distill your BERT, Wang et al. 2023, section 3)."""

from __future__ import annotations

import torch
from torch import Tensor
from transformers import PreTrainedModel

from harness.errors import UserError
from harness.modeling.bases import Emitter
from harness.modeling.signals import layers_path


def copy_layers(
    student: PreTrainedModel, teacher: PreTrainedModel, layers: tuple[int, ...], embeddings: bool
) -> tuple[str, ...]:
    """Copy teacher layer `layers[i]` (1-based) into student layer i + 1, and the embeddings if asked.

    No layers: none is copied. Pooler and head are never copied: the published students take embeddings and layers
    only. Nothing is copied unless everything fits. Returns the names copied, as the student's base model has them.
    Raises UserError if the two are of different kinds, the number of layers is not the student's, or a weight is
    missing or of another shape.
    """
    teacher = teacher.converted() if isinstance(teacher, Emitter) else teacher
    kinds = student.config.model_type, teacher.config.model_type
    if kinds[0] != kinds[1]:
        raise UserError(f"a {kinds[0]} student cannot take layers of a {kinds[1]} teacher: both must be of one kind")
    path = layers_path(student)
    depth = len(list(student.base_model.get_submodule(path).children()))
    if layers and len(layers) != depth:
        raise UserError(f"{len(layers)} teacher layers were given for a student of {depth}")
    groups = [(f"{path}.{i}.", f"{layers_path(teacher)}.{layer - 1}.") for i, layer in enumerate(layers)]
    if embeddings:
        groups += [(f"{name}.", f"{name}.") for name in _before_layers(student, path)]
    target, source = student.base_model.state_dict(), teacher.base_model.state_dict()
    pairs = [pair for ours, theirs in groups for pair in _matched(target, source, ours, theirs)]
    with torch.no_grad():
        for to, origin in pairs:
            target[to].copy_(source[origin])
    return tuple(to for to, _ in pairs)


def _before_layers(model: PreTrainedModel, path: str) -> list[str]:
    """The parts of the base model that come before the layers: `embeddings`, in ELECTRA also their projection."""
    names = [name for name, _ in model.base_model.named_children()]
    return names[: names.index(path.split(".")[0])]


def _matched(target: dict[str, Tensor], source: dict[str, Tensor], ours: str, theirs: str) -> list[tuple[str, str]]:
    """(student name, teacher name) of each weight under the prefixes. Raises UserError for the first that differs."""
    pairs = [(name, theirs + name[len(ours) :]) for name in target if name.startswith(ours)]
    left = {name for name in source if name.startswith(theirs)} - {origin for _, origin in pairs}
    if left:
        raise UserError(f"the teacher's {min(left)} has no counterpart in the student")
    for to, origin in pairs:
        if origin not in source:
            raise UserError(f"the student's {to} cannot be initialised: the teacher has no {origin}")
        if target[to].shape != source[origin].shape:
            raise UserError(
                f"the student's {to} of shape {tuple(target[to].shape)} cannot be initialised from the "
                f"teacher's {origin} of shape {tuple(source[origin].shape)}"
            )
    return pairs
