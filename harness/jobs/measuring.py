"""Runs that train nothing: how many parameters a model has, how fast it encodes."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import nn
from transformers import AutoConfig, AutoModelForSequenceClassification, PreTrainedModel

from harness.data.tasks import get_task
from harness.evaluation import speed
from harness.evaluation.parameters import build_student, count
from harness.files import JSON
from harness.runs import CountRun, MeasuredRun, SpeedRun
from harness.runs.told import Performed, Record
from harness.seeds import derive_seed
from harness.training import machine
from harness.training.work import Work


def count_parameters(run: CountRun, work: Work | None = None) -> Performed:
    """Parameters of a model that is described and never filled with numbers; nothing of the work is needed."""
    with torch.device("meta"):
        model = _model(run)
    return _record(count(model)), None


def measure_speed(run: SpeedRun, work: Work) -> Performed:
    """Sentences a second of a model of random weights, and its ratio to the reference, run in turn with it."""
    settings = run.settings
    machine.seed(derive_seed("weights", run.seed))
    model, reference = _model(run), _plain(run.reference, 2)
    measured = speed.measure(
        nn.Module.to(model, machine.device()),
        nn.Module.to(reference, machine.device()),
        vocabulary=min(m["vocab_size"] for m in (run.configuration, run.reference)),
        batch=settings["batch_size"],
        length=settings["max_length"],
        rounds=settings["rounds"],
        pairs=get_task(run.task).pair,
    )
    counts = count(model)
    return _record(
        {**counts, "millions_without_embeddings": counts["parameters_without_embeddings"] / 1e6, **measured}
    ), None


def _record(metrics: Mapping[str, float]) -> Record:
    return {"metrics": dict(metrics), "selection": 0.0, "best": {"epoch": 0}, "curve": []}


def _model(run: MeasuredRun) -> PreTrainedModel:
    task = get_task(run.task)
    outputs = max(task.outputs, 2)
    if not run.student:
        return _plain(run.configuration, outputs)
    return build_student(run.student, run.settings.of(run.student), run.configuration, outputs, task.pair)


def _plain(configuration: JSON, outputs: int) -> PreTrainedModel:
    """The Hugging Face classifier of a configuration, with random weights."""
    shape = {**configuration, "num_labels": outputs}
    return AutoModelForSequenceClassification.from_config(
        AutoConfig.for_model(shape.pop("model_type"), **shape), dtype=torch.float32, trust_remote_code=False
    )
