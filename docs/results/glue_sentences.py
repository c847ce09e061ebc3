"""The corpus of the results on sentence representation approximation: training texts of GLUE, one a line.

python docs/results/glue_sentences.py GLUE_FOLDER > glue_sentences.txt     GLUE_FOLDER: in GLUE's own layout
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

# task, what stands before its first example, every how many lines one is taken, the columns of texts
PARTS = (
    ("SST-2", 1, 2, (0,)),
    ("CoLA", 0, 1, (3,)),
    ("MRPC", 1, 1, (3, 4)),
    ("STS-B", 1, 1, (7, 8)),
    ("RTE", 1, 1, (1, 2)),
)


def sentences(folder: Path) -> list[str]:
    """Each text once, in order."""
    found: dict[str, None] = {}
    for task, head, step, columns in PARTS:
        with open(folder / task / "train.tsv", encoding="utf-8-sig", newline="") as file:
            lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        found.update(dict.fromkeys(line[column].strip() for line in lines[head::step] for column in columns))
    return [text for text in found if text]


if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    print("\n".join(sentences(Path(sys.argv[1]))))
