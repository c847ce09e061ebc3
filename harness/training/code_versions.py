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
    """12 hexadecimal digits of the syntax trees of a Python file and of what it imports beside it, or of a folder's.

    Comments, docstrings and layout do not count.
    """
    files = {Path(path)} if Path(path).is_file() else set(Path(path).glob("*.py"))
    while more := {file for known in files for file in _imported(known)} - files:
        files |= more
    return hashlib.sha256("".join(_tree(file) for file in sorted(files)).encode()).hexdigest()[:12]


def _tree(path: Path) -> str:
    tree = ast.parse(path.read_text(encoding="utf-8"))
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
    return ast.dump(tree)


def _imported(path: Path) -> list[Path]:
    """The files of the same package that a file imports by the package's name."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
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

    yield "training", str(Path(str(loop.__file__)).parent)
    if specification.get("student"):
        yield specification["student"], registry.STUDENTS.origin(specification["student"])
    for _, name in combine.parse(specification["objective"]) if specification.get("objective") else ():
        yield name, registry.OBJECTIVES.origin(name)
