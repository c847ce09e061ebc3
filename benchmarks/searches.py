"""How often two equal rows differ for the luck of their searches: for docs/statistics.md. Asserts nothing.

python -m benchmarks.searches [--trials T ...] [--rises POINTS ...] [--seeds S] [--better POINTS] [--repeats N]

Two rows are trained by settings that lie anywhere in the same range, from whose one end to the other the score rises by
so many points. Trials draw their places in the range, or are a grid over it; that of the highest selection score is
taken. Scores of seeds have a standard deviation of one point, on the selection data and on dev alike, and each data its
own noise of as much again. The test is the t-test over seeds, paired where both rows draw the same in each seed.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence

import numpy as np
from scipy import stats

from harness.reports.statistics import LEVEL

SD = 1.0  # over seeds, and again of each data; in points
TRIED = ("own", "same", "grid")  # what a row draws by itself, both draw alike, or both have


def scores(
    rng: np.random.Generator, places: np.ndarray, rise: float, seeds: int, each: bool, level: float
) -> np.ndarray:
    """(R, S) dev scores of a row in R tables. places: (R, S, T) of its trials in the range, of which one search takes
    those of the first seed. level: of the row at the lower end.
    """
    true = level + rise * places + rng.normal(0, SD, places.shape)  # (R, S, T), what a run of the seed is worth
    selection = true + rng.normal(0, SD, places.shape)
    chosen = selection.argmax(2)[:, :, None]  # (R, S, 1), by each seed's own search
    if not each:  # further seeds train anew, with the setting of the first
        first = chosen[:, :1]
        again = level + rise * np.take_along_axis(places[:, :1], first, 2) + rng.normal(0, SD, (len(true), seeds, 1))
        again[:, :1] = np.take_along_axis(true[:, :1], first, 2)
        return again[:, :, 0] + rng.normal(0, SD, (len(true), seeds))
    return np.take_along_axis(true, chosen, 2)[:, :, 0] + rng.normal(0, SD, (len(true), seeds))


def found(each: bool, tried: str, trials: int, rise: float, seeds: int, better: float, repeats: int) -> float:
    """Percent of tables in which the two rows differ, the second of which is so many points better.

    each: a search for each seed. tried: one of TRIED.
    """
    rng = np.random.default_rng(0)
    places = rng.random((2, repeats, seeds, trials))
    if tried == "grid":
        places[:] = np.linspace(0, 1, trials)
    first = scores(rng, places[0], rise, seeds, each, 0.0)
    second = scores(rng, places[1 if tried == "own" else 0], rise, seeds, each, better)
    test = stats.ttest_rel if each and tried == "same" else stats.ttest_ind
    p = test(first, second, axis=1).pvalue
    return float(100 * ((p < LEVEL) & ((second > first).mean(1) > 0.5 if better else True)).mean())


def main(words: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trials", type=int, nargs="+", default=[2, 4, 8, 16])
    parser.add_argument("--rises", type=float, nargs="+", default=[0.0, 2.0, 4.0, 8.0])
    parser.add_argument("--seeds", type=int, default=8)
    parser.add_argument("--better", type=float, default=0.0)
    parser.add_argument("--repeats", type=int, default=4000)
    asked = parser.parse_args(words)
    for trials in asked.trials:
        for rise in asked.rises:
            told = f"{trials:2} trials, {rise:g} points over the range"
            for each in (False, True):
                rest = trials, rise, asked.seeds, asked.better, asked.repeats
                rates = (f"{tried} {found(each, tried, *rest):4.1f}" for tried in TRIED)
                told += f"  {'a search a seed' if each else 'one search'}: {'  '.join(rates)}"
            print(told, flush=True)


if __name__ == "__main__":
    main()
