"""Checkpoints of each family: read, refused, hashed, loaded and fine-tuned again as they should be."""

import json
import os
import pickle
import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, MPNetConfig

from harness.contracts import Signal, Want
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.modeling.signals import emit
from harness.registry import TEACHERS
from teachers.huggingface import HuggingFaceTeacher
from tests.modeling.small_models import FAMILIES, SCORE, THREE, TWO, WORDS, checkpoint, small_batch

CLASSIFIER = AutoModelForSequenceClassification


def batch(family: str) -> dict[str, torch.Tensor]:
    return {name: tensor.clamp(max=len(WORDS) - 1) for name, tensor in small_batch(family).items()}


def test_it_is_registered() -> None:
    assert TEACHERS.get("huggingface") is HuggingFaceTeacher


@pytest.mark.parametrize("family", FAMILIES)
class TestFamilies:
    def test_info(self, family: str, tmp_path: Path) -> None:
        info = HuggingFaceTeacher(str(checkpoint(tmp_path, family))).info(THREE)
        assert (info.layers, info.width, info.heads, info.vocabulary, info.labels) == (4, 32, 4, len(WORDS), 3)
        assert info.emits == frozenset(Signal) and info.pair_encoding == "joint"

    @pytest.mark.parametrize("head", [AutoModel, AutoModelForMaskedLM, CLASSIFIER])
    def test_the_encoder_is_loaded_under_a_fresh_head(self, family: str, head: type, tmp_path: Path) -> None:
        """Whatever head the checkpoint has; the head is drawn from torch's seed and fits the task."""
        folder = checkpoint(tmp_path, family, head)
        teacher = HuggingFaceTeacher(str(folder))
        models = []
        for seed in (1, 1, 2):
            torch.manual_seed(seed)
            models.append(teacher.model(THREE, None).eval())
        encoder = AutoModel.from_pretrained(folder).eval()
        want = Want(logits=True, sentence=True, hidden_states=frozenset({0, 2}))
        a, b, c = (emit(model, batch(family), want) for model in models)
        expected = emit(encoder, batch(family), Want(sentence=True))
        assert torch.equal(a.sentence, expected.sentence) and torch.equal(c.sentence, expected.sentence)
        assert a.logits.shape == (3, 3)
        assert torch.equal(a.logits, b.logits) and not torch.equal(a.logits, c.logits)

    def test_a_fine_tuned_folder(self, family: str, tmp_path: Path) -> None:
        """What `model` gave, saved, comes back whole, and as a teacher of its own it answers its task."""
        teacher = HuggingFaceTeacher(str(checkpoint(tmp_path / "base", family)))
        model = teacher.model(THREE, None).eval()
        model.save_pretrained(tmp_path / "tuned")
        again = teacher.model(THREE, tmp_path / "tuned").eval()
        want = Want(logits=True)
        assert torch.equal(emit(again, batch(family), want).logits, emit(model, batch(family), want).logits)
        tuned = HuggingFaceTeacher(str(tmp_path / "tuned"))
        assert tuned.answers(THREE) and not tuned.answers(replace(THREE, name="other"))
        assert torch.equal(
            emit(tuned.model(THREE, None).eval(), batch(family), want).logits, emit(model, batch(family), want).logits
        )

    def test_regression(self, family: str, tmp_path: Path) -> None:
        model = HuggingFaceTeacher(str(checkpoint(tmp_path, family, CLASSIFIER, num_labels=3))).model(SCORE, None)
        assert emit(model, batch(family), Want(logits=True)).logits.shape == (3, 1)

    def test_one_score_for_candidates_that_are_ranked(self, family: str, tmp_path: Path) -> None:
        task = get_task("qnli_ranking")
        model = HuggingFaceTeacher(str(checkpoint(tmp_path, family, CLASSIFIER, num_labels=2))).model(task, None)
        model.save_pretrained(tmp_path / "tuned")
        again = HuggingFaceTeacher(str(tmp_path)).model(task, tmp_path / "tuned")
        found = [emit(m.eval(), batch(family), Want(logits=True)).logits for m in (model, again)]
        assert found[0].shape[-1] == 1 and torch.equal(*found)

    def test_masked_language_model(self, family: str, tmp_path: Path) -> None:
        folder = checkpoint(tmp_path, family)
        ours = HuggingFaceTeacher(str(folder)).masked_language_model().eval()
        own = AutoModelForMaskedLM.from_pretrained(folder).eval()
        want = Want(mlm_logits=True)
        assert torch.equal(emit(ours, batch(family), want).mlm_logits, emit(own, batch(family), want).mlm_logits)


