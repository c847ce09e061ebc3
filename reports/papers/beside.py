"""How the comparison with published numbers reads: ours and theirs, the orders, and the verdict on theirs."""

from __future__ import annotations

import math
from collections.abc import Iterable

from harness.errors import first_of
from harness.reports.statistics import LEVEL
from harness.reports.statistics.verdicts import CONTRADICTED, counts, tau_interval
from harness.reports.tables import quantities
from harness.reports.tables.layout import Cell, Grid, Group, bare, entry_text, full_stop, header_of, heading, label_of
from harness.reports.tables.quantities import MACHINE, WHOLE, is_score
from harness.reports.tables.shapes import Column, ComparedBlock, ComparedLine, Comparison, Ordering, Pair

NAMED = 12  # contradicted orderings that are named under a table


def compared(comparison: Comparison) -> Grid:
    """Ours beside the published numbers, always in lines."""
    groups = []
    columns = comparison.columns
    ordered = [len(block.lines) > 2 and not all(c.metric in WHOLE for c in columns) for block in comparison.blocks]
    for block, shown in zip(comparison.blocks, ordered, strict=True):
        ranked = [p for line in block.lines for p in line.pairs if p.ranks]
        subtracted = any(p.difference is not None for line in block.lines for p in line.pairs)
        last = "rank" if ranked and not subtracted else "difference"
        lines = tuple(cells for line in block.lines for cells in _beside(line, block.init, columns, last))
        groups.append(Group(heading(block.student, block.init, block.improvement), lines))
        groups += [_agreement(block, comparison)] if shown else []
    if comparison.others:
        lines = tuple(
            (Cell(line.label), Cell("published"), *map(_printed, line.pairs, columns)) for line in comparison.others
        )
        groups.append(Group("Published only", lines))
    points = ", in points" if any(is_score(c.metric) for c in columns) else ""
    sentences = [f"Difference: ours minus published{points}, where our cell is finished"] if groups else []
    if any(pair.ranks for block in comparison.blocks for line in block.lines for pair in line.pairs):
        sentences.append(
            "Rank: place among the students, ours : published, where the averages are of different tasks or metrics"
        )
    if any(c.metric in MACHINE for c in columns):
        sentences.append("Seconds and sentences a second are of different machines: shown, and not subtracted")
    if any(cells[1].text == "both" for group in groups for cells in group.lines):
        sentences.append("Both: our number and the published one are the same throughout the row")
    if any(ordered):
        sentences.append(
            "Order of the rows: rank correlation of ours with the published, without teachers and other references, "
            "where 3 rows or more are finished"
        )
    sentences += _tested(comparison)
    about = f"Published: {comparison.source}", comparison.counted, verdict(comparison)
    notes = [(str(i), note) for i, note in enumerate(comparison.notes, 1)]
    return Grid(
        "Beside the published numbers",
        " ".join(full_stop(s) for s in about if s),
        (("",), *header_of(columns)),
        tuple(groups),
        (*notes, *bare((*sentences, *comparison.remarks))),
    )


def _beside(line: ComparedLine, init: str, columns: tuple[Column, ...], last: str) -> tuple[tuple[Cell, ...], ...]:
    """Ours, the published number and their difference (or both ranks), one under the other; equal counts once."""
    pairs, label = line.pairs, label_of(line.line, init) if line.line else line.label
    printed = tuple(map(_printed, pairs, columns))
    if all(c.metric in WHOLE and p.difference == 0 for p, c in zip(pairs, columns, strict=True)):
        return ((Cell(label), Cell("both"), *printed),)
    ours = (Cell(entry_text(p.ours, c.metric)) for p, c in zip(pairs, columns, strict=True))
    return (
        (Cell(label), Cell("ours"), *ours),
        (Cell(""), Cell("published"), *printed),
        (Cell(""), Cell(last), *map(_difference, pairs, columns)),
    )


def _printed(pair: Pair, column: Column) -> Cell:
    """What the paper prints, a dash where it prints nothing."""
    text = quantities.printed(column.metric, pair.printed) if pair.printed else "–"
    return Cell(text + (f" ± {pair.printed_std}" if pair.printed_std else ""), mark=str(pair.note or ""))


def _difference(pair: Pair, column: Column) -> Cell:
    if pair.difference is None:
        return Cell("{} : {}".format(*pair.ranks) if pair.ranks else "")
    return Cell(quantities.difference(column.metric, pair.difference, of=pair.ours.value))


