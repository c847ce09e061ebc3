"""An ensemble, and a teacher for each task: which runs there are, what they say, what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from harness.commands.export import _model
from harness.errors import UserError
from harness.ledger import Ledger
from harness.planning.explaining import explained
from harness.planning.naming import names_of
from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.planning.recipe import recipes_before
from harness.planning.request import Request
from harness.planning.teachers import Teachers
from harness.registry import HUB, STUDIES
from harness.runs import TeacherName
from harness.search.driver import Driver, workspace_of
from harness.teaching.outputs import mean_of
from tests.at_once import AtOnce, Silent
from tests.conftest import Harness
from tests.results import done, records
from tests.small_models import checkpoint as small_checkpoint
from tests.teachers import generative_models

pytestmark = pytest.mark.usefixtures("no_figures", "here")

SETTINGS = ("train_examples=32", "epochs=1", "teacher.epochs=1", "max_length=16")
RUN = (
    "run", "--study", "objectives_vs_init", "--objectives", "vanilla_kd", "--inits", "random", "--seeds", 1,
    "--trials", 1, "--set", *SETTINGS,
)  # fmt: skip


def planned(*overrides: str, **asked: Any) -> Plan:
    settings: dict[str, Any] = {"data": "embedded", "tasks": ["sentiment"], "objectives": ["vanilla_kd", "att_kl"]}
    given = {**settings, "inits": ["random", "every"], "seeds": 1, "trials": 1, **asked}
    return resolve(Request("objectives_vs_init", overrides=overrides, **given))


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    place = tmp_path_factory.mktemp("teachers")
    return str(small_checkpoint(place / "bert", "bert")), str(generative_models.checkpoint(place / "gpt2", "gpt2"))


def firsts(plan: Plan, kind: str) -> set[str]:
    return {name for name, first in plan.first.items() if first.run.kind == kind}


# ---------------------------------------------------------------- an ensemble


def test_an_ensembles_members_are_trained_as_they_would_be_alone(folders: tuple[str, str]) -> None:
    bert, gpt2 = folders
    plan = planned(teacher=f"{bert}+{gpt2}")
    alone = firsts(planned(teacher=bert), "teacher") | firsts(planned(teacher=gpt2, inits=["random"]), "teacher")
    assert firsts(plan, "teacher") == alone and len(alone) == 2
    (together,) = firsts(plan, "joined_teachers")
    assert plan.teachers == {"sentiment": together} and set(plan.first[together].run.depends_on) == alone
    assert plan.label == "bert + gpt2" and resolve_again(plan).teachers == plan.teachers
    refused = {(cell.row, cell.init): cell.refused for cell in plan.cells}
    assert not refused["vanilla_kd", "random"]
    assert "an ensemble has no layers of its own" in refused["vanilla_kd", "every"]
    assert "att_kl needs attention_scores, which the teacher" in refused["att_kl", "random"]
    assert "mean of its members' probabilities" in refused["att_kl", "random"]
    other = planned(teacher=f"{gpt2}+{bert}", objectives=["vanilla_kd"], inits=["random"])
    assert firsts(other, "teacher") == alone and firsts(other, "joined_teachers") != {together}


def resolve_again(plan: Plan) -> Plan:
    return Plan.from_json(json.loads(json.dumps(plan.to_json())))


def test_of_teachers_of_which_some_answer_as_they_are_the_others_fine_tuning_is_told(folders: tuple[str, str]) -> None:
    bert, gpt2 = folders
    of_tasks = planned(teacher=(f"sentiment={bert}", "similarity=embedded"), tasks=["sentiment", "similarity"])
    for plan in (planned(teacher=f"embedded+{bert}"), of_tasks):
        (told,) = recipes_before(plan)
        assert f"teacher {plan.label}, where its weights do not answer as they are: " in told and "epochs 3" in told
    plan = planned(teacher="embedded", tasks=["sentiment"])
    names = {line.name for line in explained(plan, STUDIES.get(plan.study))}
    assert "epochs" in names and "teacher.epochs" not in names, "of what answers as it is, nothing is trained"
    (told,) = recipes_before(planned(teacher=f"{gpt2}+{bert}"))
    assert told.startswith("Fine-tuning of teacher gpt2 + bert: ")


def test_each_seed_has_an_ensemble_of_its_own(folders: tuple[str, str]) -> None:
    plan = planned("teacher.seeds=2", teacher="+".join(folders), seeds=2, objectives=["vanilla_kd"], inits=["random"])
    assert len(firsts(plan, "teacher")) == 4 and len(firsts(plan, "joined_teachers")) == 2
    for setting in ("teacher.seeds", "teacher.epochs"):
        with pytest.raises(UserError, match=f"'{setting}' has no effect"):
            planned(f"{setting}=2", teacher="embedded+embedded", seeds=2)


def test_the_mean_is_of_probabilities_and_of_scores() -> None:
    logits = torch.randn(3, 5, 4, generator=torch.Generator().manual_seed(0))
    torch.testing.assert_close(mean_of(logits).exp(), logits.softmax(2).mean(0))
    assert torch.equal(mean_of(logits[:, :, :1]), logits[:, :, :1].mean(0))


@pytest.mark.parametrize(
    ("teacher", "words"),
    [
        ("embedded+", "two or more teachers joined by"),
        ("ensemble", "two or more teachers joined by"),
        ("embedded+embedded:train", "embedded is pre-trained anew"),
        ("embedded+./none", "teacher folder ./none does not exist"),
    ],
)
def test_what_is_no_ensemble_is_told(teacher: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        planned(teacher=teacher)


def test_several_tasks_together_are_refused(folders: tuple[str, str]) -> None:
    asked = {"study": "multi_task", "tasks": ("sentiment", "paraphrase"), "data": "embedded"}
    for teacher, said in (
        ("embedded+embedded", "several tasks together need one teacher, and an ensemble is refined on none"),
        (("sentiment=embedded", f"paraphrase={folders[0]}"), "several tasks together need one teacher, and each has"),
    ):
        plan = resolve(Request(teacher=teacher, **asked))
        assert any(cell.refused.startswith(said) for cell in plan.cells)
        assert not firsts(plan, "multi_task_teacher") and not firsts(plan, "multi_task")


def test_an_ensemble_of_different_tokenizers_teaches(
    tmp_path: Path, call: Harness, glue: Path, checkpoint: Path
) -> None:
    """It says the mean of what each says of the text as it reads it, and students learn from that."""
    gpt2, out = generative_models.checkpoint(tmp_path / "gpt2", "gpt2"), tmp_path / "out"
    words = (*RUN, "--data", glue, "--tasks", "mrpc", "--teacher", f"{checkpoint}+{gpt2}", "--out", out)
    done(call(*words))
    (student,) = records(out, "student").values()
    ((name, together),) = records(out, "joined_teachers").items()
    teachers = records(out, "teacher")
    assert student["status"] == "finished" and student["teacher_signals"] == {"logits": "stored"}
    said = {run: Ledger(out).predictions(run)["probabilities"] for run in (*teachers, name)}
    mean = np.mean([said[run] for run in teachers], axis=0)
    np.testing.assert_allclose(said[name], mean, atol=1e-5)
    assert len(teachers) == 2 and "f1" in together["metrics"]
    assert set(together["weights"]) >= {"0/model.safetensors", "1/model.safetensors"}
    before = {run: record["seconds"] for run, record in records(out).items()}
    (out / "ledger" / name / "weights" / "1" / "model.safetensors").unlink()
    assert "0 runs trained" in done(call(*words)).stdout
    learner = next(iter(records(out, "student")))
    shutil.rmtree(out / "ledger" / learner)
    done(call(*words))
    again = {run for run, record in records(out).items() if record["seconds"] != before[run]}
    assert again == {name, learner}, "the weights that it starts from are made again, and nothing else"
    assert "0 runs trained" in done(call(*words)).stdout


def test_members_of_the_same_weights_by_two_plugins_are_told_apart(tmp_path: Path, call: Harness) -> None:
    plugin, out = tmp_path / "mine.py", tmp_path / "out"
    plugin.write_text(
        "from harness.registry import teacher\n"
        "from harness.teachers.embedded import EmbeddedTeacher\n\n\n"
        "@teacher('embedded_again')\n"
        "class Mine(EmbeddedTeacher):\n"
        '    """Ours by another name."""\n'
    )
    words = (*RUN[:-4], "train_examples=32", "--tasks", "sentiment", "--teacher", "embedded_again+embedded")
    assert "4 runs trained" in done(call(*words, "--plugin", plugin, "--out", out)).stdout


def test_a_folder_in_ones_home_is_called_by_its_name(
    folders: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Python, and a shell in quotes, leave its place as it is typed: tables and cards tell no place."""
    monkeypatch.setenv("HOME", str(Path(folders[0]).parent))
    assert Teachers("~/bert", ["sentiment"]).label == "bert"
    assert Teachers("~/bert+~/gpt2", ["sentiment"]).label == "bert + gpt2"
    plan = SimpleNamespace(source_of=lambda made: TeacherName(HUB, "~/bert"))
    assert _model(SimpleNamespace(plan=plan, made=None)) == "bert"  # type: ignore[arg-type]


