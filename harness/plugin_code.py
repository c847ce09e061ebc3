"""Which files the code of a plugin consists of, and what they say: nothing of it is imported."""

from __future__ import annotations

import ast
import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from harness.errors import UserError
from harness.old_names import OLD

ROOT = Path(__file__).parent.parent
DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
CALLED = {"import_module", "__import__"}  # what imports the module that its first argument names
TOLD = {"Faulty", "TrainingFailure", "UserError"}  # our exceptions that hold a sentence and nothing else
INSTALLED = {"site-packages", "dist-packages"}
# No user's own, though one of them may be installed to be edited, or be on PYTHONPATH; all of torch takes long to read.
LIBRARIES = {
    "accelerate", "datasets", "evaluate", "fairseq", "harness", "matplotlib", "numpy", "optuna", "pandas", "ray",
    "safetensors", "scipy", "sklearn", "tokenizers", "torch", "transformers",
}  # fmt: skip


def files(path: str, elsewhere: bool = True) -> set[Path]:
    """A plugin's file, the user's modules that it imports, in turn, and the files that these name.

    elsewhere: with modules neither of its own package nor beside it: of distributions that are installed to be edited,
    or on PYTHONPATH. These do not go with it to other machines.
    """
    found = modules(path, elsewhere)
    return found.union(*map(_named, found))


def modules(path: str, elsewhere: bool = True) -> set[Path]:
    """The part of `files` that is code and imported."""
    found, home, search = {Path(path)}, _home(Path(path)), tuple(dict.fromkeys(sys.path))

    def reached(known: Path) -> set[Path]:
        near = _places(known, home)
        far = _elsewhere(known, near, search) if elsewhere else frozenset()
        return {file for _, file in near} | far

    while more := set[Path]().union(*map(reached, found)) - found:
        found |= more
    return found


def meant(path: str) -> Iterator[tuple[str, Path]]:
    """The modules that a plugin imports by their whole names, each with a file in `modules` that it is meant to be."""
    for known in modules(path):
        yield from (each for each in _places(known, _home(Path(path))) if each[0])


@functools.cache
def note(path: str) -> None:
    """Take note of what a user's plugin, its `files`, say as it is loaded: see `check_unchanged`."""
    real = os.path.realpath(path)
    for file in files(real) if os.path.isfile(real) and not ours(Path(path)) else ():
        code(file)


def check_unchanged(paths: Iterable[str | Path]) -> None:
    """Raise UserError where a plugin's file, or one of its `files`, is no longer what this process knows of it.

    What it has loaded stays as it is, while processes that it starts would load the edited file.
    """
    for file in sorted({file for path in paths for file in files(os.path.realpath(path))}):
        if file.is_file() and code(file) != code.__wrapped__(file):
            raise UserError(f"{file} was edited after it was loaded: start Python anew (in a notebook, the kernel)")


def others(path: Path) -> bool:
    """Whether a file is Python's own or of what is installed: by where it lies, as users call theirs likewise."""
    return bool(INSTALLED & {*path.parts}) or path.is_relative_to(Path(os.__file__).parent)


def ours(path: Path) -> bool:
    """Whether a file is of this distribution."""
    return any(path.is_relative_to(folder) for folder in our_folders())


def our_folders() -> Iterator[Path]:
    """Where our own files lie: in a checkout the plugins' folders and the reports' are beside the engine's."""
    yield ROOT / "harness"
    yield from map(folder_of, sorted(OLD))


def folder_of(name: str) -> Path:
    """That of a kind of plugin, or of the reports."""
    return ROOT / name if not (ROOT / "harness" / name).is_dir() else ROOT / "harness" / name


def digest_of(paths: Iterable[Path]) -> str:
    """12 hexadecimal digits of what these files say."""
    return hashlib.sha256("\n".join(sorted(map(code, paths))).encode()).hexdigest()[:12]


