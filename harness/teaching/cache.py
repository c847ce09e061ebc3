"""Teacher outputs, computed once and shared by every cell, trial and seed.

One store for a teacher and a set of examples, one file for a signal of a layer, float32. Rows are found by an example's
key, never by position. Sequences are stored without their padding.
"""

from __future__ import annotations

import functools
import hashlib
import os
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from harness.batch import onto
from harness.contracts import Batch, Outputs, Want
from harness.data.store import Once, Store, alone
from harness.files import cannot_write
from harness.teaching.held import HeldSignal, fits

Compute = Callable[[Batch, Want], Outputs]
HOST = torch.device("cpu")
Part = tuple[str, int]  # a signal and its layer, -1 of what has none
# The numbers of all examples, where each one's begin, which axes are its length, and the sizes of the others.
Opened = tuple[np.ndarray, np.ndarray, tuple[int, ...], tuple[int, ...]]
# Which axes of an example's signal are its length: hidden states (L, D), values (H, L, d), attention scores (H, L, L).
LENGTHS = {
    **dict.fromkeys(("embeddings", "hidden_states", "mlm_logits"), (0,)),
    **dict.fromkeys(("queries", "keys", "values"), (1,)),
    "attention_scores": (1, 2),
}


class TeacherCache:
    """The stored outputs of one teacher for one set of examples."""

    def __init__(self, room: Path, teacher: Sequence[Any], data: Any, once: Once = alone):
        """teacher: JSON of all that decides what it says of an example. data: N examples that have `keys`, (N,), unique
        or repeated, `lengths`, `subset` and `batch`, such as `Encoded`. room, once: see `Store`.
        """
        self.keys, first = np.unique(data.keys, return_index=True)  # repeated texts share a row
        self.data = data.subset(torch.from_numpy(first))
        self.length = self.data.lengths.numpy().astype(np.int64)
        self.store = Store(room, [*teacher, hashlib.sha256(self.keys.tobytes()).hexdigest()], once)
        self._open: dict[Part, Opened] = {}
        self._held: dict[Part, HeldSignal | None] = {}  # None: it does not fit

    def rows(self, keys: np.ndarray) -> np.ndarray:
        """The row of each example, by its key."""
        found = np.searchsorted(self.keys, keys)
        if not np.array_equal(self.keys[np.minimum(found, len(self.keys) - 1)], keys):
            raise LookupError("an example is not among those whose teacher outputs were stored")
        return found

    def fits(self, signal: str, numbers: int, gib: float) -> bool:
        """Whether a signal with this many numbers a token (for attention scores: a pair of tokens) is to be stored.

        Decided by sizes alone, so the same whatever the disk holds at the moment.
        """
        if signal not in LENGTHS:
            return True
        return 4 * numbers * int((self.length ** len(LENGTHS[signal])).sum()) <= gib * 2**30

    def fill(
        self,
        parts: Iterable[Part],
        compute: Compute,
        batches: Iterable[Tensor],
        device: torch.device,
        looked: bool = True,
    ) -> int:
        """Store the parts that are missing, in one pass over `batches` of all rows. Returns the teacher calls made.

        looked: what is stored is read whole, and made again where it is damaged; to be done before a part is used.
        """
        with self.store.held():
            there = self.store.vouches if looked else self.store.lists
            lacking = [part for part in parts if not there(_name(part))]
            return self._fill(lacking, compute, batches, device) if lacking else 0

    def _fill(self, parts: list[Part], compute: Compute, batches: Iterable[Tensor], device: torch.device) -> int:
        calls = 0
        arrays: dict[Part, np.ndarray] = {}
        offsets: dict[Part, np.ndarray] = {}
        shapes: dict[str, tuple[int, ...]] = {}
        for rows in batches:
            outputs = compute(self.data.batch(rows, device), Want.of_parts(parts))
            calls += 1
            for part in parts:
                name, axes = _name(part), LENGTHS.get(part[0], ())
                given = getattr(outputs, part[0])
                signal = (given[part[1]] if part[1] >= 0 else given).float().cpu().numpy()  # (B, ...)
                if part not in arrays:
                    shapes[name] = tuple(n for axis, n in enumerate(signal.shape[1:]) if axis not in axes)
                    offsets[part] = self._offsets(axes, shapes[name])
                    arrays[part] = _create(self.store.folder / f".{name}.tmp", int(offsets[part][-1]))
                for row, values in zip(rows.tolist(), signal, strict=True):
                    cut = values[_within(axes, int(self.length[row]))]
                    arrays[part][offsets[part][row] : offsets[part][row + 1]] = cut.ravel()
        for part, array in arrays.items():
            array.flush()  # type: ignore[attr-defined]
            os.replace(self.store.folder / f".{_name(part)}.tmp", self.store.folder / _name(part))
        told = self.store.told
        passes, made = told.get("passes", 0) + 1, told.get("calls", 0) + calls
        self.store.vouch(*shapes, shapes=told.get("shapes", {}) | shapes, passes=passes, calls=made)
        return calls

    def read(self, part: Part, rows: np.ndarray, length: int, device: torch.device = HOST) -> Tensor:
        """One signal for a batch, (B, ...) padded with zeros to `length` tokens, on the device."""
        if held := self._on(part, device):
            return held.read(rows, length)
        return onto(self._read(part, rows, length), device)

    def _on(self, part: Part, device: torch.device) -> HeldSignal | None:
        """The signal as the device keeps it, if it does: in the order of asking, while there is room."""
        if device.type == "cpu":
            return None
        if part not in self._held:
            array, offsets, axes, shape = self._opened(part)
            given = array, offsets[:-1], self.length, axes, shape, device
            self._held[part] = HeldSignal(*given) if fits(array.nbytes, device) else None
        return self._held[part]

    def _read(self, part: Part, rows: np.ndarray, length: int) -> Tensor:
        array, offsets, axes, shape = self._opened(part)
        batch = torch.zeros(len(rows), *_sized(axes, shape, length))  # torch's own memory, see `bases.in_own_memory`
        padded = batch.numpy()
        if not axes:
            padded[:] = array.reshape(-1, *shape)[rows]
            return batch
        for place, row in enumerate(rows):
            n = int(self.length[row])
            cut = array[offsets[row] : offsets[row + 1]].reshape(_sized(axes, shape, n))
            padded[place][_within(axes, n)] = cut
        return batch

    def _opened(self, part: Part) -> Opened:
        if part not in self._open:
            axes, shape = LENGTHS.get(part[0], ()), tuple(self.store.told["shapes"][_name(part)])
            stored = np.memmap(self.store.folder / _name(part), np.float32, "r")
            # Slices of a memmap itself take far longer to make.
            self._open[part] = np.asarray(stored), self._offsets(axes, shape), axes, shape
        return self._open[part]

    def _offsets(self, axes: tuple[int, ...], shape: tuple[int, ...]) -> np.ndarray:
        """(N + 1,) where each example's numbers begin, and where the last one's end."""
        sizes = int(np.prod(shape, dtype=np.int64)) * self.length ** len(axes)
        return np.concatenate([[0], np.cumsum(sizes)])


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


def _name(part: Part) -> str:
    return f"{part[0]}.{part[1]}.f32" if part[1] >= 0 else f"{part[0]}.f32"


@functools.cache  # asked of every row of every batch
def _sized(axes: tuple[int, ...], shape: tuple[int, ...], length: int) -> tuple[int, ...]:
    """The sizes of one example's signal at `length` tokens. shape: those that do not depend on its length."""
    sizes = list(shape)
    for axis in axes:
        sizes.insert(axis, length)
    return tuple(sizes)


@functools.cache
def _within(axes: tuple[int, ...], length: int) -> tuple[slice, ...]:
    """What of a padded example's signal is not padding."""
    return tuple(slice(length if axis in axes else None) for axis in range(max(axes, default=-1) + 1))
