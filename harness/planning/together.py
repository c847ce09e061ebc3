"""What the plans of a folder of results say of a request: one as it was given, or several of its kind together."""

from __future__ import annotations

import os
import shlex
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from harness.errors import UserError, near
from harness.files import checksums, content_of
from harness.folders import names
from harness.planning import filed, naming, spelling
from harness.planning.planned import Cell, Plan
from harness.planning.request import Request
from harness.planning.teachers import by_task
from harness.rows import BASELINES, CONTROLS, TableRow
from harness.runs import BaseTeacher, CheckpointRun, CorpusDistillationRun

Taken = Callable[[str], bool] | None  # whether a name is that of what is no place


def recorded(out: Path, request: Request) -> Plan:
    """The plan of a request, where it was given to harness run; else what all plans of its kind say of it.

    Where the folder has plans of a single kind, and none is asked for, it is that. Raises UserError where there is
    nothing, or not what is asked for.
    """
    filed.load_study(out, request.study, request.plugins)
    folder = naming.folder_of(out, request)
    try:
        plan = _of_teacher({"": filed.read(folder / naming.NAME, out)}, request)[""]
    except FileNotFoundError:
        plans = _of_teacher({path.parent.name: filed.read(path, out) for path in _of_kind(out, request)}, request)
        plan = _narrowed(_together(list(plans.values())), request)
        _check_alike(plans, plan)
    _check_asked(plan, request)
    return replace(plan, plugins=[str(Path(p).resolve()) for p in request.plugins]) if request.plugins else plan


def of_folder(folder: Path) -> tuple[Path, Plan]:
    """(the folder of results, what the plans say together) of the folder of a table in it.

    Raises UserError where it is none.
    """
    plans = _plans_in(folder) if names(folder) else []
    places = [folder.resolve()] if folder.is_symlink() else [folder.absolute(), folder.resolve()]
    above = (parent for place in places for parent in place.parents)
    out = next((parent for parent in above if (parent / "ledger").is_dir()), None)
    if not plans or out is None:
        raise UserError(
            f"{folder} is not the folder of a table, which has a plan.json and lies in a folder of results, as "
            "results/STUDY/PROFILE does"
        )
    read = {path.parent.name: filed.read(path, out) for path in plans[: 1 if plans[0].parent == folder else None]}
    plan = _together(list(read.values()))
    _check_alike(read, plan)
    return out, plan


def _check_alike(plans: Mapping[str, Plan], asked: Plan) -> None:
    """Raise UserError where plans that have a place in the table that is asked for have nothing in common that their
    numbers rest on, such as the data of a task, though their flags are the same but for the narrowing.

    plans: folder -> plan.
    """
    places, found = set(map(_place, asked.cells)), dict[str, tuple[set[str], str]]()
    for folder, plan in plans.items():
        if _of_another_version(asked, plan):
            continue
        for what, contents in rests_on(plan, [cell for cell in plan.cells if _place(cell) in places]).items():
            before, other = found.setdefault(what, (contents, folder))
            if not before & contents:
                raise UserError(
                    f"{what} is another in {folder} than in {other}, so these results of {plan.study} do not make one "
                    "table: give all the flags that one of them was made with"
                )


def rests_on(plan: Plan, cells: Iterable[Cell]) -> dict[str, set[str]]:
    """What the numbers of these cells rest on, such as "the data of task mrpc" -> its contents."""
    found: dict[str, set[str]] = defaultdict(set)
    for what, content in (each for cell in cells for each in _rests_on(plan, cell)):
        found[what].add(content)
    return found


