"""What plugins and settings declare, by name: looked up without loading them, where nothing has changed since.

Loading objectives and students takes seconds, because they import torch. So what a kind of thing declares is kept in
the user's cache folder, with a hash of the content of all that it comes from: our own files, those of --plugin and of
installed distributions. Whatever is absent, damaged or of other content is worked out anew.
"""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from harness import registry
from harness.code_versions import here, sources
from harness.contracts import Hyperparameter, Study, Task
from harness.data import metric_names
from harness.data.declaration import Declaration
from harness.errors import UserError, counted
from harness.files import JSON, digest, read_sealed, write_sealed
from harness.planning.declarations import OWNERS
from harness.planning.request import Variant
from harness.plugin_code import ROOT
from harness.runs.settings import SEARCH, SHARED, SPEED_SETTINGS, TRAINING, UNTUNED


class Line(NamedTuple):
    """A name, and what it is. family: of objectives, the file that they are from; about: what that is."""

    name: str
    text: str
    family: str = ""
    about: str = ""


def lines(kind: str, plugins: Sequence[str] = ()) -> list[Line]:
    """Every name of a kind with what it is, as the files are now. Raises UserError as loading plugins does."""
    place = _place(kind, plugins)
    stored = read_sealed(place) if place else {}
    key = sources(plugins)
    if stored.get("key") == key:
        return _read(stored)
    for path in plugins:
        registry.load_file(path)
    found = list(KINDS[kind]())
    if place and here(plugins) == key:  # not what this process has loaded besides
        with suppress(UserError):  # it is worked out anew, then
            write_sealed(place, {"key": key, "lines": found})
    return found


def names(kind: str, plugins: Sequence[str] = ()) -> list[str]:
    """The names of a kind, for whoever types: those of an earlier version rather than to wait for the new ones."""
    place = _place(kind, plugins)
    stored = _read(read_sealed(place)) if place else []
    return [line.name for line in stored or lines(kind, plugins)]


def _read(stored: JSON) -> list[Line]:
    return [Line(*map(str, line)) for line in stored.get("lines", ())]


def _place(kind: str, plugins: Sequence[str]) -> Path | None:
    """The file that keeps what a kind declares; None without a folder of the user's."""
    given = os.environ.get("XDG_CACHE_HOME", "")
    try:
        folder = Path(given) if os.path.isabs(given) else Path.home() / ".cache"
    except RuntimeError:
        return None
    whose = digest([str(ROOT), *(os.path.abspath(path) for path in plugins)])[:12]
    return folder / "distill-harness" / f"{kind}-{whose}.json"


# ---------------------------------------------------------------- of each kind


def _plugins(kind: registry.Registry[Any]) -> Iterator[Line]:
    for name in kind.names():
        plugin = kind.get(name)
        text = _first_paragraph(plugin)
        if settings := getattr(plugin, "hyperparameters", None):
            text += f" [{', '.join(f'{name}.{key}={h.default}' for key, h in settings.items())}]"
        yield Line(name, text.strip())


def _objectives() -> Iterator[Line]:
    """Family by family, each with the signals that it needs and the works that it is from."""
    found = []
    for name, text, *_ in _plugins(registry.OBJECTIVES):
        plugin = registry.OBJECTIVES.get(name)
        about = (sys.modules[plugin.defined_by.__module__].__doc__ or "").strip()
        needs = " and ".join(sorted(signal.value for signal in plugin.needs))
        sources = ", ".join(works(plugin.__doc__ or "") or works(about))
        told = f"{text} Needs {needs}." + (f" From {sources}." if sources else "")
        family = Path(registry.OBJECTIVES.origin(name)).stem.replace("_", " ")
        found.append(Line(name, told.strip(), family, " ".join(about.partition("\n\n")[0].split())))
    yield from sorted(found, key=lambda line: (line.family, line.name))


def works(text: str) -> list[str]:
    """Those that a docstring names, as in "Hinton et al. (2015)" or, of the four, "wang2023"."""
    author = r"[A-Z][\w'-]+(?: et al\.| and [A-Z][\w'-]+)?"
    named = re.findall(rf"\b({author}),? \(?((?:19|20)\d\d)\b|\b([a-z]+20\d\d)\b", " ".join(text.split()))
    return list(dict.fromkeys(short or f"{who} ({year})" for who, year, short in named))


def _first_paragraph(plugin: Any) -> str:
    if isinstance(plugin, Study):
        return plugin.question
    if isinstance(plugin, Task):
        return _of_task(plugin)
    if isinstance(plugin, Declaration):
        return plugin.doc or "your own data"
    return " ".join((plugin.__doc__ or "").strip().partition("\n\n")[0].split())


def _of_task(task: Task) -> str:
    """ "MRPC: pairs of texts, classes 0, 1, about 3,668 to train on; accuracy_f1_mean"."""
    if task.ranking:
        found = "candidates to be ranked"
    elif task.bins:
        found = f"a score, told as one of {len(task.bins)} classes"
    elif len(task.labels) > 5:
        found = f"{len(task.labels)} classes"
    else:
        found = f"classes {', '.join(task.labels)}" if task.labels else "a score"
    known = f", about {task.examples:,} to train on" if task.examples else ""
    return f"{task.label}: {'pairs of texts' if task.pair else 'single texts'}, {found}{known}; {task.metric}"


