"""GPT-2's byte-level BPE numbered by a fairseq dictionary, as fairseq's RoBERTa reads text.

encoder.json maps each piece to its GPT-2 id and vocab.bpe lists the merges (Radford et al. 2019); the symbols of
dict.txt are those ids as text, and a symbol's place in it is the id that the model knows. fairseq is not needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from tokenizers import AddedToken
from transformers import PreTrainedTokenizerFast, RobertaTokenizerFast

from harness.errors import UserError

SPECIAL = ("<s>", "<pad>", "</s>", "<unk>")  # what every fairseq dictionary begins with, never written in dict.txt
MASK = "<mask>"
UNKNOWN = "<unk>"
_OVERWRITE = "#fairseq:overwrite"
FILLER = re.compile(r"madeupword\d+")  # fairseq fills dictionaries up to a multiple of 8
_UNMADE = re.compile(rf"{FILLER.pattern}|<.+>")  # pieces that no merge makes, such as <|endoftext|>


class _IncompleteTokenizer(RobertaTokenizerFast):
    """A tokenizer some of whose pieces the dictionary lacks: they stand after <mask> and are read as <unk>.

    They must be there, since merges lead through them. Only this class reads them so: saved and loaded again as
    another, the tokenizer has more tokens than the model.
    """

    def __len__(self) -> int:
        return int(self.mask_token_id) + 1

    def _convert_encoding(self, *args: Any, **kwargs: Any) -> tuple[dict[str, Any], list[Any]]:
        found, encodings = super()._convert_encoding(*args, **kwargs)
        known, unknown = len(self), self.unk_token_id
        found["input_ids"] = [[i if i < known else unknown for i in ids] for ids in found["input_ids"]]
        return found, encodings


def dictionary(path: Path) -> list[str]:
    """The symbols of a fairseq dict.txt in order of id, the four special ones first, without <mask>.

    A symbol that a later line overwrites keeps its place and has the later place as its id.
    Raises UserError, naming file and line, where a line is not "SYMBOL COUNT" or repeats a symbol.
    """
    lines = _text(path).removesuffix("\n").split("\n")
    symbols, seen = list(SPECIAL), set(SPECIAL)
    for number, line in enumerate(lines, 1):
        parts = line.rstrip().rsplit(" ", 1)
        overwrite = parts[-1] == _OVERWRITE
        if overwrite:
            parts = parts[0].rsplit(" ", 1)
        if len(parts) != 2 or not re.fullmatch(r"[+-]?\d+", parts[1]):
            raise UserError(f"{path}, line {number}: {line.strip()!r} is not a symbol and its count")
        if parts[0] in seen and not overwrite:
            raise UserError(f"{path}, line {number}: symbol {parts[0]!r} appears twice, without {_OVERWRITE}")
        seen.add(parts[0])
        symbols.append(parts[0])
    if symbols[-1] == MASK:
        symbols.pop()
    if MASK in symbols:
        raise UserError(f"{path}, line {symbols.index(MASK) - len(SPECIAL) + 1}: {MASK} must be the last symbol")
    return symbols


def tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer of a fairseq RoBERTa: encoder.json, vocab.bpe and dict.txt in one folder.

    Ids are places in the dictionary, <mask> the last; `<s> a </s>` and `<s> a </s></s> b </s>`, no space put before a
    text. A piece that the dictionary lacks is read as <unk>; such a tokenizer cannot be loaded by AutoTokenizer, any
    other can. Raises UserError for files that are missing, broken or do not belong together.
    """
    pieces = _pieces(folder / "encoder.json")
    merges = _merges(folder / "vocab.bpe", pieces)
    path = folder / "dict.txt"
    symbols = dictionary(path)
    names = {str(number): piece for piece, number in pieces.items()}
    for symbol in symbols[len(SPECIAL) :]:
        if symbol not in names and not FILLER.fullmatch(symbol):
            raise UserError(f"{path}: symbol {symbol!r} is not the id of a piece in {folder / 'encoder.json'}")
    place = {symbol: i for i, symbol in enumerate(symbols)}
    # A place whose symbol was overwritten is nobody's id, but numbering must have no holes.
    vocabulary = {names.get(s, s) if place[s] == i else f"<overwritten {i}>": i for i, s in enumerate(symbols)}
    vocabulary[MASK] = len(symbols)
    lacking = [piece for piece in pieces if piece not in vocabulary]
    for piece in lacking:
        vocabulary[piece] = len(vocabulary)
    kind: Any = _IncompleteTokenizer if lacking else RobertaTokenizerFast  # its annotations are narrower than its rules
    # As fairseq fills in masks: the space before one belongs to it.
    mask = AddedToken(MASK, lstrip=True, special=True)
    return kind(vocab=vocabulary, merges=merges, mask_token=mask)


