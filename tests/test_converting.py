"""The command `convert`: a whole Hugging Face folder, or a sentence and nothing."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest
import torch

from harness.data.tasks import get_task
from harness.errors import UserError
from harness.teachers.fairseq import FairseqTeacher
from harness.teachers.huggingface import HuggingFaceTeacher
from tests.conftest import Harness
from tests.launching import forked
from tests.results import refused
from tests.small_models import TWO, checkpoint
from tests.teachers import fairseq_models as small

COLA = get_task("cola")


def without_fairseq(*words: str) -> int:
    from harness.cli import main

    assert not {"fairseq", "omegaconf"} & {*sys.modules}
    sys.modules.update(fairseq=None, omegaconf=None)  # type: ignore[arg-type]
    return main(words)


def test_a_masked_language_model(tmp_path: Path) -> None:
    """As a process of its own, in which neither fairseq nor omegaconf can be imported."""
    folder = small.save(tmp_path / "fairseq")
    words = ("convert", f"fairseq:{folder}", "--to", "new/folder")
    process = forked(*words, folder=tmp_path / "said", cwd=tmp_path, work=without_fairseq)
    assert (process.returncode, process.stderr) == (0, ""), process.stderr
    assert process.stdout == (
        f"fairseq:{folder} is now a RobertaForMaskedLM in new/folder: --teacher new/folder takes it\n"
    )
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["folder"]
    assert len({file.stat().st_mode for file in (tmp_path / "new" / "folder").iterdir()}) == 1, "weights, too"
    before, after = FairseqTeacher(str(folder)), HuggingFaceTeacher(str(tmp_path / "new" / "folder"))
    assert after.predicts_masked() and not after.answers(COLA)
    assert after.info(COLA).tokenizer == before.info(COLA).tokenizer
    differences = {
        name
        for name, value in before.configuration().items()
        if after.configuration()[name] != value and name not in ("dtype", "_name_or_path")
    }
    assert differences == set()
    assert after.tokenizer().model_max_length == small.POSITIONS
    weight = after.masked_language_model().roberta.encoder.layer[2].intermediate.dense.weight
    assert torch.equal(weight, small.weights()["encoder.sentence_encoder.layers.2.fc1.weight"])


def test_a_checkpoint_of_omegaconf_is_read_without_it(
    call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    omegaconf = pytest.importorskip("omegaconf")
    cfg = omegaconf.OmegaConf.create(
        {"model": dict(small.ARGUMENTS), "task": {"data": "${model.arch}"}, "lr": [1, 2.5]}
    )
    folder = small.save(tmp_path / "fairseq", {"args": None, "cfg": cfg})
    for name in [name for name in sys.modules if name.split(".")[0] == "omegaconf"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "omegaconf", None)
    assert call("convert", f"fairseq:{folder}", "--to", tmp_path / "new").returncode == 0
    assert HuggingFaceTeacher(str(tmp_path / "new")).configuration()["num_hidden_layers"] == small.LAYERS


def test_a_classifier(call: Harness, tmp_path: Path) -> None:
    folder = small.save(tmp_path / "fairseq", state=small.weights({"cola": 2, "other": 7}), labels=("1", "0"))
    process = call("convert", f"fairseq:{folder}", "--to", tmp_path / "new")
    assert "is now a RobertaForSequenceClassification in" in process.stdout
    config = json.loads((tmp_path / "new" / "config.json").read_text())
    assert config["finetuning_task"] == "cola" and config["id2label"] == {"0": "0", "1": "1"}
    teacher = HuggingFaceTeacher(str(tmp_path / "new"))
    assert teacher.answers(COLA)
    rows = small.weights({"cola": 2, "other": 7})["classification_heads.cola.out_proj.weight"]
    assert torch.equal(teacher.model(COLA, None).classifier.out_proj.weight, rows[[1, 0]])


def test_without_any_head(call: Harness, tmp_path: Path) -> None:
    state = {name: tensor for name, tensor in small.weights().items() if "lm_head" not in name}
    folder = small.save(tmp_path / "fairseq", state=state)
    assert "is now a RobertaModel in" in call("convert", f"fairseq:{folder}", "--to", tmp_path / "new").stdout
    teacher = HuggingFaceTeacher(str(tmp_path / "new"))
    assert not teacher.predicts_masked() and teacher.model(TWO, None).config.num_labels == 2


def test_an_untied_head(call: Harness, tmp_path: Path) -> None:
    from argparse import Namespace

    state = small.weights()
    state["encoder.lm_head.weight"] = state["encoder.lm_head.weight"] + 1
    recorded = {"args": Namespace(**small.arguments(untie_weights_roberta=True))}
    folder = small.save(tmp_path / "fairseq", recorded, state)
    call("convert", f"fairseq:{folder}", "--to", tmp_path / "new")
    model = HuggingFaceTeacher(str(tmp_path / "new")).masked_language_model()
    assert torch.equal(model.lm_head.decoder.weight, state["encoder.lm_head.weight"])
    words = model.roberta.embeddings.word_embeddings.weight
    assert torch.equal(words, state["encoder.sentence_encoder.embed_tokens.weight"])


class TestRefusals:
    def test_nothing_to_convert(self, call: Harness, tmp_path: Path) -> None:
        folder = checkpoint(tmp_path / "bert", "bert")
        for name in ("embedded", str(folder), f"huggingface:{folder}"):
            refused(call("convert", name, "--to", tmp_path / "new" / "folder"), "only Hugging Face's format")
        assert [path.name for path in tmp_path.iterdir()] == ["bert"]

    def test_a_folder_that_is_taken(self, call: Harness, tmp_path: Path) -> None:
        folder = small.save(tmp_path / "fairseq")
        held = {path.name: path.read_bytes() for path in folder.iterdir()}
        refused(call("convert", f"fairseq:{folder}", "--to", folder), "not an empty folder")
        assert {path.name: path.read_bytes() for path in folder.iterdir()} == held
        refused(call("convert", f"fairseq:{folder}", "--to", folder / "dict.txt"), "not an empty folder")
        (tmp_path / "empty").mkdir()
        assert call("convert", f"fairseq:{folder}", "--to", tmp_path / "empty").returncode == 0

    def test_a_place_below_a_file(self, call: Harness, tmp_path: Path) -> None:
        folder = small.save(tmp_path / "fairseq")
        refused(call("convert", f"fairseq:{folder}", "--to", folder / "dict.txt" / "new"), "cannot be written")

    def test_a_failure_leaves_nothing(self, call: Harness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Whatever was written before it."""
        folder = small.save(tmp_path / "fairseq")

        def fails(teacher: FairseqTeacher, to: Path) -> None:
            (to / "config.json").write_text("{}")
            raise UserError("no further")

        monkeypatch.setattr(FairseqTeacher, "convert", fails)
        refused(call("convert", f"fairseq:{folder}", "--to", tmp_path / "new"), "no further")
        assert [path.name for path in tmp_path.iterdir()] == ["fairseq"]

    def test_two_tasks_at_once(self, call: Harness, tmp_path: Path) -> None:
        folder = small.save(tmp_path / "f", state=small.weights({"cola": 2, "sst2": 2}), labels=("1", "0"))
        refused(call("convert", f"fairseq:{folder}", "--to", tmp_path / "new"), "answers cola and sst2", "single head")

    def test_a_dictionary_without_all_pieces(self, call: Harness, tmp_path: Path) -> None:
        """Its tokenizer reads some pieces as unknown, which transformers' cannot."""
        folder = small.save(tmp_path / "f")
        lines = (folder / "dict.txt").read_text().splitlines()
        (folder / "dict.txt").write_text("\n".join([*lines[:-1], "madeupword0000 0"]) + "\n")
        refused(call("convert", f"fairseq:{folder}", "--to", tmp_path / "new"), "lacks pieces of encoder.json")
        assert len(FairseqTeacher(str(folder)).tokenizer()) == small.VOCABULARY

    def test_no_destination(self, call: Harness, tmp_path: Path) -> None:
        refused(call("convert", "fairseq:x"), "--to")
        refused(call("convert", "fairseq", "--to", tmp_path / "new"), "fairseq:FOLDER")
        refused(call("convert", "fairsek:x", "--to", tmp_path / "new"), "fairsek", "did you mean fairseq?")
