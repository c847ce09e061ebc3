"""The training loop: stages of epochs, checkpoints between them, the best epoch by the selection score."""

from __future__ import annotations

import io
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import get_scheduler

from harness.contracts import Batch, Outputs, Want
from harness.data.encoding import Encoded, evaluation_batches, training_batches
from harness.ledger import atomic_file, derive_seed

CHECKPOINT_STEPS = 50  # fewer are made again sooner than they are saved


class TrainingFailure(Exception):
    """A run that cannot go on: a loss that is not finite, told with its step and term."""


@dataclass
class Stage:
    """One stretch of training. objective(student, teacher, batch) gives (loss, {term: value}) and may hold parameters.

    selects: the selection score is taken after each epoch, and the best epoch's weights are handed on at the end;
    otherwise the last ones are. wants: the signals asked of (student, teacher).
    """

    name: str
    objective: nn.Module
    wants: tuple[Want, Want]
    epochs: int
    selects: bool


@dataclass
class Clock:
    """Seconds spent in the model itself: forward, backward and update."""

    seconds: float = 0.0

    def add(self, since: float) -> None:
        self.seconds += time.perf_counter() - since


@dataclass
class History:
    """curve: one entry an epoch; best: (stage, epoch) of the weights handed on."""

    curve: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] = field(default_factory=dict)
    pruned: bool = False


TeacherOutputs = Callable[[Batch, Want], Outputs]
Tell = Callable[[dict[str, Any]], None]


def train(
    model: nn.Module,
    stages: Sequence[Stage],
    data: Encoded,
    teacher: TeacherOutputs,
    settings: dict[str, Any],
    seed: int,
    device: torch.device,
    select: Callable[[nn.Module], float],
    checkpoint: Path,
    clock: Clock,
    should_prune: Callable[[list[float]], bool],
    tell: Tell,
) -> History:
    """Train `model` in place through the stages and leave it with the weights of the best epoch.

    data: the training examples, whose ids are 0..size-1. select scores the model on what epochs are chosen by (higher
    is better). checkpoint is written after an epoch, once CHECKPOINT_STEPS steps are at stake, and read at the
    start: a killed run goes on from it with the same result. Raises TrainingFailure when a loss is not finite.
    """
    history = History()
    state = _read_checkpoint(checkpoint, device)
    first, done = (state["stage"], state["epoch"] + 1) if state else (0, 0)
    if state:
        history = History(state["curve"], state["best"])
        model.load_state_dict(state["model"])
    else:
        torch.manual_seed(derive_seed("training", seed))
    unsaved = 0  # steps since the last checkpoint
    for number, stage in enumerate(stages):
        if number < first:
            continue
        best_weights: dict[str, Tensor] | None = None
        stage.objective.to(device)
        optimiser = _optimiser(model, stage.objective, settings)
        steps = stage.epochs * len(training_batches(data.lengths, settings["batch_size"], 0, 0))
        scheduler = get_scheduler(settings["schedule"], optimiser, int(settings["warmup_ratio"] * steps), steps)
        begin = 0
        if state and number == first:
            begin = done
            stage.objective.load_state_dict(state["objective"])
            optimiser.load_state_dict(state["optimiser"])
            scheduler.load_state_dict(state["scheduler"])
            best_weights = state["best_weights"]
            _set_random_state(state["random"], device)
        else:
            history.best = {}
        for epoch in range(begin, stage.epochs):
            if _stopped_early(history, stage, settings["patience"]):
                break
            loss = _epoch(
                model,
                stage,
                data,
                teacher,
                settings,
                derive_seed("order", seed, number),
                epoch,
                device,
                optimiser,
                scheduler,
                clock,
            )
            entry = {"stage": stage.name, "epoch": epoch + 1, "loss": loss, "selection": None}
            if stage.selects:
                entry["selection"] = select(model)
                if not history.best or entry["selection"] > history.best["selection"]:
                    history.best = dict(entry)
                    best_weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
            history.curve.append(entry)
            tell(entry)
            if stage.selects and should_prune([e["selection"] for e in history.curve if e["selection"] is not None]):
                history.pruned = True
                break
            unsaved += steps // stage.epochs
            if unsaved >= CHECKPOINT_STEPS and (number, epoch + 1) != (len(stages) - 1, stage.epochs):
                unsaved = 0
                _write_checkpoint(
                    checkpoint,
                    {
                        "stage": number,
                        "epoch": epoch,
                        "curve": history.curve,
                        "best": history.best,
                        "model": model.state_dict(),
                        "objective": stage.objective.state_dict(),
                        "optimiser": optimiser.state_dict(),
                        "scheduler": scheduler.state_dict(),
                        "best_weights": best_weights,
                        "random": _random_state(device),
                    },
                )
        if best_weights is not None:
            model.load_state_dict(best_weights)
    return history


