"""What a plan and the ledger give a table: cell by cell, and how the numbers were made."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harness.contracts import CellResult, Row, RunResult
from harness.files import digest
from harness.hyperparameters import complement
from harness.ledger import Ledger, identity
from harness.search.index import Index
from harness.search.progress import Finished, Lookup, Progress, progress, trials_of
from harness.search.proposals import is_grid, size
from harness.search.settings import idle as idle_settings
from harness.training.code_versions import changed, engine
from harness.training.settings import ON_MASKED_TEXT

Plan = Mapping[str, Any]
NAMES = {
    "pretraining": "the teacher's pre-training",
    "teacher": "its teacher",
    "masked_teacher": "the teacher's masked-language-model head",
    "general": "its general distillation",
    "multi_task_teacher": "the teacher of several tasks",
    "multi_task": "its distillation on several tasks",
}


def replayed(plan: Plan, ledger: Ledger | None, whole: bool = False) -> list[Progress]:
    """The progress of every cell of the plan, in order; of one that cannot exist it is empty.

    whole: a run whose predictions are lost is missing, as it is for `harness run`.
    """
    # Models that are only counted have no ledger, so nothing has an index of them.
    replay = Index(ledger).progress if isinstance(ledger, Ledger) else progress
    lookup: Lookup = (ledger.whole if whole else ledger.read) if ledger else lambda run: None
    cells = plan["cells"]
    return [Progress() if c["refused"] else replay(c, plan["defaults"], lookup) for c in cells]


def started_from(plan: Plan, replays: Sequence[Progress]) -> list[str]:
    """The runs that cells start from and that are not those of a cell, as a teacher with a row of its own is."""
    own = {done.run for found in replays for done in (*found.trials, *found.seeds)}
    own |= {identity(specification, plan["defaults"]) for found in replays for specification in found.missing}
    return [run for run in plan["first"] if run not in own]


def cell_results(plan: Plan, ledger: Ledger, replays: Sequence[Progress] | None = None) -> list[CellResult]:
    """Every cell of the plan with the finished runs that the ledger holds of it. replays: as `replayed` gives them."""
    rows = {row["name"]: Row(**row) for row in plan["rows"]}
    results = []
    for cell, found in zip(plan["cells"], replayed(plan, ledger) if replays is None else replays, strict=True):
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
        failures = {f.run: str(f.record["error"]) for f in (*found.trials, *found.seeds) if f.score is None}
        failures |= _failed_first(plan, ledger, cell["after"])
        distilled = _distilled(plan, ledger, cell["after"])
        seeds, trials = (
            tuple(_result(plan, f, cell["task"], distilled, ledger) for f in runs if f.score is not None)
            for runs in (found.seeds, found.trials)
        )
        results.append(
            CellResult(
                **common,
                seeds=seeds,
                trials=trials,
                wanted_seeds=cell["seeds"],
                wanted_trials=found.wanted_trials,
                failures=failures,
            )
        )
    return results


def as_known(plan: Plan, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings, or the dimensions of a space, by the names that people know where records have older ones."""
    found = {}
    for key, value in settings.items():
        name, complements = plan.get("shown", {}).get(key, (key, False))
        found[name] = _complement(value) if complements else value
    return found


def _complement(value: Any) -> Any:
    if isinstance(value, list):
        return [complement(one) for one in value]
    if isinstance(value, Mapping):
        return {**value, "low": complement(value["high"]), "high": complement(value["low"])}
    return complement(value)


def _distilled(plan: Plan, ledger: Ledger, runs: Sequence[str]) -> Mapping[str, float]:
    """What the general distillation among these runs scored on held-out text."""
    for run in runs:
        if plan["first"][run]["specification"]["kind"] == "general":
            metrics: Mapping[str, float] = (ledger.read(run) or {}).get("metrics", {})
            return metrics
    return {}


def _result(plan: Plan, finished: Finished, task: str, distilled: Mapping[str, float], ledger: Ledger) -> RunResult:
    record = {**finished.record, "predictions": _Predictions(ledger, finished.run, task)}
    return RunResult(
        finished.run,
        finished.specification["seed"],
        as_known(plan, finished.hyperparameters),
        {**_derived(finished.record, finished.specification["settings"]), **distilled, **finished.record["metrics"]},
        float(finished.record["selection"]),
        record,
    )


def _derived(record: Mapping[str, Any], settings: Mapping[str, Any]) -> dict[str, float]:
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
    """The (ids, predictions, labels) of a run on a task, (N,) each, or None; read when they are asked for."""

    ledger: Ledger
    run: str
    task: str

    def __call__(self) -> Any:
        return self._found

    @functools.cached_property
    def _found(self) -> Any:
        found = self.ledger.predictions(self.run)
        if found is None:
            return None
        part = "" if "ids" in found else f"{self.task}/"  # a run on several tasks keeps those of each
        return tuple(found[f"{part}{name}"] for name in ("ids", "predictions", "labels"))


