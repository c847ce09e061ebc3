"""The plans that a folder of results holds: how they are written, read and found, each where `naming` says.

What a plan that is replaced had and the new one has not is set aside: every cell that was ever planned is found.
"""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import registry
from harness.errors import UserError
from harness.files import JSON, atomic_write, digest
from harness.folders import holds_results, names
from harness.planning import spelling
from harness.planning.naming import EARLIER, NAME, variant_in
from harness.planning.planned import FORMAT, Plan
from harness.planning.request import Request

SEAL = "sha256"
HERE = "{results}"  # in a plan's JSON, the folder of results, wherever it is


# ---------------------------------------------------------------- writing and reading


def keep(out: Path, plan: Plan) -> Plan:
    """Write a plan down, in the folder that its kind has already, and return it so.

    Only the holder of the ledger's lock may.
    Files that lie below or beside the folder of results are told by where they lie from there.
    """
    base = out / plan.study / plan.profile
    # What holds the results, too, is another after every run.
    results = Path(os.path.realpath(out))
    read = {place: said for place, said in plan.read.items() if not results.is_relative_to(os.path.realpath(place))}
    plan = replace(plan, variant=variant_in(base, plan), read=read)
    told = _with_places(plan.to_json(), lambda field, text: _stored(field, text, Path(os.path.abspath(out))))
    path = base / plan.variant / NAME
    _set_aside(path, {cell.id for cell in plan.cells})
    atomic_write(path, _sealed(told))
    return plan


def _sealed(told: JSON) -> bytes:
    """A plan's JSON, to be read by eye too, with the checksum of all the rest."""
    plain = json.loads(json.dumps(told))
    return json.dumps({**plain, SEAL: digest(plain)}, indent=1).encode()


def _unsealed(content: bytes) -> Any:
    """What `_sealed` was given; older plans have no checksum. Raises ValueError for what is not as it was written."""
    told = json.loads(content)
    if isinstance(told, dict) and SEAL in told and told.pop(SEAL) != digest(told):
        raise ValueError("its checksum does not match")
    return told


def is_whole(content: bytes) -> bool:
    """Whether the file of a plan is as some version wrote it."""
    try:
        return isinstance(_unsealed(content), dict)
    except (ValueError, RecursionError):
        return False


def cells_in(content: bytes) -> set[str]:
    """The ids of the cells that the file of a plan tells of; it is whole."""
    return {cell["id"] for cell in _unsealed(content).get("cells", ())}


def _set_aside(path: Path, cells: set[str]) -> None:
    """Keep the plan that is replaced, if it has cells that are none of these."""
    try:
        raw = path.read_bytes()
        lost = {cell["id"] for cell in _unsealed(raw)["cells"]} - cells
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # there is none, or none that can be read
        return
    if lost:
        atomic_write(aside(path, raw), raw)


def aside(path: Path, content: bytes) -> Path:
    """Where a plan lies that gave way to another at `path`."""
    return path.parent / EARLIER / f"{hashlib.sha256(content).hexdigest()[:16]}.json"


def read(path: Path, out: Path) -> Plan:
    """A plan as `keep` wrote it, or an earlier version. Raises UserError if it cannot be read, FileNotFoundError."""
    again = "the harness run command that made it writes it again"
    try:
        told = _unsealed(path.read_bytes())
    except FileNotFoundError:
        raise
    except OSError as error:
        raise UserError(f"{path} cannot be read ({error.strerror}); {again}") from error
    except (ValueError, RecursionError) as error:
        raise UserError(f"{path} is damaged; {again}") from error
    if isinstance(told, dict) and told.get("format", FORMAT) != FORMAT:
        raise UserError(f"{path} was written by another version; {again}")
    here = os.path.abspath(out)
    try:
        return Plan.from_json(_with_places(told, lambda field, text: found(text, here)))
    except (ValueError, KeyError, TypeError, AttributeError) as error:  # it was not written by us, or not whole
        raise UserError(f"{path} is damaged; {again}") from error


def _with_places(told: JSON, change: Callable[[str, str], str]) -> dict[str, Any]:
    """A plan's JSON with every text that may tell a place changed.

    change: (its field, or the teacher that takes it, the text) -> another.
    """
    changed = dict(told)
    for field in ("source", "corpus"):
        changed[field] = change(field, told[field])
    changed["argument"] = change(f"teacher {told['teacher']}", told["argument"])
    changed["plugins"] = [change("plugins", path) for path in told["plugins"]]
    if told.get("read"):
        changed["read"] = {change("read", path): said for path, said in told["read"].items()}
    for field in ("files", "origins"):
        if field in told:  # not so in plans of earlier versions
            changed[field] = {key: change(field, path) for key, path in told[field].items()}
    own = told.get("declared", {}).items()
    if own:
        changed["declared"] = {key: {**said, "place": change("declared", said["place"])} for key, said in own}
    sources = told["checkpoints"].items()
    changed["checkpoints"] = {key: [name, change(f"teacher {name}", argument)] for key, (name, argument) in sources}
    return changed


def _stored(field: str, text: str, here: Path) -> str:
    if field == "origins" and not os.path.isabs(text):  # in this distribution
        return text
    place = Path(os.path.abspath(os.path.expanduser(text)))
    if not (text and place.is_relative_to(here.parent) and os.path.exists(place)) or _is_name(field, text, place):
        return text
    return told_from(str(place), here)


