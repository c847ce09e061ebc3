"""Unlabelled text: where it comes from, and the store of its tokens that training reads.

Text is read as a stream and never held in memory as a whole. A store has two flat files, of token ids and of where each
piece begins.
"""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from harness.data import embedded
from harness.data.encoding import tokenizer_fingerprint
from harness.data.places import kind_at, refuse_unread
from harness.data.store import Once, Store, alone
from harness.errors import UserError, near
from harness.files import atomic_file, canonical, content_of
from harness.folders import cannot_read

SENTENCES = 20_000  # texts drawn from our own grammar
LONGEST = 10_000_000  # bytes of a line, and of a document between blank lines; a longer line is refused
HEAD = 1000  # lines that decide how a file separates its documents
BLOCK = 1_000_000  # characters tokenised at once
PART = 100_000  # characters of a document tokenised as one text, lest a long one cost a gigabyte
AT_ONCE = 10_000  # pieces written at once
SHORTEST = 3  # tokens of a piece that are not special; there is nothing to predict from fewer
FORMAT = 1
FILES = ("tokens.bin", "offsets.bin")
NAMED = ("embedded", "pydoc", "hub:wikipedia", "hub:bookcorpus")
HUB: dict[str, tuple[str, str | None]] = {
    "wikipedia": ("wikimedia/wikipedia", "20231101.en"),
    "bookcorpus": ("rojagtap/bookcorpus", None),  # a copy without the loading script that `datasets` no longer runs
}


def documents(source: str) -> Iterator[tuple[str, ...]]:
    """The documents of a corpus that hold a letter, one after another: a text each, of "embedded" also pairs of texts.

    source: "embedded" (our own grammar), "pydoc" (the prose of Python's documentation, which every Python carries),
    "hub:wikipedia", "hub:bookcorpus", "hub:NAME[/CONFIGURATION]" (its column `text`), a text file, or a folder whose
    *.txt files, at any depth, are read in order of their paths; of the hub several, joined by "+". If a blank line
    stands between others among the first 1,000 lines of a file, blank lines separate its documents; otherwise each
    line is one.

    Raises UserError, naming file and line where there is one, if the corpus is missing or empty, is not UTF-8 text, or
    has a line of more than 10 MB.
    """
    if source == "embedded":
        found: Iterable[tuple[str, ...]] = embedded.corpus(SENTENCES)
    elif source == "pydoc":
        found = zip(_pydoc())
    elif source.startswith("hub:"):
        found = zip(chain.from_iterable(map(_hub, source.split("+"))))
    else:
        found = zip(chain.from_iterable(map(_file, _files(source))))
    empty = True
    for document in found:
        if any(map(str.isalpha, "".join(document))):
            empty = False
            yield document
    if empty:
        raise UserError(f"corpus {source} is empty: no document in it holds a letter")


def content(source: str) -> str:
    """SHA-256, hexadecimal, of the text: equal text anywhere, equal content. Of the hub: of name and revision."""
    whole = hashlib.sha256()
    if source in ("embedded", "pydoc"):
        for document in documents(source):
            whole.update(hashlib.sha256("\n".join(document).encode()).digest())
    elif source.startswith("hub:"):
        for part in source.split("+"):
            whole.update(canonical([*_hub_name(part), _revision(part)]).encode())
    else:
        for path in _files(source):
            whole.update(bytes.fromhex(content_of(path)))
    return whole.hexdigest()


def check_name(source: str) -> None:
    """Raise UserError for what begins as a corpus of the hub, but names no data set. Nothing is looked up."""
    for part in source.split("+") if source.startswith("hub:") else ():
        _hub_name(part)


def check_unchanged(source: str, planned: str) -> None:
    """Raise UserError if the content of a corpus is not that of the plan."""
    if content(source) != planned:
        raise UserError(f"corpus {source} changed since the study was planned; give the command again")


# ---------------------------------------------------------------- sources


