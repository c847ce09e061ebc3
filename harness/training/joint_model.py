"""One model trained on several tasks: shared layers, one head a task, batches of a single task shuffled together.

liu2020, chapter 4 (Algorithm 1), after Liu et al. (2019), MT-DNN.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import reduce
from operator import or_
from pathlib import Path
from typing import Any, cast

import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor, nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from harness.contracts import Batch, Outputs, Task, Want
from harness.data.encoding import Encoded
from harness.errors import UserError
from harness.modeling.bases import Student, Teacher
from harness.seeds import derive_seed
from harness.training.loop import TrainingFailure
from harness.training.sums import Sum
from harness.training.weights import save_reader, whole_folder

WEIGHTS = "model.safetensors"


class Joint(nn.Module):
    """One model a task, all of one kind, that share every weight but those that answer a task.

    A model is a Student, or a module called the same way around a Hugging Face classifier, its `model`. A later
    model's shared weights are the very tensors of the first's; its own are a student's `head_weights`, of a classifier
    everything outside its encoder. The state dictionary holds each shared weight once, under its name in a single
    model, and a task's own as heads.TASK.NAME.
    """

    def __init__(self, models: Iterable[tuple[str, nn.Module]]):
        """models: (task, model); with a generator no more than two copies of the shared weights exist at a time.

        Raises TrainingFailure, naming a weight, if a model cannot share it.
        """
        super().__init__()
        self.models = nn.ModuleDict()
        for task, model in models:
            self.models[task] = model
            self._tie(task)

    def forward(self, batch: Batch, want: Want) -> Outputs:
        return self.models[batch.task](batch, want)

    def network(self, task: str) -> PreTrainedModel:
        """The Student or Hugging Face classifier that answers a task."""
        model = self.models[task]
        return cast(PreTrainedModel, model if isinstance(model, PreTrainedModel) else model.model)

    def _tie(self, task: str) -> None:
        first = next(iter(self.models))
        theirs, ours = self.network(first), self.network(task)
        shared = _without(theirs.state_dict(keep_vars=True), own_weights(theirs))
        replaced = _without(ours.state_dict(), own_weights(ours))
        for name in sorted(shared.keys() | replaced.keys()):
            shapes = [tuple(side[name].shape) if name in side else "missing" for side in (shared, replaced)]
            if shapes[0] != shapes[1]:
                raise TrainingFailure(
                    f"{first} and {task} cannot be trained together: the weight {name}, which their models are to "
                    f"share, is {shapes[0]} in one and {shapes[1]} in the other"
                )
            module, _, attribute = name.rpartition(".")
            setattr(ours.get_submodule(module), attribute, shared[name])

    def _apply(self, fn: Callable[..., Any], recurse: bool = True) -> Joint:
        super()._apply(fn, recurse)  # moves a parameter in place, but copies a buffer once for every model
        for task in self.models:
            self._tie(task)
        return self

    def state_dict(self) -> dict[str, Tensor]:  # type: ignore[override]
        found: dict[str, Tensor] = {}
        for task in self.models:
            network = self.network(task)
            state = network.state_dict()
            found |= {joint: state[name] for name, joint in joint_names(network, task).items()}
        return found

    def load_state_dict(self, state: Mapping[str, Tensor]) -> None:  # type: ignore[override]
        for task in self.models:
            network = self.network(task)
            network.load_state_dict({name: state[joint] for name, joint in joint_names(network, task).items()})


def own_weights(network: PreTrainedModel) -> set[str]:
    """The names of the weights that answer a task."""
    if isinstance(network, Student):
        return network.head_weights()
    return {name for name in network.state_dict() if not name.startswith(f"{network.base_model_prefix}.")}


def _without(state: Mapping[str, Tensor], names: set[str]) -> dict[str, Tensor]:
    return {name: tensor for name, tensor in state.items() if name not in names}


def joint_names(network: PreTrainedModel, task: str) -> dict[str, str]:
    """The names of one model's weights in its own state dictionary -> in that of a `Joint`."""
    own = own_weights(network)
    return {name: f"heads.{task}.{name}" if name in own else name for name in network.state_dict()}


