"""A training step asks no value of the device, for which the host would wait.

The device here is `meta`, whose tensors have shapes and no values: what looks at one, or lets a shape depend on one,
fails on any machine. Left out is what torch does by itself: it looks at packed sequences (but their lengths are on the
host), and at the rows of sparse gradients.
"""

from __future__ import annotations

from contextlib import nullcontext
from dataclasses import fields, replace
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from harness import combine, pairing
from harness.batch import onto
from harness.contracts import Batch, Encoding, Outputs, Want
from harness.data.encoding import Encoded
from harness.modeling import signals
from harness.registry import OBJECTIVES, STUDENTS
from harness.runs.settings import Settings
from harness.students import products, words
from harness.testing.student_cases import Case, cases, named, plain, possible
from harness.testing.test_pairs import teacher_of
from harness.training.optimisation import Optimisation
from harness.training.sums import Sum

META, WIDTH = torch.device("meta"), 32
BY_TOKEN = (("head", "bilstm"),)  # the head that reads all tokens
# With every student, summed; each alone, as every other, with one transformer.
SOME = ("logit_mse", "cosine", "hid_seq", "att_mse", "mlm_kd")


def tried() -> list[tuple[Case, str]]:
    """Every pair that is tried of a case and an objective, or a sum of them, that can train it."""
    found: list[tuple[Case, str]] = []
    for case in (
        case
        for name in STUDENTS.names()
        for case in cases(name)
        if possible(case) and (plain(case) or case.choices == BY_TOKEN)
    ):
        described, teacher = case.describe(WIDTH), case.teacher_info(WIDTH)
        procedure = "general" if case.task.corpus else "two_stage"
        rest = {*OBJECTIVES.names()} - {objective for _, objective in found} if case.name == "transformer" else set()
        able = {o for o in {*SOME} | rest if not pairing.refusal(o, procedure, described, teacher, case.task)}
        alone, several = able & rest, "+".join(objective for objective in SOME if objective in able)
        found += [(case, objective) for objective in sorted(alone | {several} - {""})]
    return found


TRIED = tried()


