"""How many runs share the GPUs where nobody says it: doubled while there is room, unless runs are seen to lose by it.

No number depends on it.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection

from harness.errors import counted

WINDOW = 15.0  # seconds for which so many runs are watched: 1, 2, 4 and 8 of them in a minute
GAIN = 1.15  # times what half as many runs get done, below which these are kept
EACH = 8  # runs on a GPU at most


class Sharing:
    """`workers` are to go on at once: one a GPU at first, and twice as many after each watch that does not forbid it.

    What doubling gains is told by the runs that went on before and after it, by the tokens a second that they report:
    others may be of other models. Runs too short to report any are small, and gain by sharing. gpus: how many; most:
    runs at once, of which each takes a core; used: the share of the memory in use, of the fullest GPU, or None where it
    cannot be told, and then nothing is doubled.
    """

    def __init__(
        self, gpus: int, most: int, used: Callable[[], float | None], clock: Callable[[], float] = time.monotonic
    ):
        self.gpus, self.workers, self.settled = gpus, min(gpus, most), False
        self._most, self._used, self._clock = min(most, EACH * gpus), used, clock
        self._began: float | None = None  # the watch
        self._speeds: dict[str, list[float]] = {}  # tokens a second that each run has reported in it
        self._before: dict[str, float] = {}  # their means in the watch before

    def report(self, run: str, speed: float) -> None:
        """A run computes so many tokens a second."""
        if not self.settled:
            self._speeds.setdefault(run, []).append(speed)

    def limit(self, workers: int) -> None:
        """No more than these find room, or are asked for: nothing is to be found out."""
        self.workers, self.settled = workers, True

    def look(self, going: Collection[str]) -> str:
        """Decide, if it is time. going: the runs that go on. Returns a sentence once it is settled, otherwise ""."""
        if self.settled:
            return ""
        if len(going) < self.workers:  # others wait, for a teacher say: there is nothing to be seen
            self._began = None
            return ""
        if self._began is None:
            self._began = self._clock()
            self._speeds.clear()
        if self._clock() - self._began < WINDOW:
            return ""
        return self._decide()

    def _decide(self) -> str:
        now = {run: sum(speeds) / len(speeds) for run, speeds in self._speeds.items()}
        ratios = [speed / self._before[run] for run, speed in now.items() if self._before.get(run)]
        gain, used = (2 * sum(ratios) / len(ratios) if ratios else None), self._used()
        if gain is not None and gain < GAIN:
            self.workers //= 2
            why = f"twice as many get {gain:.1f} times as much done"
        elif used is None:
            why = "nvidia-smi does not tell how much of their memory is free"
        elif 2 * used > 1:
            why = "more would take more than their memory"
        elif 2 * self.workers > self._most:
            why = f"there are so many cores, and at most {EACH} share a GPU"
        else:
            self._before, self._began, self.workers = now, None, 2 * self.workers
            return ""
        self.settled = True
        where = "the GPU" if self.gpus == 1 else f"{self.gpus} GPUs"
        return f"{counted(self.workers, 'run')} at a time on {where}: {why} (--workers N decides otherwise)"
