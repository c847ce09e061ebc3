"""A search for each seed: what its runs are, who counts, and what plan, table and commands say of it."""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import optuna
import pytest

from harness.commands.submit import _repeated
from harness.errors import UserError
from harness.ledger import Ledger
from harness.planning.plan import resolve
from harness.planning.planned import Cell, Plan, runs_of
from harness.planning.request import Request
from harness.planning.space import chooses
from harness.reports.tables.table import _entry as entry_of
from harness.runs import Run
from harness.search.frame import cells as results_of
from harness.search.frame import frame, runs
from harness.search.kept import best_run
from harness.search.progress import done, left, progress
from harness.search.proposals import propose
from harness.search.results import drawn_by_seed, searches, shared_draws
from tests.conftest import Harness
from tests.search.builders import cell, plan, student_run

pytestmark = pytest.mark.usefixtures("no_figures")

RATE = {"low": 1e-5, "high": 1e-2, "log": True, "whole": False}
RANGE = {"learning_rate": RATE}
GRID = {"learning_rate": [1e-3, 5e-4], "batch_size": [16, 32, 64]}
EACH = "searches=each_seed"
RECIPE = {"optimiser": "adamw", "schedule": "linear", "epochs": 1}


def searched(space: dict[str, Any], trials: int = 3, seeds: int = 3, **changes: Any) -> Cell:
    run = student_run(settings={**RECIPE, **changes.pop("settings", {})})
    given = {"space": space, "trials": trials, "seeds": seeds, "searched_by_seed": True}
    return cell(run, **{**given, **changes})


def score(run: Run) -> float:
    """Another setting is the best for each seed."""
    return 0.5 - abs(run.settings["learning_rate"] - 1e-4 * (1 + 9 * (run.seed or 0))) / 1e-2


def serve(one: Cell, records: dict[str, Any], choose: Callable[[list[Run]], Run] = lambda some: some[0]) -> list[Run]:
    """Run whatever is missing, one at a time; the runs in order."""
    ran: list[Run] = []
    while missing := progress(one, {}, records.get).missing:
        run = choose(missing)
        ran.append(run)
        at = score(run)
        told = {"status": "finished", "selection": at, "metrics": {"accuracy": at}, "curve": [{"selection": at}]}
        records[run.identity({})] = {**told, "seconds": 1.0}
    return ran


@pytest.mark.parametrize(("space", "sampler"), [(GRID, ""), (RANGE, ""), (RANGE, "random")])
def test_each_seed_is_the_best_trial_of_its_own_search(space: dict[str, Any], sampler: str) -> None:
    one, records = searched(space, sampler=sampler), dict[str, Any]()
    beside = progress(one, {}, records.get)
    assert [run.seed for run in beside.missing] == [0, 1, 2], "searches run beside each other"
    assert left(one, beside) == runs_of(one) == 9
    ran = serve(one, records)
    found = progress(one, {}, records.get)
    assert len(ran) == len({run.identity({}) for run in ran}) == 9 == done(found) and left(one, found) == 0
    assert [run.made.seed for run in found.seeds] == [0, 1, 2] and found.further == []
    for chosen in found.seeds:
        same = [trial for trial in found.trials if trial.made.seed == chosen.made.seed]
        assert len(same) == 3 and chosen in same and chosen.score == max(trial.score or 0 for trial in same)
    assert found.best is best_run(found) is max(found.seeds, key=lambda run: run.score or 0)


def test_the_first_search_is_the_one_of_all_seeds_and_others_draw_for_themselves() -> None:
    for sampler in ("", "random"):
        one, records = searched(RANGE, sampler=sampler), dict[str, Any]()
        serve(one, records)
        first, *others = (
            [t.hyperparameters["learning_rate"] for t in progress(one, {}, records.get).trials[at : at + 3]]
            for at in (0, 3, 6)
        )
        shared = searched(RANGE, sampler=sampler, searched_by_seed=False)
        trials = progress(shared, {}, records.get).trials
        assert [trial.hyperparameters["learning_rate"] for trial in trials] == first
        assert len({*first, *others[0], *others[1]}) == 9


