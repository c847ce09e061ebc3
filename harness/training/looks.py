"""A first look at what plugins give as they train: what cannot be trained by is told with the plugin and the rule."""

from __future__ import annotations

import hashlib
import pickle
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from harness.contracts import Batch, ModelInfo, Outputs, Signal, Want
from harness.errors import UserError
from harness.registry import OBJECTIVES, STUDENTS, Registry
from harness.runs.told import Entry
from harness.training.failures import TrainingFailure


def check_outputs(model: object, outputs: object) -> None:
    """Raise TrainingFailure unless what a model's forward returned is Outputs, of tensors."""
    name = getattr(model, "name", "")
    who = STUDENTS.called(name) if name in STUDENTS.known() else f"model {type(model).__name__}"
    if not isinstance(outputs, Outputs):
        raise TrainingFailure(f"{who}: forward returned {_kind(outputs)}, but must return Outputs(...)")
    for signal, tensors in given(outputs).items():
        for wrong in (one for one in tensors if not isinstance(one, Tensor)):
            raise TrainingFailure(f"{who}: forward gives {signal} as {_kind(wrong)}, but must give a tensor")


def _kind(found: object) -> str:
    return "None" if found is None else f"a {type(found).__name__}"


def loss_of(objective: nn.Module, name: str, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
    """The loss of a batch.

    Raises TrainingFailure where it is no tensor of one number, where one of yours fails, or changes what others read.
    """
    before = _read(student, teacher, batch)
    try:
        loss = objective(student, teacher, batch)
    except (TrainingFailure, UserError, FloatingPointError, torch.OutOfMemoryError):
        raise
    except Exception as error:
        if OBJECTIVES.ships(name):
            raise
        needs = ", ".join(sorted(signal.value for signal in OBJECTIVES.get(name).needs)) or "nothing"
        what = f"failed: {type(error).__name__}: {error} (it declares and is given: {needs})"
        raise TrainingFailure(f"{OBJECTIVES.called(name)} {what}") from error
    after = _read(student, teacher, batch)
    for what in (one for one in before | after if not _same(before.get(one, []), after.get(one, []))):
        rule = "which other terms of a sum also read: make a new tensor, with x * 2 rather than x.mul_(2)"
        raise TrainingFailure(f"{OBJECTIVES.called(name)} changes {what}, {rule}")
    found = ""
    if not isinstance(loss, Tensor):
        found = _kind(loss)
    elif loss.numel() != 1:
        found = f"a tensor of shape {tuple(loss.shape)}"
    elif not loss.is_floating_point():
        found = f"a tensor of {str(loss.dtype).removeprefix('torch.')}"
    if found:
        rule = "a tensor of one floating-point number, such as a mean over the batch"
        raise TrainingFailure(f"{OBJECTIVES.called(name)} returned {found}, but must return its loss: {rule}")
    return loss


@contextmanager
def no_broadcasting() -> Iterator[None]:
    """torch's own losses of (B, 1) and (B,), which compare each example with all others, fail where they would warn."""
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "Using a target size", UserWarning)
        yield


def _read(student: Outputs, teacher: Outputs, batch: Batch) -> dict[str, list[tuple[Tensor, int]]]:
    """What an objective is given, in words, each tensor with how often it was written to, which costs no look at it."""
    of_batch = {"labels": [batch.labels], "targets": [] if batch.targets is None else [batch.targets]}
    for encoding in batch.encodings:
        of_batch |= {name: [*of_batch.get(name, ()), tensor] for name, tensor in encoding.items()}
    sides = {"the student's": given(student), "the teacher's": given(teacher), "the batch's": of_batch}
    return {
        f"{whose} {name}": [(one, 0 if one.is_inference() else one._version) for one in tensors]
        for whose, every in sides.items()
        for name, tensors in every.items()
    }


def _same(before: list[tuple[Tensor, int]], after: list[tuple[Tensor, int]]) -> bool:
    return [(id(one), version) for one, version in before] == [(id(one), version) for one, version in after]


def check_signals(known: Registry[Any], info: ModelInfo, want: Want, outputs: Outputs, batch: Batch) -> None:
    """Raise TrainingFailure for a signal that is missing, though wanted, or of another shape than it has."""
    who, size = known.called(info.name), len(batch.ids)
    for signal, layer in want.parts():
        which, found = signal if layer < 0 else f"{signal} of layer {layer}", getattr(outputs, signal)
        found = found if layer < 0 else found.get(layer)
        if found is None:
            raise TrainingFailure(f"{who} does not give {which}, though it says that it emits {signal}")
        shape, meant = tuple(found.shape), _shape(signal, info, size)
        seen = shape[::2] if signal == "sentence" and len(shape) == 3 else shape  # a vector of each text of a pair
        right = len(seen) == len(meant) and all(isinstance(m, str) or m == n for m, n in zip(meant, seen, strict=True))
        if not right:
            must = f"({', '.join(map(str, meant))})"
            raise TrainingFailure(f"{who} gives {which} of shape {shape}, but for {size} examples it must be {must}")


