"""How small a difference a study will be able to see, from its sizes, or a table could, from its noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.special import gammaincinv, ndtr, ndtri, stdtrit

from harness.reports.statistics import LEVEL, POWER, mixtures
from harness.reports.statistics.estimation import grid, posterior
from harness.reports.statistics.noise import Noise

# Assumed where nothing is measured. The first is the median of the columns of docs/results, to a point.
SEED_SPREAD, DISAGREEMENT = 0.01, 0.1
MOST_SEEDS = 100
# Of so few seeds the test knows the noise badly, of few rows worst: there it is tried on tables that are drawn. Rows
# beyond MOST_ROWS tell it hardly more. A pair that is compared by its own seeds knows it badly for longer.
FEW_SEEDS, FEW_OF_A_PAIR, MOST_ROWS, TABLES = 4, 8, 40, 200


@dataclass(frozen=True)
class Expected:
    """The noise of a difference of two rows: the variance of each over seeds, and what the examples add for both.

    rows: of how many the first is learned; 1 where a pair is compared by its own seeds, of which half is each row's.
    """

    spread: float
    shared: float
    rows: int

    def least(self, seeds: float) -> float:
        """The least difference, as a fraction, that a two-sided test finds with a power of POWER.

        One seed tells nothing of others: then over the examples alone.
        """
        own = 2 * self.spread / seeds if seeds > 1 else 0.0
        total = own + self.shared
        if 1 < seeds <= (FEW_SEEDS if self.rows > 1 else FEW_OF_A_PAIR):
            return _by_drawing(self, seeds)
        freedom = min(self.rows * (seeds - 1) * (total / own) ** 2, 1e6) if own else 1e6
        return float((stdtrit(freedom, 1 - LEVEL / 2) + stdtrit(freedom, POWER)) * math.sqrt(total))

    def seeds_for(self, difference: float) -> int:
        """How many seeds find a difference of this size; 0 where MOST_SEEDS do not."""
        return next((n for n in range(2, MOST_SEEDS + 1) if self.least(n) <= difference), 0)


def assumed(examples: int, rows: int) -> Expected:
    """By SEED_SPREAD, and two rows that answer the share DISAGREEMENT of the dev examples differently."""
    return Expected(SEED_SPREAD**2, DISAGREEMENT / examples, rows)


def detectable(noise: Noise) -> float:
    """The least difference between two rows that the two-sided test finds in 80% of tables with this noise.

    Of at least two rows; of the median pair, compared alone. Rows compared by seeds are taken for equally noisy: what
    a single pair's seeds tell of that is too little.
    """
    if noise.paired:
        return Expected(noise.spread, noise.shared(), 1).least(noise.count)
    a, b = np.triu_indices(len(noise.values), 1)
    own = 0.0 if np.isnan(noise.spread) else 2 * noise.spread / noise.count
    about = np.full(len(a), 2 * np.sqrt(noise.shared() + own))
    middle = np.argsort(noise.tail(about, a, b), kind="stable")[len(a) // 2, None]
    found = noise.reach(LEVEL / 2, a[middle], b[middle])
    return float((found + ndtri(POWER) * np.sqrt(noise.variance(a[middle], b[middle]) + own))[0])


@lru_cache(maxsize=1024)
def _by_drawing(expected: Expected, seeds: float) -> float:
    """The difference that the test finds in the share POWER of TABLES tables with this noise."""
    if expected.rows == 1:
        # Of one variance its quantiles tell more than so many draws.
        quantiles = 2 * gammaincinv((seeds - 1) / 2, (np.arange(TABLES) + 0.5) / TABLES)
        sampled = (2 * expected.spread * quantiles / (seeds - 1))[:, None]
        of_pairs = posterior(sampled, np.array([seeds - 1]))[:, 0]
        deviations = np.sqrt(expected.shared + grid(seeds) / seeds)
        needed = mixtures.reach(LEVEL / 2, np.broadcast_to(deviations, of_pairs.shape), of_pairs)
    else:
        two = _drawn(expected.spread, min(expected.rows, MOST_ROWS), seeds)[:, :2].reshape(2 * TABLES, -1)
        examples = np.eye(len(two)) * expected.shared / 2
        variances = np.broadcast_to(grid(seeds) / seeds, two.shape)
        drawn = Noise(np.zeros(len(two)), examples, variances, two, 0, expected.spread, seeds)
        first = np.arange(0, len(two), 2)
        needed = drawn.reach(LEVEL / 2, first, first + 1)
    deviation = max(math.sqrt(2 * expected.spread / seeds + expected.shared), 1e-12)
    least = np.linspace(0.0, needed.max() + 10 * deviation, 2000)
    return float(np.interp(POWER, ndtr((least[:, None] - needed) / deviation).mean(1), least))


@lru_cache(maxsize=64)  # tasks of one assumption share it
def _drawn(spread: float, rows: int, seeds: float) -> np.ndarray:
    """(TABLES, rows, P) what the test learns of the variances of the rows of each table."""
    sampled = np.random.default_rng(0).chisquare(seeds - 1, (TABLES, rows)) * spread / (seeds - 1)
    return posterior(sampled, np.full(rows, seeds - 1))
