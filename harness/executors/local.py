"""Runs on this machine."""

from __future__ import annotations

from collections import deque
from multiprocessing.connection import wait
from typing import Any

from harness.executors import environment, temporary
from harness.executors.process import Attempt
from harness.executors.worker import DEATHS

Job = tuple[str, Any, Any]  # run, specification, place


class LocalExecutor:
    """At most `workers` runs at a time, each in a process of its own. One whose process dies is begun again.

    limit: seconds after which an attempt at a run is given up.
    """

    def __init__(self, workers: int, limit: float | None = None):
        self.most, self._limit = workers, limit
        self._queue: deque[Job] = deque()
        self._going: list[tuple[Attempt, Job]] = []
        self._told: deque[tuple[Any, ...]] = deque()
        self._deaths: dict[str, int] = {}
        environment.prepare()  # the driver computes a little itself
        temporary.sweep()

    def submit(self, run: str, specification: Any, place: Any) -> None:
        """Queue a run; runs start in the order they were submitted."""
        self._queue.append((run, specification, place))
        self._begin_waiting()

    def next(self) -> tuple[Any, ...]:
        """Wait for the next message of any run, as `worker.serve` describes them; ("began", run) comes first."""
        while not self._told:
            left = [seconds for attempt, _ in self._going if (seconds := attempt.left()) is not None]
            wait([sign for attempt, _ in self._going for sign in attempt.signs], min(left, default=None))
            for attempt, job in list(self._going):
                if message := attempt.message():
                    self._take(attempt, job, message)
        return self._told.popleft()

    def close(self) -> None:
        """Stop every run at once; what they were training continues from its checkpoint another time."""
        for attempt, _ in self._going:
            attempt.end()
        self._going.clear()

    def _take(self, attempt: Attempt, job: Job, message: tuple[Any, ...]) -> None:
        kind, run, *rest = message
        if kind == "epoch":
            if "epoch" in rest[0] and "step" not in rest[0]:  # progress within one is lost with the process
                self._deaths.pop(run, None)
            self._told.append(message)
            return
        attempt.end()
        self._going.remove((attempt, job))
        if kind == "died":
            self._deaths[run] = self._deaths.get(run, 0) + 1
            if self._deaths[run] < DEATHS:
                self._queue.appendleft(job)
            else:
                why = f"its worker died {DEATHS} times (exit code {rest[0]}; -9 is a kill, often for want of memory)"
                self._told.append(("failed", run, why, why))
        else:
            self._told.append(message)
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        while self._queue and len(self._going) < self.most:
            job = self._queue.popleft()
            self._going.append((Attempt(*job, self._limit), job))
            self._told.append(("began", job[0]))
