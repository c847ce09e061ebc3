"""Who may import whom."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PLUGINS = ("objectives", "students", "teachers", "studies")
FILES = [p for room in ("harness", "reports", *PLUGINS) for p in sorted((ROOT / room).rglob("*.py"))]


def imported(path: Path) -> set[str]:
    """Every module that a file imports, wherever in the file."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


def inside(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_follow_the_rule(path: Path) -> None:
    room = path.relative_to(ROOT).parts[0]
    names = imported(path)
    assert not [n for n in names if inside(n, "harness.cli", "harness.commands")] or path.name in (
        "cli.py",
        "__main__.py",
    )
    engine = [n for n in names if inside(n, "harness")]
    if room == "harness":
        assert not [n for n in names if inside(n, *PLUGINS)], "the engine reaches plugins through the registry"
        if path.name not in ("commands.py", "viewing.py"):
            assert not [n for n in names if inside(n, "reports")]
    elif room == "reports":
        assert all(n == "harness" or inside(n, "harness.contracts", "harness.errors", "reports") for n in engine)
    else:
        allowed = ("harness.contracts", "harness.errors", "harness.modeling", "harness.registry", "harness.data")
        assert all(n == "harness" or inside(n, *allowed) for n in engine), engine


def test_no_file_is_too_long_to_read_in_one_sitting() -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES}
    assert not {name: lines for name, lines in lengths.items() if lines > 400}
