"""What is stored of a teacher's masked-token distributions: its size, its error, who computes it and when."""

from __future__ import annotations

import itertools
from math import log
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from harness.contracts import IGNORED, Batch, Outputs, Want
from harness.data.store import Store
from harness.runs import CorpusDistillationRun, TeacherName
from harness.teaching import masked
from harness.teaching.masked import MaskedTeacher, StoredTargets
from tests.training.builders import a_run, workspace_of

CPU = torch.device("cpu")


class Pieces:
    """Pieces of masked text with `counts` targets each; what a teacher says depends on piece, place and epoch."""

    def __init__(self, counts: list[int], vocabulary: int, first: int = 0):
        self.counts, self.vocabulary, self.first = counts, vocabulary, first

    def __len__(self) -> int:
        return len(self.counts)

    @property
    def lengths(self) -> Tensor:
        return torch.tensor([10 - count for count in self.counts])  # the order of storing is not that of the pieces

    def batch(self, index: Tensor, device: torch.device | None = None, epoch: int = 0) -> Batch:
        targets = torch.full((len(index), max(self.counts)), IGNORED)
        for row, piece in enumerate(index.tolist()):
            targets[row, : self.counts[piece]] = 1
        mask = torch.ones_like(targets)
        return Batch(index + self.first, torch.zeros(len(index)), ({"attention_mask": mask},), targets, epoch)

    def teacher(self, batch: Batch) -> Tensor:
        """(P, V) logits"""
        rows = [
            torch.randn(
                count, self.vocabulary, generator=torch.Generator().manual_seed(int(piece) + 1000 * batch.epoch)
            )
            for piece, count in ((p, self.counts[int(p) - self.first]) for p in batch.ids)
        ]
        return 2 * torch.cat(rows)


def fill(folder: Path, data: Pieces, number: int, epoch: int = 0) -> tuple[StoredTargets, float]:
    stored = StoredTargets(Store(folder, "targets"), data.vocabulary)
    return stored, stored.fill(data, epoch, number, data.teacher, CPU)


def test_golden_values(tmp_path: Path) -> None:
    """One position, p = 1/2 1/4 1/8 1/8, of which two are kept: the other two share a quarter, and nothing is lost.

    A second, p = 1/2 1/8 1/4 1/8, of which one is kept: the others are read as 1/6 each.
    """
    logits = {2: [[log(4), log(2), 0.0, 0.0]], 1: [[log(4), 0.0, log(2), 0.0]]}
    data = Pieces([1], 4)
    found = {}
    for number, said in logits.items():
        stored = StoredTargets(Store(tmp_path, number), 4)
        found[number] = stored.fill(data, 0, number, lambda batch, said=said: torch.tensor(said), CPU)
        kept = [1 / 2, 1 / 4, 1 / 8, 1 / 8] if number == 2 else [1 / 2, 1 / 6, 1 / 6, 1 / 6]
        read = stored.logits(np.array([0]))
        torch.testing.assert_close(read.exp(), torch.tensor([kept]))
    assert found[2] == pytest.approx(0.0, abs=1e-6)
    expected = 1 / 4 * log((1 / 4) / (1 / 6)) + 2 * (1 / 8 * log((1 / 8) / (1 / 6)))
    assert found[1] == pytest.approx(expected, rel=1e-5)


@settings(deadline=None, max_examples=25)
@given(
    counts=st.lists(st.integers(1, 5), min_size=1, max_size=9),
    vocabulary=st.integers(2, 12),
    number=st.integers(1, 12),
    seed=st.integers(0, 99),
)
def test_what_is_read(
    tmp_path_factory: pytest.TempPathFactory, counts: list[int], vocabulary: int, number: int, seed: int
) -> None:
    """For any pieces in any order: the likeliest as they were, the rest even, all of it one; and the error recorded."""
    number = min(number, vocabulary)
    data = Pieces(counts, vocabulary, first=7)
    stored, divergence = fill(tmp_path_factory.mktemp("stored"), data, number, epoch=seed)
    order = torch.randperm(len(counts), generator=torch.Generator().manual_seed(seed))
    whole = data.teacher(data.batch(order, epoch=seed)).log_softmax(-1)
    read = stored.logits((order + 7).numpy())
    assert read.shape == whole.shape
    torch.testing.assert_close(read.exp().sum(-1), torch.ones(len(whole)), rtol=1e-5, atol=1e-5)
    values, tokens = whole.topk(number)
    torch.testing.assert_close(read.gather(1, tokens), values)
    others = read.scatter(1, tokens, float("-inf")).masked_fill(read.scatter(1, tokens, 1.0) == 1.0, float("nan"))
    for row in others:
        rest = row[~row.isnan()]
        assert not len(rest) or torch.equal(rest, rest[:1].expand(len(rest)))
    lost = F.kl_div(read.double(), whole.double(), log_target=True, reduction="batchmean")
    assert divergence == pytest.approx(float(lost), abs=1e-5)
    assert divergence > -1e-6


def test_it_takes_eight_bytes_a_kept_token(tmp_path: Path) -> None:
    counts, number = [3, 1, 4, 2], 5
    stored, _ = fill(tmp_path, Pieces(counts, 11), number)
    sizes = {path.name: path.stat().st_size for path in stored.store.folder.iterdir() if path.name[0] != "."}
    assert sizes.keys() == {"tokens.i32", "logs.f32", "index.json"}
    assert sizes["tokens.i32"] + sizes["logs.f32"] == 8 * number * sum(counts)


