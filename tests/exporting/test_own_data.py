"""Students of data of one's own, of teachers of several kinds, as the folders that transformers opens."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from harness.exporting.opened import load
from tests.conftest import Harness
from tests.planning.test_examined import teacher
from tests.results import done, table_folder

TEXTS = ["the dog was great .", "the film, it was awful .", "a nurse"]
SIZES = ("tiny", "big", "of no size")  # not in the order of the alphabet


@pytest.mark.parametrize("kind", ["BertForSequenceClassification", "MPNetForSequenceClassification"])
def test_names_of_classes_and_scores_are_kept_and_logits_are_the_students(
    kind: str, forked: Harness, tmp_path: Path
) -> None:
    rows = [(f"the {who} is {size}", size, str(n + 0.5)) for who in ("dog", "cat", "nurse", "farmer", "story", "song")
            for n, size in enumerate(SIZES * 2)]  # fmt: skip
    for name, column in (("sizes", 1), ("marks", 2)):
        lines = ["text,label", *(f"{row[0]} {n},{row[column]}" for n, row in enumerate(rows))]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines))
    given = teacher(tmp_path / "mpnet", "mpnet") if kind.startswith("MPNet") else "embedded"
    done(forked(
        "run", "--study", "objectives_vs_init", "--out", tmp_path / "out", "--teacher", given, "--trials", 1,
        "--seeds", 1, "--objectives", "vanilla_kd", "--inits", "every", "--tasks", f"sizes={tmp_path / 'sizes.csv'}",
        f"marks={tmp_path / 'marks.csv'}", "--set", "epochs=1", "teacher.epochs=1", "student.layers=1",
        f"sizes.classes={','.join(SIZES)}", "--workers", 1,
    ))  # fmt: skip
    cells = json.loads((table_folder(tmp_path / "out") / "plan.json").read_bytes())["cells"]
    for name in ("sizes", "marks"):
        (cell,) = (cell["id"] for cell in cells if cell["task"] == name)
        folder = tmp_path / f"{name}_student"
        done(forked("export", cell, "--to", folder, "--out", tmp_path / "out"))
        model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
        assert type(model).__name__ == kind
        if name == "sizes":
            assert model.config.id2label == dict(enumerate(SIZES)) and model.config.label2id["of no size"] == 2
            assert model.config.problem_type == "single_label_classification"
        else:
            assert (model.config.num_labels, model.config.problem_type) == (1, "regression")
        read = AutoTokenizer.from_pretrained(folder)(TEXTS, padding=True, truncation=True, return_tensors="pt")
        student = load(folder)
        with torch.inference_mode():
            torch.testing.assert_close(model(**read).logits, student.logits(TEXTS), rtol=0, atol=1e-6)
        first = student.predict(TEXTS)[0]
        assert set(first["probabilities"]) == set(SIZES) if name == "sizes" else isinstance(first["score"], float)
