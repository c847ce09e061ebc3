"""Examples as a model reads them: tokenised, grouped by length, held out."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from harness.contracts import Batch
from harness.data.sources import Split
from harness.seeds import derive_seed

MASK = "[MASK]"  # a masked word in a text, whatever the tokenizer that reads it
POOL = 50  # batches that are shuffled together before they are grouped by length


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 of what decides how a tokenizer splits text; the same after saving and loading it."""
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = json.loads(backend.to_str()) if backend is not None else tokenizer.get_vocab()
    if isinstance(rules, dict):
        rules = {k: v for k, v in rules.items() if k not in ("truncation", "padding")}  # left by the last call
    special = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
    return hashlib.sha256(json.dumps([rules, special], sort_keys=True).encode()).hexdigest()


@dataclass
class Encoded:
    """A tokenised split of N examples.

    ids: (N,) int64 stable example ids. labels: (N,) int64 classes or float32 scores. keys: (N,) uint64 hashes of the
    texts, equal for equal texts. sequences: one mapping, or two for pairs encoded apart, of (N, L) int32 tensors.
    sizes: (N,) tokens of each sequence.
    """

    ids: Tensor
    labels: Tensor
    keys: np.ndarray
    sequences: tuple[dict[str, Tensor], ...]
    sizes: tuple[Tensor, ...]

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def lengths(self) -> Tensor:
        """(N,) tokens of each example in all."""
        return sum(self.sizes[1:], self.sizes[0])

    def subset(self, index: Tensor) -> Encoded:
        """The examples at these positions, in this order, with their ids."""
        return Encoded(
            self.ids[index],
            self.labels[index],
            self.keys[index.numpy()],
            tuple({name: tensor[index] for name, tensor in s.items()} for s in self.sequences),
            tuple(size[index] for size in self.sizes),
        )

    def batches(self, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
        return training_batches(self.lengths, batch_size, seed, epoch)

    def batch(self, index: Tensor, device: torch.device | None = None, epoch: int = 0) -> Batch:
        """The examples at these positions, each sequence cut to the longest among them; the same in every epoch."""
        encodings = []
        for sequence, size in zip(self.sequences, self.sizes, strict=True):
            longest = max(int(size[index].max()), 1)  # a text may hold no word at all
            encodings.append({n: t[index, :longest].to(device, torch.int64) for n, t in sequence.items()})
        return Batch(self.ids[index].to(device), self.labels[index].to(device), tuple(encodings))


def encode(split: Split, tokenizer: PreTrainedTokenizerBase, pair_encoding: str, max_length: int) -> Encoded:
    """Tokenise a split: pairs as one sequence ("joint") or as two ("diffcat", "compare"), cut to max_length tokens."""
    first = _masked(split.text_a, tokenizer)
    second = None if split.text_b is None else _masked(split.text_b, tokenizer)
    texts: list[tuple[Any, ...]] = [(first,)]
    if second is not None:
        texts = [(first, second)] if pair_encoding == "joint" else [(first,), (second,)]
    sequences, sizes = [], []
    for text in texts:
        cut: dict[str, Any] = {"truncation": True, "max_length": max_length}
        # On the right whatever the tokenizer says: the first columns are kept, and the first token stands for all.
        found = tokenizer(*text, **cut, padding=True, padding_side="right", return_tensors="np")
        sequences.append({name: torch.from_numpy(np.asarray(array, np.int32)) for name, array in found.items()})
        sizes.append(sequences[-1]["attention_mask"].sum(1))
    keys = [
        hashlib.blake2b("\x1f".join(pair).encode(), digest_size=8).digest()
        for pair in (zip(split.text_a, split.text_b, strict=True) if split.text_b is not None else zip(split.text_a))
    ]
    return Encoded(
        torch.arange(len(first)),
        torch.from_numpy(split.labels),
        np.frombuffer(b"".join(keys), np.uint64),
        tuple(sequences),
        tuple(sizes),
    )


def _masked(texts: list[str], tokenizer: PreTrainedTokenizerBase) -> list[str]:
    """The texts with the tokenizer's own mask token wherever they hold MASK, which augmentation writes."""
    own = tokenizer.mask_token
    if own is None or own == MASK:
        return texts
    return [text.replace(MASK, own) for text in texts]


def training_batches(lengths: Tensor, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
    """Positions of each batch of an epoch, every example once, examples of like length together, in random order."""
    generator = torch.Generator().manual_seed(derive_seed("batches", seed, epoch))
    order = torch.randperm(len(lengths), generator=generator)
    batches: list[Tensor] = []
    for pool in order.split(POOL * batch_size):
        batches += pool[torch.sort(lengths[pool], stable=True).indices].split(batch_size)
    return [batches[i] for i in torch.randperm(len(batches), generator=generator)]


def evaluation_batches(lengths: Tensor, batch_size: int) -> list[Tensor]:
    """Positions of batches in order of length."""
    return list(torch.sort(lengths, stable=True).indices.split(batch_size))


def hold_out(size: int, content: str, fraction: float = 0.1, most: int = 2000) -> tuple[Tensor, Tensor]:
    """(positions to train on, positions held out): the same for every run on the same data."""
    order = _permutation(size, content)
    held = min(max(int(size * fraction), 1), most)
    return order[held:].sort().values, order[:held].sort().values


def subset_index(index: Tensor, count: int, content: str) -> Tensor:
    """`count` of these positions; a smaller count gives a part of a larger one's."""
    return index[_permutation(len(index), content)[:count]].sort().values


def _permutation(size: int, content: str) -> Tensor:
    return torch.randperm(size, generator=torch.Generator().manual_seed(derive_seed("split", content)))
