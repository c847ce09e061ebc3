"""The one exception for a user's mistake, the wording shared by its messages, and how text from outside is shown."""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Collection, Iterable, Sequence
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from pathlib import Path
from traceback import extract_tb
from typing import Any

LONGEST = 300  # characters of a word in a sentence
COMPARED = 10_000  # names in a folder that a misspelt one is compared with

# What a terminal obeys instead of showing it: C0, DEL and C1; what ends a line or turns the direction of reading; and
# half of a pair of code units, as an undecodable file name holds it, which no encoding can write.
CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")


# Exit statuses of what is refused, apart for scripts: a mistake; what another process holds; a disk without room.
MISTAKE, IN_USE, NO_ROOM = 2, 3, 4
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def status_of(error: OSError) -> int:
    return NO_ROOM if error.errno in _FULL else MISTAKE


class UserError(Exception):
    """Bad input, told in one sentence: the thing, the rule, the nearest valid names. status: of the command's exit."""

    status = MISTAKE

    @classmethod
    def of(cls, sentence: str, status: int) -> UserError:
        made = cls(sentence)
        made.status = status
        return made

    def _render_traceback_(self) -> list[str]:
        """What a notebook shows of it: the sentence, as a command does."""
        return [f"harness: {sentence(str(self))}"]


def plain(text: str) -> str:
    r"""The text on one line, with control characters shown and not obeyed: "\x1b[2J" in place of a cleared screen."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape", "surrogatepass").decode(), text)


def sentence(text: str) -> str:
    """`plain`, with the middle of words left out that are too long to read."""
    return re.sub(rf"\S{{{LONGEST + 1},}}", lambda found: _shortened(found[0]), plain(text))


def _shortened(word: str) -> str:
    half = LONGEST // 2
    return f"{word[:half]}...({len(word) - 2 * half} more)...{word[-half:]}"


def check_text(**given: Any) -> None:
    """Raise UserError for an argument, given in Python, that is no text."""
    for name, value in given.items():
        if not isinstance(value, str):
            raise UserError(f"{name} is given as text, not {value!r}")


def check_path(**given: Any) -> None:
    """Raise UserError for an argument, given in Python, that is no path."""
    check_text(**{name: str(v) if isinstance(v, os.PathLike) else v for name, v in given.items()})


def listed(words: Iterable[str]) -> str:
    """ "a, b and c". There is at least one."""
    *first, last = words
    return f"{', '.join(first)} and {last}" if first else last


def first_of(parts: Sequence[str], most: int) -> str:
    """ "a; b; and 3 more", where there are more than `most`."""
    more = [f"and {len(parts) - most} more"] if len(parts) > most else []
    return "; ".join([*parts[:most], *more])


def counted(number: int, what: str) -> str:
    """ "1 run", "3 runs"."""
    return f"{number} {what}{'s' * (number != 1)}"


def close(name: str, valid: Iterable[str]) -> str:
    """'did you mean a or b?' where something is close, or has the name as a part or is one of it, otherwise ""."""
    valid = sorted(set(valid))
    longer = sorted((one for one in valid if _is_part(name, one)), key=len)
    shorter = [one for one in valid if _is_part(one, name)]
    found = list(dict.fromkeys([*longer, *get_close_matches(name, valid, n=3, cutoff=0.6), *shorter]))[:3]
    return f"did you mean {' or '.join(found)}?" if found else ""


def alike(path: Path, folders: bool = False, ending: str = "") -> str:
    """ ": did you mean b.csv?" of what lies where something does not exist and is called nearly so, otherwise "".

    folders: of folders alone. ending: of names that end so. Not of the name itself, which may be of a folder in place
    of a file; and of the first of very many alone, as to compare them all takes long.
    """
    there: list[str] = []
    with suppress(OSError), os.scandir(path.parent) as entries:
        for one in islice(entries, COMPARED):
            if one.name[0] != "." and one.name != path.name and one.name.endswith(ending):
                there += [one.name] if one.is_dir() or not folders else []
    meant = close(path.name, there)
    return f": {meant}" if meant else ""


def _is_part(part: str, name: str) -> bool:
    return part.lower() in re.split(r"[._+ -]", name.lower())


def near(name: str, valid: Iterable[str], limit: int = 8) -> str:
    """'did you mean a or b?' where something is close, otherwise the valid names (the first `limit`)."""
    valid = sorted(set(valid))
    if not valid:
        return "there are none"
    rest = f" and {len(valid) - limit} more" if len(valid) > limit else ""
    return close(name, valid) or f"valid names: {', '.join(valid[:limit])}{rest}"


def in_file(error: BaseException, path: str) -> str:
    """Where in a file an error comes from, ", on line 3", and the nearest names to one that something has not."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename in path]
    meant = ""
    if isinstance(error, AttributeError):
        meant = close(str(error.name), [name for name in dir(error.obj) if not name.startswith("_")])
    return f"{f', on line {lines[-1]}' if lines else ''}{f': {meant}' if meant else ''}"


def failed_at(error: BaseException, path: str) -> str:
    """ ", line 3, failed: KeyError: 'x'": where in a plugin's file its code failed, and with what."""
    lines = [frame.lineno for frame in extract_tb(error.__traceback__) if frame.filename == path]
    told = " ".join(f"{type(error).__name__}: {error}".split()).removesuffix(":")
    return f"{f', line {lines[-1]}' if lines else ''}, failed: {told}"


def first_line(error: Exception) -> str:
    """The first line of what an error says; of one that says nothing its name."""
    return (str(error).strip() or type(error).__name__).splitlines()[0]


def unknown(kind: str, name: str, valid: Iterable[str]) -> UserError:
    """The error for a name that is not among `valid`."""
    return UserError(f"unknown {kind} {name!r}: {near(name, valid)}")


def check_known(kind: str, name: str, valid: Collection[str]) -> None:
    """Raise UserError, with near names, for a name that is not among `valid`."""
    if name not in valid:
        raise unknown(kind, name, valid)
