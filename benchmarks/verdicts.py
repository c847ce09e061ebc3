"""How often a verdict on a published table is wrong, and how often there is one: simulated, where the truth is known.

python -m benchmarks.verdicts prints the tables of docs/statistics.md.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from harness.reports.statistics.estimation import of_runs
from harness.reports.statistics.verdicts import CONTRADICTED, SUPPORTED, UNDECIDED, counts, tau_interval, verdicts

TABLES = 400  # of each scenario; of the time, a few minutes
SHARED = 0.7  # of the examples are hard or easy for all rows alike


@dataclass(frozen=True)
class Scenario:
    """A column of a table. apart: by how many points each row's true score is above the next, 0 for no difference.

    sd: over seeds, in points; unstable: one row in five has so many times that. paper: the standard deviation in points
    by which each printed number misses the truth, inf for numbers that have nothing to do with it.
    """

    apart: float
    paper: float
    rows: int = 10
    seeds: int = 4
    examples: int = 1000
    sd: float = 1.0
    unstable: float = 1.0


@dataclass(frozen=True)
class Found:
    """Shares: of tables with a wrong verdict, of orderings supported, contradicted and undecided, of true printed
    orderings that are supported, of false ones that are contradicted, and of tables whose interval of tau, or a
    bootstrap's, holds the true one.
    """

    wrong: float
    supported: float
    contradicted: float
    undecided: float
    true_found: float
    false_found: float
    tau: float
    bootstrap: float


def columns(
    scenario: Scenario, generator: np.random.Generator
) -> Iterator[tuple[np.ndarray, list[str], list[np.ndarray]]]:
    """Endlessly (true scores (K,), printed ones, of each row which examples its seeds answer rightly (S, N))."""
    k, shape = scenario.rows, (scenario.seeds, scenario.examples)
    spreads = np.where(np.arange(k) % 5 == 2, scenario.unstable, 1.0) * scenario.sd / 100
    while True:
        true = 0.7 + generator.permutation(np.arange(k) - (k - 1) / 2) * scenario.apart / 100
        believed = generator.permutation(true) if np.isinf(scenario.paper) else true
        miss = 2.0 if np.isinf(scenario.paper) else scenario.paper
        printed = [f"{value:.1f}" for value in 100 * believed + generator.normal(0, miss, k)]
        alike = generator.random(scenario.examples) < SHARED
        difficulty = generator.random(scenario.examples)
        answers = []
        for score, spread in zip(true, spreads, strict=True):
            own = np.clip(score + generator.normal(0, spread, (scenario.seeds, 1)), 0, 1)
            answers.append(np.where(alike, difficulty, generator.random(shape)) < own)
        yield true, printed, answers


def tested(answers: list[np.ndarray]) -> tuple[np.ndarray, dict[tuple[int, int], float]]:
    """(the means, the p of each pair) of rows whose seeds answer these examples rightly, (S, N) each."""
    scores = [of_row.mean(1) for of_row in answers]
    noise = of_runs(scores, [of_row - of_row.mean(1, keepdims=True) for of_row in answers])
    a, b = np.triu_indices(len(answers), 1)
    pairs = zip(a.tolist(), b.tolist(), strict=True)
    return noise.values, dict(zip(pairs, noise.p_value(a, b).tolist(), strict=True))


def _resampled(answers: list[np.ndarray], draws: int, generator: np.random.Generator) -> np.ndarray:
    """(R, K) means of as many seeds and examples, drawn with replacement from each row's."""
    seeds, examples = answers[0].shape
    counts = generator.multinomial(examples, np.full(examples, 1 / examples), draws).astype(np.float32)
    drawn = generator.multinomial(seeds, np.full(seeds, 1 / seeds), (len(answers), draws))  # (K, R, S)
    of_rows = (
        (counts @ of_row.T.astype(np.float32) * times).sum(1) for of_row, times in zip(answers, drawn, strict=True)
    )
    return np.stack(list(of_rows), axis=1) / (seeds * examples)


