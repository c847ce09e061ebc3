"""The update of embedding tables of which a batch touches few rows, beside that of everything else."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.runs.settings import Settings
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
    assert torch.equal(before[[0, *range(4, 10)]], after[[0, *range(4, 10)]])
    assert not torch.isclose(before[1:4], after[1:4]).any()


def test_an_adadelta_step_by_hand() -> None:
    """Zeiler (2012), algorithm 1, rho 0.95: E[g^2], E[dx^2], then a step of lr times the ratio of their roots times g.

    The loss is a w with a = 1, then 3; its gradient is a.
    """
    made = nn.Linear(1, 1, bias=False)
    nn.init.constant_(made.weight, 2.0)
    optimisation = Optimisation(made, nn.Module(), adadelta(learning_rate=0.5), 2)
    weight, squares, moves = 2.0, 0.0, 0.0
    for gradient in (1.0, 3.0):
        optimisation.step(made(torch.tensor([gradient])).sum())
        squares = 0.95 * squares + 0.05 * gradient**2
        move = ((moves + 1e-6) / (squares + 1e-6)) ** 0.5 * gradient
        moves = 0.95 * moves + 0.05 * move**2
        weight -= 0.5 * move
        assert made.weight.item() == pytest.approx(weight, abs=1e-7)
    assert weight == pytest.approx(1.994756, abs=1e-6)


@pytest.mark.parametrize("sparse", [False, True])
def test_adam_steps_by_hand_that_nothing_clips(sparse: bool) -> None:
    """Kingma and Ba (2015), algorithm 1; of a sparse table epsilon is added before the second moment is corrected.

    The loss is a w with a = 3, then 100; its gradient is a.
    """
    made = nn.Embedding(1, 1, sparse=sparse)
    nn.init.constant_(made.weight, 2.0)
    given = adadelta(optimiser="adamw", learning_rate=0.5, gradient_clip=0.0, adam_beta2=0.6, adam_epsilon=0.1)
    optimisation = Optimisation(made, nn.Module(), given, 2)
    weight, first, second = 2.0, 0.0, 0.0
    for step, gradient in enumerate((3.0, 100.0), 1):
        optimisation.step(gradient * made(torch.tensor([0])).sum())
        first, second = 0.9 * first + 0.1 * gradient, 0.6 * second + 0.4 * gradient**2
        known = 1 - 0.6**step
        epsilon = 0.1 / known**0.5 if sparse else 0.1
        weight -= 0.5 * first / (1 - 0.9**step) / ((second / known) ** 0.5 + epsilon)
        assert made.weight.item() == pytest.approx(weight, abs=1e-6)


def adadelta(**changes: Any) -> dict[str, Any]:
    rest = {"schedule": "constant", "warmup_ratio": 0.0, "weight_decay": 0.0, "gradient_clip": 1e9}
    return settings(**{"optimiser": "adadelta", "learning_rate": 1.0} | rest | changes)


@pytest.mark.parametrize("clip", [1e9, 0.05])
def test_adadelta_trains_sparse_tables_as_dense_ones(clip: float) -> None:
    batches = [[1, 2, 2], [2, 5], [1, 5, 7], [2]]
    ours, theirs = (trained(sparse, batches, **adadelta(gradient_clip=clip)) for sparse in (True, False))
    start = model(True).state_dict()
    for name, tensor in ours.state_dict().items():
        assert torch.allclose(tensor, theirs.state_dict()[name], atol=1e-7), name
        assert not torch.equal(tensor, start[name]), name
    untouched = [0, 3, 4, 6, 8, 9]
    assert torch.equal(ours.state_dict()["words.weight"][untouched], start["words.weight"][untouched])


def test_under_adadelta_nothing_decays_a_sparse_table_also_in_a_second_stage() -> None:
    made = model(True)
    start = made.state_dict()["words.weight"].clone()
    for _ in range(2):
        optimisation = Optimisation(made, nn.Module(), adadelta(weight_decay=0.5), 1)
        optimisation.step(loss_of(made, [1]))
    assert torch.equal(made.state_dict()["words.weight"][2:], start[2:])
    assert not torch.equal(made.state_dict()["words.weight"][1], start[1])


def test_settings_that_name_no_optimiser_are_adamw() -> None:
    newer = ("optimiser", "adam_beta2", "adam_epsilon")
    old = Settings({name: value for name, value in settings().items() if name not in newer})
    made = Optimisation(model(True), nn.Module(), old, 1).optimisers
    assert [type(o) for o in made] == [torch.optim.AdamW, torch.optim.SparseAdam]
    assert [(o.defaults["betas"], o.defaults["eps"]) for o in made] == [((0.9, 0.999), 1e-8)] * 2


@pytest.mark.parametrize("clip", [1e9, 0.05])
def test_where_every_row_is_touched_the_update_is_that_of_adam(clip: float) -> None:
    """Repeated words are summed, and the norm that is clipped is that of the whole gradient."""
    batches = [[*range(10), 3, 3], [*range(10), 0]]
    ours = trained(True, batches, gradient_clip=clip, weight_decay=0.0)
    theirs = trained(False, batches, gradient_clip=clip, weight_decay=0.0)
    for name, tensor in ours.state_dict().items():
        assert torch.allclose(tensor, theirs.state_dict()[name], atol=1e-4), name  # Adam moves by 0.01


@pytest.mark.parametrize("optimiser", ["adamw", "adadelta"])
def test_every_learning_rate_follows_the_schedule_and_all_are_resumed(optimiser: str) -> None:
    batches = [[1, 2, 2], [2, 5], [1, 5, 7], [2]]
    own: dict[str, Any] = {"schedule": "linear", "warmup_ratio": 0.25, "optimiser": optimiser}
    whole = trained(True, batches, **own)
    first = model(True)
    optimisation = Optimisation(first, nn.Module(), settings(**own), 4)
    for words in batches[:2]:
        optimisation.step(loss_of(first, words))
    second = model(True)
    second.load_state_dict(first.state_dict())
    resumed = Optimisation(second, nn.Module(), settings(**own), 4)
    resumed.load_state_dict(optimisation.state_dict())
    for words in batches[2:]:
        resumed.step(loss_of(second, words))
    for name, tensor in whole.state_dict().items():
        assert torch.equal(tensor, second.state_dict()[name]), name
    assert all(group["lr"] == 0 for o in resumed.optimisers for group in o.param_groups)  # the schedule has ended
