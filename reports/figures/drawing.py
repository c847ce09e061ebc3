"""What the figures share: their style, panels, legends and names, and files that are the same bytes for the same table.

A figure is drawn within `styled`: for a screen as wide as it has to be, for paper as wide as its columns. What it is
made of (`new_figure`, `panels`, `legend`, `side_by_side`) sees to that.
"""

from __future__ import annotations

import functools
import io
import math
import textwrap
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from harness.errors import UserError
from harness.errors import plain as shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure

# Okabe and Ito, Color Universal Design (2008), without black and the yellow that white paper swallows.
PALETTE = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")
DASHES = ("-", "--", "-.", ":")  # of other number than colours, so that neighbours differ in both
MARKS = "osD^vP<>X"
WIDTHS = {"one": 3.3, "two": 6.9}  # inches of one and of both columns of paper
SMALLEST, LARGEST = 6.0, 8.0  # points of text on paper
NARROWEST = 0.4  # inches of a panel
LETTERS, LINE = 12.5, 0.17  # of a title: letters an inch, inches a line
INK = "#010203"  # no figure uses this colour; a page shows it as that of its text
_width: ContextVar[float | None] = ContextVar("width", default=None)


@contextmanager
def styled(width: float | None = None, colour: str = "black") -> Iterator[Callable[[Figure], Figure]]:
    """What is drawn within has the figures' colours, and on paper `width` inches; colour: of text and of axes.

    Gives the function that finishes a figure there. INK has no background, for pages that have one of their own.
    """
    import matplotlib
    from cycler import cycler

    background = "none" if colour == INK else "white"
    inked = ("text.color", "axes.edgecolor", "axes.labelcolor", "xtick.color", "ytick.color")
    style: Any = dict.fromkeys(inked, colour) | {
        "axes.prop_cycle": cycler(color=PALETTE),
        "figure.facecolor": background,
        "axes.facecolor": background,
        "savefig.facecolor": "auto",
        "axes.titley": 1.0,  # which would be looked for as often as anything is drawn
        **({"font.size": 7.0, "axes.linewidth": 0.6} if width else {}),
    }
    token = _width.set(width)
    try:
        with matplotlib.rc_context(style):
            yield _finished
    finally:
        _width.reset(token)


def _finished(figure: Figure) -> Figure:
    """On paper no text is larger or smaller than it may be; what is drawn later is in the style of now."""
    from matplotlib import rcParams
    from matplotlib.text import Text

    if on_paper():
        for text in figure.findobj(Text):
            text.set_fontsize(min(max(text.get_fontsize(), SMALLEST), LARGEST))
    for panel in figure.axes:
        panel.xaxis.set_tick_params(which="both", color=rcParams["xtick.color"])  # and makes a tick, as others will be
        panel.yaxis.set_tick_params(which="both", color=rcParams["ytick.color"])
    if not on_paper():  # whoever writes it draws it: once more here would be half of what a page's figures take
        return figure
    with warnings.catch_warnings():  # of a layout that gives up, which `_fits` sees
        warnings.filterwarnings("ignore", message="constrained_layout not applied")
        figure.draw_without_rendering()  # makes the ticks, in the sizes of paper
    if not _fits(figure):
        width, fewer = _width.get(), "--objectives, --students or --inits draw fewer rows"
        hint = fewer if width == WIDTHS["two"] else "--width two leaves more room"
        raise UserError(f"it does not fit into {width} inches: {hint}")
    return figure


def _fits(figure: Figure) -> bool:
    """True where no panel is a sliver and nothing is cut off at the sides."""
    outer, inches = figure.get_tightbbox(), figure.dpi_scale_trans.inverted()
    wide = [
        panel.get_window_extent().transformed(inches).width
        for panel in figure.axes
        if panel.get_visible() and panel.get_label() != "<colorbar>"
    ]
    within = outer.x0 > -0.02 and outer.x1 < figure.get_figwidth() + 0.02
    return within and min(wide, default=1.0) > NARROWEST


def on_paper() -> bool:
    return _width.get() is not None


def ink() -> str:
    """The colour of text and of axes."""
    import matplotlib

    return str(matplotlib.rcParams["text.color"])


