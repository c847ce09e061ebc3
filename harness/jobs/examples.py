"""The examples of a run: which are trained on, which choose epochs and settings, which are reported."""

from __future__ import annotations

import functools
import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from transformers import PreTrainedTokenizerBase, PreTrainedTokenizerFast

from harness import registry
from harness.contracts import Batch, Task
from harness.data import loading, stored
from harness.data.encoding import Encoded, Reader, encode, folds, groups_of, hold_out, subset_index
from harness.data.own import KNOWN
from harness.data.sources import Split
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.hyperparameters import Values
from harness.jobs.augmented import augmented
from harness.runs import Run, RunId, TaskRun
from harness.training import machine
from harness.training.workspace import (
    Workspace,
    teacher_fingerprint,
    teacher_readers,
    teacher_source,
    teacher_tokenizer,
)


@dataclass(frozen=True)
class Examples:
    """Encoded splits of one task: train, what epochs are selected on, and the dev splits that are reported.

    imitated: the training examples as the teacher reads them, in the same order. answers: of a task without labels,
    what the teacher answers of the selection examples and of each dev split, (N,) each as `predictions_of` gives it.
    folds: the positions in train of each part that epochs are selected on in turn, in place of selection, which then is
    empty. recreated: of augmented examples, how many of "dev" and "held_out" have the texts of a copy.
    """

    train: Encoded
    imitated: Encoded
    selection: Encoded
    dev: tuple[Encoded, ...]
    answers: tuple[np.ndarray, ...] = ()
    folds: tuple[torch.Tensor, ...] = ()
    recreated: Mapping[str, int] = field(default_factory=dict)

    def few(self) -> Batch:
        """Some of those that are reported, on the device."""
        return self.dev[0].batch(torch.arange(min(8, len(self.dev[0]))), machine.device())


def own_settings(run: Run) -> Values:
    """The student's own settings of a run, without its name before them."""
    plugin = registry.STUDENTS.get(run.student_name)
    return {name: h.default for name, h in plugin.hyperparameters.items()} | run.settings.of(plugin.name)


def reader_of(run: Run, workspace: Workspace) -> PreTrainedTokenizerBase:
    """The tokenizer that the run's model reads with: the teacher's, that of the run it starts from, or its own.

    A vocabulary of the student's own is made of the texts it is trained on, before they are augmented.
    """
    theirs = teacher_tokenizer(workspace)
    if not run.student_name:
        return theirs
    if run.starts_from:
        return reader_left(run.starts_from, workspace)
    plugin = registry.STUDENTS.get(run.student_name)
    return plugin.tokenizer(own_settings(run), theirs, _training_texts(run, workspace))


def reader_left(run: RunId, workspace: Workspace) -> PreTrainedTokenizerBase:
    """The tokenizer that a model reads with whose weights a run left: its own, or the teacher's."""
    folder = workspace.runs / run / "weights"
    if (folder / "tokenizer.json").is_file():
        return PreTrainedTokenizerFast.from_pretrained(folder, trust_remote_code=False)
    return teacher_tokenizer(workspace)


def examples_of(run: TaskRun, workspace: Workspace, reader: Reader) -> Examples:
    """The examples that the run's data, protocol and limits give. The ids of train are 0..size-1.

    reader: the tokenizer of the model that is trained. Raises UserError if the data cannot be read or is not what the
    study was planned with.
    """
    settings, content, pair_encoding = run.settings, run.data, encoding_of(run)
    theirs, all_theirs = teacher_tokenizer(workspace), teacher_readers(workspace)
    task, length = get_task(run.task), settings["max_length"]
    _check_content(task, workspace.source, content)
    if reader is theirs:
        train, *dev = _read(task, workspace, content, pair_encoding, length, theirs)
    else:
        data = _loaded(task.name, workspace.source, content)
        splits = (data.train, *data.dev)
        train, *dev = (encode(split, reader, pair_encoding, length, task.ranking) for split in splits)
    index, held_out = _indices(run, task, workspace.source, len(train), train.groups)
    selection = dev[0] if held_out is None else train.subset(held_out)
    alike = reader is all_theirs and (pair_encoding == "joint" or not task.pair)
    if settings["augmentation"] != "none":
        data = _loaded(task.name, workspace.source, content)
        own = _part(data.train, index)
        made = augmented(own, run, workspace, teacher_source(workspace.teacher))
        copies = {*made.texts} - {*own.texts}
        others = {"dev": data.dev, "held_out": () if held_out is None else (_part(data.train, held_out),)}
        recreated = {name: sum(texts in copies for split in splits for texts in split.texts)
                     for name, splits in others.items()}  # fmt: skip
        ours = encode(made, reader, pair_encoding, length, task.ranking)
        imitated = ours if alike else encode(made, all_theirs, "joint", length)
        return Examples(ours, imitated, selection, tuple(dev), recreated=recreated)
    chosen = train.subset(index)
    imitated = chosen if alike else _read(task, workspace, content, "joint", length, all_theirs)[0].subset(index)
    chosen.ids = imitated.ids = torch.arange(len(chosen))  # what Objective.prepare and the training batches agree on
    parts: list[torch.Tensor] = []
    if settings["protocol"] == "nested":
        groups = _together(task, workspace.source, train.groups)
        parts = folds(len(chosen), content, chosen.labels, None if groups is None else groups[index])
    return Examples(chosen, imitated, selection, tuple(dev), folds=tuple(parts))


