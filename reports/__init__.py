"""Reports: the table of a study, written for people and for machines, beside the published numbers.

table = build(study, "quick", cells, tasks, provenance, score)
print(render(with_published(table, study), "markdown"))
"""

from __future__ import annotations

from harness.errors import check_known
from harness.reports.additions import ADDITIONS, with_additions
from harness.reports.figures import FIGURES
from harness.reports.figures.drawing import WIDTHS, WRITERS, png
from harness.reports.formats import latex, page, writers
from harness.reports.formats.page import fragment
from harness.reports.formats.writers import rows_as_csv
from harness.reports.papers.compare import with_published
from harness.reports.statistics.summaries import mean_std
from harness.reports.tables.columns import TEACHER, with_columns
from harness.reports.tables.layout import failed_cells
from harness.reports.tables.shapes import Entry, Provenance, Table
from harness.reports.tables.table import LAYOUTS, build
from harness.reports.tables.two_tables import with_other

FORMATS = {
    "terminal": writers.terminal,
    "markdown": writers.markdown,
    "latex": latex.latex,
    "csv": writers.csv,
    "json": writers.json,
    "html": page.html,
}

__all__ = [
    "ADDITIONS",
    "FIGURES",
    "FORMATS",
    "LAYOUTS",
    "TEACHER",
    "WIDTHS",
    "WRITERS",
    "Entry",
    "Provenance",
    "Table",
    "build",
    "failed_cells",
    "fragment",
    "mean_std",
    "png",
    "render",
    "rows_as_csv",
    "with_additions",
    "with_columns",
    "with_other",
    "with_published",
]


def render(table: Table, format: str) -> str:
    """The table in one of FORMATS. The same table gives the same text, except on a terminal, whose width decides.

    Raises UserError for an unknown format, and where an addition has nothing to tell.
    """
    check_known("report format", format, FORMATS)
    return FORMATS[format](table)
