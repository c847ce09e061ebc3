"""The examples of a run: which are trained on, which choose epochs and settings, which are reported."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from harness import registry
from harness.data import sources
from harness.data.encoding import Encoded, encode, hold_out, subset_index
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.modeling.bases import Teacher
from harness.training.place import Place


@dataclass(frozen=True)
class Examples:
    """Encoded splits of one task: train, what epochs are selected on, and the dev splits that are reported."""

    train: Encoded
    selection: Encoded
    dev: tuple[Encoded, ...]


def examples_of(specification: Mapping[str, Any], place: Place) -> Examples:
    """The examples that the specification's data, protocol and limits give. The ids of train are 0..size-1.

    Raises UserError if the data cannot be read or is not what the study was planned with.
    """
    settings, content = specification["settings"], specification["data"]
    pair_encoding = specification.get("pair_encoding", "joint")
    train, *dev = _encoded(
        specification["task"],
        place.source,
        content,
        place.teacher,
        place.argument,
        pair_encoding,
        settings["max_length"],
    )
    index, held_out = hold_out(len(train), content)
    if settings["protocol"] == "published":
        index, selection = torch.arange(len(train)), dev[0]
    else:
        selection = train.subset(held_out)
    if settings["train_examples"] and specification["kind"] == "student":
        index = subset_index(index, settings["train_examples"], content)
    chosen = train.subset(index)
    chosen.ids = torch.arange(len(chosen))  # what Objective.prepare and the training batches agree on
    return Examples(chosen, selection, tuple(dev))


@functools.lru_cache(maxsize=2)
def teacher_source(teacher: str, argument: str) -> Teacher:
    """The teacher plugin, made once a process."""
    return registry.TEACHERS.get(teacher)(argument)


@functools.lru_cache(maxsize=4)
def _loaded(task: str, source: str, content: str) -> sources.TaskData:
    data = sources.load(get_task(task), source)
    if data.content != content:
        raise UserError(f"the data of {task} in {source} changed since the study was planned; give the command again")
    return data


@functools.lru_cache(maxsize=8)
def _encoded(
    task: str, source: str, content: str, teacher: str, argument: str, pair_encoding: str, max_length: int
) -> tuple[Encoded, ...]:
    """(train, *dev) as the teacher's tokenizer reads them."""
    data, tokenizer = _loaded(task, source, content), teacher_source(teacher, argument).tokenizer()
    return tuple(encode(split, tokenizer, pair_encoding, max_length) for split in (data.train, *data.dev))
