"""The studies of wu2020 and liu2020: what their rows train and start from, which published lines they answer."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from harness.commands.recorded import table_of
from harness.contracts import Outputs
from harness.data.augmentation import SameTag, augment
from harness.data.sources import Split
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.evaluation.parameters import build_student, count
from harness.ledger import Ledger
from harness.planning.planned import Cell, Plan
from harness.planning.recipe import recipe
from harness.registry import OBJECTIVES, STUDIES, TEACHERS
from harness.reports import with_published
from harness.runs import CorpusDistillationRun, JointStudentRun, JointTeacherRun, TeacherRun
from harness.search.results import misnamed, other_teachers
from harness.studies.lstm_settings import LOSS_IS_A_MEAN, REPEATS
from harness.studies.multi_task_tasks import ITS_TEACHER
from harness.studies.profiles import FROM_EVEN_LAYERS, LAZY_ADAM
from tests.conftest import ROOT
from tests.results import records
from tests.search.builders import of_kind
from tests.studies.builders import planned

SIZES = ("student.hidden_units=4", "student.head_units=4", "student.embedding_size=6")
SHORT = ("epochs=1", "train_examples=32", "teacher.epochs=1", "max_length=16")
PUBLISHED = {name: STUDIES.get(name).published for name in STUDIES.names()}
FILES = {name: published.files for name, published in PUBLISHED.items() if published}
OURS = [name for name, files in FILES.items() if files[0].startswith(("wu2020", "liu2020"))]


def cells(plan: Plan, task: str) -> dict[str, Cell]:
    """The task's cells by row."""
    return {cell.row: cell for cell in plan.cells if cell.task == task}


def runs(plan: Plan, task: str) -> dict[str, Any]:
    """A run of each of these cells."""
    return {row: cell.run for row, cell in cells(plan, task).items()}


@pytest.mark.parametrize("name", OURS)
def test_every_published_row_stands_beside_its_numbers(name: str, tmp_path: Path) -> None:
    study = STUDIES.get(name)
    compared = with_published(table_of(planned(name), Ledger(tmp_path, create=True)), study).comparison
    assert compared
    lines = {line.label: line for block in compared.blocks for line in block.lines}
    wanted = {r.label for r in study.rows if r.published and (not r.checkpoint or study.procedure == "speed")}
    assert set(lines) == wanted
    assert all(any(pair.printed for pair in line.pairs) for line in lines.values())
    shown = {column.metric for column in compared.columns}
    asked = {metric for task in study.profile("paper").tasks for metric in study.shown(get_task(task))}
    assert asked - {"sentences_per_second"} <= shown


# ---------------------------------------------------------------- what is trained


def test_the_rows_of_sra_share_one_distillation_as_published() -> None:
    plan = planned("sra")
    ((run, made),) = of_kind(plan, CorpusDistillationRun).items()
    sst2 = cells(plan, "sst2")
    assert {row for row, cell in sst2.items() if run in cell.after} == {"sra", "sra_kd", "sra_kd_ts"}
    assert made.objective == "cosine" and made.init.startswith("vectors:")
    settings = {name: made.settings[name] for name in ("text", "pieces", "batch_size", "learning_rate")}
    assert settings == {"text": "sentences", "pieces": 4_000_000, "batch_size": 1024, "learning_rate": 1e-3}
    assert made.settings["bilstm.hidden_units"] == 512
    assert {row: of.objective for row, of in runs(plan, "sst2").items() if run in sst2[row].after} == {
        "sra": "labels_only",
        "sra_kd": "logit_mse",
        "sra_kd_ts": "logit_mse",
    }
    assert sst2["sra"].space == {"learning_rate": [2e-4, 3e-4, 5e-4, 1e-3]}


def test_patient_kd_has_a_transformers_rate_where_its_teacher_is_a_pretrained_one() -> None:
    tasks = {"quick": "sentiment", "small": "sst2", "paper": "sst2"}
    found = {size: cells(planned("sra", profile=size), task)["pkd"] for size, task in tasks.items()}
    assert {size: cell.space for size, cell in found.items()} == {
        "quick": {"learning_rate": [2e-3, 1e-3]},
        "small": {},
        "paper": {},
    }
    assert found["small"].run.settings["learning_rate"] == found["paper"].run.settings["learning_rate"] == 5e-5
    marks = {row.name: row.mark for row in planned("sra").rows}
    assert marks["pkd"] == f"{FROM_EVEN_LAYERS}; learning_rate 5e-05" and not marks["bilstm"]
    with pytest.raises(UserError, match="is what rows of sra differ in: choose by --objectives bert_base bilstm kd$"):
        planned("sra", "learning_rate=1e-3")
    assert cells(planned("sra", "learning_rate=1e-3", objectives=["bilstm", "kd"]), "sst2")["kd"].space == {}


