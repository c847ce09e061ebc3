"""The conformance suite takes in a plugin file unseen, passes a right one and catches each kind of wrong one."""

import re
import subprocess
from pathlib import Path

from tests import launching
from tests.conftest import EMPTY_STUDY


def conformance(*words: str, cwd: Path) -> subprocess.CompletedProcess[str]:
    return launching.conformance(*words, folder=cwd / "said", cwd=cwd)


PLUGINS = """
from torch import nn

from harness.contracts import Hyperparameter, Signal
from harness.modeling.bases import Objective
from harness.registry import objective


@objective("outside_right", needs={Signal.LOGITS}, hyperparameters={"power": Hyperparameter(2.0, low=1.0, high=4.0)})
def right(student, teacher, batch, *, power):
    return (student.logits - teacher.logits.detach()).abs().pow(power).mean()


@objective("outside_teacher_gradient", needs={Signal.LOGITS})
def teacher_gradient(student, teacher, batch):
    return (student.logits - teacher.logits).square().mean()


@objective("outside_padding", needs={Signal.HIDDEN_STATES}, token_level=True)
def padding(student, teacher, batch, *, layers):
    return sum(student.hidden_states[s].square().mean() for s in layers.student_layers)


@objective("outside_dead_setting", needs={Signal.LOGITS}, hyperparameters={"dead": Hyperparameter(1.0, low=0.0)})
def dead_setting(student, teacher, batch, *, dead):
    return student.logits.square().mean()


@objective("outside_vector", needs={Signal.LOGITS})
def vector(student, teacher, batch):
    return student.logits.square().mean(-1)


@objective("outside_in_place", needs={Signal.LOGITS})
def in_place(student, teacher, batch):
    return (student.logits - teacher.logits.detach().mul_(2)).square().mean()


@objective("outside_no_student", needs={Signal.LOGITS})
def no_student(student, teacher, batch):
    return (student.logits.detach().requires_grad_() - teacher.logits.detach()).square().mean()


@objective("outside_idle_parameter", needs={Signal.LOGITS})
class IdleParameter(Objective):
    def __init__(self, student, teacher, layers):
        super().__init__(student, teacher, layers)
        self.idle = nn.Linear(2, 2)

    def forward(self, student, teacher, batch):
        return student.logits.square().mean()


@objective("outside_hidden_state", needs={Signal.LOGITS})
class HiddenState(Objective):
    def __init__(self, student, teacher, layers):
        super().__init__(student, teacher, layers)
        self.steps = 0  # neither a parameter nor a buffer: lost with the process

    def forward(self, student, teacher, batch):
        self.steps += 1
        return student.logits.square().mean() * self.steps


@objective("outside_never", needs={Signal.LOGITS})
class Never(Objective):
    @classmethod
    def refuse(cls, student, teacher, task):
        return "no"

    def forward(self, student, teacher, batch):
        return student.logits.square().mean()
"""

EXPECTED = {
    "outside_teacher_gradient": "test_gradient_reaches_the_student_and_never_the_teacher",
    "outside_padding": "test_more_padding_changes_nothing",
    "outside_dead_setting": "test_every_hyperparameter_changes_the_loss",
    "outside_vector": "test_loss_is_a_finite_scalar",
    "outside_in_place": "test_leaves_what_it_is_given_unchanged",
    "outside_no_student": "test_gradient_reaches_the_student_and_never_the_teacher",
    "outside_idle_parameter": "test_own_parameters_receive_a_gradient",
    "outside_hidden_state": "test_state_goes_through_a_checkpoint",
    "outside_never": "test_accepts_some_pairing_and_refuses_others_with_a_sentence",
}
SAID = (
    "a gradient reaches the teacher's logits: detach it, as in teacher.logits.detach()",
    "padding changes the loss: average over batch.real(states)",
    "dead has no effect: the loss is the same with 1.0 and with 0.0",
    "a signal is asked of the student that no gradient comes back to",
    "changes the teacher's logits, which other terms of a sum also read",
)


def test_a_right_plugin_passes_and_each_wrong_one_fails_the_test_of_what_is_wrong(tmp_path: Path) -> None:
    plugin = tmp_path / "outside.py"
    plugin.write_text(PLUGINS)
    done = conformance("outside.py", "-rfp", "--tb=line", "--maxfail=0", "-k", "not test_one_step", cwd=tmp_path)
    assert not [sentence for sentence in SAID if sentence not in done.stdout], "what is wrong is told, and what to do"
    failed, passed = (
        set(re.findall(outcome + r" \S+::(\w+)\[\S*?(outside_[a-z_]+)", done.stdout))
        for outcome in ("FAILED", "PASSED")
    )
    assert {(test, name) for name, test in EXPECTED.items()} <= failed, done.stdout + done.stderr
    assert {test for test, name in passed if name == "outside_right"} == {test for test, _ in failed | passed}, (
        "the right plugin passes every test there is"
    )


