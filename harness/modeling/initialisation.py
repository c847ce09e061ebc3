"""Starts a student from its teacher's weights (How to Distill your BERT, Wang et al. 2023, section 4)."""

from __future__ import annotations

import copy
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedModel

from harness.errors import UserError
from harness.modeling.bases import Emitter
from harness.modeling.layers import lists_of_layers, parts, places


def copy_layers(student: PreTrainedModel, teacher: PreTrainedModel, layers: tuple[int, ...]) -> tuple[str, ...]:
    """Copy teacher layer `layers[i]` (1-based) into student layer i + 1, and the embeddings.

    With layers, all else that the base model holds comes along: relative positions, a last normalisation. No layers:
    none is copied. Pooler and head are never copied: the published students take embeddings and layers only. Nothing is
    copied unless everything fits. Returns the names copied, as the student's base model has them. Raises UserError if
    the two are of different kinds, the number of layers is not the student's, a layer computes otherwise than the one
    it is to take, or a weight is missing or of another shape.
    """
    teacher = teacher.converted() if isinstance(teacher, Emitter) else teacher
    kinds = student.config.model_type, teacher.config.model_type
    if kinds[0] != kinds[1]:
        raise UserError(f"a {kinds[0]} student cannot take layers of a {kinds[1]} teacher: both must be of one kind")
    depth = student.config.num_hidden_layers
    if layers and len(layers) != depth:
        raise UserError(f"{len(layers)} teacher layers were given for a student of {depth}")
    target, source = student.base_model.state_dict(), teacher.base_model.state_dict()
    pairs = []
    for i, layer in enumerate(layers, start=1):
        for own, given in zip(places(student, i), places(teacher, layer), strict=True):
            names = [name.removeprefix(f"{own}.") for name in target if name.startswith(f"{own}.")]
            names += [name.removeprefix(f"{given}.") for name in source if name.startswith(f"{given}.")]
            pairs += [(f"{own}.{name}", f"{given}.{name}") for name in dict.fromkeys(names)]
    pairs = list(dict.fromkeys(pairs))  # layers may be the same weights
    if twice := [to for to, _ in pairs if len({origin for name, origin in pairs if name == to}) > 1]:
        raise UserError(f"layers of the student share {twice[0]}, but are to start from layers that do not share it")
    pairs += [(name, name) for name in dict.fromkeys(_embeddings(student) + _embeddings(teacher))]
    for to, origin in pairs:
        if to not in target:
            raise UserError(f"the teacher's {origin} has no counterpart in the student")
        if origin not in source:
            raise UserError(f"the student's {to} cannot be initialised: the teacher has no {origin}")
        if target[to].shape != source[origin].shape:
            raise UserError(
                f"the student's {to} of shape {tuple(target[to].shape)} cannot be initialised from the "
                f"teacher's {origin} of shape {tuple(source[origin].shape)}"
            )
    if layers:
        if refused := built_otherwise(student, teacher, layers):
            raise UserError(refused)
        # A part whose shape follows the number of layers stays: `examination` tells if the layers need it.
        same = [name for name in _outside(student) if name in source and target[name].shape == source[name].shape]
        pairs += [(name, name) for name in same if (name, name) not in pairs]
    with torch.no_grad():
        for to, origin in pairs:
            target[to].copy_(source[origin])
    return tuple(to for to, _ in pairs)


def built_otherwise(student: PreTrainedModel, teacher: PreTrainedModel, layers: tuple[int, ...]) -> str:
    """Why layers of a student, as they are built, cannot take those of the teacher, or ""."""
    # What has run may remember how: where the two seem to differ, they are compared as they were built.
    found = _unlike(layers, _traits(student), _traits(teacher))
    return found and _unlike(layers, _traits(student), _traits(blank(teacher)))


def _unlike(layers: tuple[int, ...], own: list[dict[str, object]], given: list[dict[str, object]]) -> str:
    """Why a student's layers with these traits cannot take those of the teacher, or ""."""
    numbers = _numbers(own) | _numbers(given)
    for i, layer in enumerate(layers, start=1):
        ours, theirs = own[i - 1], given[layer - 1]
        for name in sorted((ours.keys() | theirs.keys()) - numbers):
            if ours.get(name) != theirs.get(name):
                return (
                    f"layer {i} of a student cannot start from layer {layer} of the teacher: its {name} is "
                    f"{ours.get(name)}, the teacher's {theirs.get(name)}"
                )
    return ""


def traits_that_differ(model: PreTrainedModel) -> list[dict[str, object]]:
    """Of each layer those traits that not all of them share. Layer i of a smaller model is built like the i-th."""
    traits = _traits(blank(model))
    names = {name for one in traits for name in one if any(other.get(name) != one[name] for other in traits)}
    return [{name: one.get(name) for name in sorted(names - _numbers(traits))} for one in traits]


def blank(model: PreTrainedModel, layers: int = 0) -> PreTrainedModel:
    """A base model of the same kind without weights, on the meta device, with as many layers or the model's own."""
    config = copy.deepcopy(model.config)
    if layers:
        config.num_hidden_layers = layers
    with torch.device("meta"):
        return cast(PreTrainedModel, cast(Any, type(model.base_model))(config))


def _traits(model: PreTrainedModel) -> list[dict[str, object]]:
    """Of each layer what it computes with beside weights and dropout: its modules' kinds and their plain attributes."""
    found = []
    for layer in parts(model):
        traits: dict[str, object] = {}
        for i, part in enumerate(layer):
            for within, module in part.named_modules():
                place = (f"{i}.{within}" if len(layer) > 1 else within).rstrip(".")
                traits[place or "kind"] = type(module).__name__
                for name, value in vars(module).items() if not isinstance(module, nn.Dropout) else ():
                    plain = not name.startswith(("_", "signal_")) and name != "training"  # a mode, and what we note
                    if plain and (value is None or isinstance(value, (bool, int, float, str))):
                        traits[f"{place}.{name}".lstrip(".")] = value
        found.append(traits)
    return found


def _numbers(traits: list[dict[str, object]]) -> set[str]:
    """The traits that count the layers."""
    return {
        name
        for name, first in traits[0].items()
        if type(first) is int and len(traits) > 1 and all(one.get(name) == first + i for i, one in enumerate(traits))
    }


def _outside(model: PreTrainedModel) -> list[str]:
    """The weights of the base model outside its layers and pooler."""
    inside = (*(f"{name}." for name in lists_of_layers(model)), "pooler.")
    return [name for name in model.base_model.state_dict() if not name.startswith(inside)]


def _embeddings(model: PreTrainedModel) -> list[str]:
    """Those of all that comes before the layers, in ELECTRA a projection too, and of tables of vectors anywhere."""
    children = [name for name, _ in model.base_model.named_children()]
    before = children[: min(children.index(name.split(".")[0]) for name in lists_of_layers(model))]
    before += [name for name, module in model.base_model.named_modules() if isinstance(module, nn.Embedding)]
    return [name for name in _outside(model) if name.startswith(tuple(f"{part}." for part in before))]


@torch.no_grad()
def randomise(model: PreTrainedModel) -> None:
    """Draw every weight anew, as BERT starts (Devlin et al., 2019): matrices normal, norms 1, biases 0.

    The deviation is the configuration's `initializer_range`, 0.02 where it has none.
    """
    deviation = getattr(model.config, "initializer_range", None) or 0.02
    for name, weight in model.named_parameters():
        if weight.dim() > 1:
            weight.normal_(0.0, deviation)
        else:
            weight.fill_(0.0 if name.endswith("bias") else 1.0)
