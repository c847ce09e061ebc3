"""Who may import whom, and who may know whose name."""

from __future__ import annotations

import ast
import functools
import re
from collections.abc import Callable, Iterable
from graphlib import TopologicalSorter
from pathlib import Path

from harness import registry
from harness.runs import Run

ROOT = Path(__file__).parent.parent
PLUGINS = ("objectives", "students", "teachers", "studies")
BESIDE = (*PLUGINS, "reports")  # folders whose packages are harness.objectives and so on
FILES = [p for room in ("harness", *BESIDE) for p in sorted((ROOT / room).rglob("*.py"))]


# What takes a tenth of a second and more to import.
HEAVY = {"numpy", "pandas", "matplotlib", "torch", "transformers", "ray", "optuna", "scipy", "sklearn", "datasets"}


@functools.cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def imported(nodes: Iterable[ast.AST]) -> set[str]:
    """Every module that these nodes import."""
    names: set[str] = set()
    for node in nodes:
        if isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names |= {node.module, *(f"{node.module}.{alias.name}" for alias in node.names)}
    return names


@functools.cache
def at_top(path: Path) -> frozenset[str]:
    return frozenset(imported(parsed(path).body))


def loaded(names: Iterable[str]) -> set[str]:
    """The heavy libraries that importing these modules loads, by themselves or by what they import in turn."""
    found: set[str] = set()
    while more := set(names) - found:
        found |= more
        places = [
            ROOT / start / name.removeprefix("harness.").replace(".", "/") for name in more for start in ("", "harness")
        ]
        files = [file for at in places for file in (at.with_suffix(".py"), at / "__init__.py") if file.is_file()]
        names = set().union(*map(at_top, files))
    return {name.split(".")[0] for name in found} & HEAVY


def inside(name: str, *packages: str) -> bool:
    return any(name == package or name.startswith(package + ".") for package in packages)


def breaches(rule: Callable[[Path], Iterable[str]], paths: Iterable[Path] = FILES) -> dict[str, list[str]]:
    """What a rule has against each file, by its name. One test for all of them: a thousand small ones take longer."""
    found = {str(path.relative_to(ROOT)): [*rule(path)] for path in paths}
    return {name: wrong for name, wrong in found.items() if wrong}


def forbidden(path: Path) -> Iterable[str]:
    """The imports that a file may not have."""
    names = imported(ast.walk(parsed(path)))
    engine, room, above = [n for n in names if inside(n, "harness")], path.relative_to(ROOT).parts[0], path.parent.name
    of_commands = above in ("commands", "notebook")
    yield from (f"{n}: every package has one name, that begins with harness" for n in names if inside(n, *BESIDE))
    if not of_commands and path.name not in ("cli.py", "__main__.py"):
        yield from (n for n in names if inside(n, "harness.cli", "harness.commands"))
    if room == "harness":
        plugins = [f"harness.{folder}" for folder in PLUGINS]
        yield from (f"{n}: the engine reaches plugins through the registry" for n in names if inside(n, *plugins))
        yield from (n for n in names if inside(n, "harness.reports") and not of_commands)
        # The registry's bases are modules of torch, so it stands on this room.
        yield from (n for n in engine if inside(n, "harness.registry") and above == "modeling")
        return
    of_plugins = ("contracts", "errors", "modeling", "registry", "data", room)
    allowed = ("contracts", "errors", "reports") if room == "reports" else of_plugins
    yield from (n for n in engine if n != "harness" and not inside(n, *(f"harness.{name}" for name in allowed)))


def test_imports_follow_the_rule() -> None:
    assert not breaches(forbidden)


def needlessly_within(path: Path) -> Iterable[str]:
    """Imports in a function of what loads nothing heavy."""
    within = [node for body in parsed(path).body if isinstance(body, (ast.FunctionDef, ast.ClassDef))
              for node in ast.walk(body) if isinstance(node, (ast.Import, ast.ImportFrom))]  # fmt: skip
    for node in within:
        names = imported([node])
        if any(inside(name, "harness") for name in names) and not loaded(names) - loaded(at_top(path)):
            yield f"{ast.unparse(node)} can stand at the top"


def test_only_what_loads_something_heavy_is_imported_within_a_function() -> None:
    assert not breaches(needlessly_within)


def room_of(path: Path) -> str:
    """The folder that a file is of; a file of `harness` itself is one of its own."""
    parts = path.relative_to(ROOT).with_suffix("").parts
    return parts[1] if parts[0] == "harness" else parts[0]


def in_circles(paths: Iterable[Path], room_of: Callable[[Path], str], package: str) -> list[str]:
    """The rooms of a package that stand on each other, each on another of them."""
    paths = [*paths]
    rooms = {room_of(path) for path in paths}
    below: dict[str, set[str]] = {room: set() for room in rooms}
    for path in paths:
        names = (name.removeprefix(f"{package}.") for name in at_top(path) if inside(name, package))
        below[room_of(path)] |= {name.split(".")[0] for name in names} & rooms - {room_of(path)}
    while free := {room for room, others in below.items() if not others & below.keys()}:
        below = {room: others for room, others in below.items() if room not in free}
    return sorted(below)


def test_no_two_rooms_stand_on_each_other() -> None:
    assert not in_circles(FILES, room_of, "harness")
    reports = [path for path in FILES if path.is_relative_to(ROOT / "reports") and path.parent != ROOT / "reports"]
    assert not in_circles(reports, lambda path: path.parent.name, "harness.reports")


