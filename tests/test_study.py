"""A whole study through the command line: what is trained, what is kept, and that nothing is trained again."""

from __future__ import annotations

import json
import shutil
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from harness.files import read_sealed, sealed
from tests.conftest import ROOT, SMALL_STUDY, Harness, environment
from tests.launching import begun
from tests.results import done, records, refused, same_runs, same_tables, table_folder, written

pytestmark = pytest.mark.usefixtures("no_figures")


@pytest.fixture(scope="module")
def run(call: Harness, glue: Path, checkpoint: Path) -> Callable[..., subprocess.CompletedProcess[str]]:
    """run(out, *words): the small study, or another command of it."""

    def of(out: Path, *more: str, command: str = "run", study: Sequence[str] = SMALL_STUDY) -> Any:
        return done(call(command, *study, "--data", glue, "--teacher", checkpoint, "--out", out, *more))

    return of


Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture(scope="module")
def finished(run: Run, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small study, run to the end by two workers."""
    out = tmp_path_factory.mktemp("results") / "out"
    assert "runs trained" in run(out, "--workers", "2").stdout
    return out


@pytest.fixture
def out(finished: Path, tmp_path: Path) -> Path:
    """A copy of it."""
    return Path(shutil.copytree(finished, tmp_path / "out"))


def test_every_cell_has_its_budget(finished: Path) -> None:
    made = records(finished).values()
    assert all(r["status"] == "finished" and r["seconds"] > 0 and r["peak_memory_mib"] > 0 for r in made)
    # per cell 2 trials, then the best again with seed 1
    assert Counter(record["specification"]["kind"] for record in made) == {"teacher": 1, "student": 4 * (2 + 1)}


def test_again_and_in_another_order_nothing_is_trained_and_the_same_is_printed(finished: Path, run: Run) -> None:
    before, table = written(finished), (table_folder(finished) / "table.md").read_bytes()
    assert "0 runs trained" in run(finished).stdout
    assert written(finished) == before and (table_folder(finished) / "table.md").read_bytes() == table
    backwards = [*SMALL_STUDY]
    for one in (backwards.index("vanilla_kd"), backwards.index("every")):
        backwards[one], backwards[one + 1] = backwards[one + 1], backwards[one]
    assert "0 runs trained" in run(finished, study=backwards).stdout and written(finished) == before
    run(finished)  # its blocks in the order that others compare with


def test_the_table_survives_without_optunas_database(finished: Path, out: Path, run: Run) -> None:
    import optuna

    def trials() -> dict[str, list[float]]:
        storage = f"sqlite:///{out}/optuna.db"
        names = optuna.get_all_study_names(storage)
        studies = {name: optuna.load_study(study_name=name, storage=storage) for name in names}
        return {name: [trial.value or 0.0 for trial in study.get_trials()] for name, study in studies.items()}

    before = trials()
    assert len(before) == 4 and all(len(values) == 2 for values in before.values())
    (out / "optuna.db").unlink()
    assert "0 runs trained" in run(out).stdout and trials() == before
    same_tables(out, finished)


def test_one_worker_and_more_trials_later_give_the_same_table(finished: Path, run: Run, tmp_path: Path) -> None:
    out = tmp_path / "in_steps"
    run(out, "--trials", "1", "--seeds", "1", "--workers", "1")
    first = written(out)
    shutil.rmtree(table_folder(out).parent)  # another kind's, beside which that of the next stands
    run(out, "--trials", "2", "--seeds", "2", "--workers", "1")
    assert written(out).items() >= first.items()
    same_runs(out, finished)
    same_tables(out, finished)


def test_the_teacher_runs_once_whatever_the_objectives(finished: Path) -> None:
    indexes = list(finished.glob("cache/*/*/index.json"))
    assert len(indexes) == 1  # one task, one teacher, one set of examples
    index = read_sealed(indexes[0])
    # att_kl asks for two layers under "every" (2 and 4), vanilla_kd for logits: one pass stored them all
    assert set(index["files"]) == {"logits.f32", "attention_scores.2.f32", "attention_scores.4.f32"}
    assert index["passes"] == 1 and index["calls"] == 2  # 64 examples, 32 a call


def test_a_comment_reruns_nothing_and_another_formula_is_another_objective(
    glue: Path, checkpoint: Path, call: Harness, forked: Harness, tmp_path: Path
) -> None:
    plugin = tmp_path / "mine.py"
    formula = "    return (student.sentence - teacher.sentence).abs().mean()\n"
    head = (
        "from harness.contracts import Signal\nfrom harness.registry import objective\n"
        "@objective('mine', needs={Signal.SENTENCE})\ndef mine(student, teacher, batch):\n"
    )
    plugin.write_text(head + formula)
    small = ("--trials", "1", "--seeds", "1", "--set", "train_examples=32", "teacher.epochs=1")
    study = ("--study", "objectives_vs_init", "--tasks", "sst2", "--objectives", "mine", "--inits", "every", *small)
    words = (*study, "--data", glue, "--teacher", checkpoint, "--plugin", plugin, "--out", tmp_path / "out")
    first = call("run", *words)
    assert first.returncode == 0 and "mine" in first.stdout, first.stderr
    plugin.write_text("# a comment\n" + head + '    """A docstring."""\n' + formula)
    again = forked("run", *words)
    assert "0 runs trained" in again.stdout and "another version" not in again.stdout
    plugin.write_text(head + formula.replace("abs()", "square()"))
    changed = forked("report", "--study", "objectives_vs_init", "--out", tmp_path / "out")
    assert "1 cell was made with another version of mine" in changed.stdout
    again = forked("run", *words)
    assert "1 run trained" in again.stdout and "another version" not in again.stdout + again.stderr, again.stderr
    made = records(tmp_path / "out").values()
    assert [r["specification"].get("plugins", {}).keys() for r in made].count({"objective mine"}) == 2


def test_what_older_code_made_is_told_and_made_anew_when_asked(finished: Path, out: Path, run: Run) -> None:
    older = {run: r for run, r in records(out).items() if r["specification"].get("objective") == "att_kl"}
    for name, record in older.items():
        # Another att_kl gave other numbers, which Optuna's database has too; in the same order.
        other = {"code": {**record["code"], "att_kl": "486f1bff99a3"}, "selection": record["selection"] / 2}
        (out / "ledger" / name / "record.json").write_bytes(sealed(record | other))
    (out / "optuna.db").unlink()
    told = "2 cells were made with another version of att_kl; "
    assert f"{told}harness run --refresh makes them anew" in run(out, command="plan").stdout
    process = run(out)
    assert "0 runs trained" in process.stdout and f"{told}--refresh makes them anew" in process.stderr
    before = written(out)
    process = run(out, "--refresh")
    assert f"{len(older)} runs trained" in process.stdout and "another version" not in process.stdout + process.stderr
    assert {name for name, when in written(out).items() if before[name] != when} == set(older)
    same_tables(out, finished)
    with closing(sqlite3.connect(out / "optuna.db")) as view:
        scores = [value for (value,) in view.execute("SELECT value FROM trial_values")]
    assert len(scores) == 8 and 0.125 not in scores
    assert "0 runs trained" in run(out, "--refresh").stdout


def test_two_drivers_never_share_a_folder(glue: Path, checkpoint: Path, call: Harness, tmp_path: Path) -> None:
    out = tmp_path / "out"
    small = ("--objectives", "vanilla_kd", "--inits", "every", "--trials", "1", "--seeds", "1")
    words = ("run", *SMALL_STUDY, *small, "--data", glue, "--teacher", checkpoint, "--out", out)
    first = begun(*words, folder=tmp_path / "said", shared=True)
    while not list(out.glob("*/*/**/plan.json")) and first.is_alive():
        time.sleep(0.05)
    refused(call(*words), "another harness run", status=3)
    first.join(200)
    assert first.exitcode == 0


def test_status_show_and_plan(finished: Path, call: Harness, run: Run) -> None:
    status = call("status", "--study", "objectives_vs_init", "--out", finished)
    assert "4 of 4 complete" in status.stdout and "12 done, 0 failed, 0 left" in status.stdout
    cell = json.loads((table_folder(finished) / "plan.json").read_text())["cells"][0]
    shown = call("show", cell["id"], "--out", finished)
    assert "trial 0" in shown.stdout and "<- best" in shown.stdout and "seed 1" in shown.stdout
    run_shown = call("show", shown.stdout.split("trial 0: run ")[1].split(",")[0], "--out", finished)
    told = run_shown.stdout.splitlines()
    assert {"  kind: student", "  student: transformer", "    precision: float32"} <= set(told)
    assert any(line.startswith("  metrics: accuracy 0.") for line in told)
    assert not set("{}[]'\"") & set(shown.stdout + run_shown.stdout), "values as Python writes them"
    assert "12 runs, 0 missing" in run(finished, command="plan").stdout


def test_the_published_setting_is_planned_right(call: Harness, tmp_path: Path) -> None:
    process = done(call("plan", "--study", "objectives_vs_init", "--profile", "paper", "--out", tmp_path / "out"))
    text = process.stdout
    for task in ("qnli", "sst2", "mnli", "mrpc", "qqp", "rte", "cola"):
        assert f" {task} " in text
    assert "2 stages of 10 epochs" in text and "1 stage of 10 epochs" in text and "1 stage of 20 epochs" in text
    assert "teacher roberta-base" in text and "4 seeds" in text
    assert "learning_rate 1e-05 (qnli, sst2, mnli, mrpc, qqp, cola), 2e-05 (rte)" in text
    assert "batch_size 32 (qnli, sst2, mnli, qqp), 16 (mrpc, rte, cola)" in text
    assert "protocol: published (epochs and settings are selected on dev)" in text
    assert list(tmp_path.iterdir()) == []


def test_a_paper_profile_is_explained_beside_the_text(call: Harness, tmp_path: Path) -> None:
    words = ("plan", "--study", "distilled_bilstm", "--profile", "paper", "--explain", "--out", tmp_path / "out")
    process = done(call(*words, "--set", "batch_size=64"))
    equal, ours, untold = (" ".join(part.split()) for part in process.stdout.split("\n\n")[1:])
    assert equal.startswith("As the text says:") and "tasks sst2; qqp; stsb; mrpc; mnli [section 3.4.2]" in equal
    assert "augmentation_copies 10 (sst2, qqp, mnli), 40 (stsb, mrpc) [section 3.4.1]" in equal
    assert "student.hidden_units 150 or 300 [section 3.4.1]" in equal
    assert "teacher.learning_rate 3e-05 [section 3.4.1: the best of 2e-5, 3e-5, 4e-5 and 5e-5] (BERT's own" in ours
    assert "batch_size 64 [section 3.4.1: 50 (other tasks), 256 (qqp, mnli)]" in ours, "as asked for here"
    assert untold.startswith("Not told by the text:") and "epochs 15 (ours)" in untold
    assert list(tmp_path.iterdir()) == []


def test_settings_are_explained_by_the_names_that_set_takes(call: Harness, tmp_path: Path) -> None:
    words = ("plan", "--out", tmp_path / "out", "--explain", "--study")
    assert done(call(*words, "multi_task")).stdout.endswith("set as every teacher is: --set teacher.NAME\n")
    told = done(call(*words, "general_vs_task_specific", "--set", "mlm_kd.soft_weight=0.25")).stdout
    assert "\n  mlm_kd.soft_weight               0.25 [" in told and "--set" not in told


def test_a_plan_counts_all_runs_that_are_missing(call: Harness, tmp_path: Path) -> None:
    """A teacher's row searches nothing where students search four sizes; its seed 0 is the teacher of the others."""
    process = call("plan", "--study", "distilled_bilstm", "--profile", "paper", "--out", tmp_path / "out")
    assert "20 cells, 0 refused; 105 runs, 105 missing" in process.stdout, process.stderr
    assert "runs that these start from" not in process.stdout
    process = call("plan", "--study", "augmentation", "--profile", "paper", "--out", tmp_path / "out")
    assert "\n2 runs that these start from (teachers, distillations), 2 missing\n" in process.stdout


def test_a_plugin_is_one_file(forked: Harness, glue: Path, checkpoint: Path, tmp_path: Path) -> None:
    """Just as the README says: harness new, then --plugin; then the file moved into objectives/."""
    written = forked("new", "objective", "sentence_l1", cwd=tmp_path)
    assert written.returncode == 0 and (tmp_path / "sentence_l1.py").exists()
    listed = forked("list", "objectives", "--plugin", "sentence_l1.py", cwd=tmp_path)
    assert "sentence_l1" in listed.stdout
    process = forked(
        "run", "--study", "objectives_vs_init", "--plugin", "sentence_l1.py", "--objectives", "vanilla_kd",
        "sentence_l1", "--tasks", "sst2", "--inits", "every", "--trials", "1", "--seeds", "1", "--set",
        "train_examples=32", "teacher.epochs=1", "--data", glue, "--teacher", checkpoint, cwd=tmp_path,
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    assert "sentence_l1" in (table_folder(tmp_path / "results") / "table.md").read_text().replace("\\_", "_")
    refused(forked("new", "objective", "sentence_l1", cwd=tmp_path), "exists already")
    tree = tmp_path / "tree"
    for folder in ("harness", "objectives", "students", "teachers", "studies", "reports"):
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(tmp_path / "sentence_l1.py", tree / "objectives" / "sentence_l1.py")
    moved = subprocess.run(
        [sys.executable, "-m", "harness", "list", "objectives"], cwd=tree, capture_output=True, text=True,
        env={**environment(), "PYTHONPATH": str(tree)},
    )  # fmt: skip
    assert "sentence_l1" in moved.stdout, moved.stderr
