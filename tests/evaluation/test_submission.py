"""The files that GLUE's server takes."""

from __future__ import annotations

import csv
import json
import shutil
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.commands.submit import _repeated
from harness.data.loading import NumberedSplit
from harness.data.sources import Split
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.evaluation import server_scores, submission
from harness.ledger import Ledger
from harness.planning.filed import read
from harness.registry import TASKS
from harness.reports.papers import printed
from harness.runs import JointTeacherRun
from harness.search import results
from harness.search.progress import Finished, Progress, progress
from tests.conftest import BAD, Harness
from tests.results import refused, table_folder, written
from tests.search.builders import BASE, cell, student_run
from tests.search.builders import plan as planned

pytestmark = pytest.mark.usefixtures("no_figures")

STUDY = ("--study", "objectives_vs_init")
LABELS = {"sst2": ("0", "1"), "rte": ("entailment", "not_entailment")}
Submit = Callable[..., "subprocess.CompletedProcess[str]"]


def held_out(name: str, index: list[int]) -> NumberedSplit:
    texts = ["text"] * len(index)
    return NumberedSplit(Split(name, texts, None, np.zeros(len(index), np.int64)), index)


def test_the_names_are_those_the_server_expects(tmp_path: Path) -> None:
    # gluebenchmark.com, FAQ: the files of a submission
    expected = {"CoLA", "SST-2", "MRPC", "QQP", "STS-B", "MNLI-m", "MNLI-mm", "QNLI", "RTE", "WNLI", "AX"}
    assert submission.lacking(tmp_path) == sorted(f"{name}.tsv" for name in expected)
    tasks = [task for task in map(TASKS.get, TASKS.names()) if task.folder]
    found = {submission.file_name(t, split.replace("dev", "test")) for t in tasks for split in t.dev_splits}
    assert found == {f"{name}.tsv" for name in expected - {"AX"}}
    written = submission.write(get_task("mnli"), held_out("diagnostic", [0]), np.array([1]), tmp_path)
    assert (written.name, written.read_text()) == ("AX.tsv", "index\tprediction\n0\tneutral\n")
    assert submission.lacking(tmp_path) == sorted(f"{name}.tsv" for name in expected - {"AX"})


@pytest.mark.parametrize(
    ("task", "predictions", "words"),
    [
        ("cola", [1, 0, 1], ["1", "0", "1"]),
        ("rte", [1, 0, 1], ["not_entailment", "entailment", "not_entailment"]),
        ("qnli_ranking", [1, 0, 1], ["not_entailment", "entailment", "not_entailment"]),
        ("mnli", [2, 0, 1], ["contradiction", "entailment", "neutral"]),
        ("wnli", [0, 1, 1], ["0", "1", "1"]),
        ("stsb", [5.2, -0.7, 3.14159], ["5.000", "0.000", "3.142"]),
        ("stsb_classes", [5.0, 1.0, 2.4], ["5.000", "1.000", "2.400"]),
    ],
)
def test_a_file_is_what_the_server_takes(tmp_path: Path, task: str, predictions: list[float], words: list[str]) -> None:
    split = "test_mismatched" if task == "mnli" else "test"
    path = submission.write(get_task(task), held_out(split, [0, 7, 3]), np.array(predictions), tmp_path)
    assert path.parent == tmp_path and path.name == submission.file_name(get_task(task), split)
    lines = ["index\tprediction", *(f"{n}\t{word}" for n, word in zip((0, 7, 3), words, strict=True))]
    assert path.read_bytes() == ("\n".join(lines) + "\n").encode()
    assert list(tmp_path.iterdir()) == [path]


