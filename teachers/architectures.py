"""Shapes of published models by hub name: models of random weights, and plans, are made from them without a network."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

BERT_BASE: Mapping[str, Any] = {
    "model_type": "bert",
    "vocab_size": 30522,
    "hidden_size": 768,
    "num_hidden_layers": 12,
    "num_attention_heads": 12,
    "intermediate_size": 3072,
    "max_position_embeddings": 512,
    "type_vocab_size": 2,
}

# Hugging Face configurations; what is not stated is the default of the model_type. `architectures` stands where the
# checkpoint holds a masked-language-model head.
KNOWN: Mapping[str, Mapping[str, Any]] = {
    "bert-base-uncased": {**BERT_BASE, "architectures": ["BertForMaskedLM"]},
    "bert-large-uncased": {
        **BERT_BASE,
        "architectures": ["BertForMaskedLM"],
        "hidden_size": 1024,
        "num_hidden_layers": 24,
        "num_attention_heads": 16,
        "intermediate_size": 4096,
    },
    "roberta-base": {
        **BERT_BASE,
        "model_type": "roberta",
        "architectures": ["RobertaForMaskedLM"],
        "vocab_size": 50265,
        "max_position_embeddings": 514,
        "type_vocab_size": 1,
        "layer_norm_eps": 1e-5,
    },
    "distilbert-base-uncased": {
        "model_type": "distilbert",
        "architectures": ["DistilBertForMaskedLM"],
        "vocab_size": 30522,
        "dim": 768,
        "n_layers": 6,
        "n_heads": 12,
        "hidden_dim": 3072,
        "max_position_embeddings": 512,
    },
    "huawei-noah/TinyBERT_General_4L_312D": {
        **BERT_BASE,
        "hidden_size": 312,
        "num_hidden_layers": 4,
        "intermediate_size": 1200,
    },
    "huawei-noah/TinyBERT_General_6L_768D": {**BERT_BASE, "num_hidden_layers": 6},
    "nreimers/MiniLM-L6-H384-uncased": {
        **BERT_BASE,
        "hidden_size": 384,
        "num_hidden_layers": 6,
        "intermediate_size": 1536,
    },
    "google/mobilebert-uncased": {
        "model_type": "mobilebert",
        "architectures": ["MobileBertForPreTraining"],
        "vocab_size": 30522,
        "hidden_size": 512,
        "embedding_size": 128,
        "intra_bottleneck_size": 128,
        "num_hidden_layers": 24,
        "num_attention_heads": 4,
        "intermediate_size": 512,
        "num_feedforward_networks": 4,
        "max_position_embeddings": 512,
        "type_vocab_size": 2,
        "classifier_activation": False,
    },
}
