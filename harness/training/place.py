"""Where a run finds what it needs: never part of what the run is. Free of torch, for the driver makes it."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harness import registry

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from harness.modeling.bases import Teacher


@dataclass(frozen=True)
class Place:
    """run: the run's own folder; runs: the folder of all runs; files: hash -> path of the files that a specification
    names by their hash; outputs: for each task the teacher signals that the whole study asks for, stored in one pass.
    """

    run: Path
    runs: Path
    cache: Path
    source: str
    corpus: str
    files: Mapping[str, str]
    teacher: str
    argument: str
    plugins: tuple[str, ...]
    outputs: Mapping[str, Sequence[Sequence[Any]]]


@functools.lru_cache(maxsize=2)
def teacher_source(teacher: str, argument: str) -> Teacher:
    """The teacher plugin, made once a process."""
    return registry.TEACHERS.get(teacher)(argument)


def teacher_tokenizer(place: Place) -> PreTrainedTokenizerBase:
    """The tokenizer that the teacher reads with: the same object every time, so that `is` tells it from others."""
    return _tokenizer(place.teacher, place.argument)


@functools.lru_cache(maxsize=2)
def _tokenizer(teacher: str, argument: str) -> PreTrainedTokenizerBase:
    return teacher_source(teacher, argument).tokenizer()
