"""Weights arrive where they should, unchanged; everything else stays; what does not fit is told before any change."""

import pytest
import torch
from torch import Tensor
from transformers import PreTrainedModel

from harness.errors import UserError
from harness.modeling import initialisation
from harness.modeling.initialisation import copy_layers, randomise
from tests.small_models import FAMILIES, small_model


def state(model: PreTrainedModel) -> dict[str, Tensor]:
    return {name: tensor.clone() for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("family", FAMILIES)
class TestFamilies:
    def test_the_teacher_is_left_alone(self, family: str) -> None:
        student, teacher = small_model(family, seed=1, layers=1), small_model(family, seed=2)
        before = state(teacher)
        copy_layers(student, teacher, (3,))
        with torch.no_grad():
            for parameter in student.parameters():
                parameter.zero_()
        assert all(torch.equal(tensor, before[name]) for name, tensor in teacher.state_dict().items())


def test_layers_built_alike_are_not_built_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A student that is to train starts from a teacher that is not: a mode is nothing that they compute with."""
    monkeypatch.setattr(initialisation, "blank", lambda model: pytest.fail("it takes as long as loading the teacher"))
    assert copy_layers(small_model("bert", seed=1).train(), small_model("bert"), (1, 2, 3, 4))


def test_another_kind() -> None:
    with pytest.raises(UserError, match="a bert student cannot take layers of a roberta teacher"):
        copy_layers(small_model("bert"), small_model("roberta"), (1,))


def test_number_of_layers() -> None:
    with pytest.raises(UserError, match="2 teacher layers were given for a student of 4"):
        copy_layers(small_model("bert"), small_model("bert"), (1, 2))


def test_another_width_names_the_weight_and_changes_nothing() -> None:
    student, teacher = small_model("bert", seed=1), small_model("bert", seed=2, width=16)
    before = state(student)
    with pytest.raises(UserError, match=r"layer.0.attention.self.query.weight of shape \(32, 32\) .* shape \(16, 16\)"):
        copy_layers(student, teacher, (1, 2, 3, 4))
    assert all(torch.equal(tensor, before[name]) for name, tensor in student.state_dict().items())


def test_another_vocabulary() -> None:
    with pytest.raises(UserError, match=r"embeddings.word_embeddings.weight of shape \(40, 32\) .* shape \(41, 32\)"):
        copy_layers(small_model("bert"), small_model("bert", vocabulary=41), ())


def test_weights_that_only_one_side_has() -> None:
    plain, odd = small_model("bert"), small_model("bert")
    odd.base_model.encoder.layer[1].register_parameter("gate", torch.nn.Parameter(torch.zeros(1)))
    with pytest.raises(UserError, match="the teacher's encoder.layer.1.gate has no counterpart"):
        copy_layers(plain, odd, (1, 2, 3, 4))
    with pytest.raises(UserError, match="the student's encoder.layer.1.gate cannot be initialised"):
        copy_layers(odd, plain, (1, 2, 3, 4))


def test_weights_that_are_drawn_anew_are_as_bert_starts() -> None:
    model, deviation = small_model("bert"), 0.5
    model.config.initializer_range = deviation
    with torch.no_grad():
        for weight in model.parameters():
            weight.fill_(7.0)
    torch.manual_seed(0)
    randomise(model)
    for name, weight in model.named_parameters():
        if weight.dim() == 1:
            assert (weight == float("LayerNorm.weight" in name)).all(), name
        else:
            assert weight.std().item() == pytest.approx(deviation, rel=0.25), name
            assert abs(weight.mean().item()) < deviation / 2, name
