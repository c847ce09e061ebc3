"""Which entries of a column are best, which may be, and by how much others are worse."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from harness.contracts import AGREEMENT, RunResult, TableRow, Task
from harness.reports.statistics import LEVEL
from harness.reports.tables.quantities import is_score
from harness.reports.tables.shapes import Column, Entry, Interval, Key, Line, Place, Tested, parts_of

if TYPE_CHECKING:
    import numpy as np

    from harness.reports.statistics.influence import Score
    from harness.reports.statistics.noise import Noise

NOTHING = Interval(0.0, 0.0, 0.0, 1.0, 1.0)  # the difference of two rows that come to the same runs
Standing = dict[str, Any]  # best, tied, in_place, best_of_row and to_best of an entry


def key_of(line: Line) -> Key:
    """The key of a line of a block, whichever block it stands in."""
    return *left_free(line.row, line.student, line.init), line.row.name


def left_free(row: TableRow, student: str, init: str) -> Place:
    """What of student and initialisation the row leaves free: nothing where it is no student of ours."""
    whole = row.checkpoint or row.teacher or row.baseline
    return "" if row.student or whole else student, "" if row.init or whole else init


def tests(
    grid: Mapping[Key, Sequence[Entry]],
    columns: Sequence[Column],
    tasks: Mapping[str, Task],
    score: Score,
    paired: Collection[str] = (),
) -> dict[int, Tested]:
    """What can be compared of each column of scores, by the column's number; of an average what can in every task.

    paired: the tasks of which the runs of a seed share what it drew, whatever their row: training examples, a teacher.
    """
    from harness.reports.statistics.estimation import averaged

    found: dict[int, Tested] = {}
    for j, column in enumerate(columns):
        entries = complete(grid, j)
        if not entries or not is_score(column.metric):
            continue
        if column.task:
            made = _tested(replace(tasks[column.task], metric=column.metric), entries, score, column.task in paired)
            found |= {j: made} if made else {}
            continue
        parts = parts_of(columns, j)
        if all(i in found for i in parts):
            keys = tuple(key for key in entries if all(key in found[i].keys for i in parts))
            found |= {j: Tested(keys, averaged([found[i].among(keys) for i in parts]))} if keys else {}
    return found


def standings(
    grid: Mapping[Key, Sequence[Entry]],
    columns: Sequence[Column],
    tested: Mapping[int, Tested],
    places: Mapping[Key, Place],
) -> tuple[dict[tuple[Key, int], Standing], list[str]]:
    """How each ((student, init, row), column) that competes stands, and the names of columns with untested entries.

    Only complete scores compete, over the whole table, in their place and in their row, and none of runs that
    collapsed. Tied: not the best, but it may be, see `Noise.to_best`. Equal values are all best.
    """
    standing: dict[tuple[Key, int], Standing] = {}
    untested = []
    for j, column in enumerate(columns):
        values = {key: e.value or 0.0 for key, e in complete(grid, j).items() if not e.collapsed}
        if not values or not is_score(column.metric):
            continue
        made = tested.get(j)
        known, noise = _comparable(values, made)
        to_best = dict(zip(known, Interval.each(noise.to_best()) if noise else (), strict=True))
        flags = _flags(values, {key: found.corrected for key, found in to_best.items()})
        untested += [column.name] if "untested" in flags.values() else []
        in_place: dict[Key, str] = {}
        for place in {places[key] for key in values}:
            own = {k: v for k, v in values.items() if places[k] == place}
            known, noise = _comparable(own, made)
            in_place |= _flags(own, dict(zip(known, noise.p_best()[1].tolist() if noise else (), strict=True)))
        for key, value in values.items():
            row = [v for k, v in values.items() if k[2] == key[2]]
            standing[key, j] = {
                "best": flags[key] == "best",
                "tied": flags[key] == "tied",
                "in_place": in_place[key] if in_place[key] in ("best", "tied") else "",
                "best_of_row": len(row) > 1 and value > max(row) - 1e-12,
                "to_best": to_best.get(key),
            }
    return standing, untested


def to_reference(
    reference: str,
    grid: Mapping[Key, Sequence[Entry]],
    columns: Sequence[Column],
    tested: Mapping[int, Tested],
    places: Mapping[Key, Place],
) -> dict[tuple[Key, int], Interval]:
    """The difference of each ((student, init, row), column) of the grid to the reference row in its place.

    Where the reference has one place only, finished or not, all are compared with it. A column's comparisons are
    one family: their intervals hold together, and their p-values are corrected by Holm's procedure.
    """
    found: dict[tuple[Key, int], Interval] = {}
    alone = len({place for key, place in places.items() if key[2] == reference}) == 1
    for j in range(len(columns)):
        made = tested.get(j)
        if not made:
            continue
        own = {places[key]: key for key in made.keys if key[2] == reference}
        only = next(iter(own.values()), None) if alone else None
        pairs = [(key, own.get(places[key], only)) for key in made.keys if key in grid]
        both = [(key, other) for key, other in pairs if other and key[2] != reference]
        same = [(key, other) for key, other in both if same_runs(grid[key], grid.get(other, ()), columns, j)]
        found |= {(key, j): NOTHING for key, _ in same}
        if both := [pair for pair in both if pair not in same]:
            a, b = ([made.keys.index(key) for key in of] for of in zip(*both, strict=True))
            each = Interval.each(made.noise.compare(a, b))
            found |= {(key, j): one for (key, _), one in zip(both, each, strict=True)}
    return found


def same_runs(ours: Sequence[Entry], theirs: Sequence[Entry], columns: Sequence[Column], j: int) -> bool:
    """True where two lines rest on the same runs in column j, so that no other seed or example could set them apart."""
    parts = parts_of(columns, j)
    one, other = ([[run.run for run in line[k].runs] for k in parts if k < len(line)] for line in (ours, theirs))
    return one == other and all(one)


def _flags(values: Mapping[Key, float], corrected: Mapping[Key, float]) -> dict[Key, str]:
    """Of each that competes "best", "tied", "untested" or "worse". corrected: the p of being the best, where known."""
    sure = {key: "tied" if p >= LEVEL else "worse" for key, p in corrected.items()}
    best = {key: "best" for key, value in values.items() if value > max(values.values()) - 1e-12}
    return dict.fromkeys(values, "untested") | sure | best


def _comparable(values: Mapping[Key, float], tested: Tested | None) -> tuple[list[Key], Noise | None]:
    """Those that can be compared with the best, and their noise; none where that is only one, or the best cannot be."""
    known = [key for key in values if tested and key in tested.keys]
    top = max(values.values())
    if not tested or len(known) < 2 or not any(values[key] > top - 1e-12 for key in known):
        return [], None
    return known, tested.among(known)


def complete(grid: Mapping[Key, Sequence[Entry]], j: int) -> dict[Key, Entry]:
    """The finished entries of a column."""
    found = ((key, entries[j]) for key, entries in grid.items())
    return {key: entry for key, entry in found if entry.status == "complete" and entry.value is not None}


def _tested(task: Task, entries: Mapping[Key, Entry], score: Score, paired: bool) -> Tested | None:
    """The entries whose runs all answer the same examples; None where there are none.

    An entry is left out if predictions are missing or do not give the value that its run recorded; all are for a
    metric of another dev split than the predictions'.
    """
    import numpy as np

    from harness.reports.statistics.estimation import of_runs
    from harness.reports.statistics.influence import influence

    metric, task = task.metric, task.imitated if task.metric == AGREEMENT else task
    if task.metric not in task.metrics:  # the predictions are those of the first dev split
        return None
    scores: dict[Key, np.ndarray] = {}
    influences: dict[Key, np.ndarray] = {}
    reference: list[np.ndarray] = []
    for key, entry in entries.items():
        values, moved = [], []
        for run in entry.runs:
            answers = _answers(run, "teacher" if metric == AGREEMENT else "predictions")
            if answers is None:
                break
            order = np.argsort(answers[0], kind="stable")
            ids, predictions, labels = (np.asarray(array)[order] for array in answers)
            same = [ids] if metric == AGREEMENT else [ids, labels]  # each seed may have a teacher to agree with
            reference = reference or same
            if not all(np.array_equal(a, b) for a, b in zip(reference, same, strict=True)):
                break
            value, of_examples = influence(task, predictions, labels, score)
            if not abs(value - run.metrics[metric]) < 1e-4:
                break
            values.append(value)
            moved.append(of_examples.astype(np.float32))
        else:
            scores[key], influences[key] = np.array(values), np.array(moved)
    if not scores:
        return None
    return Tested(tuple(scores), of_runs([*scores.values()], [*influences.values()], paired))


def collapsed(run: RunResult) -> bool:
    """True if the run gave all dev examples one class, or one score, where they have several."""
    found = _answers(run, "teacher") or _answers(run, "predictions")
    if found is None:
        return False
    answers, expected = found[1:]
    return bool((answers == answers[0]).all() and not (expected == expected[0]).all())


def commonest(run: RunResult) -> float | None:
    """The accuracy of answering all dev examples by their commonest class; None where they are not kept."""
    found = _answers(run, "predictions")
    return None if found is None else max(Counter(found[2].tolist()).values()) / len(found[2])


def _answers(run: RunResult, beside: str) -> Sequence[np.ndarray] | None:
    """(ids, predictions, labels or what the teacher answers) as they are kept, or None."""
    load = run.record.get(beside)
    return load() if load else None
