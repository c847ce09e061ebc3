"""Folders of Hugging Face teachers: their content, what may be wrong with them, and the hub."""

import json
import os
import pickle
import subprocess
import zipfile
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from huggingface_hub.errors import HTTPError
from safetensors.torch import load_file, save_file
from transformers import CONFIG_MAPPING, AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification

from harness import registry
from harness.errors import UserError
from harness.teachers import loading
from harness.teachers.huggingface import HuggingFaceTeacher
from harness.teachers.loading import content_of
from tests.conftest import Harness
from tests.results import done, refused
from tests.small_models import THREE, TWO, checkpoint

KIND = """
from transformers import (
    AutoConfig, AutoModel, AutoModelForSequenceClassification, BertConfig, BertForSequenceClassification, BertModel
)

class OfMine(BertConfig):
    model_type = "of_mine"

class Plain(BertModel):
    config_class = OfMine

class Classifier(BertForSequenceClassification):
    config_class = OfMine

    def forward(self, *words, **more):
        return super().forward(*words, **more)

AutoConfig.register("of_mine", OfMine)
AutoModel.register(OfMine, Plain)
AutoModelForSequenceClassification.register(OfMine, Classifier)
"""
MODEL = """
from transformers import AutoModel, BertConfig, BertModel

class Mine(BertModel):
    pass

AutoModel.register(BertConfig, Mine, exist_ok=True)
"""


class TestContent:
    def test_it_is_what_the_files_hold(self, tmp_path: Path) -> None:
        a, b = (HuggingFaceTeacher(str(checkpoint(tmp_path / name, "bert"))) for name in "ab")
        first = a.content()
        assert first == b.content() and len(first) == 64
        (tmp_path / "a" / "README.md").write_text("notes")
        assert a.content() == first

    @pytest.mark.parametrize("name", ["config.json", "vocab.txt", "tokenizer_config.json"])
    def test_any_file_that_counts_changes_it(self, name: str, tmp_path: Path) -> None:
        teacher = HuggingFaceTeacher(str(checkpoint(tmp_path, "bert")))
        first = teacher.content()
        with (tmp_path / name).open("a") as stream:
            stream.write(" ")
        assert teacher.content() != first

    def test_one_weight_changes_it(self, tmp_path: Path) -> None:
        teacher = HuggingFaceTeacher(str(checkpoint(tmp_path, "bert")))
        first = teacher.content()
        weights = load_file(tmp_path / "model.safetensors")
        weights["bert.embeddings.word_embeddings.weight"][3, 3] += 1e-3
        save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
        os.utime(tmp_path / "model.safetensors", ns=(1, 1))
        assert teacher.content() != first

    def test_shards(self, tmp_path: Path) -> None:
        checkpoint(tmp_path / "whole", "bert")
        model = AutoModelForMaskedLM.from_pretrained(tmp_path / "whole")
        checkpoint(tmp_path / "shards", "bert")
        (tmp_path / "shards" / "model.safetensors").unlink()
        model.save_pretrained(tmp_path / "shards", max_shard_size="20KB")
        shards = sorted((tmp_path / "shards").glob("model-*.safetensors"))
        assert len(shards) > 1
        teacher = HuggingFaceTeacher(str(tmp_path / "shards"))
        assert len(teacher.content()) == 64
        whole = HuggingFaceTeacher(str(tmp_path / "whole")).model(TWO, None)
        assert torch.equal(
            teacher.model(TWO, None).bert.embeddings.word_embeddings.weight,
            whole.bert.embeddings.word_embeddings.weight,
        )
        shards[0].unlink()
        with pytest.raises(UserError, match=f"{shards[0].name} is not a complete safetensors file"):
            HuggingFaceTeacher(str(tmp_path / "shards"))


def of_mine(folder: Path) -> Path:
    """A checkpoint of a kind that transformers does not know."""
    config = checkpoint(folder, "bert") / "config.json"
    config.write_text(config.read_text().replace('"model_type": "bert"', '"model_type": "of_mine"'))
    return folder


