"""What harness show and status say of cells that go on, had trials stopped early, or cannot go on."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from harness.code_versions import fingerprint
from harness.ledger import Ledger
from harness.planning.planned import First, Plan
from harness.search.progress import left
from harness.search.results import replayed
from tests.commands import results
from tests.commands.results import write_plan
from tests.conftest import Harness
from tests.results import done
from tests.search import builders


def recorded(ledger: Ledger, plan: Plan, score: float, **more: object) -> None:
    """Record the first missing run of the plan's only cell."""
    run, *_ = replayed(plan, ledger)[0].missing
    told = {"status": "finished", "selection": score, "metrics": {"accuracy": score}, "best": {"epoch": 2}}
    told |= {"specification": run.specification()}
    ledger.write(run.identity(plan.defaults), {**told, **more}, {"ids": np.arange(2)})


def test_what_is_left_counts_seeds_that_wait_for_the_search_and_a_pruned_trial_is_told(
    call: Harness, tmp_path: Path
) -> None:
    cell = builders.cell(space={"learning_rate": [0.1, 0.2]}, trials=2, seeds=3)
    plan, ledger = builders.plan([cell]), Ledger(tmp_path, create=True)
    write_plan(tmp_path, plan)
    left = []
    for score, more in ((0.5, {}), (0.75, {"pruned": True}), (0.5, {}), (0.5, {})):
        recorded(ledger, plan, score, **more)
        shown = call("show", "c", "--out", tmp_path).stdout
        left.append(shown.partition("still to run: ")[2].strip())
    assert left == ["3", "2", "1", ""], shown
    assert "selection 0.5000 <- best" in shown and "selection 0.7500, stopped early" in shown


def test_a_model_that_answers_as_it_is_has_no_epoch(call: Harness, tmp_path: Path) -> None:
    plan, ledger = builders.plan([builders.cell()]), Ledger(tmp_path, create=True)
    write_plan(tmp_path, plan)
    recorded(ledger, plan, 0.5, best={})
    assert done(call("show", "c", "--out", tmp_path)).stdout.rstrip().endswith(", dev 0.5000")


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ([], "4 done, 0 failed, 0 left"),
        ([0], "3 done, 0 failed, 1 left"),  # the best trial, which is the first of the seeds
        ([0, 1], "2 done, 0 failed, 2 left"),
        ([0, 3], "2 done, 0 failed, 2 left"),
        ([2], "3 done, 0 failed, 1 left"),
        ([1], "1 done, 0 failed, 3 left"),  # as of a search that was of one trial: the second may be the best
    ],
)
def test_what_came_after_a_lost_trial_is_not_left(
    call: Harness, tmp_path: Path, lost: list[int], told: str
) -> None:
    cell = builders.cell(space={"learning_rate": [0.1, 0.2]}, trials=2, seeds=3)
    plan, ledger = builders.plan([cell]), Ledger(tmp_path, create=True)
    write_plan(tmp_path, plan)
    for score in (0.75, 0.5, 0.5, 0.5):
        recorded(ledger, plan, score)
    (found,) = replayed(plan, ledger)
    runs = [run.run for run in (*found.trials, *found.seeds[1:])]
    for number in lost:
        (ledger.folder(runs[number]) / "record.json").unlink()
    assert f"runs: {told}" in call("status", "--out", tmp_path).stdout
    (found,) = replayed(plan, Ledger(tmp_path))
    assert len(found.missing) <= left(cell, found) and (lost == [1] or left(cell, found) == len(lost))


def test_predictions_and_weights_that_are_gone_are_told_where_a_run_is_made_again_for_them(
    call: Harness, tmp_path: Path
) -> None:
    cell = builders.cell(results.student("vanilla_kd"), after=[results.TEACHER_RUN], seeds=2)
    first = {results.TEACHER_RUN: First(results.TEACHER)}
    plan, ledger = builders.plan([cell], first=first), Ledger(tmp_path, create=True)
    write_plan(tmp_path, plan)
    taught = {"status": "finished", "selection": 1.0, "metrics": {"accuracy": 1.0}, "weights": {"model": "0"}}
    ledger.write(results.TEACHER_RUN, {**taught, "specification": results.TEACHER.specification()}, None)
    for score in (0.75, 0.5):
        recorded(ledger, plan, score)
    whole = call("status", "--out", tmp_path).stdout
    assert "runs: 2 done, 0 failed, 0 left; teacher runs: 1 of 1 done\n" in whole
    run = replayed(plan, ledger)[0].seeds[1].run
    (ledger.folder(run) / "predictions.safetensors").unlink()
    told = call("status", "--out", tmp_path).stdout
    assert "runs: 1 done, 0 failed, 1 left; teacher runs: 1 of 1 done, 1 to be made again" in told
    assert f"the predictions of run {run} are missing; harness run makes it again" in told
    assert "interrupted" not in told
    ledger.write(results.TEACHER_RUN, {**taught, "specification": results.TEACHER.specification()}, {"ids": np.ones(2)})
    (ledger.folder(results.TEACHER_RUN) / "predictions.safetensors").write_bytes(b"others")
    told = call("status", "--out", tmp_path).stdout
    assert f"the predictions of run {results.TEACHER_RUN} are damaged" in told and "the weights are missing" not in told


