"""The plans that a folder of results holds: where each is, how it is written, and what several say together.

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
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from harness import registry
from harness.errors import UserError, near
from harness.files import JSON, atomic_write, digest
from harness.planning.merging import parse_set
from harness.planning.planned import FORMAT, Cell, Plan
from harness.planning.request import Request
from harness.rows import TableRow

NAME = "plan.json"
EARLIER = "earlier"  # the folder of plans that were set aside
HERE = "{results}"  # in a plan's JSON, the folder of results, wherever it is
AXES = ("objectives", "students", "inits", "tasks", "checkpoints")
ADDED = ("baselines", "controls")  # flags that add rows
LONGEST = 100  # characters of a folder's name
_STRANGE = re.compile(r"[^\w.,:+=-]", re.ASCII)


# ---------------------------------------------------------------- where


def folder_of(out: Path, plan: Plan | Request) -> Path:
    """Where a plan and its table are. Raises UserError for an unknown study or profile."""
    return out / plan.study / plan.profile / (variant(plan) if isinstance(plan, Request) else plan.variant)


def variant(request: Request) -> str:
    """What a request is beside the whole study as its profile has it: its kind, and what it is narrowed to."""
    return "/".join(filter(None, _names(request)))


def kind_of(plan: Plan) -> str:
    """What a plan is beside its profile, but for what it is narrowed to."""
    return "/".join(part for part in plan.variant.split("/") if not _narrows(part))


def _names(request: Request) -> tuple[str, str]:
    """(the name of its kind, that of what it is narrowed to); "" where the profile says the same."""
    study = registry.STUDIES.get(request.study)
    profile = study.profile(request.profile)
    own: dict[str, Any] = {name: getattr(profile, name) for name in ("teacher", "corpus", "seeds", "trials")}
    asked = {name: getattr(request, name) for name in own}
    kind = {name: [last(str(word))] for name, word in asked.items() if word is not None and word != own[name]}
    if request.teacher and request.teacher != profile.teacher:
        words = [request.teacher] if isinstance(request.teacher, str) else sorted(request.teacher)
        kind["teacher"] = [_teacher(word) for word in words]
    kind |= {key: [last(value)] for key, value in sorted(parse_set(request.overrides).items())}
    whole = {"objectives": [row.name for row in study.rows], "students": profile.students or study.students}
    whole |= {"inits": profile.inits, "tasks": profile.tasks}
    narrowed = {}
    for axis in AXES:
        words = sorted(map(_NAMED.get(axis, last), getattr(request, axis) or ()))
        if words and words != sorted(whole.get(axis, ())):
            narrowed[axis] = words
    narrowed |= {name: ["yes"] for name in ADDED if getattr(request, name)}
    return _name(kind), _name(narrowed)


def last(word: str) -> str:
    """What names a word in folders: of a path the last part, for a file may be moved."""
    kind, separator, path = word.rpartition(":")
    return f"{kind}{separator}{Path(path).name}" if os.path.exists(os.path.expanduser(path)) else word


def _teacher(word: str) -> str:
    """What names a teacher in folders: of each of an ensemble's, and of what stands after a task's name, the last."""
    task, equals, rest = word.rpartition("=")
    if os.path.exists(os.path.expanduser(word)) or "+" not in rest and not equals:
        return last(word)
    return f"{task}{equals}{'+'.join(last(part.strip()) for part in rest.split('+'))}"


def before_equals(word: str) -> str:
    """ "ROW" of "ROW=MODEL", and of a model alone its last part."""
    name, equals, _ = word.partition("=")
    return name if equals else last(word)


_NAMED: Mapping[str, Callable[[str], str]] = {"tasks": before_equals, "checkpoints": before_equals}


def _name(words: Mapping[str, Sequence[str]]) -> str:
    """ "inits=every--tasks=mrpc,sst2"; with a hash where it would be too long, or would hold strange characters."""
    whole = "--".join(f"{flag}={','.join(values)}" for flag, values in words.items())
    name = _STRANGE.sub("-", whole)
    return name if name == whole and len(name) <= LONGEST else f"{name[:LONGEST]}--{digest(whole)[:6]}"


# ---------------------------------------------------------------- writing and reading


def keep(out: Path, plan: Plan) -> Path:
    """Write a plan down. Returns its folder. Only the holder of the ledger's lock may.

    Files that lie below or beside the folder of results are told by where they lie from there.
    """
    folder = folder_of(out, plan)
    told = _with_places(plan.to_json(), lambda field, text: _stored(plan, field, text, Path(os.path.abspath(out))))
    _set_aside(folder / NAME, {cell.id for cell in plan.cells})
    atomic_write(folder / NAME, json.dumps(told, indent=1).encode())
    return folder


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
        told = json.loads(path.read_bytes())
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
    from harness.data import corpora  # loads torch, which reading plans must not wait for

    if field == "source":
        return text in {name for name in registry.SOURCES.names() if registry.SOURCES.get(name).given == "name"}
    if field == "corpus":
        return text in corpora.NAMED
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
        told = json.loads(content)
        changed = _with_places(told, change)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):  # `read` says what is wrong
        return content
    return content if changed == told else json.dumps(changed, indent=1).encode()


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


def load_study(out: Path, study: str, plugins: Sequence[str]) -> None:
    """Load the plugin files given, or where nothing else knows the study those that its plans were made with."""
    for path in plugins:
        registry.load_file(path)
    if study in registry.STUDIES.names() or not (out / study).is_dir():
        return
    for plan in sorted((out / study).glob(f"*/**/{NAME}")):
        try:
            files = json.loads(plan.read_bytes())["plugins"]
        except (OSError, ValueError, KeyError, TypeError, RecursionError):
            continue
        for text in files:
            path = found(text, os.path.abspath(out))
            if not Path(path).is_file():
                raise UserError(
                    f"study {study} was made with plugin file {path}, which does not exist: --plugin FILE says where "
                    "it is now"
                )
            registry.load_file(path)


def recorded(out: Path, request: Request) -> Plan:
    """The plan of a request, where it was given to harness run; else what all plans of its kind say of it.

    Where the folder has plans of a single kind, and none is asked for, it is that. Raises UserError where there is
    nothing, or not what is asked for.
    """
    load_study(out, request.study, request.plugins)
    folder = folder_of(out, request)
    try:
        plan = read(folder / NAME, out)
    except FileNotFoundError:
        plan = _narrowed(_together([read(path, out) for path in _of_kind(out, request)]), request)
    return replace(plan, plugins=[str(Path(p).resolve()) for p in request.plugins]) if request.plugins else plan


def _of_kind(out: Path, request: Request) -> list[Path]:
    """The plans of a request's kind, that of the whole first. Raises UserError where there are none."""
    base, (kind, _) = out / request.study / request.profile, _names(request)
    folders = [base, *(path for path in sorted(base.glob("*")) if path.is_dir() and not _narrows(path.name))]
    kinds = {folder: found for folder in folders if (found := _plans_in(folder))}
    if (base / kind) in kinds:
        return kinds[base / kind]
    if not kind and len(kinds) == 1:
        return next(iter(kinds.values()))
    what = f"study {request.study} has no results of profile {request.profile}"
    if kinds:
        names = ["as the profile has it" if each == base else each.name.replace("--", ", ") for each in kinds]
        raise UserError(
            f"{what}{f' with {kind}' if kind else ' as it stands'} in {out}, but {'; and '.join(names)}: give the "
            "flags that they were made with"
        )
    parts = [path.relative_to(out).parts for path in paths(out)]
    others = sorted({profile for study, profile, *_ in parts if study == request.study})
    if others:
        raise UserError(f"{what} in {out}, but of {' and '.join(others)}: give --profile {others[0]}")
    start = f"harness run --study {request.study} --profile {request.profile} --out {out}"
    raise UserError(f"{what} in {out}; start with {start}")


