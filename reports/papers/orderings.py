"""Which published orderings of rows our data support, contradict or cannot decide."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from harness.reports.statistics.verdicts import verdicts
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
    a, b = np.triu_indices(len(keys), 1)
    p = dict(zip(zip(a.tolist(), b.tolist(), strict=True), noise.p_value(a, b).tolist(), strict=True))
    means = [scaled(column.metric, value) for value in noise.values.tolist()]
    found = verdicts(printed, means, p)
    return tuple(
        Ordering(labels[i], labels[k], (printed[i], printed[k]), means[i] - means[k], corrected, verdict)
        for (i, k), (verdict, corrected) in sorted(found.items())
    )


def rows(table: Table) -> list[dict[str, Any]]:
    """A record for each published ordering: where, which rows, what is printed, our difference, its p, the verdict."""
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
            "p_holm": round(ordering.p, 6),
            "verdict": ordering.verdict,
            "like_published": not column.average or table.comparison.alike,
        }
        for block, column, ordering in table.comparison.ordered()
    ]
