"""The transformer student: what it is, what it copies, and that it survives saving."""

from pathlib import Path
from typing import Any

import pytest
import torch

from harness.contracts import Batch, ModelInfo, Signal, Want
from harness.errors import UserError
from harness.modeling.bases import StudentConfig
from harness.modeling.signals import emit
from harness.students.transformer import Transformer
from tests.small_models import FAMILIES, SCORE, THREE, own_inputs, small_batch, small_model

TOKENIZER: Any = None  # a transformer takes nothing from it
TEACHER = ModelInfo("t", 4, 32, 4, 40, 3, frozenset(Signal), "fingerprint")


def build(family: str, layers: int = 2, outputs: int = 3, seed: int = 0, **changes: Any) -> Transformer:
    source = small_model(family).config.to_dict() | changes
    torch.manual_seed(seed)
    return Transformer(StudentConfig("transformer", {"layers": layers}, source, outputs)).eval()


def batch(family: str) -> Batch:
    return Batch(torch.arange(3), None, (small_batch(family),))


@pytest.mark.parametrize("family", FAMILIES)
class TestFamilies:
    def test_a_student_of_all_layers_is_the_teacher(self, family: str) -> None:
        student, teacher = build(family, layers=4), small_model(family, seed=5)
        student.initialise("every", lambda: teacher, TOKENIZER)
        want = Want(sentence=True, values=frozenset({4}))
        ours, theirs = student(batch(family), want), emit(teacher, small_batch(family), want)
        assert torch.equal(ours.sentence, theirs.sentence) and torch.equal(ours.values[4], theirs.values[4])

    @pytest.mark.parametrize(
        ("init", "copied"),
        [
            ("random", None),
            ("random:embeddings", ()),
            ("every", (2, 4)),
            ("first", (1, 2)),
            ("last", (3, 4)),
            ("1, 4", (1, 4)),
            ("teacher_layers:every", (2, 4)),
        ],
    )
    def test_initialisations(self, family: str, init: str, copied: tuple[int, ...] | None) -> None:
        student, teacher = build(family), small_model(family, seed=5)
        fresh = {name: tensor.clone() for name, tensor in student.model.state_dict().items()}
        source = teacher.state_dict()
        assert student.initialise(init, lambda: teacher, TOKENIZER) == {}
        for name, tensor in student.model.state_dict().items():
            origin = name
            for position, layer in enumerate(copied or ()):
                if f".layer.{position}." in name:
                    origin = name.replace(f".layer.{position}.", f".layer.{layer - 1}.")
            from_teacher = (".embeddings" in name and copied is not None) or (".layer." in name and bool(copied))
            assert torch.equal(tensor, (source[origin] if from_teacher else fresh[name])), name

    def test_one_label(self, family: str, tmp_path: Path) -> None:
        """A regression head, whatever the teacher's was."""
        student = build(family, outputs=1, id2label={0: "x", 1: "y", 2: "z"}, label2id={"x": 0, "y": 1, "z": 2})
        assert Transformer.describe({}, TEACHER, SCORE).labels == 1
        logits = student(batch(family), Want(logits=True)).logits
        assert logits.shape == (3, 1)
        student.save_pretrained(tmp_path)
        again = Transformer.from_pretrained(tmp_path).eval()
        assert torch.equal(again(batch(family), Want(logits=True)).logits, logits)

    def test_on_a_corpus_it_predicts_masked_tokens(self, family: str, tmp_path: Path) -> None:
        student = build(family, outputs=0)
        read = batch(family)
        read.targets = torch.full((3, 9), -100)
        read.targets[0, 2], read.targets[2, 0], read.targets[2, 6] = 7, 8, 9
        logits = student(read, Want(mlm_logits=True)).mlm_logits
        whole = student.model(**own_inputs(family, read.encodings[0])).logits
        assert logits.shape == (3, 40)
        assert torch.allclose(logits, whole[[0, 2, 2], [2, 0, 6]], atol=1e-6)
        student.save_pretrained(tmp_path)
        again = Transformer.from_pretrained(tmp_path).eval()
        assert torch.equal(again(read, Want(mlm_logits=True)).mlm_logits, logits)

    def test_the_encoder_passes_from_a_corpus_to_a_task(self, family: str) -> None:
        """All of a classifier but what is named a head is in the masked language model, in the same shape."""
        masked, classifier = build(family, outputs=0, seed=1), build(family, seed=2)
        source, target = masked.state_dict(), classifier.state_dict()
        heads = classifier.head_weights()
        assert heads and heads < set(target)
        assert not {name for name in heads if ".layer." in name or ".embeddings" in name}
        for name in set(target) - heads:
            target[name].copy_(source[name])
        states = Want(hidden_states=frozenset({2}))
        ours, theirs = (model(batch(family), states).hidden_states[2] for model in (classifier, masked))
        assert torch.equal(ours, theirs)

    def test_each_weight_is_of_one_layer_or_of_the_head(self, family: str) -> None:
        """Layer 0 is what comes before the others; a pooler is of the head."""
        student = build(family)
        parts = [*map(student.layer_weights, range(3)), student.head_weights()]
        every = set[str]().union(*parts)
        assert sum(map(len, parts)) == len(every) and every >= dict(student.named_parameters()).keys()
        assert all(f".layer.{number - 1}." in name for number in (1, 2) for name in parts[number])

    def test_every_weight_trains(self, family: str) -> None:
        student = build(family).train()
        student(batch(family), Want(logits=True)).logits.square().sum().backward()
        assert [name for name, p in student.named_parameters() if p.grad is None] == []


def test_weights_are_float32_whatever_the_teacher_was_saved_in() -> None:
    assert {p.dtype for p in build("bert", dtype="float16").parameters()} == {torch.float32}


def test_the_teachers_configuration_is_not_changed() -> None:
    teacher = small_model("bert")
    Transformer(StudentConfig("transformer", {"layers": 1}, teacher.config.to_dict(), 3))
    assert teacher.config.num_hidden_layers == 4 and teacher.config.num_labels == 2


def test_what_it_describes() -> None:
    described = Transformer.describe({"layers": 2}, TEACHER, THREE)
    assert described == ModelInfo("transformer", 2, 32, 4, 40, 3, Transformer.emits, "fingerprint", "joint")


def test_default_depth() -> None:
    assert Transformer.describe({}, TEACHER, THREE).layers == 3
    student = Transformer(StudentConfig("transformer", {}, small_model("bert").config.to_dict(), 2))
    assert student.model.config.num_hidden_layers == 3


@pytest.mark.parametrize("layers", [0, -1, 1.5, "two"])
def test_a_wrong_depth(layers: Any) -> None:
    with pytest.raises(UserError, match="layers must be"):
        Transformer.describe({"layers": layers}, TEACHER, THREE)


def test_a_source_without_model_type() -> None:
    with pytest.raises(UserError, match="this has no model_type"):
        Transformer(StudentConfig("transformer", {"layers": 1}, {"hidden_size": 8}, 2))


def test_layer_map_and_its_mistakes() -> None:
    student = Transformer.describe({"layers": 2}, TEACHER, THREE)
    assert Transformer.layer_map("last", student, TEACHER).pairs == ((1, 3), (2, 4))
    assert Transformer.layer_map("random", student, TEACHER).pairs == ((1, 2), (2, 4))
    with pytest.raises(UserError, match="names layer 5"):
        Transformer.layer_map("1,5", student, TEACHER)
    with pytest.raises(UserError, match="names layer 5"):
        build("bert").initialise("1,5", lambda: small_model("bert"), TOKENIZER)