def _narrows(name: str) -> bool:
    return name.partition("=")[0] in (*AXES, *ADDED) or name == EARLIER


def _plans_in(folder: Path) -> list[Path]:
    """That of the whole, if there is one, and those that are narrowed."""
    below = [path / NAME for path in sorted(folder.glob("*")) if _narrows(path.name)]
    return [path for path in (folder / NAME, *below) if path.exists()]


# ---------------------------------------------------------------- several as one


def _together(plans: Sequence[Plan]) -> Plan:
    """What the plans of one kind say together. Of a place in the table that several have, the first decides."""
    whole, *others = plans
    if others:
        whole = replace(whole, variant=kind_of(whole))
    for plan in others:
        if any(whole.defaults.get(name, value) != value for name, value in plan.defaults.items()):
            continue  # of another version
        taken = set(map(_place, whole.cells))
        more: dict[str, Any] = {name: {**getattr(plan, name), **getattr(whole, name)} for name in _MAPPINGS}
        more |= {name: _united(getattr(whole, name), getattr(plan, name)) for name in _LISTS}
        rows = {row.name: row for row in (*plan.rows, *whole.rows)}
        names = _united([row.name for row in whole.rows], [row.name for row in plan.rows])
        cells = [*whole.cells, *(cell for cell in plan.cells if _place(cell) not in taken)]
        whole = replace(whole, rows=[rows[name] for name in names], cells=cells, **more)
    return whole