def _settings() -> Iterator[Line]:
    """Those of every training; of what takes them under a name of its own; of plugins."""
    yield from (Line(name, _told(setting)) for name, setting in TRAINING.items())
    yield from (Line(name, f"of a search: {_told(setting)}") for name, setting in SEARCH.items())
    for owner, settings in OWNERS.items():
        same = [name for name, setting in settings.items() if setting == TRAINING.get(name)]
        taken = [name for name in TAKEN.get(owner, ()) if name in same]
        unless = f"; {', '.join(taken)} are those of its students where not given" if taken else ""
        yield Line(f"{owner}.NAME", f"of {OWNED[owner]}; NAME as above is {', '.join(same)}{unless}")
        for name, setting in settings.items():
            if name not in same:
                yield Line(f"{owner}.{name}", _told(setting))
    yield from (Line(name, _told(setting)) for name, setting in UNTUNED.items())
    for name, setting in SPEED_SETTINGS.items():
        if name not in TRAINING:
            yield Line(name, f"of the speed of encoding: {_told(setting)}")
    declared: dict[tuple[str, Hyperparameter], list[str]] = {}
    for student in registry.STUDENTS.names():
        for name, setting in registry.STUDENTS.get(student).hyperparameters.items():
            declared.setdefault((name, setting), []).append(student)
    for (name, setting), students in declared.items():
        yield Line(f"student.{name}", f"of {', '.join(students)}: {_told(setting)}")
    for objective in registry.OBJECTIVES.names():
        for name, setting in registry.OBJECTIVES.get(objective).hyperparameters.items():
            yield Line(f"{objective}.{name}", _told(setting))


OWNED = {
    "teacher": "fine-tuning the teacher",
    "general": "distillation on a corpus",
    "multi_task": "distillation on several tasks together",
}
TAKEN = {"teacher": SHARED}  # from the students, where not given


def _told(setting: Hyperparameter) -> str:
    """ "default 3, at least 1: passes over the training data"."""
    found = [f"default {setting.default}"]
    if setting.choices:
        found.append(f"one of {', '.join(map(str, setting.choices))}")
    elif setting.low is not None and setting.high is not None:
        found.append(f"{setting.low:g} to {setting.high:g}")
    elif setting.low is not None:
        found.append(f"at least {setting.low:g}")
    return f"{'; '.join(found)}{': ' if setting.says else ''}{setting.says}"


def _inits() -> Iterator[Line]:
    """Those that the engine makes, those of files, and all that studies start students from."""
    from harness.modeling import static_vectors

    students = [Variant.of(name) for name in registry.STUDENTS.names()]
    told = {
        "random": "random weights",
        "random:embeddings": "random weights under the teacher's embeddings",
        "every": "the teacher's embeddings and its layers, evenly spread",
        "first": "the teacher's embeddings and its first layers",
        "last": "the teacher's embeddings and its last layers",
        "1,8,12": "the teacher's embeddings and these of its layers: any list, of as many as the student has",
        static_vectors.INIT: "what the teacher makes of each word alone, its principal components, as Model2Vec",
    }
    for name, text in told.items():
        takes = [student.name for student in students if student.knows(name)]
        if takes:
            yield Line(name, f"{text}; of {_listed(takes, students)}")
    for kind in sorted({kind for student in students for kind in student.plugin.file_inits}):
        takes = [student.name for student in students if kind in student.plugin.file_inits]
        yield Line(f"{kind}:FILE", f"what this file holds; of {_listed(takes, students)}")
    made = {
        "pretrained": "the student distilled on a corpus before, which harness run makes first",
        "pretrained:RUN": "the student that this run of the same results distilled on a corpus",
        "multi_task": "the student distilled on several tasks before",
    }
    yield from (Line(name, f"{text}; of every student") for name, text in made.items())


def _listed(some: Sequence[str], every: Sequence[object]) -> str:
    return "every student" if len(some) == len(every) else ", ".join(some)


def _metrics() -> Iterator[Line]:
    """Those of tasks, each with the tasks that it is shown for."""
    found = [registry.TASKS.get(name) for name in registry.TASKS.names()]
    tasks = [task for task in found if isinstance(task, Task)]  # the user's own choose by their data
    own = {**metric_names.CLASSES, **metric_names.BINARY, **metric_names.SCORES}
    for metric in sorted({*own, *(metric for task in tasks for metric in task.metrics)}):
        chosen = [task.name for task in tasks if task.metric == metric]
        others = [task.name for task in tasks if metric in task.metrics and task.name not in chosen]
        parts = [own.get(metric, ""), f"chooses epochs and settings of {', '.join(chosen)}" if chosen else ""]
        parts += [f"beside others of {', '.join(others)}" if others else ""]
        yield Line(metric, "; ".join(filter(None, parts)))


def _profiles() -> Iterator[Line]:
    """Those of every study."""
    for name in registry.STUDIES.names():
        for size, profile in registry.STUDIES.get(name).profiles.items():
            axes = f"teacher {profile.teacher}; tasks {', '.join(profile.tasks)}; inits {', '.join(profile.inits)}"
            numbers = {"trial": profile.trials, "seed": profile.seeds}
            budget = ", ".join(counted(number, what) for what, number in numbers.items())
            yield Line(f"{name} {size}", f"{axes}; {budget}")


KINDS: dict[str, Callable[[], Iterator[Line]]] = {
    **{name: partial(_plugins, kind) for name, kind in registry.ALL.items()},
    "objectives": _objectives,
    "settings": _settings,
    "inits": _inits,
    "metrics": _metrics,
    "profiles": _profiles,
}