def _files(source: str) -> list[Path]:
    root = Path(source)
    kind = kind_at(root)
    if kind == "folder":
        below = (Path(folder) / name for folder, _, names in os.walk(root, onerror=refuse_unread) for name in names)
        found = sorted((path for path in below if path.name.endswith(".txt") and kind_at(path)),
                       key=lambda path: path.relative_to(root).as_posix())  # fmt: skip
        if not found:
            raise UserError(f"corpus folder {source} has no .txt file")
        return found
    if not kind:
        raise UserError(f"corpus {source} does not exist; give a text file, a folder or a name: {near(source, NAMED)}")
    return [root]


def _lines(path: Path) -> Iterator[str]:
    """The file's lines. Only line feeds end one."""
    try:
        with open(path, "rb") as file:
            for number, line in enumerate(iter(lambda: file.readline(LONGEST + 1), b""), 1):
                if len(line) > LONGEST:
                    raise UserError(f"{path}, line {number}: longer than {LONGEST // 10**6} MB, the limit for one line")
                if b"\0" in line:
                    raise UserError(f"{path}, line {number}: a NUL byte, so this is not a text file")
                try:
                    yield line.decode("utf-8-sig" if number == 1 else "utf-8").rstrip("\r\n")
                except UnicodeDecodeError as error:
                    raise UserError(f"{path}, line {number}: not UTF-8 text ({error.reason})") from error
    except OSError as error:
        raise cannot_read(path, error) from error


def _file(path: Path) -> Iterator[str]:
    shape = "".join("x" if line.strip() else " " for line in islice(_lines(path), HEAD))
    if " " not in shape.strip():
        yield from _lines(path)
        return
    lines: list[str] = []
    size = 0
    for line in _lines(path):
        size += len(line)
        if lines and (not line.strip() or size > LONGEST):
            yield " ".join(lines)
            lines, size = [], len(line)
        if line.strip():
            lines.append(line.strip())
    yield " ".join(lines)


def _pydoc() -> Iterator[str]:
    """The paragraphs of Python's reference manual that are sentences: no headings, tables, grammar rules or code."""
    from pydoc_data.topics import topics

    for name in sorted(topics):
        for block in re.split(r"\n\s*\n", topics[name]):
            text = re.sub(r"(?<=\w-)\n\s*", "", block.strip())  # a line may end at the hyphen of a compound
            text = re.sub(r"^(\*|\[\d+\]|\d+\.)\s+", "", " ".join(text.split()))  # the mark of an item or a footnote
            text = re.sub(r"(?<!\w)\*{1,2}(\w[^*]*)\*{1,2}", r"\1", text)  # emphasis
            sentence = re.fullmatch(r"""["“(]?[A-Z].*[.:!?]["”)]?""", text) and len(text.split()) > 5
            if sentence and not re.search("::=|>>>", text):
                yield text


def _hub_name(source: str) -> tuple[str, str | None]:
    """(data set, configuration)"""
    name = source.removeprefix("hub:")
    if not name.strip("/ "):
        raise UserError(f"corpus {source!r} names no data set; write hub:NAME or hub:NAME/CONFIGURATION")
    parts = name.split("/")
    return HUB.get(name) or ("/".join(parts[:2]), "/".join(parts[2:]) or None)


@contextmanager
def _refusing(source: str) -> Iterator[None]:
    """Turn whatever the hub's clients raise, which have no common base, into one sentence."""
    try:
        yield
    except Exception as error:
        told = " ".join(str(error).split()) or type(error).__name__
        raise UserError(
            f"corpus {source} cannot be read from the hub ({_hub_name(source)[0]}): {told}; "
            "give a text file or a folder of .txt files, or pydoc, which needs no network"
        ) from error


def _revision(source: str) -> str:
    from huggingface_hub import HfApi

    with _refusing(source):
        return str(HfApi().dataset_info(_hub_name(source)[0]).sha)


def _hub(source: str) -> Iterator[str]:
    import datasets

    name, configuration = _hub_name(source)
    revision = _revision(source)
    with _refusing(source):
        rows = iter(datasets.load_dataset(name, configuration, split="train", streaming=True, revision=revision))
    while True:
        with _refusing(source):
            row = next(rows, None)
        if row is None:
            return
        if not isinstance(row.get("text"), str):
            raise UserError(f"corpus {source} has no column text that holds texts: {near('text', row)}")
        yield row["text"]


