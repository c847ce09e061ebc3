"""Tables of searches whose trials are made up: settings and scores are given, and all else is synthetic's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from harness.contracts import Row
from harness.reports import Table
from harness.search.proposals import distributions
from tests.reports.synthetic import ROWS, STUDY, cell, table

RATE = {"learning_rate": {"low": 1e-4, "high": 1e-2, "log": True, "whole": False}}
Results = Sequence[tuple[float, float]]  # selection and dev score of each trial


def searched(
    found: Mapping[tuple[str, str], Results],
    space: Mapping[str, Any] = RATE,
    sampler: str = "random",
    values: Sequence[Mapping[str, Any]] = (),
    rows: Sequence[Row] = ROWS,
    **changes: Any,
) -> Table:
    """found: (row, task) -> its trials; values: of each trial, in all cells. changes: of all rows."""
    cells, frame = [], []
    for (name, task), results in found.items():
        row = next(row for row in rows if row.name == name)
        made = cell(row, task, (60, 60))
        cells.append(made)
        for number, (selection, score) in enumerate(results):
            drawn = values[number] if values else {key: 10 ** (-4 + 2 * number / len(results)) for key in space}
            frame.append(
                {
                    "cell": made.cell,
                    "row": name,
                    "run": f"{made.cell}-{number}",
                    "chosen": False,
                    "record": None,
                    "part": "trial",
                    "status": "finished",
                    "trial": number,
                    "seed": 0,
                    "by_seed": False,
                    "pruned": False,
                    "task": task,
                    "metric": "accuracy",
                    "student": made.student,
                    "init": made.init,
                    "selection": selection,
                    "score": score,
                    "metrics": {"accuracy": score},
                    "hyperparameters": drawn,
                    "space": space,
                    "distributions": lambda: distributions(space),
                    "sampler": sampler,
                    "wanted_trials": len(results),
                    **changes,
                }
            )
    return replace(table(cells, replace(STUDY, rows=tuple(rows))), runs=frame)
