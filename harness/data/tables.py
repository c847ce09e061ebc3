"""Tables of examples, row by row, each with the place where it stands: csv, tsv, jsonl, json, parquet, data sets.

Text files are read here and not by `datasets`, which tells no line of what is wrong in them, takes "NA" and "null" for
no text, and copies every file into its cache.
"""

from __future__ import annotations

import csv
import json
import logging
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from pathlib import Path
from typing import Any

from harness.data.places import entries, kind_at
from harness.data.sources import lines
from harness.errors import UserError, counted, near

Columns = Mapping[str, Any]  # name -> value
Row = tuple[str, Columns]  # ("FILE, line N", column -> value)
Read = Callable[[Path], Iterable[str]]  # the lines of a file, as `sources.lines` gives them
SHOWN = 5  # parts that are missing, by name
DELIMITERS = {"comma": ",", "tab": "\t", "semicolon": ";", "bar": "|"}
TABBED = (".tsv", ".tab", ".txt")
# The number of a part: train-3, train-00003-of-00008, and as the hub writes it train-00003-of-00008-1a2b3c4d5e6f7a8b.
_PART = re.compile(r"(.+?)-(\d{1,9})(-?of-?(\d{1,9}))?(-[0-9a-f]{16})?", re.ASCII)


def rows_of(path: Path, settings: Mapping[str, str]) -> Iterator[Row]:
    """The rows of a file. settings: `columns` and `delimiter` as `declaration.SETTINGS` has them.

    Raises UserError, with the line where there is one, for a file that cannot be read, is broken, or whose rows differ
    in their columns.
    """
    suffix = path.suffix.lower()
    if suffix not in READERS:
        raise UserError(f"{path}: data are read from {', '.join(sorted(READERS))} files, not {suffix or 'others'}")
    for name in ("columns", "delimiter"):
        if name in settings and suffix not in (".csv", *TABBED):
            raise UserError(f"{path} names its own columns: setting {name} is only for delimited files, such as .csv")
    if kind_at(path) == "folder":
        raise UserError(f"{path} is a folder, but must be a file of examples")
    return READERS[suffix](path, settings, lines)


def _delimited(path: Path, settings: Mapping[str, str], read: Read) -> Iterator[Row]:
    """A header and lines; fields between commas may be quoted, those between tabs are as they stand."""
    tabbed = path.suffix.lower() in TABBED
    named = settings.get("delimiter", "tab" if tabbed else "comma")
    if named not in DELIMITERS:
        raise UserError(f"delimiter {named!r} is not one of {', '.join(DELIMITERS)}")
    text = read(path)
    split = ((number, line.split("\t")) for number, line in enumerate(text, 1) if line)
    found = split if named == "tab" else _quoted(path, text, DELIMITERS[named])
    header = [name.strip() for name in settings["columns"].split(",")] if "columns" in settings else []
    at = "the setting columns" if header else f"{path}, line 1: the header"
    if not header:
        header = [name.strip() for name in next(found, (0, []))[1]]
    for name in header:
        if header.count(name) > 1:
            raise UserError(f"{at} names the column {name!r} {header.count(name)} times")
    for number, fields in found:
        if len(fields) != len(header):
            raise UserError(
                f"{path}, line {number}: {counted(len(fields), 'column')} split by {named}s, but {at} has {len(header)}"
            )
        yield f"{path}, line {number}", dict(zip(header, fields, strict=True))


def _quoted(path: Path, found: Iterable[str], delimiter: str) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(sys.maxsize)
    reader = csv.reader((f"{line}\n" for line in found), delimiter=delimiter, strict=True)
    while True:
        number = reader.line_num + 1  # a quoted field may go on over lines
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            what = "a quoted field is never closed" if "end of data" in str(error) else str(error)
            if "new-line character" in what:
                what = "a carriage return inside a line, but lines must end with a line feed"
            raise UserError(f"{path}, line {number}: {what}") from error
        if fields:
            yield number, fields


def _json_lines(path: Path, settings: Mapping[str, str], read: Read) -> Iterator[Row]:
    for number, line in enumerate(read(path), 1):
        if line.strip():
            where = f"{path}, line {number}"
            yield where, _object(where, _parsed(where, line))


def _json(path: Path, settings: Mapping[str, str], read: Read) -> Iterator[Row]:
    """A list of objects, or an object that holds one list, as `datasets` writes and reads them."""
    found = _parsed(str(path), "\n".join(read(path)))
    if isinstance(found, dict):
        lists = [value for value in found.values() if isinstance(value, list)]
        found = lists[0] if len(lists) == 1 else found
    if not isinstance(found, list):
        raise UserError(f"{path} must be or contain one list of objects; for one object a line, use .jsonl")
    for number, one in enumerate(found, 1):
        yield f"{path}, example {number}", _object(f"{path}, example {number}", one)


def _parsed(where: str, text: str) -> Any:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        names = [name for name, _ in pairs]
        for name in names:
            if names.count(name) > 1:
                raise UserError(f"{where}: the key {name!r} appears {names.count(name)} times in one object")
        return dict(pairs)

    try:
        return json.loads(text, object_pairs_hook=once)
    except (ValueError, RecursionError) as error:
        raise UserError(f"{where}: not JSON ({error})") from error


