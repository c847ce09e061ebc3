"""Which published orderings of rows our data support, contradict or cannot decide."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from harness.contracts import Task
from harness.reports.quantities import is_score, scaled
from harness.reports.shapes import Column, ComparedBlock, Comparison, Entry, Ordering, Table
from harness.reports.statistics.resampling import LEVEL, Score
from harness.reports.statistics.verdicts import verdicts

FEWEST_SEEDS = 2  # of a row: of one seed alone nobody knows how far others lie


def with_verdicts(table: Table, tasks: Mapping[str, Task], score: Score) -> Table:
    """The table with a verdict on each ordering of rows in the published numbers beside it, if there are any.

    Of a block's column all rows are compared that compete, have a published number and are finished, with two seeds or
    more. Quantities and differences of rows are not, nor what the test server scored, nor an average over other tasks.
    """
    if table.comparison is None:
        return table
    made = table.comparison
    blocks = tuple(replace(block, orderings=_of_block(block, made, table, tasks, score)) for block in made.blocks)
    return replace(table, comparison=replace(made, blocks=blocks))


def _of_block(
    block: ComparedBlock, made: Comparison, table: Table, tasks: Mapping[str, Task], score: Score
) -> tuple[tuple[Ordering, ...], ...]:
    found = []
    for j, column in enumerate(made.columns):
        tested = is_score(column.metric) and not block.improvement and (made.alike or not column.average)
        found.append(_of_column(block, j, column, table, tasks, score) if tested else ())
    return tuple(found)


def _of_column(
    block: ComparedBlock, j: int, column: Column, table: Table, tasks: Mapping[str, Task], score: Score
) -> tuple[Ordering, ...]:
    labels, printed, entries = [], [], []
    for compared in block.lines:
        pair, line = compared.pairs[j], compared.line
        if pair.printed and line and line.row.competes and pair.ours.status == "complete" and not pair.ours.tested:
            if pair.ours.n >= FEWEST_SEEDS and not pair.ours.collapsed:
                labels.append(compared.label)
                printed.append(pair.printed)
                entries.append(line.entries[table.columns.index(column)])
    means = [scaled(column.metric, e.value or 0.0) for e in entries]
    found = verdicts(printed, means, _pairs(entries, column, tasks, score))
    return tuple(
        Ordering(labels[a], labels[b], (printed[a], printed[b]), means[a] - means[b], p, verdict)
        for (a, b), (verdict, p) in sorted(found.items())
    )
