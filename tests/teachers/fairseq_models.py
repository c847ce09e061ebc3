"""A small RoBERTa as fairseq saves it: 3 layers of width 32 with 4 heads, random weights. Made without fairseq."""

from __future__ import annotations

import json
from argparse import Namespace
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

LAYERS, WIDTH, ATTENTION_HEADS, INNER, POSITIONS = 3, 32, 4, 48, 40
MERGES = ("t h", "th e", "\u0120 the", "a n", "d o", "do g", "\u0120 dog")
PIECES = 256 + len(MERGES)
VOCABULARY = 4 + PIECES + 1  # <s> <pad> </s> <unk>, the pieces, <mask>
LENGTHS = (11, 4, 7)  # of a ragged batch

ARGUMENTS: Mapping[str, Any] = {
    "arch": "roberta", "task": "masked_lm", "data": "/data/books-bin", "encoder_layers": LAYERS,
    "encoder_embed_dim": WIDTH, "encoder_ffn_embed_dim": INNER, "encoder_attention_heads": ATTENTION_HEADS,
    "dropout": 0.1, "attention_dropout": 0.1, "activation_dropout": 0.0, "pooler_dropout": 0.0,
    "activation_fn": "gelu", "pooler_activation_fn": "tanh", "max_positions": POSITIONS,
    "tokens_per_sample": POSITIONS, "seed": 1,
}  # fmt: skip
# What fairseq's trainer writes besides, and its own reader looks for.
TRAINED: Mapping[str, Any] = {
    "optimizer_history": [
        {"criterion_name": "MaskedLmLoss", "optimizer_name": "FairseqAdam", "lr_scheduler_state": {}, "num_updates": 9}
    ],
    "extra_state": {"train_iterator": {"epoch": 3, "iterations_in_epoch": 0}, "val_loss": 3.2},
    "last_optimizer_state": {"state": {0: {"step": 9, "exp_avg": torch.zeros(2)}}, "param_groups": [{"lr": 0.1}]},
}


def arguments(**changes: Any) -> dict[str, Any]:
    return {**ARGUMENTS, **changes}


def weights(heads: Mapping[str, int] | None = None) -> dict[str, Tensor]:
    """The state dictionary of fairseq's model, drawn wide so that attention is far from uniform. heads: outputs."""
    generator = torch.Generator().manual_seed(7)

    def drawn(*shape: int, around: float = 0.0) -> Tensor:
        return around + 0.2 * torch.randn(*shape, generator=generator)

    state = {
        "encoder.sentence_encoder.version": torch.tensor([3.0]),
        "encoder.sentence_encoder.embed_tokens.weight": drawn(VOCABULARY, WIDTH),
        "encoder.sentence_encoder.embed_positions.weight": drawn(POSITIONS + 2, WIDTH),
        "encoder.sentence_encoder.layernorm_embedding.weight": drawn(WIDTH, around=1),
        "encoder.sentence_encoder.layernorm_embedding.bias": drawn(WIDTH),
    }
    for i in range(LAYERS):
        layer = f"encoder.sentence_encoder.layers.{i}."
        for name in ("self_attn.k_proj", "self_attn.v_proj", "self_attn.q_proj", "self_attn.out_proj"):
            state |= {f"{layer}{name}.weight": drawn(WIDTH, WIDTH), f"{layer}{name}.bias": drawn(WIDTH)}
        for name in ("self_attn_layer_norm", "final_layer_norm"):
            state |= {f"{layer}{name}.weight": drawn(WIDTH, around=1), f"{layer}{name}.bias": drawn(WIDTH)}
        state |= {f"{layer}fc1.weight": drawn(INNER, WIDTH), f"{layer}fc1.bias": drawn(INNER)}
        state |= {f"{layer}fc2.weight": drawn(WIDTH, INNER), f"{layer}fc2.bias": drawn(WIDTH)}
    state |= {
        "encoder.lm_head.weight": state["encoder.sentence_encoder.embed_tokens.weight"],
        "encoder.lm_head.bias": drawn(VOCABULARY),
        "encoder.lm_head.dense.weight": drawn(WIDTH, WIDTH),
        "encoder.lm_head.dense.bias": drawn(WIDTH),
        "encoder.lm_head.layer_norm.weight": drawn(WIDTH, around=1),
        "encoder.lm_head.layer_norm.bias": drawn(WIDTH),
    }
    for name, outputs in (heads or {}).items():
        head = f"classification_heads.{name}."
        state |= {f"{head}dense.weight": drawn(WIDTH, WIDTH), f"{head}dense.bias": drawn(WIDTH)}
        state |= {f"{head}out_proj.weight": drawn(outputs, WIDTH), f"{head}out_proj.bias": drawn(outputs)}
    return state


