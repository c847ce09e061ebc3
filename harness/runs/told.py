"""What a run tells while it is performed, and what it leaves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

Record = dict[str, Any]  # as JSON: status, specification, curve, metrics, and what else runs of its kind leave
# The record; the dev predictions: ids, predictions, labels (N,), and what `harness.evaluation.metrics.graded` gives; of
# a student that was trained without labels "teacher", (N,), which its teacher answers.
Performed = tuple[Record, Mapping[str, Any] | None]
State = dict[str, Any]  # of a checkpoint: tensors, numbers and what holds them


def metrics_of(record: Record) -> dict[str, float]:
    """Every metric of a record, of a run on several tasks as "TASK METRIC"."""
    parts = record.get("by_task", {"": record})
    return {f"{task} {name}".strip(): v for task, part in parts.items() for name, v in part.get("metrics", {}).items()}


class Term(TypedDict):
    """A weighted term of the loss. value: its mean since the curve's last point; first: in the first of these steps;
    share: see `sums.shares`.
    """

    value: float
    first: float
    share: float | None


class Entry(TypedDict, total=False):
    """A point of a run's curve, progress between two of them (step of steps), or a note alone.

    loss: the mean since the last point; terms: what it is the sum of, by name; selection: what the epoch is chosen by,
    None where it is not; learning_rate: of the last update; saved: a checkpoint was written. seconds_left,
    steps_per_second and peak_memory_mib are told on a corpus alone.
    """

    stage: str
    epoch: int
    loss: float
    terms: dict[str, Term]
    selection: float | None
    learning_rate: float
    step: int
    steps: int
    tokens_per_second: float
    steps_per_second: float
    seconds_left: float
    peak_memory_mib: float
    saved: bool
    note: str