@pytest.mark.parametrize(("task", "copies", "examples"), [("sst2", 17, 791_539), ("mrpc", 223, 799_172)])
def test_transfer_sets_of_wu2020_have_800_000_examples(task: str, copies: int, examples: int) -> None:
    """Counted on GLUE, without those that repeat another: so many copies of SST-2's short phrases would be 1.2 M."""
    settings = cells(planned("sra"), task)["kd_ts"].run.settings
    assert settings["augmentation"] == "masking+pos" and settings["augmentation_probability"] == 0.1
    assert settings["augmentation_copies"] == copies and settings["protocol"] == "published"  # all are trained on
    assert examples == pytest.approx(800_000, rel=0.011)


def test_the_teacher_of_a_row_has_the_same_share_of_the_data() -> None:
    plan = planned("sra_data_fraction")
    shares = {run: made.settings["train_fraction"] for run, made in of_kind(plan, TeacherRun).items()}
    sst2 = cells(plan, "sst2")
    for percent in (20, 30, 50, 100):
        assert [shares[run] for run in sst2[f"kd_{percent}"].after] == [percent / 100]
        assert sst2[f"teacher_{percent}"].run.settings["train_fraction"] == percent / 100
        assert not set(sst2[f"sra_{percent}"].after) & set(shares)  # after the distillation no teacher is asked
    assert len(of_kind(plan, CorpusDistillationRun)) == 1


def test_corpora_of_sra_are_shares_of_one() -> None:
    plan = planned("sra_corpus_size")
    made = of_kind(plan, CorpusDistillationRun)
    sizes = sorted(run.settings["pieces"] * run.settings["fraction"] for run in made.values())
    assert sizes == [1_000_000, 2_000_000, 4_000_000]
    assert not set(cells(plan, "sst2")["none"].after) & set(made)


def test_learning_curves_are_runs_that_end_at_their_epoch() -> None:
    found = runs(planned("sra_learning_curve"), "qqp")
    for row in STUDIES.get("sra_learning_curve").rows:
        settings = found[row.name].settings
        assert row.point == (row.label.rpartition(",")[0], settings["epochs"]) and settings["patience"] == 0


def test_chapter_3_trains_as_published() -> None:
    plan = planned("distilled_bilstm")
    for task, batch, copies in (("sst2", 50, 10), ("stsb", 50, 40), ("mrpc", 50, 40), ("mnli", 256, 10)):
        cell = cells(plan, task)["augmented"]
        settings = cell.run.settings
        assert (settings["batch_size"], settings["augmentation_copies"]) == (batch, copies)
        assert (settings["optimiser"], settings["learning_rate"]) == ("adadelta", 1.0)
        assert settings["bilstm.channels"] == "frozen_and_trained"
        assert cell.space == {"bilstm.hidden_units": [150, 300], "bilstm.head_units": [200, 400]}


def test_a_recipe_leaves_out_what_has_no_effect() -> None:
    said = recipe(planned("hidden_units"))
    assert "optimiser adadelta" in said and "weight_decay 0" in said and "adam" not in said
    assert "augmentation" not in said


def test_lines_of_a_figure_differ_in_one_setting() -> None:
    for name, setting in (("hidden_units", "bilstm.hidden_units"), ("augmentation_size", "augmentation_copies")):
        found = cells(planned(name), "sst2")
        for row in STUDIES.get(name).rows:
            settings = found[row.name].run.settings
            assert row.point and not found[row.name].space
            assert settings["augmentation"] == "none" if row.point[1] == 0 else settings[setting] == row.point[1]


def test_joint_distillations_learn_from_their_groups_of_tasks() -> None:
    plan = planned("multi_task_tasks")
    joint = of_kind(plan, JointStudentRun)
    groups = {row: {tuple(joint[run].tasks) for run in cell.starts} for row, cell in cells(plan, "stsb").items()}
    assert groups == {
        "sentiment": {("sst2",)},
        "paraphrase": {("mrpc", "qqp")},
        "inference": {("mnli", "qnli_ranking", "rte")},
        "all": {("mnli", "mrpc", "qnli_ranking", "qqp", "rte", "sst2", "stsb")},
    }
    assert {made.settings["augmentation"] for made in joint.values()} == {"none"}
    teachers, published = of_kind(plan, JointTeacherRun), STUDIES.get("multi_task_tasks").published
    assert all(teachers[made.teacher].tasks == made.tasks for made in joint.values())
    assert published and ITS_TEACHER in published.notes