def _rests_on(plan: Plan, cell: Cell) -> Iterator[tuple[str, str]]:
    for run in (cell.run, *(plan.first[name].run for name in cell.after if name in plan.first)):
        yield from ((f"the data of task {task}", content) for task, content in run.data_of.items())
        yield from ((f"the code of {name}", version) for name, version in (run.plugins or {}).items())
        for teacher in (run.learns_from, run.replaces_words):
            if isinstance(teacher, BaseTeacher):
                yield f"teacher {teacher.name} of task {cell.task}", teacher.content
        if corpus := getattr(run, "corpus", ""):
            yield "the corpus", corpus
        start = getattr(run, "init", "")
        if start.rpartition(":")[2] in plan.files:  # by its content; tables have its name alone
            yield f"the file of init {cell.init}", start
        if isinstance(run, CorpusDistillationRun):
            yield f"what row {cell.row} of {run.student} starts from before its distillation on the corpus", start
    if cell.task in plan.teachers:
        yield f"the teacher of task {cell.task}", plan.teachers[cell.task]


def _check_asked(plan: Plan, request: Request) -> None:
    """Raise UserError where a request names data or further rows that the plan found for it has not.

    Of a place only its last part counts, for results are read where their data are not, or lie elsewhere; but not where
    both places are here and hold something else.
    """
    places = {name: str(told["place"]) for name, told in plan.declared.items()}
    given = [word.partition("=")[::2] for word in request.tasks or ()]
    asked: list[tuple[str, str, str, Taken]] = [
        (f"task {name}", place, places.get(name, f"--data {plan.source}"), None) for name, place in given if place
    ]
    asked += [("--data", request.data, plan.source, spelling.is_source)] if request.data else []
    asked += [("--corpus", request.corpus, plan.corpus, spelling.is_corpus)] if request.corpus and plan.corpus else []
    models = _models(plan)
    for word, row in _rows_of_checkpoints(plan, request).items():
        if row not in models:
            raise UserError(f"no checkpoint {row!r} was planned here: {near(row, models)}")
        model = word.partition("=")[2] or word
        asked += [(f"checkpoint {row}", model, models[row], None)] if word != row else []
    asked += [(f"the file of {word}", file, planned, None) for word, file, planned in _files_named(plan, request)]
    for what, word, planned, taken in asked:
        if _another(word, planned, taken):
            raise UserError(f"{what} is {planned} in these results, not {word}")
    names = {row.name for row in plan.rows}
    for flag, rows in (("--baselines", BASELINES), ("--controls", CONTROLS)):
        if getattr(request, flag[2:]) and not names & {row.name for row in rows}:
            raise UserError(f"no rows of {flag} were planned here: harness run {flag} makes them")


def _models(plan: Plan) -> dict[str, str]:
    """Row -> the model that is fine-tuned in it as it is."""
    return {cell.row: plan.source_of(cell.run).argument for cell in plan.cells if isinstance(cell.run, CheckpointRun)}


def _rows_of_checkpoints(plan: Plan, request: Request) -> dict[str, str]:
    """Word of --checkpoints -> the row that it names: "mine=FOLDER", "FOLDER" or "mine"."""
    words, models = (word.partition("=") for word in request.checkpoints), _models(plan)
    return {"".join(word): word[0] if word[1] or word[0] in models else Path(word[0]).name for word in words}


def _files_named(plan: Plan, request: Request) -> Iterator[tuple[str, str, str]]:
    """(a word that names a file, the file, the one of that name in a plan), as of "vectors:FILE"."""
    words = [*(request.inits or ()), *(pair.partition("=")[2] for pair in request.overrides)]
    for word in words:
        file = word.rpartition(":")[2]
        same = [planned for planned in plan.files.values() if Path(planned).name == Path(file).name]
        if same and not any(Path(planned).exists() and not _differ(file, planned) for planned in same):
            yield word, file, same[0]


def _another(word: str, planned: str, taken: Taken) -> bool:
    """Whether what is asked for is surely not what was planned."""
    if any(":" in place.partition("/")[0] for place in (word, planned)):  # of a hub, all of the name counts
        return word != planned
    return Path(word).name != Path(planned).name or _differ(word, planned, taken)


