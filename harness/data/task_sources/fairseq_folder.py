"""GLUE from the folders that fairseq's `preprocess_GLUE_tasks.sh` writes: FOLDER/RTE-bin in place of FOLDER/RTE.

In it stand input0, input1 for pairs, and label, each with dict.txt and {train,valid,test}.{bin,idx} (MNLI's mismatched
splits are valid1 and test1); the scores of STS-B, divided by 5, are lines of text in label/{train,valid}.label. The
binary files hold GPT-2 pieces, which are put together again: encoder.json is looked for in FOLDER, then in the task's
folder. The script strips blanks at both ends of a text, and lists test examples in their official order, from 0.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harness.contracts import Task
from harness.data.places import entries, kind_at
from harness.data.sources import Example, content_of, task_source
from harness.data.task_sources.glue import DIAGNOSTIC, GLUE, GlueFolder
from harness.errors import UserError, near
from harness.modeling import fairseq_library
from harness.modeling.fairseq_library import INSTALL

SCALE = 5.0  # of the scores
_END = 2  # the id of </s>, which ends every sequence, labels too
_BROKEN = (ValueError, AssertionError, IndexError, KeyError, OSError, OverflowError, MemoryError, struct.error)


@task_source("fairseq_folder", tasks=GLUE)
class FairseqFolder(GlueFolder):
    """GLUE as fairseq's preprocess_GLUE_tasks.sh leaves it, binary files in FOLDER/RTE-bin."""

    def holds(self, task: Task) -> bool:
        return not super().holds(task)

    def examples(self, task: Task, split: str) -> Iterator[Example]:
        """A piece that the dictionary lacked when the data were made is gone: it is written "<unk>".

        Raises UserError for what is missing, broken or at odds with the rest, and where fairseq is not installed.
        """
        from harness.modeling import gpt2_bpe  # not before: it needs torch

        if split == DIAGNOSTIC:  # which fairseq leaves as text
            yield from super().examples(task, split)
            return
        folder, name = self.binary(task), _name(task, split)
        decode = gpt2_bpe.decoder(self._encoder(task))
        parts = [_Part(folder / part, name, gpt2_bpe.dictionary(folder / part / "dict.txt")) for part in _inputs(task)]
        labels: Sequence[str | int] | None = None
        if not split.startswith("test"):
            labels = _classes(task, folder / "label", name) if task.labels else _scores(folder / f"label/{name}.label")
        sizes = [len(part) for part in parts] + ([] if labels is None else [len(labels)])
        if len(set(sizes)) > 1:
            kinds = [*_inputs(task), "label"]
            counted = ", ".join(f"{size} in {kind}" for size, kind in zip(sizes, kinds, strict=False))
            raise UserError(f"{folder} must have as many texts as labels, but {name} has {counted}")
        for i, label in enumerate(range(sizes[0]) if labels is None else labels):
            yield f"{folder / 'input0' / name}.bin, example {i}", [part.text(i, decode) for part in parts], label

    def content(self, task: Task) -> str:
        return content_of(self._files(task))

    def parts(self, task: Task) -> Sequence[Path]:
        files = (path for path in entries(Path(self.data)) if path.is_file())
        return [self.binary(task), *files, *self.diagnostic(task)]

    def _files(self, task: Task) -> list[Path]:
        """What is read of the train and dev splits, in a fixed order.

        Raises UserError where fairseq is not installed or there is no encoder.json; the others may be missing.
        """
        folder = self.binary(task)
        if find_spec("fairseq") is None:
            raise UserError(f"reading {folder} needs fairseq, which is not installed: {INSTALL}")
        found, names = [self._encoder(task)], [_name(task, split) for split in ("train", *task.dev_splits)]
        for part in (*_inputs(task), *["label"] * bool(task.labels)):
            found.append(folder / part / "dict.txt")
            found += [folder / part / f"{name}.{suffix}" for name in names for suffix in ("bin", "idx")]
        return found if task.labels else found + [folder / "label" / f"{name}.label" for name in names]

    def _encoder(self, task: Task) -> Path:
        for folder in (Path(self.data), self.binary(task)):
            if kind_at(folder / "encoder.json") == "file":
                return folder / "encoder.json"
        raise UserError(
            f"{self.binary(task)} holds GPT-2 pieces, which need GPT-2's encoder.json to be read: put it in {self.data}"
        )


