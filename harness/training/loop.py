"""The training loop: stages of epochs, checkpoints within and between them, the best epoch by the selection score."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import asdict, dataclass, field
from itertools import accumulate
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from harness.contracts import Batch, Outputs, Want
from harness.data.encoding import Encoded, evaluation_batches
from harness.runs.settings import Settings
from harness.runs.told import Entry, State
from harness.seeds import derive_seed
from harness.training import looks, machine
from harness.training.checkpoints import Checkpoint, Timer
from harness.training.failures import Diverged as Diverged
from harness.training.failures import TrainingFailure as TrainingFailure
from harness.training.optimisation import Optimisation
from harness.training.sums import Told, check_parameters, check_reached, check_trains, shares, why

CHECKPOINT_SECONDS = 30.0  # between checkpoints; when one is written changes no number
TELL_SECONDS = 2.0  # between reports of progress within an epoch
AHEAD = 20  # batches that are put together at once: code that has just run takes a fifth of the time
LOOK_STEPS = 20  # between looks at the losses, each of which waits for the device; when one is taken changes no number


@dataclass
class Stage:
    """One stretch of training. objective(student, teacher, batch) gives (loss, {term: part}) and may hold parameters.

    selects: the selection score is taken after each epoch, and the best epoch's weights are handed on at the end;
    otherwise the last ones are. stops: after so many of its epochs, whose learning rates stay as they are. wants: the
    signals asked of (student, teacher). frozen: parameters of the model that stay as they are.
    """

    name: str
    objective: nn.Module
    wants: tuple[Want, Want]
    epochs: int
    selects: bool
    frozen: frozenset[str] = frozenset()
    stops: int | None = None


@dataclass
class Clock:
    """Seconds spent in the model itself: forward, backward and update, each done `with` it."""

    seconds: float = 0.0
    began: float = 0.0

    def __enter__(self) -> None:
        self.began = time.perf_counter()

    def __exit__(self, *error: object) -> None:
        self.seconds += time.perf_counter() - self.began


@dataclass
class History:
    """curve: one entry an epoch; best: (stage, epoch) of the weights handed on; folds: of each its selection scores."""

    curve: list[Entry] = field(default_factory=list)
    best: Entry = field(default_factory=lambda: Entry())
    pruned: bool = False
    folds: list[list[float]] = field(default_factory=list)


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
Tell = Callable[[Entry], None]


@dataclass(frozen=True)
class Regime:
    """What a training goes by, whatever is trained. clock: takes the model's own seconds.

    checkpoint is written as it goes on, and read at the start: a killed run ends with the same result. tell is called
    after each epoch, and now and then within one. should_prune: of the selection scores so far.
    """

    settings: Settings
    seed: int
    device: torch.device
    checkpoint: Checkpoint
    clock: Clock
    tell: Tell
    should_prune: Callable[[list[float]], bool] = lambda scores: False


@dataclass
class EpochState:
    """How far an epoch has come: steps made, the sum of their losses, and what they tell of its terms."""

    step: int = 0
    total: float = 0.0
    told: Told = field(default_factory=Told)

    @classmethod
    def of(cls, state: State) -> EpochState:
        return cls(**{**state, "told": Told(**state["told"])})


def train(
    model: nn.Module,
    stages: Sequence[Stage],
    data: Data,
    teacher: TeacherOutputs,
    select: Callable[[nn.Module], float],
    regime: Regime,
) -> History:
    """Train `model` in place through the stages and leave it with the weights of the best epoch.

    data: the training examples, whose ids are 0..size-1. select scores the model on what epochs are chosen by (higher
    is better). Raises Diverged when a loss is not finite.
    """
    return _Training(model, stages, data, teacher, select, regime).run()


@dataclass
class _Training:
    """A training under way. A checkpoint is written when CHECKPOINT_SECONDS are at stake, after a step or an epoch."""

    model: nn.Module
    stages: Sequence[Stage]
    data: Data
    teacher: TeacherOutputs
    select: Callable[[nn.Module], float]
    regime: Regime
    history: History = field(default_factory=History)
    number: int = 0  # of the stage
    best_weights: dict[str, Tensor] | None = None  # of the stage
    unseen: list[tuple[Tensor, dict[str, Tensor]]] = field(default_factory=list)  # (loss, terms) of steps
    steps: list[int] = field(default_factory=list)  # of the stage, before each of its epochs and after the last
    saved: Timer = field(default_factory=Timer)  # since the last checkpoint

    def run(self) -> History:
        self.unsaved = looks.Unsaved(self.regime.tell, self.model, *(stage.objective for stage in self.stages))
        state = self.regime.checkpoint.read(self.regime.tell)
        if state:
            self.history = History(state["curve"], state["best"])
            self.model.load_state_dict(state["model"])
        else:
            machine.seed(derive_seed("training", self.regime.seed))
        for number, stage in enumerate(self.stages):
            self.number = number
            if state and number < state["stage"]:
                continue
            with _frozen(self.model, stage.frozen):
                self._stage(stage, state if state and number == state["stage"] else None)
            if self.best_weights is not None:
                self.model.load_state_dict(self.best_weights)
        return self.history

    def _stage(self, stage: Stage, state: State | None) -> None:
        """Train a stage, from its beginning or from where a checkpoint left it."""
        settings, device = self.regime.settings, self.regime.device
        stage.objective.to(device)
        # Not the same in every epoch: how many batches groups make that are larger than one depends on their order.
        sizes = (len(self._batches_of(epoch)) for epoch in range(stage.epochs))
        self.steps = list(accumulate(sizes, initial=0))
        self.optimisation = Optimisation(self.model, stage.objective, settings, self.steps[-1])
        self.best_weights = None
        begin, within = 0, EpochState()
        if state:
            begin, within = state["epoch"], EpochState.of(state["within"])
            stage.objective.load_state_dict(state["objective"])
            self.optimisation.load_state_dict(state["optimisation"])
            self.best_weights = state["best_weights"]
            machine.set_random_state(state["random"])
        else:
            self.history.best = Entry()
        for epoch in range(begin, stage.stops or stage.epochs):
            if _stopped_early(self.history, stage, settings["patience"]):
                break
            self._epoch(stage, epoch, within)
            self._ended(stage, epoch, within)
            within = EpochState()
            if self.history.pruned:
                break

    def _batches_of(self, epoch: int) -> list[Tensor]:
        """The positions of each batch of one of the stage's epochs."""
        order = derive_seed("order", self.regime.seed, self.number)
        return self.data.batches(self.regime.settings["batch_size"], order, epoch)

    def _epoch(self, stage: Stage, epoch: int, within: EpochState) -> None:
        """One pass over the data from `within` on, which it advances."""
        self.model.train()
        regime, batches = self.regime, self._batches_of(epoch)
        told, seen, whole = time.perf_counter(), list[Tensor](), not within.step
        for index, batch in _batches(self.data, batches[within.step :], regime.device, epoch):
            self._step(stage, batch, within)
            within.step += 1
            seen.append(index)
            where: Entry = {"stage": stage.name, "epoch": epoch + 1}
            tells = (now := time.perf_counter()) - told > TELL_SECONDS
            saves = within.step < len(batches) and self._saves()
            if tells or saves or len(self.unseen) == LOOK_STEPS or within.step == len(batches):
                self._look(stage, epoch, within)
            if tells:
                tokens = int(self.data.lengths[torch.cat(seen)].sum())
                speed: Entry = {"loss": self.loss, "tokens_per_second": tokens / (now - told)}
                regime.tell({**where, "step": within.step, "steps": len(batches), **speed})
                told, seen = now, []
            if saves:
                self._save(stage, epoch, within)
                regime.tell({**where, "loss": within.total / within.step, "saved": True})
        if whole:
            check_reached(stage.objective)

    def _step(self, stage: Stage, batch: Batch, within: EpochState) -> None:
        """One update. Its loss is among the unseen: nothing waits for the device."""
        regime = self.regime
        imitated = self.teacher(batch, stage.wants[1])
        with regime.clock:
            with precision(regime.settings, regime.device):
                outputs = self.model(batch, stage.wants[0])
            looks.check_outputs(self.model, outputs)
            loss, terms = stage.objective(in_float32(outputs), imitated, batch)
            self.unseen.append((loss.detach(), {name: term.detach() for name, term in terms.items()}))
        if not terms.keys() <= within.told.shares.keys():
            check_parameters(terms, self.optimisation.parameters)
            within.told.shares |= shares(terms, self.model.parameters())
        check_trains(loss, terms)
        with regime.clock:
            self.optimisation.step(loss)
            del outputs, loss, terms  # freeing the graph is a step's work, too

    def _look(self, stage: Stage, epoch: int, within: EpochState) -> None:
        """Tell `within` of the steps since the last look. Raises Diverged where a loss is not finite."""
        with self.regime.clock:  # what the device has still to compute
            every = [value.float().reshape(()) for loss, terms in self.unseen for value in (loss, *terms.values())]
            values = iter(torch.stack(every).tolist())
        first = self.steps[epoch] + within.step - len(self.unseen) + 1
        for number, (_, terms) in enumerate(self.unseen, first):
            self.loss = next(values)
            told = {name: next(values) for name in terms}
            if not math.isfinite(self.loss):
                bad = [name for name, value in told.items() if not math.isfinite(value)]
                raise Diverged(
                    f"the loss became {self.loss} at step {number} of stage {stage.name} "
                    f"in term {' and '.join(bad or told)}{why(stage.objective)}"
                )
            within.total += self.loss
            within.told.add(told)
        self.unseen.clear()

    def _ended(self, stage: Stage, epoch: int, within: EpochState) -> None:
        """Note how an epoch ended, and write the checkpoint if it is time."""
        history, best = self.history, self.history.best.get("selection")
        loss = within.total / within.step
        entry: Entry = {"stage": stage.name, "epoch": epoch + 1, "loss": loss, "selection": None}
        if stage.selects:
            entry["selection"] = found = self.select(self.model)
            if best is None or found > best:
                history.best = entry.copy()
                self.best_weights = {k: v.detach().clone() for k, v in self.model.state_dict().items()}
        entry |= {"terms": within.told.terms(), "learning_rate": self.optimisation.rate}
        history.curve.append(entry)
        scores = [e["selection"] for e in history.curve if e["selection"] is not None]
        last = (self.number, epoch + 1) == (len(self.stages) - 1, stage.stops or stage.epochs)
        if stage.selects and self.regime.should_prune(scores):
            history.pruned = True
        elif not last and self._saves():
            self._save(stage, epoch + 1, EpochState())
            self.regime.tell({"stage": stage.name, "epoch": epoch + 1, "loss": loss, "saved": True})
        self.regime.tell(entry)  # what is told is saved: whoever listens may take the checkpoint away

    def _saves(self) -> bool:
        """Whether to write a checkpoint: it is time, and nothing would be lost by it."""
        return self.saved.due(CHECKPOINT_SECONDS) and not self.unsaved.any()

    def _save(self, stage: Stage, epoch: int, within: EpochState) -> None:
        """Write down all that the rest of this stage depends on; training goes on at `within` of `epoch`."""
        self.regime.checkpoint.write(
            {
                "stage": self.number,
                "epoch": epoch,
                "within": asdict(within),
                "curve": self.history.curve,
                "best": self.history.best,
                "model": self.model.state_dict(),
                "objective": stage.objective.state_dict(),
                "optimisation": self.optimisation.state_dict(),
                "best_weights": self.best_weights,
                "random": machine.random_state(),
            }
        )


