"""Runs on the labelled examples of one task: a model fine-tuned as it is, a student distilled."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable
from dataclasses import dataclass

from torch import nn

from harness import combine, registry
from harness.contracts import AGREEMENT, LayerMap, ModelInfo, Outputs, Want
from harness.data.encoding import Encoded
from harness.data.tasks import as_asked, get_task
from harness.evaluation.parameters import count
from harness.jobs.examples import Examples, examples_of, own_settings, reader_of
from harness.jobs.folds import Training, told, trained
from harness.jobs.scoring import evaluate
from harness.jobs.starting import start
from harness.jobs.unlabelled import answered
from harness.modeling.initialisation import randomise
from harness.runs import CheckpointRun, StudentRun, TeacherRun
from harness.runs.settings import LABELS
from harness.runs.told import Performed, Record
from harness.seeds import derive_seed
from harness.teaching.outputs import Encoder, TeacherOutputs, check_teacher, teacher_of
from harness.training import machine
from harness.training.loop import Stage, TrainingFailure
from harness.training.sums import Sum
from harness.training.weights import check_opens, save
from harness.training.work import Work
from harness.training.workspace import teacher_source, teacher_tokenizer

KEPT = "state that __init__ does not rebuild exactly must be a parameter or a buffer (register_buffer)"


def fine_tune(run: TeacherRun | CheckpointRun, work: Work, random: bool = False) -> Performed:
    """Fine-tune a model on the labels, or only score it, if its weights answer the task; a teacher's are kept.

    random: its weights are drawn anew before.
    """
    task, settings, workspace = as_asked(get_task(run.task), run.settings), run.settings, work.workspace
    reader = reader_of(run, workspace)
    examples = examples_of(run, workspace, reader)
    source = teacher_source(workspace.teacher)
    pretrained = run.teacher.pretrained
    machine.seed(derive_seed("weights", run.seed))
    model = source.model(task, workspace.runs / pretrained / "weights" if pretrained else None)
    if random:
        randomise(model)
    encoder = Encoder(model).to(machine.device())
    record: Record = {"curve": [], "best": {}}
    if not (isinstance(run, TeacherRun) and run.evaluate_only):
        info = source.info(task)
        objective = Sum(combine.parse(LABELS), info, info, LayerMap(()), {})
        stage = Stage("fine_tuning", objective, (Want(logits=True), Want()), settings["epochs"], selects=True)
        training = Training(run, work, lambda data: [stage], lambda batch, want: Outputs())
        history = trained(encoder, examples, training)
        record = told(history)
    scores, predictions = evaluate(encoder, task, run, work, examples, reader)
    if not task.labelled:
        scores["metrics"][AGREEMENT] = 1.0  # with itself
    if isinstance(run, CheckpointRun):  # a row of the table: nothing starts from it
        if workspace.keep:
            save(model, workspace.run / "weights", durable=False)
        return record | scores | count(model) | {"selection": record["best"]["selection"]}, predictions
    save(model, workspace.run / "weights")
    check_teacher(encoder, source, functools.partial(source.model, task), workspace, examples.few())
    # One that only answers was chosen by nothing.
    return record | scores | {"selection": record["best"].get("selection", scores["metrics"][run.metric])}, predictions


@dataclass(frozen=True)
class Imitated:
    """Whom a student imitates in its teacher's place.

    info: what it is; of: given (the run, its examples), what it says of those that are trained on. init: by which the
    student's layers are paired with its own, where not by the student's own initialisation.
    """

    info: ModelInfo
    of: Callable[[StudentRun, Examples], TeacherOutputs]
    init: str = ""


def distil(run: StudentRun, work: Work, imitated: Imitated | None = None, keep: bool = False) -> Performed:
    """Train a student in the stages of its procedure. keep: its weights, for other runs."""
    task, settings, workspace = as_asked(get_task(run.task), run.settings), run.settings, work.workspace
    reader = reader_of(run, workspace)
    examples = examples_of(run, workspace, reader)
    if not task.labelled:
        examples = answered(examples, run, workspace)
    teacher = teacher_of(run, workspace, examples.imitated, machine.device())
    plugin = registry.STUDENTS.get(run.student)
    info = teacher_source(workspace.teacher).info(task)
    described = plugin.describe(own_settings(run), info, task)
    answers = imitated.of(run, examples) if imitated else teacher
    info, mapped = (imitated.info, imitated.init) if imitated else (info, "")
    layers = plugin.layer_map(mapped or ("random" if run.starts_from else run.init), described, info)
    machine.seed(derive_seed("weights", run.seed))
    student, started = start(run, workspace, task, teacher, reader)
    nn.Module.to(student, machine.device())
    planned = registry.PROCEDURES.get(run.procedure).stages(run.objective, layers)
    wanted = Want()

    def stages(data: Encoded) -> list[Stage]:
        nonlocal wanted
        made = []
        for stage in planned:
            objective = Sum(combine.parse(stage.objective), described, info, stage.layers, settings)
            objective.prepare(data.labels, len(data))
            if not (epochs := stage.share(settings["epochs"])):
                raise TrainingFailure(f"{settings['epochs']} epochs cannot be divided among {stage.parts} stages")
            frozen = frozenset(name for layer in stage.frozen for name in student.layer_weights(layer))
            made.append(Stage(stage.name, objective, objective.wants(), epochs, stage.selects, frozen))
        wanted = functools.reduce(operator.or_, (stage.wants[1] for stage in made))
        return made

    history = trained(student, examples, Training(run, work, stages, answers))
    if keep or workspace.keep:
        own = None if reader is teacher_tokenizer(workspace) else reader
        save(student, workspace.run / "weights", own, durable=keep)
        if not registry.STUDENTS.ships(run.student):
            opened = nn.Module.to(plugin.from_pretrained(workspace.run / "weights"), machine.device())
            check_opens(student, opened, examples.few(), registry.STUDENTS.called(student.name), KEPT)
    scores, predictions = evaluate(student, task, run, work, examples, reader)
    return scores | count(student) | told(history) | {
        "selection": history.best["selection"],
        "initialisation": started,
        "examples": len(examples.train),
        "teacher_signals": answers.how(wanted),
    }, predictions
