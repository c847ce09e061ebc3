from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Harness
from tests.results import done, table_folder


@pytest.fixture(autouse=True)
def offline(monkeypatch: pytest.MonkeyPatch, no_figures: None) -> None:
    """What no network gives at once, instead of after its clients' retries."""
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    monkeypatch.setattr("datasets.config.HF_HUB_OFFLINE", True)


@pytest.fixture
def run(call: Harness, glue: Path, checkpoint: Path, tmp_path: Path) -> Any:
    """run(study, *words) makes a study of small files, one trial and one seed in tmp_path / "out": its JSON table."""

    def run(name: str, *words: object, data: Path = glue, teacher: Path = checkpoint) -> Any:
        common = ("--teacher", teacher, "--data", data, "--seeds", 1, "--trials", 1, "--out", tmp_path / "out")
        done(call("run", "--study", name, *common, "--workers", 1, *words))
        return json.loads((table_folder(tmp_path / "out", name) / "table.json").read_text())

    return run
