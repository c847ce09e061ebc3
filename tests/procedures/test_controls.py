"""Who stands in the teacher's place as a control: random weights, shuffled answers, one of the student's own kind."""

from __future__ import annotations

import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.contracts import Batch, Outputs, Want
from harness.data.encoding import encode
from harness.errors import UserError
from harness.jobs.controls import ShuffledOutputs, shuffled
from harness.jobs.examples import examples_of, reader_left, reader_of, texts_of
from harness.jobs.imitation import StudentOutputs, imitating
from harness.planning.plan import resolve
from harness.planning.request import Request
from harness.procedures.born_again import BornAgainRun
from harness.runs import Run, StudentRun, TeacherName
from harness.students.bilstm import BiLSTM
from harness.teaching.outputs import TeacherOutputs
from harness.training.loop import TrainingFailure
from tests.faults.killing import run_and_kill
from tests.launching import forked
from tests.results import done, records
from tests.training.builders import a_run, examples, workspace_of

STUDY = ("--study", "controls", "--tasks", "sentiment", "--inits", "every", "--seeds", "1", "--workers", "1")
LOGITS = Want(logits=True)
SETTINGS = ("--set", "train_examples=400", "epochs=3", "learning_rate=1e-3")


# ---------------------------------------------------------------- shuffled answers


def test_shuffling_keeps_classes_and_leaves_nobody_at_home() -> None:
    data = examples(60)
    labels = data.labels.numpy()
    others = shuffled(data.keys, labels, seed=3)
    assert sorted(others) == list(range(60)) and (others != np.arange(60)).all()
    assert (labels[others] == labels).all() and 0 < labels.sum() < 60
    assert (shuffled(data.keys, labels, seed=4) != others).any()
    alone = shuffled(data.keys[:3], np.array([0, 1, 0]), seed=3)
    assert alone.tolist() == [2, 1, 0], "an only example of its class stays itself"


def test_whose_answer_one_gets_depends_on_texts_not_on_places() -> None:
    data = examples(60)
    assert len(np.unique(data.keys)) == 60
    labels, moved = data.labels.numpy(), np.random.default_rng(0).permutation(60)
    here = data.keys[shuffled(data.keys, labels, seed=3)]
    there = data.keys[moved][shuffled(data.keys[moved], labels[moved], seed=3)]
    assert (there == here[moved]).all()


