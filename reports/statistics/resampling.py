"""Resamples of the dev examples."""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

RESAMPLES = 10_000
CHUNK = 4_000_000  # counts at a time: 16 MB


def resampled(value: np.ndarray, influence: np.ndarray, name: str) -> np.ndarray:
    """(M, RESAMPLES) float32: M scores on each resample of the examples, to first order; exactly for accuracy.

    value: (M,); influence: (M, N), see `statistics.influence`. Each resample draws N examples with replacement, the
    same for the same name and N, so that what is compared is paired.
    """
    import numpy as np

    size = influence.shape[1]
    generator = np.random.default_rng(zlib.crc32(name.encode()))
    moved = np.ascontiguousarray(influence.T, dtype=np.float32) / size
    found = np.empty((len(value), RESAMPLES), np.float32)
    for start in range(0, RESAMPLES, step := max(CHUNK // size, 1)):
        counts = np.stack(
            [
                np.bincount(generator.integers(0, size, size), minlength=size)
                for _ in range(min(step, RESAMPLES - start))
            ]
        ).astype(np.float32)
        found[:, start : start + step] = value[:, None] + (counts @ moved).T
    return found
