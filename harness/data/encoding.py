"""Examples as a model reads them: tokenised, grouped by length, held out."""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from harness.batch import onto
from harness.contracts import Batch, Encoding
from harness.data.sources import Split, hashes
from harness.errors import UserError
from harness.runs.settings import FOLDS, HELD_OUT, MOST_HELD_OUT, held_out_of
from harness.seeds import derive_seed

MASK = "[MASK]"  # a masked word in a text, whatever the tokenizer that reads it
Reader = PreTrainedTokenizerBase | tuple[PreTrainedTokenizerBase, ...]  # several: of teachers who answer together
POOL = 50  # batches that are shuffled together before they are grouped by length


def tokenizer_fingerprint(tokenizer: PreTrainedTokenizerBase) -> str:
    """SHA-256 of what decides how a tokenizer reads text; the same after saving and loading it.

    What most of them agree in is left out, so that what is stored under earlier fingerprints is found.
    """
    backend = getattr(tokenizer, "backend_tokenizer", None)
    rules = json.loads(backend.to_str()) if backend is not None else tokenizer.get_vocab()
    if isinstance(rules, dict):
        rules = {k: v for k, v in rules.items() if k not in ("truncation", "padding")}  # left by the last call
    special = {name: str(token) for name, token in tokenizer.special_tokens_map.items()}
    more: dict[str, object] = {"cuts": tokenizer.truncation_side} if tokenizer.truncation_side != "right" else {}
    if tokenizer.model_input_names != PreTrainedTokenizerBase.model_input_names:
        more["gives"] = sorted(tokenizer.model_input_names)
    if backend is None:  # whose rules are in Python, told by such as do_lower_case
        more |= {name: value for name, value in tokenizer.init_kwargs.items() if name.startswith("do_")}
        if ranks := getattr(tokenizer, "bpe_ranks", None):  # which pieces are joined first: XLM's, FlauBERT's
            more["merges"] = sorted(ranks, key=ranks.__getitem__)
    told = [rules, special, *([more] if more else [])]
    return hashlib.sha256(json.dumps(told, sort_keys=True, default=str).encode()).hexdigest()


