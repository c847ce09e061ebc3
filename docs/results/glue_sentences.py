"""The corpus of the results on sentence representation approximation: training texts of GLUE, one a line.

python docs/results/glue_sentences.py GLUE_FOLDER [SST2_SENTENCES] > glue_sentences.txt

GLUE_FOLDER: in GLUE's own layout. SST2_SENTENCES: a folder of larger_dev.py, whose train.tsv stands in place of
SST-2's, so that no text of its dev part is there.
"""

from __future__ import annotations

import csv
import sys
from pathlib import Path

# task, what stands before its first example, every how many lines one is taken, the columns of texts
SST2, SST2_SENTENCES = ("SST-2", 1, 2, (0,)), ("", 1, 1, (0,))
PARTS = (
    ("CoLA", 0, 1, (3,)),
    ("MRPC", 1, 1, (3, 4)),
    ("STS-B", 1, 1, (7, 8)),
    ("RTE", 1, 1, (1, 2)),
)


def sentences(folder: Path, sst2_sentences: str = "") -> list[str]:
    """Each text once, in order."""
    found: dict[str, None] = {}
    first = SST2_SENTENCES if sst2_sentences else SST2
    for task, head, step, columns in (first, *PARTS):
        part = folder / task if task else Path(sst2_sentences)
        with open(part / "train.tsv", encoding="utf-8-sig", newline="") as file:
            lines = list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
        found.update(dict.fromkeys(line[column].strip() for line in lines[head::step] for column in columns))
    return [text for text in found if text]


if __name__ == "__main__":
    if len(sys.argv) not in (2, 3):
        raise SystemExit(__doc__)
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]
    print("\n".join(sentences(Path(sys.argv[1]), *sys.argv[2:])))
