"""Fingerprints of the code that a run's number rests on: recorded, and compared when a table is written.

They are no part of what a run is, but for plugins that are no part of this distribution (`outside`): whoever edits the
formula of one has another objective.
"""

from __future__ import annotations

import functools
import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from importlib.machinery import ModuleSpec, PathFinder
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from harness import combine, plugin_code
from harness.errors import UserError
from harness.files import JSON, checksum, digest
from harness.plugin_code import (
    INSTALLED,
    ROOT,
    along,
    digest_of,
    files,
    folder_of,
    imports,
    meant,
    modules,
    our_folders,
    ours,
)
from harness.registry import (
    ALL,
    ENSEMBLE,
    HUB,
    OBJECTIVES,
    PROCEDURES,
    STUDENTS,
    TASKS,
    TEACHERS,
    WRITTEN,
    Registry,
    file_of,
    installed,
    told_to_transformers,
)
from harness.runs import BaseTeacher, Run

ROOMS = ("data", "evaluation", "jobs", "modeling", "teaching", "training")
CONTRACTS = ("batch.py", "combine.py", "contracts.py", "hyperparameters.py", "runs/*.py", "seeds.py")
# Variables that say where a process runs and not what it computes, some of which the harness sets itself; and how
# others of them begin.
OF_MACHINES = {"HOME", "HOSTNAME", "LOGNAME", "PATH", "PWD", "RANK", "TEMP", "TMP", "TMPDIR", "USER", "WORLD_SIZE"}
OF_LIBRARIES = (
    "CUDA_", "HF_", "LOCAL_", "MASTER_", "MKL_", "NCCL_", "OMP_", "OMPI_", "ONEDNN_", "PMI_", "PYTHON", "RAY_",
    "SLURM_", "TOKENIZERS_", "TORCH_", "XDG_",
)  # fmt: skip
LIBRARIES = ("nltk", "pysbd", "textblob", "tokenizers", "torch", "transformers")


@functools.cache
def fingerprint(path: str) -> str:
    """12 hexadecimal digits of the syntax trees of a plugin's file and of what it imports beside it, and of other files
    there that it names.

    Comments, docstrings and layout do not count, nor where the files lie, nor the version of Python; of our own files
    no sentences of exceptions either.
    """
    return digest_of(files(path))


@functools.cache
def engine() -> dict[str, str]:
    """Part of the engine, as tables call it -> fingerprint. Parses some 60 files, once a process."""
    home = ROOT / "harness"
    found = {f"harness.{room}": digest_of((home / room).rglob("*.py")) for room in ROOMS}
    return found | {"harness.contracts": digest_of(path for name in CONTRACTS for path in home.glob(name))}


def built_on(path: str) -> set[Path]:
    """The files of shipped plugins that a user's plugin imports, and those that they import, in turn.

    They are no part of what its runs are, as `engine` is none.
    """
    found: set[Path] = set()
    for file in modules(path) if not Path(path).is_relative_to(ROOT) else ():
        names = (name.removeprefix("harness.").split(".") for _, name in imports(file))
        places = (place for top, *rest in names if top in ALL for place in along(folder_of(top), rest))
        found |= {own for place in places if place.is_file() for own in files(str(place))}
    return found


# ---------------------------------------------------------------- of everything


def sources(plugins: Sequence[str] = ()) -> str:
    """A hash of all that what we do comes from: each of our files and the plugins', and which distributions there are.

    plugins: files of --plugin. Nothing is imported. A distribution counts by its version, but for installed plugins.
    """
    theirs = [file for path in plugins if Path(path).is_file() for file in sorted(files(os.path.abspath(path)))]
    theirs = list(dict.fromkeys((*theirs, *_installed())))
    return digest([sys.version, _distributions(), own_code(), _hashed(theirs), _environment(theirs)])


