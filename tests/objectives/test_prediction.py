import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.contracts import Batch, Outputs, Want
from harness.registry import OBJECTIVES
from harness.testing.objective_cases import CLASSES, LAYERS, SCORES, STUDENT, TEACHER, make, make_batch
from tests.objectives.second import softmax


def loss(name: str, student: Tensor, teacher: Tensor, labels: Tensor, **settings: Any) -> Tensor:
    batch = make_batch(labels, lengths=(1,) * len(labels))
    return make(name, **settings)(Outputs(logits=student), Outputs(logits=teacher), batch)


OURS = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.5]]
THEIRS = [[2.0, 0.0, 1.0], [-1.0, 3.0, 0.5]]
LABELS = torch.tensor([2, 1])
Z_S = torch.tensor(OURS, dtype=torch.float64)
Z_T = torch.tensor(THEIRS, dtype=torch.float64)


def test_labels_only_is_cross_entropy_for_classes() -> None:
    # two classes with equal logits: log 2; logit ahead by log 3: log(4 / 3)
    logits = torch.tensor([[1.0, 1.0], [0.0, math.log(3)]])
    expected = (math.log(2) + math.log(4 / 3)) / 2
    assert loss("labels_only", logits, logits, torch.tensor([0, 1])).item() == pytest.approx(expected)


def test_labels_only_is_squared_error_for_scores() -> None:
    logits = torch.tensor([[1.0], [4.0]])
    assert loss("labels_only", logits, logits, torch.tensor([2.0, 1.0])).item() == pytest.approx((1 + 9) / 2)


def test_labels_only_never_runs_the_teacher() -> None:
    assert OBJECTIVES.get("labels_only").wants(STUDENT, TEACHER, LAYERS) == (Want(logits=True), Want())
    batch = Batch(torch.arange(2), LABELS, make_batch().encodings)
    assert make("labels_only")(Outputs(logits=Z_S), Outputs(), batch).isfinite()


@pytest.mark.parametrize("temperature", [1.0, 2.0, 7.5])
@pytest.mark.parametrize("weight", [0.0, 0.3, 1.0])
def test_vanilla_kd_is_its_formula(temperature: float, weight: float) -> None:
    total = 0.0
    for ours, theirs, label in zip(OURS, THEIRS, LABELS.tolist(), strict=True):
        p_t = softmax([z / temperature for z in theirs])
        p_s = softmax([z / temperature for z in ours])
        soft = -sum(p * math.log(q) for p, q in zip(p_t, p_s, strict=True))
        total += weight * temperature**2 * soft - (1 - weight) * math.log(softmax(ours)[label])
    found = loss("vanilla_kd", Z_S, Z_T, LABELS, temperature=temperature, soft_weight=weight)
    assert found.item() == pytest.approx(total / 2, rel=1e-12)


def test_vanilla_kd_defaults_are_temperature_2_and_equal_weights() -> None:
    settings = {"temperature": 2.0, "soft_weight": 0.5}
    assert loss("vanilla_kd", Z_S, Z_T, LABELS) == loss("vanilla_kd", Z_S, Z_T, LABELS, **settings)


def soft_gradient(student: Tensor, teacher: Tensor, temperature: float) -> Tensor:
    student = student.clone().requires_grad_()
    loss("vanilla_kd", student, teacher, LABELS, temperature=temperature, soft_weight=1.0).backward()
    assert student.grad is not None
    return student.grad


def test_vanilla_kd_temperature_squared_keeps_the_gradients_size() -> None:
    """Hinton et al. (2015), Eq. 4: T^2 dC/dz tends to (z_S - z_T) / classes, both centred, as T grows."""
    centred = (Z_S - Z_S.mean(-1, keepdim=True)) - (Z_T - Z_T.mean(-1, keepdim=True))
    limit = centred / 3 / 2  # three classes, mean over two examples
    torch.testing.assert_close(soft_gradient(Z_S, Z_T, 1e4), limit, rtol=1e-3, atol=0)
    sizes = [soft_gradient(Z_S / 10, Z_T / 10, t).norm().item() for t in (1.0, 2.0, 5.0, 10.0)]
    assert max(sizes) / min(sizes) < 1.1  # without the square: 100


def test_vanilla_kd_at_temperature_1_is_least_at_the_mixture_of_teacher_and_labels() -> None:
    mixture = 0.5 * Z_T.softmax(-1) + 0.5 * torch.eye(3, dtype=torch.float64)[LABELS]
    logits = mixture.log().requires_grad_()
    loss("vanilla_kd", logits, Z_T, LABELS, temperature=1.0, soft_weight=0.5).backward()
    assert logits.grad is not None and logits.grad.abs().max() < 1e-12


