"""Our numbers beside the published ones. A published number never enters our own table, its best or its ties."""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import replace
from itertools import product
from pathlib import Path

from harness.contracts import Published, Study, TableRow
from harness.errors import UserError
from harness.reports.papers.orderings import with_verdicts
from harness.reports.papers.printed import (
    DELTA,
    OURS,
    Place,
    Printed,
    answers,
    equal,
    has,
    is_init,
    labels,
    lines_of,
    lost,
    named_tasks,
    note_of,
    place_of,
    printed_metric,
    read,
    tasks_of,
)
from harness.reports.papers.submitted import on_test
from harness.reports.statistics.summaries import rank_correlation
from harness.reports.tables.layout import heading
from harness.reports.tables.quantities import MACHINE, WHOLE, number, scaled
from harness.reports.tables.shapes import (
    Agreement,
    Block,
    Column,
    ComparedBlock,
    ComparedLine,
    Comparison,
    Entry,
    Pair,
    Table,
)

OWN = {"held_out": "on a part held out of the training data", "nested": "by folds of the training data"}
NOTHING = "No cell of this table has a published counterpart."


def with_published(table: Table, study: Study) -> Table:
    """The table with the study's published numbers beside it.

    Raises UserError where the study names no published table, or one that does not exist, that lacks what the study
    looks for in it, or that answers one entry with several numbers.
    """
    if study.published is None:
        raise UserError(f"study {study.name} answers no published table, so there is nothing to compare with")
    rows = table.rows()
    unmade = [row for row in study.rows if row.checkpoint and row.published and row.name not in rows]
    rows |= {row.name: row for row in study.rows}
    comparison = _compare(table, study.published, [row for row in rows.values() if row.published])
    if unmade and comparison.columns and table.provenance.protocol:  # otherwise no weights are read
        names = " ".join(row.name for row in unmade)
        said = f"Not made here: {', '.join(row.label for row in unmade)}; --checkpoints {names} fine-tunes them."
        comparison = replace(comparison, remarks=(*comparison.remarks, said))
    return replace(table, comparison=comparison)


def _compare(table: Table, published: Published, rows: Sequence[TableRow]) -> Comparison:
    lines = read(published, rows)
    shared = [j for j, c in enumerate(table.columns) if any(answers(lines, c, d) for d in (False, True))]
    columns = tuple(table.columns[j] for j in shared)
    unlike = _unlike(table, columns, lines)
    tested = {x.get("split") == "test" for x in lines if x["column"] == "value" and x["value"]} == {True}
    remarks = [unlike] * bool(unlike) + _remarks(table, published, columns, tested)
    if tested:
        table = on_test(table)
    numbers: dict[str, int] = {}

    def pair(entry: Entry, found: Sequence[Printed], column: Column) -> Pair:
        if not found:
            return Pair(entry)
        line, value = found[0], found[0]["value"]
        reason = next((why for wanted, why in published.reasons if has(line, wanted)), "")
        mark = numbers.setdefault(note, len(numbers) + 1) if (note := note_of(line, column, tested, entry)) else 0
        places = tuple(place_of(x) for x in found if value)
        return Pair(entry, value, line.get("std", ""), mark, reason, places=places)

    blocks = []
    for block in table.blocks:
        compared = []
        for line in block.lines:
            own = lines_of(lines, line, published)
            found = [equal(own, column, line.row, published.files, block.improvement) for column in columns]
            if any(found):
                entries = (line.entries[j] for j in shared)
                compared.append(ComparedLine(line.row.label, tuple(map(pair, entries, found, columns)), line))
        if compared:
            blocks.append(_block(block, columns, compared, not unlike))
    if not blocks:
        remarks.append(NOTHING)
    beside = {place for block in blocks for line in block.lines for p in line.pairs for place in p.places}
    others = []
    for label, signed, found in _others(lines, columns, published, rows, beside):
        entry = Entry("absent", signed=signed)
        pairs = tuple(pair(entry, x, c) for x, c in zip(found, columns, strict=True))
        others.append(ComparedLine(f"{label} (improvement)" if signed else label, pairs))
    if not blocks and not others:  # neither a table nor what would explain its numbers
        return Comparison(published.source, "", (), (), (), (NOTHING,), ())
    remarks += lost(lines, published, beside | {place for x in others for p in x.pairs for place in p.places})
    notes = tuple(numbers)
    counted, unequal = _counted(blocks, columns, notes)
    remarks = [
        *(f"Not equal: {'; '.join(where)}. Reason: {reason}" for reason, where in unequal.items()),
        *remarks,
        *(
            f"{metric.replace('_', ' ').capitalize()}: the printed numbers over that of {row}, computed from the print."
            for metric, row in published.quotients.items()
        ),
        *(why for _, why in published.omitted),
        *published.notes,
    ]
    comparison = Comparison(
        published.source, counted, columns, tuple(blocks), tuple(others), tuple(remarks), notes, not unlike
    )
    return with_verdicts(comparison, table)


