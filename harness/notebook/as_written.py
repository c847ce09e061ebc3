"""Whether the functions and classes of a notebook are what their source makes: what runs get is the source.

Since they were defined, a value that a default, an attribute or a decorator was made of may have become another, and an
attribute or a method may have been set. So the file is run in a module of its own, and what it makes is compared
with what the notebook has: code, defaults, what decorators enclosed, bases, attributes and values, to the last.
"""

from __future__ import annotations
import __future__

import contextlib
import functools
import itertools
import sys
import threading
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import CodeType, FunctionType, GetSetDescriptorType, MemberDescriptorType, MethodType, ModuleType
from typing import Any

from harness import plugin_code, registry
from harness.errors import UserError

PLAIN: tuple[Any, ...] = (bool, int, float, complex, str, bytes, bytearray, range, type(Path()), type(None), type(...))
# Locks, what a decorator keeps of its calls, and the descriptors of slots.
OF_NO_EFFECT = (
    type(threading.Lock()), type(threading.RLock()), weakref.WeakKeyDictionary, weakref.WeakValueDictionary,
    MemberDescriptorType, GetSetDescriptorType,
)  # fmt: skip
WITHIN: tuple[tuple[Any, tuple[str, ...]], ...] = (
    (property, ("fget", "fset", "fdel")), ((classmethod, staticmethod), ("__func__",)),
    (MethodType, ("__self__", "__func__")), (functools.partial, ("func", "args", "keywords")),
)  # fmt: skip
# What Python or torch adds to a class as it is made or used, and what is of no effect: combinations of flags that were
# asked for are kept, and the backward half of an autograd function has a number of its own.
OF_PYTHON = {
    "__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__annotate__", "__annotate_func__",
    "__annotations_cache__", "__firstlineno__", "__static_attributes__", "__orig_bases__", "__abstractmethods__",
    "_abc_impl", "__qualname__", "_value2member_map_", "_backward_cls",
}  # fmt: skip


@contextlib.contextmanager
def run(owner: str, text: str) -> Iterator[dict[str, Any]]:
    """Run a file's text as a notebook's cell, for as long as it is looked at, and give the names that it defines.

    What it registers is found in the registries meanwhile. Raises UserError where it cannot be run.
    """
    module = ModuleType(registry.MAIN)
    known, loaded = {each: each._found for each in registry.ALL.values()}, set(registry._loaded)
    for each, found in known.items():
        each._found = {name: one for name, one in found.items() if one[1] not in registry.WRITTEN}
    try:
        try:
            exec(compile(text, "<written>", "exec", dont_inherit=True), vars(module))
        except Exception as error:
            raise UserError(f"{owner}: what is written of it cannot be run: {type(error).__name__}: {error}") from error
        yield vars(module)
    finally:
        registry._loaded.clear()
        registry._loaded.update(loaded)
        for each, found in known.items():
            each._found = found


def difference(path: str, here: Any, made: Any) -> str:
    """The first thing by which what a notebook has is not what its source makes, as a sentence; "" for none.

    path: what it is called.
    """
    return next(_Pairs().differ(path, here, made), "")


class _Pairs:
    """Compares two graphs of objects. It knows which pairs it has begun with, as they may name themselves."""

    def __init__(self) -> None:
        self._begun: dict[tuple[int, int], tuple[Any, Any]] = {}  # with them, so that no number is given again

    def differ(self, path: str, here: Any, made: Any) -> Iterator[str]:
        if here is made or (id(here), id(made)) in self._begun:
            return
        self._begun[id(here), id(made)] = here, made
        if type(here) in PLAIN or type(made) in PLAIN:
            if type(here) is not type(made) or repr(here) != repr(made):
                yield f"{path} is {_shown(here)} now, and {_shown(made)} by its source"
        elif isinstance(here, type) and isinstance(made, type):
            yield from self._classes(path, here, made)
        elif isinstance(here, FunctionType) and isinstance(made, FunctionType):
            yield from self._functions(path, here, made)
        else:
            if type(here).__qualname__ != type(made).__qualname__:
                yield f"{path} is {_shown(here)} now, and {_shown(made)} by its source"
            yield from self.differ(type(here).__qualname__, type(here), type(made))
            yield from self._instances(path, here, made)

    def _functions(self, path: str, here: FunctionType, made: FunctionType) -> Iterator[str]:
        if not _same_code(here.__code__, made.__code__):
            yield f"{path} is another function now than by its source"
        positional = here.__code__.co_varnames[: here.__code__.co_argcount]
        with_default = positional[len(positional) - len(here.__defaults__ or ()) :]
        yield from self._mappings(
            "the default ", dict(zip(with_default, here.__defaults__ or (), strict=True)),
            dict(zip(with_default, made.__defaults__ or (), strict=False)), f" of {path}",
        )  # fmt: skip
        by_name = here.__kwdefaults__ or {}, made.__kwdefaults__ or {}
        yield from self._mappings("the default ", *by_name, f" of {path}")
        yield from self._mappings(f"{path}.", _attributes(here), _attributes(made))
        yield from self._mappings("", _enclosed(here), _enclosed(made), f", which {path} encloses,")

    def _classes(self, path: str, here: type, made: type) -> Iterator[str]:
        if here.__qualname__ != made.__qualname__ or here.__module__ != made.__module__:
            yield f"{path} is {here.__qualname__} now, and {made.__qualname__} by its source"
        yield from self.differ(f"the kind of {path}", type(here), type(made))
        for number, (one, other) in enumerate(itertools.zip_longest(here.__bases__, made.__bases__)):
            yield from self.differ(f"the base {getattr(one, '__name__', number)} of {path}", one, other)
        if [*vars(here).get("__annotations__", ())] != [*vars(made).get("__annotations__", ())]:
            yield f"{path} has other fields now than by its source"
        of_class, by_source = ({k: v for k, v in vars(each).items() if k not in OF_PYTHON} for each in (here, made))
        yield from self._mappings(f"{path}.", of_class, by_source)

    def _mappings(
        self, before: str, here: Mapping[str, Any], made: Mapping[str, Any], after: str = ""
    ) -> Iterator[str]:
        """before, after: what stands around a key."""
        for key, one in here.items():
            if key in made:
                yield from self.differ(f"{before}{key}{after}", one, made[key])
            else:
                yield f"{before}{key}{after} was set since it was defined"
        if missing := [key for key in made if key not in here]:
            yield f"{before}{missing[0]}{after} was deleted since it was defined"

    def _instances(self, path: str, here: Any, made: Any) -> Iterator[str]:
        if isinstance(here, OF_NO_EFFECT):
            return
        if isinstance(here, Mapping):
            yield from self._sequences(f"the keys of {path}", [*here], [*made])
            yield from self._sequences(path, [*here.values()], [*made.values()], [*here])
        elif isinstance(here, (list, tuple)):
            yield from self._sequences(path, [*here], [*made])
        elif isinstance(here, (set, frozenset)):
            yield from self._sequences(f"the members of {path}", sorted(here, key=repr), sorted(made, key=repr))
        elif any(isinstance(here, kind) and kind.__repr__(here) != kind.__repr__(made) for kind in PLAIN):
            yield f"{path} is another {type(here).__name__} now than by its source"  # a member of a str enumeration
        for kind, names in WITHIN:
            if isinstance(here, kind):
                for name in names:
                    yield from self.differ(path, getattr(here, name), getattr(made, name))
                return
        state = _state(here)
        yield from self._mappings(f"{path}.", state, _state(made))
        if not (state or isinstance(here, (Mapping, list, tuple, set, frozenset)) or _equal(here, made)):
            parts = _parts(here), _parts(made)
            if not all(parts):
                yield f"{path} is a {type(here).__name__}, which cannot be compared with what its source makes"
            elif any(self.differ(path, *parts)):
                yield f"{path} is another {type(here).__name__} now than by its source"

    def _sequences(self, path: str, here: list[Any], made: list[Any], keys: list[Any] | None = None) -> Iterator[str]:
        if len(here) != len(made):
            yield f"{path} has a length of {len(here)} now, and of {len(made)} by its source"
            return
        for number, (one, other) in enumerate(zip(here, made, strict=True)):
            yield from self.differ(f"{path}[{(keys[number] if keys else number)!r}]", one, other)


