"""Teacher outputs, computed once and shared by every cell, trial and seed.

One folder for a teacher, tokenizer, length limit and set of examples; one file for a signal of a layer, float32. An
index, written after the files, names their checksums: what it does not vouch for is computed again. Rows are found by
the hash of an example's text, never by position. Sequences are stored without their padding.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.contracts import Batch, Outputs, Want
from harness.data.encoding import Encoded, evaluation_batches
from harness.files import cannot_write, checksum, digest, read_sealed, write_sealed
from harness.training.place import Once, alone

Compute = Callable[[Batch, Want], Outputs]
RAGGED = {"hidden_states": 1, "attention_scores": 2, "values": 1, "mlm_logits": 1}  # how often the length multiplies


class TeacherCache:
    """The stored outputs of one teacher for one set of examples."""

    def __init__(self, folder: Path, teacher: str, tokenizer: str, max_length: int, data: Encoded, once: Once = alone):
        """teacher: hash of its weights; tokenizer: its fingerprint. data: the examples, (N,) unique or repeated."""
        self.keys, first = np.unique(data.keys, return_index=True)  # repeated texts share a row
        self.data = data.subset(torch.from_numpy(first))
        self.length = self.data.lengths.numpy().astype(np.int64)
        self.folder = (
            folder / digest([teacher, tokenizer, max_length, hashlib.sha256(self.keys.tobytes()).hexdigest()])[:16]
        )
        self._once = once
        self._open: dict[tuple[str, int], tuple[np.ndarray, np.ndarray, tuple[int, ...]]] = {}

    def rows(self, keys: np.ndarray) -> np.ndarray:
        """The row of each example, by the hash of its text."""
        found = np.searchsorted(self.keys, keys)
        if not np.array_equal(self.keys[np.minimum(found, len(self.keys) - 1)], keys):
            raise LookupError("an example is not among those whose teacher outputs were stored")
        return found

    def fits(self, signal: str, numbers: int, gib: float) -> bool:
        """Whether a signal with this many numbers a token (for attention scores: a pair of tokens) is to be stored.

        Decided by sizes alone, so the same whatever the disk holds at the moment.
        """
        if signal not in RAGGED:
            return True
        return 4 * numbers * int((self.length ** RAGGED[signal]).sum()) <= gib * 2**30

    def index(self) -> dict[str, Any]:
        return read_sealed(self.folder / "index.json") or {"files": {}, "passes": 0, "calls": 0}

    def fill(self, parts: list[tuple[str, int]], compute: Compute, batch_size: int, device: torch.device) -> int:
        """Store the parts that are missing, in one pass over the examples. Returns the number of teacher calls made."""
        with self._once(self.folder):
            return self._fill(parts, compute, batch_size, device)

    def _fill(self, parts: list[tuple[str, int]], compute: Compute, batch_size: int, device: torch.device) -> int:
        index = self.index()
        parts = [p for p in parts if not self._whole(p, index)]
        if not parts:
            return 0
        calls = 0
        arrays: dict[tuple[str, int], np.ndarray] = {}
        offsets: dict[tuple[str, int], np.ndarray] = {}
        shapes: dict[tuple[str, int], tuple[int, ...]] = {}
        for rows in evaluation_batches(self.data.lengths, batch_size):
            outputs = compute(self.data.batch(rows, device), Want.of_parts(parts))
            calls += 1
            for part in parts:
                signal = _signal(outputs, part).float().cpu().numpy()
                if part not in arrays:
                    shapes[part] = _row_shape(part[0], signal.shape)
                    sizes = int(np.prod(shapes[part], dtype=np.int64)) * self.length ** RAGGED.get(part[0], 0)
                    offsets[part] = np.concatenate([[0], np.cumsum(sizes)])
                    arrays[part] = _create(self.folder / f".{_name(part)}.tmp", int(offsets[part][-1]))
                for row, values in zip(rows.tolist(), signal, strict=True):
                    cut = _cut(part[0], values, int(self.length[row]))
                    arrays[part][offsets[part][row] : offsets[part][row + 1]] = cut.ravel()
        for part, array in arrays.items():
            array.flush()  # type: ignore[attr-defined]
            temporary = self.folder / f".{_name(part)}.tmp"
            index["files"][_name(part)] = {"sha256": checksum(temporary), "shape": list(shapes[part])}
            os.replace(temporary, self.folder / _name(part))
        index |= {"passes": index["passes"] + 1, "calls": index["calls"] + calls}
        write_sealed(self.folder / "index.json", index)
        return calls

    def _whole(self, part: tuple[str, int], index: dict[str, Any]) -> bool:
        """True if the part is stored and its checksum holds."""
        path = self.folder / _name(part)
        known = index["files"].get(_name(part))
        return bool(known and path.exists() and checksum(path) == known["sha256"])

    def read(self, part: tuple[str, int], rows: np.ndarray, length: int) -> Tensor:
        """One signal for a batch, (B, ...) padded with zeros to `length` tokens."""
        array, offsets, shape = self._opened(part)
        ragged = RAGGED.get(part[0], 0)
        size = _with_length(part[0], shape, length) if ragged else shape
        batch = torch.zeros(len(rows), *size)  # torch's own memory, see `bases.in_own_memory`; numpy's lies anywhere
        padded = batch.numpy()
        if not ragged:
            padded[:] = array.reshape(-1, *shape)[rows]
            return batch
        for place, row in enumerate(rows):
            n = int(self.length[row])
            cut = array[offsets[row] : offsets[row + 1]].reshape(_with_length(part[0], shape, n))
            if part[0] == "attention_scores":
                padded[place, :, :n, :n] = cut
            elif part[0] == "values":
                padded[place, :, :n] = cut
            else:
                padded[place, :n] = cut
        return batch

    def _opened(self, part: tuple[str, int]) -> tuple[np.ndarray, np.ndarray, tuple[int, ...]]:
        if part not in self._open:
            entry = self.index()["files"].get(_name(part))
            path = self.folder / _name(part)
            if entry is None or not path.exists():
                raise LookupError(f"teacher output {_name(part)} is not in {self.folder}")
            shape = tuple(entry["shape"])
            sizes = int(np.prod(shape, dtype=np.int64)) * self.length ** RAGGED.get(part[0], 0)
            array = np.asarray(np.memmap(path, np.float32, "r"))  # slices of a memmap itself take far longer to make
            self._open[part] = (array, np.concatenate([[0], np.cumsum(sizes)]), shape)
        return self._open[part]


def _create(path: Path, numbers: int) -> np.ndarray:
    """A float32 array in a new file, its space reserved: a full disk is an error here, not a crash while writing."""
    try:
        with open(path, "wb") as file:
            if hasattr(os, "posix_fallocate"):
                os.posix_fallocate(file.fileno(), 0, numbers * 4)
            else:
                file.truncate(numbers * 4)
    except OSError as error:
        path.unlink(missing_ok=True)
        raise cannot_write(path, error) from error
    return np.memmap(path, np.float32, "r+")


def _name(part: tuple[str, int]) -> str:
    return f"{part[0]}.{part[1]}.f32" if part[1] >= 0 else f"{part[0]}.f32"


def _signal(outputs: Outputs, part: tuple[str, int]) -> Tensor:
    found = getattr(outputs, part[0])
    return found[part[1]] if part[1] >= 0 else found


def _row_shape(name: str, shape: tuple[int, ...]) -> tuple[int, ...]:
    """The sizes of one example's signal that do not depend on its length."""
    # hidden_states (B, L, D) -> (D,); values (B, H, L, d) -> (H, d); attention_scores (B, H, L, L) -> (H,)
    return {
        "hidden_states": shape[2:],
        "mlm_logits": shape[2:],
        "values": (shape[1], *shape[3:]),
        "attention_scores": shape[1:2],
    }.get(name, shape[1:])


def _with_length(name: str, shape: tuple[int, ...], length: int) -> tuple[int, ...]:
    """The shape of one example's signal at `length` tokens."""
    return {"values": (shape[0], length, *shape[1:]), "attention_scores": (*shape, length, length)}.get(
        name, (length, *shape)
    )


def _cut(name: str, values: np.ndarray, length: int) -> np.ndarray:
    """One example's signal without its padding."""
    if name == "attention_scores":
        return values[:, :length, :length]
    if name == "values":
        return values[:, :length]
    return values[:length] if name in RAGGED else values
