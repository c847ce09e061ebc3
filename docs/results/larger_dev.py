"""Larger dev parts of GLUE's tasks, by which less can be told apart.

python docs/results/larger_dev.py TASK GLUE_FOLDER FOLDER

TASK: sst2, cola or mrpc; GLUE_FOLDER: in GLUE's own layout.

Of CoLA every second sentence of the training data is dev.tsv, the others are train.tsv. SST-2's training data are
phrases, about ten of a sentence, and do not say which sentence each is of. Here phrases that share five words in a
row are of one sentence, and so are those that one of them joins. Of every second sentence, in the order in which they
come, the longest phrase goes to dev.tsv and the others go nowhere; the phrases of the other sentences go to
train.tsv. So no two dev examples are of one sentence, which tests of them take for granted, and no training example
of five words or more is of a dev sentence. Of shorter phrases, whose sentence cannot be told, every second stays in
train.tsv, so that they are as large a part of it as before. A text that is there twice is taken once.

MRPC keeps its training data. Its dev.tsv here are the pairs of dev and those of the test set, whose labels are
published with the corpus (msr_paraphrase_test.txt), each without the pairs that share a sentence with an earlier one;
training pairs that share a sentence with one of these are left out.
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


Pairs = dict[tuple[str, ...], str]  # (the two sentences): label


def pairs_apart(train: Pairs, later: Iterable[Pairs]) -> tuple[Pairs, Pairs]:
    """(train, dev) of MRPC."""
    dev: Pairs = {}
    seen: set[str] = set()
    for pair, label in (item for part in later for item in part.items()):
        if seen.isdisjoint(pair):
            dev[pair] = label
            seen.update(pair)
    return {pair: label for pair, label in train.items() if seen.isdisjoint(pair)}, dev


def read(path: Path, head: int, texts: list[int], label: int) -> Pairs:
    """The label of each text, or pair of texts, of a file of GLUE. head: how many lines stand before the first example;
    texts, label: columns."""
    labels: Pairs = {}
    with open(path, encoding="utf-8", newline="") as file:
        for line in list(csv.reader(file, delimiter="\t", quoting=csv.QUOTE_NONE))[head:]:
            labels.setdefault(tuple(line[column].strip() for column in texts), line[label])
    return labels


# task: its folder, what stands before its first example, the column of texts and labels, how it is parted
SENTENCES = {"sst2": ("SST-2", 1, 0, 1, phrases_apart), "cola": ("CoLA", 0, 3, 1, every_second)}


def apart(task: str, glue: Path) -> tuple[Pairs, Pairs]:
    """(train, dev)."""
    if task == "mrpc":
        train, *later = (
            read(glue / "MRPC" / name, 1, [3, 4], 0) for name in ("train.tsv", "dev.tsv", "msr_paraphrase_test.txt")
        )
        return pairs_apart(train, later)
    name, head, text, label, part = SENTENCES[task]
    labels = read(glue / name / "train.tsv", head, [text], label)
    train_texts, dev_texts = part([text for (text,) in labels])
    return {(text,): labels[text,] for text in train_texts}, {(text,): labels[text,] for text in dev_texts}


def main(task: str, glue: Path, folder: Path) -> None:
    parts = apart(task, glue)
    folder.mkdir(parents=True)
    for part, examples in zip(("train", "dev"), parts, strict=True):
        with open(folder / f"{part}.tsv", "w", encoding="utf-8", newline="") as file:
            file.write("sentence1\tsentence2\tlabel\n" if task == "mrpc" else "sentence\tlabel\n")
            file.writelines("\t".join((*texts, label)) + "\n" for texts, label in examples.items())


if __name__ == "__main__":
    if len(sys.argv) != 4 or sys.argv[1] not in (*SENTENCES, "mrpc"):
        raise SystemExit(__doc__)
    try:
        main(sys.argv[1], Path(sys.argv[2]), Path(sys.argv[3]))
    except OSError as error:
        raise SystemExit(f"{error.filename}: {error.strerror}") from error
