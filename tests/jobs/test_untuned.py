"""Sentence vectors that no task has tuned: how they are made, the threshold, what a student learns and what is kept."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from transformers import AutoModel, AutoTokenizer, BertForMaskedLM

from harness.contracts import Batch, ModelInfo, Outputs, Signal, Want
from harness.data import loading, sources
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.evaluation.threshold import best_threshold
from harness.jobs import untuned as module
from harness.jobs.examples import examples_of
from harness.jobs.untuned import refusal, untuned
from harness.registry import STUDENTS
from harness.runs import UntunedRun
from harness.runs.settings import TRAINING, UNTUNED
from harness.training.work import Work
from harness.training.workspace import Workspace
from tests.training.builders import a_run, ignore, workspace_of

pytestmark = pytest.mark.usefixtures("no_figures")

MRPC = get_task("mrpc")
INFO = ModelInfo("some", 1, 8, 0, 10, 2, frozenset({Signal.SENTENCE}), "words", pair_encoding="compare")


@pytest.fixture(scope="module")
def teacher(checkpoint: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small checkpoint with weights so large that its sentence vectors differ."""
    folder = tmp_path_factory.mktemp("large")
    model = BertForMaskedLM.from_pretrained(checkpoint)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(8 if parameter.dim() > 1 else 1)
    model.save_pretrained(folder)
    AutoTokenizer.from_pretrained(checkpoint).save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def ragged(glue: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The small MRPC with its sentences cut to 3 to 8 words; as a test split the pairs of dev."""
    root = tmp_path_factory.mktemp("ragged")
    (root / "MRPC").mkdir()
    for part in ("train", "dev"):
        header, *rows = (glue / "MRPC" / f"{part}.tsv").read_text().splitlines()
        cut = []
        for n, row in enumerate(rows):
            *front, first, second = row.split("\t")
            cut.append([*front, " ".join(first.split()[n % 6 :]), " ".join(second.split()[n % 5 :])])
        (root / "MRPC" / f"{part}.tsv").write_text("\n".join([header, *("\t".join(row) for row in cut)]) + "\n")
    lines = ["\t".join([str(n), *row[1:]]) for n, row in enumerate(cut)]
    (root / "MRPC" / "test.tsv").write_text("\n".join(["index\t#1 ID\t#2 ID\t#1 String\t#2 String", *lines]) + "\n")
    return root


@pytest.fixture
def workspace(ragged: Path, teacher: Path, tmp_path: Path) -> Workspace:
    (tmp_path / "run").mkdir()
    return workspace_of(tmp_path / "run", teacher, source=str(ragged), cache=tmp_path / "cache")


def a_comparison(workspace: Workspace, student: str = "", objective: str = "", **settings: Any) -> UntunedRun:
    own: dict[str, Any] = {}
    if student:
        own = {f"{student}.{name}": h.default for name, h in STUDENTS.get(student).hyperparameters.items()}
        own |= {f"{student}.hidden_units": 12, f"{student}.channels": "trained", f"{student}.embedding_size": 16}
    usual = {name: declared.default for name, declared in (TRAINING | UNTUNED).items()} | {"max_length": 16}
    return a_run(
        UntunedRun, task="mrpc", data=loading.content(MRPC, workspace.source), student=student,
        init="random" if student else "", objective=objective, metric="f1", settings=usual | own | settings,
        pair_encoding="compare" if student else None,
    )  # fmt: skip


def done(workspace: Workspace, said: UntunedRun) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    record, predictions = untuned(said, Work(workspace, ignore))
    assert predictions is not None
    return record, predictions


@pytest.mark.parametrize("pooling", ["first", "mean"])
def test_the_teacher_by_hand(workspace: Workspace, pooling: str) -> None:
    """Each dev pair through the plain library, one sentence at a time, against the recorded threshold."""
    record, predictions = done(workspace, a_comparison(workspace, **{"untuned.pooling": pooling}))
    model, tokenizer = (
        AutoModel.from_pretrained(workspace.teacher.argument).eval(),
        AutoTokenizer.from_pretrained(workspace.teacher.argument),
    )

    def vector(text: str) -> torch.Tensor:
        with torch.no_grad():
            states = model(**tokenizer(text, return_tensors="pt")).last_hidden_state[0]
        return states[0] if pooling == "first" else states.mean(0)

    def cosines(split: sources.Split) -> np.ndarray:
        pairs = zip(split.text_a, split.text_b or [], strict=True)
        return np.array([F.cosine_similarity(vector(a), vector(b), dim=0).item() for a, b in pairs])

    data = loading.load(MRPC, workspace.source)
    found = cosines(data.dev[0])
    clear = np.abs(found - record["threshold"]) > 1e-5
    assert clear.sum() > 30
    assert np.array_equal(predictions["predictions"][clear], (found >= record["threshold"]).astype(int)[clear])
    assert np.array_equal(predictions["labels"], data.dev[0].labels)
    assert record["metrics"]["accuracy"] == pytest.approx((predictions["predictions"] == data.dev[0].labels).mean())
    assert 0 <= record["selection"] <= 1 and record["best"] == {"epoch": 0, "selection": record["selection"]}
    assert record["parameters"] == sum(p.numel() for n, p in model.named_parameters() if not n.startswith("pooler"))
    assert (record["curve"], record["examples"]) == ([], 108)


def test_the_threshold_is_chosen_on_training_pairs_alone(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []

    def watched(similarities: np.ndarray, labels: np.ndarray) -> float:
        seen.append(len(similarities))
        return best_threshold(similarities, labels)

    monkeypatch.setattr(module, "best_threshold", watched)
    done(workspace, a_comparison(workspace))
    done(workspace, a_comparison(workspace, train_examples=50))
    assert seen == [108, 50]  # 120 pairs, of which a tenth is held out to choose by


def test_a_student_learns_the_teachers_cosines_without_labels(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = a_comparison(workspace, "bilstm", "pair_cosine", epochs=8, batch_size=16, learning_rate=5e-3)
    record, predictions = done(workspace, said)
    losses = [entry["loss"] for entry in record["curve"]]
    assert len(losses) == 8 and losses[-1] < 0.5 * losses[0], losses
    assert record["best"]["epoch"] == 8 and record["best"]["selection"] == record["selection"]
    assert record["teacher_signals"] == {"sentence": "stored"}
    assert len(predictions["predictions"]) == 40
    # what is trained depends on no label: with all of them turned round the losses are the same
    labels = loading.load(MRPC, workspace.source).train.labels
    before = labels.copy()

    def turned(*arguments: Any) -> Any:
        found = examples_of(*arguments)
        found.train.labels = 1 - found.train.labels
        return found

    monkeypatch.setattr(module, "examples_of", turned)
    assert [entry["loss"] for entry in done(workspace, said)[0]["curve"]] == losses
    assert np.array_equal(labels, before)


def test_the_teachers_vectors_are_computed_once_for_all_runs(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = a_comparison(workspace, "bilstm", "pair_cosine", epochs=2)
    calls: list[Batch] = []
    plain = module.Apart.forward

    def counted(self: module.Apart, batch: Batch, want: Want) -> Outputs:
        calls.append(batch)
        return plain(self, batch, want)

    monkeypatch.setattr(module.Apart, "forward", counted)
    first = done(workspace, said)[0]
    assert len(calls) == 4  # 108 pairs, 32 a call, in two epochs
    tokenizer = AutoTokenizer.from_pretrained(workspace.teacher.argument)
    train = loading.load(MRPC, workspace.source).train
    for side, texts in enumerate((train.text_a, train.text_b or [])):  # with its own tokenizer, not the student's
        encoding = calls[0].encodings[side]
        ids = zip(encoding["input_ids"], encoding["attention_mask"].bool(), strict=True)
        known = tokenizer(texts)["input_ids"]
        assert all(row[mask].tolist() in known for row, mask in ids)
    workspace.run.joinpath("checkpoint.pt").unlink(missing_ok=True)
    again = done(workspace, said)[0]
    assert len(calls) == 4
    assert [entry["loss"] for entry in again["curve"]] == [entry["loss"] for entry in first["curve"]]
    done(workspace, a_comparison(workspace, "bilstm", "pair_cosine", epochs=2, **{"untuned.pooling": "mean"}))
    assert len(calls) == 8, "vectors pooled otherwise are others"


def test_a_student_without_objective_is_compared_as_it_starts(workspace: Workspace) -> None:
    record, predictions = done(workspace, a_comparison(workspace, "bilstm"))
    assert (record["curve"], record["best"]["epoch"], record["teacher_signals"]) == ([], 0, {})
    assert record["initialisation"] is not None and len(predictions["ids"]) == 40
    assert [path.name for path in workspace.cache.glob("[!.]*")] == ["read"], "nothing is asked of the teacher"


def test_test_pairs_are_judged_by_the_same_threshold(workspace: Workspace) -> None:
    said = a_comparison(workspace)
    content = loading.load_test(MRPC, workspace.source)[1]
    _, predictions = done(workspace, replace(said, test={"mrpc": content}))
    assert np.array_equal(predictions["test/predictions"], predictions["predictions"])  # the pairs are those of dev
    assert "test/predictions" not in done(workspace, said)[1]
    with pytest.raises(UserError, match="test files of mrpc in .* changed meanwhile"):
        done(workspace, replace(said, test={"mrpc": "other"}))


def test_what_cannot_be_judged_is_refused_with_a_sentence() -> None:
    teacher = replace(INFO, name="teacher", pair_encoding="joint")
    assert refusal("", None, teacher, MRPC) == refusal("", INFO, teacher, MRPC) == ""
    assert refusal("pair_cosine", INFO, teacher, get_task("paraphrase")) == ""
    for task in ("sst2", "stsb", "rte", "mnli"):
        assert f"task {task} asks" in refusal("", None, teacher, get_task(task))
    for encoding in ("joint", "biattention"):
        assert "no vector of each sentence" in refusal("", replace(INFO, pair_encoding=encoding), teacher, MRPC)
    assert "no vector of each sentence" in refusal("", replace(INFO, emits=frozenset()), teacher, MRPC)
    assert "vanilla_kd compares more" in refusal("pair_cosine+vanilla_kd", INFO, teacher, MRPC)
    assert refusal("cosine", replace(INFO, width=12), teacher, MRPC) == ""  # by a matrix that is learned beside it
