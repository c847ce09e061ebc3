"""What processes of one training give each other: two real ones, forked, and one alone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import PartialState
from torch import Tensor, nn

from harness.errors import UserError
from harness.training import processes
from tests.launching import ranks

# Gradients of each case in the two processes: dense, none, or those of rows that were looked up in a table of five.
CASES: dict[str, tuple[Any, Any]] = {
    "in both": (torch.tensor([[1.0, 2.0], [3.0, 4.0]]), torch.tensor([[0.5, -2.0], [0.0, 1e-3]])),
    "in the first": (torch.tensor([1.0, -7.0]), None),
    "in the second": (None, torch.tensor([2.5])),
    "in none": (None, None),
    "rows in both": ({0: [1.0, 2.0], 3: [4.0, 5.0]}, {3: [0.5, 0.5], 4: [-1.0, 0.0]}),
    "rows in the second": (None, {2: [1.0, 1.0]}),
    "rows without a gradient": ({1: [0.0, 0.0]}, {2: [3.0, 3.0], 4: [0.0, 0.0]}),
    "rows that cancel": ({1: [2.0, -1.0]}, {1: [-2.0, 1.0]}),
}


def parameter_of(case: str, rank: int) -> nn.Parameter:
    """With the gradient that the case gives it in this process; a row looked up twice has its gradient in two parts."""
    example = CASES[case][0] if CASES[case][0] is not None else CASES[case][1]
    given = CASES[case][rank]
    shape = (5, 2) if isinstance(example, dict) else (3,) if example is None else tuple(example.shape)
    parameter = nn.Parameter(torch.zeros(shape))
    if isinstance(given, dict):
        rows = torch.tensor([[row for row in given for _ in range(2)]])
        halves = torch.tensor([[value / 2 for value in values] for values in given.values() for _ in range(2)])
        parameter.grad = torch.sparse_coo_tensor(rows, halves, shape, check_invariants=True)
    elif given is not None:
        parameter.grad = given.clone()
    return parameter


def expected(case: str) -> tuple[Tensor, set[int]]:
    """(the sum as a dense gradient, the rows looked up in either process)."""
    whole, looked_up = torch.zeros_like(parameter_of(case, 0)), set()
    for given in CASES[case]:
        if isinstance(given, dict):
            looked_up |= set(given)
            for row, values in given.items():
                whole[row] += torch.tensor(values)
        elif given is not None:
            whole += given
    return whole.detach(), looked_up


def exchange(folder: str) -> int:
    """What each of two processes does; what it finds is written down for the test."""
    rank = int(processes.state().process_index)
    found: dict[str, Any] = {"number": processes.number(), "leads": processes.leads()}
    found["given"] = [
        processes.from_leader(value if rank == 0 else "mine") for value in (None, b"\0x", {"a": (1, "b")})
    ]
    parameters = [parameter_of(case, rank) for case in CASES]
    found["told"] = processes.add_up(torch.tensor([1.0, 10.0 * (rank + 1)]), parameters)
    found["gradients"] = [p.grad for p in parameters]
    torch.save(found, Path(folder) / f"{rank}.pt")
    return 0


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    folder = tmp_path_factory.mktemp("exchanged")
    with ranks(str(folder), work=exchange, folder=folder) as both:
        for process in both:
            process.join(120)
        assert [process.exitcode for process in both] == [0, 0], (folder / "rank-0").read_text()
    return [torch.load(folder / f"{rank}.pt", weights_only=False) for rank in range(2)]


def test_each_knows_its_place_and_what_the_leader_gives(found: list[dict[str, Any]]) -> None:
    assert [(one["number"], one["leads"]) for one in found] == [(2, True), (2, False)]
    assert all(one["given"] == [None, b"\0x", {"a": (1, "b")}] for one in found)


@pytest.mark.parametrize("case", CASES)
def test_gradients_are_summed(case: str, found: list[dict[str, Any]]) -> None:
    place, (whole, looked_up) = list(CASES).index(case), expected(case)
    for one in found:
        assert one["told"].tolist() == [2.0, 30.0]
        gradient = one["gradients"][place]
        if case == "in none":
            assert gradient is None
            continue
        assert gradient.is_sparse == case.startswith("rows") and gradient.shape == whole.shape
        if gradient.is_sparse:  # lazy Adam changes the rows that a gradient names, and no others
            assert gradient.coalesce().indices()[0].tolist() == sorted(looked_up)
            gradient = gradient.to_dense()
        torch.testing.assert_close(gradient, whole)


@pytest.mark.parametrize(("started", "gpus"), [(2, 1), (8, 4)])
def test_more_processes_than_gpus_are_refused(started: int, gpus: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "device_count", lambda: gpus)
    monkeypatch.setattr(PartialState, "_shared_state", {})
    monkeypatch.setenv("LOCAL_RANK", "0")
    monkeypatch.setenv("LOCAL_WORLD_SIZE", str(started))
    with pytest.raises(UserError, match=f"{started} processes .* {gpus} GPUs?, .*--nproc_per_node {gpus} "):
        processes.state()


def test_one_process_alone() -> None:
    value, told, parameter = object(), torch.tensor([2.0]), parameter_of("rows in both", 0)
    before = parameter.grad
    assert (processes.number(), processes.leads()) == (1, True)
    assert processes.from_leader(value) is value
    assert processes.add_up(told, [parameter]) is told and parameter.grad is before
