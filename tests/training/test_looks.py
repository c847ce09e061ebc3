"""What a plugin gives that cannot be trained by: the run fails with a sentence on the plugin and the rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import mse_loss

from harness import combine
from harness.contracts import LayerMap, Outputs, Signal
from harness.modeling.bases import Objective
from harness.registry import OBJECTIVES, objective
from harness.testing.objective_cases import LAYERS, STUDENT, TEACHER, make_batch, make_outputs
from harness.training.failures import TrainingFailure
from harness.training.looks import Unsaved, check_outputs, reaches
from harness.training.sums import Sum, check_parameters, check_reached, check_trains, why

Register = Callable[[Callable[[Outputs], Any]], str]


@pytest.fixture
def register(monkeypatch: pytest.MonkeyPatch) -> Iterator[Register]:
    """register(f) makes an objective of f(student), for the time of a test; its name."""
    OBJECTIVES.names()
    monkeypatch.setattr(OBJECTIVES, "_found", dict(OBJECTIVES._found))

    def registered(loss: Callable[[Outputs], Any]) -> str:
        @objective("looked_at", needs={Signal.LOGITS})
        def looked_at(student: Outputs, teacher: Outputs, batch: Any) -> Any:
            return loss(student)

        return "looked_at"

    yield registered


def outputs(expression: str) -> tuple[Sum, Outputs, Outputs, Any]:
    """(the sum, what its student and its teacher give on a batch, the batch)."""
    made, batch = Sum(combine.parse(expression), STUDENT, TEACHER, LAYERS, {}), make_batch()
    ours, theirs = made.wants()
    student = make_outputs(STUDENT, ours, batch, 0, requires_grad=True)
    return made, student, make_outputs(TEACHER, theirs, batch, 1), batch


@pytest.mark.parametrize(
    ("change", "what"),
    [
        (lambda ours, theirs, batch: theirs.logits.div_(8), "the teacher's logits"),
        (lambda ours, theirs, batch: setattr(theirs, "logits", theirs.logits / 8), "the teacher's logits"),
        (lambda ours, theirs, batch: setattr(ours, "sentence", ours.logits * 2), "the student's sentence"),
        (lambda ours, theirs, batch: batch.labels.fill_(0), "the batch's labels"),
        (lambda ours, theirs, batch: batch.encodings[0]["attention_mask"].zero_(), "the batch's attention_mask"),
    ],
)
def test_an_objective_that_changes_what_others_read(
    register: Register, change: Callable[[Outputs, Outputs, Any], Any], what: str
) -> None:
    changes = False

    def loss(ours: Outputs) -> Tensor:
        if changes:
            change(ours, teacher, batch)
        return ours.logits.sum()

    made, student, teacher, batch = outputs(f"{register(loss)}+vanilla_kd")
    made(student, teacher, batch)  # and nothing is said of who changes nothing
    changes = True
    with pytest.raises(TrainingFailure, match=f"changes {what}, which other terms of a sum also read"):
        made(student, teacher, batch)


@pytest.mark.parametrize(
    ("loss", "said"),
    [
        (lambda student: None, "returned None, but must return its loss: a tensor of one floating-point number"),
        (lambda student: 0.5, "returned a float, but must return"),
        (lambda student: student.logits.mean(1), r"returned a tensor of shape \(6,\), but must return"),
        (lambda student: student.logits.argmax(1).sum(), "returned a tensor of int64, but must return"),
        (lambda student: student.logit.sum(), "failed: AttributeError: .*it declares and is given: logits"),
        (lambda student: mse_loss(student.logits[:, :1], torch.zeros(6)), "failed: UserWarning: Using a target size"),
        (lambda student: student.hidden_states[1].sum(), "failed: KeyError: 1 .*given: logits"),
    ],
)
def test_a_loss_that_is_none(register: Register, loss: Callable[[Outputs], Any], said: str) -> None:
    made, *given = outputs(register(loss))
    with pytest.raises(TrainingFailure, match=rf"objective 'looked_at' in .*test_looks\.py {said}"):
        made(*given)


def test_what_passes_through(register: Register) -> None:
    """A loss of shape (1,), and an overflow, which is no fault of the plugin's code."""
    made, *given = outputs(register(lambda student: student.logits.mean().reshape(1)))
    assert made(*given)[0].shape == (1,)

    def overflows(student: Outputs) -> Tensor:
        raise FloatingPointError("too large")

    OBJECTIVES._found.pop("looked_at")
    made, *given = outputs(register(overflows))
    with pytest.raises(FloatingPointError, match="too large"):
        made(*given)


