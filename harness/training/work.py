"""What a run is performed with."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.runs import Run
from harness.training import machine
from harness.training.checkpoints import checkpoint_of
from harness.training.loop import Clock, Regime, Tell
from harness.training.place import Place
from harness.training.pruning import pruner


@dataclass(frozen=True)
class Work:
    """place: where the run finds what it needs; tell: is called after each epoch; clock: the models' own seconds."""

    place: Place
    tell: Tell
    clock: Clock = field(default_factory=Clock)

    def regime(self, run: Run) -> Regime:
        """What the run is trained by."""
        return Regime(
            run.settings,
            run.seed or 0,
            machine.device(),
            checkpoint_of(run, self.place),
            self.clock,
            self.tell,
            pruner(run),
        )
