"""What a study will be able to see, from its sizes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from harness.reports.statistics.noise import LEVEL, POWER

# Assumed where nothing is measured. The first is the median of the columns of docs/results, to a point.
SEED_SPREAD, DISAGREEMENT = 0.01, 0.1
MOST_SEEDS = 100


@dataclass(frozen=True)
class Expected:
    """The noise of a difference of two rows: the variance of each over seeds, and what the examples add for both."""

    spread: float
    shared: float
    rows: int

    def least(self, seeds: int) -> float:
        """The least difference, as a fraction, that a two-sided test finds with a power of POWER.

        One seed tells nothing of others: then over the examples alone.
        """
        from scipy.special import stdtrit

        own = 2 * self.spread / seeds if seeds > 1 else 0.0
        total = own + self.shared
        freedom = min(self.rows * (seeds - 1) * (total / own) ** 2, 1e6) if own else 1e6
        return float((stdtrit(freedom, 1 - LEVEL / 2) + stdtrit(freedom, POWER)) * math.sqrt(total))

    def seeds_for(self, difference: float) -> int:
        """How many seeds find a difference of this size; 0 where MOST_SEEDS do not."""
        return next((n for n in range(2, MOST_SEEDS + 1) if self.least(n) <= difference), 0)


def assumed(examples: int, rows: int) -> Expected:
    """By SEED_SPREAD, and two rows that answer the share DISAGREEMENT of the dev examples differently."""
    return Expected(SEED_SPREAD**2, DISAGREEMENT / examples, rows)