def test_a_term_that_never_depends_on_the_student_is_named(register: Register) -> None:
    made, *given = outputs(f"att_mse+{register(lambda student: student.logits.detach().square().mean())}")
    for _ in range(2):
        check_trains(made(*given)[0], made(*given)[1])
    with pytest.raises(TrainingFailure, match=r"objective 'looked_at' in .* trains nothing: in no batch .*\(logits\)"):
        check_reached(made)


def test_a_term_may_be_constant_for_some_batches(register: Register) -> None:
    calls: list[int] = []

    def sometimes(student: Outputs) -> Tensor:
        calls.append(1)
        return student.logits.mean() if len(calls) == 2 else torch.zeros(())

    made, *given = outputs(f"att_mse+{register(sometimes)}")
    for _ in range(3):
        made(*given)
    check_reached(made)


def test_a_loss_without_any_gradient_is_no_loss(register: Register) -> None:
    made, *given = outputs(register(lambda student: student.logits.detach().mean()))
    with pytest.raises(TrainingFailure, match="the loss of looked_at depends on no trained weight"):
        check_trains(*made(*given))


def test_a_parameter_that_the_optimiser_does_not_have_is_told(register: Register) -> None:
    """As in a list, or made in forward."""
    found, lost = nn.Linear(3, 2), nn.Linear(2, 5)
    name = register(lambda student: lost(found(student.logits)).mean())
    made, *given = outputs(f"att_mse+{name}")
    parts = made(*given)[1]
    check_parameters(parts, [*found.parameters(), *lost.parameters()])
    with pytest.raises(TrainingFailure, match=rf"the loss of {name} depends on a parameter of shape \(5,"):
        check_parameters(parts, found.parameters())


def test_every_objective_reaches_what_its_student_gives() -> None:
    for name in ("att_mse", "hid_cls", "vanilla_kd", "att_kl+hid_seq", "rkd_distance+rkd_angle"):
        made, *given = outputs(name)
        made(*given)
        check_reached(made)


def test_a_gradient_is_found_without_being_computed() -> None:
    one, other = torch.ones(2, requires_grad=True), torch.ones(2, requires_grad=True)
    signal = one * 2
    assert reaches((signal + other).sum(), [signal]) and reaches((one * other).sum(), [other])
    assert not reaches((one * other).sum(), [signal]) and not reaches(torch.ones(()), [signal])
    assert one.grad is None


@pytest.mark.parametrize(
    ("signal", "of", "said"),
    [
        ("logits", lambda found: found[:, 0], r"gives logits of shape \(6,\), but for 6 examples it must be \(6, 3\)"),
        ("logits", lambda found: found.repeat(1, 2), r"gives logits of shape \(6, 6\)"),
        ("logits", lambda found: found[:5], r"gives logits of shape \(5, 3\)"),
        ("sentence", lambda found: found.unsqueeze(1).unsqueeze(1), r"gives sentence of shape \(6, 1, 1, 8\)"),
        ("hidden_states", lambda found: {min(found): found[min(found)]}, "does not give hidden_states of layer [24]"),
        ("hidden_states", lambda found: {n: one[0] for n, one in found.items()}, ".* of layer . of shape"),
        ("hidden_states", lambda found: {n: one[..., 1:] for n, one in found.items()}, r".* must be \(6, tokens, 8\)"),
        ("attention_scores", lambda found: {n: one[:, 1:] for n, one in found.items()}, r".* \(6, 2, tokens, tokens\)"),
        ("mlm_logits", lambda found: found[:, 1:], r".* must be \(tokens to predict, 11\)"),
    ],
)
@pytest.mark.parametrize("who", ["student", "teacher"])
def test_signals_of_another_shape(who: str, signal: str, of: Callable[[Any], Any], said: str) -> None:
    terms = {"logits": "vanilla_kd", "sentence": "rkd_distance", "hidden_states": "hid_seq"}
    terms |= {"attention_scores": "att_mse", "mlm_logits": "mlm_kd"}
    made, student, teacher, batch = outputs(terms[signal])
    changed = student if who == "student" else teacher
    setattr(changed, signal, of(getattr(changed, signal)))
    with pytest.raises(TrainingFailure, match=f"{who} {who} {said}"):
        made(student, teacher, batch)


