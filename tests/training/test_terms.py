"""What a run tells of the terms of its loss, and that telling it changes nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.contracts import Outputs, Want
from harness.search.progress import Finished, Progress
from harness.search.terms import at_their_least, unequal
from harness.training import loop
from harness.training.checkpoints import Timer
from harness.training.loop import History, Stage, train
from harness.training.sums import shares
from tests.search import builders as search
from tests.training import builders


class Parts(nn.Module):
    """Cross-entropy, and so many times the squares of the logits."""

    def __init__(self, *weights: float):
        super().__init__()
        self.weights = weights

    def forward(self, student: Outputs, teacher: Outputs, batch: Any) -> tuple[Tensor, dict[str, Tensor]]:
        found = {"labels": nn.functional.cross_entropy(student.logits, batch.labels)}
        found |= {
            f"squares{number}": weight * student.logits.square().mean() for number, weight in enumerate(self.weights)
        }
        return torch.stack(list(found.values())).sum(), found


def trained(folder: Path, *weights: float, epochs: int = 2, **changes: Any) -> tuple[nn.Module, History]:
    torch.manual_seed(0)
    model = builders.Bag()
    stage = Stage("prediction", Parts(*weights), (Want(logits=True), Want()), epochs, selects=True)
    regime = builders.regime(folder, builders.settings(**changes))
    history = train(model, [stage], builders.examples(40), lambda batch, want: Outputs(), lambda m: 0.0, regime)
    return model, history


def test_terms_are_told_by_epoch_with_their_share_of_the_gradient(tmp_path: Path) -> None:
    _, history = trained(tmp_path, 0.5)
    assert [(entry["stage"], entry["epoch"]) for entry in history.curve] == [("prediction", 1), ("prediction", 2)]
    for entry in history.curve:
        assert set(entry["terms"]) == {"labels", "squares0"}
        assert sum(term["value"] for term in entry["terms"].values()) == pytest.approx(entry["loss"])
        told = [term["share"] for term in entry["terms"].values()]
        assert sum(told) == pytest.approx(1.0) and all(0 < share < 1 for share in told)


def test_a_terms_first_value_is_of_the_first_batch_of_each_epoch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[float] = []
    forward = Parts.forward

    def noted(self: Parts, *given: Any) -> tuple[Tensor, dict[str, Tensor]]:
        loss, parts = forward(self, *given)
        seen.append(parts["squares0"].item())
        return loss, parts

    monkeypatch.setattr(Parts, "forward", noted)
    _, history = trained(tmp_path, 0.5)
    steps = len(seen) // 2
    assert steps > 1
    told = [entry["terms"]["squares0"] for entry in history.curve]
    assert [term["first"] for term in told] == [seen[0], seen[steps]]
    assert [term["value"] for term in told] == pytest.approx([sum(seen[:steps]) / steps, sum(seen[steps:]) / steps])


def test_the_same_seed_gives_the_same_weights_whether_shares_are_taken_or_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    taken, history = trained(tmp_path / "taken", 0.5)
    calls = []
    monkeypatch.setattr(loop, "shares", lambda parts, parameters: calls.append(parts) or dict.fromkeys(parts, 0.5))
    not_taken, other = trained(tmp_path / "not", 0.5)
    assert len(calls) == 2, "once an epoch"
    assert [entry["loss"] for entry in history.curve] == [entry["loss"] for entry in other.curve]
    for name, tensor in taken.state_dict().items():
        assert torch.equal(tensor, not_taken.state_dict()[name]), name


def test_of_one_term_nothing_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.autograd, "grad", None)
    _, history = trained(tmp_path)
    assert [entry["terms"] for entry in history.curve] == [
        {"labels": {"value": entry["loss"], "first": entry["terms"]["labels"]["first"], "share": 1.0}}
        for entry in history.curve
    ]


def test_a_run_that_is_killed_within_an_epoch_tells_the_same_of_its_terms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Timer, "due", builders.every(3))
    _, whole = trained(tmp_path / "whole", 0.5)

    class Killed(Exception):
        pass

    def tell(entry: Any) -> None:
        if entry.get("saved"):
            raise Killed

    monkeypatch.setattr(builders, "ignore", tell)
    with pytest.raises(Killed):
        trained(tmp_path / "killed", 0.5)
    monkeypatch.undo()
    assert trained(tmp_path / "killed", 0.5)[1].curve == whole.curve


def test_shares_are_of_norms_and_leave_gradients_as_they_are() -> None:
    weight, table = torch.tensor([3.0, 4.0], requires_grad=True), nn.Embedding(5, 2, sparse=True)
    weight.grad = torch.ones(2)
    parts = {"a": weight.sum(), "b": (table(torch.tensor([1, 1])) * 3).sum(), "c": torch.tensor(2.0)}
    found = shares(parts, [weight, *table.parameters()])
    norms = {"a": 2**0.5, "b": 6 * 2**0.5, "c": 0.0}
    assert found == {name: pytest.approx(norm / sum(norms.values())) for name, norm in norms.items()}
    assert torch.equal(weight.grad, torch.ones(2)) and table.weight.grad is None
    assert shares({"a": weight.sum() * float("inf"), "b": weight.sum()}, [weight]) == {"a": None, "b": None}


def replay(*points: dict[str, tuple[float, float | None]], objective: str = "att_kl+val_kl") -> Progress:
    curve = [
        {"stage": "", "terms": {name: {"value": value, "share": share} for name, (value, share) in point.items()}}
        for point in points
    ]
    made, record = search.student_run(objective=objective), {"status": "finished", "selection": 0, "curve": curve}
    run = Finished("run", lambda: made, {}, record)
    return Progress([run], run, [run])


def test_a_term_that_is_a_hundred_times_another_is_told_once_a_sum() -> None:
    equal = replay({"att_kl": (1.0, 0.5), "val_kl": (0.5, 0.5)})
    by_value = replay({"att_kl": (40.0, 0.9), "val_kl": (0.1, 0.1)})
    by_share = replay(
        {"att_kl": (1.0, 0.996), "val_kl": (0.5, 0.004)}, {"att_kl": (1.0, 0.998), "val_kl": (0.5, 0.002)}
    )
    (told,) = unequal([equal, by_share, by_value, Progress()])
    assert told == (
        "In 2 of 3 cells of att_kl+val_kl one term is 100 times another or more: att_kl beside val_kl has a mean value "
        "of 40 against 0.1, 90% of the gradient's norm against 10%; a weight, as in 0.1*att_kl, is part of an "
        "objective's name."
    )
    (told,) = unequal([by_share])
    assert (
        "a mean value of 1 against 0.5, 1e+02% of" not in told and "99.7% of the gradient's norm against 0.3%" in told
    )
    (told,) = unequal([replay({"a": (1.0, None), "b": (0.0, None)})])
    assert "a mean value of 1 against 0" in told and "gradient" not in told
    assert unequal([equal, replay({"a": (1.0, 1.0)}), replay()]) == ()
    assert unequal([replay({"a of x": (1.0, 1.0), "a of y": (1000.0, 1.0)})]) == (), "tasks are not terms of one sum"


def begun(init: str, *stages: tuple[str, dict[str, tuple[float, float]]]) -> Progress:
    """A cell of one run, with of each point of its curve: the stage, and (first, mean) of its terms."""
    curve = [
        {"stage": stage, "terms": {n: {"value": mean, "first": first, "share": 1.0} for n, (first, mean) in of.items()}}
        for stage, of in stages
    ]
    made, record = search.student_run(init=init), {"status": "finished", "selection": 0, "curve": curve}
    run = Finished("run", lambda: made, {}, record)
    return Progress([run], run, [run])


def test_a_loss_that_begins_where_nothing_is_left_to_learn_is_told_once_an_initialisation() -> None:
    copies = [
        begun("first", ("intermediate", {"hid_seq": (4e-12, 0.006)}), ("prediction", {"vanilla_kd": (0.7, 0.5)})),
        begun("first", ("intermediate", {"att_kl": (0.0, 0.0008), "labels_only": (0.7, 0.6)})),
    ]
    usual = begun("every", ("intermediate", {"hid_seq": (2.2, 1.4)}), ("intermediate", {"hid_seq": (1e-9, 1.0)}))
    never = begun("last", ("intermediate", {"hid_seq": (0.0, 0.0)}))
    (told,) = at_their_least([*copies, usual, never, Progress()])
    assert told.startswith(
        "In 2 cells of init first a loss begins where there is next to nothing to learn, as of a copy of what it is "
        "compared with (att_kl, hid_seq: 4e-12 or less on the first batch, 0.0008 to 0.006 as the mean"
    )
    later = begun("first", ("intermediate", {"hid_seq": (2.0, 1.0)}), ("prediction", {"vanilla_kd": (1e-9, 0.5)}))
    (told,) = at_their_least([later])
    assert told.startswith("In 1 cell of init first") and "vanilla_kd: 1e-09 or less" in told
    assert at_their_least([usual, never, replay({"a": (1.0, 1.0)})]) == (), "records of before do not tell it"
