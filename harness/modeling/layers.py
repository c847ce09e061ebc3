"""Where an encoder of transformers keeps its layers, and how one is built of chosen layers of a larger one."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, cast

import torch
from torch import nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.initialization import no_init_weights

BUILT_LIKE = "built_like"  # beside the teacher's configuration: the layers of it that a student's are built like


def lists_of_layers(model: PreTrainedModel) -> tuple[str, ...]:
    """The names, within `model.base_model`, of the lists that hold the encoder's layers ("encoder.layer").

    The outermost first list of that length and those beside it, which hold further parts of each layer (XLM); where
    layers share weights, the list of those there are (ALBERT). Empty for a model that keeps its layers otherwise.
    `harness.modeling.examination` tells whether that was right.
    """
    depth = getattr(model.config, "num_hidden_layers", None)
    for length in dict.fromkeys((depth, getattr(model.config, "num_hidden_groups", depth))):
        for name, module in model.base_model.named_modules():  # outermost first
            if isinstance(module, nn.ModuleList) and len(module) == length:
                parent = name.rpartition(".")[0]
                beside = model.base_model.get_submodule(parent).named_children()
                lists = [n for n, one in beside if isinstance(one, nn.ModuleList) and len(one) == length]
                return tuple(f"{parent}.{n}".lstrip(".") for n in lists)
    return ()


def shared(model: PreTrainedModel) -> bool:
    """Whether some of the layers are the same weights, run again."""
    lists = lists_of_layers(model)
    return bool(lists) and len(_list(model, lists[0])) < model.config.num_hidden_layers


def places(model: PreTrainedModel, number: int) -> list[str]:
    """The names, within `model.base_model`, of the modules that layer `number` (1-based) consists of."""
    depth = model.config.num_hidden_layers
    lengths = {name: len(_list(model, name)) for name in lists_of_layers(model)}
    return [f"{name}.{int((number - 1) / (depth / length))}" for name, length in lengths.items()]  # as ALBERT counts


def parts(model: PreTrainedModel) -> list[list[nn.Module]]:
    """The modules that each layer consists of."""
    numbers = range(1, model.config.num_hidden_layers + 1)
    return [[model.base_model.get_submodule(place) for place in places(model, number)] for number in numbers]


def _list(model: PreTrainedModel, name: str) -> nn.ModuleList:
    return cast(nn.ModuleList, model.base_model.get_submodule(name))


def build_like(model: PreTrainedModel, config: PreTrainedConfig, layers: Sequence[int]) -> None:
    """Put layers in place of the model's own that are built as these (1-based) of a model of this configuration.

    ModernBERT's see a window or all, and the first has no normalisation. Their weights are not set. Draws no random
    numbers.
    """
    with torch.random.fork_rng(devices=[]), no_init_weights():
        larger = cast(PreTrainedModel, cast(Any, type(model.base_model))(copy.deepcopy(config)))
    for name in lists_of_layers(model):
        theirs, own = _list(larger, name), _list(model, name)
        for number, layer in enumerate(layers):
            own[number] = theirs[layer - 1].to(next(model.parameters()).device)
            for module in own[number].modules():
                if hasattr(module, "config"):
                    setattr(module, "config", model.config)  # noqa: B010 - which says how attention is computed
    for name, value in vars(config).items():  # what it tells layer by layer
        if "layer" in name and isinstance(value, list) and len(value) == config.num_hidden_layers:
            setattr(model.config, name, [value[layer - 1] for layer in layers])
    setattr(model, "signals_prepared", False)  # noqa: B010
