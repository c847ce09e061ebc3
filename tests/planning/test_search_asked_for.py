"""Settings that the command line has searched, by --search."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import harness
from harness.errors import UserError
from harness.planning.explaining import explained
from harness.planning.naming import flags_named, names_of
from harness.planning.plan import resolve
from harness.planning.planned import Plan, trials_of
from harness.planning.recipe import budget
from harness.planning.request import Request
from harness.registry import STUDIES
from harness.search.progress import progress
from tests.conftest import Harness

STUDY, KD = "objectives_vs_init", "vanilla_kd"


def asked(*search: str, study: str = STUDY, **more: Any) -> Request:
    rows = {"objectives": [KD], "tasks": ["sentiment"], **more}
    return Request(study, search=search, **rows)


def space(plan: Plan) -> dict[str, Any]:
    (found,) = {repr(cell.space): dict(cell.space) for cell in plan.cells if not cell.refused}.values()
    return found


def test_listed_values_are_each_tried_beside_what_the_study_searches() -> None:
    plan = resolve(asked("weight_decay=0,0.1,0.2"))
    assert space(plan) == {"learning_rate": [2e-3, 1e-3], "weight_decay": [0.0, 0.1, 0.2]}
    assert {trials_of(cell) for cell in plan.cells} == {6}


def test_words_and_numbers_are_told_as_they_are() -> None:
    told = budget(resolve(asked("optimiser=adamw,adadelta", "batch_size=1000000,2000000")))
    assert "(learning_rate 0.002 or 0.001, optimiser adamw or adadelta, batch_size 1000000 or 2000000)" in told


def test_they_take_the_place_of_what_the_study_searches() -> None:
    plan = resolve(asked("learning_rate=1e-4,2e-4,4e-4"))
    assert space(plan) == {"learning_rate": [1e-4, 2e-4, 4e-4]}
    assert {trials_of(cell) for cell in plan.cells} == {3}


def test_they_are_tried_of_a_checkpoint_too(checkpoint: Path) -> None:
    plan = resolve(asked("weight_decay=0,0.1", objectives=["mine"], checkpoints=[f"mine={checkpoint}"]))
    assert space(plan).keys() == {"learning_rate", "weight_decay"}
    pruned: dict[str, Any] = {"objectives": ["mine"], "checkpoints": [f"mine={checkpoint}"]}
    pruned["overrides"] = ["pruner=median"]
    with pytest.raises(UserError, match="setting 'pruner' has no effect"):
        resolve(asked(**pruned, trials=1))
    assert {trials_of(cell) for cell in resolve(asked(**pruned, trials=2)).cells} == {2}


def test_a_trial_is_the_run_of_the_same_value_fixed() -> None:
    def first(request: Request) -> set[str]:
        plan = resolve(request)
        found = (progress(cell, plan.defaults, lambda run: None).missing for cell in plan.cells)
        return {run.identity(plan.defaults) for (run,) in found}

    assert first(asked("learning_rate=1e-4,2e-4")) == first(asked(overrides=["learning_rate=1e-4"]))


def test_a_range_is_explained_in_words() -> None:
    plan = resolve(asked("learning_rate=1e-5..1e-3", "epochs=1,4", "vanilla_kd.soft_weight=0.2..0.4", trials=5))
    said = {line.name: line.ours for line in explained(plan, STUDIES.get(STUDY))}
    assert (said["learning_rate"], said["epochs"]) == ("1e-05 to 0.001 (logarithmic)", "1 or 4")
    assert said["vanilla_kd.soft_weight"] == "0.2 to 0.4"


def test_the_lines_of_a_plan_tell_which_epochs_are_searched(call: Harness, tmp_path: Path) -> None:
    asked = ("plan", "--study", STUDY, "--objectives", "hid_cls", "vanilla_kd_equal_epochs", "--inits", "every")
    said = call(*asked, "--tasks", "sentiment", "--search", "epochs=1,4", "--out", tmp_path / "none").stdout
    assert "hid_cls                  2 stages of 1 or 4 epochs, runs 0" in said
    assert "vanilla_kd_equal_epochs  1 stage of twice 1 or 4 epochs, runs 0" in said


def test_a_range_is_drawn_from_on_the_scale_of_its_setting() -> None:
    plan = resolve(asked("learning_rate=1e-5..1e-3", "epochs=1..4", "vanilla_kd.soft_weight=0.2..0.4", trials=5))
    assert space(plan) == {
        "learning_rate": {"low": 1e-5, "high": 1e-3, "log": True, "whole": False},
        "epochs": {"low": 1, "high": 4, "log": False, "whole": True},
        "vanilla_kd.alpha": {"low": 0.2, "high": 0.4, "log": False, "whole": False},
    }
    assert {trials_of(cell) for cell in plan.cells} == {5}


@pytest.mark.parametrize(
    ("search", "more", "said"),
    [
        ("epochs", {}, "--search takes KEY=A,B,... or KEY=LOW..HIGH without spaces, not 'epochs'"),
        ("epochs=1,,2", {}, "--search takes KEY=A,B,... or KEY=LOW..HIGH without spaces, not 'epochs=1,,2'"),
        ("epochs=..2", {}, "--search takes KEY=A,B,... or KEY=LOW..HIGH without spaces, not 'epochs=..2'"),
        ("epochs=2", {}, "--search gives epochs only one value: --set epochs=2 fixes it"),
        ("epochs=2,x", {}, "epochs must be a whole number, not 'x'"),
        ("epochs=2,02", {}, "epochs is searched over 2 twice: name it once"),
        ("epochs=3..2", {"trials": 3}, "--search gives epochs a range from 3 to 2, whose end must be above"),
        ("vanilla_kd.soft_weight=0.4..0.2", {"trials": 3}, "--search gives vanilla_kd.soft_weight a range from"),
        ("optimiser=adamw..adadelta", {"trials": 3}, "optimiser is not a number, so there is nothing between"),
        ("epochs=2,3", {"trials": 1}, "--search has nothing to try with --trials 1"),
        ("epochs=2,3", {"overrides": ["epochs=2"]}, "--search epochs and --set epochs: what is fixed is not searched"),
        ("learning_rte=1e-4,1e-3", {}, "unknown setting 'learning_rte': did you mean learning_rate?"),
        ("teacher.epochs=1,2", {}, "teacher.epochs is the same in every trial of a cell: use --set"),
        ("protocol=held_out,published", {}, "protocol is the same in every trial of a cell: use --set"),
        ("labels=given,none", {}, "labels is the same in every trial of a cell: use --set"),
        ("threads=1,2", {}, "threads is the same in every trial of a cell: use --set"),
        ("sampler=grid,tpe", {}, "sampler is the same in every trial of a cell: use --set"),
        ("bilstm.hidden_units=1,2", {}, "setting 'bilstm.hidden_units' has no effect: it is of bilstm, which no"),
        ("augmentation_copies=2,3", {}, "--search augmentation_copies has no effect: it makes no trials of any"),
        ("max_length=16,60000", {}, "max_length must be at most "),
    ],
)
def test_what_cannot_be_searched_is_refused(search: str, more: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError) as error:
        resolve(asked(search, **more))
    assert str(error.value).startswith(said)


def test_a_range_needs_a_number_of_trials_where_the_study_tries_one() -> None:
    small = {"profile": "small", "study": "multi_task", "tasks": ["sst2"], "objectives": None}
    with pytest.raises(UserError, match="--search learning_rate draws from a range: --trials N says how often"):
        resolve(asked("learning_rate=1e-5..1e-3", **small), lenient=True)


def test_its_table_has_a_folder_of_its_own_from_whose_name_the_flags_are_read() -> None:
    request = asked("learning_rate=1e-4..1e-3", "epochs=1,2", trials=4, overrides=["weight_decay=0"])
    kind, _ = names_of(request)
    assert kind == "trials=4--search=epochs=1,2,learning_rate=0.0001..0.001--weight_decay=0"
    assert flags_named(kind) == "--trials 4 --search epochs=1,2 learning_rate=0.0001..0.001 --set weight_decay=0"


def test_python_takes_lists_and_ranges(tmp_path: Path) -> None:
    rows: dict[str, Any] = {"objectives": [KD], "tasks": "sentiment", "inits": "every", "out": tmp_path}
    found = harness.plan(STUDY, search={"learning_rate": "1e-4..1e-3", "epochs": [1, 2]}, trials=2, **rows).plan
    assert space(found).keys() == {"learning_rate", "epochs"} and space(found)["epochs"] == [1, 2]
    with pytest.raises(UserError, match="--search gives epochs only one value"):
        harness.plan(STUDY, search={"epochs": 1}, **rows)