_MAPPINGS = (
    "checkpoints",
    "files",
    "examples",
    "defaults",
    "first",
    "teachers",
    "outputs",
    "shown",
    "origins",
    "declared",
)
_LISTS = ("plugins", "tasks", "students", "inits", "notices")


def _place(cell: Cell) -> tuple[str, str, str, str]:
    return cell.row, cell.student, cell.init, cell.task


def _united(first: Iterable[str], second: Iterable[str]) -> list[str]:
    return list(dict.fromkeys((*first, *second)))


def _narrowed(plan: Plan, request: Request) -> Plan:
    """The plan with what is asked for alone. Raises UserError for what was never planned."""
    cells, rows = list(plan.cells), {row.name: row for row in plan.rows}

    def chosen(axis: str, said: Callable[[Cell], set[str]], among: Iterable[str]) -> set[str]:
        words = {_NAMED.get(axis, last)(word) for word in getattr(request, axis) or ()}
        known = set().union(*map(said, plan.cells)) | set(among)
        for word in sorted(words - known):
            what = {"objectives": "row or objective", "inits": "initialisation"}.get(axis, axis.removesuffix("s"))
            raise UserError(f"no {what} {word!r} was planned here: {near(word, known - {''})}")
        cells[:] = [cell for cell in cells if not words or words & said(cell) or said(cell) == {""}]
        return words

    gains = {name for name, row in rows.items() if row.improves}
    asked = chosen("objectives", lambda cell: {cell.row, rows[cell.row].objective}, gains)
    chosen("students", lambda cell: {cell.student}, ())
    chosen("inits", lambda cell: {cell.init}, ())
    tasks = chosen("tasks", lambda cell: {cell.task}, plan.tasks)
    left = {cell.row for cell in cells}

    def stays(row: TableRow) -> bool:
        return {*row.improves} <= left and (not asked or row.name in asked) if row.improves else row.name in left

    if not cells:
        raise UserError(f"no cell of study {plan.study} was planned here for all of that together")
    return replace(
        plan,
        cells=cells,
        rows=[row for row in plan.rows if stays(row)],
        tasks=[task for task in plan.tasks if not tasks or task in tasks],
        students=[name for name in plan.students if name in {cell.student for cell in cells}],
        inits=[init for init in plan.inits if init in {cell.init for cell in cells}],
        teachers={task: run for task, run in plan.teachers.items() if not tasks or task in tasks},
    )
