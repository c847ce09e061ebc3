"""Larger dev parts, by which less can be told apart: half of the training data of a task of GLUE.

python docs/results/larger_dev.py TASK GLUE_FOLDER FOLDER     TASK: sst2 or cola; GLUE_FOLDER: in GLUE's own layout

Of CoLA every second sentence is dev.tsv, the others are train.tsv. SST-2's training data are phrases, about ten of a
sentence, and do not say which sentence each is of. Here phrases that share five words in a row are of one sentence, and
so are those that one of them joins. Of every second sentence, in the order in which they come, the longest phrase goes
to dev.tsv and the others go nowhere; the phrases of the other sentences go to train.tsv. So no two dev examples are of
one sentence, which tests of them take for granted, and no training example of five words or more is of a dev sentence.
Of shorter phrases, whose sentence cannot be told, every second stays in train.tsv, so that they are as large a part of
it as before. A text that is there twice is taken once.
"""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterable
from pathlib import Path

SHARED = 5  # words in a row


def by_sentence(phrases: Iterable[str]) -> tuple[list[list[str]], list[str]]:
    """The phrases of each sentence, in the order of their first; and those too short to say."""
    parent: dict[object, object] = {}  # of a phrase or a run of words: another of the same sentence

    def root(of: object) -> object:
        while parent.setdefault(of, of) != of:
            parent[of] = parent[parent[of]]
            of = parent[of]
        return of

    long, short = [], []
    for phrase in phrases:
        words = phrase.split()
        (short if len(words) < SHARED else long).append(phrase)
        for start in range(len(words) - SHARED + 1):
            parent[root(tuple(words[start : start + SHARED]))] = root(phrase)
    sentences: dict[object, list[str]] = {}
    for phrase in long:
        sentences.setdefault(root(phrase), []).append(phrase)
    return list(sentences.values()), short


def phrases_apart(phrases: Iterable[str]) -> tuple[list[str], list[str]]:
    """(train, dev) of SST-2."""
    sentences, short = by_sentence(phrases)
    train = [phrase for phrases in sentences[1::2] for phrase in phrases] + short[::2]
    return train, [max(phrases, key=lambda phrase: len(phrase.split())) for phrases in sentences[::2]]


def every_second(texts: Iterable[str]) -> tuple[list[str], list[str]]:
    """(train, dev) of CoLA."""
    return list(texts)[1::2], list(texts)[::2]


# task: its folder, what stands before its first example, the columns of texts and labels, how it is parted
TASKS = {"sst2": ("SST-2", 1, 0, 1, phrases_apart), "cola": ("CoLA", 0, 3, 1, every_second)}


def main(task: str, glue: Path, folder: Path) -> None:
    name, head, text, label, apart = TASKS[task]
    labels: dict[str, str] = {}
    with open(glue / name / "train.tsv", encoding="utf-8", newline="") as file:
        for line in list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[head:]:
            labels.setdefault(line[text].strip(), line[label])
    folder.mkdir(parents=True)
    for part, texts in zip(("train", "dev"), apart(labels), strict=True):
        with open(folder / f"{part}.tsv", "w", encoding="utf-8", newline="") as file:
            file.write("sentence\tlabel\n")
            file.writelines(f"{one}\t{labels[one]}\n" for one in texts)


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in TASKS:
        raise SystemExit(__doc__)
    main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