def _of_teacher(plans: Mapping[str, Plan], request: Request) -> dict[str, Plan]:
    """Those that are not of another teacher of the same name. Raises UserError where none is left."""
    others = {folder: list(_other_teachers(plan, request)) for folder, plan in plans.items()}
    for found in others.values() if all(others.values()) else ():
        raise UserError("--teacher is {1} in these results, not {0}".format(*found[0]))
    return {folder: plan for folder, plan in plans.items() if not others[folder]}


def _other_teachers(plan: Plan, request: Request) -> Iterator[tuple[str, str]]:
    """(a teacher that is asked for, that of a plan which is another)."""
    one = request.teacher if isinstance(request.teacher, str) else ""
    own = by_task(request.teacher or "")
    runs = {task: plan.first[run].run for task, run in plan.teachers.items() if task in own and run in plan.first}
    asked = [(own[task], plan.source_of(run).argument) for task, run in runs.items()] or [(one, plan.argument)]
    for word, planned in asked:
        parts = word.removeprefix(f"{plan.teacher}:").split("+"), planned.split("+")
        for each, other in zip_longest(*(map(str.strip, part) for part in parts), fillvalue=""):
            if _differ(each, other, spelling.is_teacher):
                yield each, other


def _differ(word: str, planned: str, taken: Taken = None) -> bool:
    """Whether one is a name that is taken and the other a place, or both are here and hold something else."""
    if not (word and planned) or word == planned:
        return False
    one, other = (Path(os.path.expanduser(place)) for place in (word, planned))
    if taken and one.name == other.name in (word, planned) and taken(other.name):
        return True
    if not (one.exists() and other.exists()) or one.samefile(other):
        return False
    held = [checksums(place) if place.is_dir() else content_of(place) for place in (one, other)]
    return held[0] != held[1]


def _of_kind(out: Path, request: Request) -> list[Path]:
    """The plans of a request's kind, that of the whole first. Raises UserError where there are none.

    A request that says no kind is of the only one that there is, if no flag of it says what the profile has in place of
    that one's, or that has all of what it is narrowed to.
    """
    base = out / request.study / request.profile
    kind = naming.kind_in(base, naming.names_of(request)[0], naming.flags_of(request))
    folders = [base, *(path for path in sorted(base.glob("*")) if path.is_dir() and not naming.narrows(path.name))]
    kinds = {folder: found for folder in folders if (found := _plans_in(folder))}
    if not kind and len(kinds) > 1 and any(getattr(request, axis) for axis in naming.AXES):
        kinds = {folder: plans for folder, plans in kinds.items() if _has_all(out, plans, request)} or kinds
    if (base / kind) in kinds:
        return kinds[base / kind]
    if not kind and len(kinds) == 1:
        ((folder, plans),) = kinds.items()
        words = shlex.split(naming.kinds(base).get(folder.name, ""))
        its = {flag: word for flag, word in zip(words, words[1:], strict=False) if flag.startswith("--")}
        typed = {f"--{flag}": str(given) for flag in naming.FLAGS if (given := getattr(request, flag))}
        # Of an edited profile the same word may have been a kind before.
        if all(its.get(flag, given) == given for flag, given in typed.items()):
            return plans
    what = f"study {request.study} has no results of profile {request.profile}"
    if kinds:
        asked = f" with {naming.flags_of(request)}" if kind else " as it stands"
        said = "; and ".join(_said(out, folder, plans) for folder, plans in kinds.items())
        which = "these" if len(kinds) == 1 else "those of one"
        raise UserError(f"{what}{asked} in {out}, but {said}: give {which}")
    parts = [path.relative_to(out).parts for path in filed.paths(out)]
    others = sorted({profile for study, profile, *_ in parts if study == request.study})
    if others:
        raise UserError(f"{what} in {out}, but of {' and '.join(others)}: give --profile {others[0]}")
    start = f"harness run --study {request.study} --profile {request.profile} --out {shlex.quote(str(out))}"
    raise UserError(f"{what} in {out}; start with {start}")


