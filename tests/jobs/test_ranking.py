"""QNLI as relevance ranking: what is trained on, a teacher and its student from end to end, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from torch import Tensor

from harness import pairing
from harness.contracts import Batch, ModelInfo, Outputs, Signal
from harness.data import loading
from harness.data.tasks import get_task
from harness.jobs.examples import examples_of, reader_of
from harness.registry import OBJECTIVES, objective
from harness.runs import StudentRun
from harness.training.workspace import teacher_tokenizer
from tests.conftest import BAD, GOOD, SUBJECTS, Harness
from tests.results import table_folder
from tests.training.builders import a_run, settings, workspace_of

pytestmark = pytest.mark.usefixtures("no_figures")

TASK = get_task("qnli_ranking")
PAIRS, ALONE = 40, 20  # questions of the training part with both kinds of sentence, and with one


def _question(n: int) -> str:
    return " and ".join(f"the {SUBJECTS[n // 6**place % 6]}" for place in range(3)) + f" word{n}"


@pytest.fixture(scope="module")
def data(glue: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with SST-2 and a QNLI whose right sentences say something good. Dev and test are the same sentences."""
    root = tmp_path_factory.mktemp("data")
    (root / "SST-2").symlink_to(glue / "SST-2")
    (root / "QNLI").mkdir()
    for part, first in (("train", 0), ("dev", 100), ("test", 100)):
        rows = []
        for n in range(PAIRS + ALONE):
            question, subject = _question(first + n), SUBJECTS[n % 6]
            good, bad = f"the {subject} was {GOOD[n % 3]} .", f"the {subject} was {BAD[n % 3]} ."
            right, wrong = f"{question}\t{good}\tentailment", f"{question}\t{bad}\tnot_entailment"
            # the two of a question lie far apart, as in the official files
            rows += [right, wrong] if n < PAIRS else [right if n % 2 else wrong]
        rows = [*rows[::2], *rows[1::2]]
        columns = 3 if part == "test" else 4
        lines = ["index\tquestion\tsentence\tlabel", *(f"{n}\t{row}" for n, row in enumerate(rows))]
        text = "\n".join("\t".join(line.split("\t")[:columns]) for line in lines) + "\n"
        (root / "QNLI" / f"{part}.tsv").write_text(text)
    return root


@pytest.mark.parametrize("augmentation", ["none", "masking"])
@pytest.mark.parametrize("limit", [0, 30])
def test_a_question_is_trained_on_or_held_out_with_all_its_sentences(
    data: Path, checkpoint: Path, tmp_path: Path, augmentation: str, limit: int
) -> None:
    workspace = workspace_of(tmp_path, checkpoint, source=str(data))
    content = loading.load(TASK, str(data)).content
    chosen = settings(max_length=24, train_examples=limit, augmentation=augmentation, augmentation_copies=2)
    run = a_run(StudentRun, task=TASK.name, data=content, settings=chosen)
    found = examples_of(run, workspace, teacher_tokenizer(workspace))
    assert found.train.groups is not None and found.selection.groups is not None
    assert 9 <= len(found.selection) <= 10
    assert not set(found.train.groups.tolist()) & set(found.selection.groups.tolist())
    original = found.train.groups[: (limit or 90)]  # augmented ones follow
    both = sum(int((original == group).sum()) == 2 for group in set(original.tolist()))
    assert both > (limit or 90) / 4
    batches = [found.train.batch(index) for index in found.train.batches(8, 0, 0)]
    for batch in batches:
        assert batch.groups is not None
        assert all((batch.groups == q).sum() == (found.train.groups == q).sum() for q in set(batch.groups.tolist()))
    assert sum(len(batch.ids) for batch in batches) == len(found.train)


def test_the_words_of_a_student_are_those_of_the_questions_it_is_trained_on(
    data: Path, checkpoint: Path, tmp_path: Path
) -> None:
    workspace, content = workspace_of(tmp_path, checkpoint, source=str(data)), loading.load(TASK, str(data)).content
    student = {"student": "bilstm", "pair_encoding": "compare", "settings": settings()}
    run = a_run(StudentRun, task=TASK.name, data=content, **student)
    reader = reader_of(run, workspace)
    found = examples_of(run, workspace, reader)
    unknown = [part.sequences[0]["input_ids"] == reader.unk_token_id for part in (found.train, found.selection)]
    assert not unknown[0].any() and unknown[1].any(1).all()  # each question has a word of its own


def test_teacher_and_student_rank_from_end_to_end(data: Path, checkpoint: Path, call: Harness, tmp_path: Path) -> None:
    study, out = ("--study", "multi_task"), tmp_path / "out"
    process = call(
        "run", *study, "--tasks", "sst2", TASK.name, "--objectives", "mkd_transformer", "--seeds", "1",
        "--workers", "1", "--data", data, "--teacher", checkpoint, "--out", out, "--set", "student.head_units=16",
        "max_length=24", "epochs=2", "batch_size=8", "teacher.epochs=5", "teacher.batch_size=8",
        "teacher.learning_rate=1e-3", "multi_task.epochs=3", "multi_task.batch_size=8",
    )  # fmt: skip
    assert process.returncode == 0, process.stdout + process.stderr
    table = json.loads((table_folder(out) / "table.json").read_text())
    shown = {entry["row"]: entry["value"] for entry in table["entries"] if entry["task"] == TASK.name}
    assert shown.keys() == {"teacher", "MKD-Transformer"} and min(shown.values()) > 90, shown

    process = call("submit", *study, "--out", out, "--row", "mkd_transformer", "--tasks", TASK.name, "--to", tmp_path)
    assert process.returncode == 0 and process.stdout == f"{tmp_path / 'QNLI.tsv'}\n", process.stderr
    predicted = [line.split("\t") for line in (tmp_path / "QNLI.tsv").read_text().splitlines()]
    dev = [line.split("\t") for line in (data / "QNLI" / "dev.tsv").read_text().splitlines()]
    assert predicted[0] == ["index", "prediction"] and [n for n, _ in predicted[1:]] == [row[0] for row in dev[1:]]
    right = [word == row[3] for (_, word), row in zip(predicted[1:], dev[1:], strict=True)]
    assert sum(right) / len(right) > 0.9


def test_an_objective_on_logits_that_does_not_rank_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(OBJECTIVES, "_found", dict(OBJECTIVES._found))

    @objective("sharpened", needs={Signal.LOGITS}, stage="prediction")
    def sharpened(student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        return (student.logits - teacher.logits).abs().mean()

    info = ModelInfo("m", 1, 8, 1, 20, 1, frozenset(Signal), "words")
    reason = pairing.refusal("sharpened", "one_stage", info, info, TASK)
    assert (
        reason
        == "sharpened compares the logits of classes, but qnli_ranking has one score a candidate, which are ranked"
    )
    for name in ("labels_only", "vanilla_kd", "logit_mse", "vanilla_kd+hid_cls"):
        assert pairing.refusal(name, "one_stage", info, info, TASK) == ""
    assert pairing.refusal("sharpened", "one_stage", info, info, get_task("stsb")) == ""