def test_the_error_falls_as_more_is_kept(tmp_path: Path) -> None:
    data = Pieces([3, 2, 5], 12)
    lost = [fill(tmp_path / str(number), data, number)[1] for number in range(1, 13)]
    assert lost[0] > 0.1 and all(more >= less - 1e-6 for more, less in itertools.pairwise(lost))
    assert lost[-2:] == pytest.approx([0, 0], abs=1e-6)  # of a single token left out, its probability is known


def test_it_is_filled_once_and_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(masked, "BATCH", 2)
    data = Pieces([2, 1, 3, 1, 2], 6)
    asked: list[int] = []

    def teacher(batch: Batch) -> Tensor:
        if len(asked) == 1:
            asked.append(-1)
            raise KeyboardInterrupt  # in the middle of the first filling
        asked.append(len(batch.ids))
        return data.teacher(batch)

    def again() -> tuple[StoredTargets, float]:
        stored = StoredTargets(Store(tmp_path, "targets"), 6)
        return stored, stored.fill(data, 0, 3, teacher, CPU)

    with pytest.raises(KeyboardInterrupt):
        again()
    assert not list(tmp_path.glob("*/index.json"))
    first, divergence = again()
    assert asked == [2, -1, 2, 2, 1]
    second, same = again()
    assert len(asked) == 5 and same == divergence
    pieces = np.array([4, 0, 2])
    assert torch.equal(first.logits(pieces), second.logits(pieces))
    assert second.store.told["k"] == 3


def test_packed_pieces_have_targets_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Though there be as many of them, and the same are trained on."""
    folders: list[Path] = []
    kept = SimpleNamespace(fill=lambda *given: 0.0, logits=lambda ids: torch.zeros(1, 4))
    monkeypatch.setattr(masked, "StoredTargets", lambda store, *given: folders.append(store.folder) or kept)
    workspace = workspace_of(tmp_path, teacher=TeacherName("embedded"))
    given = {"stored_top_k": 1, "max_length": 8, "mask_probability": 0.1, "precision": "float32"}
    for pack in ({}, {"pack": False}, {"pack": True}):  # older settings do not say
        run = a_run(CorpusDistillationRun, settings=given | pack)
        teacher = MaskedTeacher(run, workspace, SimpleNamespace(index=torch.arange(3)), CPU)
        teacher(Pieces([1], 4).batch(torch.tensor([0])), Want(mlm_logits=True))
    assert folders[0] == folders[1] != folders[2]


def test_what_is_not_stored_is_computed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Want] = []

    def compute(self: MaskedTeacher, batch: Batch, want: Want) -> Outputs:
        asked.append(want)
        return Outputs(mlm_logits=torch.ones(1, 4) if want.mlm_logits else None, hidden_states={1: torch.ones(1, 2, 3)})

    stored = SimpleNamespace(logits=lambda ids: torch.zeros(1, 4))
    monkeypatch.setattr(MaskedTeacher, "_compute", compute)
    monkeypatch.setattr(MaskedTeacher, "_targets", lambda *_: stored)
    workspace, batch = workspace_of(tmp_path, teacher=TeacherName("embedded")), Pieces([1], 4).batch(torch.tensor([0]))
    states = Want(hidden_states=frozenset({1}))
    both = states | Want(mlm_logits=True)
    for number, said, computed in ((0, 1.0, both), (2, 0.0, states)):
        run = a_run(CorpusDistillationRun, settings={"stored_top_k": number})
        teacher = MaskedTeacher(run, workspace, SimpleNamespace(), CPU)
        assert (teacher(batch, both).mlm_logits == said).all() and teacher(batch, states).mlm_logits is None
        assert asked == [computed, states]
        asked.clear()


def test_a_certain_teacher_leaves_nothing_to_spread(tmp_path: Path) -> None:
    """Where the kept tokens have all of the probability, the rest is almost nothing, but never log 0."""
    data, certain = Pieces([1], 5), torch.tensor([[200.0, 0, 0, 0, 0]])
    stored = StoredTargets(Store(tmp_path, "targets"), 5)
    lost: Any = stored.fill(data, 0, 1, lambda batch: certain, CPU)
    read = stored.logits(np.array([0]))
    assert read.isfinite().all() and read[0, 0] == 0 and float(read[0, 1:].exp().sum()) < 1e-8
    assert lost == pytest.approx(0, abs=1e-6)


@pytest.mark.parametrize("file", ["tokens.i32", "logs.f32"])
def test_a_damaged_store_is_made_again(file: str, tmp_path: Path) -> None:
    data, batch = Pieces([3, 1, 2], 11), np.arange(3)
    stored, error = fill(tmp_path, data, 4)
    path, expected = stored.store.folder / file, stored.logits(batch)
    whole = path.read_bytes()
    path.write_bytes(bytes([whole[0] ^ 1]) + whole[1:])
    again, same = fill(tmp_path, data, 4)
    assert same == error and torch.equal(again.logits(batch), expected) and path.read_bytes() == whole
