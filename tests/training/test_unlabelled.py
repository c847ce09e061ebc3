"""Training without labels: who may teach, what is refused or loses a term, what is trained on, and what is scored."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

from harness.commands.recorded import table_of
from harness.contracts import AGREEMENT, Task
from harness.data import loading
from harness.data.sources import Split, TaskSource, told
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.jobs.examples import examples_of
from harness.jobs.perform import perform
from harness.jobs.unlabelled import answered
from harness.ledger import Ledger
from harness.notebook.results import Results
from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.planning.request import Request
from harness.runs import StudentRun, TeacherRun
from harness.search.driver import workspace_of as of_plan
from harness.search.progress import progress
from harness.teachers.huggingface import HuggingFaceTeacher
from harness.training.work import Work
from harness.training.workspace import teacher_tokenizer
from tests.training.builders import a_run, ignore, settings, workspace_of

SMALL = ("train_examples=40", "epochs=2", "max_length=16", "learning_rate=0.002", "transformer.layers=2")


@pytest.fixture(scope="module")
def elsewhere(glue: Path, checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A teacher of SST-2 that somebody else fine-tuned: its folder does not say on what."""
    folder = tmp_path_factory.mktemp("elsewhere")
    workspace = workspace_of(folder, checkpoint, source=str(glue))
    data = loading.load(get_task("sst2"), str(glue)).content
    given = settings(learning_rate=0.003, max_length=16, epochs=10)
    a_run(TeacherRun, data=data, settings=given).perform(Work(workspace, ignore))  # type: ignore[arg-type]
    for name in ("vocab.txt", "tokenizer.json", "tokenizer_config.json"):
        shutil.copy(checkpoint / name, folder / "weights")
    config = json.loads((folder / "weights" / "config.json").read_text())
    del config["finetuning_task"]
    (folder / "weights" / "config.json").write_text(json.dumps(config))
    return folder / "weights"


def planned(glue: Path, teacher: Path, *objectives: str, task: str = "sst2", **more: Any) -> Plan:
    asked = {"overrides": ["labels=none", *SMALL], "trials": 1, "seeds": 1, "inits": ["every"], **more}
    asked |= {"teacher": str(teacher), "data": str(glue), "tasks": [task], "objectives": objectives}
    return resolve(Request("objectives_vs_init", **asked))


def test_with_labels_a_plan_says_that_a_head_is_not_used(glue: Path, elsewhere: Path, tmp_path: Path) -> None:
    said = 'where its config.json has "finetuning_task": "sst2", and id2label the classes 0, 1 in this order'
    assert said in " ".join(planned(glue, elsewhere, "vanilla_kd", overrides=SMALL).notices)
    recorded = shutil.copytree(elsewhere, tmp_path / "recorded")
    config = json.loads((recorded / "config.json").read_text())
    (recorded / "config.json").write_text(json.dumps({**config, "finetuning_task": "sst2"}))
    assert said not in " ".join(planned(glue, recorded, "vanilla_kd", overrides=SMALL).notices)
    turned = {"finetuning_task": "sst2", "id2label": {0: "1", 1: "0"}, "label2id": {"1": 0, "0": 1}}
    (recorded / "config.json").write_text(json.dumps({**config, **turned}))
    assert said in " ".join(planned(glue, recorded, "vanilla_kd", overrides=SMALL).notices), "in another order"


def performed(plan: Plan, out: Path) -> Ledger:
    """A ledger with every run that the plan asks for."""
    ledger = Ledger(out, create=True)
    runs = [first.run for first in plan.first.values()]
    for cell in plan.cells:
        runs += [] if cell.refused else progress(cell, plan.defaults, lambda run: None).missing
    for run in runs:
        name = run.identity(plan.defaults)
        record, predictions = perform(run.specification(), of_plan(plan, out, name, run), ignore)  # type: ignore[arg-type]
        ledger.write(name, record, predictions)
    return ledger


