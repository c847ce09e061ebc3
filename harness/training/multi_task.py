"""Training on several tasks together: the teacher that is refined on their labels, the student it is distilled into.

liu2020, chapter 4 (Algorithm 1): the batches of all tasks are shuffled together, and each updates the shared layers
and its own task's head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from harness import combine, registry
from harness.contracts import Batch, LayerMap, ModelInfo, Outputs, Want
from harness.data.tasks import get_task
from harness.evaluation.parameters import count
from harness.seeds import derive_seed
from harness.training import machine
from harness.training.checkpoints import checkpoint_of
from harness.training.examples import Examples, examples_of, own_settings, reader_of
from harness.training.joint import Joint, JointData, JointObjective, save_joint
from harness.training.loop import Clock, Stage, Tell, train
from harness.training.place import Place, teacher_source, teacher_tokenizer
from harness.training.pruning import pruner
from harness.training.scoring import Predictions, evaluate, further, selector
from harness.training.settings import LABELS
from harness.training.starting import start
from harness.training.teacher_outputs import Encoder, TeacherOutputs

Specification = Mapping[str, Any]


def multi_task_teacher(
    specification: Specification, place: Place, clock: Clock, tell: Tell
) -> tuple[dict[str, Any], Predictions]:
    """Refine the teacher on the labels of all tasks (liu2020, section 4.1.1) and keep its weights."""
    reader = reader_of(specification, place)
    parts, source = _by_task(specification), teacher_source(place.teacher, place.argument)
    examples = {name: examples_of(part, place, reader) for name, part in parts.items()}
    pretrained = specification["teacher"].get("pretrained")
    base = place.runs / pretrained / "weights" if pretrained else None

    def model(name: str) -> PreTrainedModel:
        return source.model(get_task(name), base) if base else source.untuned(get_task(name))

    torch.manual_seed(derive_seed("weights", specification["seed"]))
    joint = Joint((name, Encoder(model(name))) for name in parts)
    sums = {}
    for name in parts:
        info = source.info(get_task(name))
        sums[name] = combine.Sum(combine.parse(LABELS), info, info, LayerMap(()), {})
    record, predictions = _train(
        joint, JointObjective(sums), examples, lambda batch, want: Outputs(), reader, specification, place, clock, tell
    )
    save_joint(joint, place.run / "weights")
    return record | count(joint.network(next(iter(parts)))), predictions


def multi_task(
    specification: Specification, place: Place, clock: Clock, tell: Tell
) -> tuple[dict[str, Any], Predictions]:
    """Distil the teacher's head for each task into the student's (liu2020, section 4.2) and keep its weights."""
    reader = reader_of(specification, place)
    parts, source = _by_task(specification), teacher_source(place.teacher, place.argument)
    examples = {name: examples_of(part, place, reader) for name, part in parts.items()}
    plugin, terms = registry.STUDENTS.get(specification["student"]), combine.parse(specification["objective"])
    sides: dict[str, tuple[ModelInfo, ModelInfo, LayerMap]] = {}  # of each task's objective
    teachers: dict[str, TeacherOutputs] = {}
    for name, part in parts.items():
        info = source.info(get_task(name))
        described = plugin.describe(own_settings(part), info, get_task(name))
        sides[name] = described, info, plugin.layer_map(specification["init"], described, info)
        # The study's own tasks may be others than those that are trained on.
        asked = Want.of_parts(place.outputs.get(name, ())) | combine.wants(terms, *sides[name])[1]
        storing = replace(place, outputs={name: asked.parts()})
        teachers[name] = TeacherOutputs(part, storing, examples[name].imitated, machine.device())
    torch.manual_seed(derive_seed("weights", specification["seed"]))
    started: dict[str, Any] = {}

    def student(name: str) -> nn.Module:
        built, started[name] = start(parts[name], place, get_task(name), teachers[name], reader)
        return built

    joint = Joint((name, student(name)) for name in parts)
    sums = {name: combine.Sum(terms, *sides[name], specification["settings"]) for name in parts}
    for name, objective in sums.items():
        objective.prepare(examples[name].train.labels, len(examples[name].train))

    def imitated(batch: Batch, want: Want) -> Outputs:
        return teachers[batch.task](batch, want)

    record, predictions = _train(
        joint, JointObjective(sums), examples, imitated, reader, specification, place, clock, tell
    )
    save_joint(joint, place.run / "weights", None if reader is teacher_tokenizer(place) else reader)
    return record | count(joint.network(next(iter(parts)))) | {
        "initialisation": started,
        "examples": {name: len(found.train) for name, found in examples.items()},
        "teacher_signals": {name: teacher.how(sums[name].wants()[1]) for name, teacher in teachers.items()},
    }, predictions


def _by_task(specification: Specification) -> dict[str, dict[str, Any]]:
    """The specification for each task alone, in order of name, so that the order in which they are listed is none."""
    return {
        task: {**specification, "task": task, "data": content, "metric": specification["metrics"][task]}
        for task, content in sorted(specification["tasks"].items())
    }


def _train(
    joint: Joint,
    objective: JointObjective,
    examples: Mapping[str, Examples],
    teacher: Callable[[Batch, Want], Outputs],
    reader: PreTrainedTokenizerBase,
    specification: Specification,
    place: Place,
    clock: Clock,
    tell: Tell,
) -> tuple[dict[str, Any], Predictions]:
    """Train on all tasks, the epoch chosen by the mean of their metrics. Returns (record, predictions by task)."""
    settings = specification["settings"]
    joint.to(machine.device())
    parts = _by_task(specification)
    selectors = {name: selector(get_task(name), part, examples[name], clock) for name, part in parts.items()}

    def select(model: nn.Module) -> float:
        return sum(choose(joint.models[name]) for name, choose in selectors.items()) / len(selectors)

    history = train(
        joint,
        [Stage("multi_task", objective, objective.wants(), settings["epochs"], selects=True)],
        JointData({name: found.train for name, found in examples.items()}),
        teacher,
        settings,
        specification["seed"],
        machine.device(),
        select,
        checkpoint_of(specification, place),
        clock,
        pruner(specification),
        tell,
    )
    by_task: dict[str, Any] = {}
    predictions: Predictions = {}
    for name, choose in selectors.items():
        model, task = joint.models[name], get_task(name)
        scores, found = evaluate(model, task, settings, examples[name], clock)
        more, others = further(parts[name], place, model, reader, task, clock)
        by_task[name] = scores | more | {"selection": choose(model)}
        predictions |= {f"{name}/{kind}": array for kind, array in {**found, **others}.items()}
    return {
        "curve": history.curve,
        "best": history.best,
        "pruned": history.pruned,
        "metrics": {},
        "selection": history.best["selection"],
        "by_task": by_task,
    }, predictions