def _failed_first(plan: Plan, ledger: Ledger, runs: Sequence[str]) -> dict[str, str]:
    """run -> error, of the runs that a cell starts from and that could not be made."""
    failed: dict[str, str] = {}
    for run in runs:
        first = plan["first"][run]
        record = ledger.read(run)
        if record is not None and record["status"] == "failed":
            failed[run] = f"{NAMES[first['specification']['kind']]} failed: {record['error']}"
        failed |= _failed_first(plan, ledger, first["after"])
    return failed


def teacher_scores(plan: Plan, ledger: Ledger) -> dict[str, list[Mapping[str, float]]]:
    """task -> the scores on the dev split of the teacher, by its seeds, where all of them are finished."""
    scores = {}
    for task, run in plan["teachers"].items():
        records = [ledger.read(each) or {"status": "waiting"} for each in _same_but_seed(plan, run)]
        if all(record["status"] == "finished" for record in records):
            scores[task] = [record.get("by_task", {}).get(task, record)["metrics"] for record in records]
    return scores


def _same_but_seed(plan: Plan, run: str) -> list[str]:
    """The runs that differ from one of plan["first"] in the seed alone, by seed, that one among them."""
    wanted = {**plan["first"][run]["specification"], "seed": 0}
    found = {name: first["specification"] for name, first in plan["first"].items()}
    alike = [name for name, specification in found.items() if {**specification, "seed": 0} == wanted]
    return sorted(alike, key=lambda name: int(found[name]["seed"]))


def teachers(plan: Plan) -> int:
    """How many teachers the seeds of a cell learn from: one for each or 1 for all; 0 where none learns from any."""
    runs = [cell for cell in plan["cells"] if isinstance(cell["specification"].get("teacher"), str)]
    return max((len(cell.get("teachers", [0])) for cell in runs if not cell["refused"]), default=0)


def protocol(plan: Plan) -> str:
    """What epochs and settings were chosen on; "" where nothing is trained."""
    if _measures(plan):
        return ""
    return str(_settings(plan)["protocol"])


def budget(plan: Plan) -> str:
    """The search budget of every cell, as a sentence; "" where nothing is trained."""
    if _measures(plan):
        return ""
    cells = _cells(plan)
    spaces = [{shared_name(c, name): v for name, v in as_known(plan, c["space"]).items()} for c in cells]
    space = max(spaces, key=len)
    seeds, count = cells[0]["seeds"], size(space)
    budgets = sorted({trials_of(cell) for cell in cells})
    trials = budgets[-1]
    over = ", ".join(f"{name} {_range(values)}" for name, values in space.items())
    grid = f"{'spread over' if 1 < trials < (count or 0) else 'of'} a grid of {count}"
    how = grid if is_grid(space) else "proposed by TPE"
    number = str(trials) if len(budgets) == 1 else f"{budgets[0]} to {trials}"
    searched = f"{number} trial{'s' * (trials > 1)} {how} ({over})" if space else "no search"
    same = "the same for every cell"
    if any(other != space for other in spaces):
        same += " that searches the same; where a setting does nothing it is not searched"
    return f"{searched}, {seeds} seed{'s' * (seeds > 1)}, {same}"


def _range(values: Any) -> str:
    if isinstance(values, list):
        return " or ".join(f"{v:g}" if isinstance(v, float) else str(v) for v in values)
    return f"{values['low']:g} to {values['high']:g}"


def recipe(plan: Plan) -> str:
    """The training settings that all cells share, and those that differ by task; "" where nothing is trained."""
    if _measures(plan):
        return ""
    rows = {row["name"]: row for row in plan["rows"]}
    searched = {shared_name(cell, name) for cell in _cells(plan) for name in as_known(plan, cell["space"])}
    values: dict[str, list[tuple[Plan, Any]]] = {}
    for cell in _cells(plan):
        settings, row = as_known(plan, cell["specification"]["settings"]), rows[cell["row"]]
        silent = idle_settings(settings) | ({"augmentation"} if settings.get("augmentation") == "none" else set())
        for key, value in settings.items():
            name = shared_name(cell, key)
            elsewhere = name in searched or name in as_known(plan, row["settings"]) or key in ("protocol", "cache_gib")
            if not (key in silent or elsewhere or (name == "epochs" and row["equal_epochs"])):
                values.setdefault(name, []).append((cell, value))
    shared = [f"{name} {number(found[0][1])}" for name, found in sorted(values.items()) if _constant(found)]
    differing = [f"{name} {varied(found)}" for name, found in sorted(values.items()) if not _constant(found)]
    procedures = dict.fromkeys(row["procedure"] or plan["procedure"] for row in rows.values())
    return "; ".join([f"procedure {' or '.join(procedures)}", *shared, *differing])