def test_a_kind_of_model_that_a_plugin_tells_transformers_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The file registers nothing else, and is none that does nothing."""
    for known in (CONFIG_MAPPING, AutoModel._model_mapping, AutoModelForSequenceClassification._model_mapping):
        monkeypatch.setattr(known, "_extra_content", {**known._extra_content})
    (tmp_path / "kind.py").write_text(KIND)
    registry.load_file(tmp_path / "kind.py")
    assert HuggingFaceTeacher(str(of_mine(tmp_path / "model"))).configuration()["model_type"] == "of_mine"
    (tmp_path / "model_alone.py").write_text(MODEL)
    registry.load_file(tmp_path / "model_alone.py")


def test_the_code_of_such_a_model_belongs_to_what_a_run_is(forked: Harness, tmp_path: Path) -> None:
    of_mine(tmp_path / "model")
    words = ("--study", "objectives_vs_init", "--tasks", "sentiment", "--objectives", "vanilla_kd", "--inits", "random",
             "--trials", "1", "--seeds", "1", "--plugin", "kind.py", "--set", "train_examples=32", "epochs=1",
             "teacher.epochs=1", "--teacher", "./model")  # fmt: skip

    def asked(command: str, code: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "kind.py").write_text(code)
        return forked(command, *words, cwd=tmp_path)

    was = "return super().forward(*words, **more)"
    done(asked("run", KIND))
    assert "runs 1 of 1 done" in done(asked("plan", f"# a comment\n{KIND}")).stdout
    assert "runs 0 of 1 done" in done(asked("plan", KIND.replace(was, f"{was[:-7]}**{{**more}})"))).stdout
    refused(asked("plan", KIND.replace(was, "return None")), "a model of type of_mine cannot be used")  # examined again


class TestMistakes:
    def test_no_name(self) -> None:
        with pytest.raises(UserError, match="needs a hub name or a folder"):
            HuggingFaceTeacher("")

    @pytest.mark.parametrize("name", ["/no/such/folder", "./nowhere", "~/no-such-folder-here", "a/b/c"])
    def test_no_folder(self, name: str) -> None:
        with pytest.raises(UserError, match="does not exist"):
            HuggingFaceTeacher(name)

    def test_a_file_for_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (tmp_path / "model").write_text("")
        monkeypatch.chdir(tmp_path)
        with pytest.raises(UserError, match="is not a folder"):
            HuggingFaceTeacher("model")

    def test_no_weights(self, tmp_path: Path) -> None:
        (checkpoint(tmp_path, "bert") / "model.safetensors").unlink()
        with pytest.raises(UserError, match="has no weights: model.safetensors is missing$"):
            HuggingFaceTeacher(str(tmp_path))
        for name in ("adapter_config.json", "adapter_model.safetensors"):
            (tmp_path / name).touch()
        with pytest.raises(UserError, match="has no weights: .*: it holds adapters; merge them into their model"):
            HuggingFaceTeacher(str(tmp_path))

    def test_the_folder_of_a_cache_of_the_hub(self, tmp_path: Path) -> None:
        (inner := tmp_path / "snapshots" / "abc").mkdir(parents=True)
        checkpoint(inner, "bert")
        with pytest.raises(UserError, match=f"it is a cache of the hub, whose model is in {inner}$"):
            HuggingFaceTeacher(str(tmp_path))

    @pytest.mark.parametrize("name", ["pytorch_model.bin", "weights.pt"])
    def test_what_is_no_file_of_weights(self, name: str, tmp_path: Path) -> None:
        (checkpoint(tmp_path, "bert") / "model.safetensors").unlink()
        (tmp_path / name).write_bytes(b"not even a pickle")
        with pytest.raises(UserError, match="safetensors"):
            HuggingFaceTeacher(str(tmp_path))

    @pytest.mark.parametrize("zipped", [True, False])
    def test_older_weights_are_read_as_data(self, zipped: bool, tmp_path: Path) -> None:
        """The same model from pytorch_model.bin as from safetensors."""
        folder = checkpoint(tmp_path, "bert", AutoModel)
        torch.manual_seed(0)
        expected = HuggingFaceTeacher(str(folder)).model(THREE, None).state_dict()
        weights = load_file(folder / "model.safetensors")
        torch.save(weights, folder / "pytorch_model.bin", _use_new_zipfile_serialization=zipped)
        (folder / "model.safetensors").unlink()
        torch.manual_seed(0)
        found = HuggingFaceTeacher(str(folder)).model(THREE, None).state_dict()
        assert all(torch.equal(tensor, found[name]) for name, tensor in expected.items())

    @pytest.mark.parametrize("kind", ["zipped", "legacy", "protocol 0", "protocol 4"])
    def test_a_pickle_with_code_is_refused_without_running_it(self, kind: str, tmp_path: Path) -> None:
        class Harmful:
            def __reduce__(self) -> object:
                return (open, (str(tmp_path / "ran"), "w"))

        (checkpoint(tmp_path, "bert") / "model.safetensors").unlink()
        file = tmp_path / "pytorch_model.bin"
        if kind.startswith("protocol"):
            file.write_bytes(pickle.dumps({"weight": Harmful()}, int(kind[-1])))
        else:
            torch.save({"weight": Harmful()}, file, _use_new_zipfile_serialization=kind == "zipped")
        said = "torch does not write such files" if kind.startswith("protocol") else "could run code"
        with pytest.raises(UserError, match=said) as error:
            HuggingFaceTeacher(str(tmp_path))
        assert not (tmp_path / "ran").exists() and "weights_only" not in str(error.value)

    def test_what_is_no_pickle_at_all(self, tmp_path: Path) -> None:
        (checkpoint(tmp_path, "bert") / "model.safetensors").unlink()
        for content in (b"", b"hello", b"\x80", bytes(range(256))):
            (tmp_path / "pytorch_model.bin").write_bytes(content)
            with pytest.raises(UserError, match="is not a complete file of weights"):
                HuggingFaceTeacher(str(tmp_path))

    def test_a_file_that_unpacks_to_more_than_it_is(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        (checkpoint(tmp_path, "bert") / "model.safetensors").unlink()
        with zipfile.ZipFile(tmp_path / "pytorch_model.bin", "w", zipfile.ZIP_DEFLATED) as packed:
            packed.writestr("archive/data.pkl", bytes(10**7))
        monkeypatch.setattr(torch.serialization, "get_unsafe_globals_in_checkpoint", lambda file: pytest.fail("read"))
        with pytest.raises(UserError, match="unpacks to 10,000,000 bytes"):
            HuggingFaceTeacher(str(tmp_path))

    def test_no_config(self, tmp_path: Path) -> None:
        (checkpoint(tmp_path, "bert") / "config.json").unlink()
        with pytest.raises(UserError, match="has no config.json"):
            HuggingFaceTeacher(str(tmp_path))

    @pytest.mark.parametrize(
        ("text", "words"),
        [
            ("{", "cannot be read"),
            ('{"model_type": "no_such_kind"}', "cannot be read"),
            ("{}", "cannot be read"),
            ('{"model_type": "resnet"}', "not a text encoder"),
        ],
    )
    def test_a_wrong_config(self, text: str, words: str, tmp_path: Path) -> None:
        (checkpoint(tmp_path, "bert") / "config.json").write_text(text)
        with pytest.raises(UserError, match=words):
            HuggingFaceTeacher(str(tmp_path))

    @pytest.mark.parametrize("keep", [0, 4, 100, 1000, -1])
    def test_truncated_weights(self, keep: int, tmp_path: Path) -> None:
        file = checkpoint(tmp_path, "bert") / "model.safetensors"
        file.write_bytes(file.read_bytes()[:keep])
        with pytest.raises(UserError, match="model.safetensors is not a complete safetensors file"):
            HuggingFaceTeacher(str(tmp_path))

    def test_a_broken_index(self, tmp_path: Path) -> None:
        (checkpoint(tmp_path, "bert") / "model.safetensors").unlink()
        (tmp_path / "model.safetensors.index.json").write_text('{"weights": []}')
        with pytest.raises(UserError, match="is not an index of weight files"):
            HuggingFaceTeacher(str(tmp_path))

    def test_weights_of_another_kind_are_named(self, tmp_path: Path) -> None:
        weights = load_file(checkpoint(tmp_path, "bert") / "model.safetensors")
        del weights["bert.encoder.layer.2.output.dense.weight"]
        save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(UserError, match=r"lack encoder.layer.2.output.dense.weight$"):
            HuggingFaceTeacher(str(tmp_path)).model(TWO, None)
        with pytest.raises(UserError, match="lack bert.encoder.layer.2.output.dense.weight$"):
            HuggingFaceTeacher(str(tmp_path)).masked_language_model()

    def test_weights_of_another_shape_are_named(self, tmp_path: Path) -> None:
        config = json.loads((checkpoint(tmp_path, "bert") / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 99}))
        with pytest.raises(UserError, match=r"word_embeddings.weight .* shape \(15, 32\), .* \(99, 32\)"):
            HuggingFaceTeacher(str(tmp_path)).model(TWO, None)

    def test_a_fine_tuned_folder_of_another_task(self, tmp_path: Path) -> None:
        teacher = HuggingFaceTeacher(str(checkpoint(tmp_path / "base", "bert")))
        teacher.model(TWO, None).save_pretrained(tmp_path / "tuned")
        with pytest.raises(UserError, match="has 2 outputs, but three needs 3"):
            teacher.model(THREE, tmp_path / "tuned")

    def test_no_tokenizer(self, tmp_path: Path) -> None:
        teacher = HuggingFaceTeacher(str(checkpoint(tmp_path, "bert", tokenizer=False)))
        with pytest.raises(UserError, match="has no tokenizer"):
            teacher.tokenizer()

    def test_a_tokenizer_of_a_file_that_only_sentencepiece_reads(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As DeBERTa's third version is on the hub. The file is part of what a teacher is, beside another it is not."""
        folder = checkpoint(tmp_path, "bert", tokenizer=False)
        teacher = HuggingFaceTeacher(str(folder))
        found = []
        for content in ("one", "another"):
            (folder / "spm.model").write_text(content)
            found.append(content_of(folder))
        assert found[0] != found[1]
        with pytest.raises(UserError, match="has no vocabulary: its files are of another kind"):
            teacher.tokenizer()  # BERT has another file
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"model_type": "deberta-v2"}))
        monkeypatch.setattr(loading, "find_spec", lambda name: None)
        with pytest.raises(UserError, match="spm.model needs two packages: pip install sentencepiece protobuf"):
            HuggingFaceTeacher(str(folder)).tokenizer()
        (folder / "tokenizer.json").write_text("{}")
        beside = content_of(folder)
        (folder / "spm.model").unlink()
        assert content_of(folder) == beside

    def test_a_tokenizer_for_some_versions_of_the_library(self, tmp_path: Path) -> None:
        folder = checkpoint(tmp_path, "bert")
        before = content_of(folder)
        config = json.loads((folder / "tokenizer_config.json").read_text())
        named = {"fast_tokenizer_files": ["tokenizer.4.0.0.json", "tokenizer.json"]}
        (folder / "tokenizer_config.json").write_text(json.dumps(config | named))
        said = content_of(folder)
        versioned = folder / "tokenizer.4.0.0.json"
        versioned.write_text((folder / "tokenizer.json").read_text())
        read = HuggingFaceTeacher(str(folder)).tokenizer()
        last = read.convert_ids_to_tokens(len(read) - 1)
        there = content_of(folder)
        versioned.write_text(versioned.read_text().replace(f'"{last}"', '"another"'))
        edited = HuggingFaceTeacher(str(folder)).tokenizer()
        assert "another" in edited.get_vocab() and "another" not in read.get_vocab()
        assert len({before, said, there, content_of(folder)}) == 4

    def test_a_broken_tokenizer(self, tmp_path: Path) -> None:
        (checkpoint(tmp_path, "bert") / "tokenizer.json").write_text("{")
        with pytest.raises(UserError, match="the tokenizer in .* cannot be read"):
            HuggingFaceTeacher(str(tmp_path)).tokenizer()

    def test_a_tokenizer_of_another_model(self, tmp_path: Path) -> None:
        config = json.loads((checkpoint(tmp_path, "bert") / "config.json").read_text())
        (tmp_path / "config.json").write_text(json.dumps(config | {"vocab_size": 9}))
        with pytest.raises(UserError, match="has 15 tokens, but the model knows only 9"):
            HuggingFaceTeacher(str(tmp_path)).tokenizer()