def test_draws_at_random_and_parts_of_a_grid_are_those_of_all_rows_and_of_tpe_are_not() -> None:
    def drawn(name: str, space: dict[str, Any], sampler: str, seed: int) -> list[Any]:
        found: list[tuple[Any, float | None]] = []
        for number in range(3):
            found.append((propose(name, space, 3, number, found, sampler, seed), 0.5))
        return [hyperparameters for hyperparameters, _ in found]

    for space, sampler in ((RANGE, "random"), (GRID, "")):
        for seed in range(3):
            assert drawn("one", space, sampler, seed) == drawn("other", space, sampler, seed)
        assert len({json.dumps(drawn("one", space, sampler, seed)) for seed in range(4)}) > 1
    assert drawn("one", GRID, "", 1)[0] == drawn("one", GRID, "", 0)[0], "what is declared first is always tried"
    assert drawn("one", RANGE, "", 1) != drawn("other", RANGE, "", 1)


@pytest.mark.parametrize("pruner", ["none", "median"])
def test_whichever_run_ends_first_the_searches_are_the_same(pruner: str) -> None:
    """Of a pruner each search sees its own curves alone."""
    one, generator = searched(RANGE, settings={"pruner": pruner}), random.Random(1)
    in_turn, mixed = dict[str, Any](), dict[str, Any]()
    ran = serve(one, in_turn)
    serve(one, mixed, generator.choice)
    assert in_turn.keys() == mixed.keys()
    curves = {(run.seed, len(run.curves_before)) for run in ran}
    assert curves == set(itertools.product(range(3), range(3) if pruner == "median" else [0]))


def test_a_trial_that_was_lost_is_made_again_and_what_came_after_it_counts_meanwhile() -> None:
    one, records = searched(GRID, seeds=2), dict[str, Any]()
    second = serve(one, records)[3:]  # of seed 1
    del records[second[0].identity({})]
    found = progress(one, {}, records.get)
    assert [run.identity({}) for run in found.missing] == [second[0].identity({})]
    assert left(one, found) == 1 and len(found.seeds) == 1
    serve(one, records)
    assert len(progress(one, {}, records.get).seeds) == 2


@pytest.mark.parametrize(
    ("changes", "epochs"),
    [({}, 1), ({"teachers": ("a", "b")}, 1), ({"space": {"epochs": [1, 2]}, "lengthened": True}, 4)],
)
def test_what_is_submitted_is_the_best_run_whichever_seed_made_it(changes: dict[str, Any], epochs: int) -> None:
    one, records = searched(**{"space": GRID, "trials": 2, "seeds": 2, **changes}), dict[str, Any]()
    ran = serve(one, records)
    longest = max(ran, key=lambda run: (run.seed, run.settings["epochs"]))
    records[longest.identity({})]["selection"] = 0.9
    best = progress(one, {}, records.get).best
    assert best is not None and best.made == longest and (longest.seed, longest.settings["epochs"]) == (1, epochs)
    (again,) = progress(_repeated(one, {one.task: best}, {one.task: "x"}), {}, lambda run: None).missing
    assert again == Run.read({**longest.specification(), "test": {one.task: "x"}})


def test_a_search_of_which_every_trial_failed_has_no_seed_and_the_table_says_so(tmp_path: Path) -> None:
    one, ledger, known = searched(GRID, trials=2, seeds=2), Ledger(tmp_path, create=True), dict[str, Any]()
    for run in serve(one, known):
        failed = {"status": "failed", "error": "too large", "traceback": "", "seconds": 1.0}
        told = failed if run.seed else known[run.identity({})]
        ledger.write(run.identity({}), {**told, "specification": run.specification()}, None)
    made = plan([one])
    found = progress(one, {}, ledger.read)
    assert [run.made.seed for run in found.seeds] == [0] and left(one, found) == 0
    (result,) = results_of(made, runs(made, ledger))
    assert (len(result.seeds), len(result.trials), len(result.failures)) == (1, 2, 2)
    assert (result.wanted_seeds, result.wanted_trials, result.searched_by_seed) == (2, 4, True)
    assert entry_of(result, "accuracy").progress == "1/2, failed"


def test_the_long_form_numbers_trials_search_by_search(tmp_path: Path) -> None:
    one, ledger, known = searched(GRID, trials=2, seeds=2), Ledger(tmp_path, create=True), dict[str, Any]()
    for run in serve(one, known):
        ledger.write(run.identity({}), {**known[run.identity({})], "specification": run.specification()}, None)
    told = frame(plan([one]), ledger)
    assert told[["seed", "trial"]].values.tolist() == [[0, 0], [0, 1], [1, 0], [1, 1]]
    assert told.groupby("seed")["chosen"].sum().tolist() == [1, 1] and len(told) == 4


# ---------------------------------------------------------------- the plan


