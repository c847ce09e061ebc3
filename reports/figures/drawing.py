"""What the figures share: panels, legends, names, and SVG that is the same bytes for the same table."""

from __future__ import annotations

import io
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from harness.errors import plain as shown

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def new_figure(size: tuple[float, float]) -> Figure:
    """An empty figure; size is (width, height) in inches."""
    from matplotlib.figure import Figure

    return Figure(figsize=size, layout="constrained")


def panels(titles: Sequence[str], labels: Sequence[str]) -> tuple[Figure, list[Any]]:
    """A figure with a panel for each title, three side by side, and room for a legend of the labels."""
    down, across = math.ceil(len(titles) / 3), min(len(titles), 3)
    beside = max(2.4, 0.7 + 0.065 * max(map(len, labels)))
    figure = new_figure((3.4 * across + beside, max(2.8 * down, 0.6 + 0.17 * len(labels))))
    drawn = list(figure.subplots(down, across, squeeze=False).flat)
    for panel, title in zip(drawn, titles, strict=False):
        panel.set_title(plain(title), fontsize=10)
    for panel in drawn[len(titles) :]:
        panel.set_visible(False)
    return figure, drawn[: len(titles)]


def legend(figure: Figure, handles: Mapping[str, Any]) -> None:
    """The lines' labels at the right of all panels."""
    names = [plain(label) for label in handles]
    figure.legend(list(handles.values()), names, loc="outside right upper", fontsize=8, frameon=False)


def title(figure: Figure, text: str) -> None:
    """A line above all panels."""
    figure.suptitle(plain(text), x=0.02, ha="left", fontsize=10)


def style(place: int) -> dict[str, Any]:
    """Colour and dashes of the `place`th line: the colours once, then dashed, then dotted."""
    return {"color": f"C{place % 10}", "linestyle": ("-", "--", ":")[place // 10 % 3]}


def told_apart(names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """(label, heading of its block) -> the label, with the heading where other blocks have the same label."""
    among: dict[str, set[str]] = {}
    for label, made in names:
        among.setdefault(label, set()).add(made)
    return {(n, made): f"{n} ({made})" if made and len(among[n]) > 1 else n for n, made in names}


def plain(text: str) -> str:
    """Text that matplotlib neither reads as mathematics nor leaves out of a legend, nor has no glyphs for."""
    text = shown(" ".join(text.split())).replace("$", r"\$")
    return f" {text}" if text.startswith("_") else text


def svg(figure: Figure) -> bytes:
    """The figure as SVG, without a date."""
    import matplotlib

    with matplotlib.rc_context({"svg.hashsalt": "distill-harness", "svg.fonttype": "path"}):
        written = io.BytesIO()
        figure.savefig(written, format="svg", metadata={"Date": None, "Creator": None})
    return written.getvalue()


def png(figure: Figure) -> bytes:
    """The figure as PNG, as a notebook shows it."""
    written = io.BytesIO()
    figure.savefig(written, format="png", dpi=110)
    return written.getvalue()
