"""What a plan and the ledger give a table: cell by cell, and how the numbers were made."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from harness.code_versions import changed, engine
from harness.contracts import AGREEMENT, CellResult, RunResult, Study, Task
from harness.files import digest
from harness.ledger import Ledger
from harness.planning.planned import Plan
from harness.planning.recipe import as_known
from harness.runs import CorpusDistillationRun
from harness.runs.settings import Settings
from harness.runs.told import Record
from harness.search.estimate import left
from harness.search.index import Index
from harness.search.progress import Finished, Lookup, Progress, progress


def replayed(plan: Plan, ledger: Ledger | None, whole: bool = False) -> list[Progress]:
    """The progress of every cell of the plan, in order; of one that cannot exist it is empty.

    whole: a run whose predictions are lost is missing, as it is for `harness run`.
    """
    # Models that are only counted have no ledger, so nothing has an index of them.
    replay = Index(ledger).progress if isinstance(ledger, Ledger) else progress
    lookup: Lookup = (ledger.whole if whole else ledger.read) if ledger else lambda run: None
    cells = plan.cells
    return [Progress() if cell.refused else replay(cell, plan.defaults, lookup) for cell in cells]


def how_far(plan: Plan, replays: Sequence[Progress]) -> tuple[str, ...]:
    """How many runs of cells are done, where some are missing."""
    found = {cell.search: (cell, one) for cell, one in zip(plan.cells, replays, strict=True) if not cell.refused}
    done = sum(len(one.trials) + max(len(one.seeds) - 1, 0) for _, one in found.values())
    more = sum(left(cell, one) for cell, one in found.values())
    return (f"Runs done: {done} of {done + more}",) if more else ()


def started_from(plan: Plan, replays: Sequence[Progress]) -> list[str]:
    """The runs that cells start from and that are not those of a cell, as a teacher with a row of its own is."""
    own = {done.run for found in replays for done in (*found.trials, *found.seeds)}
    own |= {run.identity(plan.defaults) for found in replays for run in found.missing}
    return [run for run in plan.first if run not in own]


def cell_results(plan: Plan, ledger: Ledger, replays: Sequence[Progress] | None = None) -> list[CellResult]:
    """Every cell of the plan with the finished runs that the ledger holds of it. replays: as `replayed` gives them."""
    rows = {row.name: row for row in plan.rows}
    results = []
    for cell, found in zip(plan.cells, replayed(plan, ledger) if replays is None else replays, strict=True):
        row = rows[cell.row]
        made = CellResult(cell.id, row, cell.student, cell.init, cell.task, metric=cell.metric, refused=cell.refused)
        made = replace(made, mark=cell.mark)
        if cell.refused:
            results.append(made)
            continue
        failures = {f.run: str(f.record["error"]) for f in (*found.trials, *found.seeds) if f.score is None}
        failures |= _failed_first(plan, ledger, cell.after)
        distilled = _distilled(plan, ledger, cell.after)
        seeds, trials = (
            tuple(_result(plan, f, cell.task, distilled, ledger) for f in runs if f.score is not None)
            for runs in (found.seeds, found.trials)
        )
        results.append(
            replace(
                made,
                seeds=seeds,
                trials=trials,
                wanted_seeds=cell.seeds,
                wanted_trials=found.wanted_trials,
                failures=failures,
            )
        )
    return results


def shown(study: Study, tasks: Mapping[str, Task], cells: Sequence[CellResult]) -> dict[str, tuple[str, ...]]:
    """The metrics that each task's columns show: the study's; where no cell is chosen by a label, agreement before.

    Of a task that has no labels at all it stands alone.
    """
    found = {}
    for name, task in tasks.items():
        metrics, of_task = study.shown(task), [cell for cell in cells if cell.task == name and not cell.refused]
        if of_task and all(cell.metric == AGREEMENT for cell in of_task):
            runs = [run for cell in of_task for run in cell.seeds]
            metrics = (AGREEMENT, *(m for m in metrics if not runs or any(m in run.metrics for run in runs)))
        found[name] = metrics
    return found


def unlabelled(plan: Plan) -> tuple[str, ...]:
    """What a table says of cells that are trained without labels."""
    if not any(cell.metric == AGREEMENT for cell in plan.cells if not cell.refused):
        return ()
    return (
        "Without labels, none is trained or chosen by: the teacher's answers stand for them. Agreement is the share of "
        "examples that are answered as the teacher does, or Spearman's correlation with its scores; other metrics are "
        "of the labels of dev.",
    )


def _distilled(plan: Plan, ledger: Ledger, runs: Sequence[str]) -> Mapping[str, float]:
    """What the corpus distillation among these runs scored on held-out text."""
    for run in runs:
        if isinstance(plan.first[run].run, CorpusDistillationRun):
            metrics: Mapping[str, float] = (ledger.read(run) or {}).get("metrics", {})
            return metrics
    return {}


def _result(plan: Plan, finished: Finished, task: str, distilled: Mapping[str, float], ledger: Ledger) -> RunResult:
    kept = _Predictions(ledger, finished.run, task)
    record = {**finished.record, "predictions": kept.beside_labels, "teacher": kept.beside_teacher}
    return RunResult(
        finished.run,
        finished.made.seed or 0,
        as_known(plan, finished.hyperparameters),
        {**_derived(finished.record, finished.made.settings), **distilled, **finished.record["metrics"]},
        float(finished.record["selection"]),
        record,
    )


def _derived(record: Record, settings: Settings) -> dict[str, float]:
    """What follows from a record: sizes in millions, and the seconds that the rounds of a speed measurement take."""
    found = {**record, **record["metrics"]}
    sizes = {
        "millions_of_parameters": found.get("parameters"),
        "millions_without_embeddings": found.get("parameters_without_embeddings"),
    }
    made = {name: size / 1e6 for name, size in sizes.items() if size is not None}
    if "sentences_per_second" in found:
        made["seconds"] = settings["batch_size"] * settings["rounds"] / found["sentences_per_second"]
    return made


@dataclass
class _Predictions:
    """What is kept of a run's answers on a task; read when it is asked for."""

    ledger: Ledger
    run: str
    task: str

    def beside_labels(self) -> Any:
        """(ids, predictions, labels), (N,) each, or None."""
        return self._beside("labels")

    def beside_teacher(self) -> Any:
        """(ids, predictions, what the teacher answers), (N,) each, or None."""
        return self._beside("teacher")

    def _beside(self, what: str) -> Any:
        part = "" if "ids" in self._found else f"{self.task}/"  # a run on several tasks keeps those of each
        names = [f"{part}{name}" for name in ("ids", "predictions", what)]
        return tuple(self._found[name] for name in names) if {*names} <= self._found.keys() else None

    @functools.cached_property
    def _found(self) -> Any:
        return self.ledger.predictions(self.run) or {}