def _remarks(table: Table, published: Published, columns: Sequence[Column], tested: bool) -> list[str]:
    """Sentences on what of both is compared. tested: the published numbers are of a test set."""
    remarks = []
    if missing := [c.name for c in table.columns if not c.average and c not in columns]:
        remarks.append(f"No published column: {', '.join(missing)}.")
    if published.init:
        made = any(is_init(line.init, published.init) for _, line in table.all_lines())
        remarks.append(
            f"The published numbers were made with init {published.init}"
            + ("; no other is compared." if made else ", of which this table has no cell.")
        )
    if table.provenance.protocol in OWN:
        ours = f"Ours were chosen {OWN[table.provenance.protocol]} (protocol {table.provenance.protocol})"
        shipped = not any(Path(file).is_absolute() for file in published.files)
        remarks.append(
            f"{ours}, the published ones on dev, as with --set protocol=published."
            if shipped
            else f"{ours}; how the published ones were is not known here."
        )
    if tested:
        some = "; ours too where a note says so, otherwise of dev" if table.submitted else ", ours of dev"
        remarks.append(f"The published scores are of the official test set{some}.")
    return remarks


def _unlike(table: Table, columns: Sequence[Column], lines: Sequence[Printed]) -> str:
    """Why the averages are not alike, as a sentence: tasks differ, or metrics; "" where they are, or where none is."""
    if not any(c.average for c in columns):
        return ""
    own = [c for c in table.columns if c.task and c.selects]
    theirs = tasks_of(lines)
    matched = [labels(c) & set(theirs) for c in own]
    if not all(matched) or set().union(*matched) != set(theirs):
        ours = ", ".join(dict.fromkeys(c.label for c in own)) or "no task"
        return (
            f"The published average is over {', '.join(theirs)}, ours over {ours}: the tasks differ, so on the average "
            f"only the order of the rows is compared."
        )
    other = []
    for column in own:
        found = [x for x in lines if labels(column) & named_tasks(x)]
        printed = dict.fromkeys(m for x in found if (m := x["metric"]) and not m.startswith(DELTA))
        if printed and printed_metric(column, False) not in printed:
            theirs = [OURS.get(metric, metric).replace("_", " ") for metric in printed]
            other.append(f"{column.label} (published {' or '.join(theirs)}, ours {column.metric.replace('_', ' ')})")
    if not other:
        return ""
    return (
        f"The averages are of different metrics on {', '.join(other)}, so on the average only the order of the rows is "
        f"compared."
    )


def _others(
    lines: Sequence[Printed],
    columns: Sequence[Column],
    published: Published,
    rows: Sequence[TableRow],
    beside: Container[Place],
) -> list[tuple[str, bool, list[list[Printed]]]]:
    """The numbers that stand beside no cell, as rows: (label, whether an improvement, the lines of each column).

    What identifies a line are the columns that tell ours apart. Rows of one label share a line where no two of their
    numbers differ; otherwise their labels name what tells them apart.
    """
    telling = [*published.axes, *(name for row in rows if not isinstance(row.published, str) for name in row.published)]
    identity = dict.fromkeys(n for n in (*telling, "section", "split") if n != "row")
    groups: dict[tuple[str, ...], list[Printed]] = {}
    for line in lines:
        groups.setdefault((line["row"], *(line.get(n, "") for n in identity)), []).append(line)
    made: list[tuple[list[tuple[str, ...]], bool, list[list[Printed]]]] = []  # identities that share a row

    def same(a: Sequence[Printed], b: Sequence[Printed]) -> bool:
        return not a or not b or a[0]["value"] == b[0]["value"]

    for (own, group), signed in product(groups.items(), (False, True)):
        left = [
            [x for x in answers(group, column, signed) if x["value"] and place_of(x) not in beside]
            for column in columns
        ]
        while any(left):
            row = [[x for x in found if same([x], found)] for found in left]
            left = [[x for x in found if x not in taken] for found, taken in zip(left, row, strict=True)]
            for known, sign, cells in made:
                if (known[0][0], sign) == (own[0], signed) and all(map(same, cells, row)):
                    known.append(own)
                    for cell, more in zip(cells, row, strict=True):
                        cell += more
                    break
            else:
                made.append(([own], signed, row))
    names = ("row", *identity)
    return [(_told_apart(own, groups, names), signed, row) for own, signed, row in made]


