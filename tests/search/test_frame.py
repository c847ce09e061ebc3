"""The runs of a plan in long form."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

from harness.ledger import Ledger
from harness.planning.planned import Plan
from harness.search.frame import cells, frame, runs
from harness.search.results import replayed
from tests.search import builders


def recorded(ledger: Ledger, plan: Plan, run: str, score: float, **more: object) -> None:
    told = {"status": "finished", "selection": score, "metrics": {"accuracy": score / 2}, "best": {"epoch": 2}}
    timed = {"seconds": 3.0, "peak_memory_mib": 100.0, "specification": plan.cells[0].run.specification()}
    ledger.write(run, {**told, **timed, **more}, {"ids": np.arange(2)})


def test_every_run_is_a_row_with_its_settings_and_metrics(tmp_path: Path) -> None:
    cell = builders.cell(
        builders.student_run(settings={"epochs": 2}), space={"learning_rate": [0.1, 0.2]}, trials=2, seeds=2
    )
    plan, ledger = builders.plan([cell]), Ledger(tmp_path, create=True)
    assert list(frame(plan, ledger).columns) == ["study", "profile", "cell", "run"]

    for score in (0.5, 0.75, 0.25):  # two trials, then the better of them with the other seed
        (missing,) = replayed(plan, ledger)[0].missing
        recorded(ledger, plan, missing.identity(plan.defaults), score)
    found = frame(plan, ledger)
    assert found["seed"].tolist() == [0, 0, 1] and found["trial"].tolist()[:2] == [0, 1] and found["trial"].isna()[2]
    assert found["chosen"].tolist() == [False, True, True]
    assert found["accuracy"].tolist() == [0.25, 0.375, 0.125] == found["score"].tolist()
    assert found["selection"].tolist() == [0.5, 0.75, 0.25]
    assert found["seconds"].tolist() == [3.0] * 3 and found["peak_memory_mib"].tolist() == [100.0] * 3
    assert found["epochs"].tolist() == [2] * 3 and sorted(found["learning_rate"][:2]) == [0.1, 0.2]
    assert found["learning_rate"][2] == found["learning_rate"][1]
    assert found["objective"].unique().tolist() == ["vanilla_kd"] and found["task"].unique().tolist() == ["sst2"]


def test_rows_that_share_a_cell_have_its_runs_once_each(tmp_path: Path) -> None:
    """As in `sra` a student that is given as distilled, and the row that asks for it."""
    one = builders.cell(seeds=2)
    plan, ledger = builders.plan([one, replace(one, row="other")]), Ledger(tmp_path, create=True)
    for score in (0.5, 0.75):
        (missing,) = replayed(plan, ledger)[0].missing
        recorded(ledger, plan, missing.identity(plan.defaults), score)
    found = cells(plan, runs(plan, ledger))
    assert [[run.seed for run in cell.seeds] for cell in found] == [[0, 1], [0, 1]]
    assert [len(cell.trials) for cell in found] == [1, 1]


def test_the_procedure_is_that_of_the_row_and_not_of_its_stages_on_the_task(tmp_path: Path) -> None:
    cell = builders.cell(builders.student_run(procedure="one_stage"))
    plan, ledger = builders.plan([cell], procedure="general"), Ledger(tmp_path, create=True)
    assert [row["procedure"] for row in runs(plan, ledger)] == ["general"]
    own = replace(plan, rows=[replace(row, procedure="one_stage") for row in plan.rows])
    assert [row["procedure"] for row in runs(own, ledger)] == ["one_stage"]


def test_a_failed_run_has_its_error_and_no_score(tmp_path: Path) -> None:
    plan, ledger = builders.plan([builders.cell()]), Ledger(tmp_path, create=True)
    run = plan.cells[0].run

    failed = {"status": "failed", "error": "the loss became nan", "specification": run.specification()}
    ledger.write(replace(run, seed=0).identity({}), failed, None)
    (row,) = frame(plan, ledger).to_dict("records")
    assert row["status"] == "failed" and row["error"] == "the loss became nan" and row["score"] is None
