"""Every run of a study as a row, for other programs."""

from __future__ import annotations

import io
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pandas
import pytest

from harness.runs.settings import Settings
from harness.search.frame import frame
from tests.commands import results
from tests.conftest import Harness, environment

STUDY = ("--study", "objectives_vs_init")


@pytest.mark.parametrize("form", ["jsonl", "parquet"])
def test_what_is_written_is_the_frame(form: str, call: Harness, tmp_path: Path) -> None:
    ledger = results.finished(tmp_path / "out")
    expected = frame(results.plan(), ledger)
    words = ["report", *STUDY, "--out", str(ledger.out), "--format", form]
    if form == "jsonl":
        found = pandas.read_json(io.StringIO(call(*words).stdout), lines=True, dtype=False)
    else:
        command = [sys.executable, "-m", "harness", *words]
        done = subprocess.run(command, env=environment(), capture_output=True, timeout=100, check=True)
        found = pandas.read_parquet(io.BytesIO(done.stdout))
    assert list(found.columns) == list(expected.columns) and len(found) == 2
    for column in ("run", "row", "task", "seed", "accuracy", "seconds", "trial"):
        assert found[column].tolist() == expected[column].tolist(), column


def test_no_digit_is_lost_in_text(call: Harness, tmp_path: Path) -> None:
    ledger = results.finished(tmp_path / "out", ["vanilla_kd"], score=1 / 3)
    made = results.plan(["vanilla_kd"])
    cell = replace(made.cells[0], run=results.student("vanilla_kd", settings=Settings(adam_epsilon=1e-12)))
    results.record(ledger, replace(cell.run, seed=0), 1 / 3)
    results.write_plan(ledger.out, replace(made, cells=[cell]))
    done = call("report", *STUDY, "--out", ledger.out, "--format", "jsonl")
    (row,) = map(json.loads, done.stdout.splitlines())
    assert (row["accuracy"], row["adam_epsilon"], row["trial"]) == (1 / 3, 1e-12, 0)
    assert row["error"] is None and row["peak_memory_mib"] is None, "what is not there"
