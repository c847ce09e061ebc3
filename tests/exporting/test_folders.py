"""What is written is opened again, and says the same: by transformers alone where it is of its kind."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from huggingface_hub import ModelCard
from transformers import AutoModelForSequenceClassification, AutoTokenizer

import harness
from harness.contracts import Batch, Outputs, Task, Want
from harness.errors import UserError
from harness.exporting.card import LABELS
from harness.exporting.opened import TOLD, Opened, load
from harness.exporting.writing import write
from harness.modeling.bases import Emitter, StudentConfig
from harness.registry import STUDENTS
from harness.students.transformer import Transformer
from harness.teachers.huggingface import HuggingFaceTeacher
from harness.testing.student_cases import PAIR, SCORES, SINGLE, Case, cases, named, possible
from tests.exporting.builders import ABOUT, PAIRS, TEXTS, examples, opened, reader
from tests.small_models import FAMILIES, small_config

ALL = [case for name in STUDENTS.names() for case in cases(name) if possible(case) and not case.task.corpus]
# Every task, and every choice on the first of the tasks that it is tried on.
CHOSEN = {(case.name, case.choices): case for case in reversed(ALL) if case.choices}
CASES = [case for case in ALL if not case.choices or CHOSEN[case.name, case.choices] is case]


@pytest.mark.parametrize("case", CASES, ids=named)
def test_every_student_is_opened_again_and_says_the_same(case: Case, tmp_path: Path) -> None:
    before, folder = opened(case), tmp_path / "student"
    said = write(before, folder, ABOUT)
    after = load(folder)
    assert (after.task.labels, after.task.pair, after.max_length) == (before.task.labels, before.task.pair, 16)
    torch.testing.assert_close(after.logits(examples(case.task)), before.logits(examples(case.task)), rtol=0, atol=1e-6)
    plain = before.model.plain() is not None
    assert plain == (said == "") == isinstance(after.model, type(before.model.plain()))
    assert type(after.model) is (type(before.model.plain()) if plain else type(before.model))
    assert len({file.stat().st_mode for file in folder.iterdir()}) == 1, "as the card is"


@pytest.mark.parametrize("ours", [True, False])
def test_a_card_says_that_a_student_needs_its_plugin(
    ours: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (case,) = (case for case in CASES if named(case) == f"bilstm-{SINGLE.name}")
    if not ours:
        monkeypatch.setitem(STUDENTS._found, "bilstm", (STUDENTS.get("bilstm"), "/home/me/my_students.py"))
    write(opened(case), tmp_path / "student", ABOUT)
    card = (tmp_path / "student" / "README.md").read_text(encoding="utf-8")
    said = "\n# bilstm is of a plugin, my_students.py: install its distribution, or add plugins=[its file]\nstudent = "
    assert (said in card) == (not ours) and ("plugin" in card) == (not ours)


@pytest.mark.parametrize("task", [PAIR, SINGLE], ids=lambda task: task.name)
def test_a_student_that_tells_sentences_apart_by_segments_is_given_them(task: Task, tmp_path: Path) -> None:
    (case,) = [c for c in CASES if c.name == "averaged_transformer" and c.task.name == task.name and not c.choices][:1]
    tokenizer = reader()
    tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    before, folder = opened(case, tokenizer=tokenizer), tmp_path / "student"
    write(before, folder, ABOUT)
    torch.testing.assert_close(load(folder).logits(examples(task)), before.logits(examples(task)), rtol=0, atol=1e-6)
    if not task.pair:
        return
    told = json.loads((folder / TOLD).read_text())
    assert told.pop("inputs") == tokenizer.model_input_names
    (folder / TOLD).write_text(json.dumps(told))
    with pytest.raises(UserError, match="which sentence of a pair a token is of; export the student again"):
        load(folder)


def transformer(family: str, task: Task = SINGLE) -> Opened:
    source = small_config(family, labels=task.outputs).to_dict()
    torch.manual_seed(0)
    student = STUDENTS.get("transformer")(StudentConfig("transformer", {"layers": 2}, source, task.outputs))
    return Opened(student.eval(), reader(), task, "joint", 16)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_transformer_is_of_transformers_own_kind(family: str, tmp_path: Path) -> None:
    before, folder = transformer(family), tmp_path / "student"
    assert write(before, folder, ABOUT) == ""
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    assert type(model).__name__.lower() == f"{family}forsequenceclassification"
    assert model.config.id2label == {0: "x", 1: "y", 2: "z"} and model.config.label2id["z"] == 2
    assert model.config.problem_type == "single_label_classification"
    texts = [*TEXTS[:3], "word1 " * 20]  # the last one is cut
    read = AutoTokenizer.from_pretrained(folder)(texts, padding=True, truncation=True, return_tensors="pt")
    with torch.inference_mode():
        torch.testing.assert_close(model(**read).logits, before.logits(texts), rtol=0, atol=1e-6)
    assert not [path for path in folder.iterdir() if str(tmp_path).encode() in path.read_bytes()], "a private path"


@pytest.mark.parametrize("family", ["bert", "roberta"])
def test_segments_are_read_by_a_kind_that_has_some_alone(family: str, tmp_path: Path) -> None:
    before, folder = transformer(family, PAIR), tmp_path / "student"
    before.tokenizer.model_input_names = ["input_ids", "token_type_ids", "attention_mask"]
    write(before, folder, ABOUT)
    read = AutoTokenizer.from_pretrained(folder)([list(pair) for pair in PAIRS], padding=True, return_tensors="pt")
    assert ("token_type_ids" in read) == (family == "bert")
    model = AutoModelForSequenceClassification.from_pretrained(folder).eval()
    with torch.inference_mode():
        torch.testing.assert_close(model(**read).logits, before.logits(PAIRS), rtol=0, atol=1e-6)


def test_it_is_opened_where_there_is_no_harness(tmp_path: Path) -> None:
    before, folder = transformer("bert"), tmp_path / "student"
    write(before, folder, ABOUT)
    code = (
        "import sys, json; sys.modules['harness'] = None\n"
        "from transformers import AutoModelForSequenceClassification, AutoTokenizer, pipeline\n"
        f"model = AutoModelForSequenceClassification.from_pretrained({str(folder)!r})\n"
        f"tokenizer = AutoTokenizer.from_pretrained({str(folder)!r})\n"
        "ask = pipeline('text-classification', model=model, tokenizer=tokenizer, top_k=None)\n"
        f"print(json.dumps(ask({list(TEXTS[:3])!r})))\n"
    )
    outside = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**outside, "HF_HUB_OFFLINE": "1"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    for theirs, ours in zip(json.loads(done.stdout), before.predict(TEXTS[:3]), strict=True):
        found = {one["label"]: one["score"] for one in theirs}
        assert found == pytest.approx(ours["probabilities"], abs=1e-6)


def test_it_is_a_teacher_that_answers_its_task_as_it_is(tmp_path: Path) -> None:
    write(transformer("bert"), tmp_path / "student", ABOUT)
    teacher = HuggingFaceTeacher(str(tmp_path / "student"))
    assert teacher.answers(SINGLE) and not teacher.answers(PAIR)


def slightly_more(found: Outputs) -> Outputs:
    return replace(found, logits=found.logits * 1.01)


class Otherwise(Transformer):
    """Says that transformers has its kind, and computes something else."""

    name = "transformer"

    def forward(self, batch: Batch, want: Want) -> Outputs:
        return slightly_more(super().forward(batch, want))


def test_a_student_that_computes_otherwise_than_transformers_is_written_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward = Transformer.forward
    monkeypatch.setattr(Transformer, "forward", lambda *given: slightly_more(forward(*given)))
    assert "harness.load" in write(transformer("bert"), tmp_path / "student", ABOUT)
    assert json.loads((tmp_path / "student" / TOLD).read_text())["student"] == "transformer"


def test_a_folder_that_would_answer_otherwise_is_not_written(tmp_path: Path) -> None:
    before = transformer("bert")
    before.model = Otherwise(before.model.config).eval()  # of no plugin: its folder is opened as a transformer's
    with pytest.raises(UserError, match="no folder is written: what it holds answers texts otherwise than Otherwise"):
        write(before, tmp_path / "student", ABOUT)
    assert not (tmp_path / "student").exists()


def test_a_teacher_that_no_class_of_transformers_is_stays(tmp_path: Path) -> None:
    class Decoder(Emitter):
        """As a decoder of one vector a text."""

    before = transformer("bert")
    before.model = Decoder(before.model.config)
    with pytest.raises(UserError, match="Decoder is a teacher whose answers no model of transformers computes"):
        write(before, tmp_path / "teacher", ABOUT)
    assert not list(tmp_path.iterdir())


def test_the_card_is_one_that_the_hub_reads(tmp_path: Path) -> None:
    write(transformer("bert"), tmp_path / "student", ABOUT)
    card = ModelCard.load(tmp_path / "student" / "README.md")
    assert card.data.pipeline_tag == "text-classification" and card.data.library_name == "transformers"
    assert card.data.license is None and "## Licence" in card.text
    assert "\n# license: to be filled in" in (tmp_path / "student" / "README.md").read_text(encoding="utf-8")
    assert {(one.dataset_name, one.metric_type, one.metric_value) for one in card.data.eval_results} == {
        ("Single", "accuracy", 0.9), ("Single", "f1", 0.8),
    }  # fmt: skip
    assert {one.dataset_split for one in card.data.eval_results} == {None}
    of_hub = replace(ABOUT, metrics={"matthews": 0.5}, dataset="nyu-mll/glue", configuration="cola", split="validation")
    write(transformer("bert"), tmp_path / "hub", of_hub)
    (one,) = ModelCard.load(tmp_path / "hub" / "README.md").data.eval_results or []
    assert (one.dataset_type, one.dataset_config, one.dataset_split) == ("nyu-mll/glue", "cola", "validation")
    assert (one.metric_type, one.metric_name, one.metric_value) == ("matthews_correlation", "matthews", 0.5)
    assert "on dev:" in card.text
    write(transformer("bert"), tmp_path / "half", replace(ABOUT, recipe={"precision": "bfloat16"}))
    assert "on dev, as they were computed in bfloat16" in (tmp_path / "half" / "README.md").read_text(encoding="utf-8")
    for word in ("a teacher", "An objective \\| of two", "90.0 ± 1.0", "100 examples a second", "bibtex"):
        assert word in card.text
    assert 'pipeline("text-classification", model="somebody/student")' in card.text
    ModelCard(str(card))  # what is pushed is parsed again


@pytest.mark.parametrize("task", [SINGLE, PAIR, SCORES], ids=lambda task: task.name)
def test_what_a_card_says_of_its_student_holds(task: Task, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, folder = transformer("bert", task), tmp_path / "student"
    write(before, folder, replace(ABOUT, name=str(folder)))
    card = (folder / "README.md").read_text(encoding="utf-8")
    weights = sum(part.numel() for part in before.model.parameters())
    assert f"| Size | {weights:,} parameters, {(folder / 'model.safetensors').stat().st_size / 1e6:.1f} MB |" in card
    assert "| accuracy | 90.0 |\n| f1 | 80.0 |" in card and "cut to 16 tokens" in card
    assert ("reads a pair of sentences" in card) == task.pair
    assert f"and answers {'one of ' + ', '.join(task.labels) if task.labels else 'a score'}." in card
    exec(re.findall("```python\n(.*?)```", card, re.DOTALL)[0], {})
    found = ast.literal_eval(capsys.readouterr().out)
    (ours,) = before.predict([("A text.", "Another.") if task.pair else "A text."])
    theirs = found[0] if isinstance(found, list) else found
    score = ours["probabilities"][ours["label"]] if task.labels else ours["score"]
    assert theirs == {"label": ours.get("label", "score"), "score": pytest.approx(score, abs=1e-6)}


@pytest.mark.parametrize("starts", ["its layers start from minilm", ""])
@pytest.mark.parametrize(
    ("learnt", "words"), [(LABELS, "trained on the labels of Single"), ("", "as it answers Single")]
)
def test_a_card_tells_of_no_teacher_where_there_was_none(starts: str, learnt: str, words: str, tmp_path: Path) -> None:
    write(transformer("bert"), tmp_path / "student", replace(ABOUT, learnt=learnt, starts=starts))
    card = ModelCard.load(tmp_path / "student" / "README.md")
    assert f"# transformer, {words}\n" in card.text and "| Teacher | none |" in card.text
    assert "knowledge-distillation" not in card.data.tags and not re.search("distilled|its teacher", card.text)
    assert (f"; {starts}." in card.text) == (f"{starts}, so the licence of that model" in card.text) == bool(starts)


def test_what_is_predicted_has_the_classes_names_or_is_a_score() -> None:
    found = opened(Case("cbow", SINGLE))
    predicted, logits = found.predict(TEXTS), found.logits(TEXTS)
    assert [one["label"] for one in predicted] == [SINGLE.labels[i] for i in logits.argmax(1)]
    assert predicted[0]["probabilities"] == pytest.approx(
        dict(zip(SINGLE.labels, logits.softmax(1)[0].tolist(), strict=True))
    )
    assert (
        found.predict([]) == [] and found.predict(TEXTS[::-1], batch_size=1)[::-1][0]["label"] == predicted[0]["label"]
    )
    score = opened(Case("cbow", SCORES))
    assert score.predict(examples(SCORES)) == [
        {"score": pytest.approx(x)} for x in score.logits(examples(SCORES))[:, 0]
    ]
    bins = Task("bins", "Bins", "pearson", ("pearson",), bins=(0.0, 0.5, 1.0))
    binned = opened(Case("cbow", bins))
    assert {one["score"] for one in binned.predict(TEXTS)} <= {0.0, 0.5, 1.0}
    ranking = Task("ranks", "Ranks", "accuracy", ("accuracy",), labels=("right", "wrong"), ranking=True)
    ranked = opened(Case("cbow", ranking))
    for one, logit in zip(ranked.predict(TEXTS), ranked.logits(TEXTS)[:, 0], strict=True):
        assert one["label"] == ("right" if logit > 0 else "wrong")
        assert one["probabilities"] == pytest.approx(
            {"right": float(logit.sigmoid()), "wrong": 1 - float(logit.sigmoid())}
        )


def test_logits_that_are_no_numbers_are_told() -> None:
    found = opened(Case("cbow", SINGLE))
    with torch.no_grad():
        next(p for name, p in found.model.named_parameters() if name.endswith("bias")).fill_(torch.nan)
    with pytest.raises(UserError, match=f"logits of {len(TEXTS)} of {len(TEXTS)} texts are not finite"):
        found.predict(TEXTS)


@pytest.mark.parametrize(
    ("task", "texts", "words"),
    [
        (SINGLE, "a text", "takes a list"),
        (SINGLE, None, "takes a list"),
        (SINGLE, ["a text", 3], "example 2 is not a text"),
        (SINGLE, [("a", "b")], "example 1 is not a text"),
        (PAIR, ["a text"], "a pair of sentences"),
        (PAIR, [("a", None)], "a pair of sentences"),
    ],
)
def test_what_is_no_list_of_texts_is_refused(task: Task, texts: Any, words: str) -> None:
    with pytest.raises(UserError, match=words):
        opened(Case("cbow", task)).predict(texts)


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda folder: (folder / "model.safetensors").write_bytes(b"\0" * 100), "damaged (model.safetensors)"),
        (lambda folder: (folder / "tokenizer.json").unlink(), "missing (tokenizer.json)"),
        (lambda folder: (folder / TOLD).unlink(), "harness export did not write it"),
        (lambda folder: (folder / TOLD).write_text("{"), "is damaged"),
        (lambda folder: (folder / TOLD).write_text('{"format": 1}'), "is damaged"),
        (lambda folder: told(folder, format=2), "another version"),
        (lambda folder: told(folder, task="single"), f"{TOLD} is damaged"),
        (lambda folder: told(folder, task={}), f"{TOLD} is damaged"),
        (lambda folder: told(folder, task={"name": "a", "label": "A", "labels": None}), f"{TOLD} is damaged"),
        (lambda folder: told(folder, files=[]), f"{TOLD} is damaged"),
        (lambda folder: told(folder, max_length="16"), f"{TOLD} is damaged"),
        (lambda folder: told(folder, answers="none"), f"{TOLD} is damaged"),
        (lambda folder: told(folder, student="nobody"), "is 'nobody', from a plugin that is not loaded"),
    ],
)
def test_a_damaged_folder_is_told(damage: Any, words: str, tmp_path: Path) -> None:
    folder = tmp_path / "student"
    write(opened(Case("cbow", SINGLE)), folder, ABOUT)
    damage(folder)
    with pytest.raises(UserError) as error:
        load(folder)
    assert words in str(error.value) and "\n" not in str(error.value)


def test_a_folder_whose_students_code_is_another_is_not_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights fit all the same."""
    before = opened(Case("cbow", SINGLE))
    write(before, tmp_path / "student", ABOUT)
    forward = type(before.model).forward

    def edited(self: Any, batch: Batch, want: Want) -> Outputs:
        return Outputs(logits=forward(self, batch, want).logits + 0.1)

    monkeypatch.setattr(type(before.model), "forward", edited)
    with pytest.raises(UserError, match="answers differently from when it was exported: the code of cbow has changed"):
        load(tmp_path / "student")


def told(folder: Path, **changes: Any) -> None:
    (folder / TOLD).write_text(json.dumps({**json.loads((folder / TOLD).read_text()), **changes}))


def test_the_package_gives_load_and_stays_light() -> None:
    assert harness.load is load
    with pytest.raises(UserError, match="there is no folder nowhere"):
        harness.load("nowhere")
    code = "import sys, harness; assert 'load' in dir(harness); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
