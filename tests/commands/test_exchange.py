"""Results as Hugging Face's hub and Every Eval Ever collect them."""

from __future__ import annotations

import hashlib
import json
import os
import time
import uuid
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
import yaml
from huggingface_hub import EvalResultEntry
from huggingface_hub._eval_results import parse_eval_result_entries

from harness.commands.exchange import on_hub
from harness.data import own as known
from harness.data.tasks import get_task
from tests.commands import results
from tests.conftest import Harness
from tests.results import done, refused

pytestmark = pytest.mark.usefixtures("no_figures")

REPORT = ("report", "--study", "objectives_vs_init")
# What the schemas ask of an aggregate, of one of its results, and of a sample (version 0.2.2).
LOG = {
    "schema_version", "evaluation_id", "retrieved_timestamp", "source_metadata", "model_info", "eval_library",
    "evaluation_results",
}  # fmt: skip
SOURCE = {"source_type", "source_organization_name", "evaluator_relationship"}
RESULT = {"evaluation_name", "source_data", "metric_config", "score_details"}
SAMPLE = {
    "schema_version", "evaluation_id", "model_id", "evaluation_name", "sample_id", "interaction_type", "input",
    "answer_attribution", "evaluation",
}  # fmt: skip
# Whatever else either may hold: an unknown key is refused there.
LOG_TOO = {"dedupe_identity", "evaluation_timestamp", "detailed_evaluation_results"}
SAMPLE_TOO = {
    "sample_hash", "output", "messages", "token_usage", "performance", "error", "metadata", "evaluation_result_id",
}  # fmt: skip
ATTRIBUTION = {"turn_idx", "source", "extracted_value", "extraction_method", "is_terminal"}


def details(found: Any) -> list[Any]:
    """Every value of every `additional_details`, `details` and `metadata`."""
    if isinstance(found, list):
        return [value for part in found for value in details(part)]
    if not isinstance(found, dict):
        return []
    own = [v for key in ("additional_details", "details", "metadata") for v in found.get(key, {}).values()]
    return own + [value for part in found.values() for value in details(part)]


