"""Settings that are asked for and do nothing, or are called otherwise."""

from __future__ import annotations

import pytest

from harness.errors import UserError
from harness.planning.plan import resolve
from harness.planning.request import Request


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("vanilla_kd.temperature=3", "setting 'vanilla_kd.temperature' has no effect: it is of vanilla_kd, which no"),
        ("bilstm.hidden_units=64", "setting 'bilstm.hidden_units' has no effect: it is of bilstm, which no selected"),
        ("student.matrix_size=4", "setting 'student.matrix_size' has no effect: it is of bidirectional_hybrid or cmow"),
        ("vanilla_kd.temprature=3", "unknown setting 'vanilla_kd.temprature': did you mean"),
        ("lr=0.1", "unknown setting 'lr': did you mean learning_rate?"),
        ("bs=8", "unknown setting 'bs': did you mean batch_size?"),
    ],
)
def test_what_a_setting_is_of_or_may_be_is_said(setting: str, said: str) -> None:
    with pytest.raises(UserError) as error:
        resolve(Request("objectives_vs_init", objectives=["labels_only"], tasks=["sentiment"], overrides=[setting]))
    assert str(error.value).startswith(said)
