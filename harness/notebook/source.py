"""An object of a notebook or script as the text of a plugin file, with all that it names.

Functions and classes of other cells come with their source, what is imported with its import, and other values as
they are, if they are plain. So the identity of what it is part of is that of its code, as of any plugin's.
"""

from __future__ import annotations
import __future__

import ast
import builtins
import dataclasses
import importlib
import inspect
import linecache
import math
import os
import symtable
import sys
from collections.abc import Iterator, Mapping
from enum import Enum
from pathlib import Path
from types import CodeType, FunctionType, ModuleType
from typing import Any, NamedTuple

from harness import code_versions, plugin_code
from harness.contracts import Study
from harness.errors import UserError
from harness.registry import MAIN

PLAIN = (bool, int, float, str, bytes, type(None))  # they are what they are, whichever module has the same


def text_of(plugin: Any, name: str) -> tuple[str, dict[str, Any]]:
    """The text of a file that defines this function or class, and what the names that it uses mean here.

    Raises UserError where its source is not to be had.
    """
    written = _Text(name)
    written.write(plugin)
    return written.text(), written.here


def study_text(study: Study) -> tuple[str, dict[str, Any]]:
    """The text of a file that declares this study, and what the names that it uses mean here."""
    written = _Text(f"study {study.name}")
    declared = written.value(study)
    written.imports.add("from harness.registry import study")
    written.parts.append(f"study({declared})")
    return written.text(), written.here


def check_modules(known: Mapping[str, str]) -> None:
    """Raise UserError where a user's module is another than when a notebook's code that imports it was written.

    known: a module's name -> the fingerprint of its file. Called by the files that are written here.
    """
    for name, code in known.items():
        file = importlib.import_module(name).__file__
        if code_versions.fingerprint(os.path.realpath(str(file))) != code:
            raise UserError(f"{file} was edited after what imports it was written: run that cell or script again")


class _Text:
    """A file as it grows. owner: what sentences say it is written for."""

    def __init__(self, owner: str):
        self.owner = owner
        self.imports: set[str] = set()
        self.parts: list[str] = []
        self.future = False
        self.modules: dict[str, str] = {}  # of the user's own that are imported -> fingerprint
        self.here: dict[str, Any] = {}  # what the names that it uses mean where they were used

    def text(self) -> str:
        """The whole file; equal objects give equal files."""
        future = ["from __future__ import annotations"] if self.future else []
        head = "\n".join([f'"""{self.owner}, as it was defined in a notebook or script."""', "", *future])
        if self.modules:  # they lie elsewhere, but their code is part of what this is
            self.imports.add("from harness.notebook.source import check_modules")
            self.parts.insert(0, f"check_modules({dict(sorted(self.modules.items()))!r})")
        return "\n\n".join([head, "\n".join(sorted(self.imports)), *self.parts]) + "\n"

    def define(self, name: str, value: Any) -> None:
        """Have the file define a name as what it is here."""
        if name in self.here:
            return
        self.here[name] = value
        if isinstance(value, ModuleType):
            self._note(value)
            self.imports.add(f"import {value.__name__}" + (f" as {name}" if name != value.__name__ else ""))
        elif module := _module_of(name, value):
            self._note(sys.modules[module])
            known = getattr(value, "__qualname__", name) if not hasattr(sys.modules[module], name) else name
            self.imports.add(f"from {module} import {known}" + (f" as {name}" if name != known else ""))
        elif isinstance(inspect.unwrap(value) if callable(value) else value, (FunctionType, type)):
            if (written := self.write(value)) != name:  # another name of it
                self.parts.append(f"{name} = {written}")
        else:
            self.parts.append(f"{name} = {self.value(value, name)}")

    def _note(self, module: ModuleType) -> None:
        """Have the file check, where it is loaded, that a user's module is still as it is now."""
        if path := _users(module):
            plugin_code.check_unchanged([path])
            self.modules[module.__name__] = code_versions.fingerprint(path)

    def write(self, value: Any) -> str:
        """Have the file define a function or class, perhaps wrapped, and all that it names. Returns its name there."""
        chain = [value]
        while hasattr(chain[-1], "__wrapped__"):
            chain.append(chain[-1].__wrapped__)
        within = chain[-1].__qualname__
        found = ((each, _source(each)) for each in chain if isinstance(each, (FunctionType, type)))
        made, source = next((each for each in found if each[1]), (chain[-1], None))
        if source is None and "<" in within:
            raise UserError(
                f"{self.owner}: {within} is a lambda or is defined inside a function, and cannot be "
                "written into a plugin file: define it by itself"
            )
        if source is None:
            raise UserError(
                f"{self.owner}: {within} has no source that could be written into a plugin file, which runs in "
                "processes of their own need: define it in a cell or a file, or give its file as plugin"
            )
        # What names mean where it was defined.
        names = made.__globals__ if isinstance(made, FunctionType) else vars(sys.modules[made.__module__])
        self.future |= any(c.co_flags & __future__.annotations.compiler_flag for c in _codes(made))
        for name in sorted(_globals_of(source.text) - {source.name}):
            if name in names:
                self.define(name, names[name])
            elif not (hasattr(builtins, name) or self.future):
                raise UserError(f"{self.owner}: {source.name} uses {name}, which is not defined")
        self.parts.append(source.text)
        return source.name

    def value(self, value: Any, name: str = "") -> str:
        """A plain value as the expression that makes it. Raises UserError for any other."""
        if isinstance(value, Enum):
            self.define(type(value).__name__, type(value))
            return f"{type(value).__name__}.{value.name}"
        if isinstance(value, float) and not math.isfinite(value):
            return f'float("{value}")'
        if type(value) in PLAIN:
            return repr(value)
        if isinstance(value, Path):
            self.imports.add("from pathlib import Path")
            return f"Path({str(value)!r})"
        if type(value) in (list, tuple, set, frozenset):
            parts = [self.value(part, name) for part in value]
            inner = ", ".join(sorted(parts) if isinstance(value, (set, frozenset)) else parts)
            if isinstance(value, tuple):
                return f"({inner},)" if len(parts) == 1 else f"({inner})"
            return f"[{inner}]" if isinstance(value, list) else f"{type(value).__name__}([{inner}])"
        if isinstance(value, Mapping):
            return f"{{{', '.join(f'{self.value(k, name)}: {self.value(v, name)}' for k, v in value.items())}}}"
        if dataclasses.is_dataclass(value) and not isinstance(value, type):
            self.define(type(value).__name__, type(value))
            given = (f"{f.name}={self.value(getattr(value, f.name), name)}" for f in _given(value))
            return f"{type(value).__name__}({', '.join(given)})"
        raise UserError(
            f"{self.owner} uses {name or 'what is no plain value'}, a {type(value).__name__}, which its runs, in "
            "processes of their own, cannot see: make it where it is used, or from plain values"
        )


