"""What other code made is made anew when that is asked for: all of it, once, whatever interrupts it."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from harness.code_versions import engine
from harness.files import checksums, digest, sealed, unsealed
from harness.ledger import Ledger
from harness.runs.messages import Failed, Message
from harness.search import driver
from harness.search.driver import Driver
from harness.search.progress import Finished, Progress
from harness.search.results import other_weights
from tests.at_once import AtOnce, Silent
from tests.search.builders import student_run
from tests.search.test_index import CELLS, PLAN, TEACHER

SOME = replace(PLAN, cells=[CELLS[0], CELLS[5], CELLS[17]])  # grid, TPE, TPE with a pruner


class Today(AtOnce):
    """What it trains has the code of today, and scores otherwise than the code before. It dies after `most` runs."""

    def __init__(self, ledger: Ledger, most: int = 1000, weights: bytes = b"of today"):
        super().__init__()
        self.ledger, self.most, self.weights = ledger, most, weights
        self.trained: list[str] = []

    def next(self) -> Message:
        if len(self.trained) == self.most:
            raise KeyboardInterrupt
        message = super().next()
        run, record = message.run, message.record
        self.trained.append(run)
        record |= {"code": engine(), "selection": 1 - record["selection"]}
        weights = self.ledger.folder(run) / "weights"
        if weights.is_dir():
            (weights / "model.safetensors").write_bytes(self.weights)
            record["weights"] = checksums(weights)
        else:
            made = unsealed((self.ledger.folder(TEACHER) / "record.json").read_bytes())
            record["started_from"] = {TEACHER: digest(made["weights"])[:16]}
        return message


def driven(out: Path, executor: Any, refresh: bool) -> int:
    return Driver(SOME, Ledger(out), executor, Silent(), refresh=refresh).run()


def test_all_that_other_code_made_is_made_anew_once_however_often_it_is_interrupted(tmp_path: Path) -> None:
    out = tmp_path / "out"
    before = driven(out, AtOnce(), False) if Ledger(out, create=True) else 0
    assert before == 16 and driven(out, AtOnce(), False) == 0
    trained: list[str] = []
    for most in (1, 4, 5):
        executor = Today(Ledger(out), most)
        with pytest.raises(KeyboardInterrupt):
            driven(out, executor, True)
        trained += executor.trained
    executor = Today(Ledger(out))
    driven(out, executor, True)
    trained += executor.trained
    assert len(trained) == len(set(trained)) >= 16 and trained[0] == TEACHER
    undisturbed = tmp_path / "undisturbed"
    Ledger(undisturbed, create=True)
    driven(undisturbed, Today(Ledger(undisturbed)), False)
    for run in Ledger(undisturbed).runs():
        assert Ledger(out).read(run) == Ledger(undisturbed).read(run)
    assert driven(out, AtOnce(), True) == 0


@pytest.mark.parametrize(("weights", "students"), [(b"of today", 0), (b"others", 15)])
def test_what_learned_from_a_teacher_is_made_anew_only_if_that_has_other_weights_now(
    tmp_path: Path, weights: bytes, students: int
) -> None:
    out = tmp_path / "out"
    driven(out, Today(Ledger(out, create=True)), False)
    path = out / "ledger" / TEACHER / "record.json"
    path.write_bytes(sealed({**unsealed(path.read_bytes()), "code": {}}))
    with suppress(KeyboardInterrupt):  # where the students are up to date, nothing is left to be killed
        driven(out, executor := Today(Ledger(out), 1, weights), True)
    assert executor.trained == [TEACHER]
    assert driven(out, Today(Ledger(out), weights=weights), True) == students
    assert driven(out, AtOnce(), True) == 0


class Failing(AtOnce):
    """Fails in whatever it is asked to train but the teacher."""

    def __init__(self, diverged: bool = False):
        super().__init__()
        self.diverged = diverged

    def next(self) -> Message:
        message = super().next()
        if message.run == TEACHER:
            return message
        return Failed(message.run, "the loss became nan", "Traceback", self.diverged)


def test_what_diverged_is_tried_again_by_other_code_alone_and_what_else_failed_by_any(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    diverged, failed = tmp_path / "diverged", tmp_path / "failed"
    for out in (diverged, failed):
        Ledger(out, create=True)
        assert driven(out, Failing(out == diverged), False) > 3
    asked = sum(run != TEACHER for run in Ledger(diverged).runs())
    before = {run: Ledger(diverged).read(run) for run in Ledger(diverged).runs()}
    assert driven(diverged, Failing(True), False) == 0
    assert {run: Ledger(diverged).read(run) for run in before} == before
    assert driven(diverged, Failing(True), True) == asked + 1, (
        "a refresh asks for it, and for the teacher, of older code"
    )
    monkeypatch.setattr(driver, "here", lambda plugins: None)
    assert driven(diverged, Failing(True), False) == asked, "code that cannot be told may be other code"
    monkeypatch.setattr(driver, "here", lambda plugins: "another formula")
    assert driven(diverged, Failing(True), False) == asked and driven(diverged, Failing(True), False) == 0
    monkeypatch.undo()
    assert driven(diverged, AtOnce(), False) > asked and driven(diverged, AtOnce(), False) == 0
    assert driven(failed, Failing(), False) == asked and driven(failed, AtOnce(), False) > asked


def test_a_refresh_that_fails_leaves_the_number_that_there_was(tmp_path: Path) -> None:
    out = tmp_path / "out"
    driven(out, AtOnce(), False) if Ledger(out, create=True) else None
    before = {run: Ledger(out).read(run) for run in Ledger(out).runs() if run != TEACHER}
    assert driven(out, Failing(), True) > 0
    assert {run: Ledger(out).read(run) for run in before} == before


def test_cells_are_told_whose_teachers_teacher_has_other_weights_now() -> None:
    weights = {"model.safetensors": "0" * 64}
    records: dict[str, Any] = {
        "head": {"weights": weights},
        "distillation": {"weights": weights, "started_from": {"head": digest(weights)[:16]}},
        "student": {"started_from": {"distillation": digest(weights)[:16]}},
    }
    ledger: Any = SimpleNamespace(read=records.get)
    done = [Progress(seeds=[Finished("student", student_run, {}, records["student"])])]
    assert other_weights(done, ledger) == ()
    records["head"] = {"weights": {"model.safetensors": "1" * 64}}
    assert [said.partition(" than are")[0] for said in other_weights(done, ledger)] == [
        "1 cell started from other weights of run head"
    ]
