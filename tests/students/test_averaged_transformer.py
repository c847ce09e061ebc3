"""The transformer student that averages its layers' [CLS] states, and its published size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import BertConfig

from harness.contracts import Batch, ModelInfo, Signal, Want
from harness.errors import UserError
from harness.evaluation.parameters import build_student, count
from harness.modeling.bases import StudentConfig
from harness.registry import STUDENTS
from harness.students.averaged_transformer import AveragedTransformer
from tests.small_models import FAMILIES, THREE, small_batch, small_model
from tests.students.test_transformer import TEACHER, TOKENIZER


def build(family: str, outputs: int = 3, seed: int = 0, **settings: Any) -> AveragedTransformer:
    source = small_model(family).config.to_dict()
    torch.manual_seed(seed)
    own = {"layers": 2, "head_units": 6} | settings
    return AveragedTransformer(StudentConfig("averaged_transformer", own, source, outputs)).eval()


def batch(family: str) -> Batch:
    return Batch(torch.arange(3), torch.zeros(3), (small_batch(family),))


@pytest.mark.parametrize("family", FAMILIES)
class TestFamilies:
    def test_the_answer_is_made_of_the_average(self, family: str) -> None:
        student = build(family)
        everything = Want.of(frozenset(Signal) - {Signal.MLM_LOGITS}, (1, 2))
        found = student(batch(family), everything)
        average = (found.hidden_states[1][:, 0] + found.hidden_states[2][:, 0]) / 2
        assert torch.allclose(found.sentence, average, atol=1e-6)
        by_hand = student.head[2](torch.relu(student.head[0](average)))
        assert found.logits.shape == (3, 3) and torch.allclose(found.logits, by_hand, atol=1e-6)
        assert set(found.attention_scores) == set(found.values) == {1, 2}
        alone = student(batch(family), Want(logits=True, hidden_states=frozenset({2})))
        assert set(alone.hidden_states) == {2} and alone.sentence is None
        assert torch.allclose(alone.logits, found.logits, atol=1e-5)
        with pytest.raises(UserError, match="layer 3"):
            student(batch(family), Want(hidden_states=frozenset({3})))

    def test_it_starts_as_a_transformer_does(self, family: str) -> None:
        teacher, student = small_model(family), build(family)
        assert student.initialise("first", lambda: teacher, TOKENIZER) == {}
        states = Want(hidden_states=frozenset({2}))
        theirs = STUDENTS.get("transformer")(
            StudentConfig("transformer", {"layers": 2}, teacher.config.to_dict(), 3)
        ).eval()
        theirs.initialise("first", lambda: teacher, TOKENIZER)
        ours, expected = (model(batch(family), states).hidden_states[2] for model in (student, theirs))
        assert torch.equal(ours, expected)

    def test_every_weight_trains_and_none_is_idle(self, family: str) -> None:
        student = build(family).train()
        student(batch(family), Want(logits=True)).logits.square().sum().backward()
        assert [name for name, p in student.named_parameters() if p.grad is None] == []
        assert student.head_weights() == {f"head.{layer}.{part}" for layer in (0, 2) for part in ("weight", "bias")}


def test_what_it_describes() -> None:
    described = AveragedTransformer.describe({"head_units": 6}, TEACHER, THREE)
    assert described == ModelInfo("averaged_transformer", 3, 32, 4, 40, 3, frozenset(Signal), "fingerprint")
    assert AveragedTransformer.head_settings == {"head_units"}
    with pytest.raises(UserError, match="head_units must be at least 1"):
        AveragedTransformer.describe({"head_units": 0}, TEACHER, THREE)


def test_the_published_parameter_count() -> None:
    """liu2020, table 4.1: 21.3 M without embeddings, and without what answers a task, of BERT-base's first layers."""
    with torch.device("meta"):
        counted = count(build_student("averaged_transformer", {}, BertConfig().to_dict(), 2))
    layer = 4 * (768 * 768 + 768) + 2 * 768 * 3072 + 3072 + 768 + 4 * 768
    embedding_norm, head = 2 * 768, 768 * 512 + 512 + 512 * 2 + 2
    assert counted["parameters_without_embeddings"] == 3 * layer + embedding_norm + head == 21_659_906
    assert counted["classifier_parameters"] == head
    assert round(3 * layer / 1e6, 1) == 21.3
