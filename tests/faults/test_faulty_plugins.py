"""Students and teachers that answer amiss while a plan is made: one sentence with the plugin, its file and the rule."""

from __future__ import annotations

import contextlib
import signal
from importlib.resources import files
from pathlib import Path

import pytest

from harness.cli import main
from tests.conftest import Harness
from tests.results import done, records, refused

STUDY = ("--study", "objectives_vs_init", "--tasks", "sentiment")
TEACHER = """
from harness.registry import teacher
from harness.teachers.embedded import PRETRAINING, EmbeddedTeacher

@teacher("mine")
class Mine(EmbeddedTeacher):
    def METHOD:
        return ANSWER
"""


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("import sys\nsys.exit(0)\n", "mine.py cannot be loaded: it calls sys.exit(0) as it is imported"),
        (
            "from harness.contracts import Signal\n\nWANTED = Signal.SENTENCES\n",
            ", on line 3: did you mean SENTENCE?",  # versions of Python say it otherwise before
        ),
    ],
)
def test_a_file_that_ends_the_command_or_fails(text: str, said: str, forked: Harness, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(text)
    refused(forked("plan", *STUDY, "--plugin", "mine.py", cwd=tmp_path), said)


@pytest.mark.parametrize(("name", "status", "by"), [("SIGINT", 130, ""), ("SIGTERM", 143, " by SIGTERM")])
def test_a_signal_stops_a_command_with_a_sentence(
    name: str, status: int, by: str, forked: Harness, tmp_path: Path
) -> None:
    """Whatever it is doing, such as to import a plugin; what a run leaves then is seen in test_kills.py."""
    (tmp_path / "mine.py").write_text(f"import os, signal\nos.kill(os.getpid(), signal.{name})\n")
    process = forked("plan", *STUDY, "--plugin", "mine.py", cwd=tmp_path)
    said = f"harness: stopped{by}; finished runs are kept, and the same command goes on from here\n"
    assert (process.returncode, process.stderr) == (status, said)


def test_who_calls_it_keeps_his_own_sigterm(capsys: pytest.CaptureFixture[str]) -> None:
    before = signal.getsignal(signal.SIGTERM)
    for words, status in ((["list", "students"], 0), (["list", "nothing"], 2)):
        with contextlib.suppress(SystemExit):
            assert main(words) == status
        assert signal.getsignal(signal.SIGTERM) is before


@pytest.mark.parametrize(
    ("was", "now", "said"),
    [
        ("return ModelInfo(", "ModelInfo(", "describe returned None, but must return a ModelInfo"),
        ("return ModelInfo(", "return ModelInfos(", "describe failed: NameError: name 'ModelInfos' is not defined"),
        ("width=width, heads", "width='64', heads", "whose width must be a whole number, not '64'"),
        ("labels=task.outputs", "labels=7", "whose labels is 7, but task sentiment has 2 (task.outputs)"),
        ("return LayerMap(((1, teacher.layers),))", "return [1]", "layer_map returned [1], but must return a LayerMap"),
        ("((1, teacher.layers),)", "((1, 99),)", "layer_map pairs layer 1 of 1 with layer 99 of 4 of embedded"),
        ('return "random"', "pass", "canonical_init returned None, but must return a str"),
    ],
)
def test_a_student_that_answers_amiss(
    was: str, now: str, said: str, call: Harness, as_before: None, tmp_path: Path
) -> None:
    text = (files("harness.students") / "template.txt").read_text(encoding="utf-8")
    assert was in text
    (tmp_path / "mine.py").write_text(text.replace(was, now).replace("CLASS", "Mine").replace("NAME", "mine"))
    words = ("--students", "mine", "--inits", "random", "--objectives", "vanilla_kd", "--plugin", tmp_path / "mine.py")
    for command in ("plan", "run") if now == "labels=7" else ("plan",):  # both by the same plan
        refused(call(command, *STUDY, *words, "--out", tmp_path / "out"), "student 'mine' in", "mine.py", said)


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("info(self, task)", "None", "info returned None, but must return a ModelInfo"),
        ("model(self, task, weights)", "None", "model returned None, but must return a PreTrainedModel"),
        ("content(self)", "None", "content returned None, but must return a str"),
        ("recipe(self, task)", "None", "recipe returned None, but must return a Mapping"),
        ("tokenizer(self)", "None", "info failed: AttributeError"),
        ("configuration(self)", "None", "configuration returned None, but must return a dict"),
        ("configuration(self)", "{'model_type': 'mine'}", "configuration is of no model that transformers knows: "),
        (
            "configuration(self)",
            "super().configuration() | {'num_hidden_layers': 12}",
            "info says layers=4, but configuration, of which students are built, 12",
        ),
        ("answers(self, task)", "None", "answers returned None, but must return a bool"),
        ("pretraining(self)", "3", "pretraining returned 3, but must return a Mapping of settings, or None"),
        ("pretraining(self)", "{'steps': 9}", "pretraining returned no 'examples': it must have examples, steps, "),
        (
            "pretraining(self)",
            "{**PRETRAINING, 'steps': 0}",
            "pretraining returned steps 0, but it must be a number from 1 to 1e+09",
        ),
        ("members(self)", "('a', 'b')", "members is a sequence of teachers, not ('a', 'b'): "),
        ("parts(self)", "'weights'", "parts returned 'weights', but must return Paths, or None"),
        ("__init__(self)", "None", "__init__ takes (self) but must take (self, argument)"),
    ],
)
def test_a_teacher_that_answers_amiss(
    method: str, answer: str, said: str, call: Harness, as_before: None, tmp_path: Path
) -> None:
    text = TEACHER.replace("METHOD", method).replace("ANSWER", answer)
    text = text.replace("    def members", "    @property\n    def members")
    (tmp_path / "mine.py").write_text(text)
    words = ("--teacher", "mine", "--inits", "every", "--objectives", "hid_cls", "--plugin", tmp_path / "mine.py")
    refused(call("plan", *STUDY, *words, "--out", tmp_path / "out"), "teacher 'mine' in", "mine.py", said)


