"""Fingerprints of the code a run was made with: recorded, compared when a table is written, never its identity."""

from __future__ import annotations

import ast
import functools
import hashlib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any


@functools.cache
def fingerprint(path: str) -> str:
    """12 hexadecimal digits of a Python file's syntax tree and of the files beside it that it imports.

    Comments, docstrings and layout do not count.
    """
    tree = ast.parse(Path(path).read_text(encoding="utf-8"))
    beside = [fingerprint(str(file)) for file in _imported(tree, Path(path))]
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef)) and isinstance(body, list) and body:
            first = body[0]
            if (
                isinstance(first, ast.Expr)
                and isinstance(first.value, ast.Constant)
                and isinstance(first.value.value, str)
            ):
                node.body = body[1:] or [ast.Pass()]
    return hashlib.sha256("".join([ast.dump(tree), *beside]).encode()).hexdigest()[:12]


def _imported(tree: ast.Module, path: Path) -> list[Path]:
    """The files of the same package that a file imports by the package's name."""
    package, names = path.parent.name, set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module == package:
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith(f"{package}."):
            names.add((node.module or "").removeprefix(f"{package}."))
    files = (path.with_name(f"{name}.py") for name in sorted(names))
    return [file for file in files if file.is_file() and file != path]


def code_versions(specification: Mapping[str, Any]) -> dict[str, str]:
    """{plugin or "training": fingerprint} of the code behind a run."""
    return {name: fingerprint(path) for name, path in _files(specification)}


def _files(specification: Mapping[str, Any]) -> Iterable[tuple[str, str]]:
    from harness import registry
    from harness.modeling import combine
    from harness.training import loop

    yield "training", str(loop.__file__)
    if specification.get("student"):
        yield specification["student"], registry.STUDENTS.origin(specification["student"])
    for _, name in combine.parse(specification["objective"]) if "objective" in specification else ():
        yield name, registry.OBJECTIVES.origin(name)
