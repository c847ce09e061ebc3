"""A student with the weights it starts from: random, its teacher's, those of a corpus distillation, a file's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from safetensors.torch import load_file
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from harness import registry
from harness.contracts import Task
from harness.errors import UserError
from harness.files import canonical
from harness.hyperparameters import Values
from harness.jobs.examples import own_settings
from harness.modeling import static_vectors
from harness.modeling.bases import Student, StudentConfig
from harness.modeling.layers import BUILT_LIKE
from harness.runs import OfStudent, Run, TeacherName
from harness.runs.told import Record
from harness.teaching.static import static_file
from harness.training.failures import TrainingFailure
from harness.training.workspace import Workspace, teacher_source, teacher_tokenizer


def start(
    run: OfStudent, workspace: Workspace, task: Task, teacher: Any, reader: PreTrainedTokenizerBase
) -> tuple[Student, Record]:
    """`started_student`, whose refusals concern this run alone: a TrainingFailure, which stops no other run."""
    try:
        return started_student(run, workspace, task, teacher, reader)
    except UserError as error:
        raise TrainingFailure(str(error)) from error


def started_student(
    run: OfStudent, workspace: Workspace, task: Task, teacher: Any, reader: PreTrainedTokenizerBase
) -> tuple[Student, Record]:
    """The student of a run, and what is recorded of how it started.

    teacher.model() gives the teacher's weights, asked for only where the initialisation copies some; reader is the
    tokenizer that the student reads with. Draws random weights from torch's global generator. Raises UserError for a
    `pretrained` run that is missing or does not fit.
    """
    plugin = registry.STUDENTS.get(run.student_name)
    source, own = teacher_source(workspace.teacher), own_settings(run)
    vocabulary = 0 if reader is teacher_tokenizer(workspace) else len(reader)
    if before := run.starts_from:
        folder = _weights(workspace.runs / before, before)
        student = _built(plugin, own, source.configuration() | built_like(folder), task, vocabulary)
        return student, load_pretrained(student, folder, before, task)
    student = _built(plugin, own, source.configuration(), task, vocabulary)
    kind, _, file = run.init.partition(":")
    init = f"{kind}:{workspace.files[file]}" if file in workspace.files else run.init

    def model() -> PreTrainedModel:
        with torch.random.fork_rng(devices=[]):  # a teacher that draws at first leaves the student's weights alone
            return cast(PreTrainedModel, teacher.model())

    if init == static_vectors.INIT:  # made once for all students of the teacher
        init = f"{kind}:{static_file(run, workspace, model)}"
    return student, recorded(plugin.name, student.initialise(init, model, reader))


def recorded(name: str, started: Any) -> Record:
    """What a student says of its start, as a record holds it. Raises UserError for what no record can hold."""
    who = f"{registry.STUDENTS.called(name)}: initialise returned"
    if not isinstance(started, Mapping):
        raise UserError(f"{who} {started!r}, but must return a mapping to record, {{}} if there is nothing")
    if wrong := [key for key in started if not isinstance(key, str)]:
        raise UserError(f"{who} {wrong[0]!r} as a key, but the keys of a record must be strings")
    try:
        canonical(started)
    except (TypeError, ValueError) as error:
        raise UserError(f"{who} {started!r}, which cannot be recorded as JSON: {error}") from error
    if "coverage" in started and not (isinstance(started["coverage"], (int, float)) and "filled" in started):
        told = "coverage must be a share of the vocabulary, and filled must say of what"
        raise UserError(f"{who} {started!r}, but {told}")
    return dict(started)


def load_pretrained(student: Student, folder: Path, run: str, task: Task) -> Record:
    """Take every weight from a student distilled on a corpus or on several tasks, but those that answer the task.

    Those too where the run was trained on this very task. Raises UserError, naming a weight, if the two are not of the
    same sizes.
    """
    found, own = load_file(folder / "model.safetensors"), student.state_dict()
    names = _check_fits(student, {name: tuple(tensor.shape) for name, tensor in found.items()}, run)
    heads = {name: f"heads.{task.name}.{name}" for name in own if f"heads.{task.name}.{name}" in found}
    with torch.no_grad():
        for name, theirs in {**{name: name for name in names}, **heads}.items():
            own[name].copy_(found[theirs])
    return {"pretrained": run} | ({"head": task.name} if heads else {})


def check_pretrained(run: Run, task: Task, teacher: TeacherName, folder: Path) -> None:
    """Raise UserError if the student of a run cannot start from the weights in `folder`. Nothing is loaded."""
    plugin = registry.STUDENTS.get(run.student_name)
    configuration = teacher_source(teacher).configuration()
    vocabulary = json.loads((folder / "config.json").read_bytes()).get("vocabulary", 0)
    with torch.device("meta"):
        student = _built(plugin, own_settings(run), configuration | built_like(folder), task, vocabulary)
    with safe_open(folder / "model.safetensors", "pt") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
    _check_fits(student, shapes, str(run.starts_from))


def built_like(folder: Path) -> dict[str, object]:
    """What a student of the run in `folder` was built like, where that is not its kind's own way."""
    source = json.loads((folder / "config.json").read_bytes()).get("source", {})
    return {BUILT_LIKE: source[BUILT_LIKE]} if BUILT_LIKE in source else {}


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


def _built(plugin: Any, own: Values, configuration: Mapping[str, object], task: Task, vocabulary: int) -> Student:
    config = StudentConfig(
        student=plugin.name,
        settings=dict(own),
        source={name: value for name, value in configuration.items() if name != "_name_or_path"},  # of this machine
        outputs=task.outputs,
        pairs=task.pair,
        vocabulary=vocabulary,
    )
    return plugin(config)


def _weights(folder: Path, run: str) -> Path:
    weights = folder / "weights"
    if not (weights / "model.safetensors").is_file() or not (folder / "record.json").is_file():
        raise UserError(f"there is no finished run {run} whose weights a student could start from")
    return weights
