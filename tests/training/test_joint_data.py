"""The training sets of several tasks as one: batches of one task, all tasks' batches shuffled together."""

from __future__ import annotations

import torch
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from harness.training.joint_model import JointData
from tests.training.builders import examples

CPU = torch.device("cpu")
PARTS = st.dictionaries(st.sampled_from(["cola", "mrpc", "rte", "stsb"]), st.integers(1, 23), min_size=1, max_size=4)


@hypothesis_settings(deadline=None)
@given(sizes=PARTS, batch_size=st.integers(1, 9), seed=st.integers(0, 9), epoch=st.integers(0, 3))
def test_every_example_once_an_epoch_in_batches_of_one_task(
    sizes: dict[str, int], batch_size: int, seed: int, epoch: int
) -> None:
    parts = {task: examples(size, seed=len(task)) for task, size in sizes.items()}
    data = JointData(parts)
    seen: list[tuple[str, int]] = []
    batches = data.batches(batch_size, seed, epoch)
    for index in batches:
        assert len(index) <= batch_size
        found = data.batch(index, CPU, epoch)
        own = parts[found.task].batch(found.ids)
        assert torch.equal(found.labels, own.labels)
        assert all(torch.equal(found.encodings[0][n], own.encodings[0][n]) for n in own.encodings[0])
        assert torch.equal(data.lengths[index], parts[found.task].lengths[found.ids])
        seen += [(found.task, example) for example in found.ids.tolist()]
    assert sorted(seen) == [(task, n) for task in sorted(sizes) for n in range(sizes[task])]
    assert len(batches) == sum(-(-size // batch_size) for size in sizes.values())
    assert len(data) == len(data.lengths) == sum(sizes.values())


def order(data: JointData, seed: int = 0, epoch: int = 0) -> list[tuple[str, list[int]]]:
    batches = (data.batch(index) for index in data.batches(4, seed, epoch))
    return [(found.task, found.ids.tolist()) for found in batches]


def test_the_order_is_that_of_seed_and_epoch_alone() -> None:
    parts = {"mrpc": examples(40), "cola": examples(30), "rte": examples(20)}
    data, listed = JointData(parts), JointData(dict(sorted(parts.items())))
    assert order(data) == order(listed) == order(JointData(dict(reversed(parts.items()))))
    assert order(data) != order(data, epoch=1) and order(data) != order(data, seed=1)


def test_the_batches_of_the_tasks_are_mixed_anew_each_epoch() -> None:
    data = JointData({"cola": examples(80), "rte": examples(80)})
    runs = [[task for task, _ in order(data, epoch=epoch)] for epoch in range(3)]
    for tasks in runs:
        assert tasks.count("cola") == tasks.count("rte") == 20
        changes = sum(one != other for one, other in zip(tasks, tasks[1:], strict=False))
        assert 10 <= changes <= 30  # 19.5 expected of 40 in random order
    assert len({tuple(tasks) for tasks in runs}) == 3


def test_tasks_of_equal_size_are_not_read_in_the_same_order() -> None:
    found = order(JointData({"cola": examples(40), "rte": examples(40)}))
    of = {task: [ids for name, ids in found if name == task] for task in ("cola", "rte")}
    assert sorted(map(sorted, of["cola"])) != sorted(map(sorted, of["rte"]))
