"""Which entries of a column are best, and which are not significantly worse."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.contracts import AGREEMENT, RunResult, Task
from harness.reports.quantities import is_score
from harness.reports.statistics.resampling import LEVEL, Score, p_value, resample, resampled_scores

if TYPE_CHECKING:
    import numpy as np

    from harness.reports.shapes import Column, Entry, Place

Key = tuple[str, str, str]  # student, init, row
Standing = dict[str, Any]  # best, tied, in_place and best_of_row of an entry


def standings(
    grid: Mapping[Key, Sequence[Entry]],
    columns: Sequence[Column],
    tasks: Mapping[str, Task],
    score: Score,
    places: Mapping[Key, Place],
) -> tuple[dict[tuple[Key, int], Standing], list[str]]:
    """How each ((student, init, row), column) that competes stands, and the names of columns with untested entries.

    Only complete scores compete, over the whole table, in their place and in their row, and none of runs that
    collapsed. Tied: a paired bootstrap over examples does not find the best better; on the average, the examples of
    each task are drawn apart. Equal values are all best.
    """
    import numpy as np

    drawn: dict[int, dict[Key, np.ndarray]] = {}
    standing: dict[tuple[Key, int], Standing] = {}
    untested = []
    for j, column in enumerate(columns):
        entries = _complete(grid, j)
        if not entries or not is_score(column.metric):
            continue
        if column.task:
            samples = resampled(replace(tasks[column.task], metric=column.metric), entries, score)
            drawn |= {j: samples} if column.selects else {}
        else:
            tested = [k for k in entries if drawn and all(k in d for d in drawn.values())]
            samples = {k: np.mean([d[k] for d in drawn.values()], axis=0) for k in tested}
        values = {key: value for key, (value, _) in entries.items()}
        flags = _flags(values, samples)
        untested += [column.name] if "untested" in flags.values() else []
        in_place: dict[Key, str] = {}
        for place in {places[key] for key in values}:
            in_place |= _flags({k: v for k, v in values.items() if places[k] == place}, samples)
        for key, value in values.items():
            row = [v for k, v in values.items() if k[2] == key[2]]
            standing[key, j] = {
                "best": flags[key] == "best",
                "tied": flags[key] == "tied",
                "in_place": in_place[key] if in_place[key] in ("best", "tied") else "",
                "best_of_row": len(row) > 1 and value > max(row) - 1e-12,
            }
    return standing, untested


def _flags(values: Mapping[Key, float], samples: Mapping[Key, np.ndarray]) -> dict[Key, str]:
    """Of each that competes "best", "tied", "untested" or "worse"."""
    top = max(values.values())
    best = [key for key, value in values.items() if value > top - 1e-12]
    flags = {}
    for key in values:
        if key in best:
            flags[key] = "best"
        elif key not in samples or best[0] not in samples:
            flags[key] = "untested"
        else:
            flags[key] = "tied" if p_value(samples[best[0]], samples[key]) >= LEVEL else "worse"
    return flags


def _complete(grid: Mapping[Key, Sequence[Entry]], j: int) -> dict[Key, tuple[float, tuple[RunResult, ...]]]:
    found = {}
    for key, entries in grid.items():
        value = entries[j].value
        if entries[j].status == "complete" and value is not None and not entries[j].collapsed:
            found[key] = (value, entries[j].runs)
    return found


def resampled(
    task: Task, entries: Mapping[Key, tuple[float, tuple[RunResult, ...]]], score: Score
) -> dict[Key, np.ndarray]:
    """(RESAMPLES,) scores averaged over seeds of each entry whose runs all answer the same examples.

    An entry is left out if predictions are missing or do not give the value that its run recorded; all are for a
    metric of another dev split than the predictions'.
    """
    import numpy as np

    metric, task = task.metric, task.imitated if task.metric == AGREEMENT else task
    samples: dict[Key, np.ndarray] = {}
    reference: tuple[np.ndarray, ...] = ()
    counts = np.empty(0)
    compared = len(entries) > 1 and task.metric in task.metrics  # the predictions are those of the first dev split
    for key, (_, runs) in entries.items() if compared else ():
        scores = []
        for run in runs:
            answers = _predictions(run, metric)
            if answers is None:
                break
            ids, predictions, labels = answers
            if not reference:  # the resamples, and last the examples themselves
                once = np.ones((1, len(ids)), np.float32)
                reference, counts = (ids, labels), np.concatenate([resample(len(ids), task.name), once])
            if not all(np.array_equal(a, b) for a, b in zip(reference, (ids, labels), strict=True)):
                break
            found = resampled_scores(task, predictions, labels, counts, score)
            if abs(found[-1] - run.metrics[metric]) > 1e-4:
                break
            scores.append(found[:-1])
        else:
            samples[key] = np.mean(scores, axis=0)
    return samples


def _predictions(run: RunResult, metric: str) -> tuple[np.ndarray, ...] | None:
    """(ids, predictions, what these are scored by) in the order of the ids, or None."""
    import numpy as np

    found = _answers(run, "teacher" if metric == AGREEMENT else "predictions")
    if found is None:
        return None
    arrays = [np.asarray(a) for a in found]
    order = np.argsort(arrays[0], kind="stable")
    return tuple(a[order] for a in arrays)


def collapsed(run: RunResult) -> bool:
    """True if the run gave all dev examples one class, or one score, where they have several."""
    found = _answers(run, "teacher") or _answers(run, "predictions")
    if found is None:
        return False
    answers, expected = found[1:]
    return bool((answers == answers[0]).all() and not (expected == expected[0]).all())


def _answers(run: RunResult, beside: str) -> Sequence[np.ndarray] | None:
    """(ids, predictions, labels or what the teacher answers) as they are kept, or None."""
    load = run.record.get(beside)
    found: Sequence[np.ndarray] | None = load() if load else None
    return found