def _epoch(
    model: nn.Module,
    stage: Stage,
    data: Encoded,
    teacher: TeacherOutputs,
    settings: dict[str, Any],
    order_seed: int,
    epoch: int,
    device: torch.device,
    optimiser: torch.optim.Optimizer,
    scheduler: Any,
    clock: Clock,
) -> float:
    """One pass over the data; the mean loss over its steps."""
    model.train()
    total = 0.0
    batches = training_batches(data.lengths, settings["batch_size"], order_seed, epoch)
    parameters = [p for group in optimiser.param_groups for p in group["params"]]
    for step, index in enumerate(batches):
        batch = data.batch(index, device)
        imitated = teacher(batch, stage.wants[1])
        began = time.perf_counter()
        with precision(settings, device):
            outputs = model(batch, stage.wants[0])
        loss, terms = stage.objective(_in_float32(outputs), imitated, batch)
        value = loss.item()
        if not torch.isfinite(loss):
            bad = [name for name, term in terms.items() if not torch.isfinite(torch.as_tensor(term))]
            raise TrainingFailure(
                f"the loss became {value} at step {epoch * len(batches) + step + 1} of stage {stage.name} "
                f"in term {' and '.join(bad or terms)}"
            )
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        nn.utils.clip_grad_norm_(parameters, settings["gradient_clip"])
        optimiser.step()
        clock.add(began)
        scheduler.step()
        total += value
    return total / len(batches)


def precision(settings: Mapping[str, Any], device: torch.device) -> torch.autocast:
    """The arithmetic of the model's forward pass: float32, or bfloat16 where autocast holds that safe."""
    return torch.autocast(device.type, torch.bfloat16, enabled=settings["precision"] == "bfloat16")


def _in_float32(outputs: Outputs) -> Outputs:
    """The same signals in float32, in which every loss is computed."""
    converted: dict[str, Any] = {}
    for name, signal in vars(outputs).items():
        if isinstance(signal, dict):
            converted[name] = {layer: tensor.float() for layer, tensor in signal.items()}
        elif signal is not None:
            converted[name] = signal.float()
    return Outputs(**converted)


@torch.inference_mode()
def predict(
    model: nn.Module, data: Encoded, batch_size: int, settings: Mapping[str, Any], device: torch.device, clock: Clock
) -> Tensor:
    """The model's logits (N, C) on every example, in the order of `data`."""
    model.eval()
    batches = evaluation_batches(data.lengths, batch_size)
    logits: Tensor | None = None
    for index in batches:
        batch = data.batch(index, device)
        began = time.perf_counter()
        with precision(settings, device):
            part = model(batch, Want(logits=True)).logits.float().cpu()
        clock.add(began)
        if logits is None:
            logits = torch.empty(len(data), part.shape[-1])
        logits[index] = part
    if logits is None:
        raise TrainingFailure("there are no examples to predict")
    return logits


def _optimiser(model: nn.Module, objective: nn.Module, settings: dict[str, Any]) -> torch.optim.Optimizer:
    """AdamW over the model and the objective's own parameters; vectors (biases, norms) do not decay."""
    parameters = [p for module in (model, objective) for p in module.parameters() if p.requires_grad]
    groups = [
        {"params": [p for p in parameters if p.ndim > 1], "weight_decay": settings["weight_decay"]},
        {"params": [p for p in parameters if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=settings["learning_rate"], fused=True)


def _stopped_early(history: History, stage: Stage, patience: int) -> bool:
    if not (stage.selects and patience and history.best):
        return False
    return int(history.curve[-1]["epoch"]) - int(history.best["epoch"]) >= patience


def _random_state(device: torch.device) -> dict[str, Tensor]:
    state = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        state["cuda"] = torch.cuda.get_rng_state(device)
    return state


def _set_random_state(state: dict[str, Tensor], device: torch.device) -> None:
    torch.set_rng_state(state["cpu"].cpu())
    if "cuda" in state:
        torch.cuda.set_rng_state(state["cuda"].cpu(), device)


def _write_checkpoint(path: Path, state: dict[str, Any]) -> None:
    with atomic_file(path) as file:
        torch.save(state, file)


def _read_checkpoint(path: Path, device: torch.device) -> dict[str, Any] | None:
    """The checkpoint of an interrupted run, or None. Loaded as data only."""
    if not path.exists():
        return None
    state: dict[str, Any] = torch.load(io.BytesIO(path.read_bytes()), map_location=device, weights_only=True)
    return state
