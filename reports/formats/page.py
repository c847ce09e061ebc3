"""The table, the comparison and the figures as one HTML page that needs nothing else; or the table alone."""

from __future__ import annotations

import functools
import json
import re
from html import escape
from importlib.resources import files
from typing import Any

from harness.errors import plain
from harness.reports.figures import FIGURES, Kind
from harness.reports.figures.drawing import INK, svg
from harness.reports.formats import evidence
from harness.reports.formats.arranged import grids
from harness.reports.tables.layout import Grid
from harness.reports.tables.shapes import Table

# What was measured stands between these, because pages of the same results made twice differ in nothing else.
MEASURED = ("<!-- measured -->", "<!-- end of measured -->")
MOST = 8_000, 700_000  # points that a figure may have to be on a page, and bytes
LEAST = 2 / 3  # of its width: a figure is shown no narrower on a phone, where a wide one scrolls
STYLE = """
.harness h1, .harness h2 { font-size: 1.1em; margin: .6em 0 .3em; }
.harness caption { text-align: left; caption-side: top; padding-bottom: .5em; }
.harness td, .harness th { text-align: right; }
.harness .name { text-align: left; font-weight: normal; }
.harness tbody th[colspan] { text-align: left; font-style: italic; font-weight: normal; }
.harness thead small { display: block; font-weight: normal; }
.harness .notes { list-style: none; margin: .6em 0; padding: 0; font-size: .85em; }
"""
# The rows' names stay where they are while a matrix is scrolled below them.
STICKY = """.matrix { overflow-x: auto; }
.matrix .name, .matrix thead th:first-child { position: sticky; left: 0; background: Canvas; }
.matrix .name { white-space: normal; min-width: min(16rem, 36vw); }
.matrix td:not(.name) sup { display: inline-block; width: 0; }"""


def html(table: Table) -> str:
    """One self-contained page: every text escaped, figures as SVG inside, readable in light and dark, and on paper.

    All but what stands between MEASURED follows from the table alone.
    """
    behind = evidence.cells(table)
    shown = grids(table)
    costs = Grid(
        "What each row cost",
        "Seconds and memory of the runs in its cells, those of the search among them.",
        (("Runs",), ("Median run", "seconds"), ("All runs", "seconds"), ("Peak memory", "MiB")),
        (evidence.costs(table),),
        (),
    )
    template = _environment().get_template("page.html")
    return (
        template.render(
            title=plain(table.title),
            table=table,
            sections=[(f"table-{i}", _heading(table, grid), grid) for i, grid in enumerate(shown, 1)],
            figures=[(n, kind, *found) for n, kind in FIGURES.items() if any(found := _figure(table, n, kind))],
            made=evidence.made(table),
            costs=costs,
            evidence=behind["cells"],
            json=_json(behind),
            measured=_json(evidence.measured(table)),
            begin=MEASURED[0],
            end=MEASURED[1],
            style=_file("page.css"),
            script=_file("page.js"),
        )
        + "\n"
    )


def fragment(table: Table) -> str:
    """The table and its notes as a part of another page, as of a notebook."""
    template, made = _environment().get_template("grid.html"), grids(table)
    style = STYLE + (STICKY + "\n" if made[0].matrix else "")
    tables = "".join(
        f"<h{1 + (i > 0)}>{escape(grid.title)}</h{1 + (i > 0)}>{template.render(grid=grid, labelled='', evidence={})}"
        for i, grid in enumerate(made)
    )
    return f'<div class="harness"><style>{style}</style>{tables}</div>'


def _heading(table: Table, grid: Grid) -> str:
    """The grid's title without that of the page."""
    title, study = plain(table.title), plain(table.study)
    if grid.title == f"{title} ({study})":
        return "Table"
    return grid.title.removeprefix(f"{title} ({study}): ").removeprefix(f"{study}: ")


def _figure(table: Table, name: str, kind: Kind) -> tuple[str, str]:
    """The figure as SVG in the colour of the page's text, with what is said to those who do not see it.

    Or, of one that would make the page slow to write or to open, a sentence on where it is; ("", "") of none.
    """
    elsewhere = f"This figure is too large for a page: harness figures {name} --study {table.study} writes it."
    if len(kind.rows(table)[0]) > MOST[0]:
        return "", elsewhere
    figure = kind.drawn(table, colour=INK)
    if figure is None:
        return "", ""
    text = _smaller(svg(figure).decode().replace(INK, "currentColor"), name)
    wide = float(re.search(r'width="([\d.]+)pt"', text)[1])  # type: ignore[index]
    said = f'role="img" aria-label="{escape(kind.alternative)}" style="--least: {LEAST * wide:.0f}pt"'
    return (text.replace("<svg ", f"<svg {said} ", 1), "") if len(text) <= MOST[1] else ("", elsewhere)


def _smaller(text: str, name: str) -> str:
    """What a page needs of an SVG file, in a third of its size: points to 1/100, each style once.

    name: begins the names of its parts and styles, for figures of one page must not refer to each other's.
    """
    text = re.sub(r"<metadata>.*?</metadata>|<!--.*?-->", "", text[text.index("<svg") :], flags=re.DOTALL)
    text = re.sub(r"\s*\n\s*", "\n", text).replace("xlink:href", "href")
    text = re.sub(r'(?<= [dxy]=")[^"]*', lambda found: re.sub(r"(\.\d\d)\d+", r"\1", found[0]), text)
    text = re.sub(r'(\bid="|\bhref="#|url\(#)', rf"\g<1>{name}-", text)
    styles: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        return f'class="{styles.setdefault(found[1], f"{name}-{len(styles)}")}"'

    text = re.sub(r'style="([^"]*)"', named, text)
    rules = "".join(f".{rule}{{{style}}}" for style, rule in styles.items())
    return re.sub(r'<style type="text/css">', lambda found: found[0] + rules, text, count=1)


def _json(content: Any) -> str:
    """JSON that no HTML can be in, and that is read by a script."""
    text = json.dumps(content, ensure_ascii=True, separators=(",", ":"), allow_nan=False, default=str)
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _file(name: str) -> str:
    return (files("harness.reports.formats") / name).read_text(encoding="utf-8")


@functools.cache  # with the templates that it has compiled
def _environment() -> Any:
    import jinja2

    return jinja2.Environment(
        loader=jinja2.FunctionLoader(_file),
        autoescape=True,
        trim_blocks=True,
        lstrip_blocks=True,
        undefined=jinja2.StrictUndefined,
    )
