"""A plain script, without `if __name__ == "__main__"`: its runs are processes that know what it defined."""

from __future__ import annotations

import subprocess
import sys
from importlib.resources import files
from pathlib import Path

import pytest

from harness.registry import ALL
from tests.conftest import environment

SCRIPT = """
import os
import signal
import threading
import time
from pathlib import Path

import harness
from harness.contracts import Signal
from harness.registry import objective

WEIGHT = 2.0


@objective("of_a_script", needs={Signal.SENTENCE})
def of_a_script(student, teacher, batch):
    return difference(student.sentence, teacher.sentence) * WEIGHT


def difference(ours, theirs):
    return (ours - theirs).abs().mean()


def interrupt():  # once the first run is recorded
    while not list(Path("results/ledger").glob("*/record.json")):
        time.sleep(0.02)
    os.kill(os.getpid(), signal.SIGINT)


asked = {"objectives": [of_a_script], "tasks": "acceptability", "inits": "every", "trials": 2, "seeds": 3, "workers": 1}
asked |= {"set": {"epochs": 1, "train_examples": 32}}
threading.Thread(target=interrupt, daemon=True).start()
try:
    harness.run("objectives_vs_init", **asked)
    print("not interrupted")
except KeyboardInterrupt:
    left = len(list(Path("results/ledger").glob("*/record.json")))
    print("interrupted", left)
result = harness.run("objectives_vs_init", **asked)
print(len(result.to_pandas()), set(result.to_pandas().status), set(result.to_pandas().objective))
"""


def test_a_script_runs_is_interrupted_and_goes_on(done: subprocess.CompletedProcess[str], place: Path) -> None:
    interrupted, whole, *_ = done.stdout.splitlines()
    assert interrupted.startswith("interrupted "), done.stderr
    assert whole == "4 {'finished'} {'of_a_script'}"  # two trials, and two more seeds of the better
    assert 0 < int(interrupted.split()[1]) < 5  # the teacher's scores, too, are those of a run
    assert "stopped; finished runs are kept, and the same call goes on from here" in done.stderr
    assert len(list((place / "results" / "plugins").glob("*.py"))) == 1


def template(kind: str, name: str) -> str:
    """What `harness new` writes, without its docstring."""
    text = (files(ALL[kind].folder) / "template.txt").read_text(encoding="utf-8")
    return text.partition("\n\n")[2].replace("NAME", name).replace("CLASS", name.title())


OBJECTS = f"""
{template("students", "averaged")}
{template("tasks", "good_or_bad")}
from harness.contracts import Profile, Row, Study

quick = Profile(teacher="embedded", tasks=("good_or_bad",), inits=("random",), seeds=1, trials=1)
rows = (Row("kd", "vanilla_kd", "KD", settings={{"epochs": 1}}),)
mine = Study("mine", "Mine", "Does it work?", "two_stage", rows, ("averaged",), {{"quick": quick}})

asked = {{"objectives": "vanilla_kd", "inits": "random", "trials": 1, "seeds": 1, "set": {{"epochs": 1}}, "workers": 1}}
one = harness.run("objectives_vs_init", students=[Averaged], tasks=[good_or_bad], out="one", **asked)
other = harness.run(mine, plugin=[Averaged, good_or_bad], out="other", workers=1)
for result in (one, other):
    runs = result.to_pandas()
    said = result.best().load().predict(["the book was sad ."])[0]
    print(set(runs.student), set(runs.task), set(runs.status), *said)
"""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("script")


@pytest.fixture(scope="module")
def done(place: Path) -> subprocess.CompletedProcess[str]:
    """The script, to its end: one process for both tests."""
    (place / "study.py").write_text(SCRIPT + OBJECTS)
    command = [sys.executable, "study.py"]
    done = subprocess.run(command, cwd=place, env=environment(), capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done


def test_students_tasks_and_studies_are_given_as_objects(done: subprocess.CompletedProcess[str], place: Path) -> None:
    told = "{'averaged'} {'good_or_bad'} {'finished'} label probabilities"
    assert done.stdout.splitlines()[2:] == [told, told]
    names = sorted(path.name.rpartition("_")[0] for path in (place / "other" / "plugins").glob("*.py"))
    assert names == ["averaged", "good_or_bad", "mine"]
