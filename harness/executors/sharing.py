"""How many runs share the GPUs where nobody says it: more, as long as they get more done together. No number depends on
it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

WINDOW = 15.0  # seconds for which so many runs are watched: 1, 2, 4 and 8 of them in a minute
GAIN = 1.15  # times the tokens a second of half as many runs, below which these are kept
EACH = 8  # runs on a GPU at most


class Sharing:
    """`workers` are to go on at once: one a GPU at first, and twice as many after each watch that is worth it.

    gpus: how many; most: runs at once, of which each takes a core; used: the share of the memory that is in use, of the
    fullest GPU, or None where it cannot be told, and then nothing is doubled.
    """

    def __init__(
        self, gpus: int, most: int, used: Callable[[], float | None], clock: Callable[[], float] = time.monotonic
    ):
        self.gpus, self.workers, self.settled = gpus, min(gpus, most), False
        self._most, self._used, self._clock = min(most, EACH * gpus), used, clock
        self._speeds: dict[str, float] = {}  # tokens a second of each run, as last told
        self._sums: list[float] = []  # of all of them, since the watch began
        self._began = 0.0
        self._rates: dict[int, float] = {}  # of so many workers

    def told(self, run: str, speed: float, going: Iterable[str]) -> str:
        """Take note of a run's tokens a second. Returns a sentence once it is found how many share, otherwise ""."""
        self._speeds[run] = speed
        known = [self._speeds[one] for one in going if one in self._speeds]
        if self.settled or len(known) < self.workers:  # too few are there to be watched
            self._sums.clear()
            return ""
        if not self._sums:
            self._began = self._clock()
        self._sums.append(sum(known))
        return "" if self._clock() - self._began < WINDOW else self._decide()

    def _decide(self) -> str:
        self._rates[self.workers] = sum(self._sums) / len(self._sums)
        self._sums.clear()
        fewer, used = self._rates.get(self.workers // 2), self._used()
        if fewer and self._rates[self.workers] < GAIN * fewer:
            self.workers //= 2
        elif 2 * self.workers <= self._most and used is not None and 2 * used <= 1:
            self.workers *= 2
            return ""
        self.settled = True
        where = "the GPU" if self.gpus == 1 else f"{self.gpus} GPUs"
        times = self._rates[self.workers] / self._rates[min(self._rates)]
        return (
            f"{self.workers} at a time on {where}: {times:.1f} times the tokens a second of {min(self._rates)} "
            "(--workers N decides otherwise)"
        )
