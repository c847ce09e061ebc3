"""A driver's executor that has no processes: each run is performed where the driver is."""

from __future__ import annotations

import io
from collections import deque
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

from harness.executors.worker import _trained, attempt
from harness.jobs import examples
from harness.runs.messages import Began, Message, Told
from harness.teaching import outputs
from harness.training import workspace

MADE_ONCE = (  # in a run's process: here for all runs of a command, and for those of no other
    workspace.teacher_source, workspace._tokenizer, workspace._readers, workspace._fingerprint, outputs._teacher_model,
    outputs._model, outputs._joint_teacher, examples._loaded,
)  # fmt: skip


class Here:
    """Performs runs in this process, one after another, as a worker does: what they leave and say is the same.

    That nothing of a run is left behind for the next is what processes are for, and the tests of processes: this one
    is for tests of what is trained, to which the second that each process takes tells nothing.
    """

    def __init__(self, *asked: Any) -> None:
        self.queue: deque[tuple[str, Any, Any]] = deque()
        self.told: deque[Message] = deque()
        for made in MADE_ONCE:
            made.cache_clear()

    def prepare(self) -> None:
        pass

    def submit(self, run: str, specification: Any, place: Any) -> None:
        self.queue.append((run, specification, place))

    def next(self) -> Message:
        if not self.told:
            run, specification, place = self.queue.popleft()
            self.told.append(Began(run))
            with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):  # a process has a log for it
                ended = attempt(run, lambda: _trained(run, specification, place, self._tell(run)))
            self.told.append(ended)
        return self.told.popleft()

    def _tell(self, run: str) -> Any:
        return lambda entry: self.told.append(Told(run, entry))

    def close(self) -> None: ...