def told_from(place: str, out: Path) -> str:
    """How plans of this folder of results tell a file: below or beside it, by where it lies from there."""
    here = Path(os.path.abspath(out))
    return f"{HERE}/{os.path.relpath(place, here)}" if Path(place).is_relative_to(here.parent) else place


def _is_name(field: str, text: str, place: Path) -> bool:
    """Whether the text means no place, though there is a file of that name."""
    if field == "source":
        return spelling.is_source(text)
    if field == "corpus":
        return spelling.is_corpus(text)
    if field.startswith("teacher "):
        try:
            registry.TEACHERS.get(field.removeprefix("teacher "))(str(place))
        except UserError:  # this teacher takes no folder
            return True
    return False


def found(text: str, here: str) -> str:
    """The place that a plan of the folder of results `here` means."""
    return os.path.normpath(here + text.removeprefix(HERE)) if text.startswith(f"{HERE}/") else text


def moved(content: bytes, change: Callable[[str, str], str]) -> bytes:
    """The file of a plan with other places; as it is, where nothing changes or it cannot be read."""
    try:
        told = _unsealed(content)
        changed = _with_places(told, change)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # `read` says what is wrong
        return content
    return content if changed == told else _sealed(changed)


# ---------------------------------------------------------------- what is there


def paths(out: Path) -> list[Path]:
    """Every plan of a folder of results, those that were set aside first."""
    found: list[Path] = []
    for study in sorted(out.iterdir()) if out.is_dir() else ():
        if study.name not in ("ledger", "cache") and study.is_dir():
            found += study.glob(f"*/**/{NAME}")
            found += study.glob(f"*/**/{EARLIER}/*.json")
    return sorted(found, key=lambda path: (path.name == NAME, path))


def every(out: Path) -> tuple[list[Plan], list[Exception]]:
    """(every plan in a folder of results, what is wrong with those that cannot be read)."""
    plans: list[Plan] = []
    unread: list[Exception] = []
    for path in paths(out):
        try:
            plans.append(read(path, out))
        except (UserError, FileNotFoundError) as error:  # a link that leads nowhere
            unread.append(error)
    return plans, unread


def only(out: Path, study: str | None, profile: str | None) -> tuple[str, str]:
    """(study, profile): what is left out is the only one that a folder has results of; of a study's profiles, quick.

    Raises UserError where a study is left out that is not the only one, and for a file, such as a packed folder.
    """
    there = paths(out) if holds_results(out) or "ledger" in names(out) else []  # a ledger begins with its first run
    here = dict.fromkeys((path[0], path[1]) for path in (path.relative_to(out).parts for path in there))
    meant = [pair for pair in here if study in (None, pair[0]) and profile in (None, pair[1])]
    if len(meant) == 1:
        return meant[0]
    if study is not None:  # what is not there is told where it is looked for
        return study, profile or "quick"
    if not here:
        start = f"start with harness run --study NAME --out {shlex.quote(str(out))}"
        raise UserError(f"there are no results in {out}; {start}, or give their folder with --out")
    known = ", ".join(f"{name} (profile {size})" for name, size in meant or here)
    which = "say which by --study and --profile" if meant else f"none of profile {profile}"
    raise UserError(f"{out} holds results of {known}: {which}")


def load_study(out: Path, study: str, plugins: Sequence[str]) -> None:
    """Load the plugin files given, or where nothing else knows the study those that its plans were made with."""
    for path in plugins:
        registry.load_file(path)
    if study in registry.STUDIES.names():
        return
    lacking: UserError | None = None
    for files, origins in _plugins_of(out, study):
        lacking = lacking or (None if files else not_installed(f"study {study}", origins))
        for path in files:
            if not Path(path).is_file():
                raise UserError(
                    f"study {study} was made with plugin file {path}, which does not exist: --plugin FILE says where "
                    "it is now"
                )
            registry.load_file(path)
    if lacking and study not in registry.STUDIES.names():
        raise lacking


def check_study(out: Path, request: Request) -> None:
    """Raise UserError for a study that nothing brings any more, though `out` has plans of it: it says where it was."""
    study = request.study
    known = request.plugins or study in registry.STUDIES.names() or study not in names(out)
    for files, origins in () if known else _plugins_of(out, study):
        if files:
            raise UserError(f"study {study} is from a plugin file: give --plugin {shlex.join(files)}, as before")
        raise not_installed(f"study {study}", origins)


def _plugins_of(out: Path, study: str) -> Iterator[tuple[list[str], Iterable[str]]]:
    """Of each plan of a study that can be read: (the plugin files that it was made with, those of all its plugins)."""
    for plan in sorted((out / study).glob(f"*/**/{NAME}")):
        with suppress(OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError):
            told = json.loads(plan.read_bytes())
            files = [found(text, os.path.abspath(out)) for text in told["plugins"]]
            yield files, told.get("origins", {}).values()


def not_installed(what: str, origins: Iterable[str]) -> UserError:
    """The error for what a plugin of an installed distribution brings that is installed no more.

    origins: the files of plugins that its runs were made with; those of the harness do not count.
    """
    folders = sorted({str(Path(path).parent) for path in origins if os.path.isabs(path)})
    where = f", which was in {' and '.join(folders)}" if folders else ""
    return UserError(
        f"{what} is from a plugin that is not installed here{where}: install its distribution, or give its file by "
        "--plugin where the command takes that"
    )