def _same_code(here: CodeType, made: CodeType) -> bool:
    """Whether two functions do the same, wherever their lines stand."""
    told = ("co_code", "co_names", "co_varnames", "co_freevars", "co_cellvars", "co_argcount", "co_posonlyargcount",
            "co_kwonlyargcount")  # fmt: skip
    if all(getattr(here, each) == getattr(made, each) for each in told):
        return _same_constants(here.co_consts, made.co_consts)
    # The annotations of a function within it are worked out or not as the file says, which is so where one cell is.
    otherwise = (here.co_flags ^ made.co_flags) & __future__.annotations.compiler_flag
    return bool(otherwise) and any(isinstance(each, CodeType) for each in here.co_consts)


def _same_constants(here: Any, made: Any) -> bool:
    if isinstance(here, CodeType) and isinstance(made, CodeType):
        return _same_code(here, made)
    if isinstance(here, tuple) and isinstance(made, tuple):
        return len(here) == len(made) and all(map(_same_constants, here, made))
    return type(here) is type(made) and (here == made if isinstance(here, frozenset) else repr(here) == repr(made))


def _of_library(function: FunctionType) -> bool:
    """Whether it is what a library's decorator makes, which keeps a state of its own."""
    return plugin_code.others(Path(function.__code__.co_filename))


def _attributes(function: FunctionType) -> dict[str, Any]:
    keep = (FunctionType, type) if _of_library(function) else object
    return {name: one if isinstance(one, keep) else None for name, one in vars(function).items()}


def _enclosed(function: FunctionType) -> dict[str, Any]:
    """What a function has of the one around it."""
    found, keep = {}, (*PLAIN, FunctionType, type) if _of_library(function) else object
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        with contextlib.suppress(ValueError):  # it is empty
            if isinstance(cell.cell_contents, keep):
                found[name] = cell.cell_contents
    return found


def _state(instance: Any) -> dict[str, Any]:
    """The attributes that an object has of its own."""
    slots = [vars(each).get("__slots__", ()) for each in type(instance).__mro__]
    names = [name for each in slots for name in ([each] if isinstance(each, str) else each)]
    known = {name: getattr(instance, name) for name in names if hasattr(instance, name)}
    return known | getattr(instance, "__dict__", {})


def _equal(here: Any, made: Any) -> bool:
    """Whether two objects without attributes are equal: tensors, patterns, times."""
    try:
        if (torch := sys.modules.get("torch")) and isinstance(here, torch.Tensor):
            alike = here.dtype == made.dtype and here.shape == made.shape
            return alike and bool(((here == made) | (here.isnan() & made.isnan())).all())
        return bool(here == made)
    except Exception:  # of arrays there is no one answer
        return False


def _parts(instance: Any) -> Any:
    """What an object would be copied from; None where it tells nothing."""
    try:
        made, *rest = instance.__reduce_ex__(4)
    except Exception:
        return None
    return [made, *(part if isinstance(part, (tuple, dict, type(None))) else [*part] for part in rest)]


def _shown(value: Any) -> str:
    text = repr(value) if type(value) in PLAIN else f"a {type(value).__name__}"
    return text if len(text) <= 40 else f"{text[:36]} ..."