def test_a_signal_that_is_missing() -> None:
    made, student, teacher, batch = outputs("vanilla_kd")
    student.logits = None  # type: ignore[assignment]
    with pytest.raises(TrainingFailure, match="student student does not give logits, though it says that it emits"):
        made(student, teacher, batch)


@pytest.mark.parametrize("who", ["student", "teacher"])
def test_who_gives_what_is_not_a_number_is_told(who: str) -> None:
    made, student, teacher, batch = outputs("vanilla_kd")
    bad = student if who == "student" else teacher
    bad.logits = bad.logits * float("nan")
    made(student, teacher, batch)
    assert why(made) == f": {who} {who} gives logits that are not numbers"
    sound, *given = outputs("vanilla_kd")
    sound(*given)
    assert why(sound) == ""


def test_a_model_gives_outputs_of_tensors() -> None:
    check_outputs(torch.nn.Linear(1, 1), Outputs(logits=torch.ones(2)))
    with pytest.raises(TrainingFailure, match=r"model Linear: forward returned None, but must return Outputs\(...\)"):
        check_outputs(torch.nn.Linear(1, 1), None)
    wrong: Any = [1]
    with pytest.raises(TrainingFailure, match="forward gives logits as a list, but must give a tensor"):
        check_outputs(torch.nn.Linear(1, 1), Outputs(logits=wrong))


@pytest.mark.usefixtures("register")
@pytest.mark.parametrize("make", [lambda: nn.Linear(1, 1), lambda: nn.Parameter(torch.ones(1)), lambda: 2.0])
def test_an_objective_that_forgets_the_init_of_its_base(make: Callable[[], Any]) -> None:
    @objective("forgetful", needs={Signal.LOGITS})
    class Forgetful(Objective):
        def __init__(self, student: Any, teacher: Any, layers: Any) -> None:
            self.held = make()

        def forward(self, student: Outputs, teacher: Outputs, batch: Any) -> Tensor:
            return student.logits.sum()

    told = r"'forgetful' in .*: its __init__ must begin with super\(\).__init__\(student, teacher, layers\)"
    with pytest.raises(TrainingFailure, match=told):
        outputs("forgetful")


@pytest.mark.usefixtures("register")
def test_an_objective_whose_own_init_fails_says_how() -> None:
    @objective("misspelt", needs={Signal.LOGITS})
    class Misspelt(Objective):
        def __init__(self, student: Any, teacher: Any, layers: Any) -> None:
            super().__init__(student, teacher, layers)
            self.width = student.widht

        def forward(self, student: Outputs, teacher: Outputs, batch: Any) -> Tensor:
            return student.logits.sum()

    with pytest.raises(AttributeError, match="widht"):
        outputs("misspelt")


def test_one_that_is_fine_tuned_has_no_teacher() -> None:
    made, student, _, batch = outputs("labels_only")
    made = Sum(combine.parse("labels_only"), STUDENT, STUDENT, LayerMap(()), {})
    assert torch.isfinite(made(student, Outputs(), batch)[0])


def test_what_modules_of_one_class_hold_is_told_apart() -> None:
    class Counted(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.asked = 0

    pair, told = nn.ModuleList([Counted(), Counted()]), list[dict[str, Any]]()
    for part in pair:
        unsaved = Unsaved(told.append, pair)
        assert not unsaved.any()
        part.asked += 1
        assert unsaved.any() and unsaved.any()
    assert [one["note"].partition(",")[0] for one in told] == ["training changes Counted.asked"] * 2
