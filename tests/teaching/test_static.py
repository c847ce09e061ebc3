"""The pass of a teacher over its vocabulary: each entry as the teacher reads it alone, made once by content."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoModel, AutoModelForMaskedLM

from harness.modeling import static_vectors
from harness.modeling.static_vectors import Vocabulary
from harness.runs import BaseTeacher, StudentRun
from harness.teaching.static import states, static_file
from harness.training.workspace import teacher_tokenizer
from tests.small_models import FAMILIES, WORDS, checkpoint
from tests.training.builders import a_run, workspace_of


@pytest.mark.parametrize("family", FAMILIES)
def test_an_entry_is_the_mean_of_its_last_states_read_as_a_text(family: str, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / family, family)
    tokenizer = teacher_tokenizer(workspace_of(tmp_path, folder))
    vocabulary = Vocabulary.of(tokenizer, len(WORDS))
    found = states(AutoModelForMaskedLM.from_pretrained(folder), vocabulary)
    assert found.shape == (len(WORDS) - 4, 32) and found.dtype == torch.float32
    encoder = AutoModel.from_pretrained(folder).eval()
    for word in ("dog", "ran", "."):
        read = tokenizer(word, return_tensors="pt", return_token_type_ids=False)
        with torch.no_grad():
            expected = encoder(**read).last_hidden_state[0].mean(0)
        torch.testing.assert_close(found[vocabulary.entries.index(WORDS.index(word))], expected, rtol=1e-4, atol=1e-5)


def test_it_is_made_once_and_known_by_its_content(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path / "bert", "bert")
    workspace, asked = workspace_of(tmp_path, folder), []

    def load() -> Any:
        asked.append(1)
        return AutoModelForMaskedLM.from_pretrained(folder)

    first, again = (static_file(a_run(StudentRun, student=name), workspace, load) for name in ("cbow", "hybrid"))
    assert first == again and len(asked) == 1
    content = first.read_bytes()
    other = BaseTeacher(name="huggingface", content="other weights")
    assert static_file(a_run(StudentRun, teacher=other), workspace, load) != first and len(asked) == 2
    first.write_bytes(content[:-1])  # damaged
    assert static_file(a_run(StudentRun), workspace, load).read_bytes() == content and len(asked) == 3
    rows, given, share = static_vectors.read(first, 32, len(WORDS))
    assert given.all() and share == pytest.approx(1.0) and rows[WORDS.index("dog")].any()
    assert not rows[WORDS.index("[CLS]")].any()
