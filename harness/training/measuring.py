"""Runs that train nothing: how many parameters a model has, how fast it encodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from harness.data.tasks import get_task
from harness.evaluation import speed
from harness.evaluation.parameters import build_student, count
from harness.seeds import derive_seed
from harness.training import machine
from harness.training.loop import Clock, Tell
from harness.training.place import Place
from harness.training.settings import Settings

Measured = tuple[dict[str, Any], None]


def count_parameters(specification: Mapping[str, Any], *work: Any) -> Measured:
    """Parameters of a model that is described and never filled with numbers; nothing of the work is needed."""
    with torch.device("meta"):
        model = _model(specification)
    return _record(count(model)), None


def measure_speed(specification: Mapping[str, Any], place: Place, clock: Clock, tell: Tell) -> Measured:
    """Sentences a second of a model of random weights, and its ratio to the reference, run in turn with it."""
    settings = specification["settings"]
    torch.manual_seed(derive_seed("weights", specification["seed"]))
    model, reference = _model(specification), _plain(specification["reference"], 2)
    measured = speed.measure(
        nn.Module.to(model, machine.device()),
        nn.Module.to(reference, machine.device()),
        vocabulary=min(m["vocab_size"] for m in (specification["configuration"], specification["reference"])),
        batch=settings["batch_size"],
        length=settings["max_length"],
        rounds=settings["rounds"],
        threads=settings["threads"],
        pairs=get_task(specification["task"]).pair,
    )
    counts = count(model)
    return _record(
        {**counts, "millions_without_embeddings": counts["parameters_without_embeddings"] / 1e6, **measured}
    ), None


def _record(metrics: Mapping[str, float]) -> dict[str, Any]:
    return {"metrics": dict(metrics), "selection": 0.0, "best": {"epoch": 0}, "curve": []}


def _model(specification: Mapping[str, Any]) -> PreTrainedModel:
    task = get_task(specification["task"])
    outputs = max(task.outputs, 2)
    if not specification["student"]:
        return _plain(specification["configuration"], outputs)
    name = specification["student"]
    own = Settings(specification["settings"]).of(name)
    return build_student(name, own, specification["configuration"], outputs, task.pair)


def _plain(configuration: Mapping[str, Any], outputs: int) -> PreTrainedModel:
    """The Hugging Face classifier of a configuration, with random weights."""
    shape = {**configuration, "num_labels": outputs}
    model: PreTrainedModel = AutoModelForSequenceClassification.from_config(
        AutoConfig.for_model(shape.pop("model_type"), **shape), dtype=torch.float32, trust_remote_code=False
    )
    return model