def _environment(paths: Iterable[Path]) -> dict[str, str]:
    """{a variable that these files of users' code read: a hash of its value}, named as in a shell, "$" first."""
    names = {name for path in paths if not ours(path) for name in plugin_code.variables(path)} - OF_MACHINES
    return {f"${name}": _value(name) for name in sorted(names) if not name.startswith(OF_LIBRARIES)}


def _value(variable: str) -> str:
    return digest(os.environ.get(variable))[:12]


@functools.cache  # a command asks six times
def own_code(placed: bool = True) -> str:
    """A hash of each of our files, and of where it lies if `placed`, whatever else this process has found or loaded."""
    return _hashed(_ours()) if placed else digest([[str(path.relative_to(ROOT)), _content(path)] for path in _ours()])


def _hashed(paths: Iterable[Path]) -> str:
    return hashlib.sha256("".join(f"{path}\0{_content(path)}\0" for path in paths).encode()).hexdigest()


def here(plugins: Sequence[str]) -> str | None:
    """`sources` of these files of plugins and of others that this process has loaded; None where one is in no file.

    To be asked before what it is to vouch for is made: who edits a file meanwhile is noticed then. None, too, where a
    file may not be read.
    """
    origins = {origin for known in ALL.values() for _, origin in known.known().values()}
    if origins & WRITTEN:  # what a notebook's cells define
        return None
    installed = {str(path) for path in _installed()}
    others = {origin for origin in origins - installed if not ours(Path(origin))}
    try:
        return sources(sorted({*map(os.path.realpath, plugins), *others}))
    except OSError:  # one may not be read
        return None


@functools.cache  # what is loaded stays as it is, whoever edits its file meanwhile
def _content(path: Path) -> str:
    with suppress(OSError):
        return hashlib.sha256(path.read_bytes()).hexdigest()
    return ""


def _ours() -> Iterator[Path]:
    for folder in our_folders():
        for place, within, names in os.walk(folder):
            within[:] = sorted(name for name in within if name != "__pycache__")
            yield from (Path(place, name) for name in sorted(names) if not name.endswith(".pyc"))


def _distributions() -> list[str]:
    """The names and versions of all that is installed, as their folders say them."""
    # A set, for some processes have a folder twice in sys.path.
    found = {name for path in sys.path if os.path.isdir(path) for name in os.listdir(path)}
    return sorted(name for name in found if name.endswith((".dist-info", ".egg-info")))


def _installed() -> Iterator[Path]:
    """The files of installed plugins, those too that these import from beside them or name: see `files`."""
    for point in installed():
        with suppress(ImportError, ValueError):
            spec = importlib.util.find_spec(point.value.partition(":")[0].partition(".")[0])
            folders = spec.submodule_search_locations if spec else None
            found = {path for folder in folders or () for path in Path(folder).rglob("*.py")}
            found |= {Path(spec.origin)} if spec and spec.origin and not folders else set()
            yield from sorted(found.union(*(files(str(path)) for path in found)))


# ---------------------------------------------------------------- of a run


def plugins(run: Run) -> list[tuple[Registry[Any], str]]:
    """The plugins whose code takes part in a run, not counting those in the runs that it starts from."""
    found: list[tuple[Registry[Any], str]] = []
    if run.student_name:
        found.append((STUDENTS, run.student_name))
    if isinstance(run.learns_from, BaseTeacher):
        found.append((TEACHERS, run.learns_from.name))
    if run.by_procedure:
        found.append((PROCEDURES, run.by_procedure))
    found += _performed_by(type(run))
    names = (name for expression in run.expressions() for _, name in combine.parse(expression))
    # Ours are a part of the engine, harness.data; what --tasks names is data alone.
    tasks = [name for name in run.data_of if name in TASKS.names() and not TASKS.ships(name)]
    return [*found, *((OBJECTIVES, name) for name in names), *((TASKS, name) for name in tasks)]


