"""The two runs of multi-task distillation: what they record, keep and go on from; a teacher of many heads."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

from harness.contracts import Want
from harness.data import loading
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.evaluation.metrics import predictions_of
from harness.exporting.opened import of_run
from harness.jobs.examples import examples_of, reader_of
from harness.jobs.scoring import evaluate
from harness.jobs.starting import start
from harness.runs import JointRun, JointStudentRun, JointTeacherRun, StudentRun
from harness.teaching.outputs import Encoder, NoTeacher, TeacherOutputs
from harness.training import loop, machine
from harness.training.checkpoints import Timer
from harness.training.joint_model import heads_in, load_joint, load_joint_teacher
from harness.training.work import Work
from harness.training.workspace import Workspace, teacher_source, teacher_tokenizer
from tests.training.builders import CPU, a_run, every, ignore, settings, workspace_of

TASKS = {"sst2": "accuracy", "mrpc": "f1", "rte": "accuracy"}  # of the last two the texts are the same
TEACHER, STUDENT = "teacher", "student"
SETTINGS = {"learning_rate": 0.003, "max_length": 20, "epochs": 2}
Found = tuple[dict[str, Any], dict[str, np.ndarray]]


@pytest.fixture(scope="module")
def workspace(glue: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    runs = tmp_path_factory.mktemp("runs")
    return workspace_of(runs, checkpoint, source=str(glue))


@pytest.fixture(scope="module")
def teaching(glue: Path) -> JointTeacherRun:
    tasks = {task: loading.load(get_task(task), str(glue)).content for task in TASKS}
    return a_run(JointTeacherRun, tasks=tasks, metrics=TASKS, settings=settings(**SETTINGS))


@pytest.fixture(scope="module")
def learning(teaching: JointTeacherRun) -> JointStudentRun:
    own = settings(**SETTINGS, **{"transformer.layers": 2})
    return a_run(JointStudentRun, tasks=teaching.tasks, metrics=TASKS, settings=own, teacher=TEACHER, init="every")


def run(of: JointRun, workspace: Workspace, name: str, tell: Any = ignore) -> Any:
    folder = workspace.runs / name
    folder.mkdir(exist_ok=True)
    return of.perform(Work(replace(workspace, run=folder), tell))


@pytest.fixture(scope="module")
def teacher(workspace: Workspace, teaching: JointTeacherRun) -> Found:
    found: Found = run(teaching, workspace, TEACHER)
    return found


def check(found: Found) -> None:
    """What both runs record, but for the time they took."""
    record, predictions = found
    assert record["metrics"] == {} and record["by_task"].keys() == TASKS.keys()
    chosen = [entry["selection"] for entry in record["curve"]]
    assert len(chosen) == 2 and record["best"]["selection"] == max(chosen) == record["selection"]
    assert record["selection"] == pytest.approx(np.mean([part["selection"] for part in record["by_task"].values()]))
    for task in TASKS:
        arrays = [predictions[f"{task}/{kind}"] for kind in ("ids", "predictions", "labels")]
        assert [len(array) for array in arrays] == [40, 40, 40]
        accuracy = float(np.mean(arrays[1] == arrays[2]))
        assert record["by_task"][task]["metrics"]["accuracy"] == pytest.approx(accuracy)
        assert predictions[f"{task}/probabilities"].argmax(1).tolist() == arrays[1].tolist()
        assert record["by_task"][task]["parameters"] > record["by_task"][task]["classifier_parameters"] > 0
    assert len(predictions) == 12
    assert record["curve"][1]["loss"] < record["curve"][0]["loss"]


def test_a_teacher_is_refined_on_all_tasks(teacher: Found, workspace: Workspace, teaching: JointTeacherRun) -> None:
    check(teacher)
    assert teacher[0]["parameters"] > teacher[0]["parameters_without_embeddings"] > teacher[0]["classifier_parameters"]
    folder = workspace.runs / TEACHER / "weights"
    assert heads_in(folder) == ("mrpc", "rte", "sst2")
    for task in TASKS:
        model = load_joint_teacher(teacher_source(workspace.teacher), get_task(task), folder)
        assert np.array_equal(predicted(Encoder(model), task, workspace, teaching), teacher[1][f"{task}/predictions"])
        assert np.array_equal(exported(teaching, task, workspace, TEACHER), teacher[1][f"{task}/predictions"])


def predicted(model: nn.Module, task: str, workspace: Workspace, of: JointRun) -> np.ndarray:
    part, reader = of.part(task), teacher_tokenizer(workspace)
    examples = examples_of(part, workspace, reader)
    made = evaluate(model.to(machine.device()), get_task(task), part, Work(workspace, print), examples, reader)
    return made[1]["predictions"]


def exported(of: JointRun, task: str, workspace: Workspace, name: str) -> np.ndarray:
    """What a run's model says of the texts of dev, as it is taken out of the results."""
    opened = of_run(of, get_task(task), replace(workspace, run=workspace.runs / name))
    dev = loading.load(get_task(task), workspace.source).dev[0]
    texts = dev.text_a if dev.text_b is None else list(zip(dev.text_a, dev.text_b, strict=True))
    return predictions_of(get_task(task), opened.logits(texts).numpy())


