"""What a command costs before and beside its work: a run with nothing to do, a plan, help. Asserts nothing.

python -m benchmarks.commands [FOLDER]   FOLDER: results of the default study, which is trained there if it is not
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.ledger import STUDY, said

LARGEST = ("--study", STUDY, "--profile", "paper")  # 455 cells, 1,820 runs
SMALL = (
    "--objectives", "vanilla_kd", "hid_cls", "--inits", "every", "last", "--tasks", "acceptability", "--trials", "1",
)  # fmt: skip


def main() -> None:
    given = sys.argv[1:2]
    out = given[0] if given else tempfile.mkdtemp(prefix="bench_commands_")
    harness = [sys.executable, "-m", "harness"]
    run = ["run", "--study", STUDY, "--out", out, *(() if given else SMALL)]
    subprocess.run([*harness, *run], check=True, stdout=subprocess.DEVNULL)
    said(["--help"], [*harness, "--help"])
    said(["run, nothing to do"], [*harness, *run])
    said(["plan, of the same"], [*harness, "plan", *run[1:]])
    said(["plan", *LARGEST], [*harness, "plan", *LARGEST, "--out", f"{out}/none"])
    print(f"in {Path(out)}")


if __name__ == "__main__":
    main()
