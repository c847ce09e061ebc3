"""What scores on several tasks say of the rows on tasks like them: ranks, wins and the interquartile mean.

Pure functions of arrays: K rows, T tasks, S seeds.
"""

from __future__ import annotations

import zlib

import numpy as np
from scipy.stats import beta, rankdata

from harness.reports.statistics import LEVEL
from harness.reports.statistics.noise import holm

FEWEST_TASKS = 5
FEWEST_SEEDS = 3  # of an interval around an interquartile mean: with two it holds 80% in place of 95%
DRAWS = 10_000


def mean_ranks(scores: np.ndarray) -> np.ndarray:
    """(K,) the rank of each row, 1 for the best of a task, averaged over tasks. scores: (K, T); ties share ranks."""
    return rankdata(-scores.round(9), axis=0).mean(axis=1)


def signed_rank(differences: np.ndarray) -> float:
    """The two-sided p of Wilcoxon's signed-rank test, exact with ties too. differences: (T,); zeros are left out.

    Every sign of every difference is as likely as the other; the sums of ranks that this gives are counted.
    Wilcoxon, Individual comparisons by ranking methods (1945).
    """
    kept = differences[np.abs(differences) > 1e-9].round(9)
    ranks = (2 * rankdata(np.abs(kept))).astype(int)  # twice: ranks that are shared end in a half
    ways = np.zeros(ranks.sum() + 1)
    ways[0] = 1.0
    for rank in ranks:
        ways[rank:] += ways[: len(ways) - rank].copy()
    above = ranks[kept > 0].sum()
    tail = ways[max(above, ranks.sum() - above) :].sum() / ways.sum()
    return float(min(1.0, 2 * tail))


def smallest_p(tasks: int) -> float:
    """The smallest p that `signed_rank` gives: one row is better on every task."""
    return float(2.0 ** (1 - tasks))


def all_pairs(scores: np.ndarray) -> dict[tuple[int, int], float]:
    """(i, j) with i < j -> `signed_rank` of their differences, corrected by Holm for all pairs. scores: (K, T).

    Not Nemenyi's test of mean ranks, by which two rows differ or not as third ones are there or not: Benavoli, Corani
    and Mangili, Should We Really Use Post-Hoc Tests Based on Mean-Ranks? (2016).
    """
    pairs = [(i, j) for j in range(len(scores)) for i in range(j)]
    found = np.array([signed_rank(scores[i] - scores[j]) for i, j in pairs])
    return dict(zip(pairs, holm(found).tolist(), strict=True))


def together(p: dict[tuple[int, int], float], rows: int) -> list[tuple[int, ...]]:
    """The largest groups of two rows or more of which none differs from another at LEVEL.

    Two rows share a group if and only if they do not differ. Piepho, An algorithm for a letter-based representation of
    all-pairwise comparisons (2004): "insert and absorb".
    """
    groups = [frozenset(range(rows))]
    for i, j in (pair for pair, value in p.items() if value < LEVEL):
        split = [part for g in groups for part in ((g - {i}, g - {j}) if {i, j} <= g else (g,))]
        groups = [g for g in dict.fromkeys(split) if not any(g < other for other in split)]
    return sorted(tuple(sorted(g)) for g in groups if len(g) > 1)


def wins(scores: np.ndarray) -> np.ndarray:
    """(K, K) on how many tasks row i is better than row j; equal scores count half. scores: (K, T)."""
    apart = (scores[:, None] - scores[None]).round(9)
    return np.asarray(((apart > 0) + 0.5 * (apart == 0)).sum(axis=2))


def next_task(won: float, tasks: int) -> tuple[float, float, float]:
    """(probability, low, high) that who won on `won` of `tasks` wins on a new one, if that is drawn as these were.

    The mean and the 95% interval of Jeffreys' posterior, Beta(won + 1/2, lost + 1/2): Brown, Cai and DasGupta, Interval
    Estimation for a Binomial Proportion (2001), section 3.1.2, where an end is 0 or 1 if nothing or everything was won.
    """
    low, high = beta.ppf([LEVEL / 2, 1 - LEVEL / 2], won + 0.5, tasks - won + 0.5)
    return (won + 0.5) / (tasks + 1), 0.0 if won == 0 else float(low), 1.0 if won == tasks else float(high)


def interquartile(seeds: np.ndarray) -> tuple[float, float, float]:
    """(the interquartile mean of all scores, low, high) by the bootstrap stratified by task. seeds: (T, S), S > 1.

    Agarwal et al., Deep Reinforcement Learning at the Edge of the Statistical Precipice (2021), sections 4.1 and 4.3:
    the interval is over seeds, for these tasks, as theirs; but of S seeds S - 1 are drawn, since S of S spread too
    little by a factor of (S - 1)/S: Rao and Wu, Resampling Inference with Complex Survey Data (1988), section 2.
    """
    tasks, count = seeds.shape
    generator = np.random.default_rng(zlib.crc32(b"interquartile mean"))
    drawn = generator.integers(0, count, (DRAWS, tasks, count - 1))
    resampled = np.take_along_axis(seeds[None], drawn, axis=2).reshape(DRAWS, -1)
    low, high = np.quantile(_middle_half(resampled), [LEVEL / 2, 1 - LEVEL / 2])
    return float(_middle_half(seeds.ravel())), float(low), float(high)


def _middle_half(scores: np.ndarray) -> np.ndarray:
    """(...,) the mean of the middle half of n scores, (..., n), of which n/4 are cut from each end, of one a part.

    Were n/4 rounded down, S and S - 1 seeds would lose different shares, and the interval of tasks far apart its mean.
    """
    size = scores.shape[-1]
    place = np.arange(size)
    kept = np.clip(np.minimum(place + 1 - size / 4, 3 * size / 4 - place), 0.0, 1.0)
    return np.asarray(np.sort(scores) @ kept / kept.sum())


def reach(tasks: int, pairs: int) -> str:
    """What the test of all pairs can find with so many tasks at best, as a sentence."""
    least = smallest_p(tasks)
    if pairs * least < LEVEL:
        return ""
    needed = next(t for t in range(tasks, 100) if pairs * smallest_p(t) < LEVEL)
    several = "" if pairs == 1 else f", {min(1.0, pairs * least):.2g} once corrected for {pairs} pairs"
    return (
        f"With {tasks} tasks no two rows can be told apart, whatever their scores: the smallest p that Wilcoxon's test "
        f"can give is {least:.2g}{several}; {needed} tasks are needed"
    )
