"""How sure the means of a column are, when both other seeds and other dev examples could have been drawn.

A row's mean m over S seeds and N examples varies by its seeds (variance s^2 / S) and by its examples. The examples are
the same for all rows, so that their part is a covariance, which is known well from N examples. s^2 is not: S is 2 to
5. So it is learned from all rows together, by empirical Bayes without a shape assumed: s is one of POINTS values, how
many rows have which is estimated by maximum likelihood (Kiefer and Wolfowitz, Annals of Mathematical Statistics 27,
1956) from the other rows and IGNORANCE more, which are spread evenly over log s and rule nothing out. For a row alone
that is Jeffreys' prior, of which Student's t follows; with many rows alike it is nearly a known s. docs/statistics.md
has the simulations that chose it.

Where each seed draws training examples or a teacher for all rows, rows are compared by seeds: a pair has the variance
of its own differences, with Jeffreys' prior, of which the paired t-test follows. No pair is learned from another there:
a draw moves rows together that are alike, and apart that are not, so that pairs are no sample of one kind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import reduce

import numpy as np
from scipy.special import ndtr, ndtri

from harness.reports.statistics import LEVEL, POWER

POINTS = 21
SMALLEST, LARGEST = 3e-4, 1.0  # standard deviations over seeds, as fractions: from nothing that is printed to all
IGNORANCE = 2.0
ROUNDS = 100  # of expectation and maximisation
NEAR, FAR = 1e-6, 8.0  # between these lies every difference of scores that is asked for
TURNS = 14  # of halving their ratio, the last two by a line
PORTION = 256  # pairs that are compared at once


@dataclass(frozen=True)
class Noise:
    """k means of a column, and what they are uncertain by. All are fractions.

    values: (k,). examples: (k, k), their covariance over draws of the dev examples. seeds, weights: (k, POINTS) each,
    the variances that other seeds may give a mean, and how probable each is; where paired of the difference of each
    pair, (k (k - 1) / 2, POINTS) in the order of np.triu_indices. size: the number of dev examples, of the
    smallest task in an average. spread: the variance over seeds of a mean of one seed, over all rows alike, nan where
    no row has several. count: how many seeds rows of several have, in the mean (in an average so that spread / count is
    the variance of a mean); 1 where there are none. least: no variance of a difference over draws of the examples is
    less, which is what one example answered differently gives: rows that answer N examples alike are not known to
    answer all alike.
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
        for some in _portions(len(a)):
            chance[some] = _tail(distance[some], *self._mixture(a[some], b[some]))
        return chance

    def _mixture(self, a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(n, M) each: the standard deviations that the difference of two rows may have, and how probable each is."""
        used = self.weights.max(0) > 1e-9
        seeds, weights = self.seeds[:, used], self.weights[:, used]
        if self.paired:
            pair = _place(len(self.values), a, b)
            seeds, weights = seeds[pair], weights[pair]
        else:
            seeds, weights = _sums(seeds[a], weights[a], seeds[b], weights[b])
        return np.sqrt(np.maximum(self.variance(a, b)[:, None] + seeds, 1e-30)), weights

    def reach(self, level: float, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(n,) the distance whose `tail` is `level`."""
        found = np.empty(len(a))
        for some in _portions(len(a)):
            found[some] = mixture_reach(level, *self._mixture(a[some], b[some]))
        return found

    def p_value(self, a: np.ndarray, b: np.ndarray) -> np.ndarray:
        """(n,) two-sided, of no difference between a and b."""
        return np.minimum(2 * self.tail(np.abs(self.values[a] - self.values[b]), a, b), 1.0)

    def compare(self, a: Sequence[int], b: Sequence[int]) -> Differences:
        """values[a] - values[b], comparisons that were planned: named before their scores were seen.

        The intervals hold for all of them at once (Bonferroni).
        """
        first, other = np.asarray(a, int), np.asarray(b, int)
        difference, p = self.values[first] - self.values[other], self.p_value(first, other)
        half = self.reach(LEVEL / 2 / max(len(p), 1), first, other)
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
        return replace(self, **only, examples=self.examples[np.ix_(kept, kept)])

    def in_pairs(self) -> Noise:
        """The same noise as that of each pair's difference, by which it can be added to that of paired rows."""
        if self.paired:
            return self
        a, b = np.triu_indices(len(self.values), 1)
        seeds, weights = _fewer(*_sums(self.seeds[a], self.weights[a], self.seeds[b], self.weights[b]))
        return replace(self, seeds=seeds, weights=weights, paired=True)

    def detectable(self) -> float:
        """The least difference between two rows that the two-sided test finds in 80% of tables, with its noise.

        Of the median pair of at least two rows, compared alone.
        """
        a, b = np.triu_indices(len(self.values), 1)
        own = 0.0 if np.isnan(self.spread) else 2 * self.spread / self.count
        about = np.full(len(a), 2 * np.sqrt(self.shared() + own))
        middle = np.argsort(self.tail(about, a, b), kind="stable")[len(a) // 2, None]
        found = self.reach(LEVEL / 2, a[middle], b[middle])
        return float((found + ndtri(POWER) * np.sqrt(self.variance(a[middle], b[middle]) + own))[0])


def _portions(size: int) -> Iterator[slice]:
    """Parts of so many pairs whose mixtures a processor's cache holds."""
    return (slice(start, start + PORTION) for start in range(0, size, PORTION))


def _tail(distance: np.ndarray, deviations: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(n,) the chance that a mixture of normal distributions, (n, M), is so far, (n,), above its mean."""
    return np.einsum("nm,nm->n", weights, ndtr(-distance[:, None] / deviations))


def mixture_reach(level: float, deviations: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """(n,) the distances whose `_tail` is `level`."""
    def logarithm(distance: np.ndarray) -> np.ndarray:
        return np.log(np.maximum(_tail(distance, deviations, weights), 1e-300))

    aim, low, high = np.log(level), np.full(len(weights), NEAR), np.full(len(weights), FAR)
    at_low, at_high = np.full((2, len(weights)), np.nan)  # of an end that was not looked at: it is halved then
    for turn in range(TURNS):
        middle = np.sqrt(low * high)
        if turn >= TURNS - 2:  # by then the logarithms are as good as a line
            with np.errstate(divide="ignore", invalid="ignore"):
                share = np.nan_to_num((at_low - aim) / (at_low - at_high), nan=0.5)
            middle = low * (high / low) ** np.clip(share, 0.0, 1.0)
        if turn < TURNS - 1:
            found = logarithm(middle)
            over = found > aim
            low, at_low = np.where(over, middle, low), np.where(over, found, at_low)
            high, at_high = np.where(over, high, middle), np.where(over, at_high, found)
    return middle


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


def of_runs(scores: Sequence[np.ndarray], influences: Sequence[np.ndarray], paired: bool = False) -> Noise:
    """The noise of k rows: of each its seeds' scores, (S,), and the examples' influences on these, (S, N).

    Examples and seeds are drawn together: what of the examples' variance is each seed's own stands in the variance
    over seeds already, and is taken out of that of the examples. Rows of one seed have no variance over seeds that is
    known, and get none. paired: the runs of a seed share what it drew, and rows that have as many seeds are compared
    by these, those of one seed with each of another's. Otherwise the seeds of two rows are taken as independent.
    """
    size = influences[0].shape[1]
    means = np.stack([of_row.mean(0) for of_row in influences])  # (k, N)
    squares = size * max(size - 1, 1)
    examples = means @ means.T / squares
    counts = np.array([len(of_row) for of_row in scores])
    most = int(counts.max())
    if paired and most > 1 and ((counts == 1) | (counts == most)).all():
        scores, influences = ([np.broadcast_to(r, (most, *r.shape[1:])) for r in each] for each in (scores, influences))
        of_seeds = (np.stack(rows) for rows in zip(*influences, strict=True))  # (k, N) each
        each = sum(rows @ rows.T for rows in of_seeds) / most / squares
        own = (each - examples) / (most - 1)  # (k, k), what the same seed does to the same examples in two rows
        return of_pairs(np.stack(scores), examples - own, own, size, counts > 1)
    own = np.zeros(len(scores))  # of each mean, what its seeds do to single examples
    for row, of_row in enumerate(influences):
        if counts[row] > 1:
            each = float((of_row**2).sum(1).mean()) / squares
            own[row] = max(each - examples[row, row], 0.0) / (counts[row] - 1)
    examples[np.diag_indices_from(examples)] -= own
    sampled = [float(np.var(s, ddof=1)) if len(s) > 1 else 0.0 for s in scores]
    return of_moments([float(np.mean(s)) for s in scores], sampled, counts, examples, own, size)


def of_moments(
    values: Sequence[float],
    sampled: Sequence[float] | np.ndarray,
    counts: np.ndarray,
    examples: np.ndarray,
    own: np.ndarray,
    size: int,
) -> Noise:
    """The noise of means, of each the sample variance over its seeds; own: what of `examples` these contain, (k,)."""
    found, freedom = np.asarray(sampled), np.asarray(counts) - 1
    several = freedom > 0
    weights = np.full((len(found), POINTS), 1 / POINTS)
    weights[several] = posterior(found[several], freedom[several])
    # No mean varies less by its seeds than by what these do to single examples, which N examples tell.
    seeds = np.where(several[:, None], np.maximum(grid() / np.asarray(counts)[:, None], own[:, None]), 0.0)
    pooled = float(np.average(found[several], weights=freedom[several])) if several.any() else np.nan
    count = float(np.mean(np.asarray(counts)[several])) if several.any() else 1.0
    return Noise(np.asarray(values), examples, *_merged(seeds, weights), size, pooled, count, 1 / size**2)


def of_pairs(scores: np.ndarray, examples: np.ndarray, own: np.ndarray, size: int, several: np.ndarray) -> Noise:
    """That of rows whose scores, (k, S), have the same seeds, compared by these.

    examples, own: (k, k), the covariances of means over draws of the examples, and what seeds do to single ones.
    several: (k,), false for a row of one seed, which has the same score S times.
    """
    seeds = scores.shape[1]
    a, b = np.triu_indices(len(scores), 1)
    sampled = (scores[a] - scores[b]).var(1, ddof=1)
    weights = posterior(sampled[:, None], np.array([seeds - 1]))[:, 0]  # each alone
    variances = np.maximum(grid() / seeds, (own[a, a] + own[b, b] - 2 * own[a, b])[:, None])
    variances[~several[a] & ~several[b]] = 0.0
    both = several[a] & several[b]
    spread = sampled[both].mean() / 2 if both.any() else scores[several].var(1, ddof=1).mean()
    made = _merged(variances, weights)
    return Noise(scores.mean(1), examples, *made, size, float(spread), seeds, 1 / size**2, paired=True)


def _merged(seeds: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Variances in order and their weights, with what is the same variance as one: pairs have fewer to be asked of."""
    weights = weights.copy()
    for at in range(1, POINTS):
        same = seeds[:, at] == seeds[:, at - 1]
        weights[same, at] += weights[same, at - 1]
        weights[same, at - 1] = 0.0
    return seeds, weights


def grid() -> np.ndarray:
    """(POINTS,) the variances over seeds that a row may have."""
    return np.geomspace(SMALLEST, LARGEST, POINTS) ** 2


def posterior(sampled: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """(..., k, POINTS) how probable each variance of the grid is for each row, of sample variances (..., k) of columns.

    freedom: (k,). After ROUNDS of expectation and maximisation over all rows, a row's prior is the mean of what the
    others, and IGNORANCE more, are then: no row is a witness for itself.
    """
    variances, half = grid(), freedom[:, None] / 2
    logarithm = -half * (sampled[..., None] / variances + np.log(variances))
    likelihood = np.exp(logarithm - logarithm.max(-1, keepdims=True)) if sampled.size else logarithm
    share = np.full(POINTS, 1 / POINTS)
    for _ in range(ROUNDS):
        joint = likelihood * share
        each = joint / joint.sum(-1, keepdims=True)
        share = (each.sum(-2, keepdims=True) + IGNORANCE / POINTS) / (sampled.shape[-1] + IGNORANCE)
    joint = likelihood * share
    each = joint / joint.sum(-1, keepdims=True)
    joint = likelihood * (each.sum(-2, keepdims=True) - each + IGNORANCE / POINTS)
    return joint / joint.sum(-1, keepdims=True)


def averaged(parts: Sequence[Noise]) -> Noise:
    """The noise of the rows' means over tasks, whose examples and seeds are independent."""
    if any(part.paired for part in parts):
        parts = [part.in_pairs() for part in parts]
    number, whole = len(parts), reduce(_sum, parts)
    known = [part for part in parts if not np.isnan(part.spread)]
    spread, of_means = sum(p.spread for p in known), sum(p.spread / p.count for p in known)
    return replace(
        whole,
        values=whole.values / number,
        examples=whole.examples / number**2,
        least=whole.least / number**2,
        seeds=whole.seeds / number**2,
        spread=spread / number**2 if known else np.nan,
        count=spread / of_means if of_means else whole.count,
    )


def _sum(one: Noise, other: Noise) -> Noise:
    seeds, weights = _fewer(*_sums(one.seeds, one.weights, other.seeds, other.weights))
    return replace(
        one,
        values=one.values + other.values,
        examples=one.examples + other.examples,
        seeds=seeds,
        weights=weights,
        size=min(one.size, other.size),
        least=one.least + other.least,
    )


def _place(k: int, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Where pairs of k rows stand among those of np.triu_indices(k, 1)."""
    low, high = np.minimum(a, b), np.maximum(a, b)
    return low * (2 * k - low - 1) // 2 + high - low - 1


def _sums(
    one: np.ndarray, weights: np.ndarray, other: np.ndarray, others: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """(n, M * M) each: every sum of two variances of (n, M) each, and how probable it is."""
    sums, shares = one[:, :, None] + other[:, None, :], weights[:, :, None] * others[:, None, :]
    shape = len(one), one.shape[1] * other.shape[1]  # told, as of a row alone there are no pairs
    return sums.reshape(shape), shares.reshape(shape)


def _fewer(sums: np.ndarray, weights: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Of n rows of variances and their weights POINTS of the same mean each."""
    k = len(sums)
    seeds, shares = np.zeros((k, POINTS)), np.zeros((k, POINTS))
    for row in range(k):
        low, high = sums[row].min(), sums[row].max()
        edges = np.geomspace(low, high, POINTS + 1)[1:-1] if low > 0 and high > low else np.full(POINTS - 1, high)
        group = np.searchsorted(edges, sums[row])
        shares[row] = np.bincount(group, weights[row], POINTS)
        total = np.bincount(group, weights[row] * sums[row], POINTS)
        seeds[row] = np.divide(total, shares[row], out=np.zeros(POINTS), where=shares[row] > 0)
    return seeds, shares
