"""Spread over seeds, and the agreement of two orderings."""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence


def mean_std(values: Sequence[float]) -> tuple[float, float | None]:
    """The mean, and the sample standard deviation (n - 1) or None where n is 1. `values` is not empty."""
    return statistics.fmean(values), statistics.stdev(values) if len(values) > 1 else None


def rank_correlation(ours: Sequence[float], theirs: Sequence[float]) -> tuple[float, float]:
    """Kendall's tau-b and Spearman's rho; nan for fewer than 3 pairs or where one side is constant."""
    if len(ours) < 3 or len(set(ours)) < 2 or len(set(theirs)) < 2:
        return math.nan, math.nan
    from scipy import stats

    return float(stats.kendalltau(ours, theirs).statistic), float(stats.spearmanr(ours, theirs).statistic)
