"""The tests of tables on rows that are known to be equal, and to differ: for docs/statistics.md. Asserts nothing.

python -m benchmarks.statistics size|power|tables|speed [--repeats N] [--rows K ...] [--seeds S ...]
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import digamma, ndtr, polygamma, stdtr, stdtrit

from harness.contracts import Task
from harness.reports.statistics import LEVEL, estimation, noise
from harness.reports.statistics.influence import influence
from harness.reports.statistics.noise import Noise, holm
from harness.reports.statistics.planning import detectable

HARD = 0.06  # of a row's right answers, the part of the variance that its seeds share, and each seed's own
DRAWS = 999


@dataclass(frozen=True)
class Scenario:
    """sd: over seeds, in points. Every fifth row has sd `unstable`, or the rows' sds are lognormal with `spread`.

    collapses: one seed in ten falls by 20 points. own: seeds answer single examples otherwise. draws: each seed draws
    the training examples of all rows, which moves them alike by this standard deviation, in points; apart: which moves
    every second row by this, and the others by another.
    """

    name: str
    sd: float
    unstable: float = 0.0
    spread: float = 0.0
    collapses: bool = False
    own: bool = True
    draws: float = 0.0
    apart: bool = False


SCENARIOS = (
    Scenario("no seed noise", 0.0),
    Scenario("sd 0.5", 0.5),
    Scenario("sd 2, no interaction", 2.0, own=False),
    Scenario("sd 2", 2.0),
    Scenario("sd 10", 10.0),
    Scenario("one row in five unstable (0.5 and 5)", 0.5, unstable=5.0),
    Scenario("sd 2, lognormal by row", 2.0, spread=0.8),
    Scenario("sd 1, one seed in ten collapses", 1.0, collapses=True),
    Scenario("sd 1, draws 3", 1.0, draws=3.0),
    Scenario("lognormal by row, draws 3", 1.0, spread=0.8, draws=3.0),
    Scenario("one row in five unstable, draws 3", 0.5, unstable=5.0, draws=3.0),
    Scenario("two kinds of rows, draws 3 each", 1.0, draws=3.0, apart=True),
)


@dataclass(frozen=True)
class Drawn:
    """What is seen of k rows: (k, S) scores and, of each mean, the variance by examples, of which `own` by seeds'."""

    scores: np.ndarray
    examples: float
    own: float
    size: int
    paired: bool = False

    def noise(self) -> Noise:
        k, seeds = self.scores.shape
        examples, own, means = self.examples * np.eye(k), np.full(k, self.own), self.scores.mean(1)
        if self.paired:
            return estimation.of_pairs(noise.Drawn(self.scores, np.diag(own), np.full(k, True)), examples, self.size)
        return estimation.of_moments(means, self.scores.var(1, ddof=1), np.full(k, seeds), examples, own, self.size)


def drawn(rng: np.random.Generator, scenario: Scenario, rows: int, seeds: int, size: int, better: float = 0.0) -> Drawn:
    """Fractions. better: by how many points the first row is truly better than the others, which are equal."""
    spread = np.full(rows, scenario.sd)
    if scenario.unstable:
        spread[4::5] = scenario.unstable
    if scenario.spread:
        spread = scenario.sd * np.exp(rng.normal(0, scenario.spread, rows))
    scores = rng.normal(size=(rows, seeds)) * spread[:, None] / 100
    if scenario.collapses:
        scores -= 0.2 * ((rng.random((rows, seeds)) < 0.1) - 0.1)
    shared = HARD / size
    own = shared if scenario.own else 0.0
    scores += rng.normal(size=(rows, 1)) * np.sqrt(shared) + rng.normal(size=(rows, seeds)) * np.sqrt(own)
    if scenario.draws:
        moved = rng.normal(size=(2 if scenario.apart else 1, seeds)) * scenario.draws / 100
        scores += moved[np.arange(rows) % len(moved)]
    scores[0] += better / 100
    return Drawn(scores, shared, own / seeds, size, scenario.draws > 0)


