"""A study that was changed after its runs were planned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import Any

import pytest

from harness.contracts import Hyperparameter
from harness.planning.planned import Plan, declaration_of
from harness.registry import STUDIES
from harness.search.results import redeclared
from tests.studies.builders import planned

STUDY = STUDIES.get("objectives_vs_init")


@pytest.fixture(scope="module")
def plan() -> Plan:
    return planned(STUDY.name, profile="quick", objectives=("vanilla_kd",), inits=["every"], tasks=["sentiment"])


def test_its_words_and_plans_of_earlier_versions_tell_nothing(plan: Plan) -> None:
    words = replace(STUDY, title="", question="", rows=tuple(replace(row, label=row.name) for row in STUDY.rows))
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


def test_it_is_the_same_in_whatever_containers_it_is_written() -> None:
    def hashed(settings: Mapping[str, object], epochs: Sequence[object]) -> str:
        search = {"epochs": epochs, "learning_rate": Hyperparameter(1e-3, low=1e-4, high=1e-2)}
        profile = replace(STUDY.profile("quick"), settings=settings, search=search)
        return declaration_of(replace(STUDY, profiles={"quick": profile}), "quick")

    assert hashed(MappingProxyType({"batch_size": 8}), range(1, 3)) == hashed({"batch_size": 8}, [1, 2])
    assert hashed({"batch_size": 8}, [1, 2]) != hashed({"batch_size": 8}, [1, 3])
