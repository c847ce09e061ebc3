"""What Ray adds to a run, against local processes: 200 runs of one second, and the driver's CPU time.

python -m benchmarks.executors [RUNS]   Asserts nothing: the two executors are compared within one call.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import tempfile
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any

from harness.cli import main
from harness.executors import choosing

NAP = '''
import time
from harness.contracts import Signal
from harness.registry import objective

@objective("nap", needs={Signal.LOGITS}, stage="prediction")
def nap(student, teacher, batch):
    """Half a second a step."""
    time.sleep(0.5)
    return (student.logits - teacher.logits).square().mean()
'''


def measure(executor: str, runs: int, folder: Path) -> dict[str, float]:
    """Seconds of wall clock, of the runs themselves and of the driver's CPU, from the first record to the last."""
    out = folder / executor
    plugin = folder / "nap.py"
    plugin.write_text(NAP)
    axes = ["--tasks", "entailment", "--objectives", "nap", "--inits", "every", "--trials", "1"]
    settings = ["--set", "train_examples=64", "epochs=1", "--plugin", str(plugin), "--out", str(out)]
    words = ["run", "--study", "objectives_vs_init", *axes, *settings]
    main([*words, "--seeds", "1"])  # the teacher, and this process's imports
    before = set(out.glob("ledger/*"))
    began, cpu = time.time(), time.process_time()
    status = main([*words, "--seeds", str(runs + 1), "--executor", executor])
    wall, cpu = time.time() - began, time.process_time() - cpu
    ended = [path / "record.json" for path in sorted(set(out.glob("ledger/*")) - before)]
    times = sorted(path.stat().st_mtime for path in ended)
    records: list[dict[str, Any]] = [json.loads(path.read_bytes())["record"] for path in ended]
    inside = sum(record["seconds"] for record in records)
    workers = choosing.workers(None)
    later = len(times) - workers  # rather too few: all first runs may end at once, where workers keep step
    return {
        "exit status": status,
        "runs": len(records),
        "seconds inside a run": inside / len(records),
        "seconds in all": wall,
        "seconds to the first record": times[0] - began,
        "seconds of a worker between runs": (times[-1] - times[0]) * workers / later - inside / len(records),
        "CPU seconds of the driver per run": cpu / len(records),
    }


def compare(runs: int = 200) -> None:
    """Print both executors' figures and what Ray adds."""
    print(f"{runs} runs of about one second on {choosing.workers(None)} workers")
    with tempfile.TemporaryDirectory() as name, open(os.devnull, "w") as nothing, redirect_stdout(nothing):
        found = {executor: measure(executor, runs, Path(name)) for executor in ("local", "ray")}
    for figure, local in found["local"].items():
        print(f"{figure:<36} local {local:8.3f}   ray {found['ray'][figure]:8.3f}")
    added = found["ray"]["seconds in all"] - found["local"]["seconds in all"]
    between = "seconds of a worker between runs"
    print(f"Ray adds {found['ray'][between] - found['local'][between]:.3f} s a run, and {added:.1f} s to all of it")
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"largest resident memory of this process: {memory:.0f} MiB")


if __name__ == "__main__":
    compare(*map(int, sys.argv[1:]))