def _has_all(out: Path, plans: Iterable[Path], request: Request) -> bool:
    """Whether the plans of a kind have all that a request is narrowed to."""
    try:
        _check_asked(_narrowed(_together([filed.read(path, out) for path in plans]), request), request)
    except UserError:
        return False
    return True


def _said(out: Path, folder: Path, plans: Sequence[Path]) -> str:
    """The flags that a kind is asked for by; where neither a plan nor the folder's name tells them, which folder."""
    if len(folder.relative_to(out).parts) == 2:
        return "with none of these flags, as the profile has it"
    with suppress(UserError):
        if flags := filed.read(plans[0], out).flags:
            return f"with {flags}"
    flags = naming.flags_named(folder.name)
    return f"with {flags}" if flags else f"with the flags that made {folder.relative_to(out)}"


def _plans_in(folder: Path) -> list[Path]:
    """That of the whole, if there is one, and those that are narrowed."""
    below = [path / naming.NAME for path in sorted(folder.glob("*")) if naming.narrows(path.name)]
    return [path for path in (folder / naming.NAME, *below) if path.exists()]


# ---------------------------------------------------------------- several as one


def _together(plans: Sequence[Plan]) -> Plan:
    """What the plans of one kind say together. Of a place in the table that several have, the first decides."""
    whole, *others = plans
    if others:
        whole = replace(whole, variant=naming.kind_of(whole))
    for plan in others:
        if _of_another_version(whole, plan):
            continue
        taken = set(map(_place, whole.cells))
        more: dict[str, Any] = {name: {**getattr(plan, name), **getattr(whole, name)} for name in _MAPPINGS}
        more |= {name: _united(getattr(whole, name), getattr(plan, name)) for name in _LISTS}
        rows = {row.name: row for row in (*plan.rows, *whole.rows)}
        names = _united([row.name for row in whole.rows], [row.name for row in plan.rows])
        cells = [*whole.cells, *(cell for cell in plan.cells if _place(cell) not in taken)]
        whole = replace(whole, rows=[rows[name] for name in names], cells=cells, **more)
    return whole


def _of_another_version(whole: Plan, plan: Plan) -> bool:
    return any(whole.defaults.get(name, value) != value for name, value in plan.defaults.items())


_MAPPINGS = (
    "checkpoints", "files", "examples", "defaults", "first", "teachers", "outputs", "shown", "origins", "declared",
    "read",
)  # fmt: skip
_LISTS = ("plugins", "tasks", "students", "inits", "notices", "unseen")


def _place(cell: Cell) -> tuple[str, str, str, str]:
    return cell.row, cell.student, cell.init, cell.task


def _united(first: Iterable[str], second: Iterable[str]) -> list[str]:
    return list(dict.fromkeys((*first, *second)))


def _narrowed(plan: Plan, request: Request) -> Plan:
    """The plan with what is asked for alone. Raises UserError for what was never planned."""
    cells, rows = list(plan.cells), {row.name: row for row in plan.rows}

    def chosen(axis: str, said: Callable[[Cell], set[str]], among: Iterable[str]) -> set[str]:
        words = {spelling.NAMED.get(axis, spelling.last)(word) for word in getattr(request, axis) or ()}
        words |= checkpoints if words and axis == "objectives" else set()  # named by either, as harness run takes them
        known = set().union(*map(said, plan.cells)) | set(among)
        for word in sorted(words - known):
            what = {"objectives": "row or objective", "inits": "initialisation"}.get(axis, axis.removesuffix("s"))
            raise UserError(f"no {what} {word!r} was planned here: {near(word, known - {''})}")
        cells[:] = [cell for cell in cells if not words or words & said(cell) or said(cell) == {""}]
        return words

    gains = {name for name, row in rows.items() if row.improves}
    checkpoints = {*_rows_of_checkpoints(plan, request).values()} & rows.keys()
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
