"""Folders of results that were never trained: a plan of two cells with their teacher, and what its runs left."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from harness.files import atomic_write, checksums
from harness.ledger import Ledger
from harness.planning.planned import First, Plan
from harness.runs import Run, TeacherRun
from harness.runs.settings import Settings
from tests.search import builders

TEACHER = TeacherRun(task="sst2", data="d" * 64, metric="accuracy", teacher=builders.BASE, settings=Settings(), seed=0)
TEACHER_RUN = TEACHER.identity({})
PLAN = Path("objectives_vs_init/quick/plan.json")


def student(objective: str, **changes: Any) -> Run:
    return builders.student_run(objective=objective, data="d" * 64, teacher=TEACHER_RUN, **changes)


def plan(objectives: Sequence[str] = ("vanilla_kd", "att_kl")) -> Plan:
    """A cell of a single run for each of these, from one teacher."""
    cells = [
        builders.cell(student(name), f"{number}{name}", after=[TEACHER_RUN]) for number, name in enumerate(objectives)
    ]
    return builders.plan(cells, first={TEACHER_RUN: First(TEACHER)})


def run_of(objective: str) -> str:
    return replace(student(objective), seed=0).identity({})


def write_plan(out: Path, made: Plan, place: Path = PLAN) -> None:
    atomic_write(out / place, json.dumps(made.to_json()).encode())


def record(ledger: Ledger, run: Run, score: float, weights: bool = False, **more: Any) -> str:
    """Leave what a finished run leaves. Returns its name."""
    name = run.identity({})
    told: dict[str, Any] = {"status": "finished", "metrics": {"accuracy": score}, "selection": score, "curve": []}
    told |= {"specification": run.specification(), "best": {"epoch": 1}, "seconds": 1.0, "started_from": {}}
    if weights:
        atomic_write(ledger.folder(name) / "weights" / "model.safetensors", f"weights of {name}".encode())
        told["weights"] = checksums(ledger.folder(name) / "weights")
    answers = (np.arange(100) >= round(100 * score)).astype(np.int64)  # of 100 examples whose class is 0
    ledger.write(name, {**told, **more}, {"ids": np.arange(100), "predictions": answers, "labels": np.zeros(100, int)})
    return name


def finished(out: Path, objectives: Sequence[str] = ("vanilla_kd", "att_kl"), score: float = 0.5) -> Ledger:
    """A folder of results of `plan`, all of whose runs are finished."""
    ledger = Ledger(out, create=True)
    record(ledger, TEACHER, 0.9, weights=True)
    for name in objectives:
        record(ledger, replace(student(name), seed=0), score, started_from={TEACHER_RUN: "w"})
    write_plan(out, plan(objectives))
    return ledger


def content(out: Path) -> dict[str, bytes]:
    """Every file of the runs in a folder."""
    return {
        str(path.relative_to(out)): path.read_bytes() for path in sorted(out.glob("ledger/*/**/*")) if path.is_file()
    }