def test_a_student_is_distilled_on_all_tasks(teacher: Found, workspace: Workspace, learning: JointStudentRun) -> None:
    record, predictions = run(learning, workspace, STUDENT)
    check((record, predictions))
    assert record["examples"] == {"sst2": 108, "mrpc": 108, "rte": 108}  # 120 but those held out
    assert record["teacher_signals"] == dict.fromkeys(TASKS, {"logits": "stored"})
    assert record["initialisation"].keys() == TASKS.keys() and record["parameters"] > record["classifier_parameters"]
    folder = workspace.runs / STUDENT / "weights"
    assert heads_in(folder) == ("mrpc", "rte", "sst2") and not list(folder.glob("tokenizer*"))
    for task in TASKS:
        student = fresh(learning.part(task), workspace)
        load_joint(student, task, folder)
        assert np.array_equal(predicted(student, task, workspace, learning), predictions[f"{task}/predictions"])
        assert np.array_equal(exported(learning, task, workspace, STUDENT), predictions[f"{task}/predictions"])


def fresh(part: StudentRun, workspace: Workspace) -> Any:
    examples = examples_of(part, workspace, teacher_tokenizer(workspace))
    said = TeacherOutputs(part, workspace, examples.imitated, CPU)
    return start(part, workspace, get_task(part.task), said, teacher_tokenizer(workspace))[0]


def test_a_student_starts_from_the_refined_layers(
    teacher: Found, workspace: Workspace, learning: JointStudentRun
) -> None:
    """As the notes of the study multi_task say of its transformer."""
    name = "encoder.layer.0.attention.self.query.weight"
    source = teacher_source(workspace.teacher)
    refined = load_joint_teacher(source, get_task("rte"), workspace.runs / TEACHER / "weights")
    student = fresh(replace(learning, init="first").part("rte"), workspace)
    started, after, before = (
        model.base_model.state_dict()[name] for model in (student.model, refined, source.untuned(get_task("rte")))
    )
    assert torch.equal(started, after) and not torch.equal(started, before)


@pytest.mark.parametrize("kind", ["teacher", "student"])
def test_the_order_in_which_tasks_are_listed_decides_nothing(
    kind: str, teacher: Found, workspace: Workspace, teaching: JointTeacherRun, learning: JointStudentRun
) -> None:
    of: JointRun = teaching if kind == "teacher" else learning
    one = run(of, workspace, f"{kind}-one")
    other = run(replace(of, tasks=dict(reversed(of.tasks.items()))), workspace, f"{kind}-other")
    assert one[0]["curve"] == other[0]["curve"]
    weights = [
        load_file(workspace.runs / f"{kind}-{run}" / "weights" / "model.safetensors") for run in ("one", "other")
    ]
    assert all(torch.equal(tensor, weights[1][name]) for name, tensor in weights[0].items())


class Killed(Exception):
    pass