def simulate(scenario: Scenario, tables: int, seed: int = 0, draws: int = 0) -> Found:
    """What comes of so many tables. draws: of a bootstrap of tau, which is left out at 0."""
    generator = np.random.default_rng(seed)
    wrong = held = bootstrapped = 0
    total, right, false = np.zeros(3), np.zeros(2), np.zeros(2)
    made = columns(scenario, generator)
    for _ in range(tables):
        true, printed, answers = next(made)
        means, p = tested(answers)
        said = {pair: verdict for pair, (verdict, _) in verdicts(printed, means.tolist(), p).items()}
        truth = {(a, b): int(np.sign((true[a] - true[b]).round(9))) for a, b in said}  # 1: as printed
        wrong += any(truth[pair] != MEANS[verdict] for pair, verdict in said.items() if verdict != UNDECIDED)
        total += counts(said.values())
        for sums, sign, verdict in ((right, 1, SUPPORTED), (false, -1, CONTRADICTED)):
            those = [pair for pair in said if truth[pair] == sign]
            sums += [len(those), sum(said[pair] == verdict for pair in those)]
        tau = sum(truth.values()) / max(len(truth), 1)
        held += _within(tau, tau_interval(*counts(said.values())))
        if draws:
            resampled = _resampled(answers, draws, generator)
            taus = np.mean([np.sign(resampled[:, a] - resampled[:, b]) for a, b in said], axis=0)
            bootstrapped += _within(tau, np.quantile(taus, [0.025, 0.975]).tolist())
    supported, contradicted, undecided = (total / max(total.sum(), 1)).tolist()
    of_true, of_false = (sums[1] / sums[0] if sums[0] else np.nan for sums in (right, false))
    bootstrap = bootstrapped / tables if draws else np.nan
    shares = (supported, contradicted, undecided, of_true, of_false)
    return Found(wrong / tables, *shares, held / tables, bootstrap)


MEANS = {SUPPORTED: 1, CONTRADICTED: -1}


def _within(value: float, interval: Sequence[float]) -> bool:
    return bool(interval[0] - 1e-9 <= value <= interval[1] + 1e-9)


WRONG = {
    "none differs, 2 seeds": Scenario(0, np.inf, seeds=2),
    "none differs, 3 seeds": Scenario(0, np.inf, seeds=3),
    "none differs, 4 seeds": Scenario(0, np.inf),
    "none differs, 10 seeds": Scenario(0, np.inf, seeds=10),
    "none differs, 277 examples": Scenario(0, np.inf, examples=277),
    "none differs, 5,000 examples": Scenario(0, np.inf, examples=5000),
    "none differs, seeds alike": Scenario(0, np.inf, sd=0.0),
    "none differs, seeds 3 points apart": Scenario(0, np.inf, sd=3.0),
    "none differs, one row in five unstable": Scenario(0, np.inf, unstable=5.0),
    "the same, 2 seeds": Scenario(0, np.inf, seeds=2, unstable=5.0),
    "none differs, 25 rows": Scenario(0, np.inf, rows=25),
    "1 point apart, print unrelated": Scenario(1, np.inf),
    "1 point apart, print off by 1 point": Scenario(1, 1.0),
    "1 point apart, 25 rows, print unrelated": Scenario(1, np.inf, rows=25),
    "0.2 points apart, printed as it is": Scenario(0.2, 0.001),
}
POWER = {
    f"{apart:g} point{'s' * (apart != 1)} apart, {seeds} seeds, {examples:,} examples": Scenario(
        apart, 1.0, seeds=seeds, examples=examples
    )
    for apart in (0.5, 1, 2)
    for seeds, examples in ((2, 1000), (4, 277), (4, 1000), (10, 5000))
}


def main() -> int:
    print("| scenario | a verdict is wrong | tau held | tau held by a bootstrap |\n|---|--:|--:|--:|")
    for name, scenario in WRONG.items():
        found = simulate(scenario, TABLES, draws=100)
        print(f"| {name} | {found.wrong:.1%} | {found.tau:.1%} | {found.bootstrap:.1%} |", flush=True)
    print("\n| scenario | supported | contradicted | undecided | of true orderings supported | of false contradicted |")
    print("|---|--:|--:|--:|--:|--:|")
    for name, scenario in POWER.items():
        found = simulate(scenario, TABLES // 4)
        shares = (found.supported, found.contradicted, found.undecided, found.true_found, found.false_found)
        print(f"| {name} | {' | '.join(f'{share:.0%}' for share in shares)} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