def old_names(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """As fairseq called the same weights before 0.10: a decoder, with query, key and value in one matrix."""
    found: dict[str, Tensor] = {}
    for name, tensor in state.items():
        if name.endswith("version"):
            continue
        name = name.replace("encoder.", "decoder.", 1) if name.startswith("encoder.") else name
        found[name.replace(".layernorm_embedding.", ".emb_layer_norm.")] = tensor
    for kind in ("weight", "bias"):
        for i in range(LAYERS):
            attention = f"decoder.sentence_encoder.layers.{i}.self_attn."
            parts = [found.pop(f"{attention}{part}_proj.{kind}") for part in "qkv"]
            found[f"{attention}in_proj_{kind}"] = torch.cat(parts)
    return found


def save(
    folder: Path,
    recorded: Mapping[str, Any] | None = None,
    state: Mapping[str, Any] | None = None,
    labels: Sequence[str] = (),
    name: str = "model.pt",
    zipped: bool = True,
    **more: Any,
) -> Path:
    """A folder with a checkpoint, an old-style one unless `recorded` says what stands in it besides the weights."""
    folder.mkdir(parents=True, exist_ok=True)
    held = recorded if recorded is not None else {"args": Namespace(**ARGUMENTS)}
    content = {"model": dict(weights() if state is None else state), **TRAINED, **held, **more}
    torch.save(content, folder / name, _use_new_zipfile_serialization=zipped)
    save_pieces(folder)
    if labels:
        (folder / "label").mkdir(exist_ok=True)
        # fairseq fills dictionaries up to a multiple of 8.
        lines = [f"{label} 9" for label in labels] + ["madeupword0000 0", "madeupword0001 0"]
        (folder / "label" / "dict.txt").write_text("\n".join(lines) + "\n")
    return folder


def save_pieces(folder: Path) -> None:
    """encoder.json, vocab.bpe and a dict.txt that numbers all pieces in another order than GPT-2's."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    pieces = [chr(byte) for byte in printable] + [chr(256 + i) for i in range(len(others))]
    pieces += [merge.replace(" ", "") for merge in MERGES]
    (folder / "encoder.json").write_text(json.dumps({piece: i for i, piece in enumerate(pieces)}))
    (folder / "vocab.bpe").write_text("\n".join(("#version: 0.2", *MERGES)) + "\n", encoding="utf-8")
    order = torch.randperm(PIECES, generator=torch.Generator().manual_seed(1)).tolist()
    (folder / "dict.txt").write_text("".join(f"{number} {1000 - i}\n" for i, number in enumerate(order)))


def ragged() -> dict[str, Tensor]:
    """Random tokens of the lengths LENGTHS, padded with 1."""
    generator = torch.Generator().manual_seed(5)
    ids = torch.ones(len(LENGTHS), max(LENGTHS), dtype=torch.long)
    for row, length in enumerate(LENGTHS):
        ids[row, :length] = torch.randint(4, VOCABULARY, (length,), generator=generator)
        ids[row, 0], ids[row, length - 1] = 0, 2
    return {"input_ids": ids, "attention_mask": (ids != 1).long()}


def targets() -> Tensor:
    """What is to be predicted of `ragged`: two positions in the first row, none in the second, one in the third."""
    found = torch.full((len(LENGTHS), max(LENGTHS)), -100)
    found[0, 2], found[0, 9], found[2, 3] = 8, 30, 77
    return found


def same(ours: Tensor, theirs: Tensor) -> None:
    """Equal to 1e-5. (B, L, ...) tensors are given as they are at the tokens: see `tokens_of`."""
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5)


def tokens_of(tensor: Tensor, scores: bool = False) -> Tensor:
    """(B, H, L, ...) or (B, L, D) -> what stands at real tokens, one after another; of scores at pairs of them."""
    kept = []
    for row, length in enumerate(LENGTHS):
        if tensor.dim() == 3:
            part = tensor[row, :length]
        else:
            part = tensor[row, :, :length, :length] if scores else tensor[row, :, :length]
        kept.append(part.reshape(-1))
    return torch.cat(kept)
