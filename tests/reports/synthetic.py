"""A made-up study whose every number is known: 100 dev examples, of which a run answers the first k rightly."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from harness.contracts import CellResult, Profile, Published, Row, RunResult, Study, Task
from harness.reports import Provenance, Table, build, with_published

EXAMPLES = 100
LABELS = np.arange(EXAMPLES) % 2
TASKS = {
    name: Task(name, label, "accuracy", ("accuracy",), ("no", "yes"))
    for name, label in (("sst2", "SST-2"), ("rte", "RTE"), ("cola", "CoLA"))
}
ROWS = (
    Row("vanilla_kd", "vanilla_kd", "Vanilla KD", published="Vanilla KD", mark="half the epochs of the others"),
    Row("hid_seq", "hid_seq", "Hid-Seq", published="Hid-Seq"),
    Row("att_kl", "att_kl", "Att-KL", published="Att-KL"),
    Row("att_kl+val_kl", "att_kl+val_kl", "Att-KL + Val-KL", published="Att-KL+Val-KL"),
)
STUDY = Study(
    "toy",
    "A toy study",
    "Which row is best?",
    "two_stage",
    ROWS,
    ("transformer",),
    {"quick": Profile("embedded", ("sst2", "rte"), ("every", "random"), 1, 2)},
    published=Published(
        ("wang2023_table1_task_specific.csv",),
        "Wang et al. (2023), Table 1",
        init="every",
        notes=("A note of the study.",),
    ),
)
PROVENANCE = Provenance(
    "embedded",
    {"sst2": [{"accuracy": 0.95}], "rte": [{"accuracy": 0.9}]},
    "held_out",
    "1 trial, 2 seeds",
    "2 + 2 epochs, batch 32",
)


def score(task: Task, predictions: np.ndarray, labels: np.ndarray) -> float:
    assert task.metric == "accuracy"
    return float(np.mean(predictions == labels))


def run(right: int, seed: int = 0, **record: Any) -> RunResult:
    """A run that answers the first `right` examples rightly; its predictions are stored in another order."""
    predictions = np.where(np.arange(EXAMPLES) < right, LABELS, 1 - LABELS)
    order = np.random.default_rng(right + seed).permutation(EXAMPLES)
    content = {
        "predictions": lambda: (order, predictions[order], LABELS[order]),
        "curve": [
            {"stage": "intermediate", "epoch": 1, "loss": 1.0, "selection": None},
            {"stage": "prediction", "epoch": 1, "loss": 0.5, "selection": right / 100},
        ],
    }
    return RunResult(
        f"run{right}-{seed}", seed, {"learning_rate": 5e-4}, {"accuracy": right / EXAMPLES}, right / EXAMPLES,
        {**content, **record},
    )  # fmt: skip


def cell(row: Row, task: str, right: Sequence[int], init: str = "every", **changes: Any) -> CellResult:
    """A cell whose seeds answered that many examples rightly; 2 seeds and 1 trial are wanted."""
    runs = tuple(run(k, seed) for seed, k in enumerate(right))
    made = CellResult(f"{row.name}-{init}-{task}", row, "transformer", init, task, "accuracy", "", runs, runs[:1], 2, 1)
    return replace(made, **changes)


def mixed() -> list[CellResult]:
    """Complete, partial, waiting, failed and impossible cells, two ties, one search that is not over."""
    vanilla, hid, att, val = ROWS
    return [
        cell(vanilla, "sst2", (60, 60)),
        cell(vanilla, "rte", (50, 54)),
        cell(hid, "sst2", (84, 86)),
        cell(hid, "rte", (70,)),
        cell(att, "sst2", (86, 86)),
        cell(att, "rte", (80, 82)),
        cell(val, "sst2", (70, 74)),
        cell(val, "rte", (81, 80)),
        cell(vanilla, "sst2", (99,), "random"),
        cell(vanilla, "rte", (), "random"),
        cell(hid, "sst2", (), "random", failures={"x": "NaN"}),
        cell(hid, "rte", (60,), "random", failures={"x": "NaN"}),
        cell(att, "sst2", (), "random", refused="teacher and student split text differently"),
        cell(att, "rte", (), "random", refused="teacher and student split text differently"),
        cell(val, "sst2", (70, 70), "random", wanted_trials=3),
        cell(val, "rte", (), "random", refused="no labels"),
    ]


def table(cells: Sequence[CellResult], study: Study = STUDY, **provenance: Any) -> Table:
    return build(study, "quick", cells, TASKS, replace(PROVENANCE, **provenance), score)


def compared(cells: Sequence[CellResult] | None = None, study: Study = STUDY) -> Any:
    """What stands beside the published numbers."""
    return with_published(table(mixed() if cells is None else cells, study), study).comparison


def entries(made, init="every"):
    """{row name: its entries} of one initialisation."""
    (block,) = [b for b in made.blocks if b.init == init]
    return {line.row.name: line.entries for line in block.lines}