def test_nor_on_the_batch(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    def asked(self: TeacherOutputs, batch: Batch, want: Want) -> Outputs:
        return Outputs(logits=batch.ids)

    monkeypatch.setattr(TeacherOutputs, "__init__", lambda *_: None)
    monkeypatch.setattr(TeacherOutputs, "__call__", asked)
    data = examples(60)
    run = a_run(StudentRun, teacher="0" * 16)
    said = ShuffledOutputs(run, workspace_of(tmp_path), data)
    whole = said(data.batch(torch.arange(60)), Want(logits=True)).logits
    for part in torch.randperm(60, generator=torch.Generator().manual_seed(1)).split(7):
        assert torch.equal(said(data.batch(part), Want(logits=True)).logits, whole[part])
    assert torch.equal(data.labels[whole], data.labels) and not torch.equal(whole, torch.arange(60))


# ---------------------------------------------------------------- what they are refused


def refusals(folder: Path, row: str, procedure: str, task: str, student: str, inits: tuple[str, ...]) -> list[str]:
    """Of the cells that a study has of a row by a procedure."""
    name = f"{procedure}_of_{row.replace('+', '_and_')}_on_{task}_of_{student}"
    plugin = folder / f"{name}.py"
    plugin.write_text(
        "from harness.contracts import Profile, Row, Study\nfrom harness.registry import study\n"
        f"study(Study('{name}', '', '', 'two_stage', (Row('control', '{row}', 'A', procedure='{procedure}'),\n"
        f"    Row('kd', 'vanilla_kd', 'B')), ('{student}',),\n"
        f"    {{'quick': Profile('embedded', ('{task}',), {inits}, trials=1, seeds=1)}}))\n"
    )
    plan = resolve(Request(name, plugins=[str(plugin)]))
    return [cell.refused for cell in plan.cells if cell.row == "control"]


@pytest.mark.parametrize(
    ("row", "procedure", "task", "reason"),
    [
        ("att_kl", "shuffled_teacher", "sentiment", "compares token by token, but what is shuffled"),
        ("vanilla_kd", "shuffled_teacher", "similarity", "shuffled within the classes of the labels"),
        ("labels_only", "random_teacher", "sentiment", "asks its teacher for nothing"),
        ("label_smoothing", "born_again", "sentiment", "asks its teacher for nothing"),
        ("att_kl", "random_teacher", "similarity", ""),
        ("att_kl+hid_seq", "born_again", "similarity", ""),
        ("vanilla_kd+hid_cls", "born_again", "sentiment", ""),  # a sum of both stages, in one
    ],
)
def test_what_cannot_be_is_refused(row: str, procedure: str, task: str, reason: str, tmp_path: Path) -> None:
    found = refusals(tmp_path, row, procedure, task, "transformer", ("every", "random"))
    assert len(found) == 2 and all(reason in each if reason else not each for each in found), found


@pytest.mark.parametrize(
    ("row", "student", "task", "reason"),
    [
        ("embedding_mse", "bilstm", "entailment", "emit: it reads the two sentences of a pair apart"),
        ("cosine", "biattentive_lstm", "entailment", "emit: it reads each sentence of a pair by the other"),
        ("cosine", "biattentive_lstm", "sentiment", ""),
        ("embedding_mse", "bilstm", "sentiment", ""),
        ("cosine", "bilstm", "entailment", ""),
    ],
)
def test_one_of_its_own_kind_is_not_asked_what_it_does_not_emit(
    row: str, student: str, task: str, reason: str, tmp_path: Path
) -> None:
    (found,) = refusals(tmp_path, row, "born_again", task, student, ("random",))
    assert reason in found if reason else not found


def test_students_that_read_otherwise_are_born_again_too() -> None:
    plan = resolve(Request("controls", students=["bilstm", "cbow"], inits=["random"], tasks=["entailment"]))
    found = [cell for cell in plan.cells if cell.row in ("control_born_again", "soft_random", "soft_shuffled")]
    assert len(found) == 6 and not any(cell.refused for cell in found)


def test_a_flag_adds_them_to_another_study() -> None:
    asked = Request("objectives_vs_init", objectives=["vanilla_kd"], tasks=["entailment"], inits=["every"])
    plan = resolve(Request(**{**vars(asked), "controls": True}))
    added = [row for row in plan.rows if row.name.startswith("control_")]
    assert len(added) == 4 and len(plan.rows) == 5 and not any(row.competes for row in added)
    (own,) = (cell.run for cell in resolve(asked).cells)
    assert own in [cell.run for cell in plan.cells if cell.row == "vanilla_kd"]
    first = next(cell.run for cell in plan.cells if cell.row == "control_born_again")
    generation = plan.first[first.assistant].run  # type: ignore[attr-defined]
    assert generation.settings["learning_rate"] == 2e-3, "what its search tries first, not the default"


def test_an_ensemble_has_no_random_weights() -> None:
    rows, asked = ["random_teacher", "control_random", "control_shuffled"], {"teacher": "embedded+embedded"}
    cells = resolve(Request("controls", objectives=rows, tasks=["entailment"], inits=["random"], **asked)).cells
    refused = {cell.row: cell.refused for cell in cells}
    said = "an ensemble has no random weights of its own: name one teacher"
    assert [refused[row] for row in rows] == [said, said, ""]


def test_one_of_an_ensembles_students_reads_pairs_as_itself(tmp_path: Path) -> None:
    words = ("--teacher", "embedded+embedded", "--students", "bilstm", "--objectives", "control_born_again")
    asked = (*words, "--study", "controls", "--tasks", "entailment", "--inits", "random", "--seeds", "1", "--set")
    said = forked("run", *asked, "train_examples=32", "epochs=1", "--out", tmp_path / "out", folder=tmp_path / "said")
    (found,) = records(done(said) and tmp_path / "out", "born_again").values()
    assert found["status"] == "finished"


def test_one_that_learned_from_other_examples_is_asked_in_its_own_words(tmp_path: Path) -> None:
    study = ("--study", "controls", "--tasks", "sentiment", "--students", "bilstm", "--inits", "random", "--seeds", "2")
    drawn = ("--set", "train_examples=64", "train_sample=each_seed", "epochs=1", "--out", tmp_path / "out")
    said = forked("run", *study, "--objectives", "control_born_again", *drawn, folder=tmp_path / "said")
    found = records(done(said) and tmp_path / "out", "born_again").values()
    run = next(Run.read(one["specification"]) for one in found if one["specification"]["seed"] == 1)
    assert isinstance(run, BornAgainRun)
    more = {"runs": tmp_path / "out" / "ledger", "source": "embedded", "teacher": TeacherName("embedded")}
    workspace = workspace_of(tmp_path, **more)
    reader, first = reader_of(run, workspace), reader_left(run.assistant, workspace)
    assert reader.get_vocab() != first.get_vocab()
    everything = torch.arange(64)
    told = imitating(run.assistant, run, workspace).of(run, examples_of(run, workspace, reader))
    asked = examples_of(run, workspace, reader).train.batch(everything)
    student = BiLSTM.from_pretrained(workspace.runs / run.assistant / "weights")
    with torch.no_grad():
        says = student(encode(texts_of(run, workspace)[0], first, "joint", 32).batch(everything), LOGITS).logits
    torch.testing.assert_close(told(asked, LOGITS).logits, says, rtol=1e-4, atol=1e-5)


def test_what_one_of_its_own_kind_does_not_emit_fails_its_run_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def lacking(*_: object) -> Outputs:
        raise UserError("the pair has no sentence")

    monkeypatch.setattr(TeacherOutputs, "__call__", lacking)
    data = examples(4)
    with pytest.raises(TrainingFailure, match="the pair has no sentence"):
        StudentOutputs.__new__(StudentOutputs)(data.batch(torch.arange(4)), Want(sentence=True))


# ---------------------------------------------------------------- what they learn


@pytest.fixture(scope="module")
def trained(often: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("controls")
    rows = ("random_teacher", "soft_random", "soft_labels", "soft_shuffled", "soft_born_again")
    words = ("--objectives", *rows, "--plugin", often, *SETTINGS, "--out", folder / "out")
    said = forked("run", *STUDY, *words, folder=folder / "said")
    assert "Soft labels alone, born again" in done(said).stdout
    return folder / "out"


def accuracy(out: Path, kind: str) -> float:
    (record,) = records(out, kind).values()
    return float(record["metrics"]["accuracy"])


def test_a_random_teacher_is_and_teaches_chance(trained: Path) -> None:
    assert abs(accuracy(trained, "random_teacher") - 0.5) < 0.1
    assert abs(accuracy(trained, "randomly_taught") - 0.5) < 0.1
    assert accuracy(trained, "student") > 0.6, "the teacher itself teaches more than that"


def test_what_they_train_is_what_they_say(trained: Path) -> None:
    kinds = {record["specification"]["kind"]: record for record in records(trained).values()}
    (first,) = records(trained, "first_generation")
    assert kinds["born_again"]["specification"]["assistant"] == first in kinds["born_again"]["started_from"]
    assert kinds["first_generation"]["specification"]["objective"] == "labels_only"
    assert not any("vanilla_kd" in name for name in kinds["first_generation"]["specification"]["settings"])
    assert all(kinds[kind]["teacher_signals"] == {"logits": "stored"} for kind in ("shuffled", "randomly_taught"))


def test_a_kill_changes_nothing(trained: Path, often: Path, tmp_path: Path) -> None:
    out = Path(shutil.copytree(trained, tmp_path / "out"))
    again = {*records(out, "first_generation"), *records(out, "born_again")}
    for run in again:
        shutil.rmtree(out / "ledger" / run)
    words = ("run", *STUDY, "--objectives", "soft_born_again", "--plugin", often, *SETTINGS, "--out", out)
    run_and_kill(words, out)
    assert len(again) == 2 and not again <= {*records(out)}
    done(forked(*words, folder=tmp_path / "said"))
    ours, theirs = records(out), records(trained)
    assert ours.keys() == theirs.keys() and all(theirs[run]["metrics"] == ours[run]["metrics"] for run in ours)
