from dataclasses import replace

import pytest
import torch

from harness.contracts import LayerMap, Outputs
from harness.testing.objective_cases import LAYERS, STUDENT, TEACHER, make, make_batch, make_outputs

STUDENT_WIDTH_2 = replace(STUDENT, width=2)
TEACHER_WIDTH_3 = replace(TEACHER, width=3)


@pytest.mark.parametrize("name", ["hid_cls", "hid_seq"])
@pytest.mark.parametrize("width", [8, 12])
def test_is_its_formula_summed_over_mapped_layers(name: str, width: int) -> None:
    teacher_info = replace(TEACHER, width=width)
    objective, batch = make(name, teacher=teacher_info).double(), make_batch()
    want_student, want_teacher = objective.wants(STUDENT, teacher_info, LAYERS)
    student = make_outputs(STUDENT, want_student, batch, 1, torch.float64)
    teacher = make_outputs(teacher_info, want_teacher, batch, 2, torch.float64)
    expected = 0.0
    for (ours, theirs), weight in zip(LAYERS.pairs, objective.parameters(), strict=True):
        errors = []
        for example in range(len(batch.ids)):
            for token in range(int(batch.mask[example].sum()) if name == "hid_seq" else 1):
                state = student.hidden_states[ours][example, token]
                target = teacher.hidden_states[theirs][example, token]
                for column in range(width):
                    transformed = sum(state[row].item() * weight[column, row].item() for row in range(8))
                    errors.append((transformed - target[column].item()) ** 2)
        expected += sum(errors) / len(errors)
    assert objective(student, teacher, batch).item() == pytest.approx(expected, rel=1e-12)


def test_hid_cls_by_hand() -> None:
    student = Outputs(hidden_states={1: torch.tensor([[[1.0, 2.0], [9.0, 9.0]]])})
    teacher = Outputs(hidden_states={3: torch.tensor([[[0.0, 5.0], [0.0, 0.0]]])})
    objective = make("hid_cls", STUDENT_WIDTH_2, replace(TEACHER, width=2), LayerMap(((1, 3),)))
    assert objective(student, teacher, make_batch(lengths=(2,))).item() == pytest.approx((1 + 9) / 2)


def test_hid_seq_counts_real_tokens_equally_whatever_their_sentence() -> None:
    """Sentences of 1 and 3 tokens: each token weighs a quarter, not each sentence a half."""
    student = Outputs(hidden_states={1: torch.zeros(2, 3, 2)})
    target = torch.zeros(2, 3, 2)
    target[0, 0], target[0, 1:] = 2.0, 100.0  # one real token, two padded ones
    objective = make("hid_seq", STUDENT_WIDTH_2, replace(TEACHER, width=2), LayerMap(((1, 3),)))
    found = objective(student, Outputs(hidden_states={3: target}), make_batch(lengths=(1, 3)))
    assert found.item() == pytest.approx(4 / 4)


@pytest.mark.parametrize("name", ["hid_cls", "hid_seq"])
def test_transformation_starts_as_identity_or_orthogonal(name: str) -> None:
    for weight in make(name).parameters():
        assert torch.equal(weight, torch.eye(8))
    widening = list(make(name, STUDENT_WIDTH_2, TEACHER_WIDTH_3).parameters())
    assert [tuple(weight.shape) for weight in widening] == [(3, 2), (3, 2)]
    for weight in widening:
        torch.testing.assert_close(weight.T @ weight, torch.eye(2), rtol=0, atol=1e-6)
