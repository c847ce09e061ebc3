"""What a plan consists of, and its JSON: plan.json, which `harness report` reads without loading a plugin."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harness.contracts import Hyperparameter, ModelInfo, Study
from harness.files import JSON, digest
from harness.hyperparameters import Hyperparameters
from harness.planning.space import Space, size
from harness.registry import load_file
from harness.rows import TableRow
from harness.runs import BaseTeacher, Run, RunId, TeacherName

FORMAT = 3  # of plan.json
ABSENT_IF_EMPTY = ("declared", "variant", "flags", "declaration", "read")  # from it, as in plans of earlier versions


@dataclass(frozen=True)
class Cell:
    """One fixed choice on every axis of a study.

    run: any of its runs, without seed and searched settings. search: names what its runs have in common, and seeds
    their proposals; cells of one joint run share it. refused: why it cannot exist, or "". space: setting -> the values
    or the range that is searched. after: the runs that it waits for. starts, teachers: by seed, the run that its own
    starts from, and the one that it learns from; none where every seed has the same. layers: (student's, teacher's)
    pairs. trials, seeds: the budget. mark: what the table says of it beside its row's own mark. sampler: what draws its
    trials' settings where that is not what its space has of itself, see `harness.search.proposals.propose`. lengthened:
    its runs have twice the epochs that are drawn. searched_by_seed: each seed has a search of its own.
    """

    id: str
    search: str
    row: str
    student: str
    init: str
    task: str
    metric: str
    refused: str
    run: Run
    space: Space
    stages: int = 1
    after: Sequence[RunId] = ()
    starts: Sequence[RunId] = ()
    teachers: Sequence[RunId] = ()
    layers: Sequence[Sequence[int]] = ()
    size: Mapping[str, int] = field(default_factory=lambda: {"layers": 0, "width": 0})
    trials: int = 1
    seeds: int = 1
    mark: str = ""
    sampler: str = ""
    lengthened: bool = False
    searched_by_seed: bool = False

    def to_json(self) -> JSON:
        told = {name: _plain(value) for name, value in vars(self).items() if name != "run"}
        for name in ("teachers", "mark", "sampler", "lengthened", "searched_by_seed"):
            if not told[name]:
                del told[name]
        return {**told, "specification": self.run.specification()}

    @classmethod
    def from_json(cls, told: JSON) -> Cell:
        rest = {name: value for name, value in told.items() if name != "specification"}
        return cls(**rest, run=Run.read(told["specification"]))


@dataclass(frozen=True)
class First:
    """A run that others start from. after: the runs that it waits for itself."""

    run: Run
    after: Sequence[RunId] = ()

    def to_json(self) -> JSON:
        return {"specification": self.run.specification(), "after": list(self.after)}

    @classmethod
    def from_json(cls, told: JSON) -> First:
        return cls(Run.read(told["specification"]), told["after"])


@dataclass(frozen=True)
class Plan:
    """A study and a command line, worked out.

    teacher, argument: of the only teacher, or the first; label: the teachers as tables call them; checkpoints:
    `called` -> the teacher and argument of a checkpoint that is fine-tuned as it is, and of each of several
    teachers; files: content -> path; shown: setting -> the name that people know it by, and whether that
    one counts from the other end; first: every run that others start from; teachers: task -> the run whose scores
    stand above the table; outputs: task -> the teacher's signals that are asked for; origins: plugin -> its file;
    declared: a task of the user's own -> what it is, as `harness.data.own` tells it; unseen: see `planning.reading`;
    variant: what it is beside the whole study, the name of its folder below that (see `filed`);
    flags: what its kind is asked for by, as it is typed; declaration: `declaration_of` its study then; read: place ->
    what data, teachers, corpora and files held, as `planning.remembered.looks` tells it.
    """

    study: str
    profile: str
    procedure: str
    teacher: str
    argument: str
    label: str
    source: str
    corpus: str
    checkpoints: Mapping[str, Sequence[str]]
    files: Mapping[str, str]
    plugins: Sequence[str]
    tasks: Sequence[str]
    students: Sequence[str]
    inits: Sequence[str]
    examples: Mapping[str, int]
    rows: Sequence[TableRow]
    defaults: Hyperparameters
    first: Mapping[RunId, First]
    teachers: Mapping[str, RunId]
    outputs: Mapping[str, Sequence[Sequence[Any]]]
    cells: Sequence[Cell]
    notices: Sequence[str]
    shown: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    origins: Mapping[str, str] = field(default_factory=dict)
    declared: Mapping[str, JSON] = field(default_factory=dict)
    unseen: Sequence[str] = ()
    variant: str = ""
    flags: str = ""
    declaration: str = ""
    read: Mapping[str, Sequence[str]] = field(default_factory=dict)
    format: int = FORMAT

    @property
    def trains(self) -> bool:
        """Otherwise its cells only measure."""
        return any(cell.run.trains for cell in self.cells)

    def source_of(self, run: Run) -> TeacherName:
        """The teacher that a run is of, or that the run is of which it learns from."""
        who = run.learns_from
        while isinstance(who, str):
            who = self.first[who].run.learns_from if who in self.first else None
        known = (called(who), who.content) if who else ()  # in plans of earlier versions by content alone
        found = next((self.checkpoints[key] for key in known if key in self.checkpoints), ("", ""))
        return TeacherName(*found) if who and found[0] == who.name else TeacherName(self.teacher, self.argument)

    def to_json(self) -> JSON:
        told = {name: _plain(value) for name, value in vars(self).items()}
        return {name: value for name, value in told.items() if value or name not in ABSENT_IF_EMPTY}

    @classmethod
    def from_json(cls, told: JSON) -> Plan:
        """Raises ValueError, KeyError or TypeError for what is no plan, UserError for a run that nothing knows."""
        kinds = {part["specification"].get("kind", "") for part in (*told["first"].values(), *told["cells"])}
        for path in told["plugins"] if kinds - Run.known.keys() else ():
            load_file(path)
        first = {run: First.from_json(part) for run, part in told["first"].items()}
        parts = {"cells": [Cell.from_json(cell) for cell in told["cells"]], "first": first}
        parts["rows"] = [TableRow.from_json(row) for row in told["rows"]]
        known = {field.name for field in dataclasses.fields(cls)}
        return cls(**{name: told[name] for name in known & told.keys()} | parts)


def called(who: BaseTeacher) -> str:
    """What tells base weights from others in a plan: those of two plugins may be the same."""
    return f"{who.name} {who.content}"


def waited_for(first: Mapping[RunId, First], runs: Iterable[RunId]) -> dict[RunId, First]:
    """These of the runs that others start from, and all that they wait for, each after those that it waits for itself.

    first: in such an order, as plans have them.
    """
    found, waiting = set[RunId](), set(runs)
    while waiting:
        found |= waiting
        waiting = {after for run in waiting for after in first[run].after}
    return {run: one for run, one in first.items() if run in found}


def trials_of(cell: Cell) -> int:
    """How many trials a search of a cell makes: no more than its grid has settings."""
    return min(cell.trials, size(cell.space) or cell.trials)


def searches_of(cell: Cell) -> int:
    """How many searches a cell has: one for all seeds, or one for each."""
    return cell.seeds if cell.searched_by_seed else 1


def all_trials_of(cell: Cell) -> int:
    """How many trials all searches of a cell make."""
    return trials_of(cell) * searches_of(cell)


def runs_of(cell: Cell) -> int:
    """How many runs a cell has at most: the trials of its searches, of which the best are seeds, and other seeds."""
    return all_trials_of(cell) + cell.seeds - searches_of(cell)


def distinct(cells: Sequence[Cell]) -> list[Cell]:
    """The cells that can exist, one for all those that share their runs."""
    return list({cell.search: cell for cell in cells if not cell.refused}.values())


def size_of(info: ModelInfo) -> dict[str, int]:
    """What a cell's time is estimated by."""
    operations = info.operations or 12 * info.layers * info.width**2  # of attention 4 matrices, of feed-forward 8
    return {"layers": info.layers, "width": info.width, "operations": operations}


def declaration_of(study: Study, profile: str, words: Sequence[str] = ("label", "mark", "published")) -> str:
    """A hash of what a study asks for in a profile: all that decides its cells, and none of its words.

    words: the fields of rows that are.
    """
    rows = [{**row.to_json(), **dict.fromkeys(words, "")} for row in study.rows_of(profile)]
    of_all = study.procedure, study.students, study.general, study.analysis
    return digest(_plain([*of_all, rows, vars(study.profile(profile))]))[:16]


def _plain(value: Any) -> Any:
    if isinstance(value, (Cell, First)):
        return value.to_json()
    value = value.to_json() if isinstance(value, TableRow) else value
    value = vars(value) if isinstance(value, Hyperparameter) else value
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(part) for part in value]
    return value
