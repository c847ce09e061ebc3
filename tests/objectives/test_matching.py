"""Losses that only match student to teacher are zero where both are equal, and nowhere near it."""

import pytest
import torch
from torch import Tensor

from harness.contracts import LayerMap, Outputs
from harness.registry import OBJECTIVES
from harness.testing.objective_cases import STUDENT, make, make_batch, make_outputs, tensors

MATCHING = [
    "logit_mse", "hid_cls", "hid_seq", "att_mse", "att_kl", "val_kl", "cosine", "pkd", "hid_cosine", "embedding_mse",
    "minilm", "minilmv2", "rkd_distance", "rkd_angle", "similarity_preserving", "nst", "fsp", "reverse_kl",
    "jensen_shannon", "dkd", "dist",
]  # fmt: skip
SAME_LAYERS = LayerMap(((1, 1), (2, 2)))


def moved(teacher: Outputs, seed: int, distance: float) -> tuple[Outputs, dict[tuple[str, int], Tensor]]:
    """A student at the teacher's outputs plus `distance` times a random step, and the step."""
    torch.manual_seed(seed)
    steps = {key: distance * torch.randn_like(tensor) for key, tensor in tensors(teacher).items()}
    student = Outputs()
    for (signal, layer), tensor in tensors(teacher).items():
        value = (tensor + steps[signal, layer]).requires_grad_()
        if layer < 0:
            setattr(student, signal, value)
        else:
            getattr(student, signal)[layer] = value
    return student, steps


@pytest.mark.parametrize("name", MATCHING)
@pytest.mark.parametrize("seed", range(5))
def test_least_where_student_equals_teacher_with_a_gradient_nearby(name: str, seed: int) -> None:
    objective, batch = make(name, STUDENT, STUDENT, SAME_LAYERS).double(), make_batch()
    want, _ = OBJECTIVES.get(name).wants(STUDENT, STUDENT, SAME_LAYERS)
    teacher = make_outputs(STUDENT, want, batch, 7, torch.float64)

    equal, _ = moved(teacher, seed, 0.0)
    least = objective(equal, teacher, batch)
    least.backward()
    assert least.item() == pytest.approx(0.0, abs=1e-12)
    assert all(t.grad is not None and t.grad.abs().max() < 1e-8 for t in tensors(equal).values())

    near, steps = moved(teacher, seed, 0.01)
    loss = objective(near, teacher, batch)
    loss.backward()
    slope = sum((t.grad * steps[key]).sum().item() for key, t in tensors(near).items() if t.grad is not None)
    assert loss.item() > 1e-8
    assert slope == pytest.approx(2 * loss.item(), rel=0.1)  # a bowl: the slope along the step is twice the height
