"""Formulas as MathML, which browsers draw themselves: no script, no font and nothing remote."""

import re

from docutils import nodes
from latex2mathml.converter import convert

NAME = re.compile(r"<m[io]>([A-Za-z]{2,})</m[io]>(?!<mo stretchy|<mrow><mo stretchy)")  # of a function, but before (


def mathml(text, display):
    """Names of functions are no operators, with the space of these on both sides, and stand apart from what follows."""
    found = re.sub(r"<mo>([A-Za-z]{2,})</mo>", r"<mi>\1</mi>", convert(" ".join(text.split()), display=display))
    return NAME.sub(r'<mi>\1</mi><mspace width="0.17em" />', found)


def inline(writer, node):
    writer.body.append(mathml(node.astext(), "inline"))
    raise nodes.SkipNode


def block(writer, node):
    writer.body.append(f'<div class="math">{mathml(node.astext(), "block")}</div>\n')
    raise nodes.SkipNode


def setup(app):
    app.add_html_math_renderer("mathml", (inline, None), (block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