def planned(*overrides: str, **asked: Any) -> Plan:
    one = {"objectives": ["vanilla_kd", "att_kl"], "inits": ["every"], "tasks": ["entailment"], "seeds": 3, "trials": 2}
    return resolve(Request("objectives_vs_init", overrides=overrides, **{**one, **asked}))


def test_cells_are_the_same_and_their_runs_are_more() -> None:
    one, each = planned(), planned(EACH)
    assert [cell.id for cell in one.cells] == [cell.id for cell in each.cells]
    assert ({*map(runs_of, one.cells)}, {*map(runs_of, each.cells)}) == ({4}, {6})
    assert (searches(one), searches(each), searches(planned(trials=1))) == (1, 3, 0)
    assert Cell.from_json(json.loads(json.dumps(each.cells[0].to_json()))).searched_by_seed
    assert "searched_by_seed" not in one.cells[0].to_json(), "a plan of earlier versions stays as it was"
    assert planned("searches=one").cells == one.cells


@pytest.mark.parametrize(
    ("space", "trials", "sampler", "found"),
    [
        ({}, 3, "", False),
        ({"epochs": [2]}, 3, "", False),
        (GRID, 1, "", False),
        (GRID, 2, "", True),
        (GRID, 1, "random", True),
        (RANGE, 1, "", True),
    ],
)
def test_a_search_chooses_where_it_may_find_another_setting(
    space: dict[str, Any], trials: int, sampler: str, found: bool
) -> None:
    assert chooses(space, trials, sampler) is found


def test_rows_are_compared_seed_by_seed_where_these_try_the_same() -> None:
    between = {"search": ("learning_rate=0.0001..0.001",)}
    listed = {"search": ("learning_rate=0.0001,0.0002,0.0004",)}
    assert drawn_by_seed(planned(EACH, **listed)) == ("entailment",), "a part of a grid"
    assert drawn_by_seed(planned(EACH, **listed, trials=3)) == (), "the whole grid, in which nothing is drawn"
    assert drawn_by_seed(planned(EACH, **between)) == (), "each row tries its own"
    assert drawn_by_seed(planned(EACH, "sampler=random", **between)) == ("entailment",)


@pytest.mark.parametrize(
    ("overrides", "asked", "said"),
    [
        ((EACH,), {"trials": 1}, "'searches' has no effect"),
        ((EACH,), {"seeds": 1}, "'searches' has no effect"),
        (("searches=each",), {}, "searches is one of one, each_seed, not 'each'"),
        ((), {"search": ("searches=one,each_seed",)}, "searches is the same in every trial"),
    ],
)
def test_where_there_is_one_search_at_most_it_is_refused(
    overrides: tuple[str, ...], asked: dict[str, Any], said: str
) -> None:
    with pytest.raises(UserError, match=said):
        planned(*overrides, **asked)


def test_one_setting_drawn_at_random_is_a_search_as_well() -> None:
    asked = {"trials": 1, "search": (), "seeds": 2}
    made = planned(EACH, "sampler=random", **asked)
    missing = [progress(one, {}, lambda run: None).missing for one in made.cells]
    rates = [[run.settings["learning_rate"] for run in some] for some in missing]
    assert rates[0] == rates[1] and [len(some) for some in rates] == [2, 2]


def test_a_plan_says_what_is_shared_and_what_is_not() -> None:
    one = "search: one for all seeds of a cell, so ± and tests hold for the settings that it finds; "
    assert [*shared_draws(planned())][1:] == [f"{one}--set searches=each_seed gives each seed its own (12 runs)"]
    assert not any(said.startswith("search:") for said in shared_draws(planned(EACH)))
    assert not any(said.startswith("search:") for said in shared_draws(planned(trials=1)))


def test_the_runs_that_searches_for_each_seed_would_take_are_those_of_the_whole_plan() -> None:
    whole = {"train_fraction": 1.0, "train_examples": 0, "train_sample": "one", "protocol": "held_out"}
    certain = cell(student_run(settings={**RECIPE, **whole}), "certain")
    one, each = (plan([searched(GRID, searched_by_seed=own, settings=whole), certain]) for own in (False, True))
    (said,) = (said for said in shared_draws(one) if said.startswith("search:"))
    assert f"({sum(map(runs_of, each.cells))} runs)" in said and runs_of(certain) > 0


