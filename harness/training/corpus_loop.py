"""Training on unlabelled text: updates of large batches, in micro-batches that any number of processes share out.

What a micro-batch computes depends on the run, the update and its place in the batch alone, not on who computes it or
when: so a killed training goes on with the very same losses, and two processes differ from one by the rounding of sums.
"""

from __future__ import annotations

import math
import time
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from harness.runs.settings import Settings
from harness.runs.told import Entry, Record, State
from harness.seeds import derive_seed
from harness.training import machine, processes
from harness.training.checkpoints import Timer
from harness.training.looks import Unsaved, check_outputs
from harness.training.loop import LOOK_STEPS, Data, Diverged, Regime, TeacherOutputs, in_float32, precision
from harness.training.optimisation import Optimisation
from harness.training.sums import Sum, Told, check_parameters, check_reached, check_trains, shares, why

STAGE = "general"
POINTS = 100  # of the recorded curve
CHECKPOINT_SECONDS = 120.0  # between checkpoints; when one is written changes no number
TELL_SECONDS = 2.0  # between reports of progress


@dataclass
class Course:
    """How far a training has come. total: the sum of the losses of `since` updates since the curve's last point.

    told: of the terms since then; their shares are taken once an epoch.
    """

    step: int = 0
    curve: list[Entry] = field(default_factory=list)
    total: float = 0.0
    since: int = 0
    told: Told = field(default_factory=Told)

    def add_point(self, epoch: int, rate: float) -> None:
        """End a point of the curve, and begin the next."""
        point: Entry = {"stage": STAGE, "epoch": epoch + 1, "loss": self.total / self.since, "selection": None}
        self.curve.append({**point, "step": self.step, "terms": self.told.terms(), "learning_rate": rate})
        self.total, self.since, self.told = 0.0, 0, Told(shares=self.told.shares)

    @classmethod
    def of(cls, state: State) -> Course:
        return cls(**{**state, "told": Told(**state["told"])})


