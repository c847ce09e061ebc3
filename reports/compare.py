"""Our numbers beside the published ones. A published number never enters our own table, its best or its ties."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import replace
from importlib.resources import files

from harness.contracts import Published, Study
from harness.errors import UserError, unknown
from reports.model import Agreement, Block, Column, ComparedBlock, ComparedLine, Comparison, Pair, Table
from reports.statistics import rank_correlation

METRICS = {"accuracy": "acc", "matthews": "mcc", "": "mean"}  # ours -> the CSV's name, where the two differ
AVERAGES = ("Avg", "Average", "Score")


def with_published(table: Table, study: Study) -> Table:
    """The table with the study's published numbers beside it.

    Raises UserError where the study names no published table, or one that does not exist or is ambiguous.
    """
    if study.published is None:
        raise UserError(f"study {study.name} answers no published table, so there is nothing to compare with")
    return replace(table, comparison=_compare(table, study.published))


def _compare(table: Table, published: Published) -> Comparison:
    lines = _read(published.file)
    printed_tasks = list(dict.fromkeys(line[published.task_column] for line in lines))
    average = next((a for a in AVERAGES if a in printed_tasks), "")
    shown = {c.label for c in table.columns if c.task}
    theirs = {t for t in printed_tasks if t not in AVERAGES}
    shared = [j for j, c in enumerate(table.columns) if (c.label in theirs if c.task else average)]
    remarks = []
    if shown != theirs and average:
        remarks.append(
            f"The published average is over {_list(printed_tasks, theirs)}, ours over "
            f"{', '.join(c.label for c in table.columns if c.task) or 'no task'}: the tasks differ, so on "
            f"the average only the order of the rows is compared."
        )
    missing = [c.label for c in table.columns if c.task and c.label not in theirs]
    if missing:
        remarks.append(f"No published column: {', '.join(missing)}.")
    blocks = [b for b in table.blocks if b.init == (published.init or b.init)]
    if published.init:
        remarks.append(
            f"The published numbers were made with init {published.init}"
            + ("; no other is compared." if blocks else ", of which this table has no cell.")
        )
    blocks = [b for b in blocks if shared and any(line.row.published for line in b.lines)]
    if not blocks:
        remarks.append("No cell of this table has a published counterpart.")

    numbers: dict[str, int] = {}
    compared = []
    for block in blocks:
        compared.append(
            _block(block, [(j, table.columns[j]) for j in shared], lines, published, average, shown == theirs, numbers)
        )
    return Comparison(
        published.source,
        tuple(table.columns[j] for j in shared),
        tuple(compared),
        (*remarks, *published.notes),
        tuple(numbers),
    )


def _block(
    block: Block,
    columns: Sequence[tuple[int, Column]],
    lines: Sequence[dict[str, str]],
    published: Published,
    average: str,
    same_tasks: bool,
    numbers: dict[str, int],
) -> ComparedBlock:
    rows = [line for line in block.lines if line.row.published]
    made: list[list[Pair]] = [[] for _ in rows]
    agreement = []
    for j, column in columns:
        pairs = []
        for line in rows:
            found = _printed(lines, published, line.row.published, column.label if column.task else average, column)
            note = numbers.setdefault(found["note"], len(numbers) + 1) if found["note"] else 0
            pairs.append(Pair(line.entries[j], found["value"], found["std"], note))
        both = [k for k, p in enumerate(pairs) if p.printed and p.ours.status == "complete"]
        ours = {k: round(100 * (pairs[k].ours.value or 0.0), 6) for k in both}  # equal up to rounding: a tie
        theirs = {k: float(pairs[k].printed) for k in both}
        for k in both:
            if column.task or same_tasks:
                pairs[k] = replace(pairs[k], difference=ours[k] - theirs[k])
            else:
                pairs[k] = replace(pairs[k], ranks=(_rank(ours, k), _rank(theirs, k)))
        agreement.append(Agreement(*rank_correlation(list(ours.values()), list(theirs.values())), len(both)))
        for made_line, pair in zip(made, pairs, strict=True):
            made_line.append(pair)
    return ComparedBlock(
        block.student,
        block.init,
        tuple(ComparedLine(line.row.label, tuple(p)) for line, p in zip(rows, made, strict=True)),
        tuple(agreement),
    )


def _read(file: str) -> list[dict[str, str]]:
    folder = files("reports") / "published"
    names = [p.name for p in folder.iterdir() if p.name.endswith(".csv")]
    if file not in names:
        raise unknown("published table", file, names)
    return list(csv.DictReader((folder / file).read_text(encoding="utf-8").splitlines()))


def _printed(
    lines: Sequence[dict[str, str]], published: Published, row: str, task: str, column: Column
) -> dict[str, str]:
    """The CSV's line for a row and a task: the one with our metric if several are printed; empty if there is none."""
    found = [line for line in lines if (line[published.row_column], line[published.task_column]) == (row, task)]
    if len(found) > 1:
        found = [line for line in found if line["metric"] == METRICS.get(column.metric, column.metric)]
    if len(found) > 1:
        raise UserError(f"published table {published.file} has several numbers for {row} on {task}")
    line = found[0] if found else {"value": "", "std": "", "note": ""}
    metric = line.get("metric", "")
    if column.task and metric and metric != METRICS.get(column.metric, column.metric):
        headed = f"published as {metric}, ours is {column.metric}"
        return {**line, "note": f"{line['note']}; {headed}" if line["note"] else headed}
    return line


def _rank(values: dict[int, float], key: int) -> int:
    return 1 + sum(v > values[key] for v in values.values())


def _list(order: Sequence[str], among: set[str]) -> str:
    return ", ".join(name for name in order if name in among)