def precision(settings: Settings, device: torch.device) -> AbstractContextManager[object]:
    """The arithmetic of the model's forward pass: float32, or bfloat16 where autocast holds that safe."""
    if settings["precision"] == "bfloat16":
        return torch.autocast(device.type, torch.bfloat16)
    return nullcontext()


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
    model: nn.Module, data: Encoded, batch_size: int, settings: Settings, device: torch.device, clock: Clock
) -> Tensor:
    """The model's logits (N, C) on every example, in the order of `data`. Raises Diverged where some are no numbers."""
    model.eval()
    order, parts = list[Tensor](), list[Tensor]()
    for index, batch in _batches(data, evaluation_batches(data.lengths, batch_size), device):
        order.append(index)
        with clock, precision(settings, device):
            parts.append(model(batch, Want(logits=True)).logits.float())
    if not parts:
        raise TrainingFailure("there are no examples to predict")
    with clock:
        found = torch.cat(parts).cpu()  # once: the host waits for the device here
    if wrong := not_numbers(found):
        raise Diverged(f"the logits of {wrong} of {len(found)} examples are not finite numbers")
    logits = torch.empty_like(found)
    logits[torch.cat(order)] = found
    return logits


def not_numbers(logits: Tensor) -> int:
    """Of how many examples, (N, C), nothing can be predicted: `argmax` would, by the place of what is no number.

    A class may be left out by a logit of -inf.
    """
    return int((~logits.amax(1).isfinite()).sum())


def _batches(
    data: Data, positions: Sequence[Tensor], device: torch.device, epoch: int = 0
) -> Iterator[tuple[Tensor, Batch]]:
    """(positions, the batch of them), of each; AHEAD of them are put together at a time."""
    for first in range(0, len(positions), AHEAD):
        part = positions[first : first + AHEAD]
        yield from list(zip(part, [data.batch(index, device, epoch) for index in part], strict=True))


@contextmanager
def _frozen(model: nn.Module, names: frozenset[str]) -> Iterator[None]:
    """Without gradients of these parameters; those that never have any keep it so."""
    parts = [parameter for name, parameter in model.named_parameters() if name in names and parameter.requires_grad]
    for parameter in parts:
        parameter.requires_grad_(False)
    try:
        yield
    finally:
        for parameter in parts:
            parameter.requires_grad_(True)


def _stopped_early(history: History, stage: Stage, patience: int) -> bool:
    if not (stage.selects and patience and history.best):
        return False
    return int(history.curve[-1]["epoch"]) - int(history.best["epoch"]) >= patience
