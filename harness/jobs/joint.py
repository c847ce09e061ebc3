"""Training on several tasks together: the teacher that is refined on their labels, the student it is distilled into.

liu2020, chapter 4 (Algorithm 1): the batches of all tasks are shuffled together, and each updates the shared layers
and its own task's head.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from dataclasses import replace

from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from harness import combine, registry
from harness.contracts import Batch, LayerMap, ModelInfo, Outputs, Want
from harness.data.tasks import get_task
from harness.evaluation.parameters import count
from harness.jobs.examples import Examples, examples_of, own_settings, reader_of
from harness.jobs.folds import told
from harness.jobs.scoring import Predictions, evaluate, selector
from harness.jobs.starting import start
from harness.runs import JointRun, JointStudentRun, JointTeacherRun
from harness.runs.settings import LABELS
from harness.runs.told import Performed, Record
from harness.seeds import derive_seed
from harness.teaching.outputs import Encoder, TeacherOutputs, check_teacher
from harness.training import machine
from harness.training.joint_model import Joint, JointData, JointObjective, load_joint_teacher, save_joint
from harness.training.loop import Stage, train
from harness.training.sums import Sum
from harness.training.work import Work
from harness.training.workspace import teacher_source, teacher_tokenizer


def joint_teacher(run: JointTeacherRun, work: Work) -> Performed:
    """Refine the teacher on the labels of all tasks (liu2020, section 4.1.1) and keep its weights."""
    workspace, parts, reader = work.workspace, run.parts(), reader_of(run, work.workspace)
    source = teacher_source(workspace.teacher)
    examples = {name: examples_of(part, workspace, reader) for name, part in parts.items()}
    base = workspace.runs / run.teacher.pretrained / "weights" if run.teacher.pretrained else None

    def model(name: str) -> PreTrainedModel:
        return source.model(get_task(name), base) if base else source.untuned(get_task(name))

    machine.seed(derive_seed("weights", run.seed))
    joint = Joint((name, Encoder(model(name))) for name in parts)
    sums = {}
    for name in parts:
        info = source.info(get_task(name))
        sums[name] = Sum(combine.parse(LABELS), info, info, LayerMap(()), {})
    record, predictions = _train(joint, sums, examples, lambda batch, want: Outputs(), reader, run, work)
    save_joint(joint, workspace.run / "weights")
    for name in parts:
        opens = functools.partial(load_joint_teacher, source, get_task(name))
        check_teacher(joint.models[name], source, opens, workspace, examples[name].few())
    return record | count(joint.network(next(iter(parts)))), predictions


def joint_student(run: JointStudentRun, work: Work) -> Performed:
    """Distil the teacher's head for each task into the student's (liu2020, section 4.2) and keep its weights."""
    workspace, parts, reader = work.workspace, run.parts(), reader_of(run, work.workspace)
    source = teacher_source(workspace.teacher)
    examples = {name: examples_of(part, workspace, reader) for name, part in parts.items()}
    plugin, terms = registry.STUDENTS.get(run.student), combine.parse(run.objective)
    sides: dict[str, tuple[ModelInfo, ModelInfo, LayerMap]] = {}  # of each task's objective
    teachers: dict[str, TeacherOutputs] = {}
    for name, part in parts.items():
        info = source.info(get_task(name))
        described = plugin.describe(own_settings(part), info, get_task(name))
        sides[name] = described, info, plugin.layer_map(run.init, described, info)
        # The study's own tasks may be others than those that are trained on.
        asked = Want.of_parts(workspace.outputs.get(name, ())) | combine.wants(terms, *sides[name])[1]
        storing = replace(workspace, outputs={name: asked.parts()})
        teachers[name] = TeacherOutputs(part, storing, examples[name].imitated, machine.device())
    machine.seed(derive_seed("weights", run.seed))
    started: Record = {}

    def student(name: str) -> nn.Module:
        built, started[name] = start(parts[name], workspace, get_task(name), teachers[name], reader)
        return built

    joint = Joint((name, student(name)) for name in parts)
    sums = {name: Sum(terms, *sides[name], run.settings) for name in parts}
    for name, objective in sums.items():
        objective.prepare(examples[name].train.labels, len(examples[name].train))

    def imitated(batch: Batch, want: Want) -> Outputs:
        return teachers[batch.task](batch, want)

    record, predictions = _train(joint, sums, examples, imitated, reader, run, work)
    save_joint(joint, workspace.run / "weights", None if reader is teacher_tokenizer(workspace) else reader)
    return record | count(joint.network(next(iter(parts)))) | {
        "initialisation": started,
        "examples": {name: len(found.train) for name, found in examples.items()},
        "teacher_signals": {name: teacher.how(sums[name].wants()[1]) for name, teacher in teachers.items()},
    }, predictions


def _train(
    joint: Joint,
    sums: Mapping[str, Sum],
    examples: Mapping[str, Examples],
    teacher: Callable[[Batch, Want], Outputs],
    reader: PreTrainedTokenizerBase,
    run: JointRun,
    work: Work,
) -> tuple[Record, Predictions]:
    """Train on all tasks, the epoch chosen by the mean of their metrics. Returns (record, predictions by task)."""
    parts, objective = run.parts(), JointObjective(sums)
    joint.to(machine.device())
    selectors = {name: selector(get_task(name), part, examples[name], work.clock) for name, part in parts.items()}

    def select(model: nn.Module) -> float:
        return sum(choose(joint.models[name]) for name, choose in selectors.items()) / len(selectors)

    history = train(
        joint,
        [Stage("multi_task", objective, objective.wants(), run.settings["epochs"], selects=True)],
        JointData({name: found.train for name, found in examples.items()}),
        teacher,
        select,
        work.regime(run),
    )
    by_task: dict[str, Record] = {}
    predictions: Predictions = {}
    for name, choose in selectors.items():
        model = joint.models[name]
        scores, found = evaluate(model, get_task(name), parts[name], work, examples[name], reader)
        by_task[name] = scores | {"selection": choose(model)} | count(joint.network(name))
        predictions |= {f"{name}/{kind}": array for kind, array in found.items()}
    return told(history) | {"metrics": {}, "selection": history.best["selection"], "by_task": by_task}, predictions
