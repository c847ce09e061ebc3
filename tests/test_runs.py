"""What a run is: its identity, its JSON and back, and what it depends on."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from dataclasses import replace
from importlib import import_module
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UserError
from harness.planning.planned import First, Plan
from harness.runs import (
    BaselineRun,
    BaseTeacher,
    CheckpointRun,
    CorpusDistillationRun,
    CountRun,
    Impossible,
    JoinedTeachersRun,
    JointStudentRun,
    JointTeacherRun,
    MaskedTeacherRun,
    PretrainingRun,
    Run,
    SpeedRun,
    StudentRun,
    TeacherRun,
    UntunedRun,
)
from harness.seeds import derive_seed
from tests.conftest import environment
from tests.search.builders import cell, plan, student_run

DEFAULTS = {"epochs": 3, "batch_size": 32}
PRETRAINED = BaseTeacher(name="embedded", content="c0ffee", pretrained="f" * 16)
TEACHER, STUDENT = "0" * 16, "1" * 16
OF_TASK: dict[str, Any] = {"task": "mrpc", "data": "da7a", "metric": "f1", "settings": {"epochs": 4}, "seed": 1}
JOINT: dict[str, Any] = {"tasks": {"mrpc": "da7a", "rte": "da7b"}, "metrics": {"mrpc": "f1", "rte": "accuracy"}}
MEASURED: dict[str, Any] = {"task": "speed", "student": "", "configuration": {"model_type": "bert"}, "metric": "m"}
CORPUS: dict[str, Any] = {"corpus": "c0", "settings": {}, "seed": 0}
STARTED: dict[str, Any] = {"student": "transformer", "init": f"pretrained:{STUDENT}", "objective": "cosine"}

# One of every kind, and the runs whose weights it reads.
RUNS: list[tuple[Run, tuple[str, ...]]] = [
    (TeacherRun(**OF_TASK, teacher=PRETRAINED, evaluate_only=True), (PRETRAINED.pretrained or "",)),
    (JoinedTeachersRun(**OF_TASK, teacher=PRETRAINED, members=[TEACHER, STUDENT]), (TEACHER, STUDENT)),
    (CheckpointRun(**OF_TASK, teacher=replace(PRETRAINED, pretrained=None)), ()),
    (student_run(**OF_TASK, teacher=TEACHER, before=[[0.5]], plugins={"objective mine": "1"}), (TEACHER,)),
    (student_run(**OF_TASK, teacher=TEACHER, init=f"pretrained:{STUDENT}", masked_teacher=PRETRAINED),
     (TEACHER, "f" * 16, STUDENT)),
    (student_run(**OF_TASK, teacher=TEACHER, masked_teacher=TEACHER, analysis="masked_words"), (TEACHER,)),
    (UntunedRun(**OF_TASK, **STARTED, teacher=PRETRAINED), ("f" * 16, STUDENT)),
    (JointTeacherRun(**JOINT, teacher=PRETRAINED, settings={}), ("f" * 16,)),
    (JointStudentRun(**JOINT, **STARTED, teacher=TEACHER, procedure="one_stage", settings={}), (TEACHER, STUDENT)),
    (PretrainingRun(teacher=replace(PRETRAINED, pretrained=None), settings={}), ()),
    (MaskedTeacherRun(**CORPUS, teacher=PRETRAINED, objective="mlm"), ("f" * 16,)),
    (CorpusDistillationRun(**CORPUS, **STARTED, teacher=TEACHER), (TEACHER, STUDENT)),
    (BaselineRun(**OF_TASK, baseline="majority"), ()),
    (CountRun(**MEASURED, settings={}), ()),
    (SpeedRun(**MEASURED, settings={}, reference={"model_type": "bert"}), ()),
    (Impossible(metric="f1", settings={}), ()),
]  # fmt: skip


def test_a_setting_at_its_default_does_not_enter_the_identity() -> None:
    plain, later = student_run(), {**DEFAULTS, "added_later": 7}
    same, other = replace(plain, settings={"epochs": 3}), replace(plain, settings={"epochs": 4})
    assert same.identity(DEFAULTS) == plain.identity(DEFAULTS) != other.identity(DEFAULTS)
    assert replace(same, settings={"epochs": 3, "added_later": 7}).identity(later) == same.identity(DEFAULTS)


@given(
    st.dictionaries(
        st.text(min_size=1, max_size=8), st.integers() | st.floats(allow_nan=False, allow_infinity=False), max_size=6
    )
)
def test_identity_ignores_the_order_of_keys(settings: dict[str, Any]) -> None:
    backwards = dict(reversed(list(settings.items())))
    assert student_run(settings=settings).identity({}) == student_run(settings=backwards).identity({})


def test_identities_and_seeds_are_the_same_everywhere() -> None:
    # Fixed values: a change here would orphan every result that users have.
    run = student_run(**{**OF_TASK, "seed": 0}, objective="att_kl", procedure="two_stage", teacher="0123456789abcdef")
    assert replace(run, data="").identity(DEFAULTS) == "6c3bc505cb1d47e1"
    base = BaseTeacher(name="embedded", content="c0ffee")
    assert replace(run, data="", teacher=base).identity(DEFAULTS) == "01b8886bcd3ed267"
    assert derive_seed("training", 0) == 2534817931368935355


@pytest.mark.parametrize(("run", "before"), RUNS, ids=[run.kind or "impossible" for run, _ in RUNS])
def test_a_run_is_what_its_json_says(run: Run, before: tuple[str, ...]) -> None:
    again = Run.read(json.loads(json.dumps(run.specification())))
    assert type(again) is type(run) and again == run and again.identity({}) == run.identity({})
    assert None not in run.specification().values() and run.specification().get("kind", "") == run.kind
    assert set(run.depends_on) == set(before) and len(run.depends_on) == len(before)


def test_every_kind_is_known() -> None:
    kinds = {kind for kind, found in Run.known.items() if found.__module__.startswith("harness.runs.")}
    assert kinds == {run.kind for run, _ in RUNS}
    assert Run.kind_of({"kind": "studnet"}) is Run
    with pytest.raises(UserError, match="unknown kind of run 'studnet': no loaded procedure has it"):
        Run.read({"kind": "studnet"})


def test_the_kinds_of_procedures_are_known_to_whoever_only_looks() -> None:
    """A record of one says of itself what a table needs, or is damaged, whatever was loaded before it is read."""
    looks = "from harness.runs import Run; print(Run.kind_of({'kind': 'assistant'}).scored)"
    process = subprocess.run([sys.executable, "-c", looks], env=environment(), capture_output=True, text=True)
    assert process.stdout == "True\n", process.stderr


def test_a_plan_is_what_its_json_says() -> None:
    cells = [cell(run, str(number), task="mrpc", row="a", init="every") for number, (run, _) in enumerate(RUNS)]
    first = {run.identity({}): First(run, list(before)) for run, before in RUNS}
    told = plan(cells, first=first).to_json()
    again = Plan.from_json(json.loads(json.dumps(told)))
    assert again.to_json() == told and "teachers" not in told["cells"][0]
    assert [one.run for one in again.cells] == [run for run, _ in RUNS] and again.first == first


@pytest.mark.parametrize("kind", [kind for kind, of in Run.known.items() if of.performed_by])
def test_what_performs_a_kind_of_run_takes_it_and_the_work(kind: str) -> None:
    module, _, function = Run.known[kind].performed_by.partition(":")
    found = getattr(import_module(f"harness.jobs.{module}"), function)
    assert list(inspect.signature(found).parameters)[:2] == ["run", "work"]


def test_a_kind_that_could_be_taken_for_another_is_refused() -> None:
    """It is read by its kind alone: another's run would be performed in its place."""
    with pytest.raises(UserError, match=r"Mine in .*test_runs.py must have a kind of its own"):
        type("Mine", (StudentRun,), {"__module__": __name__})
    with pytest.raises(UserError, match=r"Mine in .*test_runs.py has the same kind as StudentRun, 'student'"):
        type("Mine", (StudentRun,), {"__module__": __name__, "kind": "student"})
    assert Run.known["student"] is StudentRun
