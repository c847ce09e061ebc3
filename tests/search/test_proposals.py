"""Proposals depend on the cell, the trial's number and the trials before it, and on nothing else."""

from __future__ import annotations

import hashlib
import itertools
from collections import Counter
from typing import Any

import optuna
import pytest

from harness.contracts import Hyperparameter
from harness.errors import UserError
from harness.planning.merging import space_of
from harness.planning.planned import Cell
from harness.planning.space import size
from harness.runs import Run
from harness.search.progress import Progress, left, progress
from harness.search.proposals import distributions, propose
from tests.search.builders import cell, student_run

GRID = {"learning_rate": [1e-3, 5e-4], "batch_size": [16, 32, 64]}
TPE = {"learning_rate": {"low": 1e-5, "high": 1e-2, "log": True, "whole": False}, "schedule": ["linear", "cosine"]}


def test_a_grid_is_walked_in_order_once() -> None:
    found = [propose("cell", GRID, 6, n, []) for n in range(6)]
    assert found[:3] == [{"learning_rate": 1e-3, "batch_size": b} for b in (16, 32, 64)]
    assert found[5] == {"learning_rate": 5e-4, "batch_size": 64} and size(GRID) == 6


def walked(space: dict[str, Any], trials: int) -> list[dict[str, Any]]:
    return [propose("cell", space, trials, number, []) for number in range(trials)]