def test_what_needs_labels_is_refused_and_what_can_do_without_is_marked(glue: Path, elsewhere: Path) -> None:
    plan = planned(glue, elsewhere, "labels_only", "hid_cls_contrast", "vanilla_kd", "logit_mse", "hid_cls")
    cells = {cell.row: cell for cell in plan.cells}
    assert cells["labels_only"].refused == "labels_only needs labels, and is to be trained without"
    assert cells["hid_cls_contrast"].refused == "hid_cls_contrast needs labels, and is to be trained without"
    mark = "trained without labels: vanilla_kd has lost the term that reads them"
    marks = {name: cells[name].mark for name in ("vanilla_kd", "logit_mse", "hid_cls")}
    assert marks == {"vanilla_kd": mark, "logit_mse": "", "hid_cls": mark}  # of its second stage
    for name in marks:
        assert (cells[name].metric, cells[name].run.settings["labels"]) == (AGREEMENT, "none")
    assert cells["hid_cls"].run.settings["vanilla_kd.alpha"] == 1.0 and "vanilla_kd.alpha" not in cells["hid_cls"].space
    with pytest.raises(UserError, match="setting 'vanilla_kd.alpha' has no effect"):
        planned(glue, elsewhere, "hid_cls", overrides=["labels=none", "vanilla_kd.alpha=0.3"])
    with pytest.raises(UserError, match="no cell .* is possible as asked: labels_only needs labels"):
        planned(glue, elsewhere, "labels_only")
    baselines = planned(glue, elsewhere, "logit_mse", baselines=True).cells[1:]
    assert {cell.refused for cell in baselines} == {"a baseline learns from labels, and is to do without"}


def test_with_labels_nothing_has_moved(glue: Path, elsewhere: Path) -> None:
    given, default = (
        planned(glue, elsewhere, "vanilla_kd", overrides=[*SMALL, *more]) for more in ([], ["labels=given"])
    )
    assert [cell.id for cell in given.cells] == [cell.id for cell in default.cells]
    assert given.cells[0].id != planned(glue, elsewhere, "vanilla_kd").cells[0].id
    assert isinstance(next(iter(given.first.values())).run, TeacherRun)
    assert not next(iter(given.first.values())).run.evaluate_only  # with labels it is fine-tuned anew


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"finetuning_task": "cola"}, "has no head of 2 outputs that answers sst2"),
        ({"id2label": {"0": "1", "1": "0"}}, "has no head of 2 outputs that answers sst2"),  # in another order
        ({"finetuning_task": "text-classification"}, ""),
    ],
)
def test_the_teacher_must_answer_the_task(
    change: dict[str, Any], why: str, glue: Path, elsewhere: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(elsewhere, tmp_path / "teacher"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | change))
    if why:
        with pytest.raises(UserError, match=f"without labels the teacher's answers stand for them, but .* {why}"):
            planned(glue, folder, "logit_mse")
    else:
        assert not planned(glue, folder, "logit_mse").cells[0].refused


def test_a_teacher_without_a_head_or_of_other_outputs_is_refused(glue: Path, checkpoint: Path, elsewhere: Path) -> None:
    with pytest.raises(UserError, match="no head of 2 outputs that answers rte: give a model that was fine-tuned"):
        planned(glue, checkpoint, "logit_mse", task="rte")
    three = Task("three", "Three", "accuracy", ("accuracy",), labels=("a", "b", "c"), labelled=False)
    assert not HuggingFaceTeacher(str(elsewhere)).answers(three)


