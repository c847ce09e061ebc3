"""Runs in worker processes on this machine."""

from __future__ import annotations

import contextlib
import multiprocessing
from collections import deque
from dataclasses import dataclass
from multiprocessing import forkserver
from multiprocessing.connection import Connection, wait
from typing import Any

from harness.executors import environment
from harness.executors.worker import DEATHS, serve

# Workers are forked from a server that has imported torch and transformers once and done nothing with them.
CONTEXT: Any = multiprocessing.get_context("forkserver")


@dataclass
class Worker:
    process: Any
    connection: Connection
    job: tuple[str, Any, Any] | None = None


class LocalExecutor:
    """`workers` processes, one run each at a time. A worker that dies is replaced and its run continues."""

    def __init__(self, workers: int):
        self.most = workers
        self._queue: deque[tuple[str, Any, Any]] = deque()
        self._workers: list[Worker] = []
        self._deaths: dict[str, int] = {}
        environment.prepare()
        CONTEXT.set_forkserver_preload(["harness.executors.preload"])
        forkserver.ensure_running()  # its imports go on while the driver plans

    def submit(self, run: str, specification: Any, place: Any) -> None:
        """Queue a run; runs start in the order they were submitted."""
        self._queue.append((run, specification, place))
        self._start_waiting()

    def next(self) -> tuple[Any, ...]:
        """Wait for the next message of any worker, as `worker.serve` describes them."""
        while True:
            ready = wait([w.connection for w in self._workers])
            worker = next(w for w in self._workers if w.connection in ready)
            try:
                message: tuple[Any, ...] = worker.connection.recv()
            except (EOFError, OSError):
                failed = self._replace(worker)
                if failed:
                    return failed
                continue
            if message[0] == "epoch":
                if "epoch" in message[2] and "step" not in message[2]:  # progress within one is lost with the worker
                    self._deaths.pop(message[1], None)
            else:
                worker.job = None
                self._start_waiting()
            return message

    def close(self) -> None:
        """Stop every worker at once; what they were training continues from its checkpoint another time."""
        for worker in self._workers:
            worker.process.kill()
            worker.process.join()
            worker.connection.close()
        self._workers.clear()

    def _start_waiting(self) -> None:
        for worker in self._workers:
            if worker.job is None and self._queue:
                self._give(worker)
        while self._queue and len(self._workers) < self.most:
            self._workers.append(_start())
            self._give(self._workers[-1])

    def _give(self, worker: Worker) -> None:
        worker.job = self._queue.popleft()
        with contextlib.suppress(OSError):  # it died while idle: `next` notices, and gives the run to another
            worker.connection.send(worker.job)

    def _replace(self, worker: Worker) -> tuple[Any, ...] | None:
        """Put a new worker in a dead one's place. Returns the failure of its run if it died too often."""
        self._workers.remove(worker)
        worker.process.join()
        worker.connection.close()
        failed = None
        if worker.job is not None:
            run = worker.job[0]
            self._deaths[run] = self._deaths.get(run, 0) + 1
            if self._deaths[run] < DEATHS:
                self._queue.appendleft(worker.job)
            else:
                why = (
                    f"its worker died {DEATHS} times (exit code {worker.process.exitcode}; "
                    "-9 is a kill, often for want of memory)"
                )
                failed = ("failed", run, why, why)
        self._start_waiting()
        return failed


def _start() -> Worker:
    ours, theirs = CONTEXT.Pipe()
    process = CONTEXT.Process(target=serve, args=(theirs,), daemon=True)
    process.start()
    theirs.close()
    return Worker(process, ours)