def test_fewer_trials_than_settings_are_spread_over_the_grid() -> None:
    space = {"hybrid.pair_encoding": ["diffcat", "joint"], "hybrid.head": ["mlp", "linear", "cnn", "bilstm"]}
    space |= {"learning_rate": [1e-2, 5e-3]}
    walk = walked(space, 15)
    assert walk[0] == {"hybrid.pair_encoding": "diffcat", "hybrid.head": "mlp", "learning_rate": 1e-2}
    for few in range(1, 15):  # what a larger budget tries first is what a smaller one tried
        assert walked(space, few) == walk[:few] != walked(space, 16)[:few] or few == 1
        assert propose("another", space, few, few - 1, []) == walk[few - 1]
    for name, values in space.items():  # all values of a dimension, and each as often
        for few in (4, 8):
            tried = Counter(setting[name] for setting in walk[:few])
            assert set(tried.values()) == {few // len(values)}, (name, tried)
    cmow = {name.replace("hybrid", "cmow"): values for name, values in space.items()}
    assert [[*setting.values()] for setting in walked(cmow, 4)] == [[*setting.values()] for setting in walk[:4]]
    assert len({str(setting) for setting in walk}) == 15 and walked(space, 16)[1]["learning_rate"] == 5e-3


def test_a_range_needs_both_of_its_bounds() -> None:
    declared = {"weight_decay": Hyperparameter(0.01, low=0.0)}
    with pytest.raises(UserError, match="weight_decay is searched between two bounds, of which one is missing"):
        space_of(declared, declared, ())
    assert space_of({"weight_decay": Hyperparameter(0.01, low=0.0, high=0.1)}, declared, ()) == {
        "weight_decay": {"low": 0.0, "high": 0.1, "log": False, "whole": False}
    }


def test_no_search_is_a_grid_of_one() -> None:
    assert propose("cell", {}, 1, 0, []) == {} and size({}) == 1


def _score(hyperparameters: dict[str, Any]) -> float:
    return -abs(hyperparameters["learning_rate"] - 3e-4) + (hyperparameters["schedule"] == "cosine")


def _search(cell: str, count: int, before: list[Any]) -> list[Any]:
    for number in range(len(before), count):
        proposed = propose(cell, TPE, count, number, before)
        assert proposed is not None
        before = [*before, (proposed, _score(proposed))]
    return before


def test_resuming_proposes_what_an_uninterrupted_search_proposes() -> None:
    whole = _search("cell", 10, [])
    assert _search("cell", 10, _search("cell", 4, [])) == whole
    assert _search("other", 10, []) != whole
    assert len({p["learning_rate"] for p, _ in whole}) == 10  # a seed replayed would repeat points


def test_tpe_learns_from_the_trials_before() -> None:
    before = _search("cell", 10, [])
    assert propose("cell", TPE, 11, 10, [(p, -s) for p, s in before]) != propose("cell", TPE, 11, 10, before)


# ---------------------------------------------------------------- progress


def _cell(trials: int, seeds: int, pruner: str = "none", **changes: Any) -> Cell:
    run = student_run(settings={"pruner": pruner})
    return cell(run, **{"space": GRID, "trials": trials, "seeds": seeds, **changes})


def _run_to_the_end(cell: Cell, records: dict[str, Any]) -> list[Run]:
    """Serve whatever is missing, one run at a time; the runs in order."""
    ran: list[Run] = []
    while missing := progress(cell, {}, records.get).missing:
        run = missing[0]
        ran.append(run)
        score = run.settings["learning_rate"] * run.settings["batch_size"] + (run.seed or 0) / 1000
        records[run.identity({})] = {
            "status": "finished", "selection": score, "metrics": {},
            "curve": [{"selection": score / 2}, {"selection": score}],
        }  # fmt: skip
    return ran


def test_trials_run_one_after_another_then_the_best_setting_over_the_seeds() -> None:
    records: dict[str, Any] = {}
    ran = _run_to_the_end(_cell(trials=6, seeds=3), records)
    assert [run.seed for run in ran] == [0, 0, 0, 0, 0, 0, 1, 2]
    found = progress(_cell(6, 3), {}, records.get)
    assert found.best is not None and found.best.hyperparameters == {"learning_rate": 1e-3, "batch_size": 64}
    assert [f.made.seed for f in found.seeds] == [0, 1, 2] and not found.missing


def test_asking_for_more_trials_keeps_those_made() -> None:
    records: dict[str, Any] = {}
    first = _run_to_the_end(_cell(trials=2, seeds=1), records)
    more = _run_to_the_end(_cell(trials=4, seeds=1), records)
    at_once = _run_to_the_end(_cell(trials=4, seeds=1), {})
    assert first + more == at_once


def test_a_budget_for_the_whole_grid_trains_only_what_a_smaller_one_left() -> None:
    records: dict[str, Any] = {}
    _run_to_the_end(_cell(trials=4, seeds=1), records)
    assert len(_run_to_the_end(_cell(trials=6, seeds=1), records)) == 2
    trials = progress(_cell(6, 1), {}, records.get).trials
    assert [list(t.hyperparameters.values()) for t in trials] == [[r, b] for r in (1e-3, 5e-4) for b in (16, 32, 64)]


def test_a_grid_smaller_than_the_budget_ends_the_search() -> None:
    assert left(_cell(trials=50, seeds=1), Progress()) == 6, "also before any is made"
    records: dict[str, Any] = {}
    assert len(_run_to_the_end(_cell(trials=50, seeds=1), records)) == 6
    assert left(_cell(50, 1), progress(_cell(50, 1), {}, records.get)) == 0


def test_failed_trials_never_win_and_equal_scores_take_the_earliest() -> None:
    cell = _cell(trials=2, seeds=1, space={"learning_rate": [1e-3], "batch_size": [16, 32]})
    first = progress(cell, {}, {}.get).missing[0]
    records: dict[str, Any] = {first.identity({}): {"status": "failed", "error": "nan", "selection": None}}
    _run_to_the_end(cell, records)
    best = progress(cell, {}, records.get).best
    assert best is not None and best.hyperparameters["batch_size"] == 32
    for record in records.values():
        record |= {"status": "finished", "selection": -0.5}
    best = progress(cell, {}, records.get).best
    assert best is not None and best.hyperparameters["batch_size"] == 16


def test_a_pruner_sees_the_curves_of_the_trials_before() -> None:
    first, second, seed = _run_to_the_end(_cell(trials=2, seeds=2, pruner="median"), {})
    assert not first.curves_before and [len(curve) for curve in second.curves_before] == [2]
    assert not seed.curves_before  # seeds of the winner are never pruned


PINNED = [5.8842e-05, 0.001645633, 0.00846962, 2.8101e-05, 0.009382181]
RATE = {"low": 1e-5, "high": 1e-2, "log": True, "whole": False}


def test_random_draws_are_of_the_dimension_and_the_trial_alone() -> None:
    """So all objectives of a student see the same rates, also one that searches a weight beside them."""

    def drawn(cell: str, space: dict[str, Any]) -> list[dict[str, Any]]:
        return [propose(cell, space, 5, number, [({}, 0.1)] * number, "random") for number in range(5)]

    alone = drawn("one", {"learning_rate": RATE})
    beside = drawn(
        "two", {"vanilla_kd.alpha": {"low": 0, "high": 1, "log": False, "whole": False}, "learning_rate": RATE}
    )
    assert [one["learning_rate"] for one in alone] == [one["learning_rate"] for one in beside]
    assert len({one["learning_rate"] for one in alone}) == 5
    assert all(RATE["low"] <= one["learning_rate"] <= RATE["high"] for one in alone)
    wider = drawn("one", {"learning_rate": {**RATE, "high": 1e-1}})
    assert not {one["learning_rate"] for one in wider} & {one["learning_rate"] for one in alone}
    pinned = [round(one["learning_rate"], 9) for one in alone]
    assert pinned == PINNED, "other draws than those released: every random search would be made anew"


def test_two_terms_that_search_the_same_range_are_not_drawn_as_one() -> None:
    temperature = {"low": 1.0, "high": 8.0, "log": True, "whole": False}
    space = {"dkd.temperature": temperature, "reverse_kl.temperature": temperature}
    both = [propose("c", space, 5, number, [({}, 0.1)] * number, "random") for number in range(5)]
    alone = [propose("d", {"dkd.temperature": temperature}, 5, number, [], "random") for number in range(5)]
    assert [one["dkd.temperature"] for one in both] == [one["dkd.temperature"] for one in alone]
    assert all(one["dkd.temperature"] != one["reverse_kl.temperature"] for one in both)


OWN = {0: "", 2: ',"seed 2"'}  # what the text ends with, by seed


def _seed(told: str) -> int:
    """As docs/statistics.md has it."""
    return int.from_bytes(hashlib.sha256(told.encode()).digest()[:8], "big") // 2 % 2**32


def test_plain_optuna_draws_at_random_what_the_page_says() -> None:
    space = {"dkd.temperature": TPE["learning_rate"], "reverse_kl.temperature": TPE["learning_rate"]}
    for number, (seed, own) in itertools.product(range(3), OWN.items()):
        found = propose("c", space, 3, number, [({}, 0.1)] * number, "random", seed)
        for name, place in zip(space, ("", ",1"), strict=True):
            told = f'["random","temperature",{{"high":0.01,"log":true,"low":1e-05,"whole":false}},{number}{place}{own}]'
            study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=_seed(told)))
            assert study.ask().suggest_float(name, 1e-5, 1e-2, log=True) == found[name]