def _performed_by(kind: type[Run]) -> list[tuple[Registry[Any], str]]:
    """The procedures of users whose code brings a kind of run: it says how that is performed, whatever its stages."""
    own = Path(file_of(kind))
    if ours(own):
        return []
    theirs = (name for name, (_, origin) in sorted(PROCEDURES.known().items()) if not PROCEDURES.ships(name))
    return [(PROCEDURES, name) for name in theirs if own in modules(PROCEDURES.origin(name))]


def outside(run: Run) -> dict[str, str]:
    """Plugin -> fingerprint, of those that are no part of this distribution: their code belongs to what a run is."""
    found = {}
    for registry, name in plugins(run):
        if not registry.ships(name):
            _check_loaded(registry.origin(name))
            found[f"{registry.kind} {name}"] = fingerprint(registry.origin(name))
    return found | (_models(run.learns_from.name) if isinstance(run.learns_from, BaseTeacher) else {})


def _models(teacher: str) -> dict[str, str]:
    """The fingerprint of users' files whose models transformers was told of: a teacher's weights may be of these.

    What other installed libraries tell it does not count: that depends on what a process has imported.
    """
    told = told_to_transformers() if teacher in (HUB, ENSEMBLE) else set()
    plugins = {point.module.partition(".")[0] for point in installed()}
    found = {
        path
        for each in told
        if (path := Path(file_of(each))).is_file()
        and (each.__module__.partition(".")[0] in plugins or not INSTALLED & {*path.parts})
    }
    return {"registered models": digest(sorted(fingerprint(str(path)) for path in found))[:12]} if found else {}


def of_teacher(name: str) -> str:
    """Of the code of a teacher's plugin, of the shipped ones it is built on, and of the models that it may load."""
    own, models = _version(TEACHERS.origin(name)), _models(name)
    return digest([own, models]) if models else own


@functools.cache
def _check_loaded(path: str) -> None:
    """Raise UserError if a plugin gets a module of another file than its own of that name: loaded before, or found
    first by what it imports only as it is called.
    """
    folder, own = Path(path).parent, {file.resolve() for file in modules(path)}
    package = (folder / "__init__.py").is_file()
    for name, file in sorted(meant(path)):
        loaded = _file_of(name)
        if not loaded or Path(loaded).resolve() in own:
            continue
        # A package may have a module that is called as one of Python's or of another distribution, and import that.
        if package and file in plugin_code.files_of(folder, name.split(".")) and plugin_code.others(Path(loaded)):
            continue
        raise UserError(f"plugin {path} imports {file}, but {loaded}, of the same name, is found first: rename one")


def _file_of(module: str) -> str | None:
    """The file of a module, that is loaded or would be; None where it has none or there is none."""
    if module in sys.modules:
        return getattr(sys.modules[module], "__file__", None)
    spec = _spec(module)
    return spec.origin if spec and spec.has_location else None


def _spec(module: str) -> ModuleSpec | None:
    """Where a module would be found, without importing its package."""
    package = module.rpartition(".")[0]
    within = _spec(package) if package else None
    if package and not (within and within.submodule_search_locations):
        return None
    return PathFinder.find_spec(module, within.submodule_search_locations if within else None)


def identified(run: Run) -> Run:
    """The run with the code of its plugins, where that belongs to what it is."""
    return replace(run, plugins=outside(run) or None)


def check_plugins(run: Run) -> None:
    """Raise UserError if a plugin is another than when its run was planned."""
    planned, found = run.plugins or {}, outside(run)
    for name in sorted({*planned, *found}):
        if planned.get(name) != found.get(name):
            raise UserError(f"the code of {name} changed since the study was planned; give the command again")


def opened_otherwise(run: Run) -> list[str]:
    """The users' plugins that open and ask what a run left, and are others than when it was planned.

    What it was trained by is in its weights.
    """
    planned, found = run.plugins or {}, outside(run)
    theirs = [name for name in planned if not name.startswith((OBJECTIVES.kind, PROCEDURES.kind))]
    return sorted(name for name in theirs if planned[name] != found.get(name))