def _told_apart(ours: Sequence[Sequence[str]], all_rows: Iterable[Sequence[str]], names: Sequence[str]) -> str:
    """A row's label, the first of what identifies it, with what tells it apart from other rows of this label."""
    own = ours[0]
    alike = [other for other in all_rows if other[0] == own[0] and other not in ours]
    differ = {name: text for i, name in enumerate(names) if any(x[i] != own[i] for x in alike) and (text := own[i])}
    if len(differ) > 1:
        differ.pop("section", None)  # a heading, which says the rest again
    return f"{own[0]} ({', '.join(differ.values())})" if differ else own[0]


def _block(block: Block, columns: Sequence[Column], lines: Sequence[ComparedLine], alike: bool) -> ComparedBlock:
    """The lines with their differences or ranks, and how far the two orders agree, column by column.

    Only students are ranked and ordered. alike: the averages are of the same tasks and metrics.
    """
    made = [list(line.pairs) for line in lines]
    agreement = []
    for j, column in enumerate(columns):
        both = {}
        for k, pair in enumerate(line[j] for line in made):
            if pair.printed and pair.ours.status == "complete":
                value = scaled(column.metric, pair.ours.value or 0.0)
                both[k] = (round(value, 6), number(pair.printed))  # equal up to rounding: a tie
        students = {k: values for k, values in both.items() if (line := lines[k].line) and line.row.competes}
        tested = {k for k in students if made[k][j].ours.tested}
        if len(tested) < len(students):  # what the test server said is not ordered among scores of dev
            students = {k: values for k, values in students.items() if k not in tested}
        if column.average and not alike:
            for k, own in students.items():
                ranks = tuple(1 + sum(v[side] > own[side] for v in students.values()) for side in (0, 1))
                made[k][j] = replace(made[k][j], ranks=(ranks[0], ranks[1]))
        elif column.metric not in MACHINE:
            for k, (ours, theirs) in both.items():
                made[k][j] = replace(made[k][j], difference=ours - theirs)
        order = rank_correlation([v[0] for v in students.values()], [v[1] for v in students.values()])
        agreement.append(Agreement(*order, len(students)))
    compared = tuple(replace(line, pairs=tuple(pairs)) for line, pairs in zip(lines, made, strict=True))
    return ComparedBlock(block.student, block.init, compared, tuple(agreement), block.improvement)


def _counted(
    blocks: Sequence[ComparedBlock], columns: Sequence[Column], notes: Sequence[str]
) -> tuple[str, dict[str, list[str]]]:
    """How many published counts ours equal; and by their reason, the study's or the CSV's note, which ones do not."""
    equal = total = 0
    unequal: dict[str, dict[str, list[str]]] = {}
    for block in blocks:
        for line in block.lines:
            found: dict[str, list[Column]] = {}
            for pair, column in zip(line.pairs, columns, strict=True):
                if column.metric not in WHOLE or pair.difference is None:
                    continue
                total += 1
                equal += pair.difference == 0
                if pair.difference:
                    reason = pair.reason or (notes[pair.note - 1] if pair.note else "none is known")
                    found.setdefault(reason, []).append(column)
            for reason, where in found.items():
                made = heading(block.student, block.init, block.improvement)
                place = ", ".join(filter(None, (made, _named(where, columns))))
                unequal.setdefault(reason, {}).setdefault(place, []).append(line.label)
    counted = f"{equal} of {total} published numbers are equal" if total else ""
    if unequal:
        counted += "; the others are named below, each with its reason"
    listed = {
        reason: [f"{place}: {'; '.join(labels)}" for place, labels in places.items()]
        for reason, places in unequal.items()
    }
    return counted, listed


def _named(some: Sequence[Column], columns: Sequence[Column]) -> str:
    """Columns in words: those of a metric together where it is all of them."""
    if len(some) == len(columns):
        return "every column"
    names: dict[str, None] = {}
    for column in some:
        whole = all(c in some for c in columns if c.metric == column.metric)
        names[column.metric.replace("_", " ") if whole else column.name] = None
    return ", ".join(names)
