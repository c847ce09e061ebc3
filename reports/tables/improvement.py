"""Rows that show by how much one row is better than another; they have no cells of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from harness.contracts import TableRow
from harness.errors import check_known
from harness.reports.statistics.summaries import mean_std
from harness.reports.tables.shapes import Block, Column, Entry, Line, parts_of

STATUSES = ("complete", "partial", "waiting", "failed", "unrecorded", "impossible", "absent")  # worst last


def less_finished(one: Entry, other: Entry) -> Entry:
    """Whichever of the two is further from finished; of two that are partial the one of fewer seeds."""
    return max(one, other, key=lambda e: (STATUSES.index(e.status), -e.n))


def improvements(
    rows: Sequence[TableRow], blocks: Sequence[Block], columns: Sequence[Column], mark: Callable[[TableRow], str]
) -> tuple[Block, ...]:
    """The rows that `improves` makes of two rows of `blocks`, in a block for each student and initialisation.

    Two lines are subtracted where they agree on what both leave free; a row that lacks one of the two is left out.
    mark gives the symbol of a row's mark. Raises UserError where a row improves on one that is not declared.
    """
    known = {row.name for row in rows} | {line.row.name for block in blocks for line in block.lines}
    found: dict[tuple[str, str], list[Line]] = {}
    for row in rows:
        for name in row.improves:
            check_known(f"row in improves of {row.name}", name, known)
        both = [[(b, line) for b in blocks for line in b.lines if line.row.name == name] for name in row.improves]
        for (block, ours), (other, theirs) in product(*both) if both else ():
            student, init = {block.student, other.student} - {""}, {block.init, other.init} - {""}
            if len(student) > 1 or len(init) > 1:
                continue
            place = "".join(student), "".join(init)
            entries = tuple(_difference(ours.entries, theirs.entries, columns, j) for j in range(len(columns)))
            line = Line(row, place[0] or ours.student, place[1] or ours.init, mark(row), entries)
            found.setdefault(place, []).append(line)
    return tuple(Block(*place, tuple(lines), improvement=True) for place, lines in found.items())


def by_seed(entries: Sequence[Entry], metrics: Sequence[str]) -> dict[tuple[int, ...], float]:
    """The mean over the entries of each seed, seeds paired by their place; none where their numbers differ."""
    if len({len(e.runs) for e in entries}) > 1:
        return {}
    places = zip(*(e.runs for e in entries), strict=True)
    return {
        tuple(run.seed for run in runs): sum(run.metrics[m] for run, m in zip(runs, metrics, strict=True)) / len(runs)
        for runs in places
    }


def _difference(ours: Sequence[Entry], theirs: Sequence[Entry], columns: Sequence[Column], j: int) -> Entry:
    """Ours minus theirs in column j, as far as the less finished; with the spread of the same seeds' differences."""
    worse = less_finished(ours[j], theirs[j])
    a, b = ours[j].value, theirs[j].value
    if a is None or b is None:
        return replace(worse, value=None, std=None, best=False, tied=False, cell="", runs=(), signed=True)
    parts = parts_of(columns, j)
    metrics = [columns[k].metric for k in parts]
    x, y = (by_seed([entries[k] for k in parts], metrics) for entries in (ours, theirs))
    std = mean_std([x[seed] - y[seed] for seed in x])[1] if x and x.keys() == y.keys() else None
    n, wanted = (f(getattr(e, name) for e in (ours[j], theirs[j])) for f, name in ((min, "n"), (max, "wanted")))
    tested = ours[j].tested and theirs[j].tested
    return Entry(worse.status, a - b, std, n, wanted, worse.progress, signed=True, tested=tested)
