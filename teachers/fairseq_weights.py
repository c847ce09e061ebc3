"""What the weights of a RoBERTa are called, and of which shape they are, in fairseq and in transformers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

HEADS = "classification_heads."
ENCODER = "encoder.sentence_encoder."
MASKED_HEAD = "encoder.lm_head."

# fairseq's names below its encoder -> transformers' below its base model.
_OUTSIDE = {
    "embed_tokens.weight": "embeddings.word_embeddings.weight",
    "embed_positions.weight": "embeddings.position_embeddings.weight",
    "layernorm_embedding.weight": "embeddings.LayerNorm.weight",
    "layernorm_embedding.bias": "embeddings.LayerNorm.bias",
}
_IN_LAYER = {
    "self_attn.q_proj": "attention.self.query",
    "self_attn.k_proj": "attention.self.key",
    "self_attn.v_proj": "attention.self.value",
    "self_attn.out_proj": "attention.output.dense",
    "self_attn_layer_norm": "attention.output.LayerNorm",
    "fc1": "intermediate.dense",
    "fc2": "output.dense",
    "final_layer_norm": "output.LayerNorm",
}
_MASKED = {
    "weight": "decoder.weight",
    "bias": "bias",
    "dense.weight": "dense.weight",
    "dense.bias": "dense.bias",
    "layer_norm.weight": "layer_norm.weight",
    "layer_norm.bias": "layer_norm.bias",
}
_OLD_NORMS = {"layer_norms.0.": "self_attn_layer_norm.", "layer_norms.1.": "final_layer_norm."}


def encoder_names(layers: int) -> dict[str, str]:
    """Names below fairseq's encoder -> names below the base model of transformers' RoBERTa."""
    return _OUTSIDE | {
        f"layers.{i}.{ours}.{kind}": f"encoder.layer.{i}.{theirs}.{kind}"
        for i in range(layers)
        for ours, theirs in _IN_LAYER.items()
        for kind in ("weight", "bias")
    }


def encoder_state(weights: Mapping[str, Tensor], layers: int) -> dict[str, Tensor]:
    """The state dictionary of transformers' RobertaModel without pooler, of weights named as below fairseq's encoder.

    fairseq has no token types: the only one that transformers has is zero.
    """
    state = {theirs: weights[ours] for ours, theirs in encoder_names(layers).items()}
    width = state["embeddings.LayerNorm.weight"]
    return state | {"embeddings.token_type_embeddings.weight": torch.zeros_like(width)[None]}  # (1, D)


def masked_head_state(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The masked-language-model head of transformers' RoBERTa, of weights named as `renamed` gives them."""
    state = {theirs: weights[MASKED_HEAD + ours] for ours, theirs in _MASKED.items()}
    return state | {"decoder.bias": state["bias"]}


def renamed(weights: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """The weights under the names that fairseq has now: what its modules' `upgrade_state_dict_named` do.

    Before 0.10 the encoder was called decoder, and its layers' query, key and value projections were one matrix.
    """
    found: dict[str, Tensor] = {}
    for name, tensor in weights.items():
        name = re.sub(r"^decoder\.", "encoder.", name).replace(".emb_layer_norm.", ".layernorm_embedding.")
        for old, new in _OLD_NORMS.items():
            name = name.replace(old, new)
        stem, packed, kind = name.rpartition("in_proj_")
        if packed:
            for part, piece in zip("qkv", tensor.chunk(3), strict=False):  # (3D, D) or (3D,)
                found[f"{stem}{part}_proj.{kind}"] = piece
        else:
            found[name] = tensor
    return found


def expected_shapes(settings: Mapping[str, Any], vocabulary: int, masked: bool) -> dict[str, tuple[int, ...]]:
    """The shape of every weight of a RoBERTa without classification heads; that of positions has 0 rows, for any."""
    width, inner = settings["encoder_embed_dim"], settings["encoder_ffn_embed_dim"]
    matrices = {"fc1": (inner, width), "fc2": (width, inner)}
    shapes: dict[str, tuple[int, ...]] = {
        f"{ENCODER}embed_tokens.weight": (vocabulary, width),
        f"{ENCODER}embed_positions.weight": (0, width),
        f"{ENCODER}layernorm_embedding.weight": (width,),
        f"{ENCODER}layernorm_embedding.bias": (width,),
    }
    for i in range(settings["encoder_layers"]):
        for part in _IN_LAYER:
            matrix = (width,) if part.endswith("layer_norm") else matrices.get(part, (width, width))
            shapes[f"{ENCODER}layers.{i}.{part}.weight"] = matrix
            shapes[f"{ENCODER}layers.{i}.{part}.bias"] = matrix[:1]
    if masked:
        widths = {"weight": (vocabulary, width), "bias": (vocabulary,), "dense.weight": (width, width)}
        shapes |= {MASKED_HEAD + name: widths.get(name, (width,)) for name in _MASKED}
    return shapes


def head_shapes(width: int, outputs: int) -> dict[str, tuple[int, ...]]:
    return {
        "dense.weight": (width, width),
        "dense.bias": (width,),
        "out_proj.weight": (outputs, width),
        "out_proj.bias": (outputs,),
    }
