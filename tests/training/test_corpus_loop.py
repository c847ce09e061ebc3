"""Training on a corpus in one process: the update, its schedule and curve, what dropout depends on, and resuming."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from weakref import WeakKeyDictionary

import pytest
import torch
from torch import Tensor, nn

from harness.contracts import Batch, Outputs, Want
from harness.ledger import CHECKPOINT
from harness.runs.settings import GENERAL_TRAINING
from harness.training import corpus_loop, processes
from harness.training.checkpoints import ASIDE
from harness.training.corpus_loop import train_on_corpus
from harness.training.loop import TrainingFailure
from tests.training.builders import CPU, ignore, regime

VOCABULARY, WIDTH, PIECES = 12, 5, 22


class Pieces:
    """Pieces of 3 to 7 tokens. Every pass begins five pieces later than the one before."""

    def __init__(self, count: int = PIECES) -> None:
        generator = torch.Generator().manual_seed(0)
        self.lengths = torch.randint(3, 8, (count,), generator=generator)
        self.tokens = torch.randint(1, VOCABULARY, (count, 7), generator=generator)

    def __len__(self) -> int:
        return len(self.lengths)

    def batches(self, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
        return list(torch.arange(len(self)).roll(-5 * epoch).split(batch_size))

    def batch(self, index: Tensor, device: torch.device | None = None, epoch: int = 0) -> Batch:
        mask = (torch.arange(7) < self.lengths[index, None]).long()
        encoding = {"input_ids": self.tokens[index] * mask, "attention_mask": mask}
        return Batch(index, torch.zeros(len(index)), (encoding,), epoch=epoch)


class Words(nn.Module):
    """(B, L) tokens -> (B, L, D) hidden states of one layer."""

    def __init__(self, dropout: float = 0.0, sparse: bool = False) -> None:
        super().__init__()
        self.table = nn.Embedding(VOCABULARY, WIDTH, sparse=sparse)
        self.drop = nn.Dropout(dropout)
        self.mix = nn.Linear(WIDTH, WIDTH)

    def forward(self, batch: Batch, want: Want) -> Outputs:
        return Outputs(hidden_states={1: self.mix(self.drop(self.table(batch.encodings[0]["input_ids"])))})


ASKED: WeakKeyDictionary[nn.Module, list[float]] = WeakKeyDictionary()  # not their own: no checkpoint would be written


class Distances(nn.Module):
    """The mean over real tokens of two distances from the teacher, in a space that a matrix of its own leads to."""

    terms = ((1.0, "near"), (0.5, "far"))

    def __init__(self) -> None:
        super().__init__()
        self.space = nn.Parameter(torch.randn(WIDTH, 3))

    def wants(self) -> tuple[Want, Want]:
        return Want(hidden_states=frozenset({1})), Want(hidden_states=frozenset({1, 2}))

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        ours = (student.hidden_states[1] @ self.space)[batch.mask]
        near = (ours - teacher.hidden_states[1][batch.mask]).pow(2).mean()
        far = 0.5 * (ours - teacher.hidden_states[2][batch.mask]).abs().mean()
        ASKED.setdefault(self, []).append((near + far).item())
        return near + far, {"near": near, "far": far}


def teacher(batch: Batch, want: Want) -> Outputs:
    """A plain function of the tokens."""
    tokens = batch.encodings[0]["input_ids"].unsqueeze(-1) * torch.tensor([0.3, -0.2, 0.1])  # (B, L, 3)
    return Outputs(hidden_states={1: tokens.sin(), 2: tokens.cos()})


def settings(**changes: Any) -> dict[str, Any]:
    general = {name: declared.default for name, declared in GENERAL_TRAINING.items()}
    return general | {"batch_size": 8, "learning_rate": 0.02, "weight_decay": 0.1, "warmup_ratio": 0.3} | changes


Made = tuple[nn.Module, Distances]


def made(dropout: float = 0.0, sparse: bool = False, seed: int = 1) -> Made:
    torch.manual_seed(seed)
    return Words(dropout, sparse), Distances()


def run(
    pair: Made,
    folder: Path,
    given: dict[str, Any],
    data: Pieces | None = None,
    ask: Callable[[Batch, Want], Outputs] = teacher,
    tell: Callable[[dict[str, Any]], None] = ignore,
    seed: int = 0,
) -> dict[str, Any]:
    by = regime(folder, given, seed=seed, tell=tell)
    return train_on_corpus(*pair, data or Pieces(), ask, by)  # type: ignore[arg-type]


def weights(pair: Made) -> dict[str, Tensor]:
    return {f"{n}.{name}": w.clone() for n, module in enumerate(pair) for name, w in module.state_dict().items()}


def same(ours: dict[str, Tensor], theirs: dict[str, Tensor]) -> bool:
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def losses(record: dict[str, Any]) -> list[float]:
    return [point["loss"] for point in record["curve"]]


# ---------------------------------------------------------------- the update


def slow(pair: Made, given: dict[str, Any], steps: int) -> tuple[list[float], dict[str, Tensor]]:
    """torch's AdamW in float64 on the weighted sum of the losses of the parts, batch by batch."""
    model, objective = (copy.deepcopy(module).double() for module in pair)
    parameters = [p for module in (model, objective) for p in module.parameters()]
    groups = [
        {"params": [p for p in parameters if (p.ndim > 1) is matrix], "weight_decay": matrix * given["weight_decay"]}
        for matrix in (True, False)
    ]
    optimiser = torch.optim.AdamW(groups, betas=(0.9, given["adam_beta2"]), eps=1e-8)
    data, told = Pieces(), []
    passes = [list(range(PIECES))[5 * n % PIECES :] + list(range(PIECES))[: 5 * n % PIECES] for n in range(steps)]
    batches = [pieces[i : i + given["batch_size"]] for pieces in passes for i in range(0, PIECES, given["batch_size"])]
    warmup = int(given["warmup_ratio"] * steps)
    for step, pieces in enumerate(batches[:steps]):
        optimiser.zero_grad()
        told.append(0.0)
        for part in torch.tensor(pieces).split(given["micro_batch"] or len(pieces)):
            batch = data.batch(part)
            theirs = {layer: t.double() for layer, t in teacher(batch, Want()).hidden_states.items()}
            loss = len(part) / len(pieces) * objective(model(batch, Want()), Outputs(hidden_states=theirs), batch)[0]
            loss.backward()
            told[-1] += loss.item()
        nn.utils.clip_grad_norm_(parameters, given["gradient_clip"])
        for group in optimiser.param_groups:
            share = step / warmup if step < warmup else (steps - step) / (steps - warmup)
            group["lr"] = given["learning_rate"] * share
        optimiser.step()
    return told, weights((model, objective))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "given",
    [
        settings(epochs=3),
        settings(epochs=3, micro_batch=3),
        settings(epochs=2, micro_batch=8, gradient_clip=0.05),
        settings(steps=7, epochs=1, micro_batch=5, adam_beta2=0.9),
        settings(steps=2, epochs=3, micro_batch=1),
    ],
)
def test_an_update_is_that_of_a_slow_reference(given: dict[str, Any], tmp_path: Path) -> None:
    pair, steps = made(), given["steps"] or given["epochs"] * 3  # 22 pieces make batches of 8, 8 and 6
    expected, theirs = slow(pair, given, steps)
    record = run(pair, tmp_path, given)
    assert record["steps"] == steps == record["curve"][-1]["step"]
    assert losses(record) == pytest.approx(expected, rel=1e-5)
    for name, weight in weights(pair).items():
        torch.testing.assert_close(weight.double(), theirs[name], rtol=1e-4, atol=1e-5)


