"""Parameter counts, against hand counts and the published ones; nothing big is allocated."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertForSequenceClassification,
)

from harness.errors import UserError
from harness.evaluation.parameters import build_student, count
from harness.teachers.architectures import KNOWN
from harness.teachers.huggingface import HuggingFaceTeacher
from tests.small_models import THREE, small_config


def on_meta(name: str, head: Any = AutoModel) -> torch.nn.Module:
    with torch.device("meta"):
        return head.from_config(AutoConfig.for_model(**KNOWN[name]))


class TestPublished:
    @pytest.mark.parametrize(
        ("name", "parameters"),
        [
            # tables V x D + 512 D + 2 D (+ norm 2 D), layers of 4 D (D + 1) + D (F + 1) + F (D + 1) + 4 D,
            # pooler D (D + 1)
            ("bert-base-uncased", 109_482_240),
            ("huawei-noah/TinyBERT_General_4L_312D", 14_350_248),
            ("huawei-noah/TinyBERT_General_6L_768D", 66_955_008),
            ("nreimers/MiniLM-L6-H384-uncased", 22_713_216),
            ("distilbert-base-uncased", 66_362_880),  # no pooler, no segments
            ("roberta-base", 124_645_632),
            ("google/mobilebert-uncased", 24_581_888),
        ],
    )
    def test_exactly(self, name: str, parameters: int) -> None:
        assert count(on_meta(name))["parameters"] == parameters

    @pytest.mark.parametrize("name", KNOWN)
    def test_each_is_planned_with_offline(self, name: str) -> None:
        info = HuggingFaceTeacher(name).info(THREE)
        assert info.width % info.heads == 0 and info.labels == 3


class TestCount:
    def test_a_classifier_by_hand(self) -> None:
        config = BertConfig(
            vocab_size=11, hidden_size=4, num_hidden_layers=1, num_attention_heads=2, intermediate_size=6,
            max_position_embeddings=7, num_labels=3,
        )  # fmt: skip
        tables, norms = 11 * 4 + 7 * 4 + 2 * 4, 3 * 8
        layer, pooler, classifier = 4 * (16 + 4) + (4 * 6 + 6) + (6 * 4 + 4), 16 + 4, 4 * 3 + 3
        assert count(BertForSequenceClassification(config)) == {
            "parameters": tables + norms + layer + pooler + classifier,
            "classifier_parameters": classifier,
            "parameters_without_embeddings": norms + layer + pooler + classifier,
        }

    def test_shared_weights_count_once(self) -> None:
        """A masked-language-model head adds Linear(D, D), a norm and V biases; its output weights are the table."""
        plain, masked = (count(on_meta("bert-base-uncased", head)) for head in (AutoModel, AutoModelForMaskedLM))
        pooler, added = 768 * 769, 768 * 769 + 2 * 768 + 30522
        assert masked["parameters"] == plain["parameters"] - pooler + added
        assert masked["classifier_parameters"] == added and plain["classifier_parameters"] == 0

    def test_frozen_weights_do_not_count(self) -> None:
        model = AutoModelForSequenceClassification.from_config(small_config("bert"))
        before = count(model)
        table = model.bert.embeddings.word_embeddings.weight.requires_grad_(False)
        after = count(model)
        assert after["parameters"] == before["parameters"] - table.numel()
        assert after["parameters_without_embeddings"] == before["parameters_without_embeddings"]


class TestBuildStudent:
    def test_on_meta_as_on_the_real_device(self) -> None:
        source = small_config("bert").to_dict()
        with torch.device("meta"):
            meta = build_student("transformer", {"layers": 2}, source, 3)
        real = build_student("transformer", {"layers": 2}, source, 3)
        assert meta.device.type == "meta" and real.device.type == "cpu"
        assert count(meta) == count(real) and count(real)["parameters"] > 0

    def test_settings_are_used_and_defaults_filled_in(self) -> None:
        source = small_config("bert").to_dict()
        sizes = [
            count(build_student("transformer", settings, source, 2))["parameters"]
            for settings in ({"layers": 1}, {"layers": 3}, {})
        ]
        assert sizes[0] < sizes[1] == sizes[2]

    @pytest.mark.parametrize(
        ("name", "settings", "words"),
        [
            ("transfomer", {}, "did you mean transformer"),
            ("transformer", {"layer": 1}, "unknown setting of student transformer 'layer': did you mean layers"),
            ("transformer", {"layers": 0}, "transformer.layers must be at least 1"),
        ],
    )
    def test_mistakes(self, name: str, settings: dict[str, Any], words: str) -> None:
        with pytest.raises(UserError, match=words):
            build_student(name, settings, {"model_type": "bert"}, 2)
