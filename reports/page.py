"""The table, the comparison and the figures as one HTML page that needs nothing else; or the table alone."""

from __future__ import annotations

from importlib.resources import files
from typing import Any

from harness.errors import plain
from harness.reports.arranged import grids
from harness.reports.figures import FIGURES
from harness.reports.figures.drawing import svg
from harness.reports.shapes import Table

STYLE = """
.harness h1, .harness h2 { font-size: 1.1em; margin: .6em 0 .3em; }
.harness td, .harness th { text-align: right; }
.harness td.name, .harness tbody th { text-align: left; }
.harness tbody th { font-style: italic; font-weight: normal; }
.harness thead small { display: block; font-weight: normal; }
.harness .notes { list-style: none; margin: .6em 0; padding: 0; font-size: .85em; }
"""
# The rows' names stay where they are while a matrix is scrolled below them.
STICKY = """.matrix { overflow-x: auto; }
.matrix td.name, .matrix thead th:first-child { position: sticky; left: 0; background: Canvas; }
.matrix td.name { white-space: normal; min-width: min(16rem, 36vw); }
.matrix td:not(.name) sup { display: inline-block; width: 0; }"""


def html(table: Table) -> str:
    """One self-contained page: every text escaped, figures as SVG inside, readable in light and dark."""
    drawn = [(kind.title, svg(figure)) for kind in FIGURES.values() if (figure := kind.drawn(table))]
    figures = [(title, text[text.index(b"<svg") :].decode()) for title, text in drawn]
    return _template().render(title=plain(table.title), grids=grids(table), figures=figures, sticky=STICKY) + "\n"


def fragment(table: Table) -> str:
    """The table and its notes as a part of another page, as of a notebook."""
    template = _template()
    made = grids(table)
    context = template.new_context({"grids": made})
    style = STYLE + (STICKY + "\n" if made[0].matrix else "")
    return f'<div class="harness"><style>{style}</style>{"".join(template.blocks["tables"](context))}</div>'


def _template() -> Any:
    import jinja2

    page = (files("harness.reports") / "page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    return environment.from_string(page)
