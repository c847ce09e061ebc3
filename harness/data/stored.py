"""Tokenised splits on disk: one file, mapped into memory when it is read."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import load_file, save

from harness.data.encoding import Encoded
from harness.files import atomic_write

SPLITS = "splits.safetensors"


def write(folder: Path, splits: Sequence[Encoded]) -> None:
    """Store the splits in this order. Raises UserError if the disk is full."""
    tensors: dict[str, torch.Tensor] = {}
    for number, split in enumerate(splits):
        tensors |= {f"{number}/ids": split.ids, f"{number}/labels": split.labels}
        if split.groups is not None:
            tensors[f"{number}/groups"] = split.groups
        tensors[f"{number}/keys"] = torch.from_numpy(split.keys.astype(np.int64))
        for place, (sequence, size) in enumerate(zip(split.sequences, split.sizes, strict=True)):
            tensors[f"{number}/sizes/{place}"] = size
            tensors |= {f"{number}/{place}/{name}": tensor for name, tensor in sequence.items()}
    atomic_write(folder / SPLITS, save(tensors))


def read(folder: Path) -> tuple[Encoded, ...]:
    """What `write` stored. Of the file only what is used comes into memory."""
    tensors = load_file(folder / SPLITS)
    found = []
    for number in range(len({name.partition("/")[0] for name in tensors})):
        part = {name.partition("/")[2]: tensors[name] for name in tensors if name.startswith(f"{number}/")}
        places = range(sum(name.startswith("sizes/") for name in part))
        sequences = tuple({n[2:]: t for n, t in part.items() if n.startswith(f"{place}/")} for place in places)
        sizes = tuple(part[f"sizes/{place}"] for place in places)
        keys = part["keys"].numpy().view(np.uint64)
        found.append(Encoded(part["ids"], part["labels"], keys, sequences, sizes, part.get("groups")))
    return tuple(found)
