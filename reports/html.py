"""The table, the comparison and the figures as one HTML page that needs nothing else."""

from __future__ import annotations

from importlib.resources import files

from reports.figures import curves, heatmap
from reports.layout import grids
from reports.model import Table


def html(table: Table) -> str:
    """One self-contained page: every text escaped, figures as SVG inside, readable in light and dark."""
    import jinja2

    page = (files("reports") / "page.html").read_text(encoding="utf-8")
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined
    )
    figures = [
        (title, svg[svg.index(b"<svg") :].decode())
        for title, svg in (
            ("Scores by objective and initialisation", heatmap(table)),
            ("Learning curves", curves(table)),
        )
        if svg
    ]
    return environment.from_string(page).render(title=table.title, grids=grids(table), figures=figures) + "\n"