@functools.cache
def code(path: Path) -> str:
    """What a file says: of Python its syntax tree without docstrings, of others a hash.

    Of our own files the sentences of exceptions do not count either, which no number rests on.
    """
    if path.suffix != ".py":
        return hashlib.sha256(path.read_bytes()).hexdigest()
    tree = _parsed(path)
    for node in ast.walk(tree) if ours(path) else ():
        if isinstance(node, ast.Raise) and isinstance(node.exc, ast.Call) and _called(node.exc.func) in TOLD:
            node.exc.args = []
    return _text(tree)


def _parsed(path: Path) -> ast.AST:
    try:
        return ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):  # not Python any more: another than what any run was made with
        return ast.Constant(path.read_bytes())


def _text(node: Any) -> str:
    """A syntax tree as text. What is empty is left out: versions of Python differ in whether they name it."""
    if isinstance(node, list):
        return f"[{','.join(map(_text, node))}]"
    if not isinstance(node, ast.AST):
        return ascii(node)
    told = []
    for name in node._fields:
        value: Any = getattr(node, name, None)
        if name == "values" and isinstance(node, ast.JoinedStr):
            value = [part for part in node.values if not isinstance(part, ast.Constant) or part.value]
        elif name == "body" and isinstance(node, DOCUMENTED):
            value = value[ast.get_docstring(node, clean=False) is not None :]
        if value is not None and value != []:
            told.append(f"{name}={_text(value)}")
    return f"{type(node).__name__}({','.join(told)})"


def _beside(path: Path) -> bool:
    """Whether what lies beside a file is its own: not in a package, nor where distributions are installed into."""
    return not ((path.parent / "__init__.py").is_file() or any(path.parent.glob("*.dist-info")))


def _home(path: Path) -> Path | None:
    """The folder of a plugin, where Python finds modules too once it is loaded: of a package, too."""
    others = ours(path) or INSTALLED & {*path.parts} or any(path.parent.glob("*.dist-info"))
    return None if others else path.parent


@functools.cache
def imports(path: Path) -> tuple[tuple[int, str], ...]:
    """What a file imports: (how many folders up a relative import begins, else 0; the name with dots)."""
    found: list[tuple[int, str]] = []
    for node in ast.walk(_parsed(path)):
        if isinstance(node, ast.Import):
            found += [(0, alias.name) for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.level, f"{node.module or ''}.{alias.name}".lstrip(".")) for alias in node.names]
        elif isinstance(node, ast.Call) and _called(node.func) in CALLED:
            named = [part.value for part in node.args[:1] if isinstance(part, ast.Constant)]
            found += [(len(name) - len(name.lstrip(".")), name.lstrip(".")) for name in named if isinstance(name, str)]
    return tuple(found)


@functools.cache
def variables(path: Path) -> frozenset[str]:
    """The environment's variables that a file of Python reads by their names."""
    nodes = list(ast.walk(_parsed(path))) if path.suffix == ".py" else []
    named: dict[str, list[Any]] = {}  # NAME = "ALPHA", for os.environ[NAME]
    for node in nodes:
        if isinstance(node, (ast.Assign, ast.AnnAssign)):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for name in (target.id for target in targets if isinstance(target, ast.Name)):
                named.setdefault(name, []).append(node.value)
    found = set()
    for node in nodes:
        asked: Any = None
        if isinstance(node, ast.Subscript) and _called(node.value) == "environ":
            asked = node.slice
        elif isinstance(node, ast.Compare) and "environ" in map(_called, node.comparators):
            asked = node.left
        elif isinstance(node, ast.Call):
            of = getattr(node.func, "value", None)
            given = [*node.args[:1], *(word.value for word in node.keywords if word.arg == "key")]
            asked = given[0] if given and (_called(node.func) == "getenv" or _called(of) == "environ") else None
        for one in named.get(asked.id, ()) if isinstance(asked, ast.Name) else [asked]:
            if isinstance(one, ast.Constant) and isinstance(one.value, str):
                found.add(one.value)
    return frozenset(found)


def _called(node: Any) -> str:
    """The last part of a name with dots; "" of what is none."""
    return getattr(node, "attr", getattr(node, "id", ""))


def along(root: Path, parts: Sequence[str]) -> set[Path]:
    """The files that a name with dots may stand for, or pass through."""
    return {file for n in range(1, len(parts) + 1) for file in files_of(root, parts[:n])}


