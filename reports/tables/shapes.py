"""What a table is, as plain data: the shapes that every writer, figure and comparison reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from harness.contracts import RunResult, TableRow

if TYPE_CHECKING:
    from harness.reports.statistics.noise import Differences, Noise

Place = tuple[str, str]  # student and initialisation; ("", "") for rows of neither, or of some that no other row has
Key = tuple[str, str, str]  # student, init, row; "" for what the row fixes itself


@dataclass(frozen=True)
class Provenance:
    """What a table must say about how its numbers were made.

    teacher_scores: task -> metrics as fractions of each of the teacher's runs, by seed; teacher_progress: of another
    task how far these are, "1/3" or "failed". teachers: how many the seeds of a cell learn from, one for each or 1 for
    all; 0 where that is not to be told. samples: likewise, how many draws of a part of the training examples;
    searches: how many searches of settings; distillations: 1 where all seeds of a cell start from a student that was
    distilled on the corpus once; drawn_by_seed: the tasks of which each seed has its own of any, drawn for all rows
    alike. tuned: the teacher is fine-tuned on the tasks, so that its scores stand above the table. protocol is
    "held_out", "published" or "nested", or "" where nothing is trained: then there is no teacher, budget or recipe to
    tell of. budget and recipe are sentences; older_code says which cells other versions of the code made. Nothing here
    may hold a time, a date or a path: tables are compared byte for byte.
    """

    teacher: str
    teacher_scores: Mapping[str, Sequence[Mapping[str, float]]]
    protocol: str
    budget: str
    recipe: str
    notes: tuple[str, ...] = ()
    older_code: tuple[str, ...] = ()
    teachers: int = 0
    samples: int = 0
    searches: int = 0
    distillations: int = 0
    drawn_by_seed: tuple[str, ...] = ()
    tuned: bool = True
    teacher_progress: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Column:
    """A task and a metric of it; the average has neither, a quantity that is the same for all tasks has no task.

    selects: the task's first metric, by which epochs and settings were chosen and of which the average is made.
    alone: the task shows no other metric.
    """

    task: str
    label: str
    metric: str
    selects: bool = True
    alone: bool = True

    @property
    def average(self) -> bool:
        return not (self.task or self.metric)

    @property
    def about(self) -> str:
        """The task; "average" or, of a quantity that is the same for all tasks, its label in small letters."""
        return self.task or ("average" if self.average else self.label.lower())

    @property
    def name(self) -> str:
        """The label, with the metric where the task shows several."""
        return self.label if self.alone else f"{self.label} {self.metric.replace('_', ' ')}"

    @property
    def axis(self) -> str:
        """What its numbers are, as an axis says: the label and the metric, which the average has not."""
        return f"{self.label}, {self.metric.replace('_', ' ')}" if self.metric else self.label


def parts_of(columns: Sequence[Column], j: int) -> list[int]:
    """The columns that the j-th is the mean of, where it is the average; otherwise itself."""
    return [k for k, c in enumerate(columns) if c.task and c.selects] if columns[j].average else [j]


@dataclass(frozen=True)
class Interval:
    """A difference of two means as a fraction, its 95% interval, its p-value and this corrected for their number."""

    value: float
    low: float
    high: float
    p: float
    corrected: float

    @classmethod
    def each(cls, found: Differences) -> list[Interval]:
        """Those of arrays, in order."""
        arrays = (found.value, found.low, found.high, found.p, found.corrected)
        return [cls(*(float(each) for each in one)) for one in zip(*arrays, strict=True)]


@dataclass(frozen=True)
class Entry:
    """One value of the table, as the runs recorded it: a score as a fraction.

    status: complete; partial (progress says how far: "1/2"); waiting (no run yet); failed; impossible; unrecorded (the
    runs do not tell this metric); absent (not part of the plan, or an average that lacks a task). note is the number of
    the reason under the table, 0 without one. runs are the finished runs, by seed. collapsed: how many of them answer
    all dev examples alike; then the entry is never best. signed: the value is the difference of two rows, written with
    its sign. tested: it is of the official test set, as its server said. best, tied: in the whole column; in_place:
    "best", "tied" or "" among the lines of its place; best_of_row: among those of its row, of which others compete.
    to_best: of one that competes, its difference to the best of the others; to_reference: to the table's reference row
    in its place; None where these are not tested.
    """

    status: str
    value: float | None = None
    std: float | None = None
    n: int = 0
    wanted: int = 0
    progress: str = ""
    reason: str = ""
    note: int = 0
    best: bool = False
    tied: bool = False
    cell: str = ""
    runs: tuple[RunResult, ...] = ()
    collapsed: int = 0
    signed: bool = False
    tested: bool = False
    in_place: str = ""
    best_of_row: bool = False
    to_best: Interval | None = None
    to_reference: Interval | None = None


@dataclass(frozen=True)
class Line:
    """One row of a block, the student and initialisation it was made with, and an entry for each column.

    place: which of a matrix's columns it stands in.
    """

    row: TableRow
    student: str
    init: str
    mark: str
    entries: tuple[Entry, ...]
    place: Place = ("", "")


@dataclass(frozen=True)
class Block:
    """The rows of one student and one initialisation; "" for what its rows fix themselves.

    Where a student has one initialisation alone, rows that fix theirs stand among its others. improvement: its rows
    are differences of two others.
    """

    student: str
    init: str
    lines: tuple[Line, ...]
    improvement: bool = False

    def init_of(self, line: Line) -> str:
        """The initialisation that the line shares with others; "" where its row fixes it."""
        return "" if line.row.init else self.init


@dataclass(frozen=True)
class Pair:
    """One of our entries and the number printed for it.

    printed and printed_std are the text of the CSV; places says where it stands, and is repeated, as (file, number of
    the line from 1 without the header, column). difference is in points (of quantities in their own unit), None where
    one side is missing or unfinished, where both depend on the machine, or where the two are averages over different
    tasks or metrics, and then ranks holds both places among the students compared. reason is the study's for a number
    that cannot equal ours.
    """

    ours: Entry
    printed: str = ""
    printed_std: str = ""
    note: int = 0
    reason: str = ""
    difference: float | None = None
    ranks: tuple[int, int] | None = None
    places: tuple[tuple[str, str, str], ...] = ()


@dataclass(frozen=True)
class ComparedLine:
    """A line of ours beside its published numbers; line is None for published ones that stand beside no cell."""

    label: str
    pairs: tuple[Pair, ...]
    line: Line | None = None


@dataclass(frozen=True)
class Agreement:
    """Of one column: Kendall's tau-b and Spearman's rho between our order and the published one, over n rows."""

    tau: float
    rho: float
    n: int


@dataclass(frozen=True)
class Ordering:
    """Two rows of a column that the published table orders, by label, and what our data say of that.

    published: what is printed of both. difference: ours of the row above minus that below, in points; low, high: its
    interval, which holds for all pairs of rows of the column at once. p: of the test that ours differ, corrected for
    these pairs. verdict: supported, contradicted or undecided. less: the interval leaves out what is printed, whatever
    that was rounded from, as too large.
    """

    above: str
    below: str
    published: tuple[str, str]
    difference: float
    low: float
    high: float
    p: float
    verdict: str
    less: bool


@dataclass(frozen=True)
class ComparedBlock:
    """orderings: of each column, as agreement; () where none was tested."""

    student: str
    init: str
    lines: tuple[ComparedLine, ...]
    agreement: tuple[Agreement, ...]
    improvement: bool = False
    orderings: tuple[tuple[Ordering, ...], ...] = ()


@dataclass(frozen=True)
class Comparison:
    """notes are numbered from 1 and referred to by the pairs; remarks are sentences about the whole.

    counted says how many published counts ours equal, "" where none is compared. others are the published numbers that
    stand beside no cell of this table. alike: the averages are over the same tasks and metrics, or there are none.
    """

    source: str
    counted: str
    columns: tuple[Column, ...]
    blocks: tuple[ComparedBlock, ...]
    others: tuple[ComparedLine, ...]
    remarks: tuple[str, ...]
    notes: tuple[str, ...]
    alike: bool = True

    def like(self, column: Column) -> bool:
        """Whether ours of a column are of what the published ones are of; averages may be over other tasks."""
        return self.alike or not column.average

    def ordered(self) -> Iterator[tuple[ComparedBlock, Column, Ordering]]:
        """Every ordering, with where it stands."""
        for block in self.blocks:
            for column, found in zip(self.columns, block.orderings, strict=bool(block.orderings)):
                yield from ((block, column, ordering) for ordering in found)


@dataclass(frozen=True)
class BesideLine:
    """A line of this table and the same line of another.

    entries: (ours, theirs) of each column. found: of each column ours minus theirs, None where it cannot be tested.
    """

    label: str
    student: str
    init: str
    entries: tuple[tuple[Entry, Entry], ...]
    found: tuple[Interval | None, ...]


@dataclass(frozen=True)
class Beside:
    """Another table beside this one. own, other, both: what they are asked for by. columns: those that both have.

    blocks: heading -> its lines, as in this table, the teachers first. gains: so of those that have a reference row,
    the difference to it in either table; reference: its label. notes: sentences for below the first.
    """

    own: str
    other: str
    both: str
    columns: tuple[Column, ...]
    blocks: tuple[tuple[str, tuple[BesideLine, ...]], ...]
    notes: tuple[str, ...] = ()
    gains: tuple[tuple[str, tuple[BesideLine, ...]], ...] = ()
    reference: str = ""


@dataclass(frozen=True)
class Tested:
    """The finished rows of a column that can be compared: k of them, aligned by their place.

    noise: what their means are uncertain by; `noise.p_value(a, b)` and `noise.compare(a, b)` take places. twins: a row
    of the same runs -> the one of `keys` that stands for both.
    """

    keys: tuple[Key, ...]
    noise: Noise
    twins: Mapping[Key, Key] = field(default_factory=dict)

    def places(self, keys: Iterable[Key]) -> list[int]:
        """Where these rows stand; none where one of them cannot be compared."""
        own = [self.twins.get(key, key) for key in keys]
        return [self.keys.index(key) for key in own] if {*own} <= {*self.keys} else []

    def among(self, keys: Iterable[Key]) -> Noise:
        """The noise of these rows, in this order."""
        return self.noise.among(self.places(keys))


@dataclass(frozen=True)
class Table:
    """A study's results. marks maps a sentence to its symbol; reasons are numbered from 1.

    untested names the columns where ties could not be tested for want of comparable per-example predictions. figure
    says what the horizontal axis of the line figure is, whose points are the rows'. kind: what the study was asked for
    beside its profile, such as "seeds=2". layout: "lines" or "matrix". order: the names of the rows, as the study has
    them. submitted: cell -> metric -> its score on the official test set, a fraction, where it was submitted. runs:
    what it was made from, a row a run; before: the records of the runs that cells start from, as teachers.
    additions: what is told below it, names of `reports.ADDITIONS`. against: the name of the row that others are
    compared with, "best" or "". tested: what can be compared of each column, by the column's number; detectable: the
    least difference it would find.
    """

    study: str
    title: str
    question: str
    profile: str
    columns: tuple[Column, ...]
    teacher: tuple[Entry, ...]
    blocks: tuple[Block, ...]
    provenance: Provenance
    marks: Mapping[str, str] = field(default_factory=dict)
    reasons: tuple[str, ...] = ()
    untested: tuple[str, ...] = ()
    comparison: Comparison | None = None
    beside: Beside | None = None
    figure: str = ""
    kind: str = ""
    layout: str = "lines"
    order: tuple[str, ...] = ()
    submitted: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    additions: tuple[str, ...] = ()
    runs: Sequence[Mapping[str, Any]] = field(default=(), compare=False, repr=False)
    before: Mapping[str, Mapping[str, Any]] = field(default_factory=dict, compare=False, repr=False)
    against: str = ""
    detectable: Mapping[int, float] = field(default_factory=dict)
    tested: Mapping[int, Tested] = field(default_factory=dict, compare=False, repr=False)

    def lines(self) -> list[tuple[Block, Line]]:
        """Every line that cells give, with its block, in reading order: all but the differences of two rows."""
        return [(block, line) for block, line in self.all_lines() if not block.improvement]

    def all_lines(self) -> list[tuple[Block, Line]]:
        return [(block, line) for block in self.blocks for line in block.lines]

    def rows(self) -> dict[str, TableRow]:
        """The row of every line, by its name."""
        return {line.row.name: line.row for _, line in self.all_lines()}

    def entries(self) -> Iterable[Entry]:
        """Every entry of `lines`."""
        return (entry for _, line in self.lines() for entry in line.entries)
