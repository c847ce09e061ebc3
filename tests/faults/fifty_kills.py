"""Kill drivers, workers and fork servers of one study at random moments; the five formats must be the same to the byte.

python -m tests.faults.fifty_kills [KILLS] [SEED]    prints what was hit and what was lost; status 1 if anything was
"""

from __future__ import annotations

import os
import random
import sys
import tempfile
import time
from collections import Counter
from contextlib import suppress
from pathlib import Path

import psutil

from harness.ledger import Ledger
from tests.faults.test_kills import without_times
from tests.launching import begun, forked

STUDY = (
    "run", "--study", "objectives_vs_init", "--objectives", "vanilla_kd", "hid_seq",
    "--inits", "every", "first", "last", "random", "--seeds", "6", "--trials", "2",
    "--set", "train_examples=800", "epochs=5",
)  # fmt: skip
FORMATS = ("html", "tex", "md", "csv", "json")


def victims(driver: int) -> dict[str, list[psutil.Process]]:
    """What can be killed: the driver; what it forked, a server that forks runs; and the runs."""
    with suppress(psutil.NoSuchProcess):
        whole = psutil.Process(driver)
        servers = [p for p in whole.children() if "forkserver" in " ".join(p.cmdline())]
        return {"driver": [whole], "server": servers, "worker": [w for s in servers for w in s.children()]}
    return {}


def main(kills: int = 50, seed: int = 0) -> int:
    draw, hit = random.Random(seed), Counter[str]()
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(temporary)
        calm, out = folder / "calm", folder / "killed"
        assert forked(*STUDY, "--out", calm, folder=folder / "said", seconds=3600).returncode == 0
        process, finished, twice = None, dict[str, int](), set[str]()
        done = False
        while not done:
            if process is None or not process.is_alive():
                process = begun(*STUDY, "--out", out, folder=folder / "said")
            if sum(hit.values()) >= kills:
                process.join()
                done = process.exitcode == 0
                continue
            time.sleep(draw.uniform(2.0, 9.0))
            now = {p.parent.name: p.stat().st_mtime_ns for p in out.glob("ledger/*/record.json")}
            twice |= {run for run, when in finished.items() if now.get(run) != when}
            finished |= now
            found = victims(process.pid)
            kind = draw.choice([kind for kind, those in found.items() if those] or ["none"])
            for victim in draw.sample(found.get(kind, []), min(1, len(found.get(kind, [])))):
                with suppress(psutil.NoSuchProcess):
                    os.kill(victim.pid, 9)
                    hit[kind] += 1
            if process.exitcode == 0:
                print("the study ended before all kills")
                done = True
        place = Path("objectives_vs_init") / "quick"
        other = [form for form in FORMATS if (out / place / f"table.{form}").read_bytes()
                 != (calm / place / f"table.{form}").read_bytes()]  # fmt: skip
        ours, theirs = Ledger(out), Ledger(calm)
        changed = [
            run for run in theirs.runs() if without_times(ours.read(run) or {}) != without_times(theirs.read(run) or {})
        ]
        left = [str(p.relative_to(out)) for p in out.rglob("*.tmp")]
    print(f"killed: {dict(hit)}; {len(finished)} runs; trained twice: {sorted(twice)}; other formats: {other}; ")
    print(f"other records: {changed}; temporary files left: {left}")
    return 1 if twice or other or changed or left else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