@dataclass
class Encoded:
    """A tokenised split of N examples.

    ids: (N,) int64 stable example ids. labels: (N,) int64 classes or float32 scores. keys: (N,) uint64 hashes of the
    texts, equal for equal texts. sequences: one mapping, or two for pairs encoded apart, of (N, L) int32 tensors.
    sizes: (N,) tokens of each sequence. groups: (N,) int64 of examples that are ranked, see `groups_of`.
    """

    ids: Tensor
    labels: Tensor
    keys: np.ndarray
    sequences: tuple[dict[str, Tensor], ...]
    sizes: tuple[Tensor, ...]
    groups: Tensor | None = None

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
            None if self.groups is None else self.groups[index],
        )

    def batches(self, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
        if self.groups is not None:
            return batches_of_groups(self.lengths, self.groups, batch_size, seed, epoch)
        return training_batches(self.lengths, batch_size, seed, epoch)

    def batch(self, index: Tensor, device: torch.device | None = None, epoch: int = 0) -> Batch:
        """The examples at these positions, each sequence cut to the longest among them; the same in every epoch."""
        encodings = []
        for sequence, size in zip(self.sequences, self.sizes, strict=True):
            lengths = size[index]
            longest = max(int(lengths.max()), 1)  # a text may hold no word at all
            read = {n: onto(t[index, :longest].to(torch.int64), device) for n, t in sequence.items()}
            encodings.append(Encoding(read, lengths))
        groups = None if self.groups is None else onto(self.groups[index], device)
        return Batch(self.ids[index], onto(self.labels[index], device), tuple(encodings), groups=groups)


def encode(split: Split, tokenizer: Reader, pair_encoding: str, max_length: int, ranking: bool = False) -> Encoded:
    """Tokenise a split: pairs as one sequence ("joint") or as two ("diffcat", "compare"), cut to max_length tokens.

    With several tokenizers the sequences of each follow one another. ranking: the examples with the same first text are
    candidates of one question.
    """
    if isinstance(tokenizer, tuple):
        each = [encode(split, one, pair_encoding, max_length, ranking) for one in tokenizer]
        sequences_of, sizes_of = ([part for one in each for part in getattr(one, n)] for n in ("sequences", "sizes"))
        return replace(each[0], sequences=tuple(sequences_of), sizes=tuple(sizes_of))
    texts = [split.text_a] if split.text_b is None else [split.text_a, split.text_b]
    masked = [_masked(text, tokenizer) for text in texts]
    sequences, sizes = [], []
    for text in [masked] if pair_encoding == "joint" else [[one] for one in masked]:
        cut: dict[str, Any] = {"truncation": True, "max_length": max_length}
        # On the right whatever the tokenizer says: the first columns are kept, and the first token stands for all.
        found = tokenizer(*text, **cut, padding=True, padding_side="right", return_tensors="np")
        sequences.append({name: torch.from_numpy(np.asarray(array, np.int32)) for name, array in found.items()})
        sizes.append(sequences[-1]["attention_mask"].sum(1))
    return Encoded(
        torch.arange(len(split.text_a)),
        torch.from_numpy(split.labels),
        hashes(map("\x1f".join, zip(*texts, strict=True))),
        tuple(sequences),
        tuple(sizes),
        groups_of(split) if ranking else None,
    )


def groups_of(split: Split) -> Tensor:
    """(N,) int64, equal for equal first texts: those of a question's candidates, as they are masked if they are."""
    return torch.from_numpy(hashes(split.text_a).view(np.int64).copy())


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


def batches_of_groups(lengths: Tensor, groups: Tensor, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
    """As `training_batches`, but a group always stays together, for which a batch may lack or exceed a few examples."""
    _, group, sizes = torch.unique(groups, return_inverse=True, return_counts=True)
    members = torch.argsort(group, stable=True).split(sizes.tolist())
    longest = torch.zeros_like(sizes).scatter_reduce(0, group, lengths.long(), "amax")
    generator = torch.Generator().manual_seed(derive_seed("batches", seed, epoch))
    pools = torch.randperm(len(sizes), generator=generator).split(POOL * batch_size)
    order = torch.cat([pool[torch.sort(longest[pool], stable=True).indices] for pool in pools])
    number = (sizes[order].cumsum(0) - 1) // batch_size  # of the batch in which the group's last example comes
    parts = order.split(torch.unique_consecutive(number, return_counts=True)[1].tolist())
    batches = [torch.cat([members[i] for i in part.tolist()]) for part in parts]
    return [batches[i] for i in torch.randperm(len(batches), generator=generator)]


def evaluation_batches(lengths: Tensor, batch_size: int) -> list[Tensor]:
    """Positions of batches in order of length."""
    return list(torch.sort(lengths, stable=True).indices.split(batch_size))


def hold_out(
    size: int, content: str, fraction: float = HELD_OUT, most: int = MOST_HELD_OUT, groups: Tensor | None = None
) -> tuple[Tensor, Tensor]:
    """(positions to train on, positions held out): the same for every run on the same data.

    No two examples with one of `groups` (size,) are parted: where the first group alone is more, all of it is held out,
    unless there is no other.
    """
    order = _permutation(size, content, groups)
    held = held_out_of(size, fraction, most)
    while groups is not None and held > 1 and groups[order[held]] == groups[order[held - 1]]:
        held -= 1
    if groups is not None and held < size and groups[order[held]] == groups[order[0]] != groups[order[-1]]:
        held = int((groups == groups[order[0]]).sum())
    return order[held:].sort().values, order[:held].sort().values


def folds(size: int, content: str, labels: Tensor, groups: Tensor | None = None) -> list[Tensor]:
    """FOLDS parts of the positions, each position in one: the same for every run on the same data.

    labels: (size,) classes, of which each part has its share, or scores. No two examples of one of `groups` (size,) are
    parted. Raises UserError where there are too few examples, or groups.
    """
    order = _permutation(size, content, groups)
    if groups is None:
        place = torch.arange(size)
        if not labels.is_floating_point():
            order = order[torch.argsort(labels[order], stable=True)]
    else:
        place = torch.cat([torch.zeros(1, dtype=torch.int64), (groups[order].diff() != 0).cumsum(0)])
    if not size or int(place[-1]) + 1 < FOLDS:
        raise UserError(
            f"protocol nested splits the training examples into {FOLDS} folds: {size} are too few or in too few groups"
        )
    return [order[place % FOLDS == part].sort().values for part in range(FOLDS)]


def subset_index(index: Tensor, count: int, content: str, groups: Tensor | None = None) -> Tensor:
    """`count` of these positions; a smaller count gives a part of a larger one's.

    groups: (N,) of all positions; of no group but one is a part taken.
    """
    groups = None if groups is None else groups[index]
    return index[_permutation(len(index), content, groups)[:count]].sort().values


def _permutation(size: int, content: str, groups: Tensor | None) -> Tensor:
    """Positions in random order; those of a group one after another, where the first of them stands."""
    order = torch.randperm(size, generator=torch.Generator().manual_seed(derive_seed("split", content)))
    if groups is None:
        return order
    _, group = torch.unique(groups[order], return_inverse=True)
    first = torch.full((size,), size).scatter_reduce(0, group, torch.arange(size), "amin")
    return order[torch.argsort(first[group], stable=True)]