def _failed_first(plan: Plan, ledger: Ledger, runs: Sequence[str]) -> dict[str, str]:
    """run -> error, of the runs that a cell starts from and that could not be made."""
    failed: dict[str, str] = {}
    for run in runs:
        first = plan.first[run]
        record = ledger.read(run)
        if record is not None and record["status"] == "failed":
            failed[run] = f"{first.run.role} failed: {record['error']}"
        failed |= _failed_first(plan, ledger, first.after)
    return failed


def teacher_scores(plan: Plan, ledger: Ledger) -> dict[str, list[Mapping[str, float]]]:
    """task -> the scores on the dev split of the teacher, by its seeds, where all of them are finished."""
    scores = {}
    for task, run in plan.teachers.items():
        records = [ledger.read(each) or {"status": "waiting"} for each in _same_but_seed(plan, run)]
        if all(record["status"] == "finished" for record in records):
            scores[task] = [record.get("by_task", {}).get(task, record)["metrics"] for record in records]
    return scores


def _same_but_seed(plan: Plan, run: str) -> list[str]:
    """The runs that differ from one of plan.first in the seed alone, by seed, that one among them."""
    wanted = replace(plan.first[run].run, seed=0)
    alike = [name for name, first in plan.first.items() if replace(first.run, seed=0) == wanted]
    return sorted(alike, key=lambda name: plan.first[name].run.seed or 0)