class JointData:
    """The training examples of several tasks as one: every batch is of one task, and all are shuffled together.

    A position counts through the tasks in order of name; the ids of a batch are those within its task.
    """

    def __init__(self, parts: Mapping[str, Encoded]):
        self.parts = dict(sorted(parts.items()))
        sizes = torch.tensor([len(part) for part in self.parts.values()])
        self.ends = sizes.cumsum(0)  # (T,)
        self.starts = self.ends - sizes
        self.lengths = torch.cat([part.lengths for part in self.parts.values()])

    def __len__(self) -> int:
        return len(self.lengths)

    def batches(self, batch_size: int, seed: int, epoch: int) -> list[Tensor]:
        found = [
            index + start
            for (task, part), start in zip(self.parts.items(), self.starts, strict=True)
            for index in part.batches(batch_size, derive_seed("task", seed, task), epoch)
        ]
        generator = torch.Generator().manual_seed(derive_seed("merged", seed, epoch))
        return [found[i] for i in torch.randperm(len(found), generator=generator)]

    def batch(self, index: Tensor, device: torch.device | None = None, epoch: int = 0) -> Batch:
        number = int(torch.searchsorted(self.ends, index[0], right=True))
        task = list(self.parts)[number]
        return replace(self.parts[task].batch(index - self.starts[number], device, epoch), task=task)


class JointObjective(nn.Module):
    """Every task's own objective, applied to the batches of that task (liu2020, equation 4.15)."""

    def __init__(self, sums: Mapping[str, Sum]):
        super().__init__()
        self.sums = nn.ModuleDict(sums)

    def wants(self) -> tuple[Want, Want]:
        """What to ask of (student, teacher): everything that any task's objective asks for."""
        asked = [cast(Sum, part).wants() for part in self.sums.values()]
        return reduce(or_, (ours for ours, _ in asked)), reduce(or_, (theirs for _, theirs in asked))

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss of the batch's task, and its terms by name and task, both with their graph."""
        loss, terms = self.sums[batch.task](student, teacher, batch)
        return loss, {f"{name} of {batch.task}": term for name, term in terms.items()}


# ---------------------------------------------------------------- on disk


def save_joint(joint: Joint, folder: Path, reader: PreTrainedTokenizerBase | None = None) -> None:
    """Write the weights as one file named as in the state dictionary, with the first model's configuration.

    reader: the tokenizer it reads with, where that is its own. Raises UserError as `weights.save` does.
    """
    first = joint.network(next(iter(joint.models)))
    config = copy.deepcopy(first.config)
    if not isinstance(first, Student):
        # What the folder holds under the names of a single model is an encoder: whoever reads it as one adds a head.
        config.architectures = [type(first.base_model).__name__]
    state = {name: tensor.detach().clone().cpu().contiguous() for name, tensor in joint.state_dict().items()}
    with whole_folder(folder) as temporary:
        config.save_pretrained(temporary)
        save_file(state, temporary / WEIGHTS, {"format": "pt"})  # of several entries the order would be any
        if reader is not None:
            save_reader(reader, temporary)


def heads_in(folder: Path) -> tuple[str, ...]:
    """The tasks whose heads a folder of joint weights holds; none for weights of any other kind."""
    if not (folder / WEIGHTS).is_file():
        return ()
    with safe_open(folder / WEIGHTS, "pt") as file:
        return tuple(sorted({name.split(".")[1] for name in file.keys() if name.startswith("heads.")}))  # noqa: SIM118


def check_head(task: str, folder: Path) -> None:
    """Raise UserError if a folder of joint weights holds no head for the task."""
    heads = heads_in(folder)
    if task not in heads:
        raise UserError(
            f"run {folder.parent.name} was not trained on {task}, so it has no head for it; it has those of "
            f"{', '.join(heads) or 'no task'}"
        )


def load_joint(network: PreTrainedModel, task: str, folder: Path) -> None:
    """Give a single model the shared weights and the head of `task` from a folder of joint weights.

    Raises UserError if the folder holds no such head or lacks a weight.
    """
    check_head(task, folder)
    found, names = load_file(folder / WEIGHTS), joint_names(network, task)
    missing = sorted(set(names.values()) - found.keys())
    if missing:
        raise UserError(f"run {folder.parent.name} has no weight {missing[0]}, which {type(network).__name__} needs")
    network.load_state_dict({name: found[joint] for name, joint in names.items()})


def load_joint_teacher(source: Teacher, task: Task, folder: Path) -> PreTrainedModel:
    """The classifier for a task out of a folder of joint weights: the shared encoder under that task's head.

    Changes no random state. Raises UserError as `load_joint` does.
    """
    with torch.random.fork_rng(devices=[]):  # the source draws a head for the encoder; its numbers are not kept
        model = source.model(task, folder)
    load_joint(model, task.name, folder)
    return model
