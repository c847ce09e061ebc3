"""What a worker does with a run specification: pre-train a teacher, fine-tune it, or train a student.

A job gets the specification (what the run is) and a place (where things are), which never enters the run's identity.
It returns the record and the per-example dev predictions.
"""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import nn

from harness import combine, registry
from harness.contracts import LayerMap, Outputs, Want
from harness.data.tasks import get_task
from harness.evaluation.parameters import count
from harness.files import checksums, note_checksums, remove
from harness.ledger import KNOWN
from harness.seeds import derive_seed
from harness.training import code_versions, inputs, machine, processes
from harness.training.checkpoints import checkpoint_of
from harness.training.examples import examples_of, own_settings, reader_of
from harness.training.general import general, masked_teacher
from harness.training.loop import Clock, Stage, Tell, train
from harness.training.measuring import count_parameters, measure_speed
from harness.training.multi_task import multi_task, multi_task_teacher
from harness.training.place import Place, teacher_source
from harness.training.pretraining import pretrain
from harness.training.pruning import pruner
from harness.training.scoring import Predictions, evaluate, further, selector
from harness.training.settings import LABELS, PREDICTION, Settings
from harness.training.starting import start
from harness.training.teacher_outputs import Encoder, teacher_of
from harness.training.untuned import untuned
from harness.training.weights import save


def perform(specification: Mapping[str, Any], place: Place, tell: Tell) -> tuple[dict[str, Any], Predictions | None]:
    """Do one run. Returns (record, predictions: ids, predictions and labels of the dev split, (N,) each, or None).

    Raises UserError where data or teacher cannot be read, TrainingFailure where the loss is not finite.
    """
    clock, began = Clock(), time.perf_counter()
    specification = {**specification, "settings": Settings(specification["settings"])}
    note_checksums(place.cache / KNOWN)
    for path in place.plugins:
        registry.load_file(path)
    code_versions.check_plugins(specification)
    torch.set_num_threads(specification["settings"]["threads"])
    machine.check_precision(specification["settings"])
    for part in place.run.glob(".*.tmp") if processes.leads() else ():
        remove(part)  # left by a process that was killed while it wrote
    machine.reset_peak_memory()
    jobs: dict[str, Any] = {
        "pretraining": _pretraining,
        "teacher": _teacher,
        "checkpoint": _teacher,
        "masked_teacher": masked_teacher,
        "general": general,
        "student": _student,
        "multi_task_teacher": multi_task_teacher,
        "multi_task": multi_task,
        "untuned": untuned,
        "count": count_parameters,
        "speed": measure_speed,
    }
    job = jobs[specification["kind"]]
    rests_on = inputs.check(specification, place)
    # What other code stored of teachers and texts may be other than what this one would.
    place = replace(place, cache=place.cache / code_versions.of_stored(place.teacher))
    record, predictions = job(specification, place, clock, tell)
    if (place.run / "weights").is_dir() and processes.leads():
        record["weights"] = checksums(place.run / "weights")
    return record | {
        "status": "finished",
        "specification": specification,
        "started_from": rests_on,
        "seconds": time.perf_counter() - began,
        "model_seconds": clock.seconds,
        "peak_memory_mib": machine.peak_memory(),
        "device": machine.device().type,
        "versions": machine.versions(),
        "code": code_versions.of_run(specification),
    }, predictions


def _pretraining(
    specification: Mapping[str, Any], place: Place, clock: Clock, tell: Tell
) -> tuple[dict[str, Any], Predictions | None]:
    seed = specification["seed"]
    torch.manual_seed(derive_seed("weights", seed))
    source = teacher_source(place.teacher, place.argument)
    model, record = pretrain(source, specification["settings"], seed, machine.device(), clock, tell)
    save(model, place.run / "weights")
    return record, None


