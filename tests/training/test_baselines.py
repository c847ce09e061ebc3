"""The references of --baselines: what they learn from, what they say, and where they stand in a table."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from harness.contracts import Profile, TableRow, Task
from harness.data import loading
from harness.data.sources import Split
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.jobs import baselines
from harness.jobs.examples import examples_of, texts_of
from harness.planning.plan import resolve
from harness.planning.recipe import budget, recipe
from harness.planning.request import Request
from harness.reports import build, render
from harness.rows import BASELINES
from harness.runs import BaselineRun
from harness.training.work import Work
from harness.training.workspace import Workspace, teacher_tokenizer
from tests.reports import synthetic
from tests.training.builders import a_run, settings, workspace_of


@pytest.fixture(scope="module")
def workspace(glue: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    return workspace_of(tmp_path_factory.mktemp("runs"), checkpoint, source=str(glue))


def asked(workspace: Workspace, task: str, baseline: str = "regression", **changes: Any) -> BaselineRun:
    data = loading.load(get_task(task), workspace.source).content
    given = {"metric": get_task(task).metric, "baseline": baseline}
    return a_run(BaselineRun, task=task, data=data, settings=settings(**changes), **given)  # type: ignore[return-value]


def measured(run: BaselineRun, workspace: Workspace) -> tuple[dict[str, Any], Any]:
    return run.perform(Work(workspace, lambda entry: None))


def test_the_regression_learns_and_the_majority_is_the_level_of_chance(workspace: Workspace) -> None:
    """Whether a sentence of the fixture is good depends on one word; whether a pair agrees, on two together."""
    record, kept = measured(asked(workspace, "sst2"), workspace)
    assert record["metrics"] == {"accuracy": 1.0} and record["selection"] == 1.0 and record["examples"] == 108
    assert kept["probabilities"].shape == (40, 2) and kept["probabilities"].dtype == np.float32
    assert kept["probabilities"].argmax(1).tolist() == kept["predictions"].tolist() == kept["labels"].tolist()
    record, kept = measured(asked(workspace, "mrpc", "majority"), workspace)
    (one,) = set(kept["predictions"].tolist())
    train = loading.load(get_task("mrpc"), workspace.source).train.labels
    assert one == np.bincount(train).argmax() and record["metrics"]["accuracy"] == (kept["labels"] == one).mean()


@pytest.mark.parametrize("changes", [{}, {"train_examples": 20}, {"train_fraction": 0.5}, {"protocol": "published"}])
@pytest.mark.parametrize("task", ["sst2", "mrpc"])
def test_it_reads_the_examples_that_students_read(task: str, changes: dict[str, Any], workspace: Workspace) -> None:
    run = asked(workspace, task, **changes)
    train, selection, dev = texts_of(run, workspace)
    read = examples_of(run, workspace, teacher_tokenizer(workspace))
    for split, encoded in ((train, read.train), (selection, read.selection), (dev[0], read.dev[0])):
        assert split.labels.tolist() == encoded.labels.tolist()
    record, _ = measured(run, workspace)
    assert record["examples"] == len(read.train)


SCORES = Task("scored", "Scored", "pearson", ("pearson", "spearman"), pair=True)


@pytest.mark.parametrize("bins", [(), (0.0, 0.5, 1.0)])
def test_of_pairs_with_scores_it_is_a_ridge_regression(bins: tuple[float, ...]) -> None:
    words, draw = [f"word{n}" for n in range(30)], np.random.default_rng(0)
    first = [" ".join(draw.choice(words, 6, replace=False)) for _ in range(300)]
    rest = [" other other other" * (n % 3) for n in range(300)]
    second = [" ".join(text.split()[: 3 if end else 6]) + end for text, end in zip(first, rest, strict=True)]
    score = np.array([[1.0, 0.5, 0.0][n % 3] for n in range(300)], np.float32)
    task = replace(SCORES, bins=bins)
    labels = np.array([bins.index(value) for value in score.tolist()]) if bins else score
    train, dev = (Split("any", first[part], second[part], labels[part]) for part in (slice(200), slice(200, 300)))
    predictions, graded = baselines._regression(task, train)(dev)
    assert graded == {} and predictions.dtype == np.float64
    assert baselines.score(task, predictions, dev.labels)["pearson"] > 0.9
    again, _ = baselines._regression(task, train)(dev)
    assert again.tolist() == predictions.tolist()
    mean, _ = baselines._majority(task, train)(dev)
    assert mean == pytest.approx(np.full(100, score[:200].mean()))


def test_a_class_that_is_not_trained_on_is_never_answered() -> None:
    task = Task("three", "Three", "accuracy", ("accuracy",), labels=("a", "b", "c"))
    texts, labels = ["good day", "bad night"] * 5, np.array([0, 2] * 5)
    predictions, graded = baselines._regression(task, Split("train", texts, None, labels))(
        Split("dev", ["good", "night"], None, np.array([1, 1]))
    )
    assert predictions.tolist() == [0, 2] and (graded["probabilities"][:, 1] == 0).all()
    alone = Split("train", texts[:1], None, labels[:1])
    assert baselines._regression(task, alone)(alone)[0].tolist() == [0]


def test_they_stand_beside_any_students_and_move_none() -> None:
    request = Request("objectives_vs_init", objectives=["vanilla_kd", "hid_cls"], inits=["every"], seeds=2)
    before, plan = resolve(request, lenient=True), resolve(replace(request, baselines=True), lenient=True)
    added = [cell for cell in plan.cells if cell.row in {row.name for row in BASELINES}]
    assert [cell for cell in plan.cells if cell not in added] == before.cells
    assert [(c.row, c.task, c.seeds, c.trials, c.space) for c in added] == [
        (row.name, task, 1, 1, {}) for row in BASELINES for task in plan.tasks
    ]
    assert (budget(plan), recipe(plan), plan.first) == (budget(before), recipe(before), before.first)
    fewer = resolve(replace(request, baselines=True, overrides=["train_examples=50"]), lenient=True)
    assert [cell.run.settings["train_examples"] for cell in fewer.cells] == [50] * len(fewer.cells)
    with pytest.raises(UserError, match="--baselines has no effect: study parameter_counts reads no examples"):
        resolve(Request("parameter_counts", baselines=True), lenient=True)


def test_they_are_never_bold_nor_tied_and_show_no_n() -> None:
    row, student = BASELINES[1], synthetic.ROWS[2]
    assert TableRow.from_json(row.to_json()) == row
    runs = (synthetic.run(95),)
    of_baseline = synthetic.cell(row, "sst2", (95,), seeds=runs, trials=runs, wanted_seeds=1)
    study = replace(synthetic.STUDY, profiles={"quick": Profile("t", ("sst2",), ("every",), 1, 2)})
    cells = [replace(of_baseline, student="", init=""), synthetic.cell(student, "sst2", (86, 84))]
    made = build(study, "quick", cells, synthetic.TASKS, synthetic.PROVENANCE, synthetic.score)
    found = {line.row.name: line.entries[0] for block in made.blocks for line in block.lines}
    assert [(e.best, e.tied) for e in found.values()] == [(False, False), (True, False)]
    text = render(made, "markdown")
    assert re.search(r"\| tf-idf \+ regression† +\| +95\.0 +\|", text)
    assert "n = 2 seeds" in text and "(n=" not in text and "a reference, no student" in text
