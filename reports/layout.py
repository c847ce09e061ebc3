"""How a table reads, the same in every format: grids of text with captions and notes."""

from __future__ import annotations

import math
from dataclasses import dataclass

from reports.model import Column, ComparedBlock, ComparedLine, Comparison, Entry, Table
from reports.statistics import LEVEL, RESAMPLES


@dataclass(frozen=True)
class Cell:
    """Plain text with its emphasis, the marks that follow it, and a tip for formats that can show one."""

    text: str
    bold: bool = False
    underline: bool = False
    mark: str = ""
    tip: str = ""


@dataclass(frozen=True)
class Group:
    """Lines under a heading ("" without one). Every line starts with its label."""

    heading: str
    lines: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Grid:
    """header: (label, what is shown) for each column after the label's. notes: (mark, sentence), in order."""

    title: str
    caption: str
    header: tuple[tuple[str, str], ...]
    groups: tuple[Group, ...]
    notes: tuple[tuple[str, str], ...]


def grids(table: Table) -> list[Grid]:
    """The table, then the comparison with published numbers if there is one."""
    return [_main(table)] + ([_comparison(table.comparison)] if table.comparison else [])


def points(value: float) -> str:
    """A fraction as it is printed: 0.853 as 85.3."""
    return f"{round(100 * value, 1) + 0.0:.1f}".replace("-", "−")  # + 0.0: no minus before zero


def entry_text(entry: Entry, show_n: bool = False) -> str:
    """What stands in the cell: "85.3 ± 0.4", "85.3 (1/2)", "0/2", "failed", "–", or nothing."""
    if entry.value is None:
        text = {"failed": "failed", "impossible": "–", "undefined": "undefined", "absent": ""}.get(entry.status)
        return entry.progress if text is None else text
    spread = f" ± {100 * entry.std:.1f}" if entry.std is not None else ""
    n = f" (n={entry.n})" if show_n else f" ({entry.progress})" if entry.progress else ""
    return points(entry.value) + spread + n


def _main(table: Table) -> Grid:
    counts = {e.n for e in table.entries() if e.status == "complete"}
    show_n = len(counts) > 1
    groups = (
        [
            Group(
                "",
                (
                    (
                        Cell(f"Teacher: {table.provenance.teacher}"),
                        *(Cell(entry_text(e, e.n > 1)) for e in table.teacher),
                    ),
                ),
            )
        ]
        if table.teacher
        else []
    )
    for block in table.blocks:
        groups.append(
            Group(
                f"{block.student}, init {block.init}",
                tuple(
                    (Cell(line.row.label, mark=line.mark), *(_cell(e, show_n) for e in line.entries))
                    for line in block.lines
                ),
            )
        )
    if not counts:
        seeds = "no cell is finished yet"
    elif show_n:
        seeds = "mean ± sample standard deviation over n seeds, n in each cell"
    else:
        n = max(counts)
        seeds = f"mean ± sample standard deviation over n = {n} seeds" if n > 1 else "one seed (n = 1)"
    caption = f"{table.question} Profile {table.profile}. Dev scores × 100; {seeds}."
    return Grid(f"{table.title} ({table.study})", caption, _header(table.columns), tuple(groups), _notes(table))


def _cell(entry: Entry, show_n: bool) -> Cell:
    shown = show_n and entry.status == "complete"
    return Cell(entry_text(entry, shown), entry.best, entry.tied, str(entry.note or ""), _tip(entry))


def _tip(entry: Entry) -> str:
    parts = [f"cell {entry.cell}"] if entry.cell else []
    if entry.runs:
        parts += [f"{k} = {v}" for k, v in sorted(entry.runs[0].hyperparameters.items())]
        parts += ["seeds " + ", ".join(str(run.seed) for run in entry.runs)]
    return "; ".join(parts + ([entry.reason] if entry.reason else []))


def _header(columns: tuple[Column, ...]) -> tuple[tuple[str, str], ...]:
    return tuple((c.label, c.metric.replace("_", " ")) for c in columns)