def test_nothing_that_is_trained_or_chosen_on_has_a_label(glue: Path, elsewhere: Path, tmp_path: Path) -> None:
    plan = planned(glue, elsewhere, "logit_mse")
    ledger = performed(replace(plan, cells=[]), tmp_path)  # the teacher alone
    run = plan.cells[0].run
    assert isinstance(run, StudentRun)
    workspace = of_plan(plan, ledger.out, "run", run)
    before = examples_of(run, workspace, teacher_tokenizer(workspace))
    found = answered(before, run, workspace)
    assert not any(told(part.labels.numpy()) for part in (found.train, found.imitated, found.selection))
    assert (found.train.labels == -1).all() and told(found.dev[0].labels.numpy())
    model = AutoModelForSequenceClassification.from_pretrained(elsewhere).eval()
    texts = loading.load(get_task("sst2"), str(glue)).dev[0].text_a
    read = AutoTokenizer.from_pretrained(elsewhere)(texts, padding=True, return_tensors="pt")
    with torch.no_grad():
        theirs = model(**read).logits.argmax(1)
    assert found.answers[1].tolist() == theirs.tolist() and len(set(theirs.tolist())) == 2
    assert [len(part) for part in found.answers] == [len(found.selection), 40]


def test_the_score_is_agreement_beside_the_true_metric(glue: Path, elsewhere: Path, tmp_path: Path) -> None:
    plan = planned(glue, elsewhere, "vanilla_kd", "logit_mse")
    ledger = performed(plan, tmp_path)
    for cell in plan.cells:
        (run,) = (
            missing.identity(plan.defaults) for missing in progress(cell, plan.defaults, lambda run: None).missing
        )
        record, kept = ledger.read(run), ledger.predictions(run)
        assert record is not None and kept is not None and record["metrics"].keys() == {"accuracy", AGREEMENT}
        assert record["metrics"][AGREEMENT] == np.mean(kept["predictions"] == kept["teacher"])
        assert record["metrics"]["accuracy"] == np.mean(kept["predictions"] == kept["labels"])
        assert 12 * record["selection"] == pytest.approx(round(12 * record["selection"]))  # of 12 that are held out
    table = table_of(plan, ledger)
    told_of, hidden = Results(plan, ledger, table).predictions(), Ledger(tmp_path / "hidden", create=True)
    assert {*told_of.label} == {*told_of.teacher} == {"0", "1"}
    for name in {*told_of.run}:  # as of a dev split without labels
        record, kept = ledger.read(name), ledger.predictions(name)
        assert record is not None and kept is not None
        hidden.write(name, record, {**kept, "labels": np.full_like(kept["labels"], -1)})
    bare = Results(plan, hidden, table).predictions()
    assert bare.label.isna().all() and bare.drop(columns="label").equals(told_of.drop(columns="label"))
    assert [column.metric for column in table.columns] == [AGREEMENT, "accuracy"]
    assert [entry.value for entry in table.teacher][0] == 1.0 and not table.untested
    (block,) = table.blocks
    lines = {line.row.name: line for line in block.lines}
    sentence = next(text for text, symbol in table.marks.items() if symbol == lines["vanilla_kd"].mark)
    assert sentence.endswith("; trained without labels: vanilla_kd has lost the term that reads them")
    assert any(note.startswith("Without labels, none is trained or chosen by") for note in table.provenance.notes)


BARE = Task("bare", "Bare", "accuracy", ("accuracy",), labels=("no", "yes"), labelled=False)


class Bare(TaskSource):
    """Texts without labels, but that of one part where that is asked."""

    name, tasks = "bare", (BARE,)

    def examples(self, task: Task, split: str) -> Any:
        for number in range(4):
            yield (
                f"{split}, line {number}",
                [f"text {number}"],
                "yes" if split == self.data or self.data == str(number) else None,
            )


def test_a_source_may_give_no_labels_but_to_all_of_a_part_or_none() -> None:
    train, dev = Bare("dev").splits(BARE)
    assert isinstance(train, Split) and not told(train.labels) and dev.labels.tolist() == [1] * 4
    score = replace(BARE, labels=(), range=(-4.0, 4.0), labelled=False)
    assert np.isnan(Bare("").splits(score)[0].labels).all()
    with pytest.raises(UserError, match="train, line 2 has a label, but train, line 1 has none"):
        Bare("2").splits(BARE)
    with pytest.raises(UserError, match="train, line 0: label None is not one of no, yes"):
        Bare("").splits(replace(BARE, labelled=True))