def test_joint_distillation_is_that_of_the_thesis_before_and_without_fine_tuning() -> None:
    tuned, plan = of_kind(planned("multi_task"), JointStudentRun), planned("multi_task_procedures")
    joint = [runs(plan, "rte")[row] for row in ("bilstm", "words", "mkd_lstm")]
    wanted = {"learning_rate": 5e-4, "batch_size": 128, "epochs": 16, "augmentation": "masking", "gradient_clip": 1.0}
    for made in (*tuned.values(), *joint):
        assert made.objective == "logit_mse" and wanted.items() <= made.settings.items()
    assert [made.settings[f"{made.student}.vocabulary"] for made in joint] == ["teacher", "words", "teacher"]
    assert {made.student for made in tuned.values()} == {"biattentive_lstm", "averaged_transformer"}


@pytest.mark.parametrize("name", ["multi_task", "multi_task_procedures", "multi_task_tasks"])
def test_tasks_of_a_joint_distillation_weigh_as_the_notes_say(name: str) -> None:
    """Equation 4.14, the squared length of a difference, over ours: by the task's number of logits."""
    published, joint = STUDIES.get(name).published, of_kind(planned("multi_task"), JointStudentRun)
    assert published and LOSS_IS_A_MEAN in published.notes
    weights = {}
    for task in {task for made in joint.values() for task in made.tasks}:
        z_s, z_t = torch.randn(2, 1, get_task(task).outputs, generator=torch.Generator().manual_seed(0))
        batch: Any = None
        ours = OBJECTIVES.get("logit_mse")(*[None] * 3)(Outputs(logits=z_s), Outputs(logits=z_t), batch)
        weights[task] = round((ours / (z_t - z_s).norm() ** 2).item(), 5)
    half, third = dict.fromkeys(("sst2", "mrpc", "qqp", "rte"), 0.5), round(1 / 3, 5)
    assert weights == {**half, "mnli": third, "stsb": 1.0, "qnli_ranking": 1.0}


@pytest.mark.parametrize("name", OURS)
def test_words_that_a_batch_lacks_are_left_by_adam_which_is_told(name: str) -> None:
    """Where it trains a table of words: chapter 3 of liu2020 has AdaDelta, by which they would stay as well."""
    study = STUDIES.get(name)
    profile, notes = study.profile("paper"), study.published.notes if study.published else ()
    trains = study.procedure not in ("speed", "count") and profile.settings.get("optimiser") != "adadelta"
    assert (LAZY_ADAM in notes) == trains


def test_repeated_copies_are_not_made_again_which_is_told() -> None:
    """So that a row that masks alone has fewer texts than one that replaces words too."""
    texts = ["a good film", "the bad plot", "this dull cast", "that fine story", "an old trick", "no new idea"]
    split = Split("train", texts, None, np.zeros(len(texts), np.int64))
    masked, replaced = (augment(split, how, 10, 0.1, 0, masking=True) for how in (None, SameTag(split)))
    assert len(masked.text_a) < len(replaced.text_a) < 11 * len(texts)
    for name in ("augmentation", "distilled_bilstm"):
        published = STUDIES.get(name).published
        assert published and REPEATS in published.notes


# ---------------------------------------------------------------- sizes


def millions(name: str, row: str, task: str) -> float:
    """Ours, of the row's model in the paper's size."""
    study = STUDIES.get(name)
    profile, (chosen,) = study.profile("paper"), [r for r in study.rows if r.name == row]
    student = chosen.student or study.students[0]
    given = {**profile.settings, **chosen.settings}
    own = {k.split(".")[1]: v for k, v in given.items() if k.startswith(("student.", f"{student}."))}
    source = TEACHERS.get("huggingface")(profile.teacher).configuration()
    return count(build_student(student, own, source, 2, get_task(task).pair))["parameters_without_embeddings"] / 1e6


