"""The plans that a folder of results holds: where each is, and how it is written.

STUDY/PROFILE is of the study as the profile has it. A request with another teacher, corpus, budget or settings is of
another kind, in a folder below that is named after them; one of fewer or other rows, students, initialisations or tasks
is narrowed, in a folder of its own below that of its kind. What a plan that is replaced had and the new one has not is
set aside, so that every cell that was ever planned is found.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shlex
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import registry
from harness.errors import UserError
from harness.files import JSON, atomic_write, digest
from harness.folders import names
from harness.planning import spelling
from harness.planning.merging import parse_set
from harness.planning.planned import FORMAT, Plan
from harness.planning.request import Request

NAME = "plan.json"
SEAL = "sha256"
EARLIER = "earlier"  # the folder of plans that were set aside
HERE = "{results}"  # in a plan's JSON, the folder of results, wherever it is
AXES = ("objectives", "students", "inits", "tasks", "checkpoints")
FLAGS = ("teacher", "corpus", "seeds", "trials")  # that make another kind, as --set does
SPELT = dict(zip(FLAGS, (spelling.teacher, spelling.corpus, lambda word, _: word, lambda word, _: word), strict=True))
SEARCHED = "search"  # the flag that does, too
ADDED = ("baselines", "controls")  # flags that add rows
LONGEST = 100  # characters of a folder's name
_STRANGE = re.compile(r"[^\w.,:+=-]", re.ASCII)


# ---------------------------------------------------------------- where


def folder_of(out: Path, plan: Plan | Request) -> Path:
    """Where a plan and its table are. Raises UserError for an unknown study or profile."""
    base = out / plan.study / plan.profile
    if isinstance(plan, Plan):
        return base / plan.variant
    kind, narrowed = names_of(plan)
    return base / kind_in(base, kind, flags_of(plan)) / narrowed


def kind_in(base: Path, kind: str, flags: str) -> str:
    """What the folder of a kind is called in that of a profile: of earlier versions, as its flags were typed."""
    if flags and (not (base / kind).exists() or _of_a_place(base / kind, flags)):
        return next((name for name, said in kinds(base).items() if said == flags), kind)
    return kind


def kinds(base: Path) -> dict[str, str]:
    """The folder of each kind of a profile -> its flags, as they are called now."""
    return {folder.name: _flags_then(folder)[1] for folder in sorted(base.glob("*=*")) if not narrows(folder.name)}


def _of_a_place(folder: Path, flags: str) -> bool:
    """Whether an earlier version named it by these flags for a place that is called as what they mean by name."""
    if not {"--teacher", "--corpus"} & {*shlex.split(flags)}:
        return False
    said, meant = _flags_then(folder)
    return flags == said != meant


def _flags_then(folder: Path) -> tuple[str, str]:
    """(a kind's flags by its first plan or its name, what they are called now)."""
    told: JSON = {}
    for path in sorted(folder.glob(f"**/{NAME}"))[:1]:
        with suppress(OSError, ValueError, RecursionError):
            told = json.loads(path.read_bytes())
    said = [spelling.setting(word) for word in shlex.split(told.get("flags") or flags_named(folder.name))]
    plugin = told.get("teacher")
    # What is called as one of ours had that one's name alone.
    taken = {
        "--teacher": spelling.is_teacher if plugin == registry.HUB else None,
        "--corpus": spelling.is_corpus if "/" in told.get("corpus", "") else None,
    }
    pairs = [(word, taken.get(before)) for before, word in zip(["", *said], said, strict=False)]
    return shlex.join(said), shlex.join(f"./{word}" if is_name and is_name(word) else word for word, is_name in pairs)


def kind_of(plan: Plan) -> str:
    """What a plan is beside its profile, but for what it is narrowed to."""
    return "/".join(part for part in plan.variant.split("/") if not narrows(part))


def names_of(request: Request) -> tuple[str, str]:
    """(the name of its kind, that of what it is narrowed to); "" where the profile says the same."""
    study = registry.STUDIES.get(request.study)
    profile = study.profile(request.profile)
    whole = {"objectives": [row.name for row in study.rows], "students": profile.students or study.students}
    whole |= {"inits": profile.inits, "tasks": profile.tasks}
    narrowed = {}
    for axis in AXES:
        words = sorted(map(spelling.NAMED.get(axis, spelling.last), getattr(request, axis) or ()))
        if words and words != sorted(whole.get(axis, ())):
            narrowed[axis] = words
    narrowed |= {name: ["yes"] for name in ADDED if getattr(request, name)}
    return _name(_kind(request)), _name(narrowed)


def _kind(request: Request) -> dict[str, list[str]]:
    """Flag or setting -> its words, where the profile says otherwise."""
    profile = registry.STUDIES.get(request.study).profile(request.profile)
    own: dict[str, Any] = {name: getattr(profile, name) for name in FLAGS}
    asked = {name: getattr(request, name) for name in own} | {"teacher": request.teacher or None}
    words = {name: word for name, word in asked.items() if word is not None and word != own[name]}
    kind = {
        name: [SPELT[name](each, own[name]) for each in ([str(word)] if isinstance(word, (str, int)) else sorted(word))]
        for name, word in words.items()
    }
    kind |= {SEARCHED: sorted(map(spelling.setting, request.search))} if request.search else {}
    fixed = map(spelling.setting, request.overrides)
    return kind | {key: [spelling.last(value)] for key, value in sorted(parse_set(fixed).items())}


def flags_of(request: Request) -> str:
    """The flags that a request's kind is asked for by, as they are typed; "" where the profile says the same."""
    return _typed(_kind(request))


def flags_named(kind: str) -> str:
    """The same by the name of a folder; "" where that is cut or not as the flags were."""
    parts = [part.partition("=") for part in kind.split("--")]
    if not all(equals for _, equals, _ in parts):
        return ""
    apart = dict.fromkeys(FLAGS, ",") | {SEARCHED: r",(?=[\w.]+=)"}  # "a=1,2,b=3..4" are two that are searched
    return _typed({flag: re.split(apart[flag], word) if flag in apart else [word] for flag, _, word in parts})


def _typed(kind: Mapping[str, Sequence[str]]) -> str:
    flags = (*FLAGS, SEARCHED)
    words = [word for flag in flags if flag in kind for word in (f"--{flag}", *kind[flag])]
    settings = [f"{key}={value}" for key, values in kind.items() if key not in flags for value in values]
    return shlex.join([*words, *(["--set", *settings] if settings else [])])


def narrows(name: str) -> bool:
    return name.partition("=")[0] in (*AXES, *ADDED) or name == EARLIER


def _name(words: Mapping[str, Sequence[str]]) -> str:
    """ "inits=every--tasks=mrpc,sst2"; with a hash where it would be too long, or would hold strange characters."""
    whole = "--".join(f"{flag}={','.join(values)}" for flag, values in words.items())
    name = _STRANGE.sub("-", whole)
    parted = any("--" in value for values in words.values() for value in values)
    return name if name == whole and len(name) <= LONGEST and not parted else f"{name[:LONGEST]}--{digest(whole)[:6]}"


# ---------------------------------------------------------------- writing and reading


def keep(out: Path, plan: Plan) -> Plan:
    """Write a plan down, in the folder that its kind has already, and return it so.

    Only the holder of the ledger's lock may.
    Files that lie below or beside the folder of results are told by where they lie from there.
    """
    kind, narrowed = kind_of(plan), [part for part in plan.variant.split("/") if narrows(part)]
    base = out / plan.study / plan.profile
    kind = kind_in(base, kind, plan.flags)
    kind += f"--{digest(plan.flags)[:6]}" * _of_a_place(base / kind, plan.flags)
    # What holds the results, too, is another after every run.
    results = Path(os.path.realpath(out))
    read = {place: said for place, said in plan.read.items() if not results.is_relative_to(os.path.realpath(place))}
    plan = replace(plan, variant="/".join(filter(None, (kind, *narrowed))), read=read)
    folder = folder_of(out, plan)
    told = _with_places(plan.to_json(), lambda field, text: _stored(plan, field, text, Path(os.path.abspath(out))))
    _set_aside(folder / NAME, {cell.id for cell in plan.cells})
    atomic_write(folder / NAME, _sealed(told))
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
        lost = {cell["id"] for cell in json.loads(raw)["cells"]} - cells
    except (OSError, ValueError, KeyError, TypeError, RecursionError):  # there is none, or none that can be read
        return
    if lost:
        atomic_write(path.parent / EARLIER / f"{hashlib.sha256(raw).hexdigest()[:16]}.json", raw)


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
    """A plan's JSON with every text that may tell a place changed. change: (its field, the text) -> another."""
    changed = dict(told)
    for field in ("source", "corpus", "argument"):
        changed[field] = change(field, told[field])
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
    changed["checkpoints"] = {key: [name, change("argument", argument)] for key, (name, argument) in sources}
    return changed


def _stored(plan: Plan, field: str, text: str, here: Path) -> str:
    if field == "origins" and not os.path.isabs(text):  # in this distribution
        return text
    place = Path(os.path.abspath(os.path.expanduser(text)))
    if not (text and place.is_relative_to(here.parent) and os.path.exists(place)) or _is_name(plan, field, text, place):
        return text
    return told_from(str(place), here)


def told_from(place: str, out: Path) -> str:
    """How plans of this folder of results tell a file: below or beside it, by where it lies from there."""
    here = Path(os.path.abspath(out))
    return f"{HERE}/{os.path.relpath(place, here)}" if Path(place).is_relative_to(here.parent) else place


def _is_name(plan: Plan, field: str, text: str, place: Path) -> bool:
    """Whether the text means no place, though there is a file of that name."""
    if field == "source":
        return spelling.is_source(text)
    if field == "corpus":
        return spelling.is_corpus(text)
    if field == "argument":
        try:
            registry.TEACHERS.get(plan.teacher)(str(place))
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
    there = paths(out) if "ledger" in names(out) else []
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
            raise UserError(f"study {study} is of a plugin file: give --plugin {shlex.join(files)}, as before")
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
        f"{what} is of a plugin that is not installed here{where}: install its distribution, or give its file by "
        "--plugin where the command takes that"
    )