def test_what_fails_elsewhere_in_a_plugin_is_told_with_its_line(
    call: Harness, as_before: None, tmp_path: Path
) -> None:
    text = (files("harness.students") / "template.txt").read_text(encoding="utf-8")
    text += "\n    @classmethod\n    def refuse_init(cls, init, settings):\n        return settings['depth']\n"
    (tmp_path / "mine.py").write_text(text.replace("CLASS", "Mine").replace("NAME", "mine"))
    words = ("--students", "mine", "--inits", "random", "--objectives", "vanilla_kd", "--plugin", tmp_path / "mine.py")
    said = ("a plugin failed: KeyError: 'depth'", f"mine.py, line {len(text.splitlines())}, refuse_init")
    refused(call("plan", *STUDY, *words, "--out", tmp_path / "out"), *said)


READING = """
import json
from pathlib import Path
from harness.contracts import Signal
from harness.registry import objective
from loaded import ONE
HERE = Path(__file__).parent

@objective("mine", needs={Signal.SENTENCE})
def mine(student, teacher, batch):
    (HERE / "EDITED").write_text("TEXT")  # as a user does in an editor
    from imported_later import FACTOR
    json.loads((HERE / "scale.json").read_text())
    return FACTOR * ONE * (student.sentence - teacher.sentence).abs().mean()
"""


@pytest.mark.parametrize(
    ("edited", "text"), [("imported_later.py", "FACTOR = 2"), ("scale.json", "2"), ("loaded.py", "ONE = 2")]
)
def test_what_a_run_reads_as_it_goes_on_is_what_it_was_planned_with(
    edited: str, text: str, forked: Harness, tmp_path: Path
) -> None:
    """What was loaded before stays as it was, whoever edits it; the run is what it was planned as."""
    (tmp_path / "mine.py").write_text(READING.replace("EDITED", edited).replace("TEXT", text))
    (tmp_path / "imported_later.py").write_text("FACTOR = 1")
    (tmp_path / "scale.json").write_text("1")
    (tmp_path / "loaded.py").write_text("ONE = 1")
    words = ("--objectives", "mine", "--inits", "random", "--seeds", "1", "--trials", "1", "--plugin", "mine.py")
    small = ("--set", "epochs=1", "train_examples=32", "--out", "out")
    ended = forked("run", *STUDY, *words, *small, cwd=tmp_path)
    every = records(tmp_path / "out").values()
    trained = [record for record in every if record["specification"].get("objective") == "mine"]
    if edited == "loaded.py":
        assert done(ended) and len(trained) == 1
    else:
        assert ended.returncode == 2 and f"{edited} was edited while a run went on" in ended.stderr, ended.stderr
        assert not trained and not [*(tmp_path / "out").rglob("checkpoint*.pt")]


REFUSING = """
from harness.contracts import Signal
from harness.errors import UserError
from harness.registry import objective

@objective("mine", needs={Signal.SENTENCE})
def mine(student, teacher, batch):
    raise UserError("mine does not take this")
"""


def test_a_run_that_a_plugin_refuses_never_stops_the_rest(forked: Harness, tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(REFUSING)
    words = ("--objectives", "mine", "labels_only", "--inits", "random", "--seeds", "1", "--trials", "1")
    small = ("--workers", "1", "--set", "epochs=1", "train_examples=32", "--plugin", "mine.py", "--out", "out")
    ended = forked("run", *STUDY, *words, *small, cwd=tmp_path)
    assert ended.returncode == 1 and "mine does not take this (" in ended.stderr + ended.stdout, ended.stderr
    every = records(tmp_path / "out").values()
    found = {record["specification"].get("objective"): record["status"] for record in every}
    assert (found["mine"], found["labels_only"]) == ("failed", "finished")


def test_a_plan_tells_what_changes_nothing(call: Harness) -> None:
    words = ("--objectives", "hid_cls", "--inits", "every", "--set", "patience=9", "train_examples=99999")
    said = done(call("plan", *STUDY, *words)).stdout
    assert "patience 9 stops nothing: no cell has more than 5 epochs" in said
    assert "train_examples 99999 leaves out nothing: no task has more than 4000" in said
    words = (*words[:-2], "patience=2", "train_examples=64")
    said = done(call("plan", *STUDY, *words)).stdout
    assert "stops nothing" not in said and "leaves out nothing" not in said
    said = done(call("plan", *STUDY, *words[:-2], "patience=9", "epochs=1")).stdout
    assert "patience 9 stops nothing: no cell has more than 1 epoch\n" in said