def test_no_two_files_import_each_other() -> None:
    """By way of others neither, nor within functions, nor for a type. What only hands names on is no such file."""
    named = {path: ".".join(path.relative_to(ROOT).with_suffix("").parts) for path in FILES if path.stem != "__init__"}
    modules = {name if name.startswith("harness.") else f"harness.{name}": path for path, name in named.items()}
    TopologicalSorter({name: imported(ast.walk(parsed(path))) & {*modules} for name, path in modules.items()}).prepare()


def test_no_file_is_too_long_to_read_in_one_sitting() -> None:
    lengths = {str(p.relative_to(ROOT)): len(p.read_text(encoding="utf-8").splitlines()) for p in FILES}
    assert not {name: lines for name, lines in lengths.items() if lines > 400}


KINDS = (registry.OBJECTIVES, registry.STUDENTS, registry.TEACHERS, registry.TASKS, registry.SOURCES)
SOURCES = ROOT / "harness/data/task_sources"  # plugins, too
NAMED = {  # in a file of the engine, a name that is also a plugin's: why it may stand there
    ("harness/rows.py", "labels_only"): "what a teacher is fine-tuned by is part of what its run is",
    ("harness/rows.py", "label_smoothing"): "a control of --controls",
    ("harness/rows.py", "vanilla_kd"): "the rest of them are of the second stage of two_stage",
    ("harness/runs/settings.py", "mlm"): "so is what its head for masked tokens is trained by",
    ("harness/runs/settings.py", "vanilla_kd"): "and what the second stage of two_stage trains",
    ("harness/runs/settings.py", "cosine"): "a schedule of the learning rate",
    ("harness/contracts.py", "mlm_kd"): "the default of a field of Study, which runs were released with",
    ("harness/registry.py", "huggingface"): "what a name means that is no teacher's: one of the hub, or a folder",
    ("harness/registry.py", "ensemble"): "what several names joined by + mean",
    ("harness/modeling/fairseq_library.py", "fairseq"): "a library",
    ("harness/plugin_code.py", "fairseq"): "a library",
    ("harness/data/corpora.py", "embedded"): "a corpus, too, of the same grammar",
    ("harness/data/corpora.py", "hub"): "where corpora are, too",
    ("harness/planning/contents.py", "hub"): "where corpora are, too",
    ("harness/commands/exchange.py", "hub"): "where data of one's own may be",
    ("harness/commands/export.py", "hub"): "where data of one's own may be",
    **{("harness/data/embedded.py", task.name): "what it generates" for task in registry.SOURCES.get("embedded").tasks},
}


def test_the_engine_names_no_plugin_but_for_a_reason() -> None:
    """A string without a blank is a name; sentences may show one as an example."""
    plugins = {name for kind in KINDS for name in kind.names() if kind.ships(name)}
    found = {
        (str(path.relative_to(ROOT)), name)
        for path in FILES
        if path.is_relative_to(ROOT / "harness") and not path.is_relative_to(SOURCES)
        for node in ast.walk(parsed(path))
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " not in node.value
        for name in plugins & set(re.split(r"[:.+*]", node.value))
    }
    assert found == set(NAMED)


ENGINE = [path for path in FILES if path.is_relative_to(ROOT / "harness")]


def defaults(path: Path) -> Iterable[str]:
    """Defaults of settings that are stated where they are read."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
            of_settings = re.search(r"settings(['\"]\])?$", ast.unparse(node.func.value))
            if of_settings and isinstance(node.args[-1], ast.Constant) and len(node.args) > 1:
                yield ast.unparse(node)


def test_no_default_of_a_setting_is_stated_where_it_is_read() -> None:
    """`harness.runs.settings` and the plugins declare them; `Settings` looks there."""
    assert not breaches(defaults, ENGINE)


def compared(path: Path) -> Iterable[str]:
    """Comparisons with the name of a kind of runs or of a procedure, and specifications that are read by key."""
    names = {*Run.known, *registry.PROCEDURES.names()} - {""}
    if path.name == "merging.py":
        names -= {"teacher", "general"}  # prefixes of settings, as --set has them
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.Compare):
            wrong = bool({part.value for part in ast.walk(node) if isinstance(part, ast.Constant)} & names)
        else:
            by_key = isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Constant)
            wrong = by_key and bool(re.search(r"specification(\(\))?(['\"]\])?$", ast.unparse(node.value)))
        if wrong:
            yield ast.unparse(node)


def test_kinds_of_runs_and_procedures_are_asked_not_compared() -> None:
    """What depends on one is said by it: no other file compares its name, or reads its specification by key."""
    assert not breaches(compared, [path for path in ENGINE if path.parent.name not in ("runs", "procedures")])


def too_much(path: Path) -> Iterable[str]:
    """Functions of too many lines or arguments."""
    for node in ast.walk(parsed(path)):
        if isinstance(node, ast.FunctionDef):
            given = [each.arg for each in (*node.args.args, *node.args.kwonlyargs) if each.arg not in ("self", "cls")]
            lines = (node.end_lineno or 0) - node.lineno + 1
            if lines > 60:
                yield f"{node.name} has {lines} lines"
            if len(given) > 7 and node.name != "_attention":  # whose arguments are transformers'
                yield f"{node.name} takes {', '.join(given)}"


def test_functions_are_read_in_one_look() -> None:
    assert not breaches(too_much)
