"""The studies of galke2022 through the command line: rows that fix axes, checkpoints, counts and speeds."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harness.data.tasks import get_task
from harness.evaluation.metrics import score
from harness.registry import STUDIES
from harness.search.proposals import propose
from harness.studies.matrix_settings import STSB
from tests.conftest import Harness
from tests.results import done, records, refused, table_folder
from tests.studies.builders import planned

SIZES = ("student.matrix_size=4", "student.vector_size=16", "max_length=16")
SHORT = ("epochs=1", "train_examples=32", "teacher.epochs=1")


def test_rows_differ_in_a_setting_and_share_a_run_where_it_does_nothing(run: Any, tmp_path: Path) -> None:
    """Of a single sentence there is no pair to encode."""
    run("pair_encoding", "--tasks", "sst2", "mrpc", "--set", *SIZES, *SHORT)
    runs = [record["specification"] for record in records(tmp_path / "out", "student").values()]
    encodings = sorted((run["task"], run["settings"]["hybrid.pair_encoding"]) for run in runs)
    assert encodings == [("mrpc", "diffcat"), ("mrpc", "joint"), ("sst2", "joint")]


def test_scores_below_the_first_class_of_stsb_count_as_it_which_is_told() -> None:
    """Scores of 0, 0.8, 2 and 4: as classes, and as they are given."""
    answers = [1.0, 1.0, 2.0, 4.0]
    assert score(get_task("stsb_classes"), answers, [0, 0, 5, 15])["pearson"] == pytest.approx(1.0)
    assert score(get_task("stsb"), answers, [0.0, 0.8, 2.0, 4.0])["pearson"] < 0.99
    for name in STUDIES.names():
        study = STUDIES.get(name)
        if study.published and study.procedure != "count" and "stsb_classes" in study.profile("paper").tasks:
            assert STSB in study.published.notes, name


@pytest.mark.parametrize(("profile", "task"), [("quick", "paraphrase"), ("small", "mrpc")])
def test_the_search_tries_joint_encoding_and_every_head_in_a_few_trials(profile: str, task: str) -> None:
    plan = planned("matrix_search", profile=profile, tasks=[task])
    tried = set()
    for cell in plan.cells:
        own = cell.student
        walk = [propose("", cell.space, cell.trials, number, []) or {} for number in range(cell.trials)]
        assert {s[f"{own}.pair_encoding"] for s in walk} == {"diffcat", "joint"}
        assert {s[f"{own}.head"] for s in walk} == {"mlp", "linear", "cnn", "bilstm"}
        assert {s["learning_rate"] for s in walk} == set(cell.space["learning_rate"])
        tried.add(str([[*setting.values()] for setting in walk]))
    assert len(tried) == 1  # the same settings of every student and start


def test_a_setting_that_rows_differ_in_is_not_to_be_set(call: Harness, tmp_path: Path) -> None:
    words = ("run", "--study", "pair_encoding", "--out", tmp_path / "out", "--set")
    for setting in ("student.pair_encoding=joint", "hybrid.pair_encoding=joint"):
        refused(call(*words, setting), "what rows of pair_encoding differ in")
    refused(call(*words, "student.heads=mlp"), "did you mean student.head or")


def test_checkpoints_are_fine_tuned_as_they_are(run: Any, checkpoint: Path, tmp_path: Path) -> None:
    words = ("--objectives", "hybrid_mlp", "--checkpoints", f"distilbert={checkpoint}", f"mine={checkpoint}")
    table = run("matrix_literature", "--tasks", "sst2", *words, "--set", *SIZES, *SHORT)
    rows = [entry["row"] for entry in table["entries"]]
    assert sorted(dict.fromkeys(rows)) == ["DistilBERT", "Hybrid + MLP (rand. init.)", "mine", "teacher"]
    made = list(records(tmp_path / "out", "checkpoint").values())
    assert len(made) == 1 and "teacher_signals" not in made[0]  # two rows of one model share its run


def test_students_narrow_the_rows_that_fix_theirs(call: Harness, glue: Path, checkpoint: Path) -> None:
    words = ("plan", "--study", "matrix_literature", "--teacher", checkpoint, "--data", glue, "--tasks", "sst2")
    process = call(*words, "--students", "hybrid")
    rows = {line.split()[4] for line in process.stdout.splitlines() if line.endswith(" done")}
    assert process.returncode == 0 and rows == {"hybrid_mlp"}, process.stdout + process.stderr


def test_augmented_examples_join_the_training_examples_alone(
    run: Any, checkpoint: Path, glue: Path, tmp_path: Path
) -> None:
    vectors = tmp_path / "vectors.txt"
    vectors.write_text("great 1 0\nlovely 1 0.1\n")
    words = ("--tasks", "sst2", "--objectives", "joint", "--set", *SIZES, *SHORT, "augmentation_copies=2")
    run("pair_encoding", *words, "augmentation=masked_language_model", f"augmentation_vectors={vectors}")
    (made,) = records(tmp_path / "out", "student").values()
    assert 32 < made["examples"] <= 96 and made["teacher_signals"] == {"logits": "stored"}


def test_augmentation_settings_without_augmentation_have_no_effect(call: Harness, glue: Path, checkpoint: Path) -> None:
    words = ("plan", "--study", "pair_encoding", "--teacher", checkpoint, "--data", glue, "--tasks", "sst2", "--set")
    refused(call(*words, "augmentation_copies=2"), "augmentation_copies' has no effect")
    refused(call(*words, "augmentation=word_vectors:nowhere.txt"), "nowhere.txt does not exist")


def test_every_published_count_is_ours_or_has_its_reason(call: Harness) -> None:
    """150 cells of linear, MLP, CNN and DiffCat BiLSTM heads, less CBOW's totals; 18 cells of joint BiLSTM heads."""
    process = done(call("report", "--study", "parameter_counts", "--compare", "published", "--format", "markdown"))
    assert "129 of 166 published numbers are equal" in process.stdout and "none is known" not in process.stdout
    reasons = [line for line in process.stdout.splitlines() if line.startswith("- Not equal")]
    assert len(reasons) == 2 and all("BiLSTM, joint" in r or "cbow" in r for r in reasons)