def test_every_eval_ever_has_a_log_and_its_samples_for_each_run(
    call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ledger = results.finished(tmp_path / "out", score=0.75)
    words = (*REPORT, "--out", ledger.out, "--format", "every_eval_ever", "--to", tmp_path / "to")
    done(call(*words))
    logs = sorted((tmp_path / "to").glob("data/objectives_vs_init/unknown/*/*.json"))
    assert len(logs) == 2
    for path in logs:
        log = json.loads(path.read_bytes())
        assert log.keys() >= LOG and not log.keys() - LOG - LOG_TOO
        assert log["source_metadata"].keys() >= SOURCE and log["source_metadata"]["source_type"] == "evaluation_run"
        assert log["retrieved_timestamp"].isdigit() and uuid.UUID(path.stem).version == 4
        (result,) = log["evaluation_results"]
        assert result.keys() >= RESULT and result["score_details"]["score"] == 0.75
        assert result["metric_config"]["score_type"] == "continuous" and not result["metric_config"]["lower_is_better"]
        assert (result["metric_config"]["min_score"], result["metric_config"]["max_score"]) == (0, 1)
        assert result["score_details"]["uncertainty"]["num_samples"] == 100
        assert result["source_data"]["source_type"] == "other" and result["source_data"]["dataset_name"] == "sst2"
        told = log["detailed_evaluation_results"]
        content = (tmp_path / "to" / told["file_path"]).read_bytes()
        assert told["checksum"] == hashlib.sha256(content).hexdigest() and told["total_rows"] == 100
        samples = [json.loads(line) for line in content.splitlines()]
        assert sum(sample["evaluation"]["is_correct"] for sample in samples) == 75
        for sample in samples:
            assert sample.keys() >= SAMPLE and not sample.keys() - SAMPLE - SAMPLE_TOO
            assert sample["evaluation_id"] == log["evaluation_id"] and sample["model_id"] == log["model_info"]["id"]
            assert sample["evaluation_result_id"] == result["evaluation_result_id"]
            assert sample["interaction_type"] == "single_turn" and sample["output"]["raw"]
            assert all(part.keys() == ATTRIBUTION for part in sample["answer_attribution"])
            right = sample["output"]["raw"] == sample["input"]["reference"]
            assert right == sample["evaluation"]["is_correct"]
        found = [*details(log), *details(samples)]
        assert found and all(isinstance(value, str) for value in found)
    before = {path: path.read_bytes() for path in (tmp_path / "to").rglob("*.json*")}
    monkeypatch.setattr(time, "time", lambda: 4e9)
    done(call(*words))
    assert {path: path.read_bytes() for path in (tmp_path / "to").rglob("*.json*")} == before


def test_a_log_tells_when_it_was_written_and_not_when_a_file_was_unpacked(call: Harness, tmp_path: Path) -> None:
    """An archive of docs/results gives every record the time 0; copying gives it any other."""
    ledger = results.finished(tmp_path / "out", score=0.75)
    told = []
    for moment in (0, 1_000_000_000):
        for path in (ledger.out / "ledger").glob("*/record.json"):
            os.utime(path, (moment, moment))
        to, before = tmp_path / str(moment), int(time.time())
        done(call(*REPORT, "--out", ledger.out, "--format", "every_eval_ever", "--to", to))
        logs = [json.loads(path.read_bytes()) for path in sorted(to.rglob("*.json"))]
        assert logs and all(before <= int(log["retrieved_timestamp"]) <= time.time() for log in logs)
        assert not any("evaluation_timestamp" in log for log in logs)  # which these records do not tell
        told.append([log["evaluation_id"] for log in logs])
    assert told[0] == told[1] and len({*told[0]}) == len(told[0])


def test_a_log_tells_which_version_evaluated_and_when(call: Harness, tmp_path: Path) -> None:
    ledger = results.finished(tmp_path / "out", ("vanilla_kd",))
    words = (*REPORT, "--out", ledger.out, "--format", "every_eval_ever", "--to")

    def log(to: str) -> Any:
        done(call(*words, tmp_path / to))
        (path,) = (tmp_path / to).glob("data/objectives_vs_init/unknown/*/*.json")
        return json.loads(path.read_bytes())

    old = log("old")  # no record told it then
    assert old["eval_library"]["version"] == "unknown" and "evaluation_timestamp" not in old
    told = {"harness": "0.0.7 commit 0123456789ab", "machine": "another", "ended": "2026-11-28T07:55:44+00:00"}
    results.record(ledger, replace(results.student("vanilla_kd"), seed=0), 0.5, made_on=told)
    kept = log("kept")
    assert kept["eval_library"] == {"name": "distill-harness", "version": "0.0.7"}
    assert kept["evaluation_timestamp"] == "1795852544"


def test_eval_results_are_those_of_the_hubs_data_sets(call: Harness, tmp_path: Path) -> None:
    ledger = results.finished(tmp_path / "out", score=0.75)
    words = (*REPORT, "--out", ledger.out, "--format", "eval_results", "--to", tmp_path / "to")
    refused(call(*words), "data sets of the hub")
    results.write_plan(ledger.out, replace(results.plan(), source="hub"))
    done(call(*words))
    files = sorted((tmp_path / "to").iterdir())
    assert [file.stem for file in files] == [cell.id for cell in results.plan().cells]
    for file in files:
        (entry,) = parse_eval_result_entries(yaml.safe_load(file.read_text()))
        assert isinstance(entry, EvalResultEntry)
        assert (entry.dataset_id, entry.task_id, entry.value) == ("nyu-mll/glue", "sst2", 75.0)
        assert entry.notes and "accuracy on dev" in entry.notes and entry.notes.endswith("mean of 1 seed")


def test_how_often_a_student_answers_as_its_teacher_is_no_result_of_the_hubs_data(
    call: Harness, tmp_path: Path
) -> None:
    ledger = results.finished(tmp_path / "out")
    first, *others = results.plan().cells
    for cell in results.plan().cells:
        results.record(ledger, replace(cell.run, seed=0), 0.5, metrics={"accuracy": 0.5, "agreement": 0.875})
    cells = [replace(first, metric="agreement"), *others]
    results.write_plan(ledger.out, replace(results.plan(), source="hub", cells=cells))
    asked = (*REPORT, "--out", ledger.out, "--format", "eval_results", "--to", tmp_path / "to")
    assert "left out, for they are no scores: agreement" in done(call(*asked)).stdout
    assert [file.stem for file in (tmp_path / "to").iterdir()] == [cell.id for cell in others]
    cells = [replace(cell, metric="agreement") for cell in cells]
    results.write_plan(ledger.out, replace(results.plan(), source="hub", cells=cells))
    refused(call(*asked), "eval_results holds scores, but all that is here is agreement: use --format every_eval_ever")


@pytest.mark.parametrize("own", [False, True])
def test_a_split_is_named_as_the_hub_does_only_where_it_is_known(own: bool, call: Harness, tmp_path: Path) -> None:
    """Of data of one's own dev is what there was, such as test."""
    ledger, told = results.finished(tmp_path / "out", ("vanilla_kd",)), "task sst2: two classes; 100 reported (test)"
    mine = {"sst2": {"place": "hub:a/b", "folder": "", "settings": {}, "task": asdict(get_task("sst2")), "told": told}}
    results.write_plan(ledger.out, replace(results.plan(), source="hub", **({"declared": mine} if own else {})))
    try:
        done(call(*REPORT, "--out", ledger.out, "--format", "every_eval_ever", "--to", tmp_path / "to"))
    finally:
        known.KNOWN.clear()  # what this plan calls sst2 is nobody else's
    found = [json.loads(path.read_bytes()) for path in (tmp_path / "to").rglob("*.json")]
    data = [result["source_data"] for log in found for result in log["evaluation_results"]]
    assert data and all(one["hf_repo"] == ("a/b" if own else "nyu-mll/glue") for one in data)
    assert all(("hf_split" not in one) == own for one in data)
    assert all((one["additional_details"].get("examples") == told) == own for one in data)


def test_data_of_the_hub_are_named_as_it_names_them() -> None:
    plan = replace(results.plan(), source="hub")
    names = ("sst2", "stsb", "mnli", "qnli_ranking")
    assert [on_hub(plan, get_task(name)) for name in names] == [
        ("nyu-mll/glue", name) for name in ("sst2", "stsb", "mnli", "qnli")
    ]
    assert on_hub(replace(plan, source="embedded"), get_task("acceptability")) == ("", "")


@pytest.mark.parametrize("flags", [("--format", "eval_results"), ("--format", "csv", "--to", "folder")])
def test_a_folder_goes_with_the_formats_of_several_files(flags: tuple[str, ...], call: Harness, tmp_path: Path) -> None:
    refused(call(*REPORT, "--out", results.finished(tmp_path / "out").out, *flags), "--to FOLDER")