class TestAnswers:
    @pytest.mark.parametrize(
        ("changes", "answered"),
        [
            ({"finetuning_task": "two"}, True),
            ({"finetuning_task": "glue:two"}, True),
            ({"finetuning_task": "two", "id2label": {0: "no", 1: "yes"}}, True),
            ({"finetuning_task": "two", "id2label": {0: "NO", 1: "YES"}}, True),
            ({"finetuning_task": "two", "id2label": {0: "yes", 1: "no"}}, False),  # the logits' order would be wrong
            ({"finetuning_task": "three"}, False),
            ({"id2label": {0: "no", 1: "yes"}}, False),
            ({}, False),
            ({"finetuning_task": "two", "num_labels": 3}, False),
        ],
    )
    def test_only_a_recorded_task_counts(self, changes: dict, answered: bool, tmp_path: Path) -> None:
        teacher = HuggingFaceTeacher(str(checkpoint(tmp_path, "bert", CLASSIFIER, **changes)))
        assert teacher.answers(TWO) is answered

    def test_an_encoder_without_classifier_never_answers(self, tmp_path: Path) -> None:
        assert not HuggingFaceTeacher(str(checkpoint(tmp_path, "bert", finetuning_task="two"))).answers(TWO)

    def test_a_head_that_does_not_answer_is_replaced(self, tmp_path: Path) -> None:
        folder = checkpoint(tmp_path, "bert", CLASSIFIER)
        own = load_file(folder / "model.safetensors")["classifier.weight"]
        assert not torch.equal(HuggingFaceTeacher(str(folder)).model(TWO, None).classifier.weight, own)
        config = json.loads((folder / "config.json").read_text())
        (folder / "config.json").write_text(json.dumps(config | {"finetuning_task": "two"}))
        assert torch.equal(HuggingFaceTeacher(str(folder)).model(TWO, None).classifier.weight, own)


