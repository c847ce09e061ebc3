"""A teacher for each seed: which runs there are, what the table says, and where there can be but one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harness.errors import UserError
from harness.ledger import Ledger
from harness.planning.plan import resolve
from harness.planning.planned import Cell, Plan
from harness.planning.request import Request
from harness.search.driver import Driver
from harness.search.progress import progress, specify
from harness.search.results import drawn_by_seed, teacher_progress, teacher_scores, teachers
from tests.at_once import AtOnce, Silent
from tests.conftest import SMALL_STUDY, Harness
from tests.results import table_folder

pytestmark = pytest.mark.usefixtures("no_figures")

ASKED: dict[str, Any] = {
    "objectives": ["vanilla_kd", "att_kl"], "inits": ["every"], "tasks": ["entailment"], "seeds": 3, "trials": 2,
    "teacher": "embedded:train",
}  # fmt: skip


def planned(*overrides: str, study: str = "objectives_vs_init", **asked: Any) -> Plan:
    return resolve(Request(study, overrides=overrides, **{**ASKED, **asked}))


def runs(plan: Plan, cell: Cell) -> list[str]:
    settings = {"learning_rate": 1e-3}
    return [specify(cell, settings, seed, ()).identity(plan.defaults) for seed in range(cell.seeds)]


def test_each_seed_learns_from_its_own_teacher_and_trials_from_the_first() -> None:
    one, each = planned(), planned("teacher.seeds=3")
    assert one.teachers == each.teachers and teachers(one) == 1 and teachers(each) == 3
    assert (drawn_by_seed(one), drawn_by_seed(each)) == ((), tuple(each.tasks))
    assert planned("teacher.seeds=1").cells == one.cells
    for before, cell in zip(one.cells, each.cells, strict=True):
        made = [each.first[run].run for run in cell.teachers]
        assert made == [replace(made[0], seed=seed) for seed in range(3)]
        learned = [specify(cell, {}, seed, ()).learns_from for seed in range(3)]
        assert learned == cell.teachers and set(cell.teachers) <= set(cell.after)
        assert cell.id == before.id and not before.teachers
        assert runs(one, before)[0] == runs(each, cell)[0] and not set(runs(one, before)[1:]) & set(runs(each, cell))
    for cell in planned("teacher.seeds=3", "searches=each_seed").cells:
        missing = progress(cell, each.defaults, lambda run: None).missing
        assert [(run.seed, run.learns_from) for run in missing] == list(enumerate(cell.teachers)), "of its own search"


def test_what_is_trained_and_what_the_teachers_row_shows(tmp_path: Path) -> None:
    plan, out = planned("teacher.seeds=3"), tmp_path / "out"
    ledger = Ledger(out, create=True)
    assert Driver(plan, ledger, AtOnce(), Silent()).run() == 1 + 3 + 2 * (2 + 2)  # pre-training, teachers, cells
    (scores,) = teacher_scores(plan, ledger).values()
    by_seed = [ledger.read(run) or {} for run in plan.cells[0].teachers]
    assert scores == [record["metrics"] for record in by_seed] and len(scores) == 3
    assert teacher_progress(plan, ledger) == {}
    assert Driver(plan, Ledger(out), AtOnce(), Silent()).run() == 0
    assert Driver(planned(), Ledger(out), AtOnce(), Silent()).run() == 2 * 2  # the further seeds of one teacher
    for status, told in (("finished", "2/3"), ("failed", "failed")):
        for run in plan.cells[0].teachers[:2]:  # with those, the third aside
            changed = {**by_seed[0], "status": status, "error": "it diverged"}
            ledger.write(run, {k: v for k, v in changed.items() if k != "predictions_sha256"}, None)
        (ledger.folder(plan.cells[0].teachers[2]) / "record.json").unlink(missing_ok=True)
        ledger.forget(plan.cells[0].teachers[2])
        assert list(teacher_progress(plan, ledger).values()) == [told] and not teacher_scores(plan, ledger)


@pytest.mark.parametrize(
    ("overrides", "asked", "said"),
    [
        (("teacher.seeds=2",), {}, "must be 1, one teacher for all, or 3, one for each seed of a cell, not 2"),
        (("teacher.seeds=0",), {}, "teacher.seeds must be at least 1"),
        (("teacher.seeds=2",), {"study": "multi_task", "objectives": None, "inits": None, "tasks": None, "seeds": 2},
         "a teacher of several is trained once"),
        (("teacher.seeds=3",), {"study": "untuned_representations", "objectives": None, "inits": None, "tasks": None},
         "'teacher.seeds' has no effect"),
    ],
)  # fmt: skip
def test_what_makes_no_sense_is_refused(overrides: tuple[str, ...], asked: dict[str, Any], said: str) -> None:
    with pytest.raises(UserError, match=said):
        planned(*overrides, **asked)


def test_a_teacher_that_answers_the_task_as_it_is_has_one_seed() -> None:
    with pytest.raises(UserError, match="'teacher.seeds' has no effect on entailment: the teacher's weights answer it"):
        planned("teacher.seeds=3", teacher="embedded")


def test_the_whole_way(call: Harness, glue: Path, checkpoint: Path, tmp_path: Path) -> None:
    words = (*SMALL_STUDY, "--data", glue, "--objectives", "labels_only", "--inits", "random", "--trials", "1")
    short = ("--seeds", "2", "--set", "epochs=1", "teacher.seeds=2", "--out", tmp_path / "out")
    made = call("run", *words, "--teacher", checkpoint, *short)
    assert made.returncode == 0 and "4 runs trained" in made.stdout, made.stdout + made.stderr
    text = (table_folder(tmp_path / "out") / "table.md").read_text()
    assert "over n = 2 seeds, each with its own teacher, one draw of training examples." in text
    assert [" ± " in line for line in text.splitlines() if line.startswith("| Teacher")] == [True]
    records = [json.loads(path.read_bytes())["record"] for path in (tmp_path / "out").glob("ledger/*/record.json")]
    students = [r["specification"] for r in records if r["specification"]["kind"] == "student"]
    assert len({s["teacher"] for s in students}) == len(students) == 2