@pytest.mark.parametrize("seed", OWN)
def test_plain_optuna_proposes_by_tpe_what_the_page_says(seed: int) -> None:
    kinds = distributions(TPE)
    before: list[tuple[Any, float | None]] = []
    for number in range(10):
        sampler = optuna.samplers.TPESampler(seed=_seed(f'["tpe","c",{number}{OWN[seed]}]'), n_startup_trials=5)
        study = optuna.create_study(direction="maximize", sampler=sampler)
        for params, score in before:
            state = optuna.trial.TrialState.FAIL if score is None else optuna.trial.TrialState.COMPLETE
            study.add_trial(optuna.trial.create_trial(params=params, distributions=kinds, value=score, state=state))
        found = propose("c", TPE, 10, number, before, seed=seed)
        assert study.ask(kinds).params == found
        before.append((found, None if number == 2 else found["learning_rate"]))


@pytest.mark.parametrize("sampler", ["random", "tpe"])
def test_no_setting_of_a_grid_is_drawn_twice(sampler: str) -> None:
    tried: list[tuple[dict[str, Any], float | None]] = []
    for number in range(6):
        tried.append((dict(propose("cell", GRID, 6, number, tried, sampler)), 0.5))
    assert len({str(sorted(settings.items())) for settings, _ in tried}) == 6


@pytest.mark.parametrize("sampler", ["random", ""])
def test_a_search_that_is_resumed_proposes_what_it_would_have(sampler: str) -> None:
    """A replay of the records alone: neither Optuna's database nor an earlier process is asked."""
    space = {"learning_rate": RATE, "vanilla_kd.temperature": {"low": 1.0, "high": 8.0, "log": True, "whole": False}}
    one, records = cell(space=space, trials=8, sampler=sampler), dict[str, Any]()
    for number in range(8):  # each time from the beginning, by the ledger
        (missing,) = progress(one, {}, records.get).missing
        records[missing.identity({})] = {"status": "finished", "selection": 0.1 * number}
    found = progress(one, {}, records.get)
    assert not found.missing and len({trial.run for trial in found.trials}) == 8
    before: list[tuple[Any, float | None]] = []
    for trial in found.trials:
        assert propose(one.search, space, 8, len(before), before, sampler) == trial.hyperparameters
        before.append((trial.hyperparameters, trial.score))