@pytest.fixture(autouse=True)
def without_values(monkeypatch: pytest.MonkeyPatch) -> None:
    """What `meta` has not got: autocast, which does nothing here, and packed sequences."""

    def run(lstm: nn.LSTM, inputs: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
        states, (last, _) = lstm(inputs[:, : int(lengths.max())])
        return states, last.transpose(0, 1).flatten(1)

    monkeypatch.setattr(torch, "autocast", lambda *given, **more: nullcontext())
    monkeypatch.setattr(words, "run", run)


def moved(value: Any) -> Any:
    """The same without values."""
    if isinstance(value, dict):
        return {key: moved(inner) for key, inner in value.items()}
    return value.to(META) if isinstance(value, Tensor) else value


def on_device(batch: Batch) -> Batch:
    """The batch as one is that was made on the host: ids and lengths stay there."""
    encodings = tuple(Encoding(moved(dict(encoding)), encoding.lengths) for encoding in batch.encodings)
    labels, targets, predicted = (moved(part) for part in (batch.labels, batch.targets, batch.predicted))
    return replace(batch, labels=labels, encodings=encodings, targets=targets, known_positions=(targets, predicted))


class NoWaiting(TorchDispatchMode):
    """Copies to the device for which the host would wait are errors."""

    def __torch_dispatch__(self, function: Any, types: Any, arguments: Any = (), keywords: Any = None) -> Any:
        given = keywords or {}
        if function is torch.ops.aten._to_copy.default and not given.get("non_blocking"):
            source, target = arguments[0].device, given.get("device")
            assert target is None or source == torch.device(target), f"a copy from {source} to {target} that waits"
        return function(*arguments, **given)


def has_sparse_gradients(model: nn.Module) -> bool:
    return any(isinstance(module, nn.Embedding) and module.sparse for module in model.modules())


@pytest.mark.parametrize(("case", "objective"), TRIED, ids=lambda v: v if isinstance(v, str) else named(v))
def test_a_step_looks_at_nothing(case: Case, objective: str) -> None:
    student = case.build(teacher_width=WIDTH).train()
    described, teacher = case.describe(WIDTH), case.teacher_info(WIDTH)
    loss_of = Sum(combine.parse(objective), described, teacher, case.plugin.layer_map("random", described, teacher), {})
    batch = case.batch()
    if not case.task.corpus:
        loss_of.prepare(batch.labels, len(batch.labels))
    ours, theirs = loss_of.wants()
    with torch.no_grad():
        said = teacher_of(case.task.corpus, WIDTH, case.task.outputs or 2)(case.batch(apart=False), theirs)
    student(batch, ours)  # what is found out once of a model
    student.to(META)
    loss_of.to(META)
    stored = Outputs(**{part.name: moved(getattr(said, part.name)) for part in fields(said)})
    read = on_device(batch)
    with NoWaiting():
        loss, _ = loss_of(student(read, ours), stored, read)
    if not has_sparse_gradients(student):
        loss.backward()
    with pytest.raises((RuntimeError, NotImplementedError)):
        loss.item()


@pytest.mark.parametrize("case", {case.name: case for case, _ in TRIED}.values(), ids=named)
def test_nor_does_an_update(case: Case) -> None:
    student = case.build(teacher_width=WIDTH).to(META)
    settings = Settings({"learning_rate": 0.01, "warmup_ratio": 0.0, "optimiser": "adadelta"})
    update = Optimisation(student, nn.Linear(2, 2, device=META), settings, 10)
    for parameter in update.parameters:
        parameter.grad = torch.ones_like(parameter)
    with NoWaiting():
        update.update()


def test_a_batch_tells_the_host_what_it_is_asked() -> None:
    mask = torch.tensor([[1, 1, 0, 0], [1, 1, 1, 0], [1, 0, 0, 0]], dtype=torch.int32)
    sequence = {"input_ids": mask * 7, "attention_mask": mask}
    data = Encoded(torch.arange(3), torch.tensor([0, 1, 1]), np.arange(3, dtype=np.uint64), (sequence,), (mask.sum(1),))
    batch = data.batch(torch.tensor([2, 1]), META)
    assert batch.ids.tolist() == [2, 1] and batch.encodings[0].lengths.tolist() == [1, 3]
    assert {batch.labels.device, *(tensor.device for tensor in batch.encodings[0].values())} == {META}
    assert batch.real(torch.zeros(2, 3, 5, device=META)).shape == (4, 5)
    assert batch.real_pairs(torch.zeros(2, 3, 3, device=META)).shape == (10,)
    here = data.batch(torch.tensor([2, 1]))
    states = torch.arange(12).view(2, 3, 2)
    assert torch.equal(here.real(states), states[here.mask])
    with pytest.raises(IndexError, match="2 texts of 3 tokens need"):
        here.real(torch.zeros(2, 4, 5))
    alike = data.batch(torch.tensor([1]))  # where nothing is padded all is given as it is, and its gradient
    whole = torch.randn(1, 3, 3, requires_grad=True)
    for chosen, expected in ((alike.real(whole), whole[alike.mask]), (alike.real_pairs(whole), whole.flatten())):
        assert torch.equal(chosen, expected) and chosen.is_contiguous() and chosen.data_ptr() != whole.data_ptr()
        gradients = (torch.autograd.grad(of.square().sum(), whole)[0] for of in (chosen, expected))
        assert torch.equal(*gradients)
    turned = torch.randn(3, 1, 3).transpose(0, 1)
    assert torch.equal(alike.real(turned), turned[0]) and alike.real(turned).is_contiguous()
    counted = replace(here, encodings=(dict(here.encodings[0]),))  # without lengths told
    assert torch.equal(counted.real(states), here.real(states)) and counted.encodings[0].lengths.tolist() == [1, 3]


@pytest.mark.parametrize(("known", "padding", "masked"), [(True, 0, False), (True, 1, True), (False, 0, True)])
def test_no_mask_is_made_where_the_host_knows_that_nothing_is_padded(
    known: bool, padding: int, masked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The fast kernels take none; to find out on the device whether one is needed would wait for it."""
    asked = []

    def attend(module: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None, **more: Any) -> Any:
        asked.append(mask is not None)
        return (query @ key.mT @ value).transpose(1, 2), None

    monkeypatch.setattr(signals, "sdpa_attention_forward", attend)
    case = next(case for case in cases("transformer") if plain(case))
    student = case.build(teacher_width=WIDTH)
    student(case.batch(), Want(logits=True))  # what is found out once of a model
    student.to(META)
    asked.clear()
    ids = torch.ones(3, 5, dtype=torch.long)
    lengths = torch.tensor([5, 5, 5 - padding])
    mask = (torch.arange(5) < lengths[:, None]).long()
    encoding = Encoding(moved({"input_ids": ids, "attention_mask": mask}), lengths if known else None)
    student(Batch(torch.arange(3), torch.zeros(3), (encoding,)), Want(logits=True))
    assert asked and all(made == masked for made in asked)


def test_products_that_cannot_be_computed_with_become_nan_where_nobody_looks() -> None:
    case = next(case for case in cases("hybrid") if plain(case))
    student = case.build(teacher_width=WIDTH).to(META)
    for context in (nullcontext(), torch.no_grad()):
        with context:
            assert student(on_device(case.batch()), Want(logits=True)).logits.device == META
    of_each = products.factors(torch.stack([torch.eye(2), 1e19 * torch.eye(2), 0 * torch.eye(2)]))
    assert of_each[0] == 1 and of_each[1:].isnan().all()


@pytest.mark.parametrize(("kind", "pinned"), [("cuda", True), ("mps", False), ("xpu", False), ("cpu", False)])
def test_nothing_is_copied_behind_the_hosts_back_unless_its_memory_is_pinned(kind: str, pinned: bool) -> None:
    """The memory may be another tensor's before it is copied: https://github.com/pytorch/pytorch/issues/189690."""
    copied: list[tuple[torch.device, bool]] = []

    class Source(Tensor):
        def pin_memory(self, device: Any = None) -> Tensor:  # type: ignore[override]
            self.pinned = True
            return self

        def to(self, device: torch.device, non_blocking: bool = False) -> Tensor:  # type: ignore[override]
            assert not non_blocking or self.pinned
            copied.append((device, non_blocking))
            return self

    device, source = torch.device(kind, 0), torch.zeros(3).as_subclass(Source)
    onto(source, device)
    assert copied == [(device, pinned)] and getattr(source, "pinned", False) == pinned
