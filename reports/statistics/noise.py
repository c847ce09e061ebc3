"""How sure the means of a column are, when both other seeds and other dev examples could have been drawn.

A row's mean over S seeds and N examples varies by its seeds and by its examples. The examples are the same for all
rows, so that their part is a covariance, which is known well from N examples. The other is learned, see
`harness.reports.statistics.estimation`. docs/statistics.md has the simulations that chose how.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from harness.reports.statistics import LEVEL, mixtures


@dataclass(frozen=True)
class Noise:
    """k means of a column, and what they are uncertain by. All are fractions.

    values: (k,). examples: (k, k), their covariance over draws of the dev examples. seeds, weights: (k, P) each,
    the variances that other seeds may give a mean, and how probable each is; where paired of the difference of each
    pair, (k (k - 1) / 2, P) in the order of np.triu_indices. size: the number of dev examples, of the
    smallest task in an average. spread: the variance over seeds of a mean of one seed, over all rows alike, nan where
    no row has several. count: how many seeds rows of several have, in the mean (in an average so that spread / count is
    the variance of a mean); 1 where there are none. least: no variance of a difference over draws of the examples is
    less, which is what one example answered differently gives: rows that answer N examples alike are not known to
    answer all alike. drawn: what the noise of pairs was made of, where it is not that of an average.
    """

    values: np.ndarray
    examples: np.ndarray
    seeds: np.ndarray
    weights: np.ndarray
    size: int
    spread: float
    count: float
    least: float = 0.0
    paired: bool = False
    drawn: Drawn | None = None

    def variance(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """The part of the examples in values[a] - values[b], for each pair of indices."""
        found = self.examples[a, a] + self.examples[b, b] - 2 * self.examples[a, b]
        return np.maximum(found, self.least)

    def shared(self) -> float:
        """The part of the examples in a difference, averaged over all pairs of at least two rows."""
        return float(self.variance(*np.triu_indices(len(self.values), 1)).mean())

    def tail(self, distance: np.ndarray, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(n,) the chance that noise alone puts a at least so far, (n,), above b: from 0.5 down where it is positive.

        The mean over all pairs of variances that the two rows may have; of two rows alone with Jeffreys' prior it is
        the Behrens-Fisher distribution's.
        """
        chance = np.empty(len(a))
        for some in mixtures.portions(len(a)):
            chance[some] = mixtures.tail(distance[some], *self._mixture(a[some], b[some]))
        return chance

    def _mixture(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, M) each: the standard deviations that the difference of two rows may have, and how probable each is."""
        used = self.weights.max(0) > 1e-9
        seeds, weights = self.seeds[:, used], self.weights[:, used]
        if self.paired:
            pair = _place(len(self.values), a, b)
            seeds, weights = seeds[pair], weights[pair]
        else:
            seeds, weights = mixtures.sums(seeds[a], weights[a], seeds[b], weights[b])
        return np.sqrt(np.maximum(self.variance(a, b)[:, None] + seeds, 1e-30)), weights

    def reach(self, level: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(n,) the distance whose `tail` is `level`."""
        found = np.empty(len(a))
        for some in mixtures.portions(len(a)):
            found[some] = mixtures.reach(level, *self._mixture(a[some], b[some]))
        return found

    def p_value(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(n,) two-sided, of no difference between a and b."""
        return np.minimum(2 * self.tail(np.abs(self.values[a] - self.values[b]), a, b), 1.0)

    def compare(self, a: Sequence[int], b: Sequence[int], *, family: int = 0) -> Differences:
        """values[a] - values[b], comparisons that were planned: named before their scores were seen.

        The intervals hold for all of them at once (Bonferroni), or for a family of so many that these are of.
        """
        first, other = np.asarray(a, int), np.asarray(b, int)
        difference, p = self.values[first] - self.values[other], self.p_value(first, other)
        half = self.reach(LEVEL / 2 / max(family, len(p), 1), first, other)
        return Differences(difference, difference - half, difference + half, p, holm(p))

    def to_best(self) -> Differences:
        """Each mean minus the best of the others: simultaneous intervals of multiple comparisons with the best.

        p: of the row being the truly best, one-sided against whichever row speaks most against it; corrected: the same
        over the k - 1 that may. The best is picked from the same scores, which a test of each row against it would
        have to answer for; here only the truly best row can be wronged, whichever that is, and by its k - 1
        comparisons. The truly best is therefore among the rows with a corrected p of LEVEL or more in 95% of tables,
        and all intervals hold at once in as many (Edwards and Hsu, JASA 78, 1983; Hsu, Annals of Statistics 12, 1984;
        by Bonferroni's inequality in place of Dunnett's quantile).
        """
        k = len(self.values)
        p, corrected = self.p_best()
        if k < 2:
            return Differences(np.zeros(k), np.zeros(k), np.zeros(k), p, corrected)
        a, b = np.nonzero(~np.eye(k, dtype=bool))
        above = self.values[b] - self.values[a]  # of each row, by how much the others are better
        may = corrected >= LEVEL
        kept = may[a] | may[b]  # two rows that are certainly not the best bound nothing of each other
        a, b, above = a[kept], b[kept], above[kept]
        pairs, of = np.unique(np.minimum(a, b) * k + np.maximum(a, b), return_inverse=True)  # a - b reaches as b - a
        reach = self.reach(LEVEL / (k - 1), pairs // k, pairs % k)[of]
        high, low, rival = np.full(k, np.inf), np.zeros(k), may[b]
        np.minimum.at(high, a, reach - above)  # by every other row: the best of them is not below any
        np.minimum.at(low, a[rival], (-above - reach)[rival])  # by those alone that may be the best of them
        high = np.where(may, np.maximum(high, 0.0), 0.0)
        best = np.array([np.delete(self.values, row).max() for row in range(k)])
        return Differences(self.values - best, low, high, p, corrected)

    def p_best(self) -> tuple[np.ndarray, np.ndarray]:
        """(k,) each: the p of a row being the truly best, and this corrected, see `to_best`."""
        k = len(self.values)
        if k < 2:
            return np.ones(k), np.ones(k)
        a, b = np.triu_indices(k, 1)
        above = self.values[b] - self.values[a]
        tail, p = self.tail(np.abs(above), a, b), np.ones((k, k))
        p[a, b], p[b, a] = np.where(above > 0, (tail, 1 - tail), (1 - tail, tail))
        return p.min(1), np.minimum(p.min(1) * (k - 1), 1.0)

    def among(self, rows: Sequence[int]) -> Noise:
        """That of some of the rows, as it was learned from all."""
        kept = np.asarray(rows, int)
        a, b = np.triu_indices(len(kept), 1)
        own = _place(len(self.values), kept[a], kept[b]) if self.paired else kept
        only = {"values": self.values[kept], "seeds": self.seeds[own], "weights": self.weights[own]}
        drawn = self.drawn and self.drawn.sums(np.eye(len(self.values))[kept])
        return replace(self, **only, examples=self.examples[np.ix_(kept, kept)], drawn=drawn)

    def in_pairs(self) -> Noise:
        """The same noise as that of each pair's difference, by which it can be added to that of paired rows."""
        if self.paired:
            return self
        a, b = np.triu_indices(len(self.values), 1)
        summed = mixtures.sums(self.seeds[a], self.weights[a], self.seeds[b], self.weights[b])
        seeds, weights = mixtures.fewer(*summed, self.seeds.shape[1])
        return replace(self, seeds=seeds, weights=weights, paired=True)


@dataclass(frozen=True)
class Drawn:
    """What seeds do to k rows that share what each draws.

    scores: (k, S), of a row of one seed the same S times. own: (k, k), what of the covariance of means over draws of
    the examples is what seeds do to single ones. several: (k,), false for a row of one seed.
    """

    scores: np.ndarray
    own: np.ndarray
    several: np.ndarray

    def sums(self, chosen: np.ndarray) -> Drawn:
        """That of sums of rows, each of them so many times, (n, k)."""
        return Drawn(chosen @ self.scores, chosen @ self.own @ chosen.T, (np.abs(chosen) @ self.several) > 0)


@dataclass(frozen=True)
class Differences:
    """(n,) each: differences as fractions, 95% intervals that hold for all at once, p-values, and these corrected."""

    value: np.ndarray
    low: np.ndarray
    high: np.ndarray
    p: np.ndarray
    corrected: np.ndarray


def holm(p: np.ndarray) -> np.ndarray:
    """(n,) p-values corrected for their number (Holm, Scandinavian Journal of Statistics 6, 1979)."""
    order = np.argsort(p, kind="stable")
    stepped = np.maximum.accumulate(p[order] * np.arange(len(p), 0, -1))
    corrected = np.empty(len(p))
    corrected[order] = np.minimum(stepped, 1.0)
    return corrected


def _place(k: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where pairs of k rows stand among those of np.triu_indices(k, 1)."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    return low * (2 * k - low - 1) // 2 + high - low - 1
