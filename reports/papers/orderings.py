"""Which published orderings of rows our data support, contradict or cannot decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.reports.statistics.verdicts import apart, verdicts
from harness.reports.tables.quantities import is_score, scaled
from harness.reports.tables.ranking import key_of
from harness.reports.tables.shapes import Column, ComparedBlock, Comparison, Ordering, Table

FEWEST_SEEDS = 2  # of a row: of one seed alone nobody knows how far others lie


def with_verdicts(made: Comparison, table: Table) -> Comparison:
    """The comparison with a verdict on each ordering of rows in the published numbers.

    Of a block's column all rows are compared that compete, have a published number and are finished, with two seeds or
    more of comparable predictions, and none that collapsed. Quantities and differences of rows are not compared, nor
    what the test server scored.
    """
    blocks = (
        replace(block, orderings=tuple(_of_column(block, j, column, table) for j, column in enumerate(made.columns)))
        for block in made.blocks
    )
    return replace(made, blocks=tuple(blocks))


def _of_column(block: ComparedBlock, j: int, column: Column, table: Table) -> tuple[Ordering, ...]:
    import numpy as np

    if block.improvement or not is_score(column.metric):
        return ()
    tested = table.tested.get(table.columns.index(column))
    labels, printed, keys = [], [], []
    for compared in block.lines:
        pair, line = compared.pairs[j], compared.line
        known = tested and line and line.row.competes and key_of(line) in tested.keys
        finished = pair.ours.status == "complete" and pair.ours.n >= FEWEST_SEEDS
        if line and known and pair.printed and finished and not (pair.ours.tested or pair.ours.collapsed):
            labels.append(compared.label)
            printed.append(pair.printed)
            keys.append(key_of(line))
    if not tested or len(keys) < 2:
        return ()
    noise = tested.among(keys)
    a, b = (side.tolist() for side in np.triu_indices(len(keys), 1))
    tests, pairs = noise.compare(a, b), [*zip(a, b, strict=True)]
    p = dict(zip(pairs, tests.p.tolist(), strict=True))
    ends = ([scaled(column.metric, end) for end in side.tolist()] for side in (tests.low, tests.high))
    within = dict(zip(pairs, zip(*ends, strict=True), strict=True))
    within |= {(k, i): (-high, -low) for (i, k), (low, high) in within.items()}
    means = [scaled(column.metric, value) for value in noise.values.tolist()]
    made = []
    for (i, k), (verdict, corrected) in sorted(verdicts(printed, means, p).items()):
        low, high = within[i, k]
        less = high < apart(printed[i], printed[k])
        both, difference = (printed[i], printed[k]), means[i] - means[k]
        made.append(Ordering(labels[i], labels[k], both, difference, low, high, corrected, verdict, less))
    return tuple(made)


def rows(table: Table) -> list[dict[str, Any]]:
    """A record for each published ordering: where, which rows, what is printed, and what our data say of it."""
    if not table.comparison:
        return []
    return [
        {
            "student": block.student,
            "init": block.init,
            "task": column.about,
            "column": column.name,
            "metric": column.metric,
            "above": ordering.above,
            "below": ordering.below,
            "published_above": ordering.published[0],
            "published_below": ordering.published[1],
            "difference": round(ordering.difference, 6),
            "low": round(ordering.low, 6),
            "high": round(ordering.high, 6),
            "p_holm": float(f"{ordering.p:.3g}"),  # as of a table's entries: 1e-8 is not 0
            "verdict": ordering.verdict,
            "like_published": table.comparison.like(column),
            "less_than_published": ordering.less if table.comparison.like(column) else None,
        }
        for block, column, ordering in table.comparison.ordered()
    ]
