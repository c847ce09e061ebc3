"""Size and speed of a table's models, told on request."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from safetensors.numpy import save_file

import harness
from harness.commands import columns
from harness.evaluation import speed
from harness.ledger import Ledger
from tests.conftest import Harness
from tests.results import done, records, refused, table_folder

pytestmark = pytest.mark.usefixtures("no_figures", "here")

STUDY = (
    "--study", "objectives_vs_init", "--objectives", "vanilla_kd", "att_kl", "--inits", "every", "--tasks",
    "acceptability", "--seeds", "1", "--trials", "1", "--set", "epochs=1", "train_examples=32",
)  # fmt: skip


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory, call: Harness) -> Path:
    out = tmp_path_factory.mktemp("columns") / "results"
    done(call("run", *STUDY, "--baselines", "--out", out))
    return out


@pytest.fixture
def out(trained: Path, tmp_path: Path) -> Path:
    shutil.copytree(trained, tmp_path / "results")
    return tmp_path / "results"


@pytest.fixture(autouse=True)
def short() -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(speed, "TURN_SECONDS", 0.01)
        patch.setattr(columns, "ROUNDS", 3)
        yield


def report(call: Harness, out: Path, *words: str) -> list[dict]:
    said = done(call("report", *STUDY, "--baselines", "--out", out, "--format", "json", "--columns", *words))
    return [e for e in json.loads(said.stdout)["entries"] if e["task"] in ("size", "speed")]


def test_sizes_are_those_of_records_and_files(out: Path, call: Harness) -> None:
    (student,) = {r["parameters"] for r in records(out, "student").values()}
    (teacher,) = records(out, "teacher")
    files = {run: (out / "ledger" / run / "weights" / "model.safetensors") for run in records(out)}
    sizes = {path.stat().st_size / 1e6 for run, path in files.items() if run != teacher and path.is_file()}
    found = report(call, out, "parameters", "megabytes")
    for row, parameters, size in (
        ("Vanilla KD", student, sizes), ("Att-KL", student, sizes),
        ("teacher", 150_402, {files[teacher].stat().st_size / 1e6}),
    ):  # fmt: skip
        one, other = (e for e in found if e["row"] == row)
        assert (one["metric"], one["value"], other["metric"]) == ("parameters", parameters, "megabytes")
        assert any(other["value"] == pytest.approx(each) for each in size)
    assert {e["value"] for e in found if not e["objective"] and e["row"] != "teacher"} == {None}  # the references


def test_the_heads_of_other_tasks_are_left_out(tmp_path: Path) -> None:
    shared = {"encoder": np.zeros((3, 4), np.float32), "heads.sst2.out": np.zeros(5, np.float32)}
    sizes = {}
    for name, held in (("own", shared), ("joint", shared | {"heads.sst2_long.out": np.zeros(100, np.float32)})):
        save_file(held, tmp_path / name)
        sizes[name] = columns._held(tmp_path / name, ("heads.sst2_long.",))
    assert sizes["own"][0] == sizes["joint"][0] == 17
    assert sizes["joint"][1] - sizes["own"][1] < 100, "a line of the header"


def test_frozen_vectors_are_parameters_too(tmp_path: Path, call: Harness) -> None:
    asked = (
        "--study", "static_embeddings", "--objectives", "frozen", "trained", "--tasks", "acceptability", "--seeds", "1",
        "--trials", "1", "--set", "epochs=1", "train_examples=32", "--out", tmp_path,
    )  # fmt: skip
    done(call("run", *asked))
    said = done(call("report", *asked, "--format", "json", "--columns", "parameters"))
    frozen, trained = (
        e["value"] for e in json.loads(said.stdout)["entries"] if e["task"] == "size" and e["row"] != "teacher"
    )
    assert frozen == trained == max(r["parameters"] for r in records(tmp_path, "student").values())
    assert "where no weights are kept" not in said.stdout


def test_a_shape_is_timed_once_and_never_again(out: Path, call: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    found = report(call, out, "speed")
    rates = {e["row"]: e["value"] for e in found if e["metric"] == "sentences_per_second_from_ids"}
    assert rates["Vanilla KD"] == rates["Att-KL"] and rates["teacher"] != rates["Att-KL"] and min(
        rate for rate in rates.values() if rate is not None
    ) > 0  # fmt: skip
    assert len(list((out / "cache" / "speed").iterdir())) == 2  # the teacher's shape and the students'
    monkeypatch.setattr(columns, "_measured", None)
    again = call("report", *STUDY, "--baselines", "--out", out, "--columns", "speed")
    assert again.returncode == 0 and "measuring" not in again.stderr
    assert "by one thread of this processor" in again.stdout
    assert report(call, out, "speed") == found


def test_from_text_takes_the_tokenizers_time_too(out: Path, call: Harness) -> None:
    found = [e for e in report(call, out, "speed") if e["row"] == "Att-KL"]
    rate = {e["metric"]: e["value"] for e in found}
    ids, text, tokenizer, share = (rate[name] for name in columns.SPEEDS)
    assert text < ids and text < tokenizer
    assert 0 < share < 100 and share == pytest.approx(100 * ids / (ids + tokenizer), rel=0.5)


def test_without_weights_speed_is_refused_and_parameters_still_told(out: Path, call: Harness) -> None:
    for folder in out.glob("ledger/*/weights"):
        shutil.rmtree(folder)
    with pytest.raises(harness.UserError, match="no weights of finished runs on acceptability are kept"):
        harness.load_results(out, columns=["speed"])
    said = call("report", *STUDY, "--baselines", "--out", out, "--columns", "speed")
    assert said.returncode == 2 and said.stderr.count("\n") == 1
    text = done(call("report", *STUDY, "--baselines", "--out", out, "--columns", "parameters", "megabytes")).stdout
    assert "83,458" in text and columns.NOT_KEPT in text
    assert "Parameters: those that are trained, where no weights are kept" in text


def test_damaged_weights_are_not_timed(out: Path, call: Harness) -> None:
    for run in records(out, "student"):
        for file in (out / "ledger" / run / "weights").glob("*.safetensors"):
            file.write_bytes(file.read_bytes()[:-1] + b"x")
    found = report(call, out, "speed")
    assert {e["status"] for e in found if e["row"] == "Att-KL"} == {"unrecorded"}
    assert {e["status"] for e in found if e["row"] == "teacher"} == {"complete"}


def test_nothing_is_timed_while_a_run_works_there(out: Path, call: Harness) -> None:
    with Ledger(out).lock():
        said = call("report", *STUDY, "--baselines", "--out", out, "--columns", "speed")
        assert said.returncode == 3 and "another harness run is working" in said.stderr
        assert call("report", *STUDY, "--baselines", "--out", out, "--columns", "parameters").returncode == 0


def test_an_unknown_column_is_refused(out: Path, call: Harness) -> None:
    assert "invalid choice: 'size'" in call("report", *STUDY, "--columns", "size", "--out", out).stderr
    with pytest.raises(harness.UserError, match="unknown column 'sped': did you mean speed"):
        harness.load_results(out, columns=["sped"])


def test_a_run_prints_and_writes_them(out: Path, call: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = (*STUDY, "--baselines", "--out", out, "--columns", "parameters", "megabytes", "speed")
    said = done(call("run", *asked))
    assert said.stdout.startswith(done(call("report", *asked)).stdout) and "83,458" in said.stdout
    told = json.loads((table_folder(out) / "table.json").read_text())["entries"]
    assert {"size", "speed"} <= {entry["task"] for entry in told}
    refused(call("run", *asked, "--keep", "none"), "--columns megabytes reads the weights of students")
    monkeypatch.setattr(columns, "_speeds", Mock(side_effect=harness.UserError("nothing can be timed")))
    said = call("run", *asked)  # its table is there all the same
    assert said.returncode == 0 and "harness: nothing can be timed" in said.stderr and "Att-KL" in said.stdout


def test_python_draws_scores_against_sizes(out: Path) -> None:
    assert [panel.get_xlabel() for panel in harness.load_results(out).figure("pareto").axes] == ["parameters"]
    asked = harness.load_results(out, columns=["megabytes", "speed"])
    assert "megabytes" in str(asked.table)
    assert [panel.get_xlabel() for panel in asked.figure("pareto").axes] == [
        "megabytes of weights", "sentences a second, from token ids", "sentences a second, from text",
    ]  # fmt: skip


def test_a_study_that_counts_tells_its_parameters(tmp_path: Path, call: Harness) -> None:
    out = tmp_path / "none"
    asked = ("report", "--study", "parameter_counts", "--out", out, "--columns")
    assert "Size" in done(call(*asked, "parameters")).stdout
    assert "nothing of parameter_counts can be timed" in call(*asked, "speed").stderr