def _shape(signal: str, info: ModelInfo, size: int) -> tuple[int | str, ...]:
    """The shape of a signal of so many examples, by what a model says it is; in words what it does not say."""
    known: dict[str, tuple[int | str, ...]] = {
        "logits": (size, info.labels),
        "mlm_logits": ("tokens to predict", info.vocabulary or "vocabulary"),
        "sentence": (size, info.sentence_width or info.width),
        "hidden_states": (size, "tokens", info.width),
        "embeddings": (size, "tokens", info.embedding_width or info.width),
        "attention_scores": (size, info.heads, "tokens", "tokens"),
    }
    return known.get(signal, (size, "heads", "tokens", "width of a head"))


def given(outputs: Outputs) -> dict[str, list[Tensor]]:
    """The tensors of each signal that there is."""
    every = {name: [*v.values()] if isinstance(v, dict) else [v] for name, v in vars(outputs).items() if v is not None}
    return {name: tensors for name, tensors in every.items() if tensors}


@torch.no_grad()
def suspects(known: Registry[Any], info: ModelInfo, outputs: Outputs) -> dict[str, Tensor]:
    """Of each signal a sentence on it, and whether that is so: some of it is not a number. Nothing waits for it."""
    return {
        f"{known.called(info.name)} gives {name} that are not numbers": torch.stack([t.isnan().any() for t in tensors])
        for name, tensors in given(outputs).items()
    }


def held(*modules: nn.Module) -> dict[str, object]:
    """What users' modules hold beside parameters, buffers and modules, which alone a checkpoint has: by name a mark."""
    apart, known = vars(nn.Module()), {"torch", "transformers", "harness"}
    named = [(number, *one) for number, module in enumerate(modules) for one in module.named_modules()]
    return {
        f"{getattr(part, 'name', type(part).__name__)}.{name} ({number} {path})": _mark(value)
        for number, path, part in named
        if type(part).__module__.partition(".")[0] not in known
        for name, value in vars(part).items()
        if name not in apart
    }


class Unsaved:
    """What users' modules come to hold in training that no checkpoint would have; `tell` is told of it, once."""

    def __init__(self, tell: Callable[[Entry], None], *modules: nn.Module):
        self._tell, self._modules, self._before, self._told = tell, modules, held(*modules), False

    def any(self) -> bool:
        """Whether a run that went on from a checkpoint of now would be another."""
        now = held(*self._modules)
        names = self._before.keys() | now.keys()
        changed = sorted(name for name in names if self._before.get(name) != now.get(name))
        if changed and not self._told:
            self._told = True
            rule = "so none is written and a stopped run starts over: keep it as a tensor with register_buffer"
            self._tell({"note": f"training changes {changed[0].partition(' ')[0]}, which checkpoints lack, {rule}"})
        return bool(changed)


def _mark(value: object) -> object:
    try:
        return hashlib.sha256(pickle.dumps(value)).digest()
    except Exception:  # such as a lambda, which stays as it is
        return id(value)


def _graph(of: Tensor) -> Iterator[Any]:
    """The nodes that a gradient of `of` passes, each once: nothing is computed."""
    seen: set[Any] = set()
    ahead = [of.grad_fn]
    while ahead:
        node = ahead.pop()
        if node is not None and node not in seen:
            seen.add(node)
            yield node
            ahead += [before for before, _ in node.next_functions]


def reaches(part: Tensor, signals: Sequence[Tensor]) -> bool:
    """Whether a gradient of `part` comes to one of the signals."""
    ends = {one.grad_fn if one.grad_fn is not None else id(one) for one in signals}
    return any(node in ends or id(getattr(node, "variable", None)) in ends for node in _graph(part))


def parameters_of(loss: Tensor) -> list[nn.Parameter]:
    """The parameters that a loss depends on."""
    ends = (getattr(node, "variable", None) for node in _graph(loss))
    return [one for one in ends if isinstance(one, nn.Parameter)]


def unreached(names: Iterable[str], parts: dict[str, Tensor], student: Outputs) -> set[str]:
    """Those terms whose loss does not depend on what the student gives them, where that can be trained at all."""
    found, signals = set(), given(student)
    for name in names:
        needs = [one for signal in OBJECTIVES.get(name).needs for one in signals.get(Signal(signal).value, ())]
        trained = [one for one in needs if one.requires_grad]
        if trained and not reaches(parts[name], trained):
            found.add(name)
    return found
