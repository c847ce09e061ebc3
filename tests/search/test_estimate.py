"""How long a plan may take is said in the right order of magnitude, or from what was measured."""

from __future__ import annotations

import re

import pytest

from harness.planning.plan import resolve
from harness.planning.request import Request
from harness.search.estimate import estimate
from harness.search.progress import Finished, Progress
from tests.search.builders import student_run

SECONDS = {"days": 86400, "hours": 3600, "minutes": 60, "seconds": 1}


def said(text: str) -> float:
    found = re.match(r"time: about ([\d.]+) (\w+) with", text)
    assert found, text
    return float(found[1]) * SECONDS[found[2]]


@pytest.mark.parametrize("processor", [True, False])
def test_a_measurement_takes_its_rounds(processor: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """1,024 rounds, each a turn of the model and one of BERT-base; on a processor 256 x 64 tokens take long."""
    device = type("Device", (), {"type": "cpu" if processor else "cuda"})
    monkeypatch.setattr("harness.training.machine.device", lambda: device)
    plan = resolve(Request("size_and_speed", "paper"), lenient=True)
    nothing = [Progress() for _ in plan.cells]
    text = estimate(plan, nothing, len(plan.cells), 1)
    least = len(plan.cells) * 1024 * 2 * 0.5
    assert least == pytest.approx(said(text), rel=0.05) if not processor else said(text) > 20 * least
    assert "with 1 worker (from sizes alone" in text and "corpus" not in text
    assert said(estimate(plan, nothing, len(plan.cells), 5)) == pytest.approx(said(text) / 5, rel=0.05)


def test_what_was_measured_goes_before_arithmetic() -> None:
    plan = resolve(Request("size_and_speed", "quick"))
    done = Finished("run", student_run(), {}, {"status": "finished", "selection": 0.0, "seconds": 300.0})
    text = estimate(plan, [Progress(trials=[done], best=done, seeds=[done])], 4, 2)
    assert text == "time: about 10.0 minutes with 2 workers (mean of 1 finished runs)"
