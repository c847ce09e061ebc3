"""make bench: where the time of the quick profile goes, as shares of one run on this machine.

Prints no verdict and asserts nothing: seconds differ between machines, shares hardly do.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from pathlib import Path

from harness.cli import main


def share(part: float, whole: float) -> str:
    return f"{100 * part / whole:5.1f}%"


def bench(out: Path) -> None:
    """Run the quick profile into an empty folder and print the engine's share of its time."""
    from harness import registry

    for kind in registry.ALL.values():  # the driver's imports are not its work
        kind.names()
    import optuna  # noqa: F401

    began, cpu = time.perf_counter(), time.process_time()
    status = main(["run", "--study", "objectives_vs_init", "--out", str(out)])
    wall, driver = time.perf_counter() - began, time.process_time() - cpu
    records = [json.loads(p.read_bytes())["record"] for p in out.glob("ledger/*/record.json")]
    runs = sum(r["seconds"] for r in records)
    model = sum(r["model_seconds"] for r in records)
    whole = runs + driver
    print(f"\nexit status {status}; {len(records)} runs in {wall:.0f} s")
    print("share of all run and driver time (runs are worker seconds, the driver's are CPU seconds):")
    print(f"  {share(model, whole)}  training steps and predictions: forward, backward, update")
    print(f"  {share(runs - model, whole)}  around them in the workers: data, teacher outputs, metrics, checkpoints")
    print(f"  {share(driver, whole)}  the driver: plan, proposals, ledger, Optuna's database, tables, figures")
    print(f"  {share(whole - model, whole)}  the engine in all")
    students = [r for r in records if r["specification"]["kind"] == "student"]
    inside = sum(r["seconds"] - r["model_seconds"] for r in students) / sum(r["seconds"] for r in students)
    print(f"  {100 * inside:5.1f}%  of a student run alone is spent around its steps")


if __name__ == "__main__":
    if len(sys.argv) > 1:  # keep the results in this folder, which must be new
        bench(Path(sys.argv[1]))
        sys.exit()
    with tempfile.TemporaryDirectory() as folder:
        bench(Path(folder) / "results")
