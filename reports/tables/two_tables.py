"""The rows of another table beside the same rows of this one, such as what they come to with another teacher."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import product
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
from harness.reports.tables.shapes import Beside, BesideLine, Block, Column, Entry, Interval, Key, Line, Table, Tested

if TYPE_CHECKING:
    from harness.reports.statistics.influence import Score
    from harness.reports.statistics.noise import Noise

Lines = Mapping[Key, Sequence[Entry]]  # of two tables
TEACHER = "Teacher"  # the label of their line
SHARED = {  # what the seeds of a row may have in common, of both tables
    "teacher": "these teachers",
    "training examples": "these training examples",
    "search of settings": "the settings found",
    "distillation on the corpus": "these distillations on the corpus",
}


def with_other(
    table: Table, other: Table, names: tuple[str, str, str], tasks: Mapping[str, Task], score: Score
) -> Table:
    """The table with another beside it: each line that both have, and of each score their difference; and where this
    table has a reference row, the difference of each line's gain over it.

    names: what this table and the other are asked for by alone, and what both are. Raises UserError where they have no
    line or no score in common.
    """
    shown = [j for j, column in enumerate(table.columns) if _of_both(column, table, other)]
    if not shown:
        raise UserError("the two tables have no scores to compare: none is of the same task and metric in both")
    lines = lines_of(table, other)
    blocks = [(block, [x for x in block.lines if other_key(key_of(x)) in lines]) for block in table.blocks]
    blocks = [(block, own) for block, own in blocks if own and not block.improvement]
    if not blocks:
        raise UserError("the two tables have no row of the same student and initialisation in common")
    tested = noise_of_both(table, other, tasks, score)
    own = [line for _, of_block in blocks for line in of_block]
    asked = {key: ([key], [other_key(key)]) for key in map(key_of, own)}
    found = {j: _tested(asked, lines, table.columns, j, tested.get(j)) for j in shown}
    made = _told(blocks, {key: _pairs(lines, key, shown) for key in asked}, found)
    if table.teacher and other.teacher:
        pairs = [*zip(table.teacher, aligned(other.teacher, other, table), strict=True)]
        made = [("", (BesideLine(TEACHER, "", "", tuple(pairs[j] for j in shown), (None,) * len(shown)),)), *made]
    beside = Beside(*names, columns=tuple(table.columns[j] for j in shown), blocks=tuple(made))
    notes = (*_how(table, other, tested), *_untested(beside), *_alone(table, other), *_unlike(table, other))
    if references := _references(table, own):
        asked = {key: ([key, other_key(of)], [other_key(key), of]) for key, of in references.items()}
        found = {j: _tested(asked, lines, table.columns, j, tested.get(j)) for j in shown}
        gains = {key: _gains(_pairs(lines, key, shown), _pairs(lines, of, shown)) for key, of in references.items()}
        reference = table.rows()[table.against].label
        beside = replace(beside, reference=reference, gains=tuple(_told(blocks, gains, found)))
    return replace(table, beside=replace(beside, notes=notes))


def _told(
    blocks: Sequence[tuple[Block, Sequence[Line]]],
    pairs: Mapping[Key, tuple[tuple[Entry, Entry], ...]],
    found: Mapping[int, Mapping[Key, Interval]],
) -> list[tuple[str, tuple[BesideLine, ...]]]:
    """pairs: of each line that is told, ours and theirs in each column; found: of each column what is tested."""
    made = []
    for block, lines in blocks:
        told = tuple(
            BesideLine(
                label_of(line, block.init),
                line.student,
                line.init,
                pairs[key_of(line)],
                tuple(column.get(key_of(line)) for column in found.values()),
            )
            for line in lines
            if key_of(line) in pairs
        )
        made += [(heading(block.student, block.init), told)] if told else []
    return made


# ---------------------------------------------------------------- what both have


def lines_of(table: Table, other: Table) -> dict[Key, Sequence[Entry]]:
    """The lines of both by their keys, those of the other by `other_key` and in the columns of this one."""
    lines: dict[Key, Sequence[Entry]] = {key_of(line): line.entries for _, line in table.lines()}
    return lines | {other_key(key_of(line)): aligned(line.entries, other, table) for _, line in other.lines()}


def other_key(key: Key) -> Key:
    """The key of a line of the other table, which no line of this one has."""
    student, init, row = key
    return student, init, f"{row} of the other"


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


def _pairs(lines: Lines, key: Key, shown: Sequence[int]) -> tuple[tuple[Entry, Entry], ...]:
    return tuple((lines[key][j], lines[other_key(key)][j]) for j in shown)


def _references(table: Table, own: Sequence[Line]) -> dict[Key, Key]:
    """Line -> the reference row of this table in its place, or its only one; but for that row itself."""
    found = {line.place: key_of(line) for line in own if line.row.name == table.against}
    places = {line.place for _, line in table.lines() if line.row.name == table.against}  # whatever the other has
    only = next(iter(found.values()), None) if len(places) == 1 else None
    others = ((key_of(line), found.get(line.place, only)) for line in own if line.row.name != table.against)
    return {key: reference for key, reference in others if reference}


def _gains(
    of_row: Sequence[tuple[Entry, Entry]], of_reference: Sequence[tuple[Entry, Entry]]
) -> tuple[tuple[Entry, Entry], ...]:
    """How much better than the reference the row is in either table, as entries."""

    def gain(one: Entry, less: Entry) -> Entry:
        value = apart(one, less)
        return Entry("absent") if value is None else Entry("complete", value, n=min(one.n, less.n), signed=True)

    pairs = zip(of_row, of_reference, strict=True)
    return tuple((gain(ours, our), gain(theirs, their)) for (ours, theirs), (our, their) in pairs)


def apart(one: Entry, other: Entry) -> float | None:
    """One minus the other, where both are finished."""
    if one.value is None or other.value is None or not one.status == other.status == "complete":
        return None
    return one.value - other.value


# ---------------------------------------------------------------- how sure it is


def noise_of_both(table: Table, other: Table, tasks: Mapping[str, Task], score: Score) -> dict[int, Tested]:
    """What can be compared of the finished lines of both, by the number of this table's column.

    The noise is learned from the rows of both: seed by seed where in both each draws for itself and all rows have the
    same seeds, otherwise as if the seeds of two rows had nothing in common. A line of the same runs in both is learned
    from once, or it would be a witness for itself. Keys are those of `lines_of`.
    """
    lines = lines_of(table, other)
    own = (key_of(line) for _, line in table.lines())
    twins = {other_key(key): key for key in own if _same(lines, key, table.columns)}
    drawn = {*table.provenance.drawn_by_seed} & {*other.provenance.drawn_by_seed}
    seeds: dict[str, set[tuple[int, ...]]] = {}
    for j, column in enumerate(table.columns):
        rows = (tuple(run.seed for run in entry.runs) for entry in complete(lines, j).values())
        seeds.setdefault(column.task, set()).update(row for row in rows if len(row) > 1)
    paired = {task for task in drawn if len(seeds.get(task, ())) == 1}
    once = {key: entries for key, entries in lines.items() if key not in twins}
    made = tests(once, table.columns, tasks, score, paired)
    return {j: replace(one, twins=twins) for j, one in made.items()}


def _same(lines: Lines, key: Key, columns: Sequence[Column]) -> bool:
    """Whether a line has the same scores of the same runs in both tables, wherever it is finished in the other."""
    theirs = lines.get(other_key(key), ())
    scores = (j for j, c in enumerate(columns) if c.task and is_score(c.metric))
    its = [j for j in scores if theirs and theirs[j].status == "complete"]
    return bool(its) and all(alike(lines[key], theirs, columns, j) for j in its)


def alike(one: Sequence[Entry], other: Sequence[Entry], columns: Sequence[Column], j: int) -> bool:
    """Whether two lines have one score of the same runs: another machine, or version, may have made other scores."""
    return one[j].value == other[j].value and same_runs(one, other, columns, j)


def few(*entries: Entry) -> bool:
    """Whether one is of a single seed, of which nobody knows how far others lie."""
    return min(entry.n for entry in entries) < 2


def _tested(
    asked: Mapping[Key, tuple[Sequence[Key], Sequence[Key]]],
    lines: Lines,
    columns: Sequence[Column],
    j: int,
    tested: Tested | None,
) -> dict[Key, Interval]:
    """Of each that is asked for the sum of one or two means of the j-th column minus that of as many others.

    Those that can be tested are one family: intervals hold together, p-values are corrected by Holm's procedure. What
    rests on the same runs on both sides cancels out.
    """
    import numpy as np

    from harness.reports.statistics.estimation import sums
    from harness.reports.statistics.noise import holm

    found = dict[Key, Interval]()
    family: dict[Key, tuple[Noise, list[int], list[int]]] = {}
    for key, sides in asked.items():
        more, less = (list(side) for side in sides)
        if any(apart(lines[one][j], lines[other][j]) is None for one, other in zip(more, less, strict=True)):
            continue
        for one, other in product(*sides):
            if one in more and other in less and alike(lines[one], lines[other], columns, j):
                more.remove(one)
                less.remove(other)
        if not more:
            found[key] = NOTHING
        elif tested and not few(*(lines[one][j] for one in (*more, *less))):
            places, alone = [tested.places(side) for side in (more, less)], len(more) == 1
            if all(places) and (noise := tested.noise if alone else sums(tested.noise, *places)):
                family[key] = (noise, *(places if alone else ([0], [1])))
    if family:
        each = [noise.compare(a, b, family=len(family)) for noise, a, b in family.values()]
        corrected = holm(np.concatenate([one.p for one in each]))
        intervals = [Interval.each(one)[0] for one in each]
        found |= {
            key: replace(one, corrected=float(p))
            for key, one, p in zip(family, intervals, corrected, strict=True)
        }
    return found


# ---------------------------------------------------------------- how it reads


def _how(table: Table, other: Table, tested: Mapping[int, Tested]) -> Iterator[str]:
    drawn = [(count, what) for each in (table, other) for count, what in draws(each)]
    one = dict.fromkeys(what for count, what in drawn if count == 1)
    own = dict.fromkeys(what for _, what in drawn if what not in one)
    scope = f", each seed with its own {listed(own)}" if own else ""
    scope += f", for {listed(SHARED[what] for what in one)} alone" if one else ""
    compared = (column for column in enumerate(table.columns) if _of_both(column[1], table, other))
    by_seed = [column.name for j, column in compared if j in tested and tested[j].noise.paired]
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


def _untested_gains(beside: Beside) -> Iterator[str]:
    """Why averages of gains have no interval, where those of the rows have: see `statistics.estimation.sums`."""
    averages = [j for j, column in enumerate(beside.columns) if column.average]
    lines = [line for _, of_block in beside.gains for line in of_block]
    found = ((line.entries[j], line.found[j]) for line in lines for j in averages)
    if any(apart(*both) is not None and not few(*both) and tested is None for both, tested in found):
        yield "Without an interval: averages over tasks, where rows are compared seed by seed"


def _alone(table: Table, other: Table) -> Iterator[str]:
    """The rows, and the students and initialisations, that one of them has alone."""
    rows = [{line.row.name: line.row.label for _, line in one.lines()} for one in (table, other)]
    places = [dict.fromkeys(heading(block.student, block.init) for block in one.blocks) for one in (table, other)]
    for where, i in (("this table", 0), ("the other", 1)):
        only = [label for name, label in rows[i].items() if name not in rows[1 - i]]
        if only := [*only, *(place for place in places[i] if place and place not in places[1 - i])]:
            yield f"Only in {where}: {'; '.join(only)}"


def _unlike(table: Table, other: Table) -> Iterator[str]:
    """What else sets the two apart, and what is told below the other."""
    made, its = table.provenance, other.provenance
    if made.protocol != its.protocol:
        yield f"Selected by other protocols: {made.protocol} here, {its.protocol} in the other"
    if made.budget != its.budget:
        yield f"Search budgets differ: {made.budget}; in the other {its.budget}"
    yield from (f"Of the other: {sentence}" for sentence in its.older_code)


def grids(beside: Beside) -> list[Grid]:
    """Both numbers and their difference, one under the other; then so of the gains over the reference row."""
    names = f"This: {beside.own}. The other: {beside.other}." + f" Both: {beside.both}." * bool(beside.both)
    header = ("",), *header_of(beside.columns)
    made = [Grid("Beside other results", names, header, _groups(beside.blocks, beside.columns), bare(beside.notes))]
    if beside.gains:
        said = (
            f"Each row minus {beside.reference}, of either table; difference: the gain of this table minus that of the "
            "other, tested as the differences above, with intervals that hold together within a column",
            *_untested_gains(beside),
        )
        groups = _groups(beside.gains, beside.columns)
        made.append(Grid(f"Gains over {beside.reference}, beside other results", names, header, groups, bare(said)))
    return made


def _groups(
    blocks: Sequence[tuple[str, Sequence[BesideLine]]], columns: Sequence[Column]
) -> tuple[Group, ...]:
    return tuple(Group(name, tuple(x for line in lines for x in _cells(line, columns))) for name, lines in blocks)


def _cells(line: BesideLine, columns: Sequence[Column]) -> Iterator[tuple[Cell, ...]]:
    for i, which in enumerate(("this", "other")):
        texts = (entry_text(both[i], c.metric) for both, c in zip(line.entries, columns, strict=True))
        yield Cell("" if i else line.label), Cell(which), *map(Cell, texts)
    found = zip(line.entries, line.found, strict=True)
    yield Cell(""), Cell("difference"), *(_difference(apart(*both), tested) for both, tested in found)


def _difference(value: float | None, tested: Interval | None) -> Cell:
    return interval_of(tested) if tested or value is None else Cell(difference("", scaled("", value)))
