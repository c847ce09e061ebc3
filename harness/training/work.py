"""What a run is performed with."""

from __future__ import annotations

from dataclasses import dataclass, field

from harness.runs import Run
from harness.training import machine
from harness.training.checkpoints import checkpoint_of
from harness.training.loop import Clock, Regime, Tell
from harness.training.pruning import pruner
from harness.training.workspace import Workspace


@dataclass(frozen=True)
class Work:
    """workspace: where a run finds what it needs; tell: is called after each epoch; clock: the models' own seconds."""

    workspace: Workspace
    tell: Tell
    clock: Clock = field(default_factory=Clock)

    def regime(self, run: Run) -> Regime:
        """What the run is trained by."""
        return Regime(
            run.settings,
            run.seed or 0,
            machine.device(),
            checkpoint_of(run, self.workspace),
            self.clock,
            self.tell,
            pruner(run),
        )
