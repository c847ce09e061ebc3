"""The examples of a run: which are trained on, which choose epochs and settings, which are reported."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from harness.data import sources
from harness.data.encoding import Encoded, encode, hold_out, subset_index
from harness.data.sources import Split
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.training.augmented import augmented
from harness.training.place import Place, teacher_source


@dataclass(frozen=True)
class Examples:
    """Encoded splits of one task: train, what epochs are selected on, and the dev splits that are reported.

    imitated: the training examples as the teacher reads them, in the same order.
    """

    train: Encoded
    imitated: Encoded
    selection: Encoded
    dev: tuple[Encoded, ...]


def examples_of(specification: Mapping[str, Any], place: Place) -> Examples:
    """The examples that the specification's data, protocol and limits give. The ids of train are 0..size-1.

    Raises UserError if the data cannot be read or is not what the study was planned with.
    """
    settings, content = specification["settings"], specification["data"]
    chosen_encoding = settings.get(f"{specification.get('student')}.pair_encoding", "joint")
    pair_encoding = specification.get("pair_encoding", chosen_encoding)
    task_data = (specification["task"], place.source, content, place.teacher, place.argument)
    train, *dev = _encoded(*task_data, pair_encoding, settings["max_length"])
    imitated = train if pair_encoding == "joint" else _encoded(*task_data, "joint", settings["max_length"])[0]
    index, held_out = hold_out(len(train), content)
    if settings["protocol"] == "published":
        index, selection = torch.arange(len(train)), dev[0]
    else:
        selection = train.subset(held_out)
    if settings["train_examples"] and specification["kind"] != "teacher":
        index = subset_index(index, settings["train_examples"], content)
    if settings.get("augmentation", "none") != "none":
        return Examples(*_augmented(specification, place, index, pair_encoding), selection, tuple(dev))
    chosen = train.subset(index)
    theirs = chosen if imitated is train else imitated.subset(index)
    chosen.ids = theirs.ids = torch.arange(len(chosen))  # what Objective.prepare and the training batches agree on
    return Examples(chosen, theirs, selection, tuple(dev))


def _augmented(
    specification: Mapping[str, Any], place: Place, index: torch.Tensor, pair_encoding: str
) -> tuple[Encoded, Encoded]:
    """(the augmented training examples, the same as the teacher reads them)."""
    whole = _loaded(specification["task"], place.source, specification["data"]).train
    rows = index.tolist()
    second = whole.text_b and [whole.text_b[i] for i in rows]
    split = Split(whole.name, [whole.text_a[i] for i in rows], second, whole.labels[rows])
    source = teacher_source(place.teacher, place.argument)
    made = augmented(split, specification, place, source)
    length = specification["settings"]["max_length"]
    ours = encode(made, source.tokenizer(), pair_encoding, length)
    return ours, ours if pair_encoding == "joint" else encode(made, source.tokenizer(), "joint", length)


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
