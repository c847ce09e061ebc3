"""A plan that was worked out before: to look whether all that it rests on is as it was takes less than loading torch.

It rests on the request, on our code and that of plugins, on which distributions are installed, and on what teachers,
data, corpora and files of vectors hold, which is read again: nothing is believed for its time or its size; and on the
study and the settings that plugins declare, wherever they take them from. What cannot be looked at so, such as a hub,
is asked anew each time.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, replace
from pathlib import Path

from harness import registry
from harness.code_versions import fingerprint, here
from harness.contracts import Study, Task
from harness.data import own
from harness.files import checksum, digest, read_sealed, write_sealed
from harness.folders import STRAY
from harness.modeling import glove
from harness.planning.planned import Plan
from harness.planning.request import Request
from harness.plugin_code import ours

ROOM = "plans"  # in the cache


class Remembered:
    """What is known of a request in a cache: to be made before anything is read for it, so that no change is missed."""

    def __init__(self, request: Request, cache: Path | None):
        self._began = time.time_ns()
        self._request, self._code = request, here(request.plugins)
        self._asked = digest([asdict(request), os.getcwd()])
        self._file = cache / ROOM / f"{self._asked[:16]}.json" if cache and self._code else None
        self._stored = read_sealed(self._file) if self._file else {}
        self._key = ""

    @property
    def of_this_code(self) -> bool:
        """False where `plan` will surely be None, which is known before plugins are loaded."""
        return bool(self._stored) and self._stored.get("code") == self._code

    def plan(self) -> Plan | None:
        """The plan, or None where it was not kept or may be another now. Plugins are to be loaded, and nothing read.

        Raises UserError as loading plugins does.
        """
        _, declared, _ = own.told_apart(self._request.tasks, self._request.overrides)
        data = self._request.data or ""  # what lies there decides who reads it
        self._key = digest([
            self._asked,
            self._code,
            [[name, str(one.place), dict(one.settings), one.folder] for name, one in declared.items()],
            [repr(registry.STUDIES.get(self._request.study)), *plugins_declare()],
            os.path.isfile(glove.NAME),  # which would be read in place of the vectors that the name stands for
            sorted(os.listdir(data)) if os.path.isdir(data) and os.access(data, os.R_OK) else "",
        ])  # fmt: skip
        stored = self._stored
        if stored.get("key") != self._key or held_by(map(Path, stored["places"])) != stored["places"]:
            return None
        plan = replace(Plan.from_json(json.loads(stored["plan"])), read=looks(stored["places"]))
        own.KNOWN.clear()
        own.recall(plan.declared)
        return plan

    def keep(self, plan: Plan, held: Mapping[str, str] | None) -> None:
        """Write down a plan that rests on files and folders of these checksums beside the request. Raises UserError.

        Not where one was edited since this was made: the plan may be of what it held before.
        """
        if self._file and held is not None and not _edited(map(Path, held), self._began):
            # As text, since what is sealed has sorted keys: trials go by the order in which settings are declared.
            told = {"key": self._key, "code": self._code, "places": held, "plan": json.dumps(plan.to_json())}
            write_sealed(self._file, told)


def plugins_declare() -> Iterator[str]:
    """What loaded plugins of users declare, which may come from files that their text does not name."""
    for kind, known in registry.ALL.items():
        for name, (plugin, origin) in sorted(known.known().items()):
            if not ours(Path(origin)):
                settings = [getattr(plugin, of, None) for of in ("hyperparameters", "settings")]
                yield f"{kind} {name} {plugin if isinstance(plugin, (Study, Task)) else settings!r}"


def held_by(places: Iterable[Path]) -> dict[str, str] | None:
    """A checksum of what each of these files or folders holds; None where one cannot be read."""
    try:
        return {str(place): digest(_within(place)) if place.is_dir() else checksum(place) for place in sorted(places)}
    except OSError:
        return None


def looks(held: Mapping[str, str]) -> dict[str, list[str]]:
    """Place -> its checksum in `held`, and how it looks, which costs no reading: what a plan keeps, for `edited`."""
    return {os.path.abspath(place): [said, _look(Path(place))] for place, said in held.items()}


def edited(plan: Plan) -> list[str]:
    """Sentences on what a plan rests on and is not as it was. What looks as it did is not read.

    Nothing is said of what is not here: results are read where their data are not.
    """
    changed = []
    for place, (said, look) in plan.read.items():
        path = Path(place)
        if path.exists() and _look(path) != look and (held_by([path]) or {place: said})[place] != said:
            changed.append(place)
    return _told(changed)


def edited_plugins(plan: Plan) -> list[str]:
    """The same of files of plugins, whose code is part of what their runs are."""
    runs = [*(first.run for first in plan.first.values()), *(cell.run for cell in plan.cells)]
    planned = {pair for run in runs for pair in (run.plugins or {}).items()}
    files = {(plan.origins.get(name.partition(" ")[2], ""), version) for name, version in planned}
    return _told(sorted({file for file, version in files if Path(file).is_file() and fingerprint(file) != version}))


def _told(changed: Iterable[str]) -> list[str]:
    again = "harness run makes anew what rests on it"
    return [f"{place} was edited since these runs were planned: {again}" for place in changed]


def _look(place: Path) -> str:
    """A digest of the sizes of a file, or of all in a folder, and when they were changed; "" of what is gone.

    Of the times of change that one too which a program cannot set, as those do that copy a file with its own.
    """
    try:
        every = [place] if place.is_file() else sorted(file for file in _files(place) if file.is_file())
        found = ((file, file.stat()) for file in every)
        return digest([[str(file), of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns] for file, of in found])
    except OSError:
        return ""


def _edited(places: Iterable[Path], since: int) -> bool:
    """Whether one of these, or what is in it, was changed, added or removed since then, in nanoseconds since 1970."""
    every = (path for place in places for path in (place, *(_files(place) if place.is_dir() else ())))
    try:
        return any(path.stat(follow_symlinks=path.exists()).st_ctime_ns > since for path in every)  # a link to nothing
    except OSError:  # gone by now
        return True


def _within(folder: Path) -> dict[str, str]:
    """Checksums of all files in a folder."""
    return {file.relative_to(folder).as_posix(): checksum(file) for file in _files(folder) if file.is_file()}


def _files(folder: Path) -> Iterator[Path]:
    """All that is in a folder, those files too that are hidden, or that a link leads to: data may be.

    Not what systems leave in any.
    """
    seen = {os.path.realpath(folder)}
    for place, below, names in os.walk(folder, followlinks=True):
        real = {name: os.path.realpath(os.path.join(place, name)) for name in below}
        below[:] = [name for name in below if real[name] not in seen]  # no link leads round in a circle
        seen.update(real.values())
        yield from (Path(place, name) for name in (*below, *names) if name not in STRAY)
