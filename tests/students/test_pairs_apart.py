"""Students that read the two sentences of a pair apart: what they say that they emit of it they emit, and no more."""

from __future__ import annotations

import pytest

from harness.contracts import Signal, Want
from harness.errors import UserError
from harness.testing.student_cases import PAIR, Case
from tests.small_models import TWO

STUDENTS = {
    "bilstm": (("vocabulary", "teacher"),),
    "biattentive_lstm": (),
    **dict.fromkeys(("cbow", "cmow", "hybrid", "bidirectional_hybrid"), (("pair_encoding", "diffcat"),)),
}


@pytest.mark.parametrize("name", STUDENTS)
def test_of_a_pair_they_emit_what_they_say(name: str) -> None:
    case = Case(name, PAIR, STUDENTS[name])
    student, batch, described = case.build().eval(), case.batch(), case.describe()
    student(batch, Want.of(described.emits - {Signal.MLM_LOGITS}, (1,)))
    for signal in described.lacks:
        with pytest.raises(UserError, match="of a pair"):
            student(batch, Want.of([Signal(signal)], (1,)))
    assert described.lacks and not {Signal.EMBEDDINGS, Signal.HIDDEN_STATES} & described.emits
    assert not case.plugin.describe({}, case.describe(), TWO).lacks.keys() & {"embeddings", "sentence"}
