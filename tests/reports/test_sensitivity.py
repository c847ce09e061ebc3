"""Scores by setting: what is listed and drawn, and an importance that is known beforehand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from harness.errors import UserError
from harness.reports import FIGURES
from harness.reports.additions import sensitivity
from harness.reports.figures.drawing import svg
from harness.reports.statistics.importance import FEWEST, importance
from harness.search.proposals import distributions
from tests.reports.drawn import RATE, searched
from tests.reports.test_figures import texts

TWO: dict[str, Any] = {**RATE, "batch_size": [8, 16], "epochs": {"low": 1, "high": 5, "log": False, "whole": True}}


def drawn(count: int, seed: int = 0) -> list[dict[str, Any]]:
    generator = np.random.default_rng(seed)
    return [
        {
            "learning_rate": float(10 ** generator.uniform(-4, -2)),
            "batch_size": int(generator.choice([8, 16])),
            "epochs": int(generator.integers(1, 6)),
        }
        for _ in range(count)
    ]


def test_what_alone_decides_the_score_has_nearly_all_the_importance() -> None:
    settings = drawn(64)
    by_rate = importance(distributions(TWO), settings, [float(np.log10(s["learning_rate"])) for s in settings])
    by_size = importance(distributions(TWO), settings, [float(s["batch_size"]) for s in settings])
    for found, name in ((by_rate, "learning_rate"), (by_size, "batch_size")):
        assert list(found) == list(TWO) and sum(found.values()) == pytest.approx(1)
        assert found[name] > 0.8


def table(count: int, **changes: Any) -> Any:
    values = drawn(count)
    results = [(v["batch_size"] / 100, v["batch_size"] / 100 + 0.001 * i) for i, v in enumerate(values)]
    return searched({("hid_seq", "sst2"): results}, TWO, values=values, **changes)


def test_the_chosen_setting_the_spread_and_the_importance_are_listed() -> None:
    (grid,) = sensitivity.grids(table(40))
    ((label, trials, spread, rate, _, size, mattered, *_),) = grid.groups[0].lines
    best = next(i for i, v in enumerate(drawn(40)) if v["batch_size"] == 16)  # the first of equals
    assert (label.text, trials.text, size.text) == ("Hid-Seq", "40", "16")
    assert rate.text == f"{drawn(40)[best]['learning_rate']:.3g}"
    scores = [v["batch_size"] / 100 + 0.001 * i for i, v in enumerate(drawn(40))]
    assert spread.text == f"{100 * (max(scores) - min(scores)):.1f}"
    assert float(mattered.text.removesuffix(" %")) > 50


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"count": FEWEST - 1}, f"there are fewer than {FEWEST} trials"),
        ({"count": 40, "pruned": True}, "a pruner stopped trials early"),
    ],
)
def test_why_there_is_no_importance_is_told(changes: Any, reason: str) -> None:
    (grid,) = sensitivity.grids(table(**changes))
    assert ("", f"No importance: {reason}.") in grid.notes and not any("importance" in h for h in grid.header)
    rows, _ = FIGURES["sensitivity"].rows(table(**changes))
    assert {row["importance"] for row in rows} == {None}


def test_of_a_search_for_each_seed_each_has_its_chosen_setting() -> None:
    made = searched({("hid_seq", "sst2"): [(0.9, 0.4), (0.7, 0.6), (0.8, 0.5), (0.6, 0.7)]})
    for place, run in enumerate(made.runs):
        run.update(seed=place // 2, trial=place % 2)
    assert [(row["seed"], row["trial"]) for row in sensitivity.rows(made) if row["chosen"]] == [(0, 0), (1, 0)]
    (grid,) = sensitivity.grids(made)
    assert grid.groups[0].lines[0][-1].text == ", ".join(
        f"{made.runs[place]['hyperparameters']['learning_rate']:.3g}" for place in (0, 2)
    )
    notes = [sentence for _, sentence in grid.notes]
    assert any("of all seeds, each of which has a search" in said for said in notes)
    assert any("held-out training data, of each seed's." in said for said in notes)


def test_how_far_seeds_lie_apart_is_no_setting_s_importance() -> None:
    values = drawn(32)
    scores = [0.5 + v["batch_size"] / 1000 + i * 1e-5 for i, v in enumerate(values)]
    alike, apart = (
        searched({("hid_seq", "sst2"): [(0.5, s + i // 4 * step) for i, s in enumerate(scores)]}, TWO, values=values)
        for step in (0.0, 0.1)
    )
    for made in (alike, apart):
        for place, run in enumerate(made.runs):
            run.update(seed=place // 4, trial=place % 4)
    found = [{row["setting"]: row["importance"] for row in sensitivity.rows(made)} for made in (alike, apart)]
    assert found[0] == found[1] and max(found[1], key=lambda name: found[1][name]) == "batch_size"
    (grid,) = sensitivity.grids(apart)
    assert any("by a score less the mean of its seed's" in sentence for _, sentence in grid.notes)


def test_a_trial_that_was_stopped_early_is_not_the_chosen_one() -> None:
    made = searched({("hid_seq", "sst2"): [(0.9, 0.4), (0.7, 0.6), (0.8, 0.5)]})
    made.runs[0]["pruned"] = True
    assert [row["trial"] for row in sensitivity.rows(made) if row["chosen"]] == [2]
    (grid,) = sensitivity.grids(made)
    assert any("of those that were not stopped early" in sentence for _, sentence in grid.notes)


def test_of_one_setting_there_is_no_importance() -> None:
    (grid,) = sensitivity.grids(searched({("hid_seq", "sst2"): [(0.1, 0.2)] * 30}))
    assert ("", "No importance: one setting alone is searched, and all depends on it.") in grid.notes


def test_without_two_trials_it_is_refused_and_not_drawn() -> None:
    with pytest.raises(UserError, match="no cell in which two settings were tried"):
        sensitivity.grids(table(1))
    assert FIGURES["sensitivity"].drawn(table(1)) is None


def test_the_figure_has_a_panel_for_each_setting_and_axes_as_they_were_drawn() -> None:
    made = FIGURES["sensitivity"].drawn(table(12))
    assert made is not None and svg(made) == svg(FIGURES["sensitivity"].drawn(table(12)))
    assert {"Hid-Seq: learning_rate", "Hid-Seq: batch_size", "Hid-Seq: epochs", "SST-2"} <= texts(made)
    panels = {panel.get_title("left"): panel for panel in made.axes}
    assert [panels[f"Hid-Seq: {n}"].get_xscale() for n in ("learning_rate", "epochs")] == ["log", "linear"]


def test_words_stand_side_by_side() -> None:
    space = {"schedule": ["linear", "constant"]}
    values = [{"schedule": word} for word in ("linear", "constant", "linear")]
    found = searched({("hid_seq", "sst2"): [(0.1, 0.5), (0.2, 0.6), (0.3, 0.7)]}, space, "grid", values)
    assert {"linear", "constant"} <= texts(FIGURES["sensitivity"].drawn(found))