def test_of_a_mistake_that_fails_a_hundred_tests_three_are_shown(tmp_path: Path) -> None:
    (tmp_path / "outside.py").write_text(PLUGINS)
    done = conformance("outside.py", "-k", "outside_vector", cwd=tmp_path)
    assert "returned a tensor of shape (6,), but must return its loss" in done.stdout and "3 failed" in done.stdout
    assert len(done.stdout.splitlines()) < 200


SOURCES = """
from harness.contracts import Task
from harness.data.own import task
from harness.data.sources import TaskSource, task_source


@task("right_rows", kind="classes")
def right_rows():
    return {"train": [{"text": f"text {n}", "label": n % 2} for n in range(40)]}


def declared(name):
    return (Task(name, name, "accuracy", ("accuracy",), labels=("a", "b")),)


class Rows(TaskSource):
    def examples(self, task, split):
        for number in range(8):
            yield f"{split} {number}", [f"{split} text {number}"], "ab"[number % 2]


@task_source("right", tasks=declared("right_source"))
class Right(Rows):
    pass


@task_source("same", tasks=declared("same_splits"))
class Same(Rows):
    def examples(self, task, split):
        return super().examples(task, "any")


@task_source("one", tasks=declared("one_label"))
class One(Rows):
    def examples(self, task, split):
        return ((where, texts, "a") for where, texts, _ in super().examples(task, split))


@task_source("empty", tasks=declared("empty_text"))
class Empty(Rows):
    def examples(self, task, split):
        yield from super().examples(task, split)
        yield "last", [" "], "a"


@task_source("odd", tasks=declared("odd_again"))
class Odd(Rows):
    opened = 0

    def __init__(self, data):
        super().__init__(data)
        Odd.opened += 1

    def examples(self, task, split):
        yield from super().examples(task, split)
        yield "last", [f"opened {self.opened} times"], "a"


@task_source("parts", tasks=declared("no_groups"))
class Parts(Rows):
    def groups(self, task):
        import numpy
        return numpy.zeros(3, numpy.int64)
"""
WRONG = {
    "same_splits": "test_what_is_reported_is_not_what_is_trained_on",
    "odd_again": "test_it_reads_the_same_again",
}
REFUSED = {"one_label", "empty_text", "no_groups"}  # as soon as their splits are read, by the sentence that a plan says


def test_tasks_of_a_plugin_are_tested_and_each_wrong_one_fails(tmp_path: Path) -> None:
    (tmp_path / "sources.py").write_text(SOURCES)
    done = conformance("sources.py", "-rfpE", "--tb=no", "--maxfail=0", cwd=tmp_path)
    failed, passed, refused = (
        set(re.findall(outcome + r" \S+::(\w+)\[(\w+)\]", done.stdout)) for outcome in ("FAILED", "PASSED", "ERROR")
    )
    assert failed == {(test, name) for name, test in WRONG.items()}, done.stdout + done.stderr
    assert {name for test, name in refused if test == "test_its_splits_are_whole"} == REFUSED
    every = {test for test, _ in passed}
    assert {test for test, name in passed if name == "right_rows"} == every >= {*WRONG.values()}


def test_what_cannot_be_tested_is_told(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text(EMPTY_STUDY.format(name="mine"))
    told = {"": "takes plugin files", "empty.py": "no objective, student or task", "gone.py": "does not exist"}
    for given, sentence in told.items():
        done = conformance(*given.split(), cwd=tmp_path)
        assert done.returncode == 2 and sentence in done.stderr and done.stderr.count("\n") == 1


def test_of_a_file_that_only_imports_others_those_are_tested(tmp_path: Path) -> None:
    (tmp_path / "losses.py").write_text(PLUGINS)
    (tmp_path / "all_of_mine.py").write_text("import losses\n")
    done = conformance("all_of_mine.py", "-k", "finite_scalar and outside_right", cwd=tmp_path)
    assert done.returncode == 0 and " passed" in done.stdout, done.stdout + done.stderr


def test_the_tests_of_a_distribution_fail_where_there_is_nothing_to_test(tmp_path: Path) -> None:
    """As `harness new plugin` writes them: all of them were skipped, with status 0."""
    plugin = tmp_path / "empty.py"
    plugin.write_text(EMPTY_STUDY.format(name="mine"))
    (tmp_path / "test_it.py").write_text(
        f"import os\n\nos.environ['HARNESS_TEST_PLUGINS'] = {str(plugin)!r}\n\n"
        "from harness.testing.test_objectives import *\n"
    )
    done = launching.under_pytest("-q", "-p", "no:cacheprovider", "test_it.py", folder=tmp_path / "said", cwd=tmp_path)
    assert done.returncode and "register no objective, student or task" in done.stdout, done.stdout
