"""Students as people write them, through a folder: what `__init__` computes, weights that share memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn

from harness.contracts import Outputs
from harness.errors import UserError
from harness.modeling.bases import Student, StudentConfig
from harness.testing.objective_cases import make_batch
from harness.training.failures import TrainingFailure
from harness.training.weights import check_opens


class Written(Student):
    """Says what it is made of."""

    name = "written"

    def __init__(self, config: StudentConfig):
        super().__init__(config)
        self.rates = [rate.item() for rate in torch.linspace(0, 0.5, 3)]
        self.scale = torch.full((4,), 3.0)
        self.register_buffer("positions", torch.arange(20.0).view(5, 4).sin(), persistent=False)
        self.register_buffer("part", self.positions[:2])
        self.register_buffer("same", self.part)
        self.words = nn.Embedding(5, 4)
        self.answers = nn.Linear(4, 5, bias=False)
        self.answers.weight = self.words.weight
        self.turned = nn.Parameter(torch.randn(3, 4).T)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        """Everything starts as torch makes it."""

    def forward(self, batch: Any = None, want: Any = None) -> Tensor:  # type: ignore[override]
        states = self.words(torch.arange(5)) * self.scale + self.positions + sum(self.rates)
        return self.answers(states @ self.turned @ self.turned.T) + self.part.sum() + self.same.sum()


def test_a_student_answers_as_before_once_it_is_opened(tmp_path: Path) -> None:
    student = Written(StudentConfig("written"))
    with torch.no_grad():
        student.part.mul_(2)
        student.words.weight.add_(1)
    student.save_pretrained(tmp_path)
    drawn = torch.random.get_rng_state()
    opened = Written.from_pretrained(tmp_path)
    assert torch.equal(torch.random.get_rng_state(), drawn) and not opened.training
    assert torch.equal(opened(), student.eval()())
    assert opened.answers.weight is opened.words.weight and len(load_file(tmp_path / "model.safetensors")) == 5


def test_a_student_that_would_answer_otherwise_is_told_as_it_is_saved(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is no buffer is in no file."""
    monkeypatch.setattr(Written, "forward", lambda self, batch, want: Outputs(logits=self.part * self.scale))
    student, batch = Written(StudentConfig("written")), make_batch()
    student.save_pretrained(tmp_path)
    check_opens(student, Written.from_pretrained(tmp_path), batch, "a student", "keep it")
    student.scale = student.scale * 2
    with pytest.raises(TrainingFailure, match=r"^a student gives other outputs once its weights are .*: keep it$"):
        check_opens(student, Written.from_pretrained(tmp_path), batch, "a student", "keep it")


def test_weights_of_another_student_are_refused(tmp_path: Path) -> None:
    student = Written(StudentConfig("written"))
    student.turned = nn.Parameter(torch.zeros(4, 2))
    student.save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"of another written: its weight turned is \(4, 2\), not \(4, 3\)"):
        Written.from_pretrained(tmp_path)