# ---------------------------------------------------------------- the whole way


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, call: Harness) -> Iterator[tuple[Path, tuple[Any, ...]]]:
    """Two rows with two searches of two trials each, made in two commands: of one search first."""
    out = tmp_path_factory.mktemp("searches") / "out"
    words = ("--study", "objectives_vs_init", "--objectives", "vanilla_kd", "att_kl", "--inits", "every", "--tasks")
    words = (*words, "acceptability", "--seeds", "2", "--trials", "2", "--search", "learning_rate=0.0001..0.01")
    words = (*words, "--out", out, "--set", "sampler=random", "train_examples=64", "epochs=1")
    first = call("run", *words)
    assert first.returncode == 0, first.stderr
    yield out, words


def test_runs_of_one_search_are_those_of_the_first_seed(made: tuple[Path, tuple[Any, ...]], call: Harness) -> None:
    out, words = made
    before = {run: (out / "ledger" / run / "record.json").read_bytes() for run in Ledger(out).runs()}
    shown = call("plan", *words, EACH).stdout
    assert "8 runs, 4 missing" in shown and "search: one for all seeds" not in shown
    again = call("run", *words, EACH)
    assert again.returncode == 0, again.stderr
    after = {run: (out / "ledger" / run / "record.json").read_bytes() for run in before}
    assert before == after and len([*Ledger(out).runs()]) == len(before) + 4


def test_table_and_commands_say_what_each_seed_found(made: tuple[Path, tuple[Any, ...]], call: Harness) -> None:
    out, words = made
    assert call("run", *words, EACH).returncode == 0
    (table,) = (out / "objectives_vs_init" / "quick").glob("*searches*/**/table.md")
    text = table.read_text()
    assert "n = 2 seeds, each with its own search of settings, one teacher, one draw of training examples." in text
    assert "2 trials drawn at random" in text and "0.01 (logarithmic)) in a search for each seed, 2 seeds" in text
    assert "each seed by its own search" in call("report", *words, EACH, "--with", "selection").stdout
    cell_of = json.loads(table.with_name("plan.json").read_text())["cells"][0]["id"]
    shown = call("show", cell_of, "--out", out).stdout
    assert "search for each seed: 4 of 4 trials" in shown and shown.count("<- best") == 2
    assert [shown.count(f"  seed {seed}, trial {number}: ") for seed in (0, 1) for number in (0, 1)] == [1, 1, 1, 1]
    optunas = optuna.get_all_study_summaries(f"sqlite:///{out}/optuna.db")
    own = sorted(one.study_name.rpartition("/")[2] for one in optunas if "/seed " in one.study_name)
    assert own == ["seed 0", "seed 0", "seed 1", "seed 1"] and all(one.n_trials == 2 for one in optunas)


def test_what_is_exported_tells_of_its_own_setting_and_place(
    made: tuple[Path, tuple[Any, ...]], call: Harness, tmp_path: Path
) -> None:
    out, words = made
    assert call("run", *words, EACH).returncode == 0
    (table,) = (out / "objectives_vs_init" / "quick").glob("*searches*/**/plan.json")
    first = Plan.from_json(json.loads(table.read_text()))
    found = progress(first.cells[0], first.defaults, Ledger(out).read)
    best = best_run(found)
    assert best is not None
    (other,) = (run for run in found.seeds if run.run != best.run)
    lost = next(trial for trial in found.trials if trial.run not in {run.run for run in found.seeds})
    for place, (one, said) in enumerate((
        (best, "this is the one that did best"),
        (other, f"this is seed {other.made.seed}, and not the one"),
        (lost, "without this run, a trial of a search that chose another setting"),
    )):  # fmt: skip
        exported = call("export", one.run, "--to", tmp_path / str(place), "--out", out)
        assert exported.returncode == 0, exported.stderr
        card = (tmp_path / str(place) / "README.md").read_text()
        assert f"| learning_rate | {one.made.settings['learning_rate']} |" in card and said in card
        assert f"| seed | {one.made.seed} |" in card


def test_a_run_is_found_whichever_plan_of_its_cell_it_is_of(
    made: tuple[Path, tuple[Any, ...]], call: Harness, tmp_path: Path
) -> None:
    """A plan of more trials in one search is asked for a cell first, and knows nothing of other seeds' searches."""
    out, words = made
    assert call("run", *words, EACH).returncode == 0
    assert call("run", *words, "--trials", "3", "--seeds", "1").returncode == 0
    (file,) = (out / "objectives_vs_init" / "quick").glob("*searches*/**/plan.json")
    each = Plan.from_json(json.loads(file.read_text()))
    run = progress(each.cells[0], each.defaults, Ledger(out).read).seeds[1].run
    exported = call("export", run, "--to", tmp_path / "student", "--out", out)
    assert exported.returncode == 0, exported.stderr
