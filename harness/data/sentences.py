"""The sentences of a corpus: a store of their text, stores of their tokens, and the batches that training reads.

Sentences are those of pysbd (Sadvilkar and Neumann, 2020), whose rules need no network and no model.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from harness.contracts import Batch
from harness.data import corpora
from harness.data.corpora import Corpus
from harness.data.encoding import tokenizer_fingerprint
from harness.data.masking import CorpusText
from harness.data.store import Once, Store, alone
from harness.errors import UserError
from harness.files import atomic_file
from harness.folders import cannot_read

PART = 1000  # characters split at once: in longer text pysbd pairs quotation marks wrongly, and slows down
SHORTEST = 3  # words of a sentence that is kept
BLOCK = 10_000  # sentences tokenised at once
FORMAT = 1
_FILE = "sentences.txt"
_SURE = re.compile(r"""(?<=[a-z]{4})[.!?]["'”’)\]]*\s+(?=["'“‘(\[]?[A-Z])""")  # ends a sentence, not an abbreviation


def sentences(source: str, content: str, folder: Path, once: Once = alone) -> Store:
    """The store of a corpus's sentences, built below `folder` unless it is there already.

    source, content: as `corpora.documents` and `corpora.content` have them. A sentence is one line, in which single
    spaces divide the words; those of fewer than three words, which are what holds a letter between spaces, are left
    out. A line feed in a document ends a sentence.

    Raises UserError as `corpora.documents` does, if no sentence has three words, or if the store cannot be written.
    """
    store = Store(folder, [FORMAT, "sentences", content], once)
    with store.held(_FILE) as whole:
        if not whole:
            count = _write(source, store.folder / _FILE)
            corpora.check_unchanged(source, content)
            store.vouch(_FILE, content=content, count=count)
    return store


def texts(store: Store) -> Iterator[str]:
    """The sentences of a store, one after another."""
    path = store.folder / _FILE
    try:
        with open(path, encoding="utf-8", newline="\n") as file:
            for line in file:
                yield line.removesuffix("\n")
    except OSError as error:
        raise cannot_read(path, error) from error


def tokenised_sentences(
    source: str,
    content: str,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    folder: Path,
    once: Once = alone,
) -> Corpus:
    """Every sentence of a corpus as token ids, in a store below `folder`: piece i is sentence i for every tokenizer.

    A sentence has the tokenizer's own special tokens and is cut to max_length tokens; one of which a tokenizer leaves
    nothing is one unknown token. Raises UserError as `sentences` does, or if the tokenizer knows less than half of the
    words.
    """
    store = sentences(source, content, folder, once)
    key = [FORMAT, content, store.told["files"], tokenizer_fingerprint(tokenizer), max_length]
    pieces = _pieces(source, store, tokenizer, max_length)
    return corpora.stored_pieces(Store(folder, key, once), content, tokenizer, pieces)


class SentenceText(CorpusText):
    """The N sentences of a corpus as a tokenizer reads them, the same in every epoch. Nothing in them is to predict."""

    def batch(self, index: Tensor, device: torch.device | None = None, epoch: int = 0) -> Batch:
        """These sentences, padded to the longest. index: (B,), which are also the batch's ids."""
        encoding = self.encoding(*self.padded(index), device)
        return Batch(index, torch.zeros(len(index), device=device), (encoding,))


def _write(source: str, path: Path) -> int:
    """Write the sentences, a line each; returns their number."""
    count = 0
    with atomic_file(path) as file:
        for text in chain.from_iterable(corpora.documents(source)):
            for sentence in _split(text):
                if sum(any(map(str.isalpha, word)) for word in sentence.split(" ")) >= SHORTEST:
                    file.write(f"{sentence}\n".encode())
                    count += 1
        if not count:
            raise UserError(f"corpus {source} is empty: no sentence in it has {SHORTEST} words")
    return count


def _split(document: str) -> Iterator[str]:
    """The sentences of a document, none of its words lost."""
    from pysbd import Segmenter

    # The processor gives the sentences that `segment` then looks for from the beginning of the text, one by one.
    processor = Segmenter(language="en", clean=False).processor
    for part in _parts(document):
        start = 0
        for sentence in processor(part).process():
            found = part.find(sentence, start)
            if found >= 0:  # otherwise pysbd changed a character, and the sentence joins the next one
                end = found + len(sentence)
                yield part[start:end].strip(" ")
                start = end
        yield part[start:].strip(" ")


def _parts(document: str) -> Iterator[str]:
    """A document in parts of at most PART characters, cut where a sentence surely ends if any; spaces are single."""
    for line in document.splitlines():
        start = 0
        while len(line) - start > PART:
            sure = [match.end() for match in _SURE.finditer(line, start, start + PART)]
            end = sure[-1] if sure else line.rfind(" ", start, start + PART) + 1 or start + PART
            yield " ".join(line[start:end].split())
            start = end
        yield " ".join(line[start:].split())


def _pieces(
    source: str, store: Store, tokenizer: PreTrainedTokenizerBase, max_length: int
) -> Iterator[list[np.ndarray]]:
    """The token ids of every sentence, (L,) each, some at a time."""
    special = tokenizer.num_special_tokens_to_add()
    nothing = [tokenizer.unk_token_id if tokenizer.unk_token_id is not None else tokenizer.pad_token_id or 0]
    words = unknown = 0
    found = texts(store)
    while block := list(islice(found, BLOCK)):
        encoded = tokenizer(block, truncation=True, max_length=max_length, verbose=False)["input_ids"]
        pieces = [np.array(ids or nothing) for ids in encoded]
        words += sum(map(len, pieces)) - special * len(pieces)
        unknown += sum(int((piece == tokenizer.unk_token_id).sum()) for piece in pieces)
        yield pieces
    corpora.refuse_unknown(source, tokenizer, words, unknown)
