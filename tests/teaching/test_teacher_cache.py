"""Stored teacher outputs: found by example, equal to what the teacher says, whole or absent."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from harness.contracts import Batch, Outputs, Want
from harness.data.encoding import evaluation_batches
from harness.teaching.cache import TeacherCache
from harness.teaching.held import HeldSignal, fits
from tests.training.builders import emit, examples

EVERYTHING = Want(
    logits=True,
    sentence=True,
    hidden_states=frozenset({0, 2}),
    attention_scores=frozenset({1}),
    values=frozenset({2}),
    embeddings=True,
    queries=frozenset({1, 2}),
    keys=frozenset({2}),
)
CPU, META = torch.device("cpu"), torch.device("meta")


class Counting:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, batch: Batch, want: Want) -> Outputs:
        self.calls += 1
        return emit(batch, want)


def cache(folder: Path, count: int = 50, teacher: str = "weights") -> TeacherCache:
    return TeacherCache(folder, [teacher], examples(count))


def fill(stored: TeacherCache, want: Want) -> int:
    teacher = Counting()
    stored.fill(want.parts(), teacher, evaluation_batches(stored.data.lengths, 16), CPU)
    return teacher.calls


def check(stored: TeacherCache, want: Want, seed: int = 3) -> None:
    """Every part of `want` read for a shuffled batch equals what the teacher says of that batch."""
    data = examples(50)
    index = torch.randperm(50, generator=torch.Generator().manual_seed(seed))[:9]
    batch = data.batch(index)
    said = emit(batch, want)
    length = batch.encodings[0]["input_ids"].shape[1]
    rows = stored.rows(data.keys)[index.numpy()]
    for name, layer in want.parts():
        expected = getattr(said, name) if layer < 0 else getattr(said, name)[layer]
        assert torch.equal(stored.read((name, layer), rows, length), expected), (name, layer)


def test_read_signals_equal_the_teachers(tmp_path: Path) -> None:
    stored = cache(tmp_path)
    assert fill(stored, EVERYTHING) == 4  # 50 examples, 16 a call
    check(stored, EVERYTHING)
    again = cache(tmp_path)  # another process, as far as the files know
    assert fill(again, EVERYTHING) == 0
    check(again, EVERYTHING)


@pytest.mark.parametrize("longer", [0, 3])
def test_signals_kept_on_a_device_are_read_with_the_same_bits(tmp_path: Path, longer: int) -> None:
    stored, data = cache(tmp_path), examples(50)
    fill(stored, EVERYTHING)
    rows = stored.rows(data.keys)[[7, 3, 3, 41]]
    length = int(stored.length[rows].max()) + longer
    for part in EVERYTHING.parts():
        array, offsets, axes, shape = stored._opened(part)
        held = HeldSignal(array, offsets[:-1], stored.length, axes, shape, CPU)
        assert torch.equal(held.read(rows, length), stored.read(part, rows, length)), part
        nowhere = HeldSignal(array, offsets[:-1], stored.length, axes, shape, META)  # fails where a value is looked at
        assert nowhere.read(rows, length).shape == held.read(rows, length).shape


def test_a_device_keeps_what_fits_in_the_order_of_asking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored = cache(tmp_path)
    fill(stored, EVERYTHING)
    rows, logits = np.array([0, 1]), 4 * 50 * emit(examples(50).batch(torch.arange(50)), EVERYTHING).logits.shape[1]
    monkeypatch.setattr("harness.teaching.cache.fits", lambda size, device: TAKEN.get(device, 0) + size <= logits)
    monkeypatch.setattr("harness.teaching.held.TAKEN", TAKEN := dict[torch.device, int]())
    for part in (("logits", -1), ("values", 2)):
        assert stored.read(part, rows, 9, META).device == META
    assert stored._held[("logits", -1)] is not None and stored._held[("values", 2)] is None
    assert stored.read(("logits", -1), rows, 9).device == CPU and not fits(1, CPU) and not fits(1, META)


def test_only_missing_signals_are_computed_later(tmp_path: Path) -> None:
    first = Want(logits=True)
    assert fill(cache(tmp_path), first) == 4
    stored = cache(tmp_path)
    asked: list[Want] = []

    def compute(batch: Batch, want: Want) -> Outputs:
        asked.append(want)
        return emit(batch, want)

    stored.fill(EVERYTHING.parts(), compute, [torch.arange(50)], CPU)
    assert len(asked) == 1 and not asked[0].logits and asked[0].sentence
    check(stored, EVERYTHING)


def test_another_teacher_or_other_examples_never_share(tmp_path: Path) -> None:
    fill(cache(tmp_path), EVERYTHING)
    assert fill(cache(tmp_path, teacher="other"), Want(logits=True)) == 4
    assert fill(cache(tmp_path, count=49), Want(logits=True)) == 4
    with pytest.raises(LookupError, match="not among those"):
        cache(tmp_path, count=10).rows(examples(50).keys)


def test_repeated_texts_share_a_row(tmp_path: Path) -> None:
    data = examples(20)
    twice = data.subset(torch.cat([torch.arange(20), torch.arange(20)]))
    stored = TeacherCache(tmp_path, ["weights"], twice)
    rows = stored.rows(twice.keys)
    assert len(stored.keys) == len(np.unique(data.keys)) and np.array_equal(rows[:20], rows[20:])


def test_a_damaged_or_half_written_file_is_computed_again(tmp_path: Path) -> None:
    stored = cache(tmp_path)
    fill(stored, EVERYTHING)
    file = stored.store.folder / "hidden_states.2.f32"
    content = bytearray(file.read_bytes())
    content[10] ^= 1
    file.write_bytes(content)
    (stored.store.folder / "sentence.f32").unlink()
    (stored.store.folder / ".logits.f32.tmp").write_bytes(b"left by a kill")
    again = cache(tmp_path)
    assert fill(again, EVERYTHING) == 4
    check(again, EVERYTHING)


def test_what_is_not_used_yet_is_not_read_but_must_be_there(tmp_path: Path) -> None:
    stored = cache(tmp_path)
    fill(stored, EVERYTHING)
    (stored.store.folder / "hidden_states.2.f32").write_bytes(b"damaged")
    teacher, batches = Counting(), evaluation_batches(stored.data.lengths, 16)
    assert cache(tmp_path).fill(EVERYTHING.parts(), teacher, batches, CPU, looked=False) == 0
    (stored.store.folder / "sentence.f32").unlink()
    again = cache(tmp_path)
    assert again.fill(EVERYTHING.parts(), teacher, batches, CPU, looked=False) == 4
    check(again, Want(sentence=True))


def test_what_is_stored_is_decided_by_sizes_alone(tmp_path: Path) -> None:
    stored = cache(tmp_path)
    tokens = int(stored.length.sum())
    exactly = tokens * 4 * 4 / 2**30
    assert stored.fits("hidden_states", 4, exactly) and not stored.fits("hidden_states", 4, exactly * 0.999)
    pairs = int((stored.length**2).sum())
    assert stored.fits("attention_scores", 2, pairs * 2 * 4 / 2**30)
    assert not stored.fits("attention_scores", 2, (pairs * 2 - 1) * 4 / 2**30)
    assert stored.fits("logits", 2, 0.0)  # one vector an example is never too wide
