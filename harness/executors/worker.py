"""What a run's own process does: it trains one run and ends. It decides and records nothing."""

from __future__ import annotations

import os
import re
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from harness.answers import where
from harness.errors import UserError
from harness.executors.environment import alone
from harness.executors.made_on import made_on
from harness.runs import RunId
from harness.runs.messages import Failed, Finished, Message, Refused, Told, Wants

DEATHS = 5  # how often a run's process may die without a new checkpoint before the run counts as failed


def serve(
    connection: Connection,
    said: Connection,
    environment: Mapping[str, str],
    run: str,
    specification: Any,
    workspace: Any,
) -> None:
    """Train a run. What it prints goes to `said`; environment: what is to be set in its own.

    Sends Told after each epoch, then one of Finished, Failed and Refused. Where the workspace has an exchange, sends
    Wants and waits for an answer.
    """
    os.setsid()  # whatever it starts can be ended with it, and Ctrl-C is the driver's alone
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _end_with_parent()
    for number, stream in ((1, sys.stdout), (2, sys.stderr)):
        os.dup2(said.fileno(), number)
        stream.reconfigure(line_buffering=True)  # type: ignore[union-attr]  # a process that dies has said it
    said.close()
    os.environ.update(environment)
    alone()
    message = attempt(run, lambda: _trained(run, specification, workspace, lambda e: connection.send(Told(run, e))))
    sys.stdout.flush()
    connection.send(message)


def attempt(run: RunId, work: Callable[[], Message]) -> Message:
    """The message that `work` returns, or the one that says why it could not."""
    try:
        return work()
    except UserError as error:
        return Refused(run, str(error), error.status)
    except Exception as error:  # one failing run never stops the rest; its traceback is kept
        return Failed(run, f"{type(error).__name__}: {error}", traceback.format_exc(), crowded=_wants_memory(error))


def _wants_memory(error: Exception) -> bool:
    """True if a GPU had too little: torch says so in one way of tensors, in others of contexts and of libraries."""
    return isinstance(error, RuntimeError) and bool(re.search(r"CUDA.*out of memory|_ALLOC_FAILED", str(error)))


def _trained(run: str, specification: Any, workspace: Any, tell: Any) -> Message:
    from harness.jobs.perform import perform
    from harness.training.loop import Diverged, TrainingFailure

    try:
        record, predictions = perform(specification, workspace, tell)
        return Finished(run, {**record, "made_on": made_on()}, predictions)
    except (Diverged, FloatingPointError) as error:  # a product of many matrices overflows before the loss does
        return Failed(run, str(error), traceback.format_exc(), diverged=True)
    except TrainingFailure as error:
        return Failed(run, str(error), traceback.format_exc())
    except UserError as error:  # of a plugin's own code it is the run's, and never stops the rest
        if not (place := where(error)):
            raise
        return Failed(run, f"{error}{place}", traceback.format_exc())
    except (SystemExit, KeyboardInterrupt) as error:
        called = f"called sys.exit({error.code!r})" if isinstance(error, SystemExit) else "raised KeyboardInterrupt"
        return Failed(run, f"a plugin or library {called} in the middle of the run", traceback.format_exc())


@dataclass(frozen=True)
class Asking:
    """An exchange that the process which began this one carries out. See `workspace.Exchange`."""

    connection: Connection
    run: str

    def fetch(self, folder: Path) -> None:
        self._ask("fetch", folder)

    def offer(self, folder: Path) -> None:
        self._ask("offer", folder)

    def _ask(self, what: str, folder: Path) -> None:
        self.connection.send(Wants(self.run, what, folder))
        self.connection.recv()


def _end_with_parent() -> None:
    """End, with all that was started here, as soon as the driver is gone: a new one may start the run again."""
    parent = parent_process()
    if parent is not None:

        def watch() -> None:
            parent.join()
            os.killpg(0, signal.SIGKILL)

        threading.Thread(target=watch, daemon=True).start()
