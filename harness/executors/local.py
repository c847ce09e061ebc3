"""Runs on this machine."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from multiprocessing.connection import wait
from typing import Any

from harness.errors import UserError, counted
from harness.executors import environment, gpus, temporary
from harness.executors.mps import service
from harness.executors.process import Attempt, prepare
from harness.executors.sharing import Sharing
from harness.executors.worker import DEATHS
from harness.runs.messages import Began, Died, Failed, Message, Noted, Told

Job = tuple[str, Any, Any]  # run, specification, workspace


class LocalExecutor:
    """At most `workers` runs at a time, each in a process of its own. One whose process dies is begun again.

    Where there are several GPUs, each run is given the one that the fewest others are on; several runs may share one.
    A run for which others leave too little memory on a GPU is begun again once one of them has ended, and from then on
    fewer go on together.
    limit: seconds after which an attempt at a run is given up. shares: on GPUs, start with a run on each and find out
    how many, up to `workers`, get most done. mps: start CUDA's Multi-Process Service for them; raises UserError where
    that cannot be.
    """

    def __init__(self, workers: int, limit: float | None = None, shares: bool = False, mps: bool = False):
        self._limit = limit
        self._queue: deque[Job] = deque()
        self._going: list[tuple[Attempt, Job]] = []
        self._gpus = gpus.visible()
        self._sharing = Sharing(len(self._gpus), workers, gpus.used)
        if not (shares and self._gpus):
            self._sharing.limit(workers)
        self._undo, self._given = ExitStack(), dict[str, str]()
        self._told: deque[Message] = deque()
        self._deaths: dict[str, int] = {}
        environment.prepare()  # the driver computes a little itself
        temporary.sweep()
        if mps:
            self._given = self._undo.enter_context(service(self._gpus))

    def prepare(self) -> None:
        """Load what runs need, beside whatever goes on here meanwhile."""
        with _starting(0):
            prepare()

    def submit(self, run: str, specification: Any, workspace: Any) -> None:
        """Queue a run; runs start in the order they were submitted."""
        self._queue.append((run, specification, workspace))
        self._begin_waiting()

    def next(self) -> Message:
        """Wait for the next message of any run; Began comes first."""
        while not self._told:
            left = [seconds for attempt, _ in self._going if (seconds := attempt.left()) is not None]
            wait([sign for attempt, _ in self._going for sign in attempt.signs], min(left, default=None))
            for attempt, job in list(self._going):
                if message := attempt.message():
                    self._watch(message)
                    self._take(attempt, job, message)
        return self._told.popleft()

    def close(self) -> None:
        """Stop every run at once; what they were training continues from its checkpoint another time."""
        for attempt, _ in self._going:
            attempt.end()
        self._going.clear()
        self._undo.close()

    def _take(self, attempt: Attempt, job: Job, message: Message) -> None:
        run = message.run
        if isinstance(message, Told):
            if message.entry.get("saved"):  # any other progress is lost with the process, and would be made for ever
                self._deaths.pop(run, None)
            self._told.append(message)
            return
        attempt.end()
        self._going.remove((attempt, job))
        if isinstance(message, Died):
            self._deaths[run] = self._deaths.get(run, 0) + 1
            if self._deaths[run] < DEATHS:
                self._queue.appendleft(job)
            else:
                why = (
                    f"its worker died {DEATHS} times (exit code {message.code}; -9 is a kill, often for want of memory)"
                )
                self._told.append(Failed(run, why, why))
        elif isinstance(message, Failed) and message.crowded and self._going:
            self._queue.appendleft(job)
            self._have_fewer(run)
        else:
            self._told.append(message)
        self._begin_waiting()

    def _have_fewer(self, run: str) -> None:
        """Let no more runs go on together than do now, of which none lacked memory."""
        workers = len(self._going)
        self._sharing.limit(workers)
        runs = "1 run goes" if workers == 1 else f"{workers} runs go"
        self._told.append(Noted(run, f"{runs} on at a time from here: one more lacked memory on a GPU"))

    def _watch(self, message: Message) -> None:
        """Find out how many runs are to share the GPUs."""
        if isinstance(message, Told) and (speed := message.entry.get("tokens_per_second")):
            self._sharing.report(message.run, speed)
        if sentence := self._sharing.look([attempt.run for attempt, _ in self._going]):
            self._told.append(Noted(message.run, sentence))
        self._begin_waiting()

    def _begin_waiting(self) -> None:
        while self._queue and len(self._going) < self._sharing.workers:
            job = self._queue.popleft()
            used = [attempt.environment.get(gpus.VISIBLE, "") for attempt, _ in self._going]
            environment = gpus.least_used(self._gpus, used) | self._given
            with _starting(len(self._going)):
                attempt = Attempt(*job, self._limit, environment)
            self._going.append((attempt, job))
            self._told.append(Began(job[0]))


@contextmanager
def _starting(others: int) -> Iterator[None]:
    """Raises UserError where no process begins. others: how many go on."""
    try:
        yield
    except (OSError, EOFError) as error:
        beside = f" beside {counted(others, 'other')}" if others else ""
        raise UserError(
            f"no process can be started for a run{beside} ({error or 'it ended'}), for want of memory, "
            f"open files (ulimit -n), processes (ulimit -u) or room in {temporary.place()}: fewer --workers need less"
        ) from error
