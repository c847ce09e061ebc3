"""A worker process: takes one run after another from the driver and trains it. It decides and records nothing."""

from __future__ import annotations

import os
import signal
import threading
import traceback
from collections.abc import Callable
from functools import partial
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from typing import Any

from harness.errors import UserError

DEATHS = 5  # how often a run's worker may die without finishing an epoch before the run counts as failed


def serve(connection: Connection) -> None:
    """Train the runs that arrive until the connection closes.

    Receives (run, specification, place). Sends ("epoch", run, entry) after each epoch, then one of
    ("finished", run, record, predictions), ("failed", run, sentence, traceback), ("refused", run, sentence).
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the driver decides what Ctrl-C means
    _end_with_parent()
    while True:
        try:
            run, specification, place = connection.recv()
        except EOFError:
            return
        tell = partial(_tell, connection, run)
        connection.send(attempt(run, partial(_perform, specification, place, tell)))


def attempt(run: str, work: Callable[[], tuple[Any, Any]]) -> tuple[Any, ...]:
    """Do one run by calling `work`, which returns (record, predictions); the message that says how it ended."""
    from harness.executors import preload  # noqa: F401 - where no fork server has done it already
    from harness.training.loop import TrainingFailure

    try:
        record, predictions = work()
        return "finished", run, record, predictions
    except UserError as error:
        return "refused", run, str(error)
    except TrainingFailure as error:
        return "failed", run, str(error), traceback.format_exc()
    except Exception as error:  # one failing run never stops the rest; its traceback is kept
        return "failed", run, f"{type(error).__name__}: {error}", traceback.format_exc()


def _perform(specification: Any, place: Any, tell: Any) -> tuple[Any, Any]:
    from harness.training.jobs import perform

    return perform(specification, place, tell)


def _tell(connection: Connection, run: str, entry: Any) -> None:
    connection.send(("epoch", run, entry))


def _end_with_parent() -> None:
    """Exit as soon as the driver is gone, so that nobody trains a run that a new driver starts again."""
    parent = parent_process()
    if parent is not None:

        def watch() -> None:
            parent.join()
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()
