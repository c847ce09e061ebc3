"""What a plugin reads elsewhere is in the records of its runs, and an edit of it is told."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from pathlib import Path

import numpy
import pytest

from harness import registry
from harness.errors import UserError
from harness.files import checksum
from harness.jobs import reading
from harness.jobs.perform import perform
from harness.runs import StudentRun
from tests.conftest import Harness
from tests.results import records
from tests.training.builders import a_run, ignore, workspace_of

pytestmark = pytest.mark.usefixtures("no_figures")

# The names are put together as it runs: nothing in the text says which files these are.
PLUGIN = """
import json
import os
import numpy
from harness.contracts import Signal
from harness.registry import objective

ABOVE = os.path.dirname(os.path.dirname(__file__))
POWER = int(numpy.load(os.path.join(ABOVE, "pow" + "er.npy")))

@objective("reads", needs={Signal.SENTENCE})
def reads(student, teacher, batch):
    with open(os.path.join(os.path.dirname(__file__), "beside.json")) as file:
        json.load(file)
    with open(ABOVE + "/weight" + ".json") as file:
        weight = json.load(file)
    with open(ABOVE + "/cal" + "ls.txt", "a+") as file:
        file.write("called")
    open(ABOVE + "/cal" + "ls.txt").close()
    return weight * (student.sentence - teacher.sentence).abs().pow(POWER).mean()
"""


@pytest.fixture(autouse=True)
def nothing_more() -> Iterator[None]:
    yield
    reading.end()


def test_another_content_is_told_and_made_anew_when_asked(
    glue: Path, checkpoint: Path, call: Harness, forked: Harness, as_before: None, tmp_path: Path
) -> None:
    numpy.save(tmp_path / "power.npy", 2)
    (tmp_path / "weight.json").write_text("1.0")
    plugin = tmp_path / "plugins" / "mine.py"
    plugin.parent.mkdir()
    plugin.write_text(PLUGIN)
    plugin.with_name("beside.json").write_text("1")
    out, small = tmp_path / "out", ("--trials", "1", "--seeds", "1", "--set", "train_examples=32", "teacher.epochs=1")
    study = ("--study", "objectives_vs_init", "--tasks", "sst2", "--objectives", "reads", "--inits", "every", *small)
    words = (*study, "--data", glue, "--teacher", checkpoint, "--plugin", plugin, "--out", out)
    first = call("run", *words)
    assert first.returncode == 0 and "another version" not in first.stdout + first.stderr, first.stderr
    # Not what is a part of it, nor what it wrote itself, nor the data and the teacher, which are the engine's to read.
    read = {name: said for made in records(out).values() for name, said in made["code"].items() if name[0] == "/"}
    assert read == {str(path): checksum(path) for path in (tmp_path / "power.npy", tmp_path / "weight.json")}
    report = ("report", "--study", "objectives_vs_init", "--out", out)
    assert "another version" not in call(*report).stdout
    (tmp_path / "weight.json").write_text("-2.0")
    told = f"1 cell was made with another version of {tmp_path}/weight.json"
    assert f"{told}; harness run --refresh makes it anew" in call("plan", *words).stdout
    assert told in call(*report).stdout, "what was kept of the report before does not stand"
    again = forked("run", *words, "--refresh")
    assert "1 run trained" in again.stdout and "another version" not in again.stdout + again.stderr
    (tmp_path / "weight.json").unlink()  # nothing can be said of it
    assert "another version" not in call(*report).stdout


def test_what_is_edited_meanwhile_is_of_no_version(tmp_path: Path, as_before: None) -> None:
    file, plugin = tmp_path / "numbers.json", tmp_path / "plugins" / "mine.py"
    plugin.parent.mkdir()
    head = "from harness.registry import objective\n@objective('reads', needs={'logits'})\n"
    plugin.write_text(head + "def reads(student, teacher, batch):\n    return open(student).read()\n")
    registry.load_file(plugin)
    run = a_run(StudentRun, objective="reads", procedure="two_stage", teacher="t" * 16)
    file.write_text("[1]")
    opened = reading.begin()
    registry.OBJECTIVES.get("reads")("student", None, None).forward(file, None, None)  # type: ignore[call-arg, arg-type]
    assert opened.by_plugins(run) == {str(file): checksum(file)}
    os.utime(file, (0, 0))  # by another process
    assert opened.by_plugins(run) == {str(file): ""}
    file.unlink()
    assert opened.by_plugins(run) == {}
    file.write_text("[1]")
    opened = reading.begin()
    json.loads(file.read_text())  # by other code than a plugin's
    assert opened.by_plugins(run) == {}


@pytest.mark.parametrize("objective", ["att_kl", "vanilla_kd"])
def test_of_a_run_of_shipped_plugins_nothing_is_told(objective: str) -> None:
    run = a_run(StudentRun, objective=objective, procedure="two_stage", teacher="t" * 16)
    opened = reading.begin()
    Path(__file__).read_text()
    assert opened.by_plugins(run) == {}


def test_a_run_that_is_refused_leaves_nothing_noting(tmp_path: Path, as_before: None) -> None:
    plugin = tmp_path / "mine.py"
    head = "from harness.registry import objective\n@objective('edited', needs={'logits'})\n"
    plugin.write_text(head + "def edited(student, teacher, batch):\n    return student.logits.mean()\n")
    planned = {"objective edited": "another"}
    run = a_run(StudentRun, objective="edited", procedure="two_stage", teacher="t" * 16, plugins=planned)
    with pytest.raises(UserError, match="the code of objective edited changed since the study was planned"):
        perform(run.specification(), workspace_of(tmp_path, plugins=(str(plugin),)), ignore)
    assert reading._opened is None
