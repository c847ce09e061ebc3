"""The searches behind a table: what each cell tried, and what came of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harness.reports.tables.layout import heading
from harness.reports.tables.shapes import Column, Line, Table


@dataclass(frozen=True)
class Trial:
    """A finished training of a search. selection: what settings are chosen by; score: what the table shows.

    pruned: it was stopped early, and cannot be chosen. number: in the search of its seed.
    """

    number: int
    settings: Mapping[str, Any]
    selection: float
    score: float
    pruned: bool = False
    seed: int = 0


@dataclass(frozen=True)
class Search:
    """The search of one cell, or its searches where each seed has one.

    block: what its row shares with others, as "transformer, init every". space: setting -> its values or its range
    ("low", "high", "log"); distributions: gives the same in Optuna's terms. sampler: grid, random or tpe. wanted: how
    many trials the budget gives; trials: those that are finished, in order; pruned: how many of these were stopped
    early.
    """

    block: str
    line: Line
    column: Column
    space: Mapping[str, Any]
    distributions: Callable[[], Mapping[str, Any]]
    sampler: str
    wanted: int
    trials: Sequence[Trial]
    pruned: int = 0

    @property
    def label(self) -> str:
        return self.line.row.label

    def values(self, setting: str) -> list[Any]:
        """What its trials had there."""
        return [trial.settings[setting] for trial in self.trials]


def chosen_on(table: Table) -> str:
    """The data by which the table's settings were chosen."""
    of = {"held_out": "held-out training data", "nested": "folds of the training data", "published": "dev"}
    return of[table.provenance.protocol]


def searches(table: Table) -> list[Search]:
    """Every search of the table, block by block, row by row, task by task; none of a cell that searches nothing."""
    of_cell: dict[str, dict[tuple[object, ...], Mapping[str, Any]]] = {}
    for run in table.runs:  # rows may share a cell, whose runs then stand there for each
        of_cell.setdefault(run["cell"], {})[run["part"], run["trial"], run["run"]] = run
    found = []
    for _, line in table.lines():
        for column, entry in zip(table.columns, line.entries, strict=True):
            runs = [*of_cell.get(entry.cell, {}).values()]
            if not (column.task and column.selects and runs and runs[0]["space"]):
                continue
            finished = [run for run in runs if run["part"] == "trial" and run["status"] == "finished"]
            trials = [
                Trial(
                    run["trial"],
                    run["hyperparameters"],
                    float(run["selection"]),
                    float(run["metrics"][column.metric]),
                    bool(run["pruned"]),
                    run["seed"],
                )
                for run in finished
                if column.metric in run["metrics"]
            ]
            found.append(
                Search(
                    heading(line.student, line.init),
                    line,
                    column,
                    runs[0]["space"],
                    runs[0]["distributions"],
                    runs[0]["sampler"],
                    runs[0]["wanted_trials"],
                    trials,
                    sum(bool(run["pruned"]) for run in finished),
                )
            )
    return found
