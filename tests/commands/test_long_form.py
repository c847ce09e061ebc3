"""Every run of a study as a row, for other programs."""

from __future__ import annotations

import io
import subprocess
import sys
from pathlib import Path

import pandas
import pytest

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
