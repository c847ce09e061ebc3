"""What whoever watches is told of a distillation on a corpus: lines in a log, or a bar's description."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from harness.runs import CorpusDistillationRun
from harness.search import display
from harness.search.display import Display
from tests.search.builders import BASE, cell, plan, student_run

PLAN = plan([cell()])
GENERAL = CorpusDistillationRun(
    corpus="", teacher=BASE, student="transformer", init="random", objective="att_mse", settings={}, seed=0
)
NAME = "corpus distillation of transformer by att_mse"
ENTRY = {
    "stage": "general", "epoch": 2, "loss": 0.012345, "step": 1500, "steps": 100_000, "tokens_per_second": 12_345.6,
    "steps_per_second": 3.0, "seconds_left": 4000.0, "peak_memory_mib": 3174.4,
}  # fmt: skip
LINE = f"{NAME}: general 2, loss 0.01235, step 1500 of 100000, 12,346 tokens/s, 1 h 06 min left, 3.1 GiB at most"


class Bar:
    """Stands for rich's: remembers what it is told."""

    def __init__(self) -> None:
        self.description = ""

    def add_task(self, description: str, **more: Any) -> int:
        return 0

    def update(self, task: int, description: str = "", **more: Any) -> None:
        self.description = description or self.description


def test_the_bar_tells_steps_speed_time_and_memory() -> None:
    bar = Bar()
    Display(PLAN, bar).epoch(GENERAL, ENTRY)
    assert bar.description == LINE


def test_a_log_has_a_line_now_and_then(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    now = [1000.0]
    monkeypatch.setattr(display.time, "monotonic", lambda: now[0])
    watcher, said = Display(PLAN), []
    for seconds in (2.0, 20.0, 8.5, 29.5, 31.0):
        now[0] += seconds
        watcher.epoch(GENERAL, ENTRY)
        said.append(capsys.readouterr().err)
    assert said == ["", "", f"{LINE}\n", "", f"{LINE}\n"]
    now[0] += 100
    watcher.epoch(GENERAL, {"stage": "general", "epoch": 2, "loss": 0.5, "saved": True})  # a checkpoint is no news
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0.2, "0 min 00 s"),
        (59.4, "0 min 59 s"),
        (59.6, "1 min 00 s"),
        (3599.4, "59 min 59 s"),
        (3600.0, "1 h 00 min"),
        (90_061.0, "25 h 01 min"),
    ],
)
def test_the_time_left_is_readable(seconds: float, said: str) -> None:
    bar = Bar()
    Display(PLAN, bar).epoch(GENERAL, {**ENTRY, "seconds_left": seconds})
    assert f", {said} left, " in bar.description


def test_the_first_step_tells_no_time() -> None:
    bar = Bar()
    Display(PLAN, bar).epoch(GENERAL, {**ENTRY, "epoch": 1, "step": 1})
    assert bar.description == f"{NAME}: general 1, loss 0.01235, step 1 of 100000, 12,346 tokens/s"


def test_training_on_a_task_tells_its_steps_without_a_time(capsys: pytest.CaptureFixture[str]) -> None:
    bar = Bar()
    entry = {k: v for k, v in ENTRY.items() if k not in ("seconds_left", "steps_per_second", "peak_memory_mib")}
    Display(PLAN, bar).epoch(student_run(objective="att_kl", seed=1), entry)
    title = "att_kl transformer every sst2"
    assert bar.description == f"{title}: general 2, loss 0.01235, step 1500 of 100000, 12,346 tokens/s"


def test_how_a_distillation_ended(capsys: pytest.CaptureFixture[str]) -> None:
    watcher = Display(PLAN)
    record = {"status": "finished", "seconds": 61.2, "tokens_per_second": 1234.5, "peak_memory_mib": 512.0}
    watcher.ended(GENERAL, {**record, "metrics": {"distillation_loss": 0.5}})
    assert capsys.readouterr().err == f"{NAME} ready in 61 s, 1,234 tokens/s, 0.5 GiB\n"
    watcher.ended(replace(GENERAL, objective="mlm_kd"), {**record, "metrics": {"masked_cross_entropy": 2.5}})
    assert ", masked_cross_entropy 2.500, 1,234 tokens/s" in capsys.readouterr().err
    watcher.ended(GENERAL, {"status": "failed", "error": "the loss became nan"})
    assert capsys.readouterr().err == f"FAILED {NAME}, seed 0: the loss became nan\n"
    assert watcher.done == 0  # no cell's run has ended


def test_the_total_is_told_at_once_and_what_others_start_from_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    told: list[dict[str, Any]] = []
    bar = Bar()
    bar.update = lambda task, **news: told.append(news)  # type: ignore[method-assign]
    bar.console = type("Console", (), {"print": lambda *words, **more: None})  # type: ignore[attr-defined]
    watcher = Display(PLAN, bar)
    watcher.started(2, 12)
    assert {"completed": 2, "total": 12} in told
    watcher.began(GENERAL)
    assert told[-1] == {"description": f"{NAME}, which others start from"}
    watcher = Display(PLAN)
    watcher.began(GENERAL)
    watcher.began(student_run())
    assert capsys.readouterr().err == f"{NAME} is begun, which others start from\n"


def test_the_time_left_is_said_after_the_first_minute(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    now = [0.0]
    monkeypatch.setattr("harness.search.display.time.monotonic", lambda: now[0])
    run = student_run(settings={"epochs": 4})
    watcher = Display(plan([cell(run, seeds=100)]))
    watcher.started(0, 100)
    watcher.began(run)
    said = []
    for seconds in (20.0, 50.0, 80.0):
        now[0] = seconds
        watcher.epoch(run, {"stage": "prediction", "epoch": 1, "loss": 0.5})
        said.append(capsys.readouterr().err.splitlines())
    line = "as measured so far: about 2.9 hours left for 100 runs of cells"
    assert said[1:] == [[], [line]]
