"""The table, the comparison and the figures as one HTML page that needs nothing else."""

from __future__ import annotations

from importlib.resources import files

from harness.reports.entropy_heatmap import masked_words
from harness.reports.figures import curves, heatmap, lines
from harness.reports.layout import grids
from harness.reports.shapes import Table

from harness.errors import plain


def html(table: Table) -> str:
    """One self-contained page: every text escaped, figures as SVG inside, readable in light and dark."""
    import jinja2

    page = (files("harness.reports") / "page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    pointed = any(line.row.point for block in table.blocks for line in block.lines)
    scores = (
        ("Scores" + (f" against {table.figure}" if table.figure else ""), lines)
        if pointed
        else ("Scores by objective and initialisation", heatmap)
    )
    others = (("Learning curves", curves), ("Entropy of the prediction when a word is masked", masked_words))
    figures = [(title, svg[svg.index(b"<svg") :].decode()) for title, draw in (scores, *others) if (svg := draw(table))]
    return environment.from_string(page).render(title=plain(table.title), grids=grids(table), figures=figures) + "\n"
