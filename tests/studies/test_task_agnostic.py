"""The study of task-agnostic distillation: its rows, the published settings, and what runs share."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import pytest

from harness.data.tasks import CORPUS
from harness.jobs import corpus as jobs
from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.planning.recipe import recipes_before
from harness.planning.request import Request
from harness.registry import STUDENTS, STUDIES, TEACHERS
from harness.runs import CheckpointRun, CorpusDistillationRun
from harness.search.driver import workspace_of
from harness.training.work import Work
from tests.conftest import ROOT
from tests.search.builders import of_kind
from tests.studies.builders import planned
from tests.training.builders import ignore

NAME = "task_agnostic_objectives"
OBJECTIVES = {
    "vanilla_kd": ("mlm_kd", "Vanilla KD"),
    "hid_cls": ("hid_cls", "Hid-CLS"),
    "hid_seq": ("hid_seq", "Hid-Seq"),
    "att_mse": ("att_mse", "Att-MSE"),
    "att_mse+hid_seq": ("att_mse+hid_seq", "Att-MSE+Hid-Seq"),
    "att_kl": ("att_kl", "Att-KL"),
    "att_kl+hid_seq": ("att_kl+hid_seq", "Att-KL+Hid-Seq"),
    "att_kl+val_kl": ("att_kl+val_kl", "Att-KL+Val-KL"),
}
ALL_LAYERS = "att_mse_all_layers"  # which the text tells of without a number
CHECKPOINTS = {"distilbert": "DistilBERT", "tinybert": "TinyBERT", "minilm": "MiniLM"}


def general(plan: Plan) -> dict[str, CorpusDistillationRun]:
    """Every distillation on the corpus."""
    return of_kind(plan, CorpusDistillationRun)


@pytest.fixture(scope="module")
def paper() -> Plan:
    return planned(NAME)


def test_its_rows_are_those_of_the_published_table() -> None:
    study = STUDIES.get(NAME)
    path = ROOT / "reports" / "papers" / "published" / "wang2023_table2_task_agnostic.csv"
    lines = list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
    rows = {row.name: row for row in study.rows}
    assert list(rows) == [*CHECKPOINTS, *OBJECTIVES, ALL_LAYERS]
    assert not rows[ALL_LAYERS].published and rows[ALL_LAYERS].mark
    assert {row.published for row in study.rows if row.published} == {line["objective"] for line in lines}
    for name, (objective, published) in OBJECTIVES.items():
        assert (rows[name].objective, rows[name].published, rows[name].checkpoint) == (objective, published, "")
    for name, published in CHECKPOINTS.items():
        row = rows[name]
        assert (row.objective, row.published, row.label) == ("labels_only", published, published)
        assert row.checkpoint and row.mark and not row.settings
    metrics = {line["task"]: line["metric"] for line in lines}
    shown = {"MRPC": "f1", "CoLA": "matthews", "QQP": "accuracy"}
    assert study.metrics == {task.lower(): metric for task, metric in shown.items()}
    assert (metrics["MRPC"], metrics["CoLA"], metrics["QQP"]) == ("f1", "mcc", "acc")


@pytest.mark.parametrize("profile", ["quick", "small", "paper"])
def test_every_row_is_distilled_once_from_the_last_layer_or_from_all(profile: str) -> None:
    plan = planned(NAME, profile=profile)
    found = general(plan)
    asked = {name: (objective, "last") for name, (objective, _) in OBJECTIVES.items()}
    asked |= {"vanilla_kd": ("mlm_kd", "mapped"), ALL_LAYERS: ("att_mse", "mapped")}  # the first has none to compare
    reached = {}
    for cell in plan.cells:
        assert not cell.refused and cell.init == "random"
        (run,) = set(cell.after) & set(found)
        reached[run] = (found[run].objective, found[run].settings["transferred_layers"])
        assert reached[run] == asked[cell.row] and found[run].init == "random"
    assert reached.keys() == found.keys() and sorted(reached.values()) == sorted(asked.values())
    assert {cell.row for cell in plan.cells} == set(asked)


def test_the_published_settings(paper: Plan) -> None:
    for made in general(paper).values():
        settings = made.settings
        assert (
            settings.items()
            >= {
                "pack": True,
                "steps": 100_000,
                "batch_size": 1024,
                "learning_rate": 5e-4,
                "adam_beta2": 0.98,
                "max_length": 128,
            }.items()
        )
        assert (settings["optimiser"], settings["weight_decay"], settings["schedule"]) == ("adamw", 0.01, "linear")
        assert (settings["warmup_ratio"], settings["text"], settings["transformer.layers"]) == (0.06, "masked", 6)
        assert 0 < settings["micro_batch"] < 1024
    assert set(paper.tasks) == {"qnli", "sst2", "mnli", "mrpc", "qqp", "rte", "cola"}
    assert paper.corpus == "hub:wikipedia+hub:bookcorpus"
    for cell in paper.cells:
        assert cell.trials == 8  # the whole grid
        assert {key: sorted(values) for key, values in cell.space.items()} == {
            "batch_size": [16, 32],
            "learning_rate": [1e-5, 3e-5, 5e-5, 8e-5],
        }


@pytest.mark.parametrize("init", ["random", "every"])
def test_the_last_layer_learns_from_the_last(
    init: str, monkeypatch: pytest.MonkeyPatch, checkpoint: Path, glue: Path, tmp_path: Path
) -> None:
    """Of a student of three layers and a teacher of four, whatever the layer map says of the others."""
    corpus = tmp_path / "corpus.txt"
    corpus.write_text("the dog and the cat was great .\n" * 20)
    places = {"teacher": str(checkpoint), "data": str(glue), "corpus": str(corpus)}
    asked = {"objectives": ["att_mse"], "inits": [init], "tasks": ["sst2"], **places}
    plan = resolve(Request(NAME, overrides=["transformer.layers=3"], **asked))  # type: ignore[arg-type]
    ((run, made),) = general(plan).items()
    teacher = TEACHERS.get("huggingface")(str(checkpoint)).info(CORPUS)
    plugin = STUDENTS.get("transformer")
    described = plugin.describe({"layers": 3}, teacher, CORPUS)
    assert len(plugin.layer_map(init, described, teacher).pairs) == 3  # what the setting takes the place of

    class Enough(Exception):
        pass

    def stop(model: Any, objective: Any, *rest: Any) -> None:
        raise Enough(objective)

    monkeypatch.setattr(jobs, "train_on_corpus", stop)
    with pytest.raises(Enough) as stopped:
        jobs.corpus_distillation(made, Work(workspace_of(plan, tmp_path / "out", run, made), ignore))
    ours, theirs = stopped.value.args[0].wants()
    assert (ours.attention_scores, theirs.attention_scores) == (frozenset({3}), frozenset({4}))


def test_published_students_join_when_they_are_named(checkpoint: Path) -> None:
    tasks = ["sentiment"]
    assert not {c.row for c in resolve(Request(NAME, tasks=tasks)).cells} & set(CHECKPOINTS)
    named = [f"distilbert={checkpoint}", f"minilm={checkpoint}", f"mine={checkpoint}"]
    plan = resolve(Request(NAME, tasks=tasks, checkpoints=named))
    found = {cell.row: cell for cell in plan.cells if cell.row not in (*OBJECTIVES, ALL_LAYERS)}
    assert found.keys() == {"distilbert", "minilm", "mine"}
    for cell in found.values():
        assert isinstance(cell.run, CheckpointRun) and not cell.refused and not cell.after
    assert {cell.row for cell in plan.cells} > set(OBJECTIVES)


def test_the_recipe_says_which_layers_where_rows_differ_in_them() -> None:
    (said,) = (line for line in recipes_before(planned(NAME, profile="quick")) if "att_mse" in line)
    others = "hid_cls, hid_seq, att_mse+hid_seq, att_kl, att_kl+hid_seq, att_kl+val_kl"
    assert said.endswith(f"; transferred_layers last ({others}), last or mapped (att_mse).")
    (alone,) = recipes_before(planned(NAME, profile="quick", objectives=["att_mse_all_layers"]))
    assert "transferred_layers" not in alone, "as everywhere"


@pytest.mark.parametrize("profile", ["quick", "paper"])
def test_both_protocols_share_the_distillations(profile: str) -> None:
    held_out = planned(NAME, "protocol=held_out", profile=profile, seeds=4)
    published = planned(NAME, "protocol=published", profile=profile, seeds=1)
    assert general(published) == general(held_out)
    ours, theirs = ({cell.id for cell in plan.cells} for plan in (held_out, published))
    assert ours.isdisjoint(theirs)
    assert {cell.run.settings["protocol"] for cell in published.cells} == {"published"}