def _notes(table: Table) -> tuple[tuple[str, str], ...]:
    made = table.provenance
    selection = {
        "held_out": "on a part held out of the training data (protocol held_out)",
        "published": "on dev itself, as published (protocol published)",
    }[made.protocol]
    entries = list(table.entries())
    failed = [e.cell for e in entries if "failed" in (e.status, *e.progress.split(", "))]
    sentences = [
        f"Hyperparameters and epochs selected {selection}.",
        f"Search budget of every cell: {made.budget}.",
        f"Training of every cell: {made.recipe}.",
    ]
    if any(e.best for e in entries):
        sentences.append(
            f"Bold: best of its column. Underlined: not significantly worse (one-sided paired bootstrap "
            f"over dev examples, {RESAMPLES} resamples, p ≥ {LEVEL})."
        )
    if table.untested:
        sentences.append(f"Not tested, for want of comparable per-example predictions: {', '.join(table.untested)}.")
    unfinished = sum(e.status in ("waiting", "partial") for e in entries)
    if unfinished:
        sentences.append(f"Unfinished cells, shown with their progress: {unfinished}.")
    if failed:
        sentences.append(f"Failed cells (harness show prints the traceback): {', '.join(failed)}.")
    numbered = [(str(i), reason) for i, reason in enumerate(table.reasons, 1)]
    marked = [(symbol, sentence) for sentence, symbol in table.marks.items()]
    return (*marked, *numbered, *(("", _sentence(s)) for s in (*sentences, *made.older_code, *made.notes)))


def _sentence(text: str) -> str:
    return text.rstrip(". ") + "."


def _comparison(comparison: Comparison) -> Grid:
    groups = []
    for block in comparison.blocks:
        pairs = [pair for line in block.lines for pair in line.pairs]
        last = "rank" if all(p.difference is None for p in pairs) and any(p.ranks for p in pairs) else "difference"
        lines = tuple(cells for line in block.lines for cells in _three(line, last))
        groups += [Group(f"{block.student}, init {block.init}", lines), _agreement(block)]
    sentences = (
        "Difference: ours minus published, in points, where our cell is finished; rank: place of the row, "
        "ours and published, where the averages are over different tasks",
        "Order of the rows: rank correlation of ours with the published, where 3 rows or more are finished",
        *comparison.remarks,
    )
    notes = [(str(i), note) for i, note in enumerate(comparison.notes, 1)]
    return Grid(
        "Beside the published numbers",
        f"Published: {_sentence(comparison.source)}",
        (("", ""), *_header(comparison.columns)),
        tuple(groups),
        (*notes, *(("", _sentence(s)) for s in sentences)),
    )


def _three(line: ComparedLine, last: str) -> tuple[tuple[Cell, ...], ...]:
    """Ours, the published number and their difference (or both ranks), one under the other."""
    ours, printed, difference = [], [], []
    for pair in line.pairs:
        ours.append(Cell(entry_text(pair.ours)))
        spread = f" ± {pair.printed_std}" if pair.printed_std else ""
        printed.append(Cell(pair.printed + spread, mark=str(pair.note or "")))
        ranks = "{} : {}".format(*pair.ranks) if pair.ranks else ""
        difference.append(Cell(ranks if pair.difference is None else _signed(pair.difference, 1)))
    return (
        (Cell(line.label), Cell("ours"), *ours),
        (Cell(""), Cell("published"), *printed),
        (Cell(""), Cell(last), *difference),
    )


def _agreement(block: ComparedBlock) -> Group:
    found = block.agreement
    return Group(
        "Order of the rows",
        (
            (Cell("Kendall's tau-b"), Cell(""), *(Cell(_signed(a.tau, 2)) for a in found)),
            (Cell("Spearman's rho"), Cell(""), *(Cell(_signed(a.rho, 2)) for a in found)),
            (Cell("Rows compared"), Cell(""), *(Cell(str(a.n)) for a in found)),
        ),
    )


def _signed(value: float, digits: int) -> str:
    return "–" if math.isnan(value) else f"{round(value, digits) + 0.0:+.{digits}f}".replace("-", "−")