class TestHeads:
    """Whether there is a head is told by the weights, whatever the configuration claims."""

    @pytest.mark.parametrize("family", FAMILIES)
    @pytest.mark.parametrize("claim", ["ForMaskedLM", "ForSequenceClassification", ""])
    def test_the_weights_tell(self, family: str, claim: str, tmp_path: Path) -> None:
        for head in (AutoModel, AutoModelForMaskedLM, CLASSIFIER):
            folder = checkpoint(tmp_path / head.__name__, family, head, finetuning_task="two")
            config = json.loads((folder / "config.json").read_text())
            config["architectures"] = [config["architectures"][0].partition("For")[0].removesuffix("Model") + claim]
            (folder / "config.json").write_text(json.dumps(config))
            teacher = HuggingFaceTeacher(str(folder))
            assert teacher.predicts_masked() is (head is AutoModelForMaskedLM)
            assert teacher.answers(TWO) is (head is CLASSIFIER)

    def test_sentence_transformers_of_mpnet(self, tmp_path: Path) -> None:
        """all-mpnet-base-v2 says MPNetForMaskedLM and holds an encoder alone."""
        config = MPNetConfig(
            vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=16
        )
        AutoModel.from_config(config).save_pretrained(tmp_path)
        claims = json.loads((tmp_path / "config.json").read_text()) | {"architectures": ["MPNetForMaskedLM"]}
        (tmp_path / "config.json").write_text(json.dumps(claims))
        assert not HuggingFaceTeacher(str(tmp_path)).predicts_masked()
        AutoModelForMaskedLM.from_config(config).save_pretrained(tmp_path)
        assert HuggingFaceTeacher(str(tmp_path)).predicts_masked()

    @pytest.mark.parametrize("way", ["pickle", "shards"])
    def test_in_any_kind_of_file(self, way: str, tmp_path: Path) -> None:
        for head in (AutoModel, AutoModelForMaskedLM):
            folder = checkpoint(tmp_path / head.__name__, "roberta", head)
            weights = load_file(folder / "model.safetensors")
            (folder / "model.safetensors").unlink()
            if way == "pickle":
                torch.save(weights, folder / "pytorch_model.bin")
            else:
                parts = {name: f"part-{i % 2}.safetensors" for i, name in enumerate(sorted(weights))}
                for part in set(parts.values()):
                    own = {name: tensor for name, tensor in weights.items() if parts[name] == part}
                    save_file(own, folder / part, metadata={"format": "pt"})
                index = {"metadata": {"total_size": 1}, "weight_map": parts}
                (folder / "model.safetensors.index.json").write_text(json.dumps(index))
            assert HuggingFaceTeacher(str(folder)).predicts_masked() is (head is AutoModelForMaskedLM)

    def test_a_part_of_a_head_is_not_completed_at_random(self, tmp_path: Path) -> None:
        teacher = HuggingFaceTeacher(str(checkpoint(tmp_path / "base", "bert")))
        teacher.model(TWO, None).save_pretrained(tmp_path / "tuned")
        weights = load_file(tmp_path / "tuned" / "model.safetensors")
        del weights["classifier.bias"]
        save_file(weights, tmp_path / "tuned" / "model.safetensors", metadata={"format": "pt"})
        with pytest.raises(UserError, match="lack classifier.bias$"):
            teacher.model(TWO, tmp_path / "tuned")

    def test_known_names_are_not_fetched(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
        assert HuggingFaceTeacher("bert-base-uncased").predicts_masked()
        assert not HuggingFaceTeacher("nreimers/MiniLM-L6-H384-uncased").predicts_masked()


class TestCodeOfItsOwn:
    """A folder may name code of its own: it is never run, and nobody is asked whether it may be."""

    def folder(self, tmp_path: Path, **changes: object) -> Path:
        checkpoint(tmp_path, "bert")
        classes = "".join(f"class {name}: pass\n" for name in ("Config", "Model", "Tokenizer"))
        (tmp_path / "own.py").write_text(f"open({str(tmp_path / 'ran')!r}, 'w')\n{classes}")
        kinds = ("AutoModel", "AutoModelForMaskedLM", "AutoModelForSequenceClassification")
        config = json.loads((tmp_path / "config.json").read_text())
        config["auto_map"] = {"AutoConfig": "own.Config", **dict.fromkeys(kinds, "own.Model")}
        (tmp_path / "config.json").write_text(json.dumps(config | changes))
        tokenizer = json.loads((tmp_path / "tokenizer_config.json").read_text())
        tokenizer["auto_map"] = {"AutoTokenizer": ["own.Tokenizer", None]}
        (tmp_path / "tokenizer_config.json").write_text(json.dumps(tokenizer))
        return tmp_path

    @pytest.fixture(autouse=True)
    def asked(self, monkeypatch: pytest.MonkeyPatch) -> list[str]:
        """What somebody at the terminal, who says yes to everything, is asked."""
        questions: list[str] = []
        monkeypatch.setattr("builtins.input", lambda question="": questions.append(question) or "y")
        return questions

    def test_a_known_kind_is_the_library_s_own(self, tmp_path: Path, asked: list[str]) -> None:
        teacher = HuggingFaceTeacher(str(self.folder(tmp_path)))
        assert type(teacher.tokenizer()).__module__.startswith("transformers.")
        for model in (teacher.model(TWO, None), teacher.masked_language_model()):
            assert type(model).__module__.startswith("transformers.")
        assert not asked and not (tmp_path / "ran").exists()

    def test_an_unknown_kind_is_refused(self, tmp_path: Path, asked: list[str]) -> None:
        with pytest.raises(UserError, match="cannot be read"):
            HuggingFaceTeacher(str(self.folder(tmp_path, model_type="kind_of_its_own")))
        assert not asked and not (tmp_path / "ran").exists()


@pytest.mark.parametrize(
    ("kind", "words"),
    [
        ("gpt2", "a model of type gpt2 is a decoder; the harness needs an encoder"),
        ("bloom", "a model of type bloom is a decoder"),
        ("xlnet", "a model of type xlnet is a decoder"),
        ("t5", "a model of type t5 is an encoder and a decoder"),
        ("bart", "a model of type bart is an encoder and a decoder"),
    ],
)
def test_decoders_are_refused_by_their_configuration(kind: str, words: str, tmp_path: Path) -> None:
    save_file({"weight": torch.zeros(1)}, tmp_path / "model.safetensors", metadata={"format": "pt"})
    (tmp_path / "config.json").write_text(json.dumps({"model_type": kind}))
    with pytest.raises(UserError, match=words):
        HuggingFaceTeacher(str(tmp_path))


def test_a_tokenizer_that_pads_on_the_left_pads_on_the_right(tmp_path: Path) -> None:
    folder = checkpoint(tmp_path, "bert")
    settings = json.loads((folder / "tokenizer_config.json").read_text()) | {"padding_side": "left"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings))
    found = HuggingFaceTeacher(str(folder)).tokenizer()(["the dog", "a"], padding=True)
    assert found["attention_mask"] == [[1, 1, 1, 1], [1, 1, 1, 0]]


