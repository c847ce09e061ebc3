"""A study that was changed after its runs were planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import pytest

from harness.cli import main
from harness.contracts import Hyperparameter
from harness.ledger import Ledger
from harness.planning.planned import Plan, declaration_of
from harness.registry import STUDIES
from harness.search.results import redeclared
from tests.search.builders import kept
from tests.studies.builders import planned

STUDY = STUDIES.get("objectives_vs_init")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned(STUDY.name, profile="quick", objectives=("vanilla_kd",), inits=["every"], tasks=["sentiment"])


def test_its_words_and_plans_of_earlier_versions_tell_nothing(plan: Plan) -> None:
    words = replace(STUDY, title="", question="", rows=tuple(replace(row, label=row.name) for row in STUDY.rows))
    words = replace(words, rows=tuple(replace(row, published="as printed") for row in words.rows))
    assert redeclared(plan, STUDY) == redeclared(plan, words) == redeclared(replace(plan, declaration=""), STUDY) == ()


@pytest.mark.parametrize(
    "changes",
    [{"rows": STUDY.rows[1:]}, {"seeds": 9}, {"settings": {"epochs": 9}}, {"search": {"epochs": (8, 9)}}],
    ids=list,
)
def test_what_it_asks_for_now_is_told(changes: dict[str, Any], plan: Plan) -> None:
    other = replace(STUDY, **changes) if "rows" in changes else replace(
        STUDY, profiles={**STUDY.profiles, "quick": replace(STUDY.profile("quick"), **changes)}
    )  # fmt: skip
    (sentence,) = redeclared(plan, other)
    assert sentence.startswith("Study objectives_vs_init was changed since these runs were planned")


def test_a_plan_of_an_earlier_version_is_of_the_same_study(plan: Plan) -> None:
    earlier = replace(plan, declaration=declaration_of(STUDY, "quick", ("label", "mark")))
    assert earlier.declaration != plan.declaration and not redeclared(earlier, STUDY)


def test_the_metric_that_epochs_were_chosen_by_is_told(plan: Plan) -> None:
    assert not redeclared(plan, replace(STUDY, metrics={"sentiment": ("accuracy", "f1"), "mrpc": "f1"}))
    assert redeclared(plan, replace(STUDY, metrics={"sentiment": ("f1", "accuracy")}))


def test_status_tells_it_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    Ledger(tmp_path, create=True)
    kept(tmp_path, objectives=["vanilla_kd"], inits=["every"], tasks=["sentiment"])
    asked = ["status", "--study", STUDY.name, "--out", str(tmp_path)]
    assert main(asked) == 0 and "was changed since" not in capsys.readouterr().out
    other = replace(STUDY, profiles={**STUDY.profiles, "quick": replace(STUDY.profile("quick"), seeds=9)})
    monkeypatch.setitem(STUDIES._found, STUDY.name, (other, STUDIES.origin(STUDY.name)))
    assert main(asked) == 0 and "was changed since these runs were planned" in capsys.readouterr().out


def test_it_is_the_same_in_whatever_containers_it_is_written() -> None:
    def hashed(settings: Mapping[str, object], epochs: Sequence[object]) -> str:
        search = {"epochs": epochs, "learning_rate": Hyperparameter(1e-3, low=1e-4, high=1e-2)}
        profile = replace(STUDY.profile("quick"), settings=settings, search=search)
        return declaration_of(replace(STUDY, profiles={"quick": profile}), "quick")

    assert hashed(MappingProxyType({"batch_size": 8}), range(1, 3)) == hashed({"batch_size": 8}, [1, 2])
    assert hashed({"batch_size": 8}, [1, 2]) != hashed({"batch_size": 8}, [1, 3])