def test_steps_decide_over_epochs(tmp_path: Path) -> None:
    """Passes go on one after another; the last may be broken off."""
    seen: list[tuple[int, list[int]]] = []

    def ask(batch: Batch, want: Want) -> Outputs:
        seen.append((batch.epoch, batch.ids.tolist()))
        return teacher(batch, want)

    record = run(made(), tmp_path, settings(steps=7, epochs=1), ask=ask)
    assert [epoch for epoch, _ in seen] == [0, 0, 0, 1, 1, 1, 2]
    for epoch in (0, 1):
        assert sorted(piece for e, pieces in seen for piece in pieces if e == epoch) == list(range(PIECES))
    assert seen[0][1] != seen[3][1]
    assert [point["epoch"] for point in record["curve"]] == [1, 1, 1, 2, 2, 2, 3]


@pytest.mark.parametrize("steps", [1, 100, 130])
def test_the_curve_has_at_most_a_hundred_points_of_mean_losses(steps: int, tmp_path: Path) -> None:
    pair = made()
    record = run(pair, tmp_path, settings(steps=steps, batch_size=2), Pieces(4))
    ends = [point["step"] for point in record["curve"]]
    assert len(ends) == min(steps, 100) and ends[-1] == steps and ends == sorted(set(ends))
    for begin, end, loss in zip([0, *ends], ends, losses(record), strict=False):
        each = ASKED[pair[1]][begin:end]
        assert loss == pytest.approx(sum(each) / len(each), rel=1e-6)