class _Part:
    """One of the binary files, and the symbols of its ids."""

    def __init__(self, folder: Path, name: str, symbols: list[str]):
        self.path = folder / f"{name}.bin"
        self.symbols = symbols
        self.data = _open(folder / name)

    def __len__(self) -> int:
        return len(self.data)

    def read(self, i: int) -> list[str]:
        """The symbols of example i, without the end. Raises UserError for an id that the dictionary has not."""
        try:
            ids = self.data[i].tolist()
        except _BROKEN as error:
            raise UserError(f"{self.path}, example {i} cannot be read: {error}") from error
        if ids and not 0 <= min(ids) <= max(ids) < len(self.symbols):
            wrong = max(ids) if min(ids) >= 0 else min(ids)
            raise UserError(
                f"{self.path}, example {i}: id {wrong} is not one of the {len(self.symbols)} in the dict.txt beside it"
            )
        if ids and ids[-1] == _END:
            ids.pop()
        return [self.symbols[symbol] for symbol in ids]

    def text(self, i: int, decode: Callable[[Iterable[str]], str]) -> str:
        try:
            return decode(self.read(i))
        except UserError as error:
            raise UserError(f"{self.path}, example {i}: {error}") from error


def _inputs(task: Task) -> tuple[str, ...]:
    return ("input0", "input1") if task.pair else ("input0",)


def _name(task: Task, split: str) -> str:
    """What fairseq calls a split: its second dev split is valid1."""
    if split == "train":
        return split
    position = task.dev_splits.index(split.replace("test", "dev"))
    return f"{'test' if split.startswith('test') else 'valid'}{position or ''}"


def _classes(task: Task, folder: Path, name: str) -> list[str]:
    """The label of every example, by name. Raises UserError unless the dictionary has just the task's labels."""
    from harness.modeling import gpt2_bpe

    path = folder / "dict.txt"
    symbols = gpt2_bpe.dictionary(path)
    named = [symbol for symbol in symbols[len(gpt2_bpe.SPECIAL) :] if not gpt2_bpe.FILLER.fullmatch(symbol)]
    for symbol in named:
        if symbol not in task.labels:
            raise UserError(f"{path}: task {task.name} has no label {symbol!r}: {near(symbol, task.labels)}")
    for symbol in task.labels:
        if symbol not in named:
            raise UserError(f"{path} lacks label {symbol!r} of task {task.name}: it has {', '.join(named) or 'none'}")
    part = _Part(folder, name, symbols)
    found = [" ".join(part.read(i)) for i in range(len(part))]
    for i, label in enumerate(found):
        if label not in task.labels:
            raise UserError(f"{part.path}, example {i}: label {label!r} is not one of {', '.join(task.labels)}")
    return found


def _scores(path: Path) -> list[str]:
    """The official scores. The script writes fifths with six digits: 2.1111111 comes back as 2.11111, 3.8 as 3.8."""
    try:
        lines = path.read_text(encoding="utf-8").split()
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path} cannot be read: {error}") from error
    found = []
    for number, line in enumerate(lines, 1):
        try:
            score = float(line)
        except ValueError:
            score = math.nan
        if not math.isfinite(score):
            raise UserError(f"{path}, line {number}: score {line!r} is not a number")
        found.append(str(round(SCALE * score, 9)))
    return found


def _open(prefix: Path) -> Any:
    """fairseq's data set of prefix.bin and prefix.idx, which gives an int64 tensor for each index.

    Raises UserError for files that are missing or not as long as they say.
    """
    names = [prefix.with_name(f"{prefix.name}.{suffix}") for suffix in ("bin", "idx")]
    for name in names:
        if kind_at(name) != "file":
            raise UserError(f"{name}, a part of fairseq's layout, does not exist")
        if not name.stat().st_size:
            raise UserError(f"{name} is empty")
    with fairseq_library.importing(f"reading {prefix.parent}"):
        from fairseq.data.data_utils import load_indexed_dataset
        from fairseq.data.indexed_dataset import infer_dataset_impl
    form = infer_dataset_impl(str(prefix))
    if form not in ("mmap", "cached"):
        raise UserError(f"{names[1]} is in none of fairseq's formats mmap, lazy and cached")
    try:
        data = load_indexed_dataset(str(prefix), dataset_impl=form)
        if form == "cached" and names[1].stat().st_size < 48 + 8 * (2 * len(data) + 2 + len(data.sizes)):
            raise UserError(f"{names[1]} is broken: it ends too early")  # fairseq would read whatever is in memory
        width = data.element_size if form == "cached" else data._index.dtype().itemsize
        promised, size = width * int(data.sizes.sum()), names[0].stat().st_size
        if size != promised:
            raise UserError(f"{names[0]} is broken: {size} bytes where {names[1].name} says {promised}")
        if data.supports_prefetch:
            data.prefetch(range(len(data)))
    except _BROKEN as error:
        raise UserError(f"{names[1]} is broken: {error or type(error).__name__}") from error
    return data