def _agreement(block: ComparedBlock, comparison: Comparison) -> Group:
    told = {
        "Kendall's tau-b": [_signed(a.tau) for a in block.agreement],
        "Spearman's rho": [_signed(a.rho) for a in block.agreement],
        "Rows compared": [str(a.n) for a in block.agreement],
    }
    lines = ((Cell(name), Cell(""), *map(Cell, texts)) for name, texts in told.items())
    return Group("Order of the rows", (*lines, *_orderings(block, comparison)))


def _orderings(block: ComparedBlock, comparison: Comparison) -> list[tuple[Cell, ...]]:
    """How many published orderings of each column have which verdict, and what that leaves of tau."""
    if not any(block.orderings):
        return []
    counted = [counts(o.verdict for o in found) for found in block.orderings]
    names = ("Orderings supported", "contradicted", "undecided")
    lines = [
        (Cell(name), Cell(""), *(Cell(str(numbers[k]) if sum(numbers) else "") for numbers in counted))
        for k, name in enumerate(names)
    ]
    less = [
        str(_less(found)) if found and comparison.like(column) else ""
        for column, found in zip(comparison.columns, block.orderings, strict=True)
    ]
    lines += [(Cell("less than in print"), Cell(""), *map(Cell, less))] if any(less) else []
    between = [tau_interval(*numbers) for numbers in counted]
    told = (Cell("" if math.isnan(low) else f"{_signed(low)} to {_signed(high)}") for low, high in between)
    return [*lines, (Cell("Tau over them, 95%"), Cell(""), *told)]


def _less(found: Iterable[Ordering]) -> int:
    """How many of those that are not contradicted are less than in print."""
    return sum(ordering.less for ordering in found if ordering.verdict != CONTRADICTED)


def verdict(comparison: Comparison) -> str:
    """What our data say of all published orderings together, in a sentence or two; "" where there are none.

    Those of averages over other tasks or metrics are told apart: they are no verdict on what was published.
    """
    said: dict[bool, list[Ordering]] = {}
    for _, column, ordering in comparison.ordered():
        said.setdefault(comparison.like(column), []).append(ordering)
    sentences = []
    for like, found in sorted(said.items(), reverse=True):
        where = "Of" if like else "On the average, which is over other tasks or metrics, of"
        yes, no, unknown = (count or "none" for count in counts(ordering.verdict for ordering in found))
        which = "1 published ordering" if len(found) == 1 else f"{len(found)} published orderings"
        verb = "is" if yes == 1 else "are"
        cannot = f"{unknown} cannot be decided at this size"
        if like and (less := _less(found)):
            cannot += f"; of those not contradicted {less} {'is' if less == 1 else 'are'} less than in print"
        sentences.append(f"{where} {which} {yes} {verb} supported, {no} contradicted, {cannot}")
    return ". ".join(sentences)


def _tested(comparison: Comparison) -> list[str]:
    """What a published ordering is, by which test there is a verdict on it, and which are contradicted."""
    ordered, several = [*comparison.ordered()], len(comparison.blocks) > 1
    if not ordered:
        return []
    named = [
        f"{', '.join(filter(None, (column.name, heading(block.student, block.init) * several)))}: {o.above} above "
        f"{o.below} (published {o.published[0]} to {o.published[1]}, ours {quantities.difference('', o.difference)})"
        for block, column, o in ordered
        if o.verdict == CONTRADICTED
    ]
    return [
        "Published ordering: two students of a column whose printed numbers differ whatever they were rounded from. "
        "Supported, contradicted: ours, where they are finished with two seeds or more, differ in the same direction, "
        "or in the other (two-sided test over seeds and dev examples, corrected by Holm's procedure for all pairs of "
        f"rows of a column, p < {LEVEL}: in 95% of tables no verdict of a column is wrong)",
        *(
            [
                f"Less than in print: the {1 - LEVEL:.0%} interval of our difference, which holds for all pairs of a "
                "column at once, is below the printed difference, whatever that was rounded from"
            ]
            * any(o.less for _, column, o in ordered if comparison.like(column) and o.verdict != CONTRADICTED)
        ),
        "Tau over them: between what Kendall's tau of published and true order would be if all that is undecided were "
        "against it, and for it",
        *([f"Contradicted: {first_of(named, NAMED)}"] if named else []),
    ]


def _signed(value: float) -> str:
    return "–" if math.isnan(value) else f"{round(value, 2) + 0.0:+.2f}".replace("-", "−")
