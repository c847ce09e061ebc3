"""SST-2 with a larger dev part: half of the sentences of its training data, each whole.

python docs/results/sst2_sentences.py GLUE_FOLDER FOLDER     GLUE_FOLDER: in GLUE's own layout

The training data are phrases, about ten of a sentence, and do not say which sentence each is of. Here phrases
that share five words in a row are of one sentence, and so are those that one of them joins. Of every second
sentence, in the order in which they come, the longest phrase goes to dev.tsv and the others go nowhere; the phrases
of the other sentences go to train.tsv. So no two dev examples are of one sentence, which tests of them take for
granted, and no training example of five words or more is of a dev sentence. Of shorter phrases, whose sentence
cannot be told, every second stays in train.tsv, so that they are as large a part of it as before. A text that is
there twice is taken once.
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


def main(glue: Path, folder: Path) -> None:
    labels: dict[str, str] = {}
    with open(glue / "SST-2" / "train.tsv", encoding="utf-8", newline="") as file:
        for phrase, label in list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[1:]:
            labels.setdefault(phrase.strip(), label)
    sentences, short = by_sentence(labels)
    parts = {
        "dev": [max(phrases, key=lambda phrase: len(phrase.split())) for phrases in sentences[::2]],
        "train": [phrase for phrases in sentences[1::2] for phrase in phrases] + short[::2],
    }
    folder.mkdir(parents=True)
    for part, phrases in parts.items():
        with open(folder / f"{part}.tsv", "w", encoding="utf-8", newline="") as file:
            file.write("sentence\tlabel\n")
            file.writelines(f"{phrase}\t{labels[phrase]}\n" for phrase in phrases)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
