"""Small checkpoints of decoders and encoder-decoders, with byte-level tokenizers trained on a few sentences."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from tokenizers import Tokenizer
from tokenizers.decoders import ByteLevel as Decoder
from tokenizers.models import BPE
from tokenizers.pre_tokenizers import ByteLevel
from tokenizers.processors import TemplateProcessing
from tokenizers.trainers import BpeTrainer
from transformers import AutoConfig, AutoModel, AutoModelForCausalLM, PreTrainedTokenizerFast

from tests.conftest import BAD, GOOD, SUBJECTS

END, START = "<|endoftext|>", "<s>"
SIZES: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 32, "n_layer": 2, "n_head": 4, "n_positions": 64},
    "llama": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
              "intermediate_size": 64, "max_position_embeddings": 64},
    "mixtral": {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2,
                "intermediate_size": 64, "max_position_embeddings": 64, "num_local_experts": 3},
    "t5": {"d_model": 32, "num_layers": 2, "num_heads": 4, "d_ff": 64, "d_kv": 8},
    "bart": {"d_model": 32, "encoder_layers": 2, "decoder_layers": 1, "encoder_attention_heads": 4,
             "decoder_attention_heads": 4, "encoder_ffn_dim": 64, "decoder_ffn_dim": 64, "max_position_embeddings": 64},
}  # fmt: skip


def tokenizer(starts: bool, ends: bool) -> PreTrainedTokenizerFast:
    """Byte-level pieces; as of GPT-2 without a token to pad with, or any added to a text."""
    pieces = Tokenizer(BPE())
    pieces.pre_tokenizer, pieces.decoder = ByteLevel(add_prefix_space=False), Decoder()
    texts = [f"the {s} was {w} . the {s} was not {w} and {v} ." for s in SUBJECTS for w in GOOD for v in BAD]
    trainer = BpeTrainer(vocab_size=320, special_tokens=[END, START], initial_alphabet=ByteLevel.alphabet())
    pieces.train_from_iterator(texts, trainer)
    if starts or ends:
        one = f"{START} $A" if starts else f"$A {END}"
        two = f"{START} $A {START} $B" if starts else f"$A {END} $B {END}"
        pieces.post_processor = TemplateProcessing(single=one, pair=two, special_tokens=[(END, 0), (START, 1)])
    return PreTrainedTokenizerFast(tokenizer_object=pieces, eos_token=END, **({"bos_token": START} if starts else {}))


def checkpoint(folder: Path, family: str, encoder_only: bool = False) -> Path:
    """A model of random weights as it is pre-trained, of the next token, and its tokenizer."""
    reader = tokenizer(starts=family == "llama", ends=family in ("t5", "bart"))
    torch.manual_seed(0)
    shape: dict[str, Any] = {"vocab_size": len(reader), "bos_token_id": 1, "eos_token_id": 0, "pad_token_id": None}
    if family in ("t5", "bart"):
        shape |= {"pad_token_id": 0, "decoder_start_token_id": 0}
    config = AutoConfig.for_model(family, **{**shape, **SIZES[family]})
    kind: Any = AutoModel if family in ("t5", "bart") else AutoModelForCausalLM
    model = kind.from_config(config)
    with torch.no_grad():
        for parameter in model.parameters():  # what is left out or taken twice shows
            parameter.add_(0.05 * torch.randn_like(parameter))
    if encoder_only:
        own = {n: t.clone() for n, t in model.state_dict().items() if n.startswith(("shared.", "encoder."))}
        model.save_pretrained(folder, state_dict=own)
    else:
        model.save_pretrained(folder)
    reader.save_pretrained(folder)
    return folder