def steps_of(pieces: int, settings: Settings) -> tuple[int, int]:
    """(updates in all, updates that one pass over the pieces takes)."""
    per_epoch = -(-pieces // settings["batch_size"])
    return settings["steps"] or settings["epochs"] * per_epoch, per_epoch


def train_on_corpus(
    model: nn.Module,
    objective: Sum,
    data: Data,
    teacher: TeacherOutputs,
    regime: Regime,
) -> Record:
    """Train `model` and the objective's own parameters in place; every process ends with the same weights.

    Returns the curve and the throughput. checkpoint is written every two minutes and read at the start. Raises
    Diverged when a loss is not finite.
    """
    settings, device, checkpoint, course = regime.settings, regime.device, regime.checkpoint, Course()
    steps, per_epoch = steps_of(len(data), settings)
    objective.to(device)
    optimisation = Optimisation(model, objective, settings, steps)
    unsaved = Unsaved(regime.tell, model, objective)
    saved = processes.from_leader(checkpoint.read(regime.tell) if processes.leads() else None)
    if saved is not None:
        model.load_state_dict(saved["model"])
        objective.load_state_dict(saved["objective"])
        optimisation.load_state_dict(saved["optimisation"])
        course = Course.of(saved["course"])
    lengths, batches, epoch = data.lengths, [], -1
    watch = Watch(steps - course.step)
    for step in range(course.step, steps):
        if step // per_epoch != epoch:
            epoch = step // per_epoch
            batches = data.batches(settings["batch_size"], derive_seed("order", regime.seed, 0), epoch)
        if step % per_epoch == 0:
            course.told.shares = {}
        index = batches[step % per_epoch]
        model.train()
        loss = _update(model, objective, _Pieces(data, index, epoch, step, course.told), teacher, optimisation, regime)
        course.step, course.total, course.since = step + 1, course.total + loss, course.since + 1
        if course.step * POINTS // steps > step * POINTS // steps or course.step == steps:
            course.add_point(epoch, optimisation.rate)
            if course.step >= min(LOOK_STEPS, steps):
                check_reached(objective)
        watch.count(int(lengths[index].sum()))
        if not processes.leads():
            continue
        if watch.saved.due(CHECKPOINT_SECONDS) and course.step < steps and not unsaved.any():
            parts: dict[str, Any] = {"model": model, "objective": objective, "optimisation": optimisation}
            checkpoint.write({"course": asdict(course), **{name: part.state_dict() for name, part in parts.items()}})
            regime.tell({"stage": STAGE, "epoch": epoch + 1, "loss": loss, "saved": True})
        if watch.told.due(TELL_SECONDS):
            where: Entry = {"stage": STAGE, "epoch": epoch + 1, "step": course.step, "steps": steps, "loss": loss}
            regime.tell({**where, **watch.report()})
    return {
        "curve": course.curve,
        "steps": steps,
        "tokens": int(lengths.sum()),
        "pieces": len(data),
        "processes": processes.number(),
        **watch.throughput(),
    }


@dataclass(frozen=True)
class _Pieces:
    """Those of one update: at `index`, (B,), as they are in an epoch; told: of its terms."""

    data: Data
    index: Tensor
    epoch: int
    step: int
    told: Told


def _update(
    model: nn.Module,
    objective: Sum,
    pieces: _Pieces,
    teacher: TeacherOutputs,
    optimisation: Optimisation,
    regime: Regime,
) -> float:
    """One update. Returns the loss: the mean over pieces of their micro-batch's loss."""
    settings, device, (ours, theirs) = regime.settings, regime.device, objective.wants()
    index, clock = pieces.index, regime.clock
    parts = index.split(settings["micro_batch"] or len(index))
    names = [name for _, name in objective.terms]
    told = torch.zeros(1 + len(names), device=device)  # the loss and its terms
    optimisation.clear()
    for number in range(processes.state().process_index, len(parts), processes.number()):
        batch = pieces.data.batch(parts[number], device, pieces.epoch)
        imitated = teacher(batch, theirs)
        share = len(parts[number]) / len(index)
        with clock:
            machine.seed(derive_seed("micro_batch", regime.seed, pieces.step, number))  # of dropout
            with precision(settings, device):
                outputs = model(batch, ours)
            check_outputs(model, outputs)
            loss, terms = objective(in_float32(outputs), in_float32(imitated), batch)
            told += share * torch.stack([loss.detach(), *(terms[name].detach() for name in names)]).float()
        if number == 0 and not pieces.told.shares:
            check_parameters(terms, optimisation.parameters)
            pieces.told.shares |= shares(terms, model.parameters())
        check_trains(loss, terms)
        with clock:
            (share * loss).backward()
    loss, *parts_of_loss = processes.add_up(told, optimisation.parameters).tolist()
    if not math.isfinite(loss):
        bad = [name for name, part in zip(names, parts_of_loss, strict=True) if not math.isfinite(part)]
        where = f"at step {pieces.step + 1} of stage {STAGE} in term {' and '.join(bad or names)}"
        raise Diverged(f"the loss became {loss} {where}{why(objective)}")
    pieces.told.add(dict(zip(names, parts_of_loss, strict=True)))
    with clock:
        optimisation.update()
    return float(loss)


# ---------------------------------------------------------------- watching


class Watch:
    """Counts the tokens of all processes, and the time that they take."""

    def __init__(self, left: int):
        self.left, self.steps, self.tokens, self.began = left, 0, 0, time.perf_counter()
        self.saved, self.told = Timer(), Timer()

    def count(self, tokens: int) -> None:
        self.steps, self.tokens, self.left = self.steps + 1, self.tokens + tokens, self.left - 1

    def throughput(self) -> Entry:
        """Tokens and updates a second since training began or went on here."""
        seconds = max(time.perf_counter() - self.began, 1e-9)
        return {"tokens_per_second": self.tokens / seconds, "steps_per_second": self.steps / seconds}

    def report(self) -> Entry:
        """The speed so far, how long the rest will take at it, and the leading process's peak memory."""
        speed = self.throughput()
        left = self.left / max(speed["steps_per_second"], 1e-9)
        return {**speed, "seconds_left": left, "peak_memory_mib": machine.peak_memory()}