# ---------------------------------------------------------------- the candidates: two-sided p, and that a is no worse

Pairs = tuple[np.ndarray, np.ndarray]
Test = Callable[[Drawn, np.ndarray, np.ndarray], Pairs]


def chosen(seen: Drawn, a: np.ndarray, b: np.ndarray) -> Pairs:
    found = seen.noise()
    below = found.tail(found.values[b] - found.values[a], a, b)
    return np.minimum(2 * np.minimum(below, 1 - below), 1), below


def old(seen: Drawn, a: np.ndarray, b: np.ndarray) -> Pairs:
    """Over examples alone: the bootstrap of earlier tables, by the normal distribution that it tends to."""
    return _student(seen, a, b, np.zeros(len(seen.scores)), np.full(len(seen.scores), 1e6), shared=seen.own)


def satterthwaite(seen: Drawn, a: np.ndarray, b: np.ndarray) -> Pairs:
    k, seeds = seen.scores.shape
    return _student(seen, a, b, seen.scores.var(1, ddof=1) / seeds, np.full(k, seeds - 1.0))


def fewest(seen: Drawn, a: np.ndarray, b: np.ndarray) -> Pairs:
    """Student's t with S - 1 degrees of freedom, whatever the examples' part; Cochran and Cox's is between."""
    k, seeds = seen.scores.shape
    return _student(seen, a, b, seen.scores.var(1, ddof=1) / seeds, np.full(k, seeds - 1.0), fixed=seeds - 1.0)


def moderated(seen: Drawn, a: np.ndarray, b: np.ndarray) -> Pairs:
    """Smyth (2004): variances drawn toward a common one, by a scaled inverse chi-squared prior."""
    k, seeds = seen.scores.shape
    variances, freedom = seen.scores.var(1, ddof=1), seeds - 1.0
    logs = np.log(np.maximum(variances, 1e-5 * np.median(variances) + 1e-12)) - digamma(freedom / 2)
    logs += np.log(freedom / 2)
    more = logs.var(ddof=1) - polygamma(1, freedom / 2)
    if more <= 0:
        prior, common = 1e4, np.exp(logs.mean())
    else:
        half = 0.5 + 1 / more
        for _ in range(50):
            now = polygamma(1, half)
            half += now * (1 - now / more) / polygamma(2, half)
        prior, common = 2 * half, np.exp(logs.mean() + digamma(half) - np.log(half))
    found = (prior * common + freedom * variances) / (prior + freedom)
    return _student(seen, a, b, found / seeds, np.full(k, min(prior + freedom, k * freedom)))


def _student(
    seen: Drawn,
    a: np.ndarray,
    b: np.ndarray,
    own: np.ndarray,
    freedom: np.ndarray,
    shared: float = 0.0,
    fixed: float = 0.0,
) -> Pairs:
    means = seen.scores.mean(1)
    own = np.maximum(own, 0 if shared else seen.own)
    total = own[a] + own[b] + 2 * (seen.examples + shared)
    found = total**2 / np.maximum(own[a] ** 2 / freedom[a] + own[b] ** 2 / freedom[b], 1e-30)
    below = stdtr(np.minimum(fixed or found, 1e6), (means[a] - means[b]) / np.sqrt(total))
    return 2 * np.minimum(below, 1 - below), below


def bootstrapped(seeds_drawn: int, rng: np.random.Generator) -> Test:
    """Percentiles of two levels, drawing S seeds (0), or S - 1 (-1) of S (Rao and Wu, JASA 83, 1988)."""

    def test(seen: Drawn, a: np.ndarray, b: np.ndarray) -> Pairs:
        rows, seeds = seen.scores.shape
        number = seeds + seeds_drawn
        weights = rng.multinomial(number, np.full(seeds, 1 / seeds), DRAWS) / number  # paired by seed
        below = np.empty(len(a))
        for i, (x, y) in enumerate(zip(a, b, strict=True)):
            each = seen.scores[x] - seen.scores[y] + rng.normal(size=(DRAWS, seeds)) * np.sqrt(2 * seen.own * seeds)
            means = (weights * each).sum(1) + rng.normal(size=DRAWS) * np.sqrt(2 * seen.examples)
            below[i] = (1 + (means >= 0).sum()) / (1 + DRAWS)
        return np.minimum(2 * np.minimum(below, 1 - below), 1), below

    return test


