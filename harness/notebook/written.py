"""What a notebook or script defines, as plugin files: runs happen in processes of their own, which know files alone.

Which names of it a request has, and so which files it needs; `harness.notebook.source` makes their text.
"""

from __future__ import annotations

import atexit
import hashlib
import re
import shutil
import tempfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from harness import registry
from harness.contracts import Study, Task
from harness.errors import UserError
from harness.files import atomic_write
from harness.notebook import as_written
from harness.notebook.source import study_text, text_of
from harness.registry import MAIN, WRITTEN

_NAMES = re.compile(r"[^\W\d]\w*")
_DEFINED: dict[str, Any] = {}  # written file -> what it was written of


def named(value: Any) -> Any:
    """The value with their names in place of objects. Raises UserError for one that is no plugin."""
    if value is None or isinstance(value, (str, int, float, Path, Mapping)):
        return value
    if isinstance(value, (list, tuple)):
        made = [(part, named(part)) for part in value]
        return [name for part, names in made for name in (names if isinstance(part, type) else [names])]
    if isinstance(value, type) and isinstance(tasks := getattr(value, "tasks", None), tuple):  # a source of tasks
        return [task.name for task in tasks]
    if isinstance(value, type) and isinstance(name := getattr(value, "name", None), str):
        _check_registered(value, name)
        return [name]
    if isinstance(value, Study) and registry.STUDIES.known().get(value.name, (None,))[0] != value:
        registry.STUDIES.add(value.name, value, MAIN)
    name = getattr(value, "name", None)
    if not isinstance(name, str) or isinstance(value, Task) and name not in registry.TASKS.names():
        raise UserError(
            f"{value!r} is not an objective, student, teacher, task or study that could be named: decorate it, as in "
            "@objective(NAME, needs=...), or declare it"
        )
    _check_registered(value, name)
    return name


def _check_registered(value: Any, name: str) -> None:
    """Raise UserError where a function or class of a notebook has a name by which another was defined since."""
    found = [known.known()[name] for known in registry.ALL.values() if name in known.known()]
    made = [_DEFINED.get(origin) or _defined(plugin) for plugin, origin in found if origin in WRITTEN]
    if callable(value) and made and not any(value is each for each in made):
        raise UserError(
            f"{name} was defined again after what is given as {name}: give the later one, or give one of them another "
            "name"
        )


def files_of(words: Iterable[Any], folder: Path | None) -> list[Path]:
    """The plugin files, written into the folder, of all that these words name and that no installed file defines.

    None: a temporary folder. Raises UserError for what cannot be written.
    """
    found: dict[Path, None] = {}
    waiting, seen = list(words), set[str]()
    while waiting:
        for name in set(_NAMES.findall(str(waiting.pop()))) - seen:
            seen.add(name)
            for known in registry.ALL.values():
                plugin, origin = known.known().get(name, (None, ""))
                if origin in WRITTEN:
                    defined = _DEFINED[origin] if origin in _DEFINED else _defined(plugin)
                    # Written anew each time: what it names may mean something else by now.
                    text, here = study_text(defined) if isinstance(defined, Study) else text_of(defined, name)
                    _check(known, name, defined, text, here)
                    made = _write(name, text, folder)
                    _DEFINED[str(made)], found[made] = defined, None
                    waiting.append(text)
                elif origin and (path := registry.own_file(known, name)):
                    found[path] = None
    return sorted(found)


def _defined(plugin: Any) -> Any:
    """The study, or the function or class of a notebook that a plugin was registered of."""
    if isinstance(plugin, Study):
        return plugin
    if isinstance(plugin, Task):
        sources = registry.SOURCES.known().values()
        plugin = next(source for source, origin in sources if origin == MAIN and plugin in source.tasks)
    defined = getattr(plugin, "defined_by", None) or getattr(plugin, "place", None) or plugin
    return defined if callable(defined) else type(defined)


def _check(known: registry.Registry[Any], name: str, defined: Any, text: str, here: Mapping[str, Any]) -> None:
    """Raise UserError where a file makes something else than what is defined here. here: what the names in it mean."""
    with as_written.run(name, text) as made:
        pairs = [(name, defined, _defined(known.known()[name][0]))]
        pairs += [(each, value, made[each]) for each, value in here.items() if each in made]
        told = next(filter(None, (as_written.difference(*pair) for pair in pairs)), "")
    if told:
        raise UserError(f"{name}: {told}: define it again, or give it as it is made")


def _write(name: str, text: str, folder: Path | None) -> Path:
    if folder is None:
        folder = Path(tempfile.mkdtemp(prefix="harness-plugins-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    path = (folder / f"{name}_{hashlib.sha256(text.encode()).hexdigest()[:12]}.py").resolve()
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        atomic_write(path, text.encode())
    WRITTEN.add(str(path))
    return path
