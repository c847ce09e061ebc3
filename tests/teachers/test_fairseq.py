"""fairseq folders: read, described and refused, all of it without fairseq."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from harness.contracts import Signal
from harness.data.tasks import CORPUS, get_task
from harness.errors import UserError
from harness.teachers.fairseq import FairseqTeacher
from tests.small_models import THREE, TWO
from tests.teachers import fairseq_models as small

MNLI, RTE, STSB, COLA = (get_task(name) for name in ("mnli", "rte", "stsb", "cola"))


@pytest.fixture(autouse=True)
def without_fairseq(monkeypatch: pytest.MonkeyPatch) -> None:
    """Importing fairseq or omegaconf fails, installed or not."""
    for name in [name for name in sys.modules if name.split(".")[0] in ("fairseq", "omegaconf")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "fairseq", None)
    monkeypatch.setitem(sys.modules, "omegaconf", None)


def with_arguments(**changes: Any) -> dict[str, Any]:
    return {"args": Namespace(**small.arguments(**changes))}


class TestWhatItIs:
    def test_info_and_configuration(self, tmp_path: Path) -> None:
        teacher = FairseqTeacher(str(small.save(tmp_path)))
        info = teacher.info(THREE)
        assert (info.layers, info.width, info.heads, info.vocabulary, info.labels) == (3, 32, 4, 268, 3)
        assert info.emits == frozenset(Signal)
        expected = {
            "model_type": "roberta", "hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 4,
            "intermediate_size": 48, "max_position_embeddings": 42, "type_vocab_size": 1, "vocab_size": 268,
            "layer_norm_eps": 1e-5, "pad_token_id": 1, "hidden_act": "gelu", "hidden_dropout_prob": 0.1,
            "classifier_dropout": 0.0,
        }  # fmt: skip
        assert {name: teacher.configuration()[name] for name in expected} == expected
        assert teacher.recipe(RTE)["batch_size"] == 16 and teacher.recipe(MNLI)["epochs"] == 10
        assert teacher.predicts_masked()
        assert len(teacher.tokenizer()) == 268

    def test_settings_that_old_checkpoints_do_not_record_are_fairseqs_own(self, tmp_path: Path) -> None:
        arguments = small.arguments()
        for name in ("activation_fn", "pooler_activation_fn", "dropout", "pooler_dropout", "max_positions"):
            del arguments[name]
        config = FairseqTeacher(str(small.save(tmp_path, {"args": Namespace(**arguments)}))).configuration()
        assert (config["hidden_dropout_prob"], config["classifier_dropout"]) == (0.1, 0.0)
        assert config["max_position_embeddings"] == 42

    @pytest.mark.parametrize("file", ["model.pt", "dict.txt", "encoder.json", "vocab.bpe", "label/dict.txt"])
    def test_content_follows_every_file(self, file: str, tmp_path: Path) -> None:
        folder = small.save(tmp_path, labels=RTE.labels)
        first = FairseqTeacher(str(folder)).content()
        assert first == FairseqTeacher(str(folder)).content()
        if file == "model.pt":
            small.save(folder, state=small.weights({"rte": 2}), labels=RTE.labels)
        elif file.endswith("dict.txt"):
            lines = (folder / file).read_text().splitlines()
            (folder / file).write_text("\n".join([*lines[1:2], *lines[:1], *lines[2:]]) + "\n")
        else:
            (folder / file).write_bytes((folder / file).read_bytes() + b"\n")
        os.utime(folder / file, ns=(1, 1))
        assert FairseqTeacher(str(folder)).content() != first

    def test_content_is_not_the_place(self, tmp_path: Path) -> None:
        places = [small.save(tmp_path / name) for name in ("one", "two")]
        assert len({FairseqTeacher(str(place)).content() for place in places}) == 1

    def test_the_first_checkpoint_found_is_taken(self, tmp_path: Path) -> None:
        names = ("checkpoint_last.pt", "checkpoint.pt", "checkpoint_best.pt", "model.pt")
        for dropout, name in enumerate(names):
            small.save(tmp_path, with_arguments(dropout=dropout / 10), name=name)
            found = FairseqTeacher(str(tmp_path))
            assert found.checkpoint.file.name == name
            assert found.configuration()["hidden_dropout_prob"] == dropout / 10

    def test_a_model_asked_for_without_fairseq(self, tmp_path: Path) -> None:
        teacher = FairseqTeacher(str(small.save(tmp_path)))
        for ask in (lambda: teacher.model(TWO, None), teacher.masked_language_model):
            with pytest.raises(UserError, match=r'pip install "distill-harness\[fairseq\]"') as caught:
                ask()
            for word in ("pip install --no-deps ve-fairseq==0.12.3", "Python 3.11 or 3.12", "harness convert"):
                assert word in str(caught.value)


class TestAnswers:
    def teacher(
        self, folder: Path, heads: dict[str, int], labels: tuple[str, ...] = (), **recorded: Any
    ) -> FairseqTeacher:
        state = small.weights(heads)
        return FairseqTeacher(str(small.save(folder, with_arguments(**recorded), state, labels)))

    def test_none_without_a_head(self, tmp_path: Path) -> None:
        teacher = self.teacher(tmp_path, {}, RTE.labels, data="RTE-bin")
        assert not any(teacher.answers(task) for task in (RTE, MNLI, STSB, CORPUS))

    def test_the_heads_name(self, tmp_path: Path) -> None:
        teacher = self.teacher(tmp_path, {"rte": 2}, ("not_entailment", "entailment"))
        assert teacher.answers(RTE) and not teacher.answers(get_task("qnli"))

    def test_never_where_candidates_are_ranked(self, tmp_path: Path) -> None:
        teacher = self.teacher(tmp_path, {"qnli_ranking": 1}, ("not_entailment", "entailment"), data="QNLI-bin")
        assert not teacher.answers(get_task("qnli_ranking"))

    def test_the_recorded_folder(self, tmp_path: Path) -> None:
        teacher = self.teacher(tmp_path, {"sentence_classification_head": 2}, ("1", "0"), data="glue/CoLA-bin/")
        assert teacher.answers(COLA) and not teacher.answers(get_task("sst2"))

    def test_the_recorded_head_among_several(self, tmp_path: Path) -> None:
        heads = {"one": 2, "two": 2}
        assert not self.teacher(tmp_path / "a", heads, ("1", "0"), data="CoLA-bin").answers(COLA)
        named = {"data": "CoLA-bin", "classification_head_name": "two"}
        assert self.teacher(tmp_path / "b", heads, ("1", "0"), **named).checkpoint.head(COLA) == "two"

    def test_a_new_style_record(self, tmp_path: Path) -> None:
        cfg = {"task": {"_name": "sentence_prediction", "data": "/x/RTE-bin"}, "model": Namespace(**small.arguments())}
        del cfg["model"].data
        folder = small.save(tmp_path, {"args": None, "cfg": cfg}, small.weights({"h": 2}), RTE.labels)
        assert FairseqTeacher(str(folder)).answers(RTE)

    @pytest.mark.parametrize(
        ("head", "outputs", "labels"),
        [
            ("rte", 3, RTE.labels),
            ("rte", 2, ()),
            ("rte", 2, ("0", "1")),
            ("rte", 2, ("entailment",)),
            ("mnli", 2, RTE.labels),
            ("stsb", 2, ()),
        ],
    )
    def test_what_does_not_fit(self, head: str, outputs: int, labels: tuple[str, ...], tmp_path: Path) -> None:
        teacher = self.teacher(tmp_path, {head: outputs}, labels)
        assert not any(teacher.answers(task) for task in (RTE, MNLI, STSB))

    def test_a_head_of_another_form(self, tmp_path: Path) -> None:
        state = small.weights({"rte": 2})
        state["classification_heads.rte.dense.weight"] = torch.zeros(48, 32)
        state["classification_heads.rte.dense.bias"] = torch.zeros(48)
        state["classification_heads.rte.out_proj.weight"] = torch.zeros(2, 48)
        assert not FairseqTeacher(str(small.save(tmp_path, state=state, labels=RTE.labels))).answers(RTE)


class Harmful:
    """Whoever unpickles it makes the file."""

    def __init__(self, path: Path):
        self.path = path

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[str, str]]:
        return open, (str(self.path), "w")


class Unknown:
    """No class that a checkpoint of fairseq has."""


class TestRefusals:
    """As a folder is opened, before anything else is asked of it, such as to convert it."""

    def refused(self, folder: Path, *words: str) -> None:
        with pytest.raises(UserError) as caught:
            FairseqTeacher(str(folder))
        for word in words:
            assert word in str(caught.value), str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("place", ["model", "extra_state", "args"])
    @pytest.mark.parametrize("zipped", [True, False])
    def test_code_is_refused_without_running_it(self, place: str, zipped: bool, tmp_path: Path) -> None:
        harmful = Harmful(tmp_path / "ran")
        held = {"model": {"weight": harmful}, "args": Namespace(**small.arguments(data=harmful))}
        small.save(tmp_path, zipped=zipped, **{place: held.get(place, harmful)})
        self.refused(tmp_path, "model.pt", "more than data (", "open)", "could run code")
        assert not (tmp_path / "ran").exists()

    def test_code_behind_a_class_that_is_let_through(self, tmp_path: Path) -> None:
        """A Namespace's attributes are data too."""
        small.save(tmp_path, with_arguments(anything={"deep": [Harmful(tmp_path / "ran")]}))
        self.refused(tmp_path, "could run code")
        assert not (tmp_path / "ran").exists()

    @pytest.mark.parametrize("zipped", [True, False])
    def test_an_unknown_class(self, zipped: bool, tmp_path: Path) -> None:
        small.save(tmp_path, with_arguments(optimizer=Unknown()), zipped=zipped)
        self.refused(tmp_path, "more than data (tests.teachers.test_fairseq.Unknown)")

    @pytest.mark.parametrize("keep", [0, 10, 500, -100])
    @pytest.mark.parametrize("zipped", [True, False])
    def test_a_truncated_file(self, keep: int, zipped: bool, tmp_path: Path) -> None:
        file = small.save(tmp_path, zipped=zipped) / "model.pt"
        file.write_bytes(file.read_bytes()[:keep])
        self.refused(tmp_path, "model.pt is not a complete fairseq checkpoint")

    @pytest.mark.parametrize("content", [[1, 2], {"state": {}}, {"model": [1]}, {"model": {"weight": "heavy"}}])
    def test_something_else(self, content: Any, tmp_path: Path) -> None:
        torch.save(content, small.save(tmp_path) / "model.pt")
        self.refused(tmp_path, "model.pt is not a fairseq checkpoint")

    @pytest.mark.parametrize("recorded", [{}, {"args": None}, {"cfg": {}}, {"args": "roberta"}])
    def test_no_arguments(self, recorded: dict[str, Any], tmp_path: Path) -> None:
        small.save(tmp_path, recorded)
        self.refused(tmp_path, "records no arguments")

    def test_no_folder(self, tmp_path: Path) -> None:
        small.save(tmp_path / "roberta_small")
        self.refused(tmp_path / "roberta_smal", "does not exist", "did you mean roberta_small?")

    @pytest.mark.parametrize("name", ["dict.txt", "encoder.json", "vocab.bpe"])
    def test_a_missing_file(self, name: str, tmp_path: Path) -> None:
        (small.save(tmp_path) / name).unlink()
        self.refused(tmp_path, f"has no {name}")

    def test_no_checkpoint(self, tmp_path: Path) -> None:
        (small.save(tmp_path) / "model.pt").rename(tmp_path / "roberta.pt")
        self.refused(tmp_path, "has no checkpoint", "model.pt, checkpoint_best.pt, checkpoint.pt")

    def test_another_dictionary(self, tmp_path: Path) -> None:
        with (small.save(tmp_path) / "dict.txt").open("a") as file:
            file.write("madeupword0000 0\n")
        self.refused(tmp_path, "dict.txt gives 269 symbols with <mask>", "268 word embeddings")

    def test_a_translation_transformer(self, tmp_path: Path) -> None:
        state = {f"{side}.layers.0.fc1.weight": torch.zeros(8, 4) for side in ("encoder", "decoder")}
        small.save(tmp_path, with_arguments(arch="transformer_iwslt_de_en"), state)
        self.refused(tmp_path, "transformer_iwslt_de_en", "not a RoBERTa")

    @pytest.mark.parametrize(
        ("changes", "words"),
        [
            ({"encoder_normalize_before": True}, ("encoder_normalize_before True",)),
            ({"activation_fn": "relu"}, ("activation_fn 'relu'", "only RoBERTas with 'gelu'")),
            ({"encoder_learned_pos": False}, ("encoder_learned_pos False",)),
            ({"encoder_layers_to_keep": "0,2"}, ("encoder_layers_to_keep",)),
            ({"encoder_attention_heads": 5}, ("5 attention heads", "width 32")),
            ({"encoder_attention_heads": 0}, ("without layers or attention heads",)),
            ({"encoder_layers": "three"}, ("encoder_layers 'three'", "not a valid number")),
            ({"encoder_layers": 4}, ("lacks the weights encoder.sentence_encoder.layers.3.", "and 13 more")),
            ({"encoder_layers": 2}, ("encoder.sentence_encoder.layers.2.", "RoBERTa has no place")),
            ({"encoder_ffn_embed_dim": 64}, ("fc1.", "(48", "(64")),
        ],
    )
    def test_arguments_that_do_not_fit(
        self, changes: dict[str, Any], words: tuple[str, ...], tmp_path: Path
    ) -> None:
        small.save(tmp_path, with_arguments(**changes))
        self.refused(tmp_path, "model.pt", *words)

    @pytest.mark.parametrize("name", ["layers.1.fc2.bias", "layernorm_embedding.weight", "embed_positions.weight"])
    def test_a_missing_weight(self, name: str, tmp_path: Path) -> None:
        state = small.weights()
        del state[f"encoder.sentence_encoder.{name}"]
        small.save(tmp_path, state=state)
        self.refused(tmp_path, f"lacks the weights encoder.sentence_encoder.{name}")

    @pytest.mark.parametrize("rows", [0, 2])
    def test_too_few_positions(self, rows: int, tmp_path: Path) -> None:
        positions = {"encoder.sentence_encoder.embed_positions.weight": torch.zeros(rows, 32)}
        small.save(tmp_path, state=small.weights() | positions)
        self.refused(tmp_path, f"has {rows} rows of positions")


def test_folders_beside_a_missing_one_are_named_where_they_are_alike(tmp_path: Path) -> None:
    (tmp_path / "roberta.base").mkdir()
    for name, said in (("roberta_base", r": did you mean roberta\.base\?$"), ("nonexistent", "is not a folder$")):
        with pytest.raises(UserError, match=said):
            FairseqTeacher(str(tmp_path / name))


def test_no_argument() -> None:
    with pytest.raises(UserError, match="fairseq:FOLDER"):
        FairseqTeacher("")