def _object(where: str, found: Any) -> Columns:
    if not isinstance(found, dict):
        raise UserError(f'{where}: an example must be an object, as {{"text": ...}}, not {type(found).__name__}')
    return found


def _parquet(path: Path, settings: Mapping[str, str], read: Read) -> Iterator[Row]:
    how = {"data_files": str(path), "split": "train", "streaming": True}
    return dataset_rows(str(path), lambda: library().load_dataset("parquet", **how))


# By a file's ending: its rows, given settings as `rows_of` has them, which checks them first, and how lines are read.
READERS: dict[str, Callable[[Path, Mapping[str, str], Read], Iterator[Row]]] = {
    ".csv": _delimited,
    **dict.fromkeys(TABBED, _delimited),
    ".jsonl": _json_lines,
    ".ndjson": _json_lines,
    ".json": _json,
    ".parquet": _parquet,
}


# ---------------------------------------------------------------- of the library `datasets`


def library() -> Any:
    """The library, which is heavy. What it would log is raised and told."""
    import datasets

    datasets.utils.logging.set_verbosity(logging.CRITICAL)
    return datasets


def dataset_rows(where: str, load: Callable[[], Any]) -> Iterator[Row]:
    """The rows of what `load` gives, a Dataset or IterableDataset; a class of a ClassLabel by its name.

    Raises UserError for whatever the library finds wrong.
    """
    found = told_of(where, load)
    names = {c: f.names for c, f in (found.features or {}).items() if type(f).__name__ == "ClassLabel"}
    rows = iter(found)
    for number in range(1, sys.maxsize):
        row = told_of(where, lambda: next(rows, None))
        if row is None:
            return
        named = {c: names[c][row[c]] for c in names if row[c] is not None and 0 <= row[c] < len(names[c])}
        yield f"{where}, row {number}", {**row, **dict.fromkeys(names), **named}


def told_of(where: str, work: Callable[[], Any]) -> Any:
    """What `work` returns. Raises UserError for whatever `datasets` raises, of many libraries."""
    try:
        return work()
    except UserError:
        raise
    except Exception as error:
        told = " ".join(str(error).split()).rstrip(".") or type(error).__name__
        raise UserError(f"{where} cannot be read: {told}") from error


# ---------------------------------------------------------------- the files of a folder


def files_of(folder: Path) -> dict[str, list[Path]]:
    """The files that hold examples, by split: the file's name, without the number of a part as train-00000-of-00002.

    Raises UserError for one split in files of several kinds.
    """
    found: dict[str, list[Path]] = {}
    for path in entries(folder):
        if path.suffix.lower() not in READERS:
            continue
        part = _PART.fullmatch(path.stem)
        found.setdefault(part[1] if part else path.stem, []).append(path)
    for name, paths in found.items():
        if len({path.suffix for path in paths}) > 1:
            raise UserError(
                f"{folder} contains {name} twice: {' and '.join(path.name for path in paths)}; keep only one"
            )
    return found


def check_parts(name: str, paths: Sequence[Path]) -> None:
    """Raise UserError unless these are one split: one file, or each of its parts once.

    Where no name says how many there are, a gap in numbers from 0 or 1 on is a part that is missing.
    """
    folder, parts = paths[0].parent, [_PART.fullmatch(path.stem) for path in paths]
    ways = {"whole" if part is None else part[4]: path.name for part, path in zip(parts, paths, strict=True)}
    if len(ways) > 1:
        raise UserError(f"{folder} contains {name} in two forms, {' and '.join([*ways.values()][:2])}; keep only one")
    if parts[0] is None:
        return
    numbers = Counter(int(part[2]) for part in parts if part)
    if doubled := [path.name for part, path in zip(parts, paths, strict=True) if part and numbers[int(part[2])] > 1]:
        raise UserError(f"{folder} contains a part of {name} twice: {' and '.join(doubled[:2])}; keep only one")
    _, low, of, total, _ = parts[0].groups()
    wanted: Sequence[int] = range(min(numbers), max(numbers) + 1) if min(numbers) < 2 else list(numbers)
    if total:
        start = int(0 not in numbers and int(total) in numbers)  # some count from one
        wanted = range(start, start + int(total))
    if max(numbers) not in wanted:
        raise UserError(f"{folder} contains part {max(numbers)} of {name}, but its file names count {int(total)} parts")
    lacking = [f"{name}-{number:0{len(low)}}{of or ''}{paths[0].suffix}"
               for number in islice((number for number in wanted if number not in numbers), SHOWN)]  # fmt: skip
    if lacking:
        more = len(wanted) - len(numbers) - len(lacking)
        named = ", ".join(lacking) + (f" and {more} more" if more else "")
        are = "are" if len(lacking) > 1 else "is"
        raise UserError(f"{folder} does not contain all of {name}: {named} {are} missing")


def column(named: str, names: Sequence[str], where: str) -> str:
    """The column that a setting names. Raises UserError with near ones."""
    if named not in names:
        raise UserError(f"{where} has no column {named!r}: {near(named, names)}")
    return named
