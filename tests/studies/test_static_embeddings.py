"""The study of static embeddings, small: what is made once, what stays, and the row that needs a file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from harness.modeling import glove, static_vectors
from harness.planning.plan import resolve
from harness.planning.request import Request
from tests.conftest import Harness
from tests.results import records, refused
from tests.studies.builders import planned

SMALL = ("student.vector_size=16", "student.matrix_size=3", "epochs=1", "train_examples=32", "teacher.epochs=1")


def test_static_vectors_are_made_once_a_teacher_and_frozen_ones_stay(run: Any, tmp_path: Path) -> None:
    rows = ("frozen", "static_kd", "static_hybrid", "tfidf")
    table = run("static_embeddings", "--tasks", "mrpc", "--keep", "best", "--objectives", *rows, "--set", *SMALL)
    (file,) = (tmp_path / "out").rglob("static/*/vectors.safetensors")
    found = records(tmp_path / "out", "student")
    told = [record["initialisation"] for record in found.values()]
    assert len(told) == 3 and all(t["filled"] == "vectors" and 0 < t["variance"] < 1 for t in told)
    stays = {}
    for name, record in found.items():
        (own,) = (tmp_path / "out").rglob(f"{name}/weights/model.safetensors")
        rows_now = load_file(own)["embedding.vectors.weight"]
        first, given, _ = static_vectors.read(file, 16, len(rows_now))
        given[0] = False  # padding
        setting = record["specification"]["settings"][f"{record['specification']['student']}.vectors"]
        stays.setdefault(setting, []).append(torch.equal(rows_now[given], first[given]))
    assert stays == {"frozen": [True], "trained": [False, False]}
    value = {e["row"]: e["value"] for e in table["entries"]}
    gained = value["Static hybrid; vanilla KD"] - value["Static, trained; vanilla KD"]
    assert value["Gained by the order of words"] == pytest.approx(gained)


def test_a_row_that_lacks_its_file_stops_no_other_and_one_that_is_asked_for_stops_all(
    call: Harness, glue: Path, checkpoint: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(glove, "path", glove.path.__wrapped__)
    monkeypatch.setattr(glove, "folder_of", lambda name: None)  # wherever the package is installed
    asked = Request("static_embeddings", teacher=str(checkpoint), data=str(glue), tasks=["mrpc"])
    found = {cell.row: cell.refused for cell in resolve(asked).cells}
    assert found["glove"].startswith("vectors:glove") and found["cbow"] == found["transformer"] == ""
    words = ("plan", "--study", "static_embeddings", "--tasks", "mrpc", "--out", tmp_path, "--inits")
    refused(call(*words, f"vectors:{tmp_path}/none.txt"), "none.txt does not exist")
    file = tmp_path / "given.txt"
    file.write_text("dog " + " ".join(["0.5"] * 50) + "\n")
    given = planned("static_embeddings", profile="small", inits=[f"vectors:{file}"], objectives=["glove"])
    assert not any(cell.refused for cell in given.cells)
    (wide,) = planned("static_embeddings", "cbow.vector_size=65", profile="quick", tasks=["similarity"],
                      objectives=["frozen"]).cells  # fmt: skip
    assert "at most 64: give the student vectors of 64" in wide.refused


def test_baselines_are_there_already() -> None:
    rows = [row.name for row in planned("static_embeddings", profile="quick", baselines=True).rows]
    assert rows.count("tfidf") == 1 and rows.count("majority") == 1