def _constant(found: Sequence[tuple[Plan, Any]]) -> bool:
    return len({value for _, value in found}) == 1


def varied(found: Sequence[tuple[Plan, Any]]) -> str:
    """The values of a setting with what decides them: the task, the student or the row."""
    for axis in ("task", "student", "row"):
        values: dict[str, set[Any]] = {}
        for cell, value in found:
            values.setdefault(cell[axis], set()).add(value)
        if all(len(own) == 1 for own in values.values()):
            named: dict[Any, list[str]] = {}
            for key, own in values.items():
                named.setdefault(next(iter(own)), []).append(key or "no student")
            return ", ".join(f"{number(value)} ({', '.join(keys)})" for value, keys in named.items())
    return " or ".join(map(number, dict.fromkeys(value for _, value in found)))


def shared_name(cell: Plan, key: str) -> str:
    """A setting's name without whose it is: "hybrid.head" and "cmow.head" are "student.head"."""
    own = f"{cell['student']}."
    return f"student.{key.removeprefix(own)}" if cell["student"] and key.startswith(own) else key


def general_recipe(plan: Plan) -> tuple[str, ...]:
    """Sentences on the distillations, on a corpus or on several tasks, that cells start from."""
    said: dict[str, None] = {}
    for first in plan["first"].values():
        specification = first["specification"]
        if specification["kind"] == "multi_task":  # one for each seed
            found = as_known(plan, specification["settings"])
            silent = idle_settings(found)
            settings = "; ".join(f"{k} {number(v)}" for k, v in sorted(found.items()) if k not in silent)
            said[
                f"Joint distillation of {specification['student']} by {specification['objective']}, init "
                f"{specification['init']}, once a seed, on {', '.join(specification['tasks'])}: {settings}."
            ] = None
    alike: dict[tuple[str, str, str], dict[str, None]] = {}  # student, init, settings -> objectives
    for specification in (first["specification"] for first in plan["first"].values()):
        if specification["kind"] == "general":
            found = as_known(plan, specification["settings"])
            settings = "; ".join(f"{k} {number(v)}" for k, v in sorted(found.items()) if k not in _idle(found))
            key = specification["student"], specification["init"], settings
            alike.setdefault(key, {})[specification["objective"]] = None
    general = (
        f"General distillation of {student} by {', '.join(objectives)}, init {init}, once (seed 0), on corpus "
        f"{Path(plan['corpus']).name}: {settings}."
        for (student, init, settings), objectives in alike.items()
    )
    return (*said, *general)


def _idle(settings: Mapping[str, Any]) -> set[str]:
    """The settings of a general distillation that say nothing beside the others."""
    nothing = {"micro_batch": 0, "pack": False, "transferred_layers": "mapped"}
    nothing["epochs" if settings.get("steps") else "steps"] = 0
    idle = {name for name, value in nothing.items() if name == "epochs" or settings.get(name, value) == value}
    return idle if settings.get("text", "masked") == "masked" else idle | ON_MASKED_TEXT


def coverage(plan: Plan, replays: Sequence[Progress]) -> tuple[str, ...]:
    """Sentences on how much of the vocabulary the files of vectors cover that students start from."""
    said: dict[str, None] = {}
    for cell, found in zip(plan["cells"], replays, strict=True):
        for run in found.trials:
            started = run.record.get("initialisation", {})
            if "coverage" in started:
                share = f"{100 * started['coverage']:.1f}% of the vocabulary"
                said[f"Init {cell['init']} gives {cell['student']} the {started['filled']} of {share}."] = None
    return tuple(said)


def pruned(replays: Sequence[Progress]) -> tuple[str, ...]:
    """Sentences on how many trials the pruners stopped early; none where no pruner was asked for."""
    made: Counter[str] = Counter()
    stopped: Counter[str] = Counter()
    trials = {trial.run: trial for found in replays for trial in found.trials}  # cells may share runs
    for trial in trials.values():
        name = trial.specification["settings"].get("pruner", "none")
        made[name] += 1
        stopped[name] += bool(trial.record.get("pruned"))
    del made["none"]
    return tuple(
        f"{stopped[name]} of {count} trials {'was' if stopped[name] == 1 else 'were'} stopped early by the {name} "
        "pruner, and cannot be chosen."
        for name, count in sorted(made.items())
    )


def _measures(plan: Plan) -> bool:
    return plan["procedure"] in ("count", "speed")


def number(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)


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
                of_run[run.run] = changed(run.record, read, plan.get("origins", {}))
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


def _cells(plan: Plan) -> list[dict[str, Any]]:
    return [c for c in plan["cells"] if not c["refused"]] or list(plan["cells"])


def _settings(plan: Plan) -> dict[str, Any]:
    settings: dict[str, Any] = _cells(plan)[0]["specification"]["settings"]
    return settings
