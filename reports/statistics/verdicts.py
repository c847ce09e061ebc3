"""What our data say of the orderings of a published table: pure functions of numbers.

A pair of rows is an ordering only if what is printed for both differs whatever it was rounded from. Our data support it
if they differ in the same direction, contradict it if in the other, by a two-sided test of every pair of rows,
corrected by Holm; otherwise they cannot decide. Of all verdicts of a column together, one or more is wrong with a
probability of at most LEVEL, if the p-values are valid (`benchmarks/verdicts.py` simulates it).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal

from harness.reports.statistics import LEVEL

SUPPORTED, CONTRADICTED, UNDECIDED = "supported", "contradicted", "undecided"


def ordered(one: str, other: str) -> int:
    """1 or -1 where the first printed number is above or below the other, 0 where rounding leaves that open.

    A number printed as 84.7 may be anything from 84.65 to 84.75: 84.7 is below 84.8, and may equal 84.72.
    """
    a, b = map(_value, (one, other))
    return 0 if a == b or apart(one, other) < 0 else 1 if a > b else -1


def apart(one: str, other: str) -> float:
    """The least that two printed numbers may differ by, whatever they were rounded from; below 0 where by nothing."""
    a, b = map(_value, (one, other))
    return float(abs(a - b) - (_unit(a) + _unit(b)) / 2)


def _value(text: str) -> Decimal:
    return Decimal(text.replace(",", ""))


def _unit(value: Decimal) -> Decimal:
    """What a step of the last printed digit is."""
    exponent = value.as_tuple().exponent
    return Decimal(1).scaleb(exponent if isinstance(exponent, int) else 0)


def verdicts(
    printed: Sequence[str], means: Sequence[float], p: Mapping[tuple[int, int], float]
) -> dict[tuple[int, int], tuple[str, float]]:
    """(above, below) of each published ordering -> (verdict, corrected p). printed, means: what both say of K rows.

    p: (i, j) with i < j -> the two-sided p that ours differ, for every pair of the K rows; 1 where it was not tested.
    """
    import numpy as np

    from harness.reports.statistics.noise import holm

    pairs = sorted(p)
    found = {}
    for (i, j), adjusted in zip(pairs, holm(np.array([p[pair] for pair in pairs])).tolist(), strict=True):
        if not (sign := ordered(printed[i], printed[j])):
            continue
        agrees = (means[i] - means[j]) * sign > 0
        verdict = UNDECIDED if adjusted >= LEVEL else SUPPORTED if agrees else CONTRADICTED
        found[(i, j) if sign > 0 else (j, i)] = verdict, adjusted
    return found


def counts(found: Iterable[str]) -> tuple[int, int, int]:
    """How many of these verdicts are supported, contradicted, undecided."""
    made = Counter(found)
    return made[SUPPORTED], made[CONTRADICTED], made[UNDECIDED]


def tau_interval(supported: int, contradicted: int, undecided: int) -> tuple[float, float]:
    """Between which Kendall's tau of the published orderings and the true ones lies, at 1 - LEVEL; nan for none.

    All that is undecided may be against them, or for them. A bootstrap of tau is no such interval: noise draws every
    resample's tau towards 0, so that where rows are close it leaves out a true tau of 1 (`benchmarks/verdicts.py`).
    """
    total = supported + contradicted + undecided
    if not total:
        return math.nan, math.nan
    decided = supported - contradicted
    return (decided - undecided) / total, (decided + undecided) / total