def test_what_is_recorded(tmp_path: Path) -> None:
    record = run(made(), tmp_path, settings(steps=4))
    assert (record["pieces"], record["processes"]) == (PIECES, 1)
    assert record["tokens"] == int(Pieces().lengths.sum())
    assert record["tokens_per_second"] > record["steps_per_second"] > 0
    for point in record["curve"]:
        assert set(point["terms"]) == {"near", "far"}
        assert sum(term["value"] for term in point["terms"].values()) == pytest.approx(point["loss"])
        assert sum(term["share"] for term in point["terms"].values()) == pytest.approx(1.0)


@pytest.mark.parametrize(("layer", "term"), [(1, "near"), (2, "far")])
def test_a_loss_that_is_not_finite_names_step_and_term(layer: int, term: str, tmp_path: Path) -> None:
    pair, calls = made(), []

    def ask(batch: Batch, want: Want) -> Outputs:
        said = teacher(batch, want)
        calls.append(batch)
        if len(calls) == 3 * 3 + 2:  # three micro-batches an update: in the second one of the fourth
            before.update(weights(pair))
            said.hidden_states[layer] = said.hidden_states[layer] * float("inf")
        return said

    before: dict[str, Tensor] = {}
    with pytest.raises(TrainingFailure) as error:
        run(pair, tmp_path, settings(steps=9, batch_size=11, micro_batch=4), ask=ask)
    assert "at step 4 of stage general" in str(error.value) and str(error.value).endswith(f"in term {term}")
    assert same(weights(pair), before)


# ---------------------------------------------------------------- what dropout depends on


