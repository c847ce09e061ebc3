"""What the folder of a plan is called, and by which flags its kind is asked for.

STUDY/PROFILE is of the study as the profile has it. A request with another teacher, corpus, budget or settings is of
another kind, in a folder below that is named after them; one of fewer or other rows, students, initialisations or tasks
is narrowed, in a folder of its own below that of its kind.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from harness import registry
from harness.files import JSON, digest
from harness.planning import spelling
from harness.planning.merging import parse_set
from harness.planning.planned import Plan
from harness.planning.request import Request

NAME = "plan.json"
EARLIER = "earlier"  # the folder of plans that were set aside
AXES = ("objectives", "students", "inits", "tasks", "checkpoints")
FLAGS = ("teacher", "corpus", "seeds", "trials")  # that make another kind, as --set does
SPELT = {"teacher": spelling.teacher, "corpus": spelling.corpus}  # of which words may be paths
SEARCHED = "search"  # the flag that does, too
ADDED = ("baselines", "controls")  # flags that add rows
LONGEST = 100  # characters of a folder's name
_STRANGE = re.compile(r"[^\w.,:+=-]", re.ASCII)


def folder_of(out: Path, plan: Plan | Request) -> Path:
    """Where a plan and its table are. Raises UserError for an unknown study or profile."""
    base = out / plan.study / plan.profile
    if isinstance(plan, Plan):
        return base / plan.variant
    kind, narrowed = names_of(plan)
    return base / kind_in(base, kind, flags_of(plan)) / narrowed


def variant_in(base: Path, plan: Plan) -> str:
    """What a plan's folder is to be called in that of its profile: where its kind has one already, below that."""
    kind = kind_in(base, kind_of(plan), plan.flags)
    kind += f"--{digest(plan.flags)[:6]}" * _of_a_place(base / kind, plan.flags)
    return "/".join(filter(None, (kind, *filter(narrows, plan.variant.split("/")))))


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
            told = found if isinstance(found := json.loads(path.read_bytes()), dict) else {}
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
    asked = {**vars(request), "teacher": request.teacher or None}
    kind: dict[str, list[str]] = {}
    for flag in FLAGS:
        given, usual = asked[flag], getattr(profile, flag)
        if given not in (None, usual):
            words = [str(given)] if isinstance(given, (str, int)) else sorted(given)
            kind[flag] = [SPELT[flag](word, usual) for word in words] if flag in SPELT else words
    if request.search:
        kind[SEARCHED] = sorted(map(spelling.setting, request.search))
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
