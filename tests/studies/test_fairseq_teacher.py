"""A study whose teacher is a checkpoint of fairseq: fine-tuned, imitated and copied from, end to end."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Harness
from tests.results import done, records
from tests.teachers import fairseq_models as small

CUT = ("--tasks", "acceptability", "--objectives", "att_mse+hid_seq", "att_kl+val_kl", "--inits", "every")
SETTINGS = ("train_examples=64", "epochs=1", "teacher.epochs=1", "max_length=32")


def test_the_quick_study_with_a_teacher_of_fairseq(call: Harness, tmp_path: Path) -> None:
    pytest.importorskip("fairseq", reason="the extra fairseq is not installed")
    folder, out = small.save(tmp_path / "fairseq"), tmp_path / "out"
    words = ("run", "--study", "objectives_vs_init", "--teacher", f"fairseq:{folder}", "--out", out, "--trials", 1)
    process = done(call(*words, *CUT, "--seeds", 1, "--set", *SETTINGS))
    assert "Teacher: fairseq" in process.stdout and "Att-KL + Val-KL" in process.stdout
    made = records(out).values()
    assert sorted(record["specification"]["kind"] for record in made) == ["student"] * 2 + ["teacher"]
    assert all(record["status"] == "finished" for record in made)
    signals = {name for record in made for name in record.get("teacher_signals", ())}
    assert signals == {"logits", "hidden_states", "attention_scores", "values"}
    assert "0 runs trained" in call(*words, *CUT, "--seeds", 1, "--set", *SETTINGS).stdout