def test_vanilla_kd_for_scores_is_squared_error_and_has_no_temperature() -> None:
    student, teacher, labels = torch.tensor([[1.0], [4.0]]), torch.tensor([[3.0], [4.5]]), torch.tensor([2.0, 1.0])
    expected = 0.25 * (4 + 0.25) / 2 + 0.75 * (1 + 9) / 2
    for temperature in (1.0, 10.0):
        found = loss("vanilla_kd", student, teacher, labels, soft_weight=0.25, temperature=temperature)
        assert found.item() == pytest.approx(expected)


def test_logit_mse_is_the_mean_over_examples_and_classes() -> None:
    expected = (1.5**2 + 1 + 1 + 2.5**2 + 2.75**2 + 1) / 6
    assert loss("logit_mse", Z_S, Z_T, LABELS).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["vanilla_kd", "logit_mse"])
def test_logits_of_different_widths_are_refused(name: str) -> None:
    refuse = OBJECTIVES.get(name).refuse
    assert refuse(STUDENT, TEACHER, CLASSES) == ""
    reason = refuse(STUDENT, replace(TEACHER, labels=2), CLASSES)
    assert "student has 3" in reason and "teacher has 2" in reason
    assert refuse(replace(STUDENT, labels=1), replace(TEACHER, labels=1), SCORES) == ""


# ---------------------------------------------------------------- candidates that are ranked

# question 7 has one right candidate and two wrong ones, 3 two right and one wrong; the others have no rivals
QUESTIONS = torch.tensor([7, 3, 7, 7, 3, 5, 5, 9, 2, 3])
ANSWERS = torch.tensor([1, 0, 0, 1, 1, 1, 1, 0, 1, 0])  # 0 is right
S = [0.5, -1.0, 2.0, 1.5, 0.25, -0.5, 0.75, -2.0, 1.25, 3.0]
T = [2.0, 0.0, 1.0, -1.0, 3.0, 0.5, -0.25, 1.75, -1.5, 0.1]
# each choice: its candidates, the right one first; None is a score of 0
CHOICES = [(2, 0, 3), (1, 4), (9, 4), (None, 5), (None, 6), (7, None), (None, 8)]


def ranked(name: str, scores: Tensor, teacher: Tensor, **settings: Any) -> Tensor:
    batch = replace(make_batch(ANSWERS, lengths=(1,) * len(S)), groups=QUESTIONS)
    return make(name, **settings)(Outputs(logits=scores.unsqueeze(1)), Outputs(logits=teacher.unsqueeze(1)), batch)


def chosen(scores: list[float], choice: tuple[int | None, ...], temperature: float = 1.0) -> list[float]:
    return softmax([0.0 if i is None else scores[i] / temperature for i in choice])


Q_S, Q_T = torch.tensor(S, dtype=torch.float64), torch.tensor(T, dtype=torch.float64)


def test_ranking_is_the_likelihood_of_the_right_candidate_among_those_of_its_question() -> None:
    expected = -sum(math.log(chosen(S, choice)[0]) for choice in CHOICES) / len(CHOICES)
    assert ranked("labels_only", Q_S, Q_T).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("temperature", [1.0, 4.0])
@pytest.mark.parametrize("weight", [0.3, 1.0])
def test_vanilla_kd_of_candidates_is_its_formula_over_each_choice(temperature: float, weight: float) -> None:
    total = 0.0
    for choice in CHOICES:
        p_t, p_s = chosen(T, choice, temperature), chosen(S, choice, temperature)
        soft = -sum(p * math.log(q) for p, q in zip(p_t, p_s, strict=True))
        total += weight * temperature**2 * soft - (1 - weight) * math.log(chosen(S, choice)[0])
    found = ranked("vanilla_kd", Q_S, Q_T, temperature=temperature, soft_weight=weight)
    assert found.item() == pytest.approx(total / len(CHOICES), rel=1e-12)


def test_logit_mse_of_candidates_is_that_of_their_scores() -> None:
    expected = sum((s - t) ** 2 for s, t in zip(S, T, strict=True)) / len(S)
    assert ranked("logit_mse", Q_S, Q_T).item() == pytest.approx(expected, rel=1e-12)


@pytest.mark.parametrize("name", ["labels_only", "vanilla_kd"])
def test_only_rivals_of_one_question_are_compared(name: str) -> None:
    """A shift of all scores of a question with rivals changes nothing; that of a candidate alone does."""
    whole = ranked(name, Q_S.float(), Q_T.float())
    for question, moves in ((7, False), (3, False), (5, True), (9, True)):
        shifted = (Q_S + 2.0 * torch.eq(QUESTIONS, question)).float().requires_grad_()
        loss_of = ranked(name, shifted, Q_T.float())
        assert (abs(loss_of.item() - whole.item()) > 1e-3) == moves, question
        loss_of.backward()
        assert shifted.grad is not None and shifted.grad.isfinite().all() and (shifted.grad != 0).all()
