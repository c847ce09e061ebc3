"""Several tests at once."""

from __future__ import annotations

from collections.abc import Sequence


def holm(p: Sequence[float]) -> list[float]:
    """Adjusted p-values in the order of p: what is below LEVEL holds of all together (family-wise error rate).

    Holm, A simple sequentially rejective multiple test procedure (1979).
    """
    adjusted, so_far = [0.0] * len(p), 0.0
    for place, k in enumerate(sorted(range(len(p)), key=lambda k: p[k])):
        so_far = max(so_far, min(1.0, (len(p) - place) * p[k]))
        adjusted[k] = so_far
    return adjusted