def read_by_teacher(run: TaskRun, workspace: Workspace) -> tuple[Encoded, ...]:
    """(what epochs and settings are chosen on, *the dev splits) as the teacher reads them."""
    length, task = run.settings["max_length"], get_task(run.task)
    train, *dev = _read(task, workspace, run.data, "joint", length, teacher_readers(workspace))
    held_out = _indices(run, task, workspace.source, len(train), train.groups)[1]
    return (dev[0] if held_out is None else train.subset(held_out), *dev)


def encoding_of(run: TaskRun) -> str:
    """How the run's model reads a pair."""
    own = own_settings(run) if run.student_name else {}
    return run.pair_encoding or str({"pair_encoding": "joint", **own}["pair_encoding"])


def _indices(
    run: Run, task: Task, source: str, size: int, groups: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor | None]:
    """(positions to train on, positions held out; None where dev chooses, none where folds do) of one of its tasks.

    groups: of examples that are ranked, which stay together as those do that the source keeps so.
    """
    settings, content, held_out = run.settings, run.data_of[task.name], None
    groups = _together(task, source, groups)
    if settings["protocol"] == "held_out":
        index, held_out = hold_out(size, content, groups=groups)
    else:
        index = torch.arange(size)
        held_out = index[:0] if settings["protocol"] == "nested" else None
    whole = min(settings["train_examples"] or len(index), len(index))
    if (count := math.ceil(settings["train_fraction"] * whole)) < len(index):
        drawn = content if settings["train_sample"] == "one" else f"{content}, seed {run.seed}"
        index = subset_index(index, count, drawn, groups)
    return index, held_out


def _together(task: Task, source: str, groups: torch.Tensor | None) -> torch.Tensor | None:
    """(N,) of all training examples those that are never parted: what the source keeps so, or `groups`."""
    together = loading.source_of(task, source).groups(task)
    return groups if together is None else torch.from_numpy(together.copy())


def _training_texts(run: Run, workspace: Workspace) -> Iterator[str]:
    """The texts that a run is trained on, of all its tasks."""
    for name, content in sorted(run.data_of.items()):
        task, whole = get_task(name), _loaded(name, workspace.source, content).train
        groups = groups_of(whole) if task.ranking else None
        part = _part(whole, _indices(run, task, workspace.source, len(whole.text_a), groups)[0])
        yield from part.text_a
        yield from part.text_b or ()


def texts_of(run: TaskRun, workspace: Workspace) -> tuple[Split, Split, tuple[Split, ...]]:
    """(what a run trains on, what epochs and settings are chosen on, the dev splits), as they are."""
    data, task = _loaded(run.task, workspace.source, run.data), get_task(run.task)
    groups = groups_of(data.train) if task.ranking else None
    index, held_out = _indices(run, task, workspace.source, len(data.train.text_a), groups)
    selection = data.dev[0] if held_out is None else _part(data.train, held_out)
    return _part(data.train, index), selection, data.dev


def _part(whole: Split, index: torch.Tensor) -> Split:
    rows = index.tolist()
    second = whole.text_b and [whole.text_b[i] for i in rows]
    return Split(whole.name, [whole.text_a[i] for i in rows], second, whole.labels[rows])


@functools.lru_cache(maxsize=8)
def _loaded(task: str, source: str, content: str) -> loading.TaskData:
    data = loading.load(get_task(task), source)
    if data.content != content:
        raise _changed(task, source)
    return data


def _check_content(task: Task, source: str, content: str) -> None:
    # What is kept of examples that are code was checked when it was made.
    if not loading.source_of(task, source).fixed and loading.content(task, source) != content:
        raise _changed(task.name, source)


def _changed(task: str, source: str) -> UserError:
    place = KNOWN[task].source.data if task in KNOWN else source
    where = "" if place == f"task {task}" else f" in {place}"  # of what a plugin's function gives itself
    said = f"the data of {task}{where} changed since the study was planned; give the command again"
    if task in registry.TASKS.names() and not registry.TASKS.ships(task):
        said += "; if the plugin draws or shuffles them at each call, it must use a fixed seed"
    return UserError(said)


def _read(
    task: Task, workspace: Workspace, content: str, pair_encoding: str, max_length: int, reader: Reader
) -> tuple[Encoded, ...]:
    """(train, *dev) as the teacher's `reader` reads them: tokenised once, and kept in the cache for every run."""
    several = ["each"] if isinstance(reader, tuple) else []
    key = [task.name, content, teacher_fingerprint(workspace), pair_encoding, max_length, *several]
    store = workspace.store("read", key)
    with store.held(stored.SPLITS) as whole:
        if not whole:
            data = _loaded(task.name, workspace.source, content)
            splits = (data.train, *data.dev)
            encoded = [encode(s, reader, pair_encoding, max_length, task.ranking) for s in splits]
            stored.write(store.folder, encoded)
            store.vouch(stored.SPLITS)
    return stored.read(store.folder)
