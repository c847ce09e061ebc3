"""Word vectors from files: GloVe text, word2vec text (a first line "count width") and word2vec binary (.bin).

A matrix is a row of its n * n numbers. Files are read as a stream: what is not asked for is never kept.
"""

from __future__ import annotations

import mmap
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor

from harness.errors import UserError, unknown

LONGEST = 1 << 20  # bytes of a line, and of a word in a binary file
COMMON = 100_000  # candidates for neighbours: such files begin with the most frequent words; as TinyBERT's code does
BLOCK = 256  # words whose neighbours are sought at once
_HEADER = re.compile(rb"\s*(\d+) (\d+)\s*")
Found = tuple[int, bytes, bytes]  # number of its line (of its vector in a binary file), the word, its numbers


def canonical_init(student: str, init: str, others: Sequence[str] = ()) -> str:
    """The one spelling of "random" or "vectors:FILE", what a student of word vectors starts from; or one of `others`.

    Raises UserError for anything else.
    """
    kind, _, file = (part.strip() for part in init.partition(":"))
    known = ("random", *others)
    if init.strip() in known or (kind == "vectors" and file):
        return init.strip()
    raise unknown(f"initialisation of student {student}", init, [*known, "vectors:FILE", "vectors:glove"])


@dataclass(frozen=True)
class _Layout:
    """What a file's first line tells. count: the vectors that a header announces; None without a header."""

    path: Path
    binary: bool
    count: int | None
    width: int

    @property
    def unit(self) -> str:
        return "vector" if self.binary else "line"

    def where(self, number: int) -> str:
        return f"{self.path}, {self.unit} {number}"


def width_of(path: Path) -> int:
    """How many numbers the vectors in the file have, from its first line. Raises UserError as `read` does."""
    return _layout(Path(path)).width