def teachers(plan: Plan) -> int:
    """How many teachers the seeds of a cell learn from: one for each or 1 for all; 0 where none learns from any."""
    runs = [cell for cell in plan.cells if isinstance(cell.run.learns_from, str)]
    return max((len(cell.teachers) or 1 for cell in runs if not cell.refused), default=0)


def coverage(plan: Plan, replays: Sequence[Progress]) -> tuple[str, ...]:
    """Sentences on how much of the vocabulary the files of vectors cover that students start from."""
    said: dict[str, None] = {}
    for cell, found in zip(plan.cells, replays, strict=True):
        for run in found.trials:
            started = run.record.get("initialisation", {})
            if "coverage" in started:
                share = f"{100 * started['coverage']:.1f}% of the vocabulary"
                said[f"Init {cell.init} gives {cell.student} the {started['filled']} of {share}."] = None
    return tuple(said)


def pruned(replays: Sequence[Progress]) -> tuple[str, ...]:
    """Sentences on how many trials the pruners stopped early; none where no pruner was asked for."""
    made: Counter[str] = Counter()
    stopped: Counter[str] = Counter()
    trials = {trial.run: trial for found in replays for trial in found.trials}  # cells may share runs
    for trial in trials.values():
        name = trial.made.settings["pruner"]
        made[name] += 1
        stopped[name] += bool(trial.record.get("pruned"))
    del made["none"]
    return tuple(
        f"{stopped[name]} of {count} trials {'was' if stopped[name] == 1 else 'were'} stopped early by the {name} "
        "pruner, and cannot be chosen."
        for name, count in sorted(made.items())
    )


def older_code(plan: Plan, read: Lookup, replays: Sequence[Progress]) -> list[str]:
    """Sentences such as "3 cells were made with another version of att_kl" for what changed since the runs.

    read: the record of a run.
    """
    made: Counter[str] = Counter()
    of_run: dict[str, set[str]] = {}  # cells may share runs
    for found in replays:
        names: set[str] = set()
        for run in (*found.trials, *found.seeds):
            if run.run not in of_run:
                of_run[run.run] = changed(run.record, read, plan.origins)
            names |= of_run[run.run]
        if names:
            made[_listed(names)] += 1
    return [
        f"{count} cell{'s were' if count > 1 else ' was'} made with another version of {what}"
        for what, count in sorted(made.items())
    ]


def _listed(names: set[str]) -> str:
    """ "a, b and c"; all parts of the engine together are harness."""
    listed = sorted(names - set(engine()) | {"harness"} if names >= set(engine()) else names)
    return " and ".join(filter(None, (", ".join(listed[:-1]), listed[-1])))


def other_weights(replays: Sequence[Progress], ledger: Ledger) -> tuple[str, ...]:
    """Sentences on the cells that started from weights of a run which has other ones now."""
    changed: Counter[str] = Counter()
    now: dict[str, str] = {}
    for found in replays:
        runs = (*found.trials, *found.seeds)
        started = {start for run in runs for start in run.record.get("started_from", {}).items()}
        now |= {run: digest((ledger.read(run) or {}).get("weights"))[:16] for run in dict(started) if run not in now}
        changed.update({run for run, was in started if now[run] != was})
    return tuple(
        f"{count} cell{'s' * (count > 1)} started from weights of run {run} that were lost; it was made again, with "
        "other ones."
        for run, count in sorted(changed.items())
    )
