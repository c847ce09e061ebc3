"""The training loop: stages of epochs, checkpoints within and between them, the best epoch by the selection score."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from harness.contracts import Batch, Outputs, Want
from harness.data.encoding import Encoded, evaluation_batches
from harness.seeds import derive_seed
from harness.training.checkpoints import Checkpoint
from harness.training.optimisation import Optimisation

# Fewer steps than this are made again sooner than they are saved; within an epoch only long ones are saved.
CHECKPOINT_STEPS = 100
CHECKPOINT_STEPS_WITHIN = 250
TELL_SECONDS = 2.0  # between reports of progress within an epoch


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


class Data(Protocol):
    """Training examples: those of a task, of several, or pieces of masked text, which differ from epoch to epoch.

    batches: the positions of each batch of an epoch, as `training_batches` puts them together.
    """

    def __len__(self) -> int: ...

    @property
    def lengths(self) -> Tensor: ...

    def batches(self, batch_size: int, seed: int, epoch: int) -> list[Tensor]: ...

    def batch(self, index: Tensor, device: torch.device | None = None, epoch: int = 0) -> Batch: ...


TeacherOutputs = Callable[[Batch, Want], Outputs]
Tell = Callable[[dict[str, Any]], None]


def train(
    model: nn.Module,
    stages: Sequence[Stage],
    data: Data,
    teacher: TeacherOutputs,
    settings: Mapping[str, Any],
    seed: int,
    device: torch.device,
    select: Callable[[nn.Module], float],
    checkpoint: Checkpoint,
    clock: Clock,
    should_prune: Callable[[list[float]], bool],
    tell: Tell,
) -> History:
    """Train `model` in place through the stages and leave it with the weights of the best epoch.

    data: the training examples, whose ids are 0..size-1. select scores the model on what epochs are chosen by (higher
    is better). checkpoint is written after an epoch, once CHECKPOINT_STEPS steps are at stake, and within a long one;
    it is read at the start: a killed run goes on from it with the same result. Raises TrainingFailure when a loss is
    not finite.
    """
    history = History()
    state = checkpoint.read(tell)
    if state:
        history = History(state["curve"], state["best"])
        model.load_state_dict(state["model"])
    else:
        torch.manual_seed(derive_seed("training", seed))
    unsaved = 0  # steps since the last checkpoint
    for number, stage in enumerate(stages):
        if state and number < state["stage"]:
            continue
        best_weights: dict[str, Tensor] | None = None
        stage.objective.to(device)
        per_epoch = len(data.batches(settings["batch_size"], 0, 0))
        optimisation = Optimisation(model, stage.objective, settings, stage.epochs * per_epoch)
        begin, epoch_state = 0, EpochState()
        if state and number == state["stage"]:
            begin, epoch_state = state["epoch"], EpochState(**state["within"])
            stage.objective.load_state_dict(state["objective"])
            optimisation.load_state_dict(state["optimisation"])
            best_weights = state["best_weights"]
            _set_random_state(state["random"], device)
        else:
            history.best = {}

        def save(epoch: int, within: EpochState) -> None:
            """Write down all that the rest of this stage depends on; training goes on at `within` of `epoch`."""
            checkpoint.write(
                {
                    "stage": number,  # noqa: B023 - called before the next stage begins
                    "epoch": epoch,
                    "within": vars(within),
                    "curve": history.curve,
                    "best": history.best,
                    "model": model.state_dict(),
                    "objective": stage.objective.state_dict(),  # noqa: B023
                    "optimisation": optimisation.state_dict(),  # noqa: B023
                    "best_weights": best_weights,  # noqa: B023
                    "random": _random_state(device),
                }
            )

        for epoch in range(begin, stage.epochs):
            if _stopped_early(history, stage, settings["patience"]):
                break
            for within in _epoch(
                model,
                stage,
                data,
                teacher,
                settings,
                derive_seed("order", seed, number),
                epoch,
                device,
                optimisation,
                clock,
                epoch_state,
                tell,
            ):
                unsaved += 1
                if unsaved >= CHECKPOINT_STEPS_WITHIN and within.step < per_epoch:
                    unsaved = 0
                    save(epoch, within)
                    tell({"stage": stage.name, "epoch": epoch + 1, "loss": within.total / within.step, "saved": True})
            loss, epoch_state = epoch_state.total / per_epoch, EpochState()
            entry = {"stage": stage.name, "epoch": epoch + 1, "loss": loss, "selection": None}
            if stage.selects:
                entry["selection"] = select(model)
                if not history.best or entry["selection"] > history.best["selection"]:
                    history.best = dict(entry)
                    best_weights = {k: v.detach().clone() for k, v in model.state_dict().items()}
            history.curve.append(entry)
            if stage.selects and should_prune([e["selection"] for e in history.curve if e["selection"] is not None]):
                history.pruned = True
            elif unsaved >= CHECKPOINT_STEPS and (number, epoch + 1) != (len(stages) - 1, stage.epochs):
                unsaved = 0
                save(epoch + 1, epoch_state)
            tell(entry)  # what is told is saved: whoever listens may take the checkpoint away
            if history.pruned:
                break
        if best_weights is not None:
            model.load_state_dict(best_weights)
    return history


@dataclass
class EpochState:
    """How far an epoch has come: steps made, and the sum of their losses."""

    step: int = 0
    total: float = 0.0


def _epoch(
    model: nn.Module,
    stage: Stage,
    data: Data,
    teacher: TeacherOutputs,
    settings: Mapping[str, Any],
    order_seed: int,
    epoch: int,
    device: torch.device,
    optimisation: Optimisation,
    clock: Clock,
    state: EpochState,
    tell: Tell,
) -> Iterator[EpochState]:
    """One pass over the data from `state` on, which it advances and yields after each step."""
    model.train()
    batches = data.batches(settings["batch_size"], order_seed, epoch)
    told, tokens = time.perf_counter(), 0
    for index in batches[state.step :]:
        batch = data.batch(index, device, epoch)
        imitated = teacher(batch, stage.wants[1])
        began = time.perf_counter()
        with precision(settings, device):
            outputs = model(batch, stage.wants[0])
        loss, terms = stage.objective(in_float32(outputs), imitated, batch)
        value = loss.item()
        if not torch.isfinite(loss):
            bad = [name for name, term in terms.items() if not torch.isfinite(torch.as_tensor(term))]
            raise TrainingFailure(
                f"the loss became {value} at step {epoch * len(batches) + state.step + 1} of stage {stage.name} "
                f"in term {' and '.join(bad or terms)}"
            )
        optimisation.step(loss)
        clock.add(began)
        state.step += 1
        state.total += value
        tokens += int(data.lengths[index].sum())
        now = time.perf_counter()
        if now - told > TELL_SECONDS:
            tell(
                {
                    "stage": stage.name,
                    "epoch": epoch + 1,
                    "step": state.step,
                    "steps": len(batches),
                    "loss": value,
                    "tokens_per_second": tokens / (now - told),
                }
            )
            told, tokens = now, 0
        yield state


def precision(settings: Mapping[str, Any], device: torch.device) -> torch.autocast:
    """The arithmetic of the model's forward pass: float32, or bfloat16 where autocast holds that safe."""
    return torch.autocast(device.type, torch.bfloat16, enabled=settings["precision"] == "bfloat16")


def in_float32(outputs: Outputs) -> Outputs:
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
