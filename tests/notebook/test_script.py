"""A plain script, without `if __name__ == "__main__"`: its runs are processes that know what it defined."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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


def test_a_script_runs_is_interrupted_and_goes_on(tmp_path: Path) -> None:
    (tmp_path / "study.py").write_text(SCRIPT)
    done = subprocess.run(
        [sys.executable, "study.py"], cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    interrupted, whole = done.stdout.splitlines()
    assert interrupted.startswith("interrupted "), done.stderr
    assert whole == "4 {'finished'} {'of_a_script'}"  # two trials, and two more seeds of the better
    assert 0 < int(interrupted.split()[1]) < 5  # the teacher's scores, too, are those of a run
    assert "stopped; finished runs are kept, and the same call goes on from here" in done.stderr
    assert len(list((tmp_path / "results" / "plugins").iterdir())) == 1
