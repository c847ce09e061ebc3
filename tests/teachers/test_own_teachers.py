"""Teachers of users: what is told of one that the harness would otherwise believe wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import Harness
from tests.results import done, records

TEACHER = """
import torch
from harness.registry import teacher
from harness.teachers.embedded import EmbeddedTeacher

@teacher("mine")
class Mine(EmbeddedTeacher):
"""
SMALL = (
    "--study", "objectives_vs_init", "--tasks", "sentiment", "--objectives", "vanilla_kd", "--inits", "every",
    "--seeds", "1", "--trials", "1", "--plugin", "mine.py", "--teacher", "mine", "--out", "out", "--set", "epochs=1",
    "train_examples=32",
)  # fmt: skip
IGNORES = """
    def answers(self, task):
        return False

    def recipe(self, task):
        return {"epochs": 1}

    def model(self, task, weights):
        return self.untuned(task)  # whatever it was trained to
"""
SHIFTS = """
    def model(self, task, weights):
        model = super().model(task, weights)
        shift = torch.tensor([3.0, 0.0]) if weights is None else 0.0  # which no file holds
        forward = model.forward
        def shifted(*given, **named):
            found = forward(*given, **named)
            found.logits = found.logits + shift
            return found
        model.forward = shifted
        return model
"""


@pytest.mark.parametrize("text", [IGNORES, SHIFTS])
def test_one_that_would_teach_otherwise_than_its_row_says(text: str, forked: Harness, tmp_path: Path) -> None:
    """Students would imitate another model than the one whose score is printed."""
    (tmp_path / "mine.py").write_text(TEACHER + text)
    ended = forked("run", *SMALL, cwd=tmp_path)
    said = "mine.py gives other outputs once its weights are saved and loaded again: it must load the weights"
    assert ended.returncode == 1 and said in ended.stderr + ended.stdout, ended.stderr + ended.stdout
    assert not records(tmp_path / "out", "student")


def test_one_that_keeps_its_argument_by_itself(forked: Harness, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(f"{TEACHER}    def __init__(self, argument=''):\n        self.shipped = True\n")
    assert "1 cell" in done(forked("plan", *SMALL, cwd=tmp_path)).stdout
