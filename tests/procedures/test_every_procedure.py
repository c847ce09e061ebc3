"""Every registered procedure: what it says of its stages, and that mistakes in a new one are refused."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from harness.contracts import LayerMap
from harness.errors import UserError
from harness.procedures.base import Procedure, procedure
from harness.registry import PROCEDURES

LAYERS = LayerMap(((1, 2), (2, 4)))


@pytest.mark.parametrize("name", PROCEDURES.names())
def test_a_procedure_says_what_it_is(name: str) -> None:
    found = PROCEDURES.get(name)
    assert isinstance(found, Procedure) and found.name == name and type(found).__doc__
    if found.trains and found.tunes:
        assert {"epochs", "learning_rate"} <= found.settings.keys()


@pytest.mark.parametrize("name", PROCEDURES.names())
def test_its_stages_train_by_what_it_says(name: str) -> None:
    """`objectives` is what a run's identity and code are told by: no stage may train by another."""
    found = PROCEDURES.get(name)
    for objective in ("vanilla_kd", "hid_seq", "att_kl+hid_seq", "labels_only"):
        if not found.refuse(objective):
            stages = found.stages(objective, LAYERS)
            assert {stage.objective for stage in stages} <= set(found.objectives(objective))
            assert [stage.selects for stage in stages] == [False] * (len(stages) - 1) + [True]


def test_layers_are_transferred_from_the_first_on() -> None:
    found = PROCEDURES.get("progressive").stages("hid_seq", LAYERS)
    assert [(stage.layers.pairs, stage.frozen, stage.parts) for stage in found] == [
        (((1, 2),), (0,), 2),
        (((2, 4),), (0, 1), 2),
        (LAYERS.pairs, (), 1),
    ]
    assert "not every term of cosine compares layers" in PROCEDURES.get("progressive").refuse("cosine")


def test_a_mistaken_procedure_is_refused() -> None:
    with pytest.raises(UserError, match="must be a subclass of Procedure"):
        procedure("mine")(SimpleNamespace)  # type: ignore[type-var]
    with pytest.raises(UserError, match="unknown procedure 'two_stages'.*two_stage"):
        PROCEDURES.get("two_stages")
