"""What every task must hold to, tested for whatever is registered: a new one needs no line here.

Tasks whose data are not on this machine are skipped: GLUE's are looked for in the folder GLUE_DIR.
"""

from __future__ import annotations

import math
import os
from pathlib import Path

import numpy as np
import pytest
import torch

from harness.contracts import Task
from harness.data import loading, metric_names, own, own_metric
from harness.data.encoding import hold_out
from harness.data.sources import Split, TaskSource
from harness.data.tasks import get_task
from harness.evaluation.metrics import predictions_of, score
from harness.registry import TASKS
from harness.testing import chosen


@pytest.fixture(scope="module", params=chosen(TASKS))
def task(request: pytest.FixtureRequest) -> Task:
    return get_task(request.param)


def data_of(task: Task) -> str:
    """What `--data` has to be for the task, where its data are on this machine."""
    for source in loading.sources_of(task):
        if not source.given:
            return ""
        if source.given == "name" and not source.remote:
            return source.name
    # A folder may hold dev and test alone.
    if task.folder and (Path(os.environ.get("GLUE_DIR", "")) / task.folder / "train.tsv").is_file():
        return os.environ["GLUE_DIR"]
    return pytest.skip(f"the data of {task.name} are not on this machine")


@pytest.fixture(scope="module")
def source(task: Task) -> TaskSource:
    return loading.source_of(task, data_of(task))


@pytest.fixture(scope="module")
def splits(task: Task, source: TaskSource) -> list[Split]:
    return source.splits(task)


def examples(split: Split) -> list[tuple[object, ...]]:
    return list(zip(split.text_a, split.text_b or split.text_a, split.labels.tolist(), strict=True))


def test_it_is_described_well(task: Task) -> None:
    assert task.name.isidentifier() and task.label.strip()
    assert task.metric in task.metrics and {*task.metrics} <= {*metric_names.ALL, *own_metric.names(task.name)}
    assert task.ranking or task.outputs == (len(task.labels) or len(task.bins) or 1)


def test_its_own_metric_is_one(task: Task, splits: list[Split]) -> None:
    """At best for the right answers, and whatever the order of the examples."""
    if not own_metric.names(task.name):
        pytest.skip("no metric of its own")
    labels, draw = splits[-1].labels, np.random.default_rng(0)
    best = score(task, labels, labels)[task.metric]
    for answers in (draw.permutation(labels), np.full_like(labels, labels[0])):
        order = draw.permutation(len(labels))
        value = score(task, answers, labels)[task.metric]
        assert value <= best and score(task, answers[order], labels[order])[task.metric] == pytest.approx(value)


def test_its_splits_are_whole(task: Task, splits: list[Split]) -> None:
    assert [split.name for split in splits] == ["train", *task.dev_splits]
    for split in splits:
        assert len(split.text_a) == len(split.labels) and (split.text_b is not None) == task.pair
        assert split.labels.dtype == (np.int64 if task.classification else np.float32)
        assert split.text_b is None or len(split.text_b) == len(split.text_a)


def test_no_text_is_empty(source: TaskSource, splits: list[Split]) -> None:
    if source.given:
        pytest.skip("data as they were published")
    for split in splits:
        texts = (*split.text_a, *(split.text_b or ()))
        assert all(text.strip() for text in texts) and not any("\0" in text for text in texts)


def test_there_is_something_to_learn(task: Task, splits: list[Split]) -> None:
    train, *dev = splits
    assert len(set(train.labels.tolist())) > 1
    for split in dev:
        assert len(set(split.labels.tolist())) > 1
        if task.labels:
            assert set(split.labels.tolist()) <= set(train.labels.tolist()), "a class that no example teaches"


def test_what_is_reported_is_not_what_is_trained_on(splits: list[Split]) -> None:
    train, *dev = splits
    for split in dev:
        assert sorted(examples(split), key=repr) != sorted(examples(train), key=repr)


def test_it_reads_the_same_again(task: Task, source: TaskSource, splits: list[Split]) -> None:
    """What a run's process reads is what was planned, in the same order."""
    told = own.KNOWN[task.name].to_json() if task.name in own.KNOWN else None
    if told is None:
        again = type(source)(source.data)
    else:
        known = own.Known.from_json(task.name, told)
        assert known.task == task
        again = known.source
    assert again.content(task) == source.content(task)
    assert [examples(split) for split in again.splits(task)] == [examples(split) for split in splits]


def test_right_answers_have_the_best_score(task: Task, splits: list[Split]) -> None:
    for split in splits[1:]:
        answers = np.array(task.bins)[split.labels] if task.bins else split.labels
        assert all(value == pytest.approx(1.0) for value in score(task, answers, split.labels).values())
        same = predictions_of(task, np.tile(np.arange(task.outputs, dtype=float), (len(split.labels), 1)))
        assert all(math.isfinite(value) for value in score(task, same, split.labels).values())


def test_its_groups_stay_together(task: Task, source: TaskSource, splits: list[Split]) -> None:
    groups = source.groups(task)
    if groups is None:
        return
    assert groups.dtype == np.int64 and groups.shape == splits[0].labels.shape
    trained, held = hold_out(len(groups), "content", groups=torch.from_numpy(groups.copy()))
    assert len(set(groups)) > 1
    assert not {*groups[trained.numpy()]} & {*groups[held.numpy()]}


def test_what_other_machines_need_is_there(task: Task, source: TaskSource) -> None:
    assert all(path.exists() and path.is_absolute() for path in source.parts(task) if not source.given)
