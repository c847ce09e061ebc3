"""The tasks by name: those that sources of examples declare, a user's own, and those without labelled examples."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from harness.contracts import Task
from harness.data import own
from harness.errors import UserError, unknown
from harness.registry import TASKS

CORPUS = Task("corpus", "Corpus", "masked_cross_entropy", ("masked_cross_entropy",), corpus=True)  # never a column
_SPEEDS = ("sentences_per_second", "speed_ratio", "parameters", "millions_without_embeddings")
SPEED = Task("speed", "Encoding", _SPEEDS[0], _SPEEDS)
SPEED_PAIRS = Task("speed_pairs", "Encoding of pairs", _SPEEDS[0], _SPEEDS, pair=True)
MEASURED = {task.name: task for task in (SPEED, SPEED_PAIRS)}


def get_task(name: str) -> Task:
    """The task called `name`; one of the user's own, where the data were not read yet, is read now.

    Raises UserError with near names.
    """
    if name in MEASURED:
        return MEASURED[name]
    if name in own.KNOWN:
        return own.KNOWN[name].task
    if name not in TASKS.known() and name not in TASKS.names():
        raise UserError(f"{unknown('task', name, TASKS.names())}; name your own data with --tasks NAME=PATH")
    found = TASKS.get(name)
    return found if isinstance(found, Task) else own.know([found])[name].task


def as_asked(task: Task, settings: Mapping[str, object]) -> Task:
    """The task as a run with these settings has it: without its labels where they say so."""
    return replace(task, labelled=False) if settings["labels"] == "none" else task
