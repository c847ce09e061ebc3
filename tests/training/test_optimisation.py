"""The update of embedding tables of which a batch touches few rows, beside that of everything else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.training.optimisation import Optimisation
from tests.training.builders import settings


def model(sparse: bool) -> nn.Module:
    torch.manual_seed(0)
    return nn.ModuleDict({"words": nn.Embedding(10, 3, sparse=sparse), "head": nn.Linear(3, 1)})


def loss_of(made: Any, words: list[int]) -> Tensor:
    result: Tensor = made["head"](made["words"](torch.tensor(words))).pow(2).sum()
    return result


def trained(sparse: bool, batches: list[list[int]], **changes: Any) -> nn.Module:
    made = model(sparse)
    optimisation = Optimisation(made, nn.Module(), settings(**changes), len(batches))
    for words in batches:
        optimisation.step(loss_of(made, words))
    return made


def test_rows_that_no_batch_touched_never_change() -> None:
    before, after = model(True)["words"].weight, trained(True, [[1, 2], [2, 3]])["words"].weight  # type: ignore[index]
    assert torch.equal(before[[0, *range(4, 10)]], after[[0, *range(4, 10)]])  # type: ignore[index]
    assert not torch.isclose(before[1:4], after[1:4]).any()  # type: ignore[index]


@pytest.mark.parametrize("clip", [1e9, 0.05])
def test_where_every_row_is_touched_the_update_is_that_of_adam(clip: float) -> None:
    """Repeated words are summed, and the norm that is clipped is that of the whole gradient."""
    batches = [[*range(10), 3, 3], [*range(10), 0]]
    ours = trained(True, batches, gradient_clip=clip, weight_decay=0.0)
    theirs = trained(False, batches, gradient_clip=clip, weight_decay=0.0)
    for name, tensor in ours.state_dict().items():
        assert torch.allclose(tensor, theirs.state_dict()[name], atol=1e-4), name  # Adam moves by 0.01


def test_the_learning_rate_of_both_follows_the_schedule_and_both_are_resumed() -> None:
    batches = [[1, 2, 2], [2, 5], [1, 5, 7], [2]]
    whole = trained(True, batches, schedule="linear", warmup_ratio=0.25)
    first = model(True)
    optimisation = Optimisation(first, nn.Module(), settings(schedule="linear", warmup_ratio=0.25), 4)
    for words in batches[:2]:
        optimisation.step(loss_of(first, words))
    second = model(True)
    second.load_state_dict(first.state_dict())
    resumed = Optimisation(second, nn.Module(), settings(schedule="linear", warmup_ratio=0.25), 4)
    resumed.load_state_dict(optimisation.state_dict())
    for words in batches[2:]:
        resumed.step(loss_of(second, words))
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name
    assert all(group["lr"] == 0 for o in resumed.optimisers for group in o.param_groups)  # the schedule has ended