@pytest.mark.parametrize(
    ("name", "row", "task", "printed"),
    [
        ("bilstm_size_and_speed", "bilstm", "speed", "Distilled BiLSTM"),
        ("sra_size_and_speed", "kd", "speed", "BiLSTM_KD"),  # of single sentences: see the study's notes
        ("multi_task_speed", "mkd_lstm", "speed_pairs", "MKD-LSTM"),
    ],
)
def test_counts_that_equal_the_printed_ones(name: str, row: str, task: str, printed: str) -> None:
    (file,) = FILES[name]
    lines = csv.DictReader((ROOT / "reports" / "papers" / "published" / file).read_text(encoding="utf-8").splitlines())
    number = next(line["parameters_millions"] for line in lines if line["row"] == printed)
    assert f"{millions(name, row, task):.{len(number.partition('.')[2])}f}" == number


@pytest.mark.parametrize(
    ("name", "row", "task", "ours"),
    [
        ("bilstm_size_and_speed", "bilstm", "speed_pairs", 1.14),  # 1.59 in print
        ("sra_size_and_speed", "sra", "speed_pairs", 4.91),  # 4.8 in print
        ("sra_size_and_speed", "sra", "speed", 4.32),
        ("sra_size_and_speed", "kd", "speed_pairs", 3.13),  # 2.4 in print
    ],
)
def test_counts_that_the_notes_explain(name: str, row: str, task: str, ours: float) -> None:
    assert round(millions(name, row, task), 2) == ours


# ---------------------------------------------------------------- whole programs


def values(table: Any) -> dict[str, float]:
    """The numbers of a table of one column, by row."""
    return {entry["row"]: entry["value"] for entry in table["entries"] if entry["value"] is not None}


def test_sra_distils_once_and_shows_its_gains(run: Any, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the dog was great . the cat was dull . " * 40)
    words = ("--tasks", "sst2", "--corpus", corpus, "--set", *SIZES, *SHORT, "general.epochs=1", "general.pieces=40")
    table = values(run("sra", *words))
    assert len(records(tmp_path / "out", "general")) == 1
    for gain, better in (("Gain of SRA", "BiLSTM, SRA"), ("Gain of SRA + KD + TS", "BiLSTM, SRA + KD + TS")):
        assert table[gain] == pytest.approx(table[better] - table["BiLSTM"])


def test_masked_words_are_looked_at_in_every_row(run: Any, tmp_path: Path) -> None:
    run("masked_word_entropy", "--tasks", "sst2", "--set", *SIZES, *SHORT)
    made = records(tmp_path / "out", "student")
    assert len(made) == 2
    for record in made.values():
        sentences = record["masked_word_entropy"]
        assert sentences and all(len(s["words"]) == len(s["entropy"]) for s in sentences)


def test_a_student_of_several_tasks_is_shared_by_their_columns(run: Any, tmp_path: Path) -> None:
    words = ("--tasks", "sst2", "mrpc", "--objectives", "mkd_lstm", "--set", *SIZES, *SHORT)
    joint = [f"multi_task.{setting}" for setting in ("epochs=1", "train_examples=32", "augmentation=masking")]
    run("multi_task", *words, *joint, "student.projection_units=4")
    (made,) = records(tmp_path / "out", "multi_task").values()
    assert set(made["by_task"]) == {"sst2", "mrpc"}
    assert all(count > 2 * 32 for count in made["examples"].values())  # masked texts join them
    assert len(records(tmp_path / "out", "student")) == 2


def test_rows_that_learn_from_another_teacher_than_that_above_are_named() -> None:
    mixed = other_teachers(planned("multi_task_procedures", profile="quick"))
    assert mixed == (
        "The teacher above the table is the one refined on acceptability, sentiment and similarity together; rows that "
        "learn from another: Distilled on the task alone.",
    )
    by_row = other_teachers(planned("multi_task_tasks", profile="quick"))  # of which each starts from its own
    assert by_row[0].endswith("learn from another: Sentiment, Paraphrase, Inference.")
    jointly = ("mkd_lstm", "mkd_transformer")
    assert other_teachers(planned("multi_task", profile="quick", objectives=jointly)) == ()


def test_untuned_vectors_are_compared_by_a_threshold(run: Any, tmp_path: Path) -> None:
    table = values(run("untuned_representations", "--tasks", "mrpc", "--objectives", "first", "mean"))
    assert set(table) >= {"Teacher, first token", "Teacher, mean of tokens"}


def test_a_label_naming_the_study_s_student_is_explained_where_another_is_trained() -> None:
    asked = {"profile": "quick", "objectives": ("bilstm", "pkd"), "inits": ["random", "every"]}
    own, other = (planned("sra", students=given, **asked) for given in (None, ["transformer"]))
    assert misnamed(own, STUDIES.get("sra")) == ()
    assert "with transformer they are the objective: BiLSTM." in misnamed(other, STUDIES.get("sra"))[0]
