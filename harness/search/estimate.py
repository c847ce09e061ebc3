"""How long a plan may take: from runs like it in the ledger where there are any, otherwise from arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import mean

from harness.data.tasks import get_task
from harness.files import JSON
from harness.planning.planned import Cell, Plan
from harness.runs import SpeedRun
from harness.search.progress import Progress

RATE = 2e10  # operations a second of one CPU core on these models: an order of magnitude, no promise
TOKENS = 32  # a typical sentence or pair


def estimate(plan: Plan, replays: Sequence[Progress], missing: int, workers: int) -> str:
    """A sentence on the time that `missing` runs would take. replays: the progress of every cell."""
    if not missing:
        return "time: nothing is missing"
    runs = [run for found in replays for run in (*found.trials, *found.seeds[1:])]
    seconds = [float(run.record["seconds"]) for run in runs if run.score is not None]
    how = f"mean of {len(seconds)} finished runs" if seconds else "from sizes alone: an order of magnitude"
    seconds = seconds or [_arithmetic(cell, plan) for cell in plan.cells if not cell.refused]
    about, who = _words(mean(seconds) * missing / workers), f"{workers} worker{'s' * (workers > 1)}"
    aside = "" if not plan.trains else ", teachers and distillations on a corpus aside"
    return f"time: about {about} with {who} ({how}){aside}"


def _arithmetic(cell: Cell, plan: Plan) -> float:
    """Seconds of one run: 6 operations a parameter and token, for forward and backward."""
    settings = cell.run.settings
    if isinstance(cell.run, SpeedRun):
        return float(settings["rounds"] * _round(cell.run))
    if "epochs" not in settings:
        return 1.0  # a cell that counts, or compares vectors
    examples = settings["train_examples"] or plan.examples[cell.task] or get_task(cell.task).examples
    parameters = 12 * cell.size["layers"] * cell.size["width"] ** 2
    tokens = min(TOKENS, settings["max_length"]) * examples * settings["epochs"] * cell.stages
    return float(6 * parameters * tokens / RATE)


def _round(run: SpeedRun) -> float:
    """Seconds of one round of a measurement: a turn of the model and one of the reference.

    A turn takes about TURN_SECONDS on whatever machine, or as long as a batch, of 2 operations a parameter and token
    on a processor. Of a student, whose size is not known here, the least is taken.
    """
    from harness.evaluation.speed import TURN_SECONDS
    from harness.training.machine import device

    settings, shapes = run.settings, [run.reference]
    shapes += [] if run.student else [run.configuration]
    sentences = settings["batch_size"] * (2 if get_task(run.task).pair else 1)
    operations = [2 * _parameters(shape) * sentences * settings["max_length"] for shape in shapes]
    batches = [work / RATE if device().type == "cpu" else 0.0 for work in operations]
    return sum(max(TURN_SECONDS, batch) for batch in [*batches, *[0.0] * (2 - len(batches))])


def _parameters(shape: JSON) -> float:
    """Roughly those of an encoder's layers."""
    return float(12 * shape.get("num_hidden_layers", 0) * shape.get("hidden_size", 0) ** 2)


def _words(seconds: float) -> str:
    for unit, name in ((86400, "days"), (3600, "hours"), (60, "minutes")):
        if seconds >= 2 * unit:
            return f"{seconds / unit:.1f} {name}"
    return f"{seconds:.0f} seconds"