@pytest.mark.parametrize(
    ("family", "task", "rate", "size", "epochs"),
    [
        ("roberta", "rte", 2e-5, 16, 10),
        ("roberta", "qqp", 2e-5, 32, 10),
        ("bert", "rte", 5e-5, 32, 3),
    ],
)
def test_recipe(family: str, task: str, rate: float, size: int, epochs: int, tmp_path: Path) -> None:
    recipe = HuggingFaceTeacher(str(checkpoint(tmp_path, family))).recipe(replace(TWO, name=task))
    assert (recipe["learning_rate"], recipe["batch_size"], recipe["epochs"]) == (rate, size, epochs)
    assert set(recipe) == {"learning_rate", "batch_size", "epochs", "warmup_ratio", "weight_decay"}


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
        with pytest.raises(UserError, match=f"{shards[0].name} is no whole safetensors file"):
            HuggingFaceTeacher(str(tmp_path / "shards"))


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
        with pytest.raises(UserError, match="is no folder"):
            HuggingFaceTeacher("model")

    def test_no_weights(self, tmp_path: Path) -> None:
        (checkpoint(tmp_path, "bert") / "model.safetensors").unlink()
        with pytest.raises(UserError, match="has no weights"):
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
        said = "torch writes none like it" if kind.startswith("protocol") else "could run code"
        with pytest.raises(UserError, match=said) as error:
            HuggingFaceTeacher(str(tmp_path))
        assert not (tmp_path / "ran").exists() and "weights_only" not in str(error.value)

    def test_what_is_no_pickle_at_all(self, tmp_path: Path) -> None:
        (checkpoint(tmp_path, "bert") / "model.safetensors").unlink()
        for content in (b"", b"hello", b"\x80", bytes(range(256))):
            (tmp_path / "pytorch_model.bin").write_bytes(content)
            with pytest.raises(UserError, match="is no whole file of weights"):
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
            ('{"model_type": "resnet"}', "no text encoder"),
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
        with pytest.raises(UserError, match="model.safetensors is no whole safetensors file"):
            HuggingFaceTeacher(str(tmp_path))

    def test_a_broken_index(self, tmp_path: Path) -> None:
        (checkpoint(tmp_path, "bert") / "model.safetensors").unlink()
        (tmp_path / "model.safetensors.index.json").write_text('{"weights": []}')
        with pytest.raises(UserError, match="is no index of weight files"):
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
            with pytest.raises(UserError, match="no-such-owner/no-such-model is no folder here and cannot be fetched"):
                ask()

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

        monkeypatch.setattr("teachers.huggingface.snapshot_download", snapshot)
        teacher = HuggingFaceTeacher("owner/model")
        assert asked == []
        assert teacher.recipe(TWO)["epochs"] == 3
        assert not any("safetensors" in pattern for patterns in asked for pattern in patterns)
        assert teacher.content() == HuggingFaceTeacher(str(folder)).content()
        assert teacher.model(TWO, None).config.num_labels == 2