# ---------------------------------------------------------------- the store of tokens


class Corpus:
    """A store, opened: N pieces of text as token ids. Only where they begin is held in memory.

    content: the corpus's; tokens: how many there are in all, special ones included; pairs: whether a separator within a
    piece divides two texts.
    """

    def __init__(self, store: Store):
        tokens, offsets = (store.folder / name for name in FILES)
        self.content: str = store.told["content"]
        self.pairs: bool = store.told.get("pairs", False)
        self.key = store.folder.name  # of text, tokenizer and length
        self._offsets = np.fromfile(offsets, np.int64)
        self._tokens = np.memmap(tokens, store.told["dtype"], "r")
        self.tokens = len(self._tokens)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def lengths(self) -> Tensor:
        """(N,) int64 tokens of each piece"""
        return torch.from_numpy(np.diff(self._offsets))

    def piece(self, i: int) -> np.ndarray:
        """(L,) token ids of piece i, not to be written to"""
        return self._tokens[self._offsets[i] : self._offsets[i + 1]]


def tokenised(
    source: str,
    content: str,
    tokenizer: PreTrainedTokenizerBase,
    max_length: int,
    folder: Path,
    packed: bool = False,
    once: Once = alone,
) -> Corpus:
    """The store of a corpus, whose content is given, built below `folder` unless it is there already.

    Every document is cut into pieces of at most max_length tokens, a long one also every 100,000 characters. The first
    token of a piece is [CLS] and the last [SEP], or what the tokenizer puts there; between the texts of a pair is
    [SEP]. Pieces of fewer than three ordinary tokens are left out. Of many processes that ask, one builds and the
    others wait: see `Store`.

    packed: texts, which may be single sentences, are whole parts of pieces, as many in each as fit, in their order
    and with nothing between them (the full sentences of Liu et al., 2019, section 4.2, whose separator between texts
    needs to know where one ends). One that is longer than a piece is cut as ever, and its last part packed.

    Raises UserError as `documents` does, if the tokenizer has no such tokens or knows less than half of the text, or
    if the store cannot be written.
    """
    if tokenizer.cls_token_id is None or tokenizer.sep_token_id is None:
        raise UserError(f"the tokenizer of {tokenizer.name_or_path or 'the model'} has no [CLS] and [SEP] tokens")
    if max_length < SHORTEST + 2:
        raise UserError(f"max_length must be at least {SHORTEST + 2} for a corpus, not {max_length}")
    key = [FORMAT, content, tokenizer_fingerprint(tokenizer), max_length, *(["packed"] if packed else [])]
    if (around := _around(tokenizer)) != [tokenizer.cls_token_id, tokenizer.sep_token_id]:
        key.append(around)  # not what earlier versions stored
    pieces = _pieces(source, content, tokenizer, max_length, packed)
    told = {"pairs": True} if source == "embedded" and not packed else {}
    return stored_pieces(Store(folder, key, once), content, tokenizer, pieces, **told)


def _around(tokenizer: PreTrainedTokenizerBase) -> list[int]:
    """What a tokenizer puts before and after a text, as XLM "<s>"; [CLS] and [SEP] where not a token at each end."""
    text, whole = (tokenizer("a", add_special_tokens=special)["input_ids"] for special in (False, True))
    if len(whole) == len(text) + 2 and whole[1:-1] == text:
        return [whole[0], whole[-1]]
    return [tokenizer.cls_token_id, tokenizer.sep_token_id]


