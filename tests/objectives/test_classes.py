import math
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor

from harness.contracts import Outputs, Task
from harness.registry import OBJECTIVES
from harness.testing.objective_cases import CLASSES, SCORES, STUDENT, TEACHER, make, make_batch
from tests.objectives.second import dot, kl, mean, minus, softmax, unit

OURS = [[0.5, -1.0, 2.0], [1.5, 0.25, -0.5], [-0.75, 1.25, 0.1]]
THEIRS = [[2.0, 0.0, 1.0], [-1.0, 3.0, 0.5], [0.3, 0.4, -2.0]]
LABELS = [2, 1, 0]
OF_CLASSES = ["reverse_kl", "jensen_shannon", "hard_labels", "dkd", "dist"]
TWO = Task("two", "Two", "accuracy", ("accuracy",), labels=("a", "b"))


def loss(name: str, student: Any, teacher: Any, labels: Any = LABELS, **settings: Any) -> Tensor:
    logits = [torch.as_tensor(z, dtype=torch.float64) for z in (student, teacher)]
    batch = make_batch(torch.as_tensor(labels), lengths=(1,) * len(labels))
    return make(name, **settings)(*(Outputs(logits=z) for z in logits), batch)


def softened(rows: list[list[float]], temperature: float) -> list[list[float]]:
    return [softmax([z / temperature for z in row]) for row in rows]


@pytest.mark.parametrize("temperature", [1.0, 2.0, 7.5])
class TestFormulas:
    def test_reverse_kl(self, temperature: float) -> None:
        sides = zip(softened(OURS, temperature), softened(THEIRS, temperature), strict=True)
        expected = temperature**2 * mean([kl(p, q) for p, q in sides])
        assert loss("reverse_kl", OURS, THEIRS, temperature=temperature).item() == pytest.approx(expected, rel=1e-12)

    def test_jensen_shannon(self, temperature: float) -> None:
        found = []
        for p, q in zip(softened(OURS, temperature), softened(THEIRS, temperature), strict=True):
            middle = [(a + b) / 2 for a, b in zip(p, q, strict=True)]
            found.append((kl(p, middle) + kl(q, middle)) / 2)
        expected = temperature**2 * mean(found)
        assert loss("jensen_shannon", OURS, THEIRS, temperature=temperature).item() == pytest.approx(
            expected, rel=1e-12
        )

    @pytest.mark.parametrize(("target", "others"), [(1.0, 8.0), (0.5, 0.0)])
    def test_dkd(self, temperature: float, target: float, others: float) -> None:
        found = []
        sides = zip(softened(OURS, temperature), softened(THEIRS, temperature), LABELS, strict=True)
        for ours, theirs, label in sides:
            binary = [[p[label], 1 - p[label]] for p in (theirs, ours)]
            among = [[x / (1 - p[label]) for c, x in enumerate(p) if c != label] for p in (theirs, ours)]
            found.append(target * kl(*binary) + others * kl(*among))
        settings = {"temperature": temperature, "target_weight": target, "others_weight": others}
        expected = temperature**2 * mean(found)
        assert loss("dkd", OURS, THEIRS, **settings).item() == pytest.approx(expected, rel=1e-12)

    def test_dist(self, temperature: float) -> None:
        def pearson(x: list[float], y: list[float]) -> float:
            return dot(*(unit(minus(v, [mean(v)] * len(v))) for v in (x, y)))

        ours, theirs = softened(OURS, temperature), softened(THEIRS, temperature)
        inter = 1 - mean([pearson(p, q) for p, q in zip(ours, theirs, strict=True)])
        by_class = zip(map(list, zip(*ours, strict=True)), map(list, zip(*theirs, strict=True)), strict=True)
        intra = 1 - mean([pearson(p, q) for p, q in by_class])
        found = loss("dist", OURS, THEIRS, temperature=temperature, inter_weight=0.5, intra_weight=3.0)
        assert found.item() == pytest.approx(temperature**2 * (0.5 * inter + 3.0 * intra), rel=1e-12)


def test_hard_labels_is_the_likelihood_of_the_teachers_class() -> None:
    expected = -mean([math.log(softmax(row)[theirs]) for row, theirs in zip(OURS, (0, 1, 1), strict=True)])
    assert loss("hard_labels", OURS, THEIRS).item() == pytest.approx(expected, rel=1e-12)


def test_dist_of_opposite_rows_and_of_a_batch_of_one() -> None:
    """In which no class varies: 1 - (-1), and 1 - 0."""
    assert loss("dist", [[1.0, 0.0]], [[0.0, 1.0]], [0]).item() == pytest.approx(2 + 1)


def test_decoupled_kd_is_kl_with_the_weight_that_couples_it() -> None:
    """Zhao et al. (2022), Eq. 6: of one example KL = TCKD + (1 - p_T of the label) NCKD."""
    coupled = 1 - softmax(THEIRS[0])[LABELS[0]]
    settings = {"temperature": 1.0, "others_weight": coupled}
    found = loss("dkd", OURS[:1], THEIRS[:1], LABELS[:1], **settings)
    assert found.item() == pytest.approx(kl(softmax(THEIRS[0]), softmax(OURS[0])), rel=1e-12)


@pytest.mark.parametrize(("name", "setting"), [("dkd", "others_weight"), ("dist", "inter_weight")])
def test_what_two_classes_leave_idle_has_no_gradient(name: str, setting: str) -> None:
    assert OBJECTIVES.get(name).idle(TWO) == {setting} and OBJECTIVES.get(name).idle(CLASSES) == frozenset()
    others = {h: 0.0 for h in OBJECTIVES.get(name).hyperparameters if h.endswith("_weight") and h != setting}
    logits = torch.randn(4, 2, dtype=torch.float64, requires_grad=True)
    loss(name, logits, torch.randn(4, 2), [0, 1, 1, 0], **others, **{setting: 1.0}).backward()
    assert logits.grad is not None and logits.grad.abs().max() < 1e-12


@pytest.mark.parametrize("name", OF_CLASSES)
def test_scores_and_other_numbers_of_classes_are_refused(name: str) -> None:
    refuse = OBJECTIVES.get(name).refuse
    assert refuse(STUDENT, TEACHER, CLASSES) == ""
    assert "has scores; logit_mse" in refuse(replace(STUDENT, labels=1), replace(TEACHER, labels=1), SCORES)
    assert "student has 3" in refuse(STUDENT, replace(TEACHER, labels=2), CLASSES)


@pytest.mark.parametrize("name", OF_CLASSES)
def test_large_logits_give_finite_losses_and_gradients(name: str) -> None:
    student = torch.tensor([[900.0, -900.0, 0.0], [5.0, 5.0, 5.0]], requires_grad=True)
    teacher = torch.tensor([[-900.0, 900.0, 0.0], [0.0, 1.0, 2.0]])
    found = make(name)(Outputs(logits=student), Outputs(logits=teacher), make_batch(lengths=(1, 1)))
    found.backward()
    assert found.isfinite() and student.grad is not None and student.grad.isfinite().all()
