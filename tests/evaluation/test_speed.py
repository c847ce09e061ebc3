"""Interleaved timing with a clock of our own; encoding runs what it should and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from harness.contracts import Batch, Outputs, Want
from harness.evaluation import speed
from harness.evaluation.parameters import build_student
from harness.modeling.bases import Student, StudentConfig
from tests.small_models import FAMILIES, small_config, small_model


class Machine:
    """Clocks that calls advance: `now` by the work done, `waited` by what other processes take in between."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch):
        self.now = self.waited = 0.0
        self.called: list[str] = []
        monkeypatch.setattr(speed.time, "process_time", lambda: self.now)
        monkeypatch.setattr(speed.time, "perf_counter", lambda: self.now + self.waited)

    def call(self, name: str, seconds: float) -> Callable[[], None]:
        def work() -> None:
            self.called.append(name)
            self.now += seconds
            self.waited += 2 * seconds

        return work


@pytest.fixture
def machine(monkeypatch: pytest.MonkeyPatch) -> Machine:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    return Machine(monkeypatch)


class TestCompare:
    def test_turns_rotate_after_a_warm_up(self, machine: Machine) -> None:
        seconds = speed.compare({name: machine.call(name, 1.0) for name in "abc"}, rounds=4)
        assert "".join(machine.called) == "abc" + "abc" + "bca" + "cab" + "abc"
        assert seconds == {name: [1.0] * 4 for name in "abc"}

    def test_a_fast_model_is_called_often_and_told_per_call(self, machine: Machine) -> None:
        seconds = speed.compare({"slow": machine.call("slow", 2.0), "fast": machine.call("fast", 2**-6)}, rounds=1)
        calls = int(speed.TURN_SECONDS * 2**6)
        assert machine.called.count("fast") == 2 + calls and machine.called.count("slow") == 2
        assert seconds == {"slow": [2.0], "fast": [2**-6]}

    @pytest.mark.parametrize(("threads", "expected"), [(1, 1.0), (2, 3.0)])
    def test_one_thread_does_not_pay_for_others(
        self, threads: int, expected: float, machine: Machine, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(torch, "get_num_threads", lambda: threads)
        assert speed.compare({"a": machine.call("a", 1.0)}, rounds=1) == {"a": [expected]}

    def test_what_takes_no_time_ends(self, machine: Machine) -> None:
        assert speed.compare({"nothing": machine.call("nothing", 0.0)}, rounds=1) == {"nothing": [0.0]}


@given(st.lists(st.tuples(*[st.floats(1e-3, 1e3)] * 3), min_size=1, max_size=7))
def test_ratio_does_not_depend_on_the_load_of_a_round(rounds: list[tuple[float, float, float]]) -> None:
    model, reference, load = zip(*rounds, strict=True)
    loaded = [[s * x for s, x in zip(part, load, strict=True)] for part in (model, reference)]
    assert speed.ratio(*loaded) == pytest.approx(speed.ratio(model, reference))


def test_ratio_is_the_median_of_ratios_not_a_ratio_of_medians() -> None:
    assert speed.ratio([1, 2, 3], [10, 4, 9]) == 3  # of 10, 2 and 3; the medians are 2 and 9


class ResolvedRequest(Student):
    """Tells what it was asked for."""

    def __init__(self, config: StudentConfig):
        super().__init__(config)
        self.table = torch.nn.Embedding(40, 3)
        self.seen: list[tuple[Batch, Want, bool, bool]] = []
        self.post_init()

    def forward(self, batch: Batch, want: Want) -> Outputs:
        self.seen.append((batch, want, torch.is_grad_enabled(), self.training))
        return Outputs(sentence=self.table(batch.encodings[0]["input_ids"]).sum(1))


class TestEncode:
    def test_a_student_is_asked_for_the_sentence_alone(self) -> None:
        model = ResolvedRequest(StudentConfig())
        ids = torch.randint(40, (5, 7))
        assert speed.encode(model, ids).shape == (5, 3)
        batch, want, gradients, _ = model.seen[0]
        assert want == Want(sentence=True) and not gradients
        assert len(batch.encodings) == 1 and torch.equal(batch.encodings[0]["input_ids"], ids)
        assert batch.mask.all() and batch.mask.shape == (5, 7)

    @pytest.mark.parametrize("family", FAMILIES)
    def test_of_another_model_the_encoder_alone_runs(self, family: str) -> None:
        model = small_model(family)
        ids = torch.randint(5, 40, (3, 6))
        expected = model.base_model(input_ids=ids, attention_mask=torch.ones_like(ids)).last_hidden_state

        def refuse(*_: Any) -> None:
            raise AssertionError("the classifier ran")

        model.classifier.register_forward_pre_hook(refuse)
        states = speed.encode(model, ids)
        torch.testing.assert_close(states, expected)
        assert not states.requires_grad

    def test_a_registered_student(self) -> None:
        student = build_student("transformer", {"layers": 1}, small_config("bert").to_dict(), 2).eval()
        assert speed.encode(student, torch.randint(40, (3, 6))).shape == (3, 32)


def test_random_batches_differ_and_come_again() -> None:
    first, again = (speed.random_batches(40, 6, 5, torch.device("cpu")) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, again, strict=True))
    assert not torch.equal(first[0], first[1]) and first[0].shape == (6, 5)
    assert {int(i) for ids in first for i in ids.flatten()} == set(range(40))


def test_over_goes_round() -> None:
    seen: list[int] = []
    call = speed.over(lambda ids: seen.append(int(ids)), [torch.tensor(i) for i in range(3)])
    for _ in range(5):
        call()
    assert seen == [0, 1, 2, 0, 1]


class TestMeasure:
    def test_the_numbers(self, machine: Machine) -> None:
        """Of a model of 2 s beside one of 6 s."""

        class Slow(ResolvedRequest):
            def forward(self, batch: Batch, want: Want) -> Outputs:
                machine.now += self.config.outputs
                return super().forward(batch, want)

        model, reference = Slow(StudentConfig(outputs=2)), Slow(StudentConfig(outputs=6))
        model.train()
        found = speed.measure(model, reference, vocabulary=40, batch=10, length=3, rounds=2)
        assert found == {"sentences_per_second": 5.0, "speed_ratio": 3.0}
        assert not any(training for *_, training in model.seen + reference.seen)
