"""What the test server said of submitted cells, where published scores are of the test set too."""

from __future__ import annotations

from dataclasses import replace

from harness.reports.tables.improvement import improvements
from harness.reports.tables.shapes import Block, Column, Entry, Line, Table


def on_test(table: Table) -> Table:
    """The table with the test scores of submitted cells in place of those of dev.

    A difference of two rows is of the test set where both are; otherwise both are of dev.
    """

    def scored(entry: Entry, column: Column) -> Entry:
        score = table.submitted.get(entry.cell, {}).get(column.metric)
        return entry if score is None else Entry("complete", score, n=1, wanted=1, cell=entry.cell, tested=True)

    def of_server(line: Line) -> Line:
        return replace(line, entries=tuple(map(scored, line.entries, table.columns)))

    differences = [block for block in table.blocks if block.improvement]
    own = [replace(b, lines=tuple(of_server(x) for x in b.lines)) for b in table.blocks if not b.improvement]
    rows = {line.row.name: line.row for block in differences for line in block.lines}
    made = improvements(tuple(rows.values()), own, table.columns, lambda row: "")
    gains = {(block.student, block.init, line.row.name): line for block in made for line in block.lines}

    def gained(block: Block, line: Line) -> Line:
        both = zip(gains[block.student, block.init, line.row.name].entries, line.entries, strict=True)
        return replace(line, entries=tuple(of_test if of_test.tested else of_dev for of_test, of_dev in both))

    gaining = (replace(b, lines=tuple(gained(b, line) for line in b.lines)) for b in differences)
    return replace(table, blocks=(*own, *gaining))
