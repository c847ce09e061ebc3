"""The runs of a plan, a row a run: tables, long forms and comparisons are made from them. Loads no torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, partial
from typing import TYPE_CHECKING, Any

from harness.contracts import CellResult, RunResult
from harness.ledger import Ledger
from harness.planning.planned import Cell, Plan, all_trials_of, waited_for
from harness.planning.recipe import as_known
from harness.planning.space import default_sampler
from harness.runs import CorpusDistillationRun, RunId
from harness.search.progress import Finished, Progress, by_search
from harness.search.proposals import distributions
from harness.search.results import replayed

if TYPE_CHECKING:
    import numpy as np
    import pandas

FrameRow = Mapping[str, Any]  # column -> value
# Of a record, beside its metrics; seconds are those of the whole run, model_seconds those spent in the model.
MEASURED = ("seconds", "model_seconds", "peak_memory_mib", "parameters", "parameters_without_embeddings", "device")
INNER = (
    *("part", "refused", "wanted_trials", "wanted_seeds", "by_seed", "space", "distributions", "sampler"),
    *("hyperparameters", "record", "settings", "metrics"),
)


def frame(plan: Plan, ledger: Ledger) -> pandas.DataFrame:
    """Every run of the plan's cells that the ledger holds, in the plan's order: the long form of `runs`.

    Axes, then what became of the run, then its settings as --set spells them and its metrics by name, as fractions. A
    run that several cells share, as one on several tasks, has a row in each. trial: its number in the search of its
    seed, missing for further seeds; chosen: it counts for the table; metric: what its cell is chosen by, and score its
    value on dev.
    """
    return spread(runs(plan, ledger))


def runs(plan: Plan, ledger: Ledger, replays: Sequence[Progress] | None = None) -> list[FrameRow]:
    """The rows that all results are in, cell by cell in the plan's order; one without runs has a row with none.

    replays: as `replayed` gives them. Beyond the long form's columns, part: "trial", "seed" (a further one of the best
    setting), "before" (a failed run that the cell starts from) or "" (no run); refused, wanted_trials, wanted_seeds,
    by_seed (each seed has a search), space (setting -> what is searched), distributions (gives it in Optuna's terms),
    sampler (grid, random or tpe): of the cell; settings: gives those of the run; record: of the run, with its
    predictions.
    """
    replays = replayed(plan, ledger) if replays is None else replays
    return [row for cell, found in zip(plan.cells, replays, strict=True) for row in _rows(plan, ledger, cell, found)]


def spread(runs: Sequence[Mapping[str, Any]]) -> pandas.DataFrame:
    """The long form: the rows that are runs of their cell, with a column for each setting and metric."""
    import pandas

    rows = []
    for row in runs:
        if row["part"] in ("trial", "seed"):
            told = {name: value for name, value in row.items() if name not in INNER}
            # A row's names come once: a setting or a metric that has that of another column says what it is. By name,
            # as a plan that was worked out now and one that was read have their settings in other orders.
            for kind, values in {"setting": row["settings"](), "metric": row["metrics"]}.items():
                told |= {f"{kind}.{name}" if name in told else name: v for name, v in sorted(values.items())}
            rows.append(told)
    columns = list(dict.fromkeys(name for row in rows for name in row))
    made = pandas.DataFrame(rows, columns=columns or ["study", "profile", "cell", "run"])
    return made.astype({"trial": "Int64"}) if "trial" in made else made


def cells(plan: Plan, runs: Sequence[FrameRow]) -> list[CellResult]:
    """What `runs` says of every cell of the plan, in order."""
    rows = {row.name: row for row in plan.rows}
    of_place: dict[tuple[str, ...], list[FrameRow]] = {}  # not by id: rows may share a cell
    for told in runs:
        of_place.setdefault((told["row"], told["student"], told["init"], told["task"]), []).append(told)
    made = []
    for cell in plan.cells:
        found = of_place[cell.row, cell.student, cell.init, cell.task]
        done = [(one, _result(one)) for one in found if one["status"] == "finished"]
        failed = [one for one in found if one["status"] == "failed"]
        made.append(
            CellResult(
                cell.id,
                rows[cell.row],
                cell.student,
                cell.init,
                cell.task,
                metric=cell.metric,
                refused=cell.refused,
                seeds=tuple(result for one, result in done if one["chosen"]),
                trials=tuple(result for one, result in done if one["part"] == "trial"),
                wanted_seeds=found[0]["wanted_seeds"],
                wanted_trials=found[0]["wanted_trials"],
                searched_by_seed=found[0]["by_seed"],
                failures={one["run"]: one["error"] for one in failed if one["part"] != "before"},
                mark=cell.mark,
                before={one["run"]: one["error"] for one in failed if one["part"] == "before"},
            )
        )
    return made


def _result(row: FrameRow) -> RunResult:
    return RunResult(
        row["run"], row["seed"], row["hyperparameters"], row["metrics"], float(row["selection"]), row["record"]
    )


def _rows(plan: Plan, ledger: Ledger, cell: Cell, found: Progress) -> Iterator[FrameRow]:
    """The rows of a cell: its trials, the further seeds, the failed runs that it starts from; otherwise one of none."""
    none = _none(plan, cell)
    if cell.refused:
        yield none
        return
    distilled, rows = _distilled(plan, ledger, cell.after), list[FrameRow]()
    chosen = {id(run) for run in found.seeds}
    for seed, trials in by_search(cell, found).items():
        for number, run in enumerate(trials):
            part = {"part": "trial", "trial": number, "seed": seed, "chosen": id(run) in chosen}
            rows.append({**none, **_row(plan, ledger, cell, run, distilled), **part})
    for run in found.further:
        part = {"part": "seed", "seed": run.made.seed, "chosen": True}
        rows.append({**none, **_row(plan, ledger, cell, run, distilled), **part})
    failed = _failed_first(plan, ledger, cell.after).items()
    rows += [{**none, "status": "failed", "part": "before", "run": run, "error": error} for run, error in failed]
    yield from rows or [none]


def _none(plan: Plan, cell: Cell) -> FrameRow:
    """A row of a cell with all its columns, but without a run."""
    row, exists = next(row for row in plan.rows if row.name == cell.row), not cell.refused
    return {
        "study": plan.study,
        "profile": plan.profile,
        "teacher": plan.label,
        "cell": cell.id,
        "row": cell.row,
        "objective": row.objective,
        "procedure": cell.run.by_procedure and (row.procedure or plan.procedure),  # the run's is that on the task
        "student": cell.student,
        "init": cell.init,
        "task": cell.task,
        "run": None,
        "seed": None,
        "trial": None,
        "chosen": False,
        "status": "waiting" if exists else "impossible",
        "error": None,
        "pruned": False,
        "epoch": None,
        "metric": cell.metric,
        "score": None,
        "selection": None,
        **dict.fromkeys((*MEASURED, *INNER)),
        "part": "",
        "refused": cell.refused,
        "wanted_trials": all_trials_of(cell) if exists else 0,
        "wanted_seeds": cell.seeds if exists else 0,
        "by_seed": cell.searched_by_seed,
        "space": as_known(plan, cell.space),
        "distributions": lambda: distributions(as_known(plan, cell.space)),
        "sampler": cell.sampler or default_sampler(cell.space),
    }


def _row(plan: Plan, ledger: Ledger, cell: Cell, run: Finished, distilled: Mapping[str, float]) -> FrameRow:
    """What the row of a run has beside that of none."""
    record, score, kept = run.record, run.score, _kept(ledger, run.run, cell.task)
    metrics = {} if score is None else {**_derived(run), **distilled, **record["metrics"]}
    return {
        "status": "failed" if score is None else "finished",
        "run": run.run,
        "error": str(record["error"]) if score is None else None,
        "pruned": bool(record.get("pruned")),
        "epoch": (record.get("best") or {}).get("epoch"),
        "score": metrics.get(cell.metric),
        "selection": score,
        **{name: record.get(name) for name in MEASURED},
        "settings": lambda: as_known(plan, run.made.settings),
        "hyperparameters": as_known(plan, run.hyperparameters),
        "metrics": metrics,
        "record": record | {"predictions": partial(kept, "labels"), "teacher": partial(kept, "teacher")},
    }


def _distilled(plan: Plan, ledger: Ledger, runs: Sequence[str]) -> Mapping[str, float]:
    """What the corpus distillation among these runs scored on held-out text."""
    for run in runs:
        if isinstance(plan.first[run].run, CorpusDistillationRun):
            return (ledger.read(run) or {}).get("metrics", {})
    return {}


def _derived(run: Finished) -> dict[str, float]:
    """What follows from a record: sizes in millions, and the seconds that the rounds of a speed measurement take."""
    record, metrics, made = run.record, run.record["metrics"], dict[str, float]()
    for name, size in (("parameters", "of_parameters"), ("parameters_without_embeddings", "without_embeddings")):
        if (found := metrics.get(name, record.get(name))) is not None:
            made[f"millions_{size}"] = found / 1e6
    if speed := metrics.get("sentences_per_second", record.get("sentences_per_second")):
        made["seconds"] = run.made.settings["batch_size"] * run.made.settings["rounds"] / speed
    return made


def _kept(ledger: Ledger, run: RunId, task: str) -> Callable[[str], Any]:
    """What gives a run's (ids, predictions, "labels" or what the "teacher" answers), (N,) each, or None.

    The file is read when it is asked for, once.
    """
    read = cache(lambda: answers(ledger, run, task))

    def beside(what: str) -> Any:
        names = ("ids", "predictions", what)
        return tuple(read()[name] for name in names) if {*names} <= read().keys() else None

    return beside


def answers(ledger: Ledger, run: RunId, task: str) -> Mapping[str, np.ndarray]:
    """What a run keeps of its answers to a task, by name, (N,) or (N, C) each; nothing where it keeps none."""
    kept, part = ledger.predictions(run) or {}, f"{task}/"  # a run on several tasks keeps those of each
    return kept if "ids" in kept else {name.removeprefix(part): kept[name] for name in kept if name.startswith(part)}


def _failed_first(plan: Plan, ledger: Ledger, runs: Sequence[str]) -> dict[str, str]:
    """run -> error, of the runs that a cell starts from and that could not be made."""
    failed: dict[str, str] = {}
    for run, first in waited_for(plan.first, runs).items():
        record = ledger.read(run)
        if record is not None and record["status"] == "failed":
            failed[run] = f"{first.run.role} failed: {record['error']}"
    return failed