# ---------------------------------------------------------------- what they do


@dataclass(frozen=True)
class Errors:
    """Percent of tables of equal rows. pair: two rows named beforehand differ; mixed: a stable and an unstable row.

    reference: by Holm some row differs from one named beforehand; lost: the row that counts as truly the best is not
    among those that may be; picked: by Holm some row is worse than the one that was picked as the best.
    """

    pair: float
    mixed: float
    reference: float
    lost: float
    picked: float


def errors(
    test: Test, scenario: Scenario, rows: int, seeds: int, size: int, repeats: int, every: bool = True
) -> Errors:
    """every: all pairs of rows are compared, otherwise one."""
    rng = np.random.default_rng([rows, seeds, size, SCENARIOS.index(scenario)])
    counts = np.zeros(5)
    a, b = np.nonzero(~np.eye(rows, dtype=bool)) if every else (np.array([0]), np.array([rows - 1]))
    for _ in range(repeats):
        seen = drawn(rng, scenario, rows, seeds, size)
        two, below = test(seen, a, b)
        last = 4 if rows > 4 else rows - 1  # an unstable row, where there are any
        counts[0] += (two < LEVEL).mean()
        if every:
            counts[1] += two[(a == 0) & (b == last)][0] < LEVEL
            counts[2] += holm(two[b == 0]).min() < LEVEL
            counts[3] += (below.reshape(rows, rows - 1).min(1) * (rows - 1) < LEVEL).mean()
            counts[4] += holm(below[b == seen.scores.mean(1).argmax()]).min() < LEVEL
    return Errors(*(100 * counts / repeats if every else (100 * counts[0] / repeats, *[np.nan] * 4)))


def of_two_tables(scenario: Scenario, rows: int, seeds: int, size: int, repeats: int) -> np.ndarray:
    """(4,) percent, where two tables of so many rows are the same: of the differences row by row, how often one is
    found, and any of a table after Holm; and so of the differences of gains over the first row.
    """
    rng = np.random.default_rng([rows, seeds, size, SCENARIOS.index(scenario)])
    counts = np.zeros(4)
    ours, theirs = np.arange(rows), np.arange(rows, 2 * rows)
    for _ in range(repeats):
        found = drawn(rng, scenario, 2 * rows, seeds, size).noise()
        differ = found.p_value(ours, theirs)
        summed = (estimation.sums(found, [row, rows], [rows + row, 0]) for row in ours[1:])
        gain = np.array([noise.p_value(np.array([0]), np.array([1])).item() for noise in summed if noise])
        counts += (differ < LEVEL).mean(), holm(differ).min() < LEVEL, (gain < LEVEL).mean(), holm(gain).min() < LEVEL
    return 100 * counts / repeats


def power(test: Test, scenario: Scenario, rows: int, seeds: int, size: int, better: float, repeats: int) -> np.ndarray:
    """(3,) percent: a row that is better by so many points is found so by itself, after Holm, and as the best."""
    rng = np.random.default_rng([rows, seeds, size, int(100 * better)])
    a, b, counts = np.arange(1, rows), np.zeros(rows - 1, int), np.zeros(3)
    for _ in range(repeats):
        two, below = test(drawn(rng, scenario, rows, seeds, size, better), a, b)
        two = np.where(below < 0.5, two, 1.0)
        counts += (two < LEVEL).mean(), (holm(two) < LEVEL).mean(), (below * (rows - 1) < LEVEL).mean()
    return 100 * counts / repeats


def known(scenario: Scenario, seeds: int, size: int, better: float) -> float:
    """Percent: the power of a single comparison where the noise is known."""
    own = (scenario.sd / 100) ** 2 / seeds + HARD / size * (1 + scenario.own / seeds)
    return float(100 * ndtr(better / 100 / np.sqrt(2 * own) - stdtrit(1e6, 1 - LEVEL / 2)))