def read(path: Path, words: Sequence[str], width: int | None = None) -> tuple[Tensor, Tensor]:
    """The vectors of these words: (N, width) float32, zero where the file lacks the word, and (N,) bool, found.

    A word is found as it is spelled, upper and lower case apart; a WordPiece continuation such as "##ing" therefore
    only in a file that lists it so, which files of words never do. Of the lines of other words the columns are
    counted, but their numbers are not read.

    Raises UserError, naming file and line, where the file is missing, empty, not UTF-8 or broken, holds a word twice,
    disagrees with its header, or holds vectors of another width than the one asked for.
    """
    layout = _layout(Path(path))
    if width is not None and layout.width != width:
        raise UserError(f"{path} holds vectors of {layout.width} numbers where {width} are needed")
    places: dict[bytes, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(word.encode(), []).append(place)
    rows = np.zeros((len(words), layout.width), np.float32)
    lines: dict[bytes, int] = {}
    for number, spelled, numbers in _vectors(layout):
        if spelled in places:
            if spelled in lines:
                raise UserError(
                    f"{layout.where(number)}: {spelled.decode()!r} is already in {layout.unit} {lines[spelled]}"
                )
            lines[spelled] = number
            rows[places[spelled]] = _parse(layout, number, numbers)
    found = np.array([word.encode() in lines for word in words], bool)
    return torch.from_numpy(rows), torch.from_numpy(found)


def nearest(path: Path, words: Sequence[str], k: int, candidates: int = COMMON) -> dict[str, list[str]]:
    """The k nearest words of each of these words that the file holds, by the cosine of their vectors, nearest first.

    Neighbours come from the file's first `candidates` words, are made of letters alone and differ from the word in
    more than case. Raises UserError as `read` does.
    """
    known, against = _common(_layout(Path(path)), candidates)
    rows, found = read(path, words)
    asked = [word for word, there in zip(words, found.tolist(), strict=True) if there]
    if not asked or not known:
        return {}
    spellings: dict[str, list[int]] = {}
    for place, name in enumerate(known):
        spellings.setdefault(name.lower(), []).append(place)
    neighbours = {}
    for start, block in zip(range(0, len(asked), BLOCK), rows[found].split(BLOCK), strict=True):
        cosines = F.normalize(block, dim=1) @ against.T  # (BLOCK, candidates)
        for i, word in enumerate(asked[start : start + BLOCK]):
            cosines[i, spellings.get(word.lower(), [])] = -torch.inf
        cosines[~block.any(1)] = -torch.inf  # a vector of zeros has no direction
        best = cosines.topk(min(k, len(known)), dim=1)
        for i, word in enumerate(asked[start : start + BLOCK]):
            places = best.indices[i, best.values[i] > -torch.inf].tolist()
            neighbours[word] = [known[place] for place in places]
    return neighbours


def _common(layout: _Layout, count: int) -> tuple[list[str], Tensor]:
    """The words of letters alone among the file's first `count`, (N,), and their vectors at length 1, (N, width)."""
    found: dict[str, np.ndarray] = {}
    for number, word, numbers in islice(_vectors(layout), count):
        if word.decode().isalpha():
            row = _parse(layout, number, numbers)
            if row.any():
                found.setdefault(word.decode(), row)
    rows = np.array(list(found.values()), np.float32).reshape(-1, layout.width)
    return list(found), F.normalize(torch.from_numpy(rows), dim=1)


def _layout(path: Path) -> _Layout:
    try:
        with open(path, "rb") as file:
            first = file.readline(LONGEST)
    except FileNotFoundError as error:
        raise UserError(f"word-vector file {path} does not exist") from error
    except OSError as error:
        raise UserError(f"word-vector file {path} cannot be read: {error.strerror}") from error
    if not first.strip():
        raise UserError(f"word-vector file {path} is empty" if not first else f"{path}, line 1: an empty line")
    header, binary = _HEADER.fullmatch(first), path.suffix == ".bin"
    if header:
        count, width = int(header[1]), int(header[2])
        if not count or not width:
            raise UserError(f"{path}, line 1: {count} vectors of {width} numbers are not word vectors")
        return _Layout(path, binary, count, width)
    if binary:
        raise UserError(f'{path}, line 1: a binary file of word vectors begins with a line "count width"')
    width = first.rstrip(b" \r\n").count(b" ")
    if not width or len(first) == LONGEST:
        raise UserError(f"{path}, line 1: a word and its numbers are expected, separated by single spaces")
    return _Layout(path, False, None, width)


def _vectors(layout: _Layout) -> Iterator[Found]:
    """Every vector of the file; its form is checked, its numbers are not parsed."""
    held = 0
    for number, word, numbers in (_binary if layout.binary else _text)(layout):
        held += 1
        try:
            word.decode()
        except UnicodeDecodeError as error:
            raise UserError(f"{layout.where(number)}: not UTF-8 text ({error.reason})") from error
        yield number, word, numbers
    if layout.count not in (None, held):
        raise UserError(f"{layout.path}: its first line says {layout.count} vectors, but it holds {held}")


def _text(layout: _Layout) -> Iterator[Found]:
    with open(layout.path, "rb") as file:
        if layout.count is not None:
            file.readline()
        first = 1 if layout.count is None else 2
        for number, line in enumerate(iter(lambda: file.readline(LONGEST), b""), first):
            line = line.rstrip(b" \r\n")
            columns = line.count(b" ")
            if columns == layout.width:
                word, _, numbers = line.partition(b" ")
            else:
                # GloVe 840B holds words with spaces in them (". . ."); a number too many is no such word
                word, *last = line.rsplit(b" ", layout.width)
                numbers = b" ".join(last)
                if columns < layout.width or not all(part and not _is_number(part) for part in word.split(b" ")[1:]):
                    message = f"a word and {layout.width} numbers are expected, not {columns + 1} columns"
                    raise UserError(f"{layout.where(number)}: {message}")
            yield number, word, numbers


def _binary(layout: _Layout) -> Iterator[Found]:
    size = 4 * layout.width
    with open(layout.path, "rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        place, number = data.find(b"\n") + 1, 0
        while place < len(data):
            if data[place : place + 1] == b"\n":  # the original program ends each vector with one, others do not
                place += 1
                continue
            number += 1
            end = data.find(b" ", place, place + LONGEST)
            if end < 0 or end + 1 + size > len(data):
                raise UserError(f"{layout.where(number)}: the file ends inside it, or is not a binary file of vectors")
            yield number, data[place:end], data[end + 1 : end + 1 + size]
            place = end + 1 + size


def _parse(layout: _Layout, number: int, numbers: bytes) -> np.ndarray:
    """(width,) float32"""
    try:
        row = np.frombuffer(numbers, "<f4") if layout.binary else np.array(numbers.split(b" "), np.float32)
    except ValueError as error:
        wrong = next(part for part in numbers.split(b" ") if not _is_number(part))
        raise UserError(f"{layout.where(number)}: {wrong.decode(errors='replace')!r} is not a number") from error
    if not np.isfinite(row).all():
        raise UserError(f"{layout.where(number)}: a number is infinite or not a number")
    return row


def _is_number(part: bytes) -> bool:
    try:
        float(part)
    except ValueError:
        return False
    return True