@pytest.mark.parametrize(("factor", "told"), [(2, False), (1, True)])
def test_a_plugin_that_was_edited_is_told(call: Harness, tmp_path: Path, factor: int, told: bool) -> None:
    """Its runs are others now, of which the plan does not know; a comment makes none."""
    was, now = tmp_path / "before" / "mine.py", tmp_path / "mine.py"
    for file, text in ((was, f"FACTOR = {factor}\n"), (now, "FACTOR = 2  # of mine\n")):
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    run = results.student("vanilla_kd", plugins={"objective mine": fingerprint(str(was))})
    out = results.finished(tmp_path / "out").out
    write_plan(out, builders.plan([builders.cell(run)], origins={"mine": str(now)}))
    sentence = f"{now} was edited since these runs were planned: harness run makes anew what rests on it"
    assert (sentence in call("status", "--out", out).stdout) == told


@pytest.mark.parametrize(("more", "count"), [({}, 2), ({"diverged": "of this code"}, 0)])
def test_nothing_is_left_of_a_cell_whose_trials_all_diverged(
    call: Harness, tmp_path: Path, more: dict[str, str], count: int
) -> None:
    """None is tried again, so that no setting is to have further seeds."""
    plan, ledger = builders.plan([builders.cell(trials=1, seeds=3)]), Ledger(tmp_path, create=True)
    write_plan(tmp_path, plan)
    recorded(ledger, plan, 0.0, status="failed", error="the loss became nan", **more)
    told = call("status", "--out", tmp_path).stdout
    assert f"runs: 0 done, 1 failed, {count} left" in told
    assert ("the next harness run tries 1 failed run again" in told) == (not more)


def test_a_cell_of_several_trials_whose_teacher_failed_has_failed(call: Harness, tmp_path: Path) -> None:
    cell = builders.cell(results.student("vanilla_kd"), after=[results.TEACHER_RUN], trials=2, seeds=3)
    first = {results.TEACHER_RUN: First(results.TEACHER)}
    failed = {"status": "failed", "error": "it diverged", "specification": results.TEACHER.specification()}
    Ledger(tmp_path, create=True).write(results.TEACHER_RUN, failed, None)
    write_plan(tmp_path, builders.plan([cell], first=first, teachers={"sst2": results.TEACHER_RUN}))
    assert "teacher runs: 0 of 1 done, 1 failed" in call("status", "--out", tmp_path).stdout
    told = call("report", "--out", tmp_path, "--format", "markdown").stdout
    assert told.count(" failed |") == 2 and "Failed cells (harness show prints the traceback): c." in told
    assert "Unfinished cells" not in told


def test_a_run_of_two_searches_counts_once_and_a_cell_of_two_rows_names_both(call: Harness, tmp_path: Path) -> None:
    """One searches a setting that the other fixes; a third row comes to the same runs as the first."""
    fixed = builders.student_run(settings={"learning_rate": 0.1})
    searched = builders.cell(name="c", space={"learning_rate": [0.1, 0.2]}, trials=2, row="one")
    cells = [searched, builders.cell(fixed, name="d", row="two"), builders.cell(name="c", **THIRD)]
    plan, ledger = builders.plan(cells), Ledger(tmp_path, create=True)
    write_plan(tmp_path, plan)
    for score in (0.5, 0.25):
        recorded(ledger, plan, score)
    told = call("status", "--out", tmp_path).stdout
    assert "cells: 3 of 3 complete" in told and "runs: 2 done, 0 failed, 0 left" in told
    shown = call("show", "c", "--out", tmp_path).stdout
    assert "cell c: one, transformer, init every, task sst2; and three, transformer, init every" in shown


def test_a_cell_that_was_planned_with_either_kind_of_search_says_which_is_shown(call: Harness, tmp_path: Path) -> None:
    cell = builders.cell(name="c", space={"learning_rate": [0.1, 0.2]}, trials=2, seeds=2)
    Ledger(tmp_path, create=True)
    write_plan(tmp_path, builders.plan([cell]))
    alone = call("show", "c", "--out", tmp_path)
    assert "still to run: 3\n" in alone.stdout and not alone.stderr
    other = results.PLAN.parent.parent / "other" / results.PLAN.name
    write_plan(tmp_path, builders.plan([replace(cell, searched_by_seed=True)]), other)
    both = call("show", "c", "--out", tmp_path)
    assert "still to run: 4\n" in both.stdout
    told = "cell c was planned with a search for each seed, which is taken here, and with one search for all seeds"
    assert told in both.stderr


THIRD = {"space": {"learning_rate": [0.1, 0.2]}, "trials": 2, "row": "three"}
