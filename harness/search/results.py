"""What a plan and the ledger give a table: cell by cell, and how the numbers were made."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from harness.contracts import CellResult, Row, RunResult
from harness.ledger import Ledger, identity
from harness.search.progress import Finished, progress
from harness.search.proposals import is_grid, size
from harness.training.code_versions import fingerprint

Plan = Mapping[str, Any]


def cell_results(plan: Plan, ledger: Ledger) -> list[CellResult]:
    """Every cell of the plan with the finished runs that the ledger holds of it."""
    rows = {row["name"]: Row(**row) for row in plan["rows"]}
    broken = _failed_teachers(plan, ledger)
    results = []
    for cell in plan["cells"]:
        common = {
            "cell": cell["id"],
            "row": rows[cell["row"]],
            "student": cell["student"],
            "init": cell["init"],
            "task": cell["task"],
            "metric": cell["metric"],
            "refused": cell["refused"],
        }
        if cell["refused"]:
            results.append(CellResult(**common))
            continue
        found = progress(cell, plan["defaults"], ledger.read)
        seeds = [f for f in found.seeds if f.score is not None]
        failures = {f.run: str(f.record["error"]) for f in (*found.trials, *found.seeds) if f.score is None}
        failures |= broken.get(cell["task"], {})
        results.append(
            CellResult(
                **common,
                seeds=tuple(_result(f, ledger) for f in seeds),
                trials=tuple(_result(f, ledger) for f in found.trials if f.score is not None),
                wanted_seeds=cell["seeds"],
                wanted_trials=found.wanted_trials,
                failures=failures,
            )
        )
    return results


def _result(finished: Finished, ledger: Ledger) -> RunResult:
    record = {**finished.record, "predictions": _predictions(ledger, finished.run)}
    return RunResult(
        finished.run,
        finished.specification["seed"],
        finished.hyperparameters,
        finished.record["metrics"],
        float(finished.record["selection"]),
        record,
    )


def _predictions(ledger: Ledger, run: str) -> Callable[[], Any]:
    @functools.lru_cache(maxsize=1)
    def read() -> Any:
        found = ledger.predictions(run)
        return None if found is None else (found["ids"], found["predictions"], found["labels"])

    return read


def _failed_teachers(plan: Plan, ledger: Ledger) -> dict[str, dict[str, str]]:
    """task -> {run: error} for teachers that could not be made."""
    failed: dict[str, dict[str, str]] = {}
    for task, runs in plan["teachers"].items():
        for specification in runs:
            run = identity(specification, plan["defaults"])
            record = ledger.read(run)
            if record is not None and record["status"] == "failed":
                failed.setdefault(task, {})[run] = f"its teacher failed: {record['error']}"
    return failed


def teacher_scores(plan: Plan, ledger: Ledger) -> dict[str, tuple[float, int]]:
    """task -> (the teacher's own score on the dev split, 1) where the teacher is finished."""
    scores = {}
    for task, runs in plan["teachers"].items():
        record = ledger.read(identity(runs[-1], plan["defaults"]))
        if record is not None and record["status"] == "finished":
            scores[task] = (float(record["metrics"][runs[-1]["metric"]]), 1)
    return scores


def protocol(plan: Plan) -> str:
    return str(_settings(plan)["protocol"])


def budget(plan: Plan) -> str:
    """The search budget of every cell, as a sentence."""
    cell = _cells(plan)[0]
    space, trials, seeds = cell["space"], cell["trials"], cell["seeds"]
    count = size(space)
    if count is not None:
        trials = min(trials, count)
    over = ", ".join(f"{name} {_range(values)}" for name, values in space.items())
    how = f"of a grid of {count}" if is_grid(space) else "proposed by TPE"
    searched = f"{trials} trial{'s' * (trials > 1)} {how} ({over})" if space else "no search"
    return f"{searched}, {seeds} seed{'s' * (seeds > 1)}, the same for every cell"


def _range(values: Any) -> str:
    if isinstance(values, list):
        return " or ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values)
    return f"{values['low']:g} to {values['high']:g}"


def recipe(plan: Plan) -> str:
    """The training settings that all cells share, and those that differ by task."""
    varied: dict[str, set[Any]] = {}
    searched = {name for cell in _cells(plan) for name in cell["space"]}
    for cell in _cells(plan):
        for name, value in cell["specification"]["settings"].items():
            if name not in searched and name not in ("protocol", "cache_gib"):
                varied.setdefault(name, set()).add(value)
    double = {row["name"] for row in plan["rows"] if row["equal_epochs"]}
    varied["epochs"] = {
        c["specification"]["settings"]["epochs"] for c in _cells(plan) if c["row"] not in double
    } or varied["epochs"]
    shared = [f"{name} {_number(next(iter(values)))}" for name, values in sorted(varied.items()) if len(values) == 1]
    tasks = []
    for name in sorted(n for n, values in varied.items() if len(values) > 1):
        by_task = {
            c["task"]: _number(c["specification"]["settings"].get(name)) for c in _cells(plan) if c["row"] not in double
        }
        tasks.append(f"{name} " + ", ".join(f"{value} ({task})" for task, value in by_task.items()))
    return "; ".join([f"procedure {_cells(plan)[0]['specification']['procedure']}", *shared, *tasks])


def _number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


def older_code(plan: Plan, ledger: Ledger, origins: Mapping[str, str]) -> list[str]:
    """Sentences such as "3 cells were made with another version of att_kl" for what changed since the runs.

    origins: plugin name (or "training") -> its file as it is now.
    """
    changed: Counter[str] = Counter()
    for cell in _cells(plan):
        found = progress(cell, plan["defaults"], ledger.read)
        made = {
            (name, code) for run in (*found.trials, *found.seeds) for name, code in run.record.get("code", {}).items()
        }
        changed.update({name for name, code in made if name in origins and fingerprint(origins[name]) != code})
    return [
        f"{count} cell{'s were' if count > 1 else ' was'} made with another version of {name}"
        for name, count in sorted(changed.items())
    ]


def _cells(plan: Plan) -> list[dict[str, Any]]:
    return [c for c in plan["cells"] if not c["refused"]] or list(plan["cells"])


def _settings(plan: Plan) -> dict[str, Any]:
    settings: dict[str, Any] = _cells(plan)[0]["specification"]["settings"]
    return settings