def speed(rows: int = 50, tasks: int = 5, seeds: int = 4, size: int = 10_000) -> tuple[float, float]:
    """(seconds of all comparisons of a table of accuracies, their peak memory in MiB beyond the predictions')."""
    rng = np.random.default_rng(0)
    task = Task("made", "Made", "accuracy", ("accuracy",), labels=("no", "yes"))
    labels = rng.integers(0, 2, size)
    answers = [rng.random((rows, seeds, size)) < 0.9 for _ in range(tasks)]
    before, began, parts = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), []
    for right in answers:
        found = [
            [influence(task, np.where(one, labels, 1 - labels), labels, lambda *_: 0.0) for one in row] for row in right
        ]
        parts.append(
            estimation.of_runs(
                [np.array([value for value, _ in row]) for row in found],
                [np.array([moved for _, moved in row], np.float32) for row in found],
            )
        )
    for made in (*parts, estimation.averaged(parts)):
        made.to_best()
        made.compare(range(1, rows), [0] * (rows - 1))
        detectable(made)
    return time.process_time() - began, (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024


def candidates() -> dict[str, tuple[Test, bool]]:
    rng = np.random.default_rng(1)
    return {
        "chosen": (chosen, True),
        "old": (old, True),
        "Satterthwaite": (satterthwaite, True),
        "S - 1": (fewest, True),
        "Smyth": (moderated, True),
        "two-level": (bootstrapped(0, rng), False),
        "Rao-Wu": (bootstrapped(-1, rng), False),
    }


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("size", "power", "tables", "speed"))
    parser.add_argument("--repeats", type=int, default=1000)
    parser.add_argument("--rows", type=int, nargs="+", default=[12])
    parser.add_argument("--seeds", type=int, nargs="+", default=[2, 3, 4, 5, 10])
    parser.add_argument("--examples", type=int, nargs="+", default=[1000])
    parser.add_argument("--tests", nargs="+", default=list(candidates()), choices=list(candidates()))
    asked = parser.parse_args(words)
    if asked.what == "speed":
        print("seconds {:.1f}, MiB {:.0f}".format(*speed()))
        return
    for rows in asked.rows:
        for size in asked.examples:
            for seeds in asked.seeds:
                if asked.what == "power":
                    _print_power(rows, seeds, size, asked.repeats)
                    continue
                for scenario in SCENARIOS if asked.what == "tables" else ():
                    rates = of_two_tables(scenario, rows, seeds, size, asked.repeats)
                    told = "  ".join(f"{rate:4.1f}" for rate in rates)
                    print(f"{rows:2} rows {seeds:2} seeds N {size:4} {scenario.name:38} {told}", flush=True)
                for scenario in SCENARIOS if asked.what == "size" else ():
                    for name in asked.tests:
                        test, every = candidates()[name]
                        found = errors(test, scenario, rows, seeds, size, asked.repeats, every)
                        told = "  ".join(f"{what} {value:4.1f}" for what, value in vars(found).items())
                        print(
                            f"{rows:2} rows {seeds:2} seeds N {size:4} {scenario.name:38} {name:14} {told}", flush=True
                        )


def _print_power(rows: int, seeds: int, size: int, repeats: int) -> None:
    scenario = Scenario("sd 1", 1.0)
    for better in (1.0, 2.0, 3.0, 4.0, 6.0, 8.0):
        best = known(scenario, seeds, size, better)
        told = (
            f"{name} " + " ".join(f"{x:3.0f}" for x in power(test, scenario, rows, seeds, size, better, repeats))
            for name, test in (("chosen", chosen), ("Satterthwaite", satterthwaite), ("S - 1", fewest))
        )
        of = f"{rows:2} rows {seeds:2} seeds N {size} {better} points"
        print(f"{of}: known {best:3.0f}  {'  '.join(told)}", flush=True)


if __name__ == "__main__":
    main()
