"""Checkpoints of each family: read, refused, hashed, loaded and fine-tuned again as they should be."""

import json
from dataclasses import replace
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from safetensors.torch import load_file, save_file
from transformers import AutoModel, AutoModelForMaskedLM, AutoModelForSequenceClassification, MPNetConfig

from harness.contracts import Signal, Want
from harness.data import own
from harness.data.declaration import Declaration
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.modeling.signals import emit
from harness.teachers.huggingface import HuggingFaceTeacher
from tests.small_models import FAMILIES, SCORE, THREE, TWO, WORDS, checkpoint, small_batch

CLASSIFIER = AutoModelForSequenceClassification


def batch(family: str) -> dict[str, torch.Tensor]:
    return {name: tensor.clamp(max=len(WORDS) - 1) for name, tensor in small_batch(family).items()}


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
            ({"finetuning_task": "two", "id2label": {0: "never", 1: "no"}}, False),  # nor where one stands elsewhere
            ({"finetuning_task": "two", "id2label": {0: "no", 1: "sure"}}, True),
            ({"finetuning_task": "three"}, False),
            ({"id2label": {0: "no", 1: "yes"}}, False),
            ({}, False),
            ({"finetuning_task": "two", "num_labels": 3}, False),
        ],
    )
    def test_only_a_recorded_task_counts(self, changes: dict, answered: bool, tmp_path: Path) -> None:
        teacher = HuggingFaceTeacher(str(checkpoint(tmp_path, "bert", CLASSIFIER, **changes)))
        assert teacher.answers(TWO) is answered

    @pytest.mark.parametrize(
        ("name", "classes", "answered"),
        [
            ("Mine", {0: "no", 1: "yes"}, True),  # the configuration records a name as it is written
            ("mine", {0: "LABEL_0", 1: "LABEL_1"}, True),
            ("mine", {0: "bad", 1: "good"}, False),
        ],
    )
    def test_other_data_of_the_same_name_have_other_classes(
        self, name: str, classes: dict, answered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        task = replace(TWO, name=name)
        monkeypatch.setitem(own.KNOWN, task.name, own.Known(Declaration(task.name, "mine.csv"), task, ""))
        folder = checkpoint(tmp_path, "bert", CLASSIFIER, finetuning_task=name, id2label=classes)
        assert HuggingFaceTeacher(str(folder)).answers(task) is answered

    @pytest.mark.parametrize(("learnt_from", "answered"), [("these", True), ("others", False), (None, False)])
    def test_other_scores_of_the_same_name_are_told_by_their_content(
        self, learnt_from: str | None, answered: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        task = replace(TWO, name="mine", labels=())
        known = own.Known(Declaration("mine", "mine.csv"), task, "")
        known.__dict__["source"] = Mock(content=lambda task: "these")
        monkeypatch.setitem(own.KNOWN, "mine", known)
        more = {"finetuning_data": learnt_from} if learnt_from else {}
        folder = checkpoint(tmp_path, "bert", CLASSIFIER, finetuning_task="mine", num_labels=1, **more)
        assert HuggingFaceTeacher(str(folder)).answers(task) is answered

    def test_more_classes_than_it_was_trained_for_are_refused(self, tmp_path: Path) -> None:
        folder = checkpoint(tmp_path, "bert", CLASSIFIER, finetuning_task="three", num_labels=2)
        with pytest.raises(UserError, match="was trained for three with 2 classes, but its data have 3"):
            HuggingFaceTeacher(str(folder)).answers(THREE)

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
        ("codegen", "a model of type codegen is a decoder; the harness needs an encoder"),
        ("dbrx", "a model of type dbrx is a decoder"),
    ],
)
def test_decoders_without_a_classifier_are_refused_by_their_configuration(
    kind: str, words: str, tmp_path: Path
) -> None:
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