def _given(value: Any) -> Iterator[dataclasses.Field[Any]]:
    """The fields of a dataclass that are not as they would be anyway."""
    for field in dataclasses.fields(value):
        made = field.default_factory() if field.default_factory is not dataclasses.MISSING else field.default
        if field.init and getattr(value, field.name) != made:
            yield field


def _module_of(name: str, value: Any) -> str:
    """The module, other than the notebook itself, that a value can be imported from; "" if there is none."""
    own = getattr(value, "__module__", None)
    if own == MAIN or type(value) in (*PLAIN, list, tuple, dict, set):
        return ""
    modules = [own] if own in sys.modules else sorted(sys.modules, key=lambda each: (each.count("."), each))
    for module in modules:
        found = vars(sys.modules[module]) if isinstance(sys.modules[module], ModuleType) else {}
        known = found.get(name, found.get(getattr(value, "__qualname__", ""), None))
        if module not in (MAIN, "__mp_main__") and known is value:
            return str(module)
    return ""


def _users(module: ModuleType) -> str:
    """The file of a module of the user's own, which is neither Python's, nor installed, nor ours; "" of others."""
    file = Path(getattr(module, "__file__", None) or "")
    others = plugin_code.others(file) or plugin_code.ours(file)
    return os.path.realpath(file) if file.suffix == ".py" and not others else ""


def _codes(made: Any) -> list[CodeType]:
    """The code of a function, or of the methods of a class, properties and wrapped ones too."""
    if isinstance(made, FunctionType):
        return [made.__code__]
    parts = [getattr(part, of, part) for part in vars(made).values() for of in ("fget", "__func__", "func")]
    within = (inspect.unwrap(part) for part in parts if callable(part) and not isinstance(part, type))
    own = (part for part in within if getattr(part, "__module__", None) == made.__module__)
    return [part.__code__ for part in own if isinstance(part, FunctionType)]


class _Source(NamedTuple):
    text: str
    name: str


def _source(made: Any) -> _Source | None:
    """The source of a function or class with its decorators, or None. (inspect finds no class of a cell.)"""
    named = made.__code__.co_name if isinstance(made, FunctionType) else made.__name__  # wraps gives it another's name
    places = [(linecache.getlines(code.co_filename), code.co_firstlineno) for code in _codes(made)]
    if isinstance(made, type):
        places += [(lines, 0) for lines in _cells(made)]
    for lines, line in places:
        try:
            tree = ast.parse("".join(lines))
        except SyntaxError:
            continue
        for node in reversed(tree.body):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)) and node.name == named:
                first = min([node.lineno, *(decorator.lineno for decorator in node.decorator_list)])
                if first <= line <= (node.end_lineno or 0) or not line and _declares(made, node):
                    return _Source("".join(lines[first - 1 : node.end_lineno]).rstrip(), named)
    return None


def _cells(made: type) -> Iterator[list[str]]:
    """The lines of a script, or of the cells that were run, the last first: of a class without code of its own."""
    names = vars(sys.modules[made.__module__])
    if file := names.get("__file__"):
        yield linecache.getlines(file)
    cells = names.get("In") or [
        "".join(lines) for _, changed, lines, _ in (e for e in linecache.cache.values() if len(e) == 4) if not changed
    ]
    yield from (cell.splitlines(keepends=True) for cell in reversed(cells))


def _declares(made: type, node: ast.AST) -> bool:
    """Whether this is the definition of a class that has these fields and members, and no code of its own."""
    body = node.body if isinstance(node, ast.ClassDef) else [node]
    fields = [part.target.id for part in body if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)]
    return fields == [*inspect.get_annotations(made)] and not any(isinstance(p, ast.FunctionDef) for p in body)


def _globals_of(source: str) -> set[str]:
    """The names that a piece of source takes from around it."""
    found, tables = set(), [symtable.symtable(source, "<cell>", "exec")]
    while tables:
        table = tables.pop()
        tables += table.get_children()
        found |= {each.get_name() for each in table.get_symbols() if each.is_global() and each.is_referenced()}
    return found