@pytest.mark.parametrize("objective", ["", "vanilla_kd", "hid_cls_contrast+hid_seq+vanilla_kd"])  # "": the teacher
def test_a_killed_run_goes_on_with_the_same_weights(
    objective: str,
    teacher: Found,
    workspace: Workspace,
    teaching: JointTeacherRun,
    learning: JointStudentRun,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Killed within the first epoch, then at its end."""
    monkeypatch.setattr(loop, "TELL_SECONDS", 1e9)  # only what is saved is told, however slow the machine
    made: JointRun = replace(learning, objective=objective) if objective else teaching
    whole = run(made, workspace, f"{objective}-whole")

    def tell(entry: dict[str, Any]) -> None:
        told.append(entry)
        raise Killed

    told: list[dict[str, Any]] = []
    for steps in (30, 12):  # of the 42 of an epoch
        monkeypatch.setattr(Timer, "due", every(steps))
        with pytest.raises(Killed):
            run(made, workspace, f"{objective}-killed", tell)
    assert told[0]["saved"] and told[0]["epoch"] == 1 and told[1]["epoch"] == 1
    after = run(made, workspace, f"{objective}-killed")
    assert after[0]["curve"] == whole[0]["curve"] and after[0]["best"] == whole[0]["best"]
    ours, theirs = (
        load_file(workspace.runs / f"{objective}-{how}" / "weights" / "model.safetensors")
        for how in ("whole", "killed")
    )
    assert ours.keys() == theirs.keys() and all(torch.equal(tensor, theirs[name]) for name, tensor in ours.items())


def test_a_student_with_its_own_words_keeps_them_for_those_that_start_from_it(
    teacher: Found, workspace: Workspace, learning: JointStudentRun
) -> None:
    """It reads pairs apart, while the teacher reads its own tokens of both together."""
    sizes = {"bilstm.hidden_units": 8, "bilstm.embedding_size": 8, "bilstm.head_units": 8}
    words = {"student": "bilstm", "init": "random", "objective": "logit_mse", "pair_encoding": "compare"}
    more = replace(learning, settings=settings(**SETTINGS, **sizes), **words)
    check(run(more, workspace, "words"))
    (workspace.runs / "words" / "record.json").write_text("{}")
    part = replace(more.part("rte"), init="pretrained:words")
    reader = reader_of(part, workspace)
    assert "farmer" in reader.get_vocab() and "[CLS]" not in reader.get_vocab()
    student, facts = start(part, workspace, get_task("rte"), NoTeacher(), reader)
    assert facts == {"pretrained": "words", "head": "rte"} and student.config.vocabulary == len(reader)
    saved = load_file(workspace.runs / "words" / "weights" / "model.safetensors")
    for name, tensor in student.state_dict().items():
        assert torch.equal(tensor, saved[f"heads.rte.{name}" if name.startswith("head.") else name]), name


def test_test_files_are_predicted_task_by_task(
    teacher: Found, workspace: Workspace, learning: JointStudentRun, glue: Path, tmp_path: Path
) -> None:
    source = shutil.copytree(glue, tmp_path / "glue")
    sentences = [line.split("\t")[0] for line in (glue / "SST-2" / "dev.tsv").read_text().splitlines()[1:]]
    rows = ["index\tsentence", *(f"{n}\t{sentence}" for n, sentence in enumerate(sentences))]
    (source / "SST-2" / "test.tsv").write_text("\n".join(rows) + "\n")
    asked = {"sst2": loading.load_test(get_task("sst2"), str(source))[1]}
    _, found = run(replace(learning, test=asked), replace(workspace, source=str(source)), "tested")
    assert np.array_equal(found["sst2/test/predictions"], found["sst2/predictions"])
    assert not [name for name in found if name.startswith(("rte/test", "mrpc/test"))]


# ---------------------------------------------------------------- what a teacher with several heads says


def outputs_of(task: str, workspace: Workspace, learning: JointStudentRun, teacher: str = TEACHER) -> TeacherOutputs:
    """Of all training examples of a task: nothing is held out of them."""
    part = replace(learning.part(task), teacher=teacher, settings=settings(**SETTINGS, protocol="published"))
    examples = examples_of(part, workspace, teacher_tokenizer(workspace))
    return TeacherOutputs(part, replace(workspace, outputs={task: [("logits", -1)]}), examples.imitated, CPU)


def test_each_heads_outputs_are_its_own_though_the_texts_are_the_same(
    teacher: Found, workspace: Workspace, learning: JointStudentRun
) -> None:
    found, source = {}, teacher_source(workspace.teacher)
    for task in ("mrpc", "rte"):
        said = outputs_of(task, workspace, learning)
        batch = said.train.batch(torch.tensor([3, 0, 7]))
        model = load_joint_teacher(source, get_task(task), workspace.runs / TEACHER / "weights").eval()
        with torch.no_grad():
            expected = Encoder(model, exact=True)(batch, Want(logits=True, sentence=True))
        found[task] = said(batch, Want(logits=True))
        torch.testing.assert_close(found[task].logits, expected.logits)
        torch.testing.assert_close(said._compute(batch, Want(sentence=True)).sentence, expected.sentence)
    one, other = (outputs_of(task, workspace, learning) for task in ("mrpc", "rte"))
    assert np.array_equal(one.train.keys, other.train.keys) and one.cache.store.folder != other.cache.store.folder
    assert not torch.allclose(found["mrpc"].logits, found["rte"].logits)


def test_the_heads_are_over_one_encoder(teacher: Found, workspace: Workspace, learning: JointStudentRun) -> None:
    one, other = (outputs_of(task, workspace, learning).model() for task in ("mrpc", "sst2"))
    names = [name for name, _ in one.named_parameters() if name.startswith(one.base_model_prefix)]
    assert names and all(one.get_parameter(name) is other.get_parameter(name) for name in names)
    assert one.get_parameter("classifier.weight") is not other.get_parameter("classifier.weight")
    assert not any(p.requires_grad for p in one.parameters()) and not one.training


def test_a_task_that_the_teacher_was_not_refined_on_is_refused(
    teacher: Found, workspace: Workspace, learning: JointStudentRun, glue: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "QNLI"
    folder.mkdir()
    for name in ("train", "dev"):
        rows = (glue / "RTE" / f"{name}.tsv").read_text().replace("sentence1\tsentence2", "question\tsentence")
        (folder / f"{name}.tsv").write_text(rows)
    content = loading.load(get_task("qnli"), str(tmp_path)).content
    more = replace(learning, tasks={"qnli": content}, metrics={"qnli": "accuracy"})
    with pytest.raises(UserError, match=r"run teacher was not trained on qnli, .* mrpc, rte, sst2"):
        run(more, replace(workspace, source=str(tmp_path)), "refused")
