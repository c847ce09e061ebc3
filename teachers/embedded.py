"""A small BERT of our own: pre-trained on the embedded grammar, then fine-tuned. No network.

`embedded` has the weights that this distribution carries, which answer the embedded suite's tasks; `embedded:train`
makes them anew, in the same way, as runs in the ledger.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.normalizers import BertNormalizer
from tokenizers.pre_tokenizers import BertPreTokenizer
from tokenizers.processors import TemplateProcessing
from transformers import (
    BertConfig,
    BertForMaskedLM,
    BertForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)

from harness.contracts import ModelInfo, Task
from harness.data.embedded import TWINS, corpus, vocabulary
from harness.data.encoding import tokenizer_fingerprint
from harness.errors import UserError
from harness.modeling.bases import Teacher
from harness.registry import teacher
from harness.teachers.embedded_weights import PRETRAINED, SHA256, shipped, verify
from harness.teachers.loading import describe, for_task, load_masked, load_tuned

SAMPLE = 1000  # texts that tell one grammar from another
SPECIAL = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")
ARCHITECTURE: dict[str, Any] = {
    "num_hidden_layers": 4,
    "hidden_size": 64,
    "num_attention_heads": 4,
    "intermediate_size": 128,
    "max_position_embeddings": 64,
    # A model this small on text this regular learns several times faster without dropout and with larger weights.
    "hidden_dropout_prob": 0.0,
    "attention_probs_dropout_prob": 0.0,
    "initializer_range": 0.05,
}
PRETRAINING: dict[str, Any] = {
    "corpus": "grammar",
    "examples": 20000,
    "steps": 1500,
    "batch_size": 32,
    "learning_rate": 3e-3,
    "warmup_ratio": 0.1,
    "weight_decay": 0.01,
    "max_length": 32,
    "mask_probability": 0.3,
}
RECIPE: dict[str, Any] = {
    "learning_rate": 1e-3,
    "batch_size": 32,
    "epochs": 6,
    "warmup_ratio": 0.1,
    "weight_decay": 0.01,
}


@teacher("embedded")
class EmbeddedTeacher(Teacher):
    """BERT of 4 layers and width 64 over the grammar's words: shipped weights, or with "train" random ones.

    Raises UserError where weights are read and those shipped are missing or damaged.
    """

    data = "embedded"

    def __init__(self, argument: str = ""):
        if argument not in ("", "train"):
            raise UserError(f"teacher embedded:{argument} does not exist; use embedded or embedded:train to train anew")
        super().__init__(argument)
        self.shipped = argument != "train"

    def info(self, task: Task) -> ModelInfo:
        return describe(self.name, _config(), self.fingerprint, task)

    @cached_property
    def fingerprint(self) -> str:
        return tokenizer_fingerprint(self.tokenizer())

    def content(self) -> str:
        if self.shipped:
            verify()
            return SHA256
        made_of = {
            "architecture": ARCHITECTURE,
            "vocabulary": vocabulary(),
            "pretraining": PRETRAINING,
            "text": corpus(SAMPLE),
        }
        return hashlib.sha256(json.dumps(made_of, sort_keys=True).encode()).hexdigest()

    def parts(self) -> Sequence[Path]:
        return []

    def tokenizer(self) -> PreTrainedTokenizerBase:
        """Lower-cased whole words; a word that is not the grammar's is [UNK]."""
        ids = {word: i for i, word in enumerate((*SPECIAL, *vocabulary()))}
        words = Tokenizer(WordLevel(ids, unk_token="[UNK]"))
        words.normalizer = BertNormalizer(lowercase=True)
        words.pre_tokenizer = BertPreTokenizer()
        words.post_processor = TemplateProcessing(
            single="[CLS] $A [SEP]",
            pair="[CLS] $A [SEP] $B:1 [SEP]:1",
            special_tokens=[("[CLS]", ids["[CLS]"]), ("[SEP]", ids["[SEP]"])],
        )
        return PreTrainedTokenizerFast(
            tokenizer_object=words,
            pad_token="[PAD]",
            unk_token="[UNK]",
            cls_token="[CLS]",
            sep_token="[SEP]",
            mask_token="[MASK]",
            model_max_length=ARCHITECTURE["max_position_embeddings"],
            model_input_names=["input_ids", "token_type_ids", "attention_mask"],
        )

    def answers(self, task: Task) -> bool:
        return self.shipped and task.name in TWINS

    def recipe(self, task: Task) -> Mapping[str, Any]:
        return RECIPE | ({} if task.classification else {"epochs": 14})

    def pretraining(self) -> Mapping[str, Any] | None:
        return None if self.shipped else PRETRAINING

    def masked_language_model(self, weights: Path | None = None) -> PreTrainedModel:
        """The encoder with the head it is pre-trained with."""
        if weights is not None:
            return load_masked(weights)
        model = BertForMaskedLM(_config())
        if self.shipped:
            model.load_state_dict(shipped(PRETRAINED), strict=False)  # the output layer is the word embeddings
        return model

    def configuration(self) -> dict[str, Any]:
        return _config().to_dict()

    def model(self, task: Task, weights: Path | None) -> PreTrainedModel:
        """The classifier, also from the folder of a pre-trained encoder or a tuned classifier."""
        if weights is not None:
            return load_tuned(weights, task)
        if not self.answers(task):
            return self.untuned(task)
        model = BertForSequenceClassification(for_task(_config(), task))
        model.load_state_dict(shipped(task.name))
        return model

    def untuned(self, task: Task) -> PreTrainedModel:
        """The encoder as it was pre-trained, under a fresh head."""
        model = BertForSequenceClassification(for_task(_config(), task))
        if self.shipped:
            model.load_state_dict(shipped(PRETRAINED), strict=False)  # all but pooler and classifier
        return model


def _config() -> BertConfig:
    return BertConfig(vocab_size=len(SPECIAL) + len(vocabulary()), pad_token_id=0, **ARCHITECTURE)