def read_later(run: Run) -> dict[Path, str]:
    """What the files of a run's plugins say that the run may yet read: modules that are not loaded, and no modules."""
    theirs = {file for known, name in plugins(run) if not known.ships(name) for file in files(known.origin(name))}
    if not theirs:  # there are thousands of modules
        return {}
    origins = (getattr(each, "__file__", None) for each in list(sys.modules.values()))
    loaded = {_place(file) for file in origins if file}
    return {file: plugin_code.code(file) for file in theirs if not file.exists() or _place(file) not in loaded}


def _place(file: str | Path) -> tuple[int, int] | None:
    """The same of one file by all its names; to follow each path would be a quarter of what a short run takes."""
    with suppress(OSError):
        status = os.stat(file)
        return status.st_dev, status.st_ino
    return None


def check_read_later(known: Mapping[Path, str]) -> None:
    """Raise UserError if one of these files, from `read_later` before a run, is another after it."""
    for file, said in sorted(known.items()):
        if not file.is_file() or plugin_code.code.__wrapped__(file) != said:
            raise UserError(
                f"{file} was edited while a run went on that may have read it since; give the command again"
            )


def of_run(run: Run) -> dict[str, str]:
    """{part of the engine, plugin, or variable of the environment that one reads: fingerprint} behind a run."""
    origins = {name: registry.origin(name) for registry, name in plugins(run)}
    environment = _environment(file for origin in origins.values() for file in modules(origin))
    return engine() | environment | {name: _version(origin) for name, origin in origins.items()}


@functools.cache
def _version(path: str) -> str:
    """What is recorded of a plugin: its fingerprint, and of a user's that is built on shipped ones theirs as well."""
    shipped = built_on(path)
    return digest([fingerprint(path), digest_of(shipped)])[:12] if shipped else fingerprint(path)


def of_stored(teacher: str) -> str:
    """Of the code behind what is stored for other runs: a teacher's outputs, texts as they were read or augmented."""
    return digest([engine(), of_teacher(teacher), _libraries()])[:12]


@functools.cache
def _libraries() -> dict[str, str]:
    """The versions of those that read texts and compute teachers, whatever device they were built for."""
    found = {}
    for name in LIBRARIES:
        with suppress(PackageNotFoundError):
            found[name] = version(name).partition("+")[0]
    return found


def current(origins: Mapping[str, str]) -> dict[str, str]:
    """Part of the engine or plugin -> fingerprint of its code as it is here.

    origins: plugin -> its file, as a plan has it; one that is gone is left out.
    """
    files = ((name, ROOT / file) for name, file in origins.items())
    return engine() | {name: _version(str(path)) for name, path in files if path.is_file()}


def elsewhere(records: Iterable[JSON]) -> list[str]:
    """The files elsewhere that plugins read in runs, as their records tell them beside code: see `jobs.reading`."""
    names = {name for record in records for name in record.get("code", ())}
    return [name for name in names if os.path.isabs(name)]


def _as_read(name: str) -> str:
    """What a record would tell of such a file or of a variable now; "" of code, and of a file that is gone."""
    if name.startswith("$"):
        return _value(name[1:])
    with suppress(OSError):
        return _checksum(name, os.stat(name).st_mtime_ns) if os.path.isabs(name) else ""
    return ""


@functools.cache  # many records tell of the same
def _checksum(name: str, changed_at: int) -> str:
    return checksum(Path(name))


def changed(record: JSON, read: Callable[[str], JSON | None], now: Mapping[str, str]) -> set[str]:
    """The parts of the engine and the plugins that are others now than when a run, or one it starts from, was made.

    read: the record of a run. now: `current`; of a plugin that is not in it nothing is told.
    """
    if "code" not in record:  # it failed, or was only counted
        return set()
    code = record["code"]
    names = {name for name, version in code.items() if (now.get(name) or _as_read(name) or version) != version}
    names |= engine().keys() - code.keys()
    for run in record.get("started_from", {}):
        before = read(run)
        names |= set() if before is None else changed(before, read, now)
    return names
