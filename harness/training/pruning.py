"""Whether a trial is stopped early: Optuna's pruners, asked as by a search that ran one trial after another."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from harness.runs import Run
from harness.runs.settings import PRUNERS

if TYPE_CHECKING:
    import optuna


def pruner(run: Run) -> Callable[[Sequence[float]], bool]:
    """should_prune(the selection scores of all epochs so far) of a run, by the pruner that its settings name.

    `curves_before` holds the curves of the cell's earlier trials in order. They are replayed, so that the
    decision follows from what the run is: wherever, whenever and in however many pieces it is trained. A trial that
    has all its epochs is never stopped: it stays a candidate.
    """
    settings, before = run.settings, run.curves_before
    if settings["pruner"] not in PRUNERS or not before:
        return lambda scores: False
    import optuna

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    epochs, (_, made) = settings["epochs"], PRUNERS[settings["pruner"]]
    study = optuna.create_study(
        study_name="search",  # Hyperband draws a trial's bracket from this name and the trial's number
        direction="maximize",
        sampler=optuna.samplers.RandomSampler(seed=0),  # nothing is sampled
        pruner=made(optuna.pruners, epochs),
    )
    for curve in before:
        trial = study.ask()
        if _follow(trial, epochs)(curve):
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        else:
            study.tell(trial, max(curve, default=0.0))  # no pruner looks at it
    return _follow(study.ask(), epochs)


def _follow(trial: optuna.Trial, epochs: int) -> Callable[[Sequence[float]], bool]:
    """should_prune of one trial. It reports what it has not yet reported: a run that was killed goes on in the middle.

    Steps count from 0, as Optuna's pruners assume. Each is asked about, because Hyperband keeps a trial's rungs then.
    """
    reported = 0

    def should_prune(scores: Sequence[float]) -> bool:
        nonlocal reported
        stop = False
        for step in range(reported, len(scores)):
            trial.report(scores[step], step)
            stop = trial.should_prune()
        reported = len(scores)
        return stop and len(scores) < epochs

    return should_prune