def test_speed_is_measured_beside_the_reference(call: Harness, tmp_path: Path) -> None:
    words = ("--objectives", "tinybert", "bidirectional_hybrid", "--set", "batch_size=2", "max_length=8", "rounds=1")
    done(call("run", "--study", "size_and_speed", *words, "--workers", 1, "--out", tmp_path / "out"))
    metrics = {r["specification"]["student"]: r["metrics"] for r in records(tmp_path / "out").values()}
    assert metrics["bidirectional_hybrid"]["parameters"] == 37_831_402
    assert metrics["bidirectional_hybrid"]["speed_ratio"] > metrics[""]["speed_ratio"] > 1
    folder = table_folder(tmp_path / "out")
    (shown,) = (
        entry
        for entry in json.loads((folder / "table.json").read_text())["entries"]
        if (entry["row"], entry["metric"]) == ("Bidirectional hybrid", "millions_of_parameters")
    )
    found = shown["runs"][0]["metrics"]
    assert shown["value"] == 37.831402
    assert found["seconds"] * found["sentences_per_second"] == pytest.approx(2, rel=0.02)  # one round of 2
    cell = json.loads((folder / "plan.json").read_text())["cells"][0]["id"]
    assert call("show", cell, "--out", tmp_path / "out").returncode == 0
    refused(
        call("run", "--study", "size_and_speed", "--checkpoints", "tinybert", "--out", tmp_path / "out"),
        "reads no weights",
    )


@pytest.mark.parametrize(
    ("study", "task", "setting", "acts"),
    [
        ("objectives_vs_init", "similarity", "vanilla_kd.temperature=4", False),  # a score has no softmax
        ("objectives_vs_init", "sentiment", "vanilla_kd.temperature=4", True),
        ("pair_encoding", "paraphrase", "mlm_kd.alpha=0.2", False),
        ("pair_encoding", "paraphrase", "mlm_kd.soft_weight=0.8", False),
        ("general_vs_task_specific", "paraphrase", "mlm_kd.alpha=0.2", True),
        ("pair_encoding", "paraphrase", "general.epochs=2", False),
        ("general_vs_task_specific", "paraphrase", "general.epochs=2", True),
        ("general_vs_task_specific", "paraphrase", "cmow.matrix_size=5", False),
    ],
)
def test_a_setting_without_effect_is_refused(call: Harness, study: str, task: str, setting: str, acts: bool) -> None:
    process = call("plan", "--study", study, "--tasks", task, "--set", setting)
    assert process.returncode == (0 if acts else 2), process.stderr
    refused = f"setting {setting.partition('=')[0]!r} has no effect", f"unknown setting {setting.partition('=')[0]!r}"
    assert acts or any(sentence in process.stderr for sentence in refused)