def files_of(root: Path, parts: Sequence[str]) -> tuple[Path, Path]:
    """The files that a module may be: of its own, and of a package."""
    place = root.joinpath(*parts)
    return Path(f"{place}.py"), place / "__init__.py"


@functools.cache
def _places(path: Path, home: Path | None) -> frozenset[tuple[str, Path]]:
    """The files that a file's imports name: of a package that it lies in, beside it, or in `home`, the folder of its
    plugin, from which Python imports too. Each with the module's name, "" of relative imports. Nothing is imported.
    """

    def roots(top: str) -> Iterator[Path]:
        yield from (folder.parent for folder in path.parents if folder.name == top)
        if top != "harness":
            yield from dict.fromkeys((*([path.parent] if _beside(path) else []), *([home] if home else [])))

    found: set[tuple[str, Path]] = set()
    for relative, name in imports(path):
        # A checkout has harness.objectives in objectives/.
        parts = (name.removeprefix("harness.") if path.is_relative_to(ROOT) else name).split(".")
        for root in [path.parents[relative - 1]] if relative else roots(parts[0]):
            for n in range(1, len(parts) + 1):
                found |= {("" if relative else ".".join(parts[:n]), file) for file in files_of(root, parts[:n])}
    # Of this distribution only what lies beside a shipped plugin: `engine` tells of what else changes a number.
    there = {(name, file) for name, file in found if file.is_file() and file != path}
    return frozenset((name, file) for name, file in there if file.parent == path.parent or not ours(file))


@functools.cache
def _elsewhere(path: Path, near: frozenset[tuple[str, Path]], search: tuple[str, ...]) -> frozenset[Path]:
    """The files of the user's packages that a file's imports name and that lie neither in its own nor beside it.

    near: what `_places` found, whose packages are not looked for again. search: where Python looks for them.
    """
    found: set[Path] = set()
    known = {name.partition(".")[0] for name, _ in near}
    for top, *parts in (name.split(".") for relative, name in imports(path) if not relative and not ours(path)):
        for place in _package(top, search) if top not in known else ():
            within = [place] if place.is_file() else [place / "__init__.py", *along(place, parts)]
            found |= {file for file in within if file.is_file()}
    return frozenset(found - {path})


@functools.cache
def _package(top: str, search: tuple[str, ...]) -> tuple[Path, ...]:
    """The folders of a package, or the file of a module, if it is the user's own. Nothing is imported."""
    if top in sys.stdlib_module_names or top in LIBRARIES:
        return ()
    try:
        spec = importlib.util.find_spec(top)
    except (ImportError, ValueError):  # the second of a module without a spec, as __main__
        return ()
    found = list(spec.submodule_search_locations or ()) if spec else []
    if spec and spec.has_location and spec.origin and not found:
        found = [spec.origin]
    places = map(Path, found)
    return tuple(each for each in places if not (others(each) or ours(each) or any(each.parent.glob("*.dist-info"))))


@functools.cache
def _named(path: Path) -> frozenset[Path]:
    """The files beside a user's code that a text in it names, such as numbers that it reads; of ours none."""
    if ours(path):
        return frozenset()
    texts = {node.value for node in ast.walk(_parsed(path)) if isinstance(node, ast.Constant)}
    names = {text for text in texts if isinstance(text, str) and 0 < len(text) < 256 and text.isprintable()}
    names = {name for name in names if not (os.path.isabs(name) or ".." in Path(name).parts)}
    found: set[Path] = set()
    folders, seen = [path.parent], {os.path.realpath(path.parent)}
    for folder in folders:  # which grows: a name may be told in parts, as in HERE / "data" / "weights.json"
        # os.path says that there is nothing of a name that is too long, where pathlib raises OSError.
        there = [folder / name for name in sorted(names)]
        found |= {file for file in there if os.path.isfile(file) and file != path}
        within = {os.path.realpath(place): place for place in there if os.path.isdir(place)}
        folders += [place for real, place in within.items() if real not in seen]
        seen |= within.keys()
    return frozenset(found)
