from dataclasses import replace

import pytest
import torch

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


@pytest.mark.parametrize("name", ["hid_cls", "hid_seq"])
def test_transformation_starts_as_identity_or_orthogonal(name: str) -> None:
    for weight in make(name).parameters():
        assert torch.equal(weight, torch.eye(8))
    widening = list(make(name, STUDENT_WIDTH_2, TEACHER_WIDTH_3).parameters())
    assert [tuple(weight.shape) for weight in widening] == [(3, 2), (3, 2)]
    for weight in widening:
        torch.testing.assert_close(weight.T @ weight, torch.eye(2), rtol=0, atol=1e-6)
