"""The noise of a column's means, learned from the scores and answers of its runs.

A row's mean over S seeds has the variance s^2 / S by these, and S is 2 to 5. So s^2 is learned from all rows together,
by empirical Bayes without a shape assumed: s is one of P values, how many rows have which is estimated by maximum
likelihood (Kiefer and Wolfowitz, Annals of Mathematical Statistics 27, 1956) from the other rows and IGNORANCE more,
which are spread evenly over log s and rule nothing out. For a row alone that is Jeffreys' prior, of which Student's t
follows; with many rows alike it is nearly a known s.

Where each seed draws training examples or a teacher for all rows, rows are compared by seeds: a pair has the variance
of its own differences, with Jeffreys' prior, of which the paired t-test follows. No pair is learned from another there:
a draw moves rows together that are alike, and apart that are not, so that pairs are no sample of one kind.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import reduce

import numpy as np

from harness.reports.statistics import mixtures
from harness.reports.statistics.noise import Drawn, Noise

SMALLEST, LARGEST = 3e-4, 1.0  # standard deviations over seeds, as fractions: from nothing that is printed to all
POINTS = 21  # between these, where rows have up to eight seeds
FINER = 7.55  # points to the root of S - 1, where more seeds tell s better: p-values are right to 0.003
IGNORANCE = 2.0
ROUNDS = 100  # of expectation and maximisation


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
        return of_pairs(Drawn(np.stack(scores), own, counts > 1), examples - own, size)
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
    possible = grid(int(counts.max()))
    weights = np.full((len(found), len(possible)), 1 / len(possible))
    weights[several] = posterior(found[several], freedom[several])
    # No mean varies less by its seeds than by what these do to single examples, which N examples tell.
    seeds = np.where(several[:, None], np.maximum(possible / np.asarray(counts)[:, None], own[:, None]), 0.0)
    pooled = float(np.average(found[several], weights=freedom[several])) if several.any() else np.nan
    count = float(np.mean(np.asarray(counts)[several])) if several.any() else 1.0
    return Noise(np.asarray(values), examples, *mixtures.merged(seeds, weights), size, pooled, count, 1 / size**2)


def of_pairs(drawn: Drawn, examples: np.ndarray, size: int) -> Noise:
    """That of rows compared by the seeds they share. examples: (k, k), as in `Noise`."""
    scores, own, several = drawn.scores, drawn.own, drawn.several
    seeds = scores.shape[1]
    a, b = np.triu_indices(len(scores), 1)
    sampled = (scores[a] - scores[b]).var(1, ddof=1)
    weights = posterior(sampled[:, None], np.array([seeds - 1]))[:, 0]  # each alone
    variances = np.maximum(grid(seeds) / seeds, (own[a, a] + own[b, b] - 2 * own[a, b])[:, None])
    variances[~several[a] & ~several[b]] = 0.0
    both = several[a] & several[b]
    spread = sampled[both].mean() / 2 if both.any() else scores[several].var(1, ddof=1).mean()
    made = mixtures.merged(variances, weights)
    return Noise(scores.mean(1), examples, *made, size, float(spread), seeds, 1 / size**2, paired=True, drawn=drawn)


def grid(seeds: float) -> np.ndarray:
    """(P,) the variances over seeds that a row may have, where the rows have up to so many."""
    return np.geomspace(SMALLEST, LARGEST, max(POINTS, 1 + math.ceil(FINER * math.sqrt(seeds - 1)))) ** 2


def posterior(sampled: np.ndarray, freedom: np.ndarray) -> np.ndarray:
    """(..., k, P) how probable each variance of the grid is for each row, of sample variances (..., k) of columns.

    freedom: (k,). After ROUNDS of expectation and maximisation over all rows, a row's prior is the mean of what the
    others, and IGNORANCE more, are then: no row is a witness for itself.
    """
    variances, half = grid(1 + freedom.max(initial=0)), freedom[:, None] / 2
    logarithm = -half * (sampled[..., None] / variances + np.log(variances))
    likelihood = np.exp(logarithm - logarithm.max(-1, keepdims=True)) if sampled.size else logarithm
    share = np.full(len(variances), 1 / len(variances))
    for _ in range(ROUNDS):
        joint = likelihood * share
        each = joint / joint.sum(-1, keepdims=True)
        share = (each.sum(-2, keepdims=True) + IGNORANCE / len(variances)) / (sampled.shape[-1] + IGNORANCE)
    joint = likelihood * share
    each = joint / joint.sum(-1, keepdims=True)
    joint = likelihood * (each.sum(-2, keepdims=True) - each + IGNORANCE / len(variances))
    return joint / joint.sum(-1, keepdims=True)


def sums(noise: Noise, *groups: Sequence[int]) -> Noise | None:
    """The sums of these pairs of means, as means of their own: (a + d) - (b + c) is (a - b) - (c - d).

    None of averages over tasks of means that are compared by seeds: what these do is not kept there.
    """
    chosen = np.zeros((len(groups), len(noise.values)))
    for group, row in zip(groups, chosen, strict=True):
        row[list(group)] = 1.0
    examples = chosen @ noise.examples @ chosen.T
    if noise.drawn:
        return of_pairs(noise.drawn.sums(chosen), examples, noise.size)
    if noise.paired:
        return None
    variances = [np.add.outer(*noise.seeds[list(group)]).ravel() for group in groups]
    chances = [np.outer(*noise.weights[list(group)]).ravel() for group in groups]
    means = {"values": chosen @ noise.values, "examples": examples}
    return replace(noise, **means, seeds=np.array(variances), weights=np.array(chances))


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
        drawn=None,
    )


def _sum(one: Noise, other: Noise) -> Noise:
    points = max(one.seeds.shape[1], other.seeds.shape[1])
    seeds, weights = mixtures.fewer(*mixtures.sums(one.seeds, one.weights, other.seeds, other.weights), points)
    return replace(
        one,
        values=one.values + other.values,
        examples=one.examples + other.examples,
        seeds=seeds,
        weights=weights,
        size=min(one.size, other.size),
        least=one.least + other.least,
    )