def side_by_side(count: int, inches: float, most: int = 3) -> int:
    """How many of `count` panels stand beside each other: at most `most`, on paper as many as are so wide."""
    width = _width.get()
    return max(1, min(count, most if width is None else int(width / inches)))


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure; size is (width, height) in inches on a screen. On paper its width is that of the paper."""
    from matplotlib.figure import Figure

    width = _width.get()
    return Figure(figsize=size if width is None else (width, max(1.4, 0.7 * size[1])), layout="constrained")


def panels(titles: Sequence[str], labels: Sequence[str]) -> tuple[Figure, list[Any]]:
    """A figure with a panel for each title, three side by side, and room for a legend of the labels."""
    across = side_by_side(len(titles), 1.6)
    down = math.ceil(len(titles) / across)
    if on_paper():
        figure = new_figure((0, 2.4 * down + 0.25 * math.ceil(len(labels) / _legend_columns(labels))))
    else:
        beside = max(2.4, 0.7 + 0.065 * max(map(len, labels)))
        figure = new_figure((3.4 * across + beside, max(2.8 * down, 0.6 + 0.17 * len(labels))))
    drawn = spread(figure, len(titles), across)
    for panel, title in zip(drawn, titles, strict=True):
        panel.set_title(plain(title), fontsize=10)
    return figure, drawn


def spread(figure: Figure, count: int, across: int) -> list[Any]:
    """So many panels in a figure, `across` beside each other."""
    drawn = list(figure.subplots(math.ceil(count / across), across, squeeze=False).flat)
    for panel in drawn[count:]:
        panel.set_visible(False)
    return drawn[:count]


def legend(figure: Figure, handles: Mapping[str, Any]) -> None:
    """The lines' labels at the right of all panels; on paper below them."""
    names = [plain(label) for label in handles]
    where: dict[str, Any] = {"loc": "outside right upper", "fontsize": 8}
    if on_paper():
        where = {"loc": "outside lower center", "fontsize": SMALLEST, "ncols": _legend_columns(names)}
    figure.legend(list(handles.values()), names, frameon=False, **where)


def _legend_columns(labels: Sequence[str]) -> int:
    """How many columns of these labels a sheet of paper is wide."""
    return max(1, int((_width.get() or 0.0) / (0.6 + 0.055 * max(map(len, labels)))))


def title(figure: Figure, text: str) -> None:
    """Lines above all panels, broken where the figure ends; it grows by those that this adds."""
    lines = [plain(line) for line in text.split("\n")]
    width, height = figure.get_size_inches()
    broken = [part for line in lines for part in textwrap.wrap(line, max(int(width * LETTERS), 20))]
    figure.set_size_inches(width, height + (len(broken) - len(lines)) * LINE)
    figure.suptitle("\n".join(broken), x=0.02, ha="left", fontsize=10)


def style(place: int) -> dict[str, Any]:
    """Colour and dashes of the `place`th line; twelve of them differ in one or the other."""
    return {"color": PALETTE[place % len(PALETTE)], "linestyle": DASHES[place % len(DASHES)]}


def marker(place: int) -> str:
    """The mark of the `place`th line's points."""
    return MARKS[place % len(MARKS)]


def plain(text: str) -> str:
    """Text that matplotlib neither reads as mathematics nor leaves out of a legend, nor has no glyphs for."""
    text = shown(" ".join(text.split())).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def svg(figure: Figure) -> bytes:
    """The figure as SVG, without a date; text as outlines, which need no font."""
    from matplotlib.backends.backend_svg import FigureCanvasSVG

    # `savefig` draws once more for the layout, which this finds as it draws: a third of what a page's figures take.
    dpi = figure.dpi  # which this leaves as that of SVG, and by which images within are as fine
    made = _written(FigureCanvasSVG(figure).print_svg, metadata={"Date": None, "Creator": None})
    figure.dpi = dpi
    return made


def pdf(figure: Figure) -> bytes:
    """The figure as PDF, without a date; fonts embedded as TrueType (type 42), which publishers ask for."""
    return _written(figure.savefig, format="pdf", metadata=dict.fromkeys(("Creator", "Producer", "CreationDate")))


def png(figure: Figure, dpi: int = 110) -> bytes:
    """The figure as PNG, as a notebook shows it."""
    return _written(figure.savefig, format="png", dpi=dpi, metadata={"Software": None})


def _written(write: Callable[..., Any], **how: Any) -> bytes:
    import matplotlib

    fonts: Any = {"svg.hashsalt": "distill-harness", "svg.fonttype": "path", "pdf.fonttype": 42}
    with matplotlib.rc_context(fonts):
        written = io.BytesIO()
        write(written, **how)
    return written.getvalue()


WRITERS: Mapping[str, Callable[[Figure], bytes]] = {"svg": svg, "pdf": pdf, "png": functools.partial(png, dpi=300)}