def decoder(encoder_json: Path) -> Callable[[Iterable[str]], str]:
    """A function from the symbols of one text (GPT-2 ids as text) to the text that they were made of, exactly.

    It writes <unk> as "<unk>", which `tokenizer` reads as the unknown token again, and a character of which only a
    part is left beside one as U+FFFD. The function raises UserError for symbols that no piece in the file has and for
    bytes that are no text; `decoder` itself for a missing or broken file.
    """
    characters = {character: byte for byte, character in _byte_characters().items()}
    spelled = {
        str(number): bytes(characters[character] for character in piece)
        for piece, number in _pieces(encoder_json).items()
        if all(character in characters for character in piece)
    }
    spelled[UNKNOWN] = UNKNOWN.encode()

    def decode(symbols: Iterable[str]) -> str:
        symbols = list(symbols)
        try:
            joined = b"".join([spelled[symbol] for symbol in symbols])
        except KeyError as error:
            raise UserError(f"{encoder_json} has no piece with the id {error.args[0]!r}") from error
        try:
            return joined.decode(errors="replace" if UNKNOWN in symbols else "strict")
        except UnicodeDecodeError as error:
            raise UserError(f"the pieces of {encoder_json} do not join to UTF-8 text: {error.reason}") from error

    return decode


def _byte_characters() -> dict[int, str]:
    """The printable character that stands for each byte: itself where it has one, else the next from U+0100 on."""
    printable = set(chain(range(0x21, 0x7F), range(0xA1, 0xAD), range(0xAE, 0x100)))
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte if byte in printable else 256 + others.index(byte)) for byte in range(256)}


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 text ({error.reason})") from error


def _pieces(path: Path) -> dict[str, int]:
    """encoder.json: every piece and its GPT-2 id, all different, single bytes among them."""
    try:
        found = json.loads(_text(path))
    except ValueError as error:
        raise UserError(f"{path} is not JSON: {error}") from error
    if not isinstance(found, dict) or not all(type(number) is int for number in found.values()):
        raise UserError(f"{path} must map every piece of text to its id, a whole number")
    if len(set(found.values())) < len(found):
        raise UserError(f"{path} gives several pieces the same id")
    if missing := [character for character in _byte_characters().values() if character not in found]:
        raise UserError(f"{path} has no piece for {len(missing)} of the 256 bytes, such as {missing[0]!r}")
    if named := [symbol for symbol in (*SPECIAL, MASK) if symbol in found]:
        raise UserError(f"{path} has a piece {named[0]!r}, which is the name of a special token")
    return found


def _merges(path: Path, pieces: dict[str, int]) -> list[tuple[str, str]]:
    """vocab.bpe: a line with the version, then two pieces a line, the first to merge first.

    Raises UserError where a piece is never made, as of a file that is not whole: texts would be cut otherwise.
    """
    merges = []
    # fairseq too leaves out what follows the last line feed
    for number, line in enumerate(_text(path).split("\n")[1:-1], 2):
        parts = line.split()
        if len(parts) != 2 or not {*parts, "".join(parts)} <= pieces.keys():
            raise UserError(f"{path}, line {number}: {line!r} does not merge two pieces of encoder.json into a third")
        merges.append((parts[0], parts[1]))
    made = {*map("".join, merges)}
    if lost := [piece for piece in pieces if len(piece) > 1 and piece not in made and not _UNMADE.fullmatch(piece)]:
        raise UserError(f"{path} is incomplete: no line makes {len(lost)} pieces of encoder.json, such as {lost[0]!r}")
    return merges
