"""Small checkpoints of every family, with tokenizers of its kind: WordPiece, BPE of bytes, SentencePiece's unigrams."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AlbertTokenizer,
    AutoConfig,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertTokenizer,
    CamembertTokenizer,
    DebertaTokenizer,
    DebertaV2Tokenizer,
    MPNetTokenizer,
    PreTrainedModel,
    RobertaTokenizer,
    XLMRobertaTokenizer,
)

DEPTH = 4
SHARED = {
    "vocab_size": 300, "hidden_size": 32, "num_hidden_layers": DEPTH, "num_attention_heads": 4,
    "intermediate_size": 64, "max_position_embeddings": 80,
}  # fmt: skip
LIKE_ROBERTA = {"pad_token_id": 1, "type_vocab_size": 1}
LIKE_XLM = {"emb_dim": 32, "n_layers": DEPTH, "n_heads": 4}
GROUPS = ("q_groups", "k_groups", "v_groups", "post_attention_groups", "intermediate_groups", "output_groups")
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
THIRD = RELATIVE | {"norm_rel_ebd": "layer_norm", "position_buckets": 8, "share_att_key": True}
SPECIAL = {f"{name}_token_id": i for i, name in enumerate(("pad", "bos", "eos", "cls", "sep"))}

FAMILIES: dict[str, dict[str, Any]] = {  # what stands after a blank is a form of the family
    "bert": {}, "roberta": LIKE_ROBERTA, "xlm-roberta": LIKE_ROBERTA, "camembert": LIKE_ROBERTA,
    "roberta-prelayernorm": LIKE_ROBERTA, "data2vec-text": LIKE_ROBERTA,
    "distilbert": {"n_layers": DEPTH, "dim": 32, "n_heads": 4, "hidden_dim": 64}, "electra": {"embedding_size": 16},
    "ernie": {}, "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 16, "num_feedforward_networks": 2},
    "layoutlm": {}, "esm": {"pad_token_id": 1, "mask_token_id": 3, "position_embedding_type": "rotary"},
    "nomic_bert": {}, "eurobert": SPECIAL | {"num_key_value_heads": 2, "mask_token_id": 5},
    "modernbert": SPECIAL | {"local_attention": 8}, "albert": {"embedding_size": 16},
    "albert groups": {"embedding_size": 16, "num_hidden_groups": 2},
    "deberta": RELATIVE, "deberta-v2": THIRD | {"position_biased_input": True, "share_att_key": False},
    "deberta-v2 third": THIRD, "deberta-v2 convolution": THIRD | {"conv_kernel_size": 3},
    "mpnet": LIKE_ROBERTA, "convbert": {"embedding_size": 16}, "roformer": {"embedding_size": 16},
    "rembert": SPECIAL | {"input_embedding_size": 16}, "xlm": LIKE_XLM, "flaubert": LIKE_XLM,
    "squeezebert": {"embedding_size": 32} | dict.fromkeys(GROUPS, 1) | {"q_groups": 2, "output_groups": 4},
}  # fmt: skip
TOKENIZERS = {
    "roberta": RobertaTokenizer, "modernbert": RobertaTokenizer, "eurobert": RobertaTokenizer,
    "deberta": DebertaTokenizer, "deberta-v2": DebertaV2Tokenizer, "xlm-roberta": XLMRobertaTokenizer,
    "camembert": CamembertTokenizer, "albert": AlbertTokenizer, "mpnet": MPNetTokenizer,
}  # fmt: skip
SENTENCES = (
    "the dog saw the cat .", "a cat ran by the old house and was not seen again", "no dog was here",
    "the small bird sang and nobody heard it", "who ran ?", "yes",
)  # fmt: skip


def config_of(family: str, changes: dict[str, Any]) -> Any:
    shape = {name: value for name, value in SHARED.items() if family != "xlnet" or name != "max_position_embeddings"}
    return AutoConfig.for_model(family.split()[0], **{**shape, "pad_token_id": 0, **changes})


def model_of(family: str, changes: dict[str, Any], masked: bool = False, seed: int = 0) -> PreTrainedModel:
    """Every weight is disturbed, so that what is left out or taken twice shows."""
    torch.manual_seed(seed)
    kind = AutoModelForMaskedLM if masked else AutoModelForSequenceClassification
    model = kind.from_config(config_of(family, changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def tokenizer_of(family: str) -> Any:
    kind = TOKENIZERS.get(family.split()[0], BertTokenizer)
    return kind().train_new_from_iterator(SENTENCES, vocab_size=280, show_progress=False)


def checkpoint(folder: Path, family: str) -> str:
    """A folder with an encoder of the family, its masked-language-model head and its tokenizer."""
    tokenizer = tokenizer_of(family)
    changes = FAMILIES[family] | {"pad_token_id": tokenizer.pad_token_id}
    model_of(family, changes, masked=True).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


def batch() -> dict[str, Tensor]:
    """Texts of 9 and 6 tokens; no segments, which not every family reads."""
    ids = torch.randint(5, 40, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    return {"input_ids": ids, "attention_mask": mask}