class TestHub:
    @pytest.fixture(autouse=True)
    def offline(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)

    def test_out_of_reach(self) -> None:
        teacher = HuggingFaceTeacher("no-such-owner/no-such-model")
        for ask in (teacher.content, teacher.tokenizer, lambda: teacher.info(TWO), lambda: teacher.model(TWO, None)):
            with pytest.raises(UserError, match="no-such-owner/no-such-model is not a local folder and cannot be"):
                ask()

    @pytest.mark.parametrize("error", [HTTPError("the server hung up"), OSError("disk full")])
    def test_a_connection_that_breaks(self, error: Exception, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("harness.teachers.huggingface.snapshot_download", Mock(side_effect=error))
        with pytest.raises(UserError, match=f"cannot be fetched from the hub .{error}"):
            HuggingFaceTeacher("owner/model").content()

    def test_the_published_teacher_is_known_without_the_hub(self) -> None:
        teacher = HuggingFaceTeacher("roberta-base")
        info = teacher.info(THREE)
        assert (info.layers, info.width, info.heads, info.vocabulary, info.labels) == (12, 768, 12, 50265, 3)
        assert not teacher.answers(THREE) and teacher.recipe(THREE)["epochs"] == 10

    def test_a_fetched_model_is_used_as_a_folder(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        folder = checkpoint(tmp_path, "electra")
        asked: list[list[str]] = []

        def snapshot(name: str, allow_patterns: list[str]) -> str:
            assert name == "owner/model"
            asked.append(allow_patterns)
            return str(folder)

        monkeypatch.setattr("harness.teachers.huggingface.snapshot_download", snapshot)
        teacher = HuggingFaceTeacher("owner/model")
        assert asked == []
        assert teacher.recipe(TWO)["epochs"] == 3
        assert not any("safetensors" in pattern for patterns in asked for pattern in patterns)
        assert teacher.content() == HuggingFaceTeacher(str(folder)).content()
        assert teacher.model(TWO, None).config.num_labels == 2