# ---------------------------------------------------------------- one for each task


def test_each_task_has_the_runs_of_its_own_teacher(folders: tuple[str, str], tmp_path: Path) -> None:
    bert, gpt2 = folders
    words = (f"sentiment={bert}", f"acceptability={gpt2}")
    plan = planned(teacher=words, tasks=["sentiment", "acceptability"], objectives=["vanilla_kd"], inits=["random"])
    for task, folder in (("sentiment", bert), ("acceptability", gpt2)):
        alone = planned(teacher=folder, tasks=[task], objectives=["vanilla_kd"], inits=["random"])
        assert alone.teachers[task] == plan.teachers[task]
        (cell,) = (cell for cell in plan.cells if cell.task == task)
        assert cell.run.identity(plan.defaults) == alone.cells[0].run.identity(alone.defaults)
        assert workspace_of(plan, tmp_path, "", cell.run).teacher.argument == folder
        teacher = plan.first[plan.teachers[task]].run
        assert workspace_of(resolve_again(plan), tmp_path, "", teacher).teacher.argument == folder
    assert plan.label == "sentiment=bert, acceptability=gpt2"
    kind, narrowed = names_of(Request("objectives_vs_init", teacher=words))
    assert kind == "teacher=acceptability=gpt2,sentiment=bert" and not narrowed
    ledger = Ledger(tmp_path / "out", create=True)
    assert Driver(plan, ledger, AtOnce(), Silent()).run() == 4


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("sentiment=embedded",), "names none for task paraphrase: add paraphrase=FOLDER"),
        (("sentiment=embedded", "rte=embedded"), "names one for rte, which is not one of the tasks"),
        (("sentiment=embedded", "sentiment=minilm"), "names two teachers for sentiment"),
        (("sentiment=embedded", "minilm"), "or one for each task as in sst2=FOLDER mrpc=FOLDER, not minilm"),
        (("sentiment=embedded", " "), "--teacher is empty"),
    ],
)
def test_what_names_no_teacher_for_each_task_is_told(words: tuple[str, ...], said: str) -> None:
    with pytest.raises(UserError, match=said):
        planned(teacher=words, tasks=["sentiment", "paraphrase"])


def test_distilling_on_a_corpus_needs_one_teacher(folders: tuple[str, str]) -> None:
    with pytest.raises(UserError, match="a corpus needs one teacher, and each task has its own here"):
        planned(teacher=(f"sentiment={folders[0]}", "paraphrase=embedded"), tasks=["sentiment", "paraphrase"],
                objectives=["vanilla_kd"], inits=["pretrained"], corpus="embedded")  # fmt: skip


def test_two_tasks_learn_from_two_kinds_of_teacher(
    tmp_path: Path, call: Harness, glue: Path, checkpoint: Path
) -> None:
    gpt2, out = generative_models.checkpoint(tmp_path / "gpt2", "gpt2"), tmp_path / "out"
    done(call(*RUN, "--data", glue, "--tasks", "sst2", "mrpc", "--teacher", f"sst2={checkpoint}",
              f"mrpc={gpt2}", "--out", out))  # fmt: skip
    made = {record["specification"]["task"]: record for record in records(out, "student").values()}
    assert {task: record["status"] for task, record in made.items()} == {"sst2": "finished", "mrpc": "finished"}
    assert made["sst2"]["parameters"] != made["mrpc"]["parameters"], "each is built in its own teacher's sizes"
