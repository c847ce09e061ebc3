"""The runs of a plan in long form: a row a run, as pandas takes it. Loads no torch."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from harness.ledger import Ledger
from harness.planning.planned import Cell, Plan
from harness.search.progress import Finished
from harness.search.results import cell_results, replayed

if TYPE_CHECKING:
    import pandas

# Of a record, beside its metrics; seconds are those of the whole run, model_seconds those spent in the model.
MEASURED = ("seconds", "model_seconds", "peak_memory_mib", "parameters", "parameters_without_embeddings", "device")


def frame(plan: Plan, ledger: Ledger) -> pandas.DataFrame:
    """Every run of the plan's cells that the ledger holds, in the plan's order.

    Axes, then what became of the run, then its settings as --set spells them and its metrics by name, as fractions. A
    run that several cells share, as one on several tasks, has a row in each. trial: its number in the search, missing
    for further seeds; chosen: it counts for the table; metric: what its cell is chosen by, and score its value on dev.
    """
    import pandas

    replays = replayed(plan, ledger)
    rows = []
    for cell, found, result in zip(plan.cells, replays, cell_results(plan, ledger, replays), strict=True):
        metrics = {run.run: run.metrics for run in (*result.trials, *result.seeds)}
        chosen = {run.run for run in found.seeds}
        trials = [(number, run) for number, run in enumerate(found.trials)]
        for number, run in [*trials, *((None, run) for run in found.seeds[1:])]:
            rows.append(_row(plan, cell, run, number, metrics.get(run.run, {}), run.run in chosen))
    columns = list(dict.fromkeys(name for row in rows for name in row))
    made = pandas.DataFrame(rows, columns=columns or ["study", "profile", "cell", "run"])
    return made.astype({"trial": "Int64"}) if "trial" in made else made


def _row(plan: Plan, cell: Cell, run: Finished, trial: int | None, metrics: Any, chosen: bool) -> dict[str, Any]:
    record = run.record
    told = {
        "study": plan.study,
        "profile": plan.profile,
        "teacher": plan.label,
        "cell": cell.id,
        "row": cell.row,
        "objective": " ".join(run.made.expressions()[-1:]),
        "procedure": run.made.by_procedure,
        "student": cell.student,
        "init": cell.init,
        "task": cell.task,
        "run": run.run,
        "seed": run.made.seed or 0,
        "trial": trial,
        "chosen": chosen,
        "status": record["status"],
        "error": record.get("error"),
        "pruned": bool(record.get("pruned")),
        "epoch": (record.get("best") or {}).get("epoch"),
        "metric": cell.metric,
        "score": metrics.get(cell.metric),
        "selection": run.score,
    } | {name: record.get(name) for name in MEASURED}
    # A row's names come once: a setting or a metric that has that of another column says what it is.
    settings = {f"setting.{name}" if name in told else name: value for name, value in run.made.settings.items()}
    told |= settings
    return told | {f"metric.{name}" if name in told else name: value for name, value in metrics.items()}
