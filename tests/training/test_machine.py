"""What a machine must have for what a run asks."""

from __future__ import annotations

import pytest
import torch

from harness.errors import UserError
from harness.training import machine


@pytest.fixture
def old_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "device", lambda: torch.device("cuda"))
    monkeypatch.setattr(torch.cuda, "is_bf16_supported", lambda including_emulation: False)
    monkeypatch.setattr(torch.cuda, "get_device_name", lambda: "an old GPU")


@pytest.mark.usefixtures("old_gpu")
def test_bfloat16_is_refused_where_the_accelerator_has_it_not() -> None:
    with pytest.raises(UserError, match="an old GPU has no bfloat16: --set precision=float32"):
        machine.check_precision({"precision": "bfloat16"})
    machine.check_precision({"precision": "float32"})
    machine.check_precision({})


def test_a_cpu_computes_in_bfloat16() -> None:
    if machine.device().type == "cpu":
        machine.check_precision({"precision": "bfloat16"})
