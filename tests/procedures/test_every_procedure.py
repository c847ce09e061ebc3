"""Every registered procedure: what it says of its stages, and that mistakes in a new one are refused."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from harness.code_versions import fingerprint, outside
from harness.contracts import LayerMap, ModelInfo, Profile, Row, Study
from harness.errors import UserError
from harness.jobs import perform
from harness.planning.plan import resolve
from harness.planning.request import Request
from harness.procedures.base import PlannedStage, Procedure, procedure, stages_of
from harness.registry import PROCEDURES, load_file, study
from harness.runs import Run, StudentRun
from harness.training.failures import TrainingFailure
from tests.training.builders import a_run

LAYERS = LayerMap(((1, 2), (2, 4)))
STAGE = PlannedStage("prediction", "vanilla_kd", LAYERS, selects=True)
STUDENT, TEACHER = (
    ModelInfo(name="", layers=layers, width=8, heads=2, vocabulary=9, labels=2, emits=frozenset(), tokenizer="")
    for layers in (2, 4)
)


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


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("stages", [], r"stages returned \[\], but must return at least one PlannedStage"),
        ("stages", ["prediction"], "but must return at least one"),
        ("stages", [replace(STAGE, parts=0)], "stage 'prediction' whose parts must be a whole number of at least 1"),
        ("stages", [replace(STAGE, parts=-1)], "whose parts must be"),
        ("stages", [replace(STAGE, parts=2, part=2)], "whose part must be a whole number from 0 to 1, not 2"),
        ("stages", [replace(STAGE, layers=None)], "whose layers must be a LayerMap, not None"),
        ("stages", [replace(STAGE, layers=LayerMap(((3, 2),)))], r"layers hold \(3, 2\), but the student has 2"),
        ("stages", [replace(STAGE, layers=LayerMap(((-1, 2),)))], r"layers hold \(-1, 2\)"),
        ("stages", [replace(STAGE, layers=LayerMap(((1, 5),)))], r"layers hold \(1, 5\), .* the teacher 4"),
        ("stages", [replace(STAGE, layers=LayerMap(((1, -1),)))], r"layers hold \(1, -1\)"),
        ("stages", [replace(STAGE, frozen=(3,))], "whose frozen names layer 3, but the student has 2"),
        ("stages", [replace(STAGE, objective="hid_seq")], "trains by hid_seq, which objectives must name"),
        ("stages", [replace(STAGE, selects=False)], "as the last, but it must choose an epoch"),
        ("objectives", "vanilla_kd", "objectives returned 'vanilla_kd', but must return a tuple of words"),
        ("objectives", None, "objectives returned None, but must return a Sequence"),
    ],
)
def test_a_procedure_that_plans_what_cannot_be_trained(
    method: str, answer: object, said: str, as_before: None
) -> None:
    def answered(self: object, *_: object) -> object:
        return answer

    mine = procedure("plans_amiss")(type("Mine", (type(PROCEDURES.get("one_stage")),), {}))
    setattr(mine, method, answered)
    with pytest.raises(UserError, match=f"procedure 'plans_amiss' in .*: .*{said}"):
        stages_of(PROCEDURES.get("plans_amiss"), "vanilla_kd", LAYERS, STUDENT, TEACHER)


def test_embeddings_are_layer_0_of_a_stage(as_before: None) -> None:
    stage = replace(STAGE, layers=LayerMap(((0, 0), (2, 4))), frozen=(0, 2))
    mine = type("Mine", (type(PROCEDURES.get("one_stage")),), {"stages": lambda *_: [stage]})
    procedure("from_embeddings")(mine)
    assert stages_of(PROCEDURES.get("from_embeddings"), "vanilla_kd", LAYERS, STUDENT, TEACHER) == (stage,)


def test_a_procedure_that_plans_otherwise_each_time(as_before: None) -> None:
    class Mine(type(PROCEDURES.get("one_stage"))):  # type: ignore[misc]
        asked = 0

        def stages(self, objective: str, layers: LayerMap) -> list[PlannedStage]:
            self.asked += 1
            return [STAGE] * self.asked

    procedure("counts")(Mine)
    with pytest.raises(UserError, match="'counts' in .*: stages returned other stages when asked again"):
        stages_of(PROCEDURES.get("counts"), "vanilla_kd", LAYERS, STUDENT, TEACHER)


def test_a_procedure_whose_methods_take_something_else(as_before: None) -> None:
    class Mine(Procedure):
        def stages(self, objective: str) -> list[PlannedStage]:  # type: ignore[override]
            return []

    with pytest.raises(UserError, match="procedure 'mine' in .* has no cell, which every Procedure must have"):
        procedure("mine")(Mine)
    Mine.cell = lambda self, choice, task, cells: None  # type: ignore[method-assign]
    Mine.__abstractmethods__ = frozenset()
    with pytest.raises(UserError, match=r"stages takes \(self, objective\) but must take \(self, objective, layers\)"):
        procedure("mine")(Mine)
    with pytest.raises(UserError, match="its name must have no '/'"):
        procedure("a/b")(Mine)


KIND = """
from harness.procedures.base import procedure
from harness.procedures.labelled import OneStage
from harness.runs import StudentRun
from harness.runs.settings import TRAINING