def test_what_is_wrong_writes_nothing(tmp_path: Path) -> None:
    for predictions in (np.array([1.0, np.nan]), np.array([1.0])):
        with pytest.raises(ValueError, match="not finite|shorter|longer"):
            submission.write(get_task("stsb"), held_out("test", [0, 1]), predictions, tmp_path)
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "RTE.tsv").mkdir()
    with pytest.raises(UserError, match=r"RTE\.tsv cannot be written"):
        submission.write(get_task("rte"), held_out("test", [0]), np.array([1]), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["RTE.tsv"]


# ---------------------------------------------------------------- the command


@pytest.fixture(scope="module")
def data(glue: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small GLUE folder, with the sentences of dev as test split, numbered from 100 on.

    RTE is labelled by its first sentence alone, which a small model learns at once.
    """
    root = Path(shutil.copytree(glue, tmp_path_factory.mktemp("data") / "glue"))
    for path in (root / "RTE" / "train.tsv", root / "RTE" / "dev.tsv"):
        header, *lines = path.read_text().splitlines()
        rows = [line.split("\t")[:-1] for line in lines]
        labelled = [[*row, LABELS["rte"][any(word in row[1] for word in BAD)]] for row in rows]
        path.write_text("\n".join([header, *("\t".join(row) for row in labelled)]) + "\n")
    for folder in ("SST-2", "RTE"):
        head, *fields = [line.split("\t")[:-1] for line in (root / folder / "dev.tsv").read_text().splitlines()]
        first = head.index("index") + 1 if "index" in head else 0
        numbered = [["index", *head[first:]], *([str(100 + n), *row[first:]] for n, row in enumerate(fields))]
        (root / folder / "test.tsv").write_text("\n".join("\t".join(row) for row in numbered) + "\n")
    return root


@pytest.fixture(scope="module")
def made(data: Path, checkpoint: Path, call: Harness, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two tasks, two initialisations."""
    out = tmp_path_factory.mktemp("submitted") / "out"
    process = call(
        "run", *STUDY, "--tasks", "sst2", "rte", "--objectives", "vanilla_kd", "--inits", "every", "random", "--seeds",
        "1", "--data", data, "--teacher", checkpoint, "--out", out, "--workers", "2", "--set", "max_length=24",
        "epochs=6", "batch_size=8", "learning_rate=2e-3", "teacher.epochs=6", "teacher.batch_size=8",
        "teacher.learning_rate=1e-3",
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    return out


@pytest.fixture
def submit(made: Path, call: Harness, tmp_path: Path) -> Submit:
    """submit(*words, out=...) of row vanilla_kd to the folder `to`."""

    def run(*words: object, row: str = "vanilla_kd", out: Path = made) -> subprocess.CompletedProcess[str]:
        return call("submit", *STUDY, "--out", out, "--row", row, "--to", tmp_path / "to", *words)

    return run


def best(out: Path, task: str, init: str) -> str:
    """The run of the cell's best trial, by the plan and the ledger."""
    plan = read(table_folder(out) / "plan.json", out)
    (cell,) = (c for c in plan.cells if c.task == task and c.init.endswith(init))
    found = progress(cell, plan.defaults, Ledger(out).read).best
    assert found is not None
    return found.run


def test_the_best_run_is_made_again_and_predicts_the_test_split(
    made: Path, submit: Submit, tmp_path: Path, data: Path, checkpoint: Path, call: Harness
) -> None:
    before = written(made)
    process = submit("--init", "random")
    assert process.returncode == 0, process.stderr
    assert process.stdout.splitlines() == [str(tmp_path / "to" / name) for name in ("SST-2.tsv", "RTE.tsv")]
    assert len(written(made).keys() - before.keys()) == 2
    for task, name in (("sst2", "SST-2.tsv"), ("rte", "RTE.tsv")):
        predictions = Ledger(made).predictions(best(made, task, "random"))
        assert predictions is not None
        words = [LABELS[task][index] for index in predictions["predictions"]]  # the sentences are those of dev
        assert len(words) == 40 and len(set(words)) == 2, "a constant could come from any run"
        lines = ["index\tprediction", *(f"{100 + n}\t{word}" for n, word in enumerate(words))]
        assert (tmp_path / "to" / name).read_text().splitlines() == lines
    assert "held" not in process.stderr
    again, known = submit("--init", "random", "--tasks", "rte"), written(made)
    assert "to held SST-2.tsv before: the archive is of row vanilla_kd if they are too" in again.stderr
    assert again.returncode == 0 and again.stdout.splitlines() == [str(tmp_path / "to" / "RTE.tsv")]
    assert written(made) == known, "what was made once is not made again"
    table = call("report", *STUDY, "--out", made, "--format", "csv")
    assert table.returncode == 0 and "vanilla_kd" in table.stdout


def test_what_the_server_said_is_kept_and_compared(
    made: Path, submit: Submit, tmp_path: Path, call: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = Path(shutil.copytree(made, tmp_path / "out"))
    said = tmp_path / "said.csv"
    said.write_text("task,metric,score\nsst2,accuracy,71.5\n")
    words = ("--study", "objectives_vs_init", "--out", out, "--row", "vanilla_kd", "--init", "every", "--scores", said)
    refused(call("submit", *words), "row vanilla_kd on sst2 was not submitted as it is now")
    assert submit("--init", "every", "--tasks", "sst2", out=out).returncode == 0
    process = call("submit", *words)
    assert process.returncode == 0 and "kept for sst2: harness report --compare" in process.stdout, process.stderr
    kept = (out / server_scores.NAME).read_bytes()
    limit = csv.field_size_limit(131_072)  # Python's own, which reading a table in this process has raised
    for wrong, sentence in {
        "task,metric,score\nsst3,accuracy,70": "unknown task of this plan 'sst3': did you mean sst2?",
        "task,metric,score\nsst2,acuracy,70": "unknown metric of sst2 'acuracy': did you mean accuracy?",
        "task,metric,score\nsst2,accuracy,170": "must be 0 to 100 points, as the server prints it, not '170'",
        "task,metric,score\nsst2,accuracy,0.7": "must be in points, as the server prints it: 70, not 0.7",
        "task,metric,score\nsst2,accuracy,-0.7": "must be 0 to 100 points",
        "task,metric,score\nsst2,accuracy,nan": "must be 0 to 100 points",
        "task,metric,score\nsst2,accuracy,70\nsst2,accuracy,71": "gives accuracy of sst2 twice",
        'task,metric,score\nsst2,accuracy,"70': "cannot be read: unexpected end of data",
        "task,metric,score\nsst2,accuracy," + 99_999 * "70": "cannot be read: field larger than field limit",
        "task,metric\nsst2,accuracy": "must be a CSV file of task, metric, score",
        "": "must be a CSV file of task, metric, score",
    }.items():
        said.write_text(wrong)
        process = call("submit", *words)
        assert process.returncode == 2 and sentence in process.stderr and len(process.stderr.splitlines()) == 1
    csv.field_size_limit(limit)
    said.unlink()
    assert "cannot be read: No such file" in call("submit", *words).stderr
    assert "--tasks has no effect with --scores" in call("submit", *words, "--tasks", "sst2").stderr
    assert "not allowed with argument" in call("submit", *words, "--to", tmp_path).stderr
    assert (out / server_scores.NAME).read_bytes() == kept, "nothing is lost"

    def of_test(*asked: Any) -> Any:
        return [{**line, "split": "test"} for line in printed.read(*asked)]

    monkeypatch.setattr("harness.reports.papers.compare.read", of_test)
    report = ("report", "--study", "objectives_vs_init", "--out", out, "--compare", "published", "--format", "json")
    beside = [entry["test"] for entry in json.loads(call(*report).stdout)["entries"] if entry["test"]]
    assert beside == [71.5] and "is not shown" not in call(*report).stdout
    (out / server_scores.NAME).write_bytes(kept[:-9])
    damaged = call(*report)
    assert damaged.returncode == 0 and f"{server_scores.NAME} is damaged and ignored" in damaged.stderr
    said.write_text("task,metric,score\nsst2,accuracy,72\n")
    assert call("submit", *words).returncode == 2 and (out / server_scores.NAME).read_bytes() == kept[:-9]


def test_scores_of_one_system_join_those_of_another(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, create=True)
    server_scores.keep(ledger, {"a": {"mrpc": {"f1": 88.9, "accuracy": 84.8}}})
    server_scores.keep(ledger, {"b": {"stsb": {"pearson": -1.0}}, "a": {"mrpc": {"f1": 89.0}}})
    assert server_scores.kept(ledger) == {
        "a": {"mrpc": {"f1": 89.0, "accuracy": 84.8}},
        "b": {"stsb": {"pearson": -1.0}},
    }
    said = tmp_path / "said.csv"
    said.write_text("task, metric, score\nmnli, mismatched_accuracy, 72.6\nstsb, spearman, -3\n")
    assert server_scores.read(said, ["mnli", "stsb"]) == {
        "mnli": {"mismatched_accuracy": 72.6},
        "stsb": {"spearman": -3},
    }


def test_another_result_than_the_recorded_one_is_said(made: Path, submit: Submit, tmp_path: Path) -> None:
    out = Path(shutil.copytree(made, tmp_path / "out"))
    ledger = Ledger(out)
    run = best(out, "sst2", "every")
    record = dict(ledger.read(run) or {})
    ledger.write(run, {**record, "metrics": {"accuracy": 0.123}}, ledger.predictions(run))
    process = submit("--init", "every", "--tasks", "sst2", out=out)
    assert process.returncode == 0 and (tmp_path / "to" / "SST-2.tsv").exists()
    assert "the repeated run of sst2 has accuracy" in process.stderr and "0.1230 is recorded" in process.stderr


@pytest.mark.parametrize(
    ("words", "row", "said"),
    [
        (
            ("--init", "random"),
            "vanila_kd",
            "unknown row of study objectives_vs_init 'vanila_kd': did you mean vanilla",
        ),
        ((), "vanilla_kd", "has 2 cells on sst2: add --init every or random"),
        (("--init", "evry"), "vanilla_kd", "'evry': did you mean every?"),
        (("--init", "random", "--tasks", "mrpc"), "vanilla_kd", "unknown task of this plan 'mrpc'"),
        (("--init", "random", "--data", "nowhere"), "vanilla_kd", "data folder nowhere does not exist"),
    ],
)
def test_what_is_not_there_is_refused(submit: Submit, words: tuple[str, ...], row: str, said: str) -> None:
    process = submit(*words, row=row)
    refused(process, said)
    assert process.stdout == ""


def test_missing_test_files_other_data_and_unfinished_cells_are_refused(
    made: Path, submit: Submit, data: Path, glue: Path, tmp_path: Path
) -> None:
    refused(submit("--init", "every", "--data", glue), "SST-2/test.tsv", "does not exist")
    other = Path(shutil.copytree(data, tmp_path / "other"))
    (other / "SST-2" / "train.tsv").write_text("sentence\tlabel\nfine\t1\nweak\t0\n")
    refused(submit("--init", "every", "--data", other), "training data of sst2", "not those")
    out = Path(shutil.copytree(made, tmp_path / "out"))
    shutil.rmtree(out / "ledger" / best(out, "rte", "every"))
    done = submit("--init", "every", out=out)
    refused(done, "row vanilla_kd on rte is not finished", "the harness run command that planned it goes on with it")
    (tmp_path / "to").write_text("")
    refused(submit("--init", "every"), "is a file, not a folder")
    shutil.rmtree(tmp_path / "out")
    refused(submit("--init", "every", out=tmp_path / "out"), "there are no results")


def test_two_tasks_of_one_file_are_refused(
    data: Path, checkpoint: Path, call: Harness, submit: Submit, tmp_path: Path
) -> None:
    for part in ("train", "dev", "test"):  # two ways to answer QNLI, whose questions here are those of RTE
        header, *lines = (data / "RTE" / f"{part}.tsv").read_text().splitlines()
        (tmp_path / "glue" / "QNLI").mkdir(parents=True, exist_ok=True)
        text = "\n".join([header.replace("sentence1\tsentence2", "question\tsentence"), *lines]) + "\n"
        (tmp_path / "glue" / "QNLI" / f"{part}.tsv").write_text(text)
    out = tmp_path / "out"
    process = call(
        "run", *STUDY, "--tasks", "qnli", "qnli_ranking", "--objectives", "labels_only", "--inits", "random", "--seeds",
        "1", "--trials", "1", "--data", tmp_path / "glue", "--teacher", checkpoint, "--out", out, "--set", "epochs=1",
        "teacher.epochs=1",
    )  # fmt: skip
    assert process.returncode == 0, process.stderr
    process = submit(row="labels_only", out=out)
    refused(process, "qnli and qnli_ranking are both QNLI to GLUE's server", "choose it with --tasks")
    assert not (tmp_path / "to").exists() and process.stdout == ""
    assert submit("--tasks", "qnli", row="labels_only", out=out).stdout == f"{tmp_path / 'to' / 'QNLI.tsv'}\n"


def test_a_run_of_several_tasks_predicts_all_of_theirs() -> None:
    run = JointTeacherRun(tasks={"rte": "a", "mrpc": "b"}, metrics={}, teacher=BASE, settings={}, seed=0)
    joint, alone = Finished("r", lambda: run, {}, {}), Finished("s", lambda: student_run(seed=0), {}, {})
    cells = [cell(task=task, trials=3, seeds=2) for task in ("rte", "mrpc", "sst2")]
    best_runs, contents = {"rte": joint, "mrpc": joint, "sst2": alone}, {"rte": "x", "mrpc": "y", "sst2": "z"}
    rte, mrpc, sst2 = (_repeated(one, best_runs, contents) for one in cells)
    assert rte.run == mrpc.run == replace(run, test={"rte": "x", "mrpc": "y"})
    assert sst2.run == student_run(seed=0, test={"sst2": "z"})
    assert {(again.trials, again.seeds) for again in (rte, mrpc, sst2)} == {(1, 1)}


def test_a_score_of_a_run_that_is_no_longer_chosen_is_told_of() -> None:
    """As when a better trial came later: the score is of another setting."""
    first, later = (Finished(name, student_run, {}, {"status": "finished", "selection": 0.5}) for name in "ab")
    places = {" (bilstm)": ("bilstm", ""), " (transformer, init every)": ("transformer", "every"), "": ("", "")}
    plan = planned([cell(student=student, init=init) for student, init in places.values()])
    replays = [Progress(trials=[first, later], best=later)] * len(places)
    assert results.not_chosen(plan, replays, {}) == results.not_chosen(plan, replays, {"b": {"sst2"}}) == ()
    assert results.not_chosen(plan, replays, {"a": {"rte"}}) == ()
    why = "is not shown: another run is chosen now than was submitted."
    told = tuple(f"The test score of vanilla_kd on sst2{place} {why}" for place in places)
    assert results.not_chosen(plan, replays, {"a": {"sst2"}}) == told
    shared = [Progress(trials=[first], best=first), Progress(trials=[first, later], best=later)]
    rows = planned([cell(), cell(name="d", row="twin")])  # of which the first alone was submitted
    assert results.not_chosen(rows, shared, {"a": {"sst2"}}) == ()