class Watched(nn.Module):
    """Keeps what its model said of every micro-batch, in order."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model
        self.said: list[tuple[tuple[int, ...], Tensor]] = []

    def forward(self, batch: Batch, want: Want) -> Outputs:
        outputs: Outputs = self.model(batch, want)
        self.said.append((tuple(batch.ids.tolist()), outputs.hidden_states[1].detach().clone()))
        return outputs


def said(folder: Path, seed: int = 0, steps: int = 1, rate: float = 0.02) -> list[tuple[tuple[int, ...], Tensor]]:
    model, objective = made(dropout=0.5)
    watched = Watched(model)
    given = settings(steps=steps, micro_batch=3, batch_size=PIECES, learning_rate=rate)
    run((watched, objective), folder, given, seed=seed)
    return watched.said


@pytest.mark.parametrize("rank", [0, 1, 2])
def test_a_micro_batch_does_not_depend_on_the_others_of_its_process(
    rank: int, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    alone = said(tmp_path / "alone")
    assert len(alone) == 8
    where = SimpleNamespace(process_index=rank, num_processes=3, is_main_process=True, device=CPU)
    monkeypatch.setattr(processes, "state", lambda: where)
    monkeypatch.setattr(processes, "add_up", lambda told, parameters: told)
    monkeypatch.setattr(processes, "from_leader", lambda value: value)
    shared = said(tmp_path / "shared")
    assert [ids for ids, _ in shared] == [ids for ids, _ in alone[rank::3]]
    assert all(torch.equal(ours, theirs) for (_, ours), (_, theirs) in zip(shared, alone[rank::3], strict=True))


def test_dropout_differs_between_micro_batches_updates_and_seeds(tmp_path: Path) -> None:
    """Of weights that do not change, a unit that is dropped here is kept there."""
    begun, again = said(tmp_path / "a", steps=4, rate=1e-8), said(tmp_path / "b", seed=1, steps=4, rate=1e-8)
    by_pieces: dict[tuple[int, ...], list[Tensor]] = {}
    for ids, states in begun:
        by_pieces.setdefault(tuple(sorted(ids)), []).append(states)
    for (_, ours), (_, theirs) in zip(begun, again, strict=True):
        assert not torch.allclose(ours, theirs, atol=1e-4)
    model, objective = made(dropout=0.5)
    watched, twice = Watched(model), Pieces(6)
    twice.tokens, twice.lengths = twice.tokens[[0, 1, 0, 1, 0, 1]], twice.lengths[[0, 1, 0, 1, 0, 1]]
    run((watched, objective), tmp_path / "c", settings(steps=2, batch_size=6, micro_batch=2, learning_rate=1e-8), twice)
    for i, (_, ours) in enumerate(watched.said):
        assert not any(torch.allclose(ours, theirs, atol=1e-4) for _, theirs in watched.said[:i])


# ---------------------------------------------------------------- resuming

RESUMED = settings(steps=9, micro_batch=3, adam_beta2=0.95)  # three passes of 8, 8 and 6 pieces: 3, 3 and 2 parts


class Stop(Exception):
    """What kills a training here."""


@pytest.fixture
def whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[tuple[dict[str, Any], dict[str, Tensor]]]:
    """The record and the weights of a training that nothing disturbs; from now on every update is saved."""
    pair = made(dropout=0.3, sparse=True)
    record = run(pair, tmp_path / "whole", RESUMED)
    monkeypatch.setattr(corpus_loop, "CHECKPOINT_SECONDS", 0.0)
    yield record, weights(pair)


def broken(folder: Path, **interrupted: Any) -> None:
    with pytest.raises(Stop):
        run(made(dropout=0.3, sparse=True), folder, RESUMED, **interrupted)


def gone_on(folder: Path, whole: tuple[dict[str, Any], dict[str, Tensor]]) -> int:
    """Finish the training, from other random weights. Returns how many micro-batches that took."""
    pair, asked = made(dropout=0.3, sparse=True, seed=7), []

    def ask(batch: Batch, want: Want) -> Outputs:
        asked.append(batch)
        return teacher(batch, want)

    record = run(pair, folder, RESUMED, ask=ask)
    assert record["curve"] == whole[0]["curve"] and same(weights(pair), whole[1])
    return len(asked)


PARTS = [3, 3, 2] * 3  # micro-batches of each update


@pytest.mark.parametrize("last", range(3, sum(PARTS), 3))
def test_it_goes_on_from_within_any_update(last: int, whole: Any, tmp_path: Path) -> None:
    """Stopped before the micro-batch of this number: its whole update is made again."""
    asked = []

    def ask(batch: Batch, want: Want) -> Outputs:
        asked.append(batch)
        if len(asked) > last:
            raise Stop
        return teacher(batch, want)

    broken(tmp_path, ask=ask)
    update = next(n for n in range(len(PARTS)) if sum(PARTS[: n + 1]) > last)
    assert gone_on(tmp_path, whole) == sum(PARTS[update:])


def test_it_may_be_stopped_again_and_again(whole: Any, tmp_path: Path) -> None:
    def tell(entry: dict[str, Any]) -> None:
        raise Stop

    for _ in range(8):
        broken(tmp_path, tell=tell)
    assert gone_on(tmp_path, whole) == PARTS[-1]


def test_after_a_checkpoint_that_is_set_aside_it_begins_anew(whole: Any, tmp_path: Path) -> None:
    def stop(entry: dict[str, Any]) -> None:
        raise Stop

    broken(tmp_path, tell=stop)
    path = tmp_path / CHECKPOINT
    path.write_bytes(path.read_bytes()[:-1])
    pair, asked, told = made(dropout=0.3, sparse=True), [], []

    def ask(batch: Batch, want: Want) -> Outputs:
        asked.append(batch)
        return teacher(batch, want)

    record = run(pair, tmp_path, RESUMED, ask=ask, tell=told.append)
    assert len(asked) == sum(PARTS)  # from the beginning
    assert record["curve"] == whole[0]["curve"] and same(weights(pair), whole[1])
    assert "set aside" in told[0]["note"] and (tmp_path / ASIDE).exists()


# ---------------------------------------------------------------- progress


def test_what_is_told_on_the_way(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(corpus_loop, "TELL_SECONDS", 0.0)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)  # whose memory would be told
    told: list[dict[str, Any]] = []
    record = run(made(), tmp_path, settings(steps=6), tell=told.append)
    assert [(entry["step"], entry["steps"], entry["epoch"]) for entry in told] == [
        (n, 6, 1 + (n - 1) // 3) for n in range(1, 7)
    ]
    assert [entry["loss"] for entry in told] == losses(record)
    for entry in told:
        done = entry["step"] / entry["steps_per_second"]  # seconds
        assert entry["seconds_left"] == pytest.approx(done / entry["step"] * (6 - entry["step"]))
        assert entry["peak_memory_mib"] > 1 and entry["tokens_per_second"] > entry["steps_per_second"]