class Helped(StudentRun):
    kind = "helped_by_mine"

    def perform(self, work):
        return FACTOR

@procedure("helps_mine")
class Helps(OneStage):
    settings = TRAINING
"""


def test_the_code_that_performs_a_users_kind_of_run_is_part_of_it(tmp_path: Path, as_before: None) -> None:
    """Whatever procedure its stages are of, as an assistant's."""
    (plugin := tmp_path / "helps_mine.py").write_text(KIND)
    load_file(plugin)
    run = a_run(Run.known["helped_by_mine"], objective="att_kl", procedure="two_stage", teacher="t" * 16)
    assert outside(run) == {"procedure helps_mine": fingerprint(str(plugin))}
    assert not outside(a_run(StudentRun, objective="att_kl", procedure="two_stage", teacher="t" * 16))


def test_a_part_of_a_stage_alone_has_a_length(as_before: None) -> None:
    """Of no stage the time that is left was divided by, which ended the command."""

    class Mine(type(PROCEDURES.get("one_stage"))):  # type: ignore[misc]
        def stages(self, objective: str, layers: LayerMap) -> list[PlannedStage]:
            return [PlannedStage("short", objective, layers, selects=True, parts=3)]

    procedure("a_third")(Mine)
    row = Row("kd", "vanilla_kd", "KD")
    profile = Profile("embedded", ("sentiment",), ("every",), trials=1, seeds=1)
    study(Study("a_third", "", "", "a_third", (row,), ("transformer",), {"quick": profile}))
    (cell,) = resolve(Request("a_third")).cells
    assert cell.stages == 1


LEFT = {"metrics": {"accuracy": 0.5}, "selection": 0.5, "best": {"epoch": 1}}


@pytest.mark.parametrize(
    ("left", "said"),
    [
        (None, "returned None, but must return"),
        (({"selection": 0.5, "best": {"epoch": 1}}, None), "returned a record without 'metrics'"),
        (({**LEFT, "metrics": {"f1": 0.5}}, None), "returned accuracy None, which must be a float"),
        (({**LEFT, "metrics": {"accuracy": float("nan")}}, None), "returned a record that is not JSON: Out of range"),
        (({**LEFT, "selection": np.float32(0.5)}, None), "returned a record that is not JSON: Object of type float32"),
        (({**LEFT, "selection": "high"}, None), "returned selection 'high', which must be a float"),
        ((LEFT, {"ids": [0, 1], "predictions": [0], "labels": [0, 1]}), "returned predictions of unequal lengths: "),
    ],
)
def test_a_kind_that_leaves_no_record(left: object, said: str) -> None:
    """What the driver cannot write would end the command, and with it the runs of others."""
    kind = type("Mine", (StudentRun,), {"__module__": __name__, "kind": "leaves_amiss"})
    run = a_run(kind, objective="att_kl", procedure="two_stage", teacher="t" * 16)
    assert perform._left(run, (LEFT, None)) == (LEFT, None)
    with pytest.raises(TrainingFailure, match=f"Mine.perform {said}"):
        perform._left(run, left)
