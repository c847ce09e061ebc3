"""The rows of another table beside the same rows of this one, such as what they come to with another teacher."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from harness.contracts import Task
from harness.errors import UserError, listed
from harness.reports.statistics import LEVEL
from harness.reports.tables.layout import (
    Cell,
    Grid,
    Group,
    bare,
    draws,
    entry_text,
    header_of,
    heading,
    interval_of,
    label_of,
)
from harness.reports.tables.quantities import difference, is_score, scaled
from harness.reports.tables.ranking import NOTHING, complete, key_of, same_runs, tests
from harness.reports.tables.shapes import Beside, BesideLine, Column, Entry, Interval, Key, Table, Tested

if TYPE_CHECKING:
    from harness.reports.statistics.influence import Score

TEACHER = "Teacher"  # the label of their line
SHARED = {  # what the seeds of a row may have in common, of both tables
    "teacher": "these teachers",
    "training examples": "these training examples",
    "search of settings": "the settings found",
    "distillation on the corpus": "these distillations on the corpus",
}


def with_other(table: Table, other: Table, names: tuple[str, str], tasks: Mapping[str, Task], score: Score) -> Table:
    """The table with another beside it: each line that both have, and of each score their difference.

    names: what this table and the other are asked for by. Raises UserError where they have no line or no score in
    common.
    """
    shown = [j for j, column in enumerate(table.columns) if _of_both(column, table, other)]
    if not shown:
        raise UserError("the two tables have no scores to compare: none is of the same task and metric in both")
    lines = entries_of(other, table)
    blocks = [(block, [line for line in block.lines if key_of(line) in lines]) for block in table.blocks]
    blocks = [(block, own) for block, own in blocks if own and not block.improvement]
    if not blocks:
        raise UserError("the two tables have no row of the same student and initialisation in common")
    pairs = {key_of(line): (line.entries, lines[key_of(line)]) for _, own in blocks for line in own}
    tested = noise_of_both(table, other, tasks, score)
    found = {j: _differences(j, pairs, tested.get(j), table.columns) for j in shown}
    made: list[tuple[str, tuple[BesideLine, ...]]] = []
    if table.teacher and other.teacher:
        both = zip(table.teacher, aligned(other.teacher, other, table), strict=True)
        entries = [pair for j, pair in enumerate(both) if j in shown]
        made.append(("", (BesideLine(TEACHER, "", "", tuple(entries), (None,) * len(shown)),)))
    for block, own in blocks:
        told = []
        for line in own:
            ours, theirs = pairs[key := key_of(line)]
            label, entries = label_of(line, block.init), [(ours[j], theirs[j]) for j in shown]
            differences = tuple(found[j].get(key) for j in shown)
            told.append(BesideLine(label, line.student, line.init, tuple(entries), differences))
        made.append((heading(block.student, block.init), tuple(told)))
    beside = Beside(*names, tuple(table.columns[j] for j in shown), tuple(made))
    notes = (*_how(table, other, tested), *_untested(beside), *_alone(table, other))
    return replace(table, beside=replace(beside, notes=notes))


# ---------------------------------------------------------------- what both have


def entries_of(other: Table, table: Table) -> dict[Key, tuple[Entry, ...]]:
    """The key of each line of the other table -> its entries in the columns of this one."""
    return {key_of(line): aligned(line.entries, other, table) for _, line in other.lines()}


def aligned(entries: Sequence[Entry], other: Table, table: Table) -> tuple[Entry, ...]:
    """A line of the other table in the columns of this one, absent where the two have none in common."""
    found = {(c.task, c.metric): entry for c, entry in zip(other.columns, entries, strict=True)}
    return tuple(found[c.task, c.metric] if _of_both(c, table, other) else Entry("absent") for c in table.columns)


def _of_both(column: Column, table: Table, other: Table) -> bool:
    """Whether both tables have a column of these scores; an average only if it is over the same ones."""
    if column.average:
        parts = ({(c.task, c.metric) for c in one.columns if c.task and c.selects} for one in (table, other))
        return any(c.average for c in other.columns) and len({frozenset(own) for own in parts}) == 1
    names = {(c.task, c.metric) for c in other.columns}
    return bool(column.task) and is_score(column.metric) and (column.task, column.metric) in names


# ---------------------------------------------------------------- how sure it is


def noise_of_both(table: Table, other: Table, tasks: Mapping[str, Task], score: Score) -> dict[int, Tested]:
    """What can be compared of the finished lines of both, by the number of this table's column.

    The noise is learned from the rows of both: seed by seed where in both each draws for itself and all rows have the
    same seeds, otherwise as if the seeds of two rows had nothing in common. Lines of the other have `other_key`.
    """
    grid = {key_of(line): line.entries for _, line in table.lines()}
    grid |= {other_key(key): entries for key, entries in entries_of(other, table).items()}
    own = {*table.provenance.drawn_by_seed} & {*other.provenance.drawn_by_seed}
    seeds: dict[str, set[tuple[int, ...]]] = {}
    for j, column in enumerate(table.columns):
        rows = (tuple(run.seed for run in entry.runs) for entry in complete(grid, j).values())
        seeds.setdefault(column.task, set()).update(row for row in rows if len(row) > 1)
    return tests(grid, table.columns, tasks, score, {task for task in own if len(seeds.get(task, ())) == 1})


def other_key(key: Key) -> Key:
    """The key of a line of the other table, which no line of this one has."""
    student, init, row = key
    return student, init, f"{row} of the other"


def few(ours: Entry, theirs: Entry) -> bool:
    """Whether one is of a single seed, of which nobody knows how far others lie."""
    return min(ours.n, theirs.n) < 2


def _differences(
    j: int,
    pairs: Mapping[Key, tuple[Sequence[Entry], Sequence[Entry]]],
    tested: Tested | None,
    columns: Sequence[Column],
) -> dict[Key, Interval]:
    """Line -> ours minus theirs in the j-th column, where it can be tested; those of a column are one family."""
    found, both = dict[Key, Interval](), list[Key]()
    for key, (ours, theirs) in pairs.items():
        # Another machine, or version, may have made other scores of the same runs.
        if ours[j].value == theirs[j].value and same_runs(ours, theirs, columns, j):
            found[key] = NOTHING
        elif tested and {key, other_key(key)} <= {*tested.keys} and not few(ours[j], theirs[j]):
            both.append(key)
    if tested and both:
        a, b = ([tested.keys.index(key) for key in keys] for keys in (both, map(other_key, both)))
        found |= zip(both, Interval.each(tested.noise.compare(a, b)), strict=True)
    return found


# ---------------------------------------------------------------- how it reads


def _how(table: Table, other: Table, tested: Mapping[int, Tested]) -> Iterator[str]:
    drawn = [(count, what) for each in (table, other) for count, what in draws(each)]
    one = dict.fromkeys(what for count, what in drawn if count == 1)
    own = dict.fromkeys(what for _, what in drawn if what not in one)
    scope = f", each seed with its own {listed(own)}" if own else ""
    scope += f", for {listed(SHARED[what] for what in one)} alone" if one else ""
    by_seed = [c.name for j, c in enumerate(table.columns) if j in tested and tested[j].noise.paired]
    yield (
        f"Difference: this minus the other, in points, with {1 - LEVEL:.0%} intervals that hold together within a "
        f"column (Bonferroni), over seeds and dev examples{scope}; "
        + (f"seed by seed in {listed(by_seed)}" if by_seed else "as if the seeds of the two had nothing in common")
    )
    corrected = "after Holm's correction for the rows of its column, which finds a little more than the intervals"
    yield f"Bold: p < {LEVEL} {corrected}"


def _untested(beside: Beside) -> Iterator[str]:
    """Why differences have no interval."""
    reasons = dict[str, None]()
    for _, lines in beside.blocks:
        for line in lines:
            for (ours, theirs), found in zip(line.entries, line.found, strict=True):
                if apart(ours, theirs) is not None and found is None:
                    why = "of one seed" if few(ours, theirs) else "without answers to the same dev examples"
                    reasons["the teachers" if line.label == TEACHER else f"rows {why}"] = None
    if reasons:
        yield f"Without an interval: {listed(reasons)}"


def _alone(table: Table, other: Table) -> Iterator[str]:
    labels = [dict.fromkeys(line.row.label for _, line in one.lines()) for one in (table, other)]
    for where, here, there in (("this table", *labels), ("the other", *labels[::-1])):
        if only := [label for label in here if label not in there]:
            yield f"Only in {where}: {listed(only)}"


def grid(beside: Beside) -> Grid:
    """Both numbers and their difference, one under the other."""
    groups = (
        Group(name, tuple(cells for line in lines for cells in _cells(line, beside.columns)))
        for name, lines in beside.blocks
    )
    caption = f"This: {beside.own}. The other: {beside.other}."
    return Grid("Beside other results", caption, (("",), *header_of(beside.columns)), tuple(groups), bare(beside.notes))


def _cells(line: BesideLine, columns: Sequence[Column]) -> Iterator[tuple[Cell, ...]]:
    for i, which in enumerate(("this", "other")):
        texts = (entry_text(both[i], c.metric) for both, c in zip(line.entries, columns, strict=True))
        yield Cell("" if i else line.label), Cell(which), *map(Cell, texts)
    found = zip(line.entries, line.found, strict=True)
    yield Cell(""), Cell("difference"), *(_difference(apart(*both), tested) for both, tested in found)


def _difference(value: float | None, tested: Interval | None) -> Cell:
    return interval_of(tested) if tested or value is None else Cell(difference("", scaled("", value)))


def apart(ours: Entry, theirs: Entry) -> float | None:
    """Ours minus theirs, where both are finished."""
    if ours.value is None or theirs.value is None or not ours.status == theirs.status == "complete":
        return None
    return ours.value - theirs.value