def test_the_old_name_of_a_weight_plans_the_same_runs_and_the_new_one_is_shown(call: Harness) -> None:
    words = ("plan", "--study", "general_vs_task_specific", "--tasks", "paraphrase", "--set")
    old = call(*words, "mlm_kd.alpha=0.3", "vanilla_kd.alpha=0.3")
    new = call(*words, "mlm_kd.soft_weight=0.7", "vanilla_kd.soft_weight=0.3")
    assert old.returncode == 0 and old.stdout == new.stdout and "alpha" not in new.stdout
    assert "mlm_kd.soft_weight 0.7" in new.stdout and "vanilla_kd.soft_weight 0.3" in new.stdout
    refused(call(*words, "mlm_kd.alpha=0.3", "mlm_kd.soft_weight=0.7"), "two names of the same setting")
    refused(call(*words, "vanilla_kd.soft_wait=0.3"), "did you mean vanilla_kd.soft_weight")


def test_settings_that_do_not_go_together_refuse_the_cell_alone(call: Harness) -> None:
    process = call("plan", "--study", "matrix_heads", "--tasks", "paraphrase", "--students", "hybrid", "--set",
                "student.vector_size=50")  # fmt: skip
    refused = [line for line in process.stdout.splitlines() if "refused:" in line]
    assert process.returncode == 0 and len(refused) == 4 and all("cnn" in line for line in refused)


def test_a_row_about_a_setting_refuses_a_student_without_it(call: Harness) -> None:
    process = call("plan", "--study", "pair_encoding", "--tasks", "paraphrase", "--students", "transformer")
    refused = [line for line in process.stdout.splitlines() if "transformer has no setting" in line]
    assert process.returncode == 0 and len(refused) == 2 and len({line.split()[0] for line in refused}) == 2


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("bidirection", "--students", "cbow"), "there is no cell for these tasks, students and initialisations"),
        (("matrix_literature", "--objectives", "hybrid_mlp", "soft_loss_hybrid_random"), "row soft_loss_hybrid_random"),
        (("matrix_literature", "--checkpoints", "general_mlp=./x"), "gives general_mlp to two rows"),
        (("pair_encoding", "--inits", "vectors:nowhere.txt"), "file nowhere.txt does not exist"),
        (("pair_encoding", "--set", "teacher.augmentation=none"), "unknown setting 'teacher.augmentation'"),
    ],
)
def test_what_cannot_be_meant_is_one_sentence(words: tuple[str, ...], said: str, call: Harness) -> None:
    process = call("plan", "--study", *words)
    assert process.returncode == 2 and said in process.stderr and len(process.stderr.splitlines()) == 1, process.stderr


def test_files_of_vectors_are_told_apart_by_content_and_their_width_refuses_a_cell(
    call: Harness, tmp_path: Path
) -> None:
    files = []
    for number, width in enumerate((64, 64, 65)):
        files.append(tmp_path / str(number) / "v.txt")
        files[-1].parent.mkdir()
        files[-1].write_text(f"dog {' '.join([str(number)] * width)}\n")
    inits = [f"vectors:{file}" for file in files]
    process = call("plan", "--study", "matrix_heads", "--tasks", "paraphrase", "--students", "cbow", "--objectives",
                "mlp_joint", "--inits", "random", *inits)  # fmt: skip
    lines = [line for line in process.stdout.splitlines() if " mlp_joint" in line]
    assert process.returncode == 0 and len({line.split()[0] for line in lines}) == len(lines) == 4
    assert sum("rows of 65 numbers, but a word of this student has 64" in line for line in lines) == 1
    assert sum("vectors:v.txt (" in line for line in lines) == 2  # labelled apart
