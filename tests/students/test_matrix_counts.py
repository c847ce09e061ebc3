"""Parameter counts of matrix-embedding students, against every published number."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import torch

from harness.evaluation.parameters import build_student, count

PUBLISHED = Path(__file__).parents[2] / "reports" / "published"


def published() -> list[Any]:
    """(student, head, pair encoding, classes, total or classifier, parameters), but for the cells that are no models.

    The joint BiLSTM heads were of other, unstated sizes, except one cell of CMOW.
    """
    cells = []
    for table in ("galke2022_table12_parameters_joint.csv", "galke2022_table13_parameters_diffcat.csv"):
        with (PUBLISHED / table).open(encoding="utf-8") as file:
            for line in csv.DictReader(file):
                key = (line["embedding"], line["head"], line["pair_encoding"], int(line["num_classes"]))
                other = key[1:3] == ("bilstm", "joint") and key != ("cmow", "bilstm", "joint", 21)
                if line["parameters"] and not other:
                    cells.append((*key, line["scope"], int(line["parameters"])))
    return cells


def test_every_published_parameter_count() -> None:
    cells = published()
    assert len(cells) == 150
    for name, head, pair_encoding, outputs, scope, parameters in cells:
        with torch.device("meta"):
            settings = {"head": head, "pair_encoding": pair_encoding}
            student = build_student(name, settings, {"vocab_size": 30522, "pad_token_id": 0}, outputs)
        counted = count(student)
        if name == "cbow" and scope == "total":
            parameters -= 30522 * 784  # the published one holds a table that it does not use
        found = counted["parameters" if scope == "total" else "classifier_parameters"]
        assert found == parameters, (name, head, pair_encoding, outputs, scope)
