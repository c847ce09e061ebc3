"""Decoders and the encoders of encoder-decoders as teachers: their signals, their tokenizers, what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, AutoTokenizer

from harness.contracts import Signal, Want
from harness.data.encoding import encode
from harness.data.sources import Split
from harness.data.tasks import CORPUS, get_task
from harness.errors import UserError
from harness.modeling.examination import examine
from harness.modeling.signals import emit
from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.planning.request import Request
from harness.registry import TEACHERS
from harness.teachers.generative import Decoder, Encoder
from tests.conftest import Harness
from tests.results import done, records
from tests.small_models import TWO
from tests.teachers.generative_models import END, checkpoint

TEXTS = ["the dog was great .", "the story was not awful and funny .", "no"]
DECODERS, ENCODERS = ("gpt2", "llama", "mixtral"), ("t5", "bart")
BOTH = Want(logits=True, sentence=True)


def of(folder: Path, family: str, **more: Any) -> Any:
    return TEACHERS.get("huggingface")(str(checkpoint(folder, family, **more)))


def read(teacher: Any, texts: list[str]) -> dict[str, torch.Tensor]:
    return dict(teacher.tokenizer()(texts, padding=True, padding_side="right", return_tensors="pt"))


@torch.no_grad()
@pytest.mark.parametrize("family", DECODERS)
def test_a_decoder_says_what_the_librarys_classifier_says(family: str, tmp_path: Path) -> None:
    teacher = of(tmp_path / "base", family)
    model = teacher.model(TWO, None).eval()
    assert isinstance(model, Decoder)
    found = emit(model, read(teacher, TEXTS), BOTH)
    model.save_pretrained(tmp_path / "tuned")
    theirs = AutoModelForSequenceClassification.from_pretrained(tmp_path / "tuned").eval()
    base = AutoModel.from_pretrained(tmp_path / "base").eval()
    for row, text in enumerate(TEXTS):
        alone = {name: tensor[:, :] for name, tensor in read(teacher, [text]).items() if name != "token_type_ids"}
        torch.testing.assert_close(found.logits[row], theirs(**alone).logits[0], atol=1e-5, rtol=0)
        torch.testing.assert_close(found.sentence[row], base(**alone).last_hidden_state[0, -1], atol=1e-5, rtol=0)
    again = emit(teacher.model(TWO, tmp_path / "tuned").eval(), read(teacher, TEXTS), BOTH)
    assert torch.equal(again.logits, found.logits) and torch.equal(again.sentence, found.sentence)


@torch.no_grad()
@pytest.mark.parametrize(("family", "alone"), [("t5", False), ("t5", True), ("bart", False)])
def test_an_encoder_says_the_mean_of_its_tokens(family: str, alone: bool, tmp_path: Path) -> None:
    teacher = of(tmp_path / "base", family, encoder_only=alone)
    model = teacher.model(TWO, None).eval()
    assert isinstance(model, Encoder) and not any(name.startswith("decoder") for name in model.state_dict())
    found = emit(model, read(teacher, TEXTS), BOTH)
    base = AutoModel.from_pretrained(tmp_path / "base").get_encoder().eval()
    for row, text in enumerate(TEXTS):
        mean = base(read(teacher, [text])["input_ids"]).last_hidden_state[0].mean(0)
        torch.testing.assert_close(found.sentence[row], mean, atol=1e-5, rtol=0)
        torch.testing.assert_close(found.logits[row], model.head(mean), atol=1e-5, rtol=0)
    model.save_pretrained(tmp_path / "tuned")
    again = emit(teacher.model(TWO, tmp_path / "tuned"), read(teacher, TEXTS), BOTH)
    assert torch.equal(again.logits, found.logits) and torch.equal(again.sentence, found.sentence)


@pytest.mark.parametrize("family", DECODERS + ENCODERS)
def test_what_it_is_and_what_students_of_its_sizes_are(family: str, tmp_path: Path) -> None:
    teacher = of(tmp_path, family)
    info = teacher.info(TWO)
    assert info.emits == {Signal.LOGITS, Signal.SENTENCE} and (info.layers, info.width) == (2, 32)
    assert not teacher.answers(TWO)
    shape = teacher.configuration()
    assert shape["model_type"] == "bert" and shape["vocab_size"] == info.vocabulary
    assert shape["pad_token_id"] == teacher.tokenizer().pad_token_id
    found = examine(teacher.model(TWO, None))
    assert dict(found.lacks) == dict(info.lacks) and found.uncopied == info.uncopied != ""
    assert set(examine(teacher.masked_language_model(), masked=True).lacks) == set(info.lacks)
    assert "never trained to predict masked tokens" in teacher.info(CORPUS).lacks["mlm_logits"]
    with pytest.raises(UserError, match="never trained to predict masked tokens"):
        teacher.predicts_masked()


def test_gpt2s_tokenizer_ends_texts_and_parts_pairs(tmp_path: Path) -> None:
    reader = of(tmp_path, "gpt2").tokenizer()
    one, two = reader(TEXTS[0])["input_ids"], reader(TEXTS[0], TEXTS[2])["input_ids"]
    assert one[-1] == 0 and two == one + reader(TEXTS[2])["input_ids"] and reader("")["input_ids"] == [0]
    assert reader.pad_token == END
    again = type(reader).from_pretrained(reader.save_pretrained(tmp_path / "again")[0].rpartition("/")[0])
    assert again(TEXTS[0], TEXTS[2])["input_ids"] == two


@torch.no_grad()
@pytest.mark.parametrize("family", DECODERS)
@pytest.mark.parametrize("side", ["left", "right"])
def test_a_classifier_from_elsewhere_reads_as_its_own_library_does(family: str, side: str, tmp_path: Path) -> None:
    """It never saw an end after a text, so none is added, and it is cut where its tokenizer cuts."""
    folder = classifier(checkpoint(tmp_path, family), side)
    teacher = TEACHERS.get("huggingface")(str(folder))
    assert teacher.answers(TWO)
    theirs, reader = (kind.from_pretrained(folder) for kind in (AutoModelForSequenceClassification, AutoTokenizer))
    pairs = Split("train", ["", *TEXTS], [TEXTS[2], *reversed(TEXTS)], np.zeros(4, np.int64))
    for split in (Split("train", [*TEXTS, ""], None, np.zeros(4, np.int64)), pairs):
        batch = encode(split, teacher.tokenizer(), "joint", 9).batch(torch.arange(4))
        found = emit(teacher.model(TWO, None).eval(), batch.encodings[0], BOTH)
        assert torch.isfinite(found.logits).all()
        for row, texts in enumerate(zip(split.text_a, split.text_b or split.text_a, strict=True)):
            both = [[text] for text in texts[: 2 if split.text_b else 1]]
            ids = reader(*both, truncation=True, max_length=9, return_tensors="pt")["input_ids"]
            if ids.numel():
                torch.testing.assert_close(found.logits[row], theirs(ids.long()).logits[0], atol=1e-5, rtol=0)


def classifier(folder: Path, side: str) -> Path:
    """The folder of a decoder, made one of a classifier of TWO, as its library saves it; side: where texts are cut."""
    config = AutoConfig.from_pretrained(folder)
    config.num_labels, config.finetuning_task, config.pad_token_id = 2, TWO.name, None
    torch.manual_seed(1)
    AutoModelForSequenceClassification.from_config(config).save_pretrained(folder)
    described = folder / "tokenizer_config.json"
    described.write_text(json.dumps({**json.loads(described.read_bytes()), "truncation_side": side}))
    return folder


def test_an_end_is_added_where_the_tokenizer_cuts(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, "gpt2")
    described = folder / "tokenizer_config.json"
    described.write_text(json.dumps({**json.loads(described.read_bytes()), "truncation_side": "left"}))
    reader = TEACHERS.get("huggingface")(str(folder)).tokenizer()
    assert reader(TEXTS[1], truncation=True, max_length=4)["input_ids"] == reader(TEXTS[1])["input_ids"][-4:]


def test_a_decoder_whose_classifier_is_another_is_refused(tmp_path: Path) -> None:
    from transformers import XLNetConfig, XLNetForSequenceClassification

    config = XLNetConfig(vocab_size=40, d_model=32, n_layer=2, n_head=4, d_inner=64)
    with pytest.raises(UserError, match="more than a layer on the last token's state"):
        Decoder(XLNetForSequenceClassification(config))


def planned(folder: Path, *overrides: str, **asked: Any) -> Plan:
    settings = {"study": "objectives_vs_init", "teacher": str(folder), "tasks": ["sentiment"], "data": "embedded"}
    return resolve(Request(**{**settings, "overrides": overrides, **asked}))


@pytest.mark.parametrize("family", ["gpt2", "t5"])
def test_what_has_no_sense_is_refused_in_a_plan(family: str, tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, family)
    plan = planned(folder, objectives=["vanilla_kd", "att_kl", "hid_cls"], inits=["random", "every"])
    refused = {(cell.row, cell.init): cell.refused for cell in plan.cells}
    assert not refused["vanilla_kd", "random"]
    assert "no student can start from the weights of" in refused["vanilla_kd", "every"]
    for row, signal in (("att_kl", "attention_scores"), ("hid_cls", "hidden_states")):
        assert f"{row} needs {signal}, which the teacher" in refused[row, "random"]
    assert get_task("sentiment").name in plan.teachers


def test_gpt2_teaches_an_lstm_a_matrix_and_an_averaged_student(tmp_path: Path, forked: Harness, glue: Path) -> None:
    folder, out = checkpoint(tmp_path / "gpt2", "gpt2"), tmp_path / "out"
    done(forked(
        "run", "--study", "objectives_vs_init", "--data", glue, "--tasks", "sst2", "--teacher", folder, "--out", out,
        "--objectives", "vanilla_kd", "cosine", "--students", "averaged_transformer", "bilstm", "hybrid",
        "--inits", "random", "--seeds", 1, "--trials", 1,
        "--set", "train_examples=32", "epochs=1", "teacher.epochs=1", "max_length=16",
        "bilstm.projection=teacher_width",
    ))  # fmt: skip
    (teacher,) = records(out, "teacher").values()
    made = {
        (r["specification"]["student"], r["specification"]["objective"]): r for r in records(out, "student").values()
    }
    cosine = {(name, "cosine") for name in ("averaged_transformer", "bilstm", "hybrid")}
    assert set(made) == {(name, "vanilla_kd") for name in ("averaged_transformer", "bilstm", "hybrid")} | cosine
    assert {record["status"] for record in made.values()} == {"finished"} and teacher["metrics"]
    for place in cosine:
        assert made[place]["teacher_signals"] == {"logits": "stored", "sentence": "stored"}