def _teacher(
    specification: Mapping[str, Any], place: Place, clock: Clock, tell: Tell
) -> tuple[dict[str, Any], Predictions | None]:
    """Fine-tune the teacher on the labels (or only score it, if its weights answer the task) and keep its weights."""
    task, settings, seed = get_task(specification["task"]), specification["settings"], specification["seed"]
    reader = reader_of(specification, place)
    examples = examples_of(specification, place, reader)
    source = teacher_source(place.teacher, place.argument)
    pretrained = specification["teacher"].get("pretrained")
    torch.manual_seed(derive_seed("weights", seed))
    model = source.model(task, place.runs / pretrained / "weights" if pretrained else None)
    encoder = Encoder(model).to(machine.device())
    record: dict[str, Any] = {"curve": [], "best": {}}
    if not specification.get("evaluate_only"):
        info = source.info(task)
        objective = combine.Sum(combine.parse(LABELS), info, info, LayerMap(()), {})
        stage = Stage("fine_tuning", objective, (Want(logits=True), Want()), settings["epochs"], selects=True)
        history = train(
            encoder,
            [stage],
            examples.train,
            lambda batch, want: Outputs(),
            settings,
            seed,
            machine.device(),
            selector(task, specification, examples, clock),
            checkpoint_of(specification, place),
            clock,
            pruner(specification),
            tell,
        )
        record = {"curve": history.curve, "best": history.best, "pruned": history.pruned}
    scores, predictions = evaluate(encoder, task, settings, examples, clock)
    more, others = further(specification, place, encoder, reader, task, clock)
    scores, predictions = scores | more, predictions | others
    if specification["kind"] == "checkpoint":  # a row of the table: nothing starts from it
        return record | scores | count(model) | {"selection": record["best"]["selection"]}, predictions
    save(model, place.run / "weights")
    return record | scores | {"selection": scores["metrics"][specification["metric"]]}, predictions


def _student(
    specification: Mapping[str, Any], place: Place, clock: Clock, tell: Tell
) -> tuple[dict[str, Any], Predictions | None]:
    task, settings, seed = get_task(specification["task"]), specification["settings"], specification["seed"]
    reader = reader_of(specification, place)
    examples = examples_of(specification, place, reader)
    teacher = teacher_of(specification, place, examples.imitated, machine.device())
    plugin = registry.STUDENTS.get(specification["student"])
    info = teacher_source(place.teacher, place.argument).info(task)
    described = plugin.describe(own_settings(specification), info, task)
    kind, _, run = specification["init"].partition(":")
    layers = plugin.layer_map("random" if kind == "pretrained" else specification["init"], described, info)
    torch.manual_seed(derive_seed("weights", seed))
    student, started = start(specification, place, task, teacher, reader)
    nn.Module.to(student, machine.device())

    def stage(name: str, expression: str, selects: bool) -> Stage:
        objective = combine.Sum(combine.parse(expression), described, info, layers, settings)
        objective.prepare(examples.train.labels, len(examples.train))
        return Stage(name, objective, objective.wants(), settings["epochs"], selects)

    expression = specification["objective"]
    if specification["procedure"] == "two_stage" and combine.stage(combine.parse(expression)) == "intermediate":
        stages = [stage("intermediate", expression, False), stage("prediction", PREDICTION, True)]
    else:
        stages = [stage("prediction", expression, True)]
    history = train(
        student,
        stages,
        examples.train,
        teacher,
        settings,
        seed,
        machine.device(),
        selector(task, specification, examples, clock),
        checkpoint_of(specification, place),
        clock,
        pruner(specification),
        tell,
    )
    scores, predictions = evaluate(student, task, settings, examples, clock)
    more, others = further(specification, place, student, reader, task, clock)
    scores, predictions = scores | more, predictions | others
    return scores | count(student) | {
        "curve": history.curve,
        "best": history.best,
        "selection": history.best["selection"],
        "pruned": history.pruned,
        "initialisation": started,
        "examples": len(examples.train),
        "teacher_signals": teacher.how(functools.reduce(operator.or_, (stage.wants[1] for stage in stages))),
    }, predictions
