"""Random encoders of each tested family, small enough to build in every test, and checkpoints of them on disk."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from transformers import (
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    BertConfig,
    BertTokenizer,
    DistilBertConfig,
    ElectraConfig,
    PreTrainedConfig,
    PreTrainedModel,
    RobertaConfig,
)

from harness.contracts import Task

FAMILIES = ("bert", "roberta", "distilbert", "electra")
WORDS = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "dog", "cat", "saw", "ran", "was", "by", ".", "##s")
PAD = {"bert": 0, "roberta": 1, "distilbert": 0, "electra": 0}
TWO = Task("two", "Two", "accuracy", ("accuracy",), labels=("no", "yes"))
THREE = Task("three", "Three", "accuracy", ("accuracy",), labels=("x", "y", "z"), pair=True)
SCORE = Task("score", "Score", "pearson", ("pearson",))


def small_config(
    family: str, layers: int = 4, width: int = 32, vocabulary: int = 40, labels: int = 2
) -> PreTrainedConfig:
    """Dropout is the families' default, so that training mode is random."""
    shared: dict[str, Any] = {
        "vocab_size": vocabulary,
        "num_labels": labels,
        "max_position_embeddings": 32,
        "pad_token_id": PAD[family],
    }
    if family == "distilbert":
        return DistilBertConfig(n_layers=layers, dim=width, n_heads=4, hidden_dim=2 * width, **shared)
    shared |= {
        "num_hidden_layers": layers,
        "hidden_size": width,
        "num_attention_heads": 4,
        "intermediate_size": 2 * width,
    }
    if family == "roberta":
        return RobertaConfig(type_vocab_size=1, **shared)
    if family == "electra":
        return ElectraConfig(embedding_size=width // 2, **shared)
    return BertConfig(**shared)


def small_model(
    family: str,
    seed: int = 0,
    head: Any = AutoModelForSequenceClassification,
    attention: str | None = None,
    **shape: int,
) -> PreTrainedModel:
    """A random model in evaluation mode. Weights are drawn wide, so that attention is far from uniform."""
    torch.manual_seed(seed)
    model = head.from_config(small_config(family, **shape), attn_implementation=attention)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def small_batch(family: str, lengths: tuple[int, ...] = (9, 5, 7), seed: int = 0, width: int = 0) -> dict[str, Tensor]:
    """Random token ids of the given lengths, padded to the longest or to `width`, with two segments."""
    generator = torch.Generator().manual_seed(seed)
    length = max(width, *lengths)
    ids = torch.full((len(lengths), length), PAD[family])
    mask = torch.zeros(len(lengths), length, dtype=torch.long)
    for row, size in enumerate(lengths):
        ids[row, :size] = torch.randint(5, 40, (size,), generator=generator)
        mask[row, :size] = 1
    segments = (torch.arange(length) > 3).long() * mask
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": segments}


def own_inputs(family: str, batch: dict[str, Tensor]) -> dict[str, Tensor]:
    """The batch without the segments that DistilBERT and RoBERTa do not read."""
    return {k: v for k, v in batch.items() if k != "token_type_ids" or family in ("bert", "electra")}


def checkpoint(
    folder: Path, family: str, head: Any = AutoModelForMaskedLM, tokenizer: bool = True, **changes: Any
) -> Path:
    """A checkpoint with safetensors weights, as the hub's. `changes` are further entries of its configuration."""
    asked = repr((family, head, tokenizer, sorted(changes.items())))
    if asked not in MADE:  # once in a process: a hundred tests ask for the same few
        with tempfile.TemporaryDirectory() as made:
            _save(Path(made), family, head, tokenizer, changes)
            MADE[asked] = {path.name: path.read_bytes() for path in Path(made).iterdir()}
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in MADE[asked].items():
        (folder / name).write_bytes(content)
    torch.manual_seed(4)  # whether it was made now or before; what is drawn next is none of its weights
    return folder


MADE: dict[str, dict[str, bytes]] = {}  # a checkpoint -> its files


def _save(folder: Path, family: str, head: Any, tokenizer: bool, changes: dict[str, Any]) -> None:
    torch.manual_seed(3)
    config = small_config(family, vocabulary=len(WORDS), labels=changes.pop("num_labels", 2))
    for name, value in changes.items():
        setattr(config, name, value)
    head.from_config(config).save_pretrained(folder)
    if tokenizer:
        (folder / "vocab.txt").write_text("\n".join(WORDS) + "\n", encoding="utf-8")
        BertTokenizer(str(folder / "vocab.txt")).save_pretrained(folder)