def _pieces(
    source: str, planned: str, tokenizer: PreTrainedTokenizerBase, max_length: int, packed: bool
) -> Iterator[list[np.ndarray]]:
    """The token ids of every piece, (L,) each, some at a time. Raises UserError if the corpus is changed meanwhile."""
    ordinary = np.ones(len(tokenizer), bool)
    ordinary[tokenizer.all_special_ids] = False
    first, last = ([token] for token in _around(tokenizer))
    parts = _cut(source, tokenizer, max_length - 2, [] if packed else [tokenizer.sep_token_id])
    found = _packed(parts, max_length - 2) if packed else parts
    whole = (np.concatenate([first, part, last]) for part in found if ordinary[part].sum() >= SHORTEST)
    empty = True
    while pieces := list(islice(whole, AT_ONCE)):
        empty = False
        yield pieces
    if empty:
        raise UserError(f"corpus {source} is empty: no document in it has {SHORTEST} tokens")
    check_unchanged(source, planned)


def _cut(
    source: str, tokenizer: PreTrainedTokenizerBase, longest: int, between: list[int]
) -> Iterator[np.ndarray]:
    """The token ids of all documents, in parts of at most `longest`. between: of a pair; if empty it is two texts."""
    words = unknown = 0
    for block in _blocks(documents(source)):
        texts = [text for document in block for text in document]
        found = map(np.array, tokenizer(texts, add_special_tokens=False, verbose=False)["input_ids"])
        for document in block:
            read = [next(found) for _ in document]
            words += sum(map(len, read))
            unknown += sum(int((ids == tokenizer.unk_token_id).sum()) for ids in read)
            whole = [np.concatenate([read[0], between, read[1]])] if between and len(read) == 2 else read
            yield from (ids[start : start + longest] for ids in whole for start in range(0, len(ids), longest))
    refuse_unknown(source, tokenizer, words, unknown)


def _packed(parts: Iterable[np.ndarray], longest: int) -> Iterator[np.ndarray]:
    """Parts that follow each other, joined as long as they fit into `longest` tokens."""
    together: list[np.ndarray] = []
    size = 0
    for part in parts:
        if together and size + len(part) > longest:
            yield np.concatenate(together)
            together, size = [], 0
        together.append(part)
        size += len(part)
    if together:
        yield np.concatenate(together)


def _blocks(found: Iterable[tuple[str, ...]]) -> Iterator[list[tuple[str, ...]]]:
    """Documents in lists of about a million characters."""
    block: list[tuple[str, ...]] = []
    size = 0
    for document in found:
        for part in [document] if len(document) == 2 else zip(_parts(*document)):
            block.append(part)
            size += sum(map(len, part))
            if size >= BLOCK:
                yield block
                block, size = [], 0
    if block:
        yield block


def _parts(document: str) -> Iterator[str]:
    start = 0
    while len(document) - start > PART:
        end = max(document.rfind(" ", start + 1, start + PART), 0) or start + PART
        yield document[start:end]
        start = end
    yield document[start:]


def stored_pieces(
    store: Store, content: str, tokenizer: PreTrainedTokenizerBase, blocks: Iterable[list[np.ndarray]], **told: Any
) -> Corpus:
    """The store, opened; made unless it is whole. blocks: lists of pieces, (L,) token ids each, read only then.

    told: what else the store says of itself.
    """
    with store.held(*FILES) as whole:
        if not whole:
            end, dtype = 0, "<u2" if len(tokenizer) <= 1 << 16 else "<i4"
            paths = [store.folder / name for name in FILES]
            with atomic_file(paths[0]) as tokens, atomic_file(paths[1]) as offsets:
                offsets.write(np.zeros(1, "<i8").tobytes())
                for pieces in filter(None, blocks):
                    ends = end + np.cumsum([len(piece) for piece in pieces])
                    end = int(ends[-1])
                    tokens.write(np.concatenate(pieces).astype(dtype).tobytes())
                    offsets.write(ends.astype("<i8").tobytes())
            store.vouch(*FILES, content=content, dtype=dtype, **told)
    return Corpus(store)


def refuse_unknown(source: str, tokenizer: PreTrainedTokenizerBase, words: int, unknown: int) -> None:
    """Raise UserError if more than half of a corpus's words, or pieces of words, are unknown to the tokenizer."""
    if 2 * unknown > words:
        name, known = tokenizer.name_or_path or "the model", 100 * (words - unknown) // words
        raise UserError(f"the tokenizer of {name} knows only {known}% of the words of corpus {source}")
