"""Where a run finds what it needs: never part of what the run is. Free of torch, for the driver makes it."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from harness import registry
from harness.code_versions import of_teacher
from harness.data.store import Store, alone
from harness.files import JSON, digest
from harness.runs import TeacherName

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from harness.data.encoding import Reader
    from harness.modeling.bases import Teacher


class Exchange(Protocol):
    """How workers that share no folder share the cache. Both are called with the cache's folder locked on this machine.

    fetch: bring what others have made of the folder; offer: give them what was made here since.
    """

    def fetch(self, folder: Path) -> None: ...

    def offer(self, folder: Path) -> None: ...


@dataclass(frozen=True)
class Workspace:
    """run: the run's own folder; runs: the folder of all runs; files: hash -> path of the files that a specification
    names by their hash; outputs: for each task the teacher signals that the whole study asks for, stored in one pass;
    exchange: None where all workers see the same `cache`; declared: a task of the user's own -> what it is, and where;
    keep: the run's weights are wanted, though no run may start from them.
    """

    run: Path
    runs: Path
    cache: Path
    source: str
    corpus: str
    files: Mapping[str, str]
    teacher: TeacherName
    plugins: tuple[str, ...]
    outputs: Mapping[str, Sequence[Sequence[Any]]]
    exchange: Exchange | None = None
    declared: Mapping[str, JSON] = field(default_factory=dict)
    keep: bool = False

    @contextmanager
    def once(self, folder: Path) -> Iterator[None]:
        """Hold a folder of the cache, as it is on all machines, while what it lacks is made."""
        with alone(folder):
            if self.exchange is not None:
                self.exchange.fetch(folder)
            yield
            if self.exchange is not None:
                self.exchange.offer(folder)

    def store(self, room: str, key: Any) -> Store:
        """What is made once for all runs that give this key, on whatever machine. room: a folder of the cache."""
        return Store(self.cache / room, key, self.once)


@functools.lru_cache(maxsize=2)
def teacher_source(teacher: TeacherName) -> Teacher:
    """The teacher plugin, made once a process."""
    return registry.TEACHERS.get(teacher.name)(teacher.argument)


def teacher_tokenizer(workspace: Workspace) -> PreTrainedTokenizerBase:
    """The tokenizer that the teacher reads with: the same object every time, so that `is` tells it from others."""
    return _tokenizer(workspace.teacher)


@functools.lru_cache(maxsize=2)
def _tokenizer(teacher: TeacherName) -> PreTrainedTokenizerBase:
    return teacher_source(teacher).tokenizer()


def teacher_readers(workspace: Workspace) -> Reader:
    """What a text is read with for the teacher: its tokenizer, or of an ensemble those of its members."""
    return _readers(workspace.teacher) or teacher_tokenizer(workspace)


@functools.lru_cache(maxsize=2)
def _readers(teacher: TeacherName) -> tuple[PreTrainedTokenizerBase, ...]:
    """Those of the members of an ensemble; none of any other teacher."""
    return tuple(member.tokenizer() for member in teacher_source(teacher).members)


def teacher_fingerprint(workspace: Workspace) -> str:
    """The `tokenizer_fingerprint` of the teacher's tokenizer; of an ensemble a hash of all."""
    return _fingerprint(workspace.teacher)


@functools.lru_cache(maxsize=2)
def _fingerprint(teacher: TeacherName) -> str:
    from harness.data.encoding import tokenizer_fingerprint

    if members := teacher_source(teacher).members:
        code = [of_teacher(member.name) for member in members]
        return digest([code, [tokenizer_fingerprint(one) for one in _readers(teacher)]])
    return tokenizer_fingerprint(_tokenizer(teacher))
