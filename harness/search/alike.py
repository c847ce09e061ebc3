"""What the runs of a table tell of choices that changed nothing: two cells that learned the same to the last digit."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Any

from harness.errors import first_of
from harness.files import digest
from harness.planning.planned import Cell, Plan
from harness.runs import Run
from harness.search.progress import Finished, Progress

SHOWN = 3  # pairs of cells that are named


def without_effect(plan: Plan, replays: Sequence[Progress]) -> tuple[str, ...]:
    """Sentences on cells of a task whose runs are not the same ones, but have the same losses and metrics throughout.

    That is no chance: what they differ in was without effect, as which layers a student starts from is where it has as
    many as its teacher. One sentence for all cells that differ in the same. Cells that share their runs are not meant.
    """
    groups: dict[str, dict[tuple[str, ...], tuple[Cell, Run]]] = defaultdict(dict)
    for cell, found in zip(plan.cells, replays, strict=True):
        learned = [_learned(run) for run in found.seeds]
        if learned and all(learned) and not found.missing:
            runs = tuple(run.run for run in found.seeds)
            groups[digest([cell.task, learned])].setdefault(runs, (cell, found.seeds[0].made))
    pairs: dict[str, list[str]] = defaultdict(list)
    for (first, run), *others in (list(group.values()) for group in groups.values()):
        for cell, other in others:
            rows = " and ".join(dict.fromkeys((first.row, cell.row)))
            pairs[_difference(run, other)].append(f"{rows} of {cell.student} on {cell.task}")
    return tuple(
        f"The choice of {difference} made no difference to the last digit of a loss or a metric: "
        f"{first_of(names, SHOWN)}."
        for difference, names in sorted(pairs.items())
    )


def _learned(run: Finished) -> list[Any]:
    """Every loss and the metrics of a run; [] of one that failed or that has no losses, as a measurement."""
    points = [[point["stage"], point["epoch"], point["loss"]] for point in run.record.get("curve", ())]
    return [points, run.record["metrics"]] if points and run.score is not None else []


def _difference(one: Run, other: Run) -> str:
    """Such as "init every or first", of all that is not the same of two runs."""
    first, second = _flat(one), _flat(other)
    names = sorted(name for name in {*first, *second} if first.get(name) != second.get(name))
    return ", ".join(f"{name} {first.get(name, 'none')} or {second.get(name, 'none')}" for name in names)


def _flat(run: Run) -> dict[str, Any]:
    told = run.specification()  # the code of plugins differs with their names, which are told
    return {**told, **told["settings"], "settings": None, "seed": None, "plugins": None}
