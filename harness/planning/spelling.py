"""The one spelling that folders are named by, however a request was typed; and which of its words mean two things."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from harness import registry
from harness.contracts import Hyperparameter
from harness.planning.declarations import OWNERS
from harness.planning.request import Request
from harness.runs.settings import SEARCH, TRAINING

_NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
ANY = "student"  # in the names of settings, whichever student has them
_WITH_SETTINGS = (registry.OBJECTIVES, registry.STUDENTS)
_ENGINE: Mapping[str, Mapping[str, Hyperparameter]] = {"": {**TRAINING, **SEARCH}, **OWNERS}


def last(word: str, taken: Callable[[str], bool] = lambda name: False) -> str:
    """What names a word in folders: of a path the last part, for a file may be moved.

    taken: whether a name is that of what is no path. A path that ends in it keeps "./", for it would mean that without.
    """
    kind, separator, path = word.rpartition(":")
    if not os.path.exists(os.path.expanduser(path)):
        return word
    name = Path(path).name
    apart = not kind and name != path and taken(name)
    return f"./{name}" if apart else f"{kind}{separator}{name}"


def teacher(word: str, usual: str) -> str:
    """What names a teacher in folders: of each of an ensemble's, and of what stands after a task's name, the last.

    usual: the profile's.
    """

    def named(part: str) -> str:
        return last(part, lambda name: name == usual or is_teacher(name))

    task, equals, rest = word.rpartition("=")
    if os.path.exists(os.path.expanduser(word)) or "+" not in rest and not equals:
        return named(word)
    return f"{task}{equals}{'+'.join(named(part.strip()) for part in rest.split('+'))}"


def corpus(word: str, usual: str) -> str:
    """What names a corpus in folders. usual: the profile's."""
    return last(word, lambda name: name == usual or is_corpus(name))


def before_equals(word: str) -> str:
    """ "ROW" of "ROW=MODEL", and of a model alone its last part."""
    name, equals, _ = word.partition("=")
    return name if equals else last(word)


NAMED: Mapping[str, Callable[[str], str]] = {"tasks": before_equals, "checkpoints": before_equals}


# ---------------------------------------------------------------- what is no path


def is_teacher(name: str) -> bool:
    """Whether a teacher is called so. To import ours takes torch, which looking at results need not wait for."""
    if name in registry.TEACHERS.known():
        return True
    ours = find_spec(registry.TEACHERS.folder)
    files = [file for place in (ours and ours.submodule_search_locations) or () for file in Path(place).glob("*.py")]
    if not registry.installed() and not any(f'@teacher("{name}"' in file.read_text(encoding="utf-8") for file in files):
        return False
    return name in registry.TEACHERS.names()


def is_corpus(name: str) -> bool:
    from harness.data import corpora  # loads torch

    return name in corpora.NAMED


def is_source(name: str) -> bool:
    """Whether --data may be this name."""
    return name in registry.SOURCES.names() and registry.SOURCES.get(name).given == "name"


# ---------------------------------------------------------------- numbers


def setting(pair: str) -> str:
    """KEY=VALUE as folders are named: 5e-4 as 0.0005. So too the KEY=A,B and KEY=LOW..HIGH of a search."""
    key, equals, value = pair.partition("=")
    if not equals:
        return pair
    if _NUMBER.fullmatch(value) or not (parts := re.split(r"(\.\.|,)", value))[1:]:
        return f"{key}={_number(key, value)}"
    return f"{key}={''.join(_number(key, part) for part in parts)}"


def _number(key: str, text: str) -> str:
    """A number as Python writes it, where the setting is one; words, as of a column that is called 1.0, stay."""
    if not _NUMBER.fullmatch(text):
        return text
    plain = str(int(text)) if text.isdecimal() else repr(float(text) + 0.0).removesuffix(".0")  # 0.0 for -0.0
    return plain if plain != text and "inf" not in plain and _counts(key) else text


def _counts(key: str) -> bool:
    """Whether a setting is a number in every plugin that may be meant: of the engine, or one that comes with it."""
    owner, _, name = key.rpartition(".")
    if name in _ENGINE.get(owner, {}):
        return _is_number(_ENGINE[owner][name])
    owner = owner.rpartition(".")[2]
    plugins = [known.get(one) for known in _WITH_SETTINGS for one in known.names() if known.ships(one)]
    found = [one.hyperparameters[name] for one in plugins if name in one.hyperparameters and owner in (one.name, ANY)]
    return bool(found) and all(map(_is_number, found))


def _is_number(declared: Hyperparameter) -> bool:
    return isinstance(declared.default, (int, float)) and not isinstance(declared.default, bool)


# ---------------------------------------------------------------- two meanings


def ambiguous(request: Request) -> Iterator[str]:
    """Sentences on words of a request that mean something by that name, where a file or folder is called so too."""
    words = [request.teacher] if isinstance(request.teacher, str) else request.teacher or ()
    parts = [part.strip() for word in words for part in word.rpartition("=")[2].split("+")]
    yield from _told("teacher", parts, is_teacher, "./{0}")
    yield from _told("corpus", [request.corpus], is_corpus, "./{0}")
    yield from _told("data", [request.data], is_source, "./{0}")
    tasks = [] if request.data else request.tasks or ()
    yield from _told("tasks", tasks, lambda name: name in registry.TASKS.names(), "NAME=./{0}")


def _told(flag: str, words: Sequence[str | None], taken: Callable[[str], bool], other: str) -> Iterator[str]:
    for word in dict.fromkeys(words):
        if word and os.path.exists(word) and os.path.basename(word) == word and taken(word):
            kind = "folder" if os.path.isdir(word) else "file"
            place = f"the {kind} that is called so here is --{flag} {other.format(word)}"
            yield f"--{flag} {word} is a name and no path: {place}"
