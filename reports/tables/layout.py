"""How a table reads, the same in every format: grids of text with captions and notes."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from statistics import fmean

from harness.errors import listed
from harness.reports.statistics import LEVEL, POWER
from harness.reports.tables import quantities
from harness.reports.tables.quantities import COUNTED, FROM_NOTHING, is_score, scaled, written
from harness.reports.tables.ranking import commonest, key_of
from harness.reports.tables.shapes import Column, Entry, Interval, Line, Table

CHANCE = 0.05  # Matthews' correlation up to which answers are no better than ones drawn by chance
BEST, NONE = "best", "none"  # in place of a row that others are compared with


@dataclass(frozen=True)
class Cell:
    """Plain text with its emphasis, the marks that follow it, a tip and the id of its cell, for formats with these."""

    text: str
    bold: bool = False
    underline: bool = False
    mark: str = ""
    tip: str = ""
    cell: str = ""


@dataclass(frozen=True)
class Group:
    """Lines under a heading ("" without one). Every line starts with its label."""

    heading: str
    lines: tuple[tuple[Cell, ...], ...]


@dataclass(frozen=True)
class Grid:
    """header: for each column after the labels' its own label and what it shows, in lines. notes: (mark, sentence).

    matrix: of many columns alike, which may stand in several tables and whose labels are names, see `folded`.
    """

    title: str
    caption: str
    header: tuple[tuple[str, ...], ...]
    groups: tuple[Group, ...]
    notes: tuple[tuple[str, str], ...]
    matrix: bool = False

    def folded(self, label: str) -> list[str]:
        """A column's label in lines: a matrix's narrow where words and underscores allow, as its numbers are."""
        lines = textwrap.wrap(label.replace("_", "_ "), 14, break_long_words=False) if self.matrix else []
        return [line.replace("_ ", "_") for line in lines] or [label]


def folded(text: str, width: int) -> list[str]:
    """The text in lines of at most so many characters, broken at spaces and behind signs, elsewhere where it must."""
    lines = [""]
    for part in re.split(r"(?<=[_:+/,;])(?=\w)|(?=\s)", text):
        if lines[-1] and len(lines[-1] + part) > width:
            lines.append("")
        lines[-1] += part if lines[-1] else part.lstrip()
    return [line[i : i + width] for line in lines for i in range(0, max(len(line), 1), width)]


def heading(student: str, init: str, improvement: bool = False) -> str:
    """What the rows of a block have in common: "transformer, init every", "init random", or "" where they fix both."""
    return ", ".join(filter(None, ("Improvement" if improvement else "", student, f"init {init}" if init else "")))


def told_apart(names: Sequence[tuple[str, str]]) -> dict[tuple[str, str], str]:
    """(label, heading of its block) -> the label, with the heading where other blocks have the same label."""
    among: dict[str, set[str]] = {}
    for label, made in names:
        among.setdefault(label, set()).add(made)
    return {(n, made): f"{n} ({made})" if made and len(among[n]) > 1 else n for n, made in names}


def entry_text(entry: Entry, metric: str = "", show_n: bool = False) -> str:
    """What stands in the cell: "85.3 ± 0.4", "+5.5", "47,861,634", "85.3 (1/2)", "0/2", "failed", "–", or nothing."""
    if entry.value is None:
        told = {"failed": "failed", "absent": "", "impossible": "–", "unrecorded": "–"}
        return told.get(entry.status, entry.progress)
    std = None if entry.std is None else scaled(metric, entry.std)
    n = f" (n={entry.n})" if show_n else f" ({entry.progress})" if entry.progress else ""
    write = quantities.difference if entry.signed else written
    return write(metric, scaled(metric, entry.value), std) + n


def counts_of(table: Table) -> set[int]:
    """Over how many seeds its finished cells are; where they differ, every cell says its own."""
    scored = [j for j, column in enumerate(table.columns) if column.task or column.average]
    places = scored or range(len(table.columns))  # of what is counted alone
    entries = (x.entries[j] for _, x in table.lines() if not x.row.baseline for j in places)
    return {e.n for e in entries if e.status == "complete"}


def lines(table: Table) -> Grid:
    """The table as it is: a column for each task and metric, and the teacher above."""
    show_n = len(counts_of(table)) > 1
    groups = []
    if table.teacher:
        scores = zip(table.teacher, table.columns, strict=True)
        label = Cell(f"Teacher: {table.provenance.teacher}")
        groups.append(Group("", ((label, *(Cell(entry_text(e, c.metric, e.n > 1)) for e, c in scores)),)))
    for block in table.blocks:
        made = []
        for line in block.lines:
            entries, shown = zip(line.entries, table.columns, strict=True), show_n and not line.row.baseline
            made.append((Cell(label_of(line, block.init), mark=line.mark), *(cell_of(e, c, shown) for e, c in entries)))
        groups.append(Group(heading(block.student, block.init, block.improvement), tuple(made)))
    caption = f"{table.question} Profile {table.profile}. {units(table, table.columns)}".strip()
    bold = any(e.best for e in table.entries())
    return Grid(f"{table.title} ({table.study})", caption, header_of(table.columns), tuple(groups), notes(table, bold))


def label_of(line: Line, init: str) -> str:
    """A row's label, with its initialisation where that is another than the heading's."""
    return line.row.label + (f" (init {line.init})" if line.row.init and init and line.init != init else "")


def units(table: Table, columns: Sequence[Column]) -> str:
    """What the columns' numbers are and over how many runs, as a sentence; "" where they are plain counts."""
    metrics, counts = {c.metric for c in columns}, counts_of(table)
    shared = _shared(table)
    if not counts:
        own = [e for _, line in table.lines() if not line.row.baseline for e in line.entries]
        ended = any(e.status == "unrecorded" and e.n >= e.wanted for e in own)  # the study's metrics were changed since
        runs = "no run has recorded what the columns show" if ended else "no cell is finished yet"
    elif len(counts) > 1:
        runs = f"mean ± sample standard deviation over n seeds{shared}, n in each cell"
    elif max(counts) > 1:
        runs = f"mean ± sample standard deviation over n = {max(counts)} seeds{shared}"
    else:
        runs = "" if metrics <= COUNTED else "one seed (n = 1)"
    scores = "Dev scores × 100" if not metrics or any(map(is_score, metrics)) else ""
    text = "; ".join(filter(None, (scores, runs)))
    return f"{text[0].upper()}{text[1:]}." if text else ""


def _shared(table: Table) -> str:
    """What the seeds have in common and what each has of its own, as the end of a sentence."""
    own = [what for count, what in draws(table) if count > 1]
    one = [f"draw of {what}" if what == "training examples" else what for count, what in draws(table) if count == 1]
    told = [f"each with its own {listed(own)}"] if own else []
    return "".join(f", {part}" for part in (*told, *(f"one {what}" for what in one)))


def draws(table: Table) -> list[tuple[int, str]]:
    """How many there are, for all seeds, of what else is drawn, and what that is."""
    made = table.provenance
    drawn = [(made.teachers, "teacher"), (made.samples, "training examples"), (made.searches, "search of settings")]
    drawn += [(made.distillations, "distillation on the corpus")]
    return [(n, what) for n, what in drawn if n]


def cell_of(entry: Entry, column: Column, show_n: bool) -> Cell:
    """An entry with its emphasis and marks; show_n: with its number of seeds."""
    of_seeds = (column.task or column.average) and column.metric not in COUNTED
    shown = bool(show_n and entry.status == "complete" and of_seeds)
    text, note = entry_text(entry, column.metric, shown), str(entry.note or "")
    return Cell(text, entry.best, entry.tied, note, _tip(entry), entry.cell)


def _tip(entry: Entry) -> str:
    parts = [f"cell {entry.cell}"] if entry.cell else []
    if entry.runs:
        parts += settings_of(entry)
        parts += ["seeds " + ", ".join(str(run.seed) for run in entry.runs)]
    return "; ".join(parts + ([entry.reason] if entry.reason else []))


def settings_of(entry: Entry) -> list[str]:
    """ "learning_rate = 0.001" for each setting that was chosen; where seeds chose for themselves, of each in order."""
    chosen = [run.hyperparameters for run in entry.runs]

    def told(name: str) -> str:
        values = [settings[name] for settings in chosen]
        if len({*values}) == 1:
            return str(values[0])
        return ", ".join(f"{value:.3g}" if isinstance(value, float) else str(value) for value in values)

    return [f"{name} = {told(name)}" for name in sorted(chosen[0] if chosen else ())]


def header_of(columns: Sequence[Column]) -> tuple[tuple[str, ...], ...]:
    """A grid's header: each column's label, then its metric in lines that are no wider than numbers."""
    return tuple((c.label, *textwrap.wrap(c.metric.replace("_", " "), 13, break_long_words=False)) for c in columns)


def notes(
    table: Table, bold: bool, marks: Sequence[tuple[str, str]] = (), more: Sequence[str] = ()
) -> tuple[tuple[str, str], ...]:
    """(mark, sentence) of all that stands under a table. bold: something is. marks, more: of its layout alone."""
    made = table.provenance
    sentences = []
    if made.protocol:
        selection = {
            "held_out": "on a part held out of the training data (protocol held_out)",
            "published": "on dev itself, as published (protocol published)",
            "nested": "by their mean over folds of the training data, all of which is then trained on (protocol "
            "nested); the teacher has seen every fold",
        }[made.protocol]
        sentences = [
            f"Hyperparameters and epochs selected {selection}.",
            f"Search budget of every cell: {made.budget}.",
            f"Training of every cell: {made.recipe}.",
        ]
    if bold:
        others = not all(row.competes for row in table.rows().values())
        best = f"Bold: best of its column{', teachers and other references aside' if others else ''}."
        sure = (
            f" Underlined: it may be the best too. The truly best is bold or underlined in {1 - LEVEL:.0%} of such "
            f"tables (simultaneous comparisons with the best, over {_over(table)})"
        )
        sentences.append(best + sure * bool(table.tested or not table.untested))
    sentences += _sight(table)
    if subtracted := [line for block, line in table.all_lines() if block.improvement]:
        rows = table.rows()
        named = (f"{x.row.label} is {' minus '.join(rows[name].label for name in x.row.improves)}" for x in subtracted)
        spread = any(e.std is not None for line in subtracted for e in line.entries)
        more_of = "; ± of the differences between the same seeds" if spread else ""
        sentences.append(f"Improvement: {'; '.join(dict.fromkeys(named))}{more_of}")
    if table.untested:
        which = ", ".join(table.untested)
        sentences.append(
            f"Not tested, for want of comparable per-example predictions, so that bold is the highest number and no "
            f"more: {which}."
        )
    sentences += [*_doubtful_teachers(table), *_computed(table)]
    started = [(e, (*key_of(x), e.cell)) for _, x in table.lines() for e in x.entries]  # rows may share a cell
    if unfinished := {place for e, place in started if e.status in ("waiting", "partial")}:
        sentences.append(f"Unfinished cells, shown with their progress: {len(unfinished)}.")
    if failed := failed_cells(table):
        sentences.append(f"Failed cells (harness show prints the traceback): {', '.join(failed)}.")
    numbered = [(str(i), reason) for i, reason in enumerate(table.reasons, 1)]
    marked = [(symbol, sentence) for sentence, symbol in table.marks.items()]
    said = (*sentences, *more, *made.older_code, *made.notes)
    return (*marks, *marked, *numbered, *bare(said))


def failed_cells(table: Table) -> list[str]:
    """The cells that lack runs because some failed, those of which others are finished among them."""
    return list(dict.fromkeys(e.cell for e in table.entries() if "failed" in (e.status, *e.progress.split(", "))))


def _over(table: Table) -> str:
    """What the tests take as drawn by chance."""
    several = any(e.n > 1 for e in table.entries() if e.status == "complete")
    drawn = "seeds and dev examples" if several else "dev examples alone, as one seed tells nothing of others"
    own = [what for count, what in draws(table) if several and count > 1]
    one = [what for count, what in draws(table) if what not in own]
    drawn += f", each seed with its own {listed(own)}" if own else ""
    named = {"teacher": "this teacher" if table.provenance.teachers == 1 else "these teachers"}
    named["search of settings"] = "the settings found"
    named["distillation on the corpus"] = "this distillation on the corpus"
    return drawn + (f", for {listed(named.get(what, f'these {what}') for what in one)} alone" if one else "")


def _doubtful_teachers(table: Table) -> list[str]:
    """Says of which tasks the teacher knows no more than one answer for all: the commonest class of dev, or any."""
    said = []
    for j, (column, teacher) in enumerate(zip(table.columns, table.teacher, strict=False)):
        runs = [run for _, line in table.lines() for run in line.entries[j].runs]
        least: float | None = None
        if column.metric == "accuracy":
            least = next((known for run in runs if (known := commonest(run)) is not None), None)
            what = "the commonest class"
        elif column.metric in FROM_NOTHING and runs:
            least, what = 0.0, "one answer"
        if least is not None and teacher.value is not None and teacher.value <= least:
            ours, other = (written(column.metric, scaled(column.metric, value)) for value in (teacher.value, least))
            said.append(
                f"On {column.label} the teacher, {ours}, is no better than {what} for all, {other}: students learn its "
                "mistakes."
            )
        scores = table.provenance.teacher_scores.get(column.task, ())
        correlated = [one["matthews"] for one in scores if "matthews" in one]
        if least is None and correlated and fmean(correlated) <= CHANCE:
            said.append(
                f"On {column.label} the teacher is no better than chance, with a Matthews' correlation of "
                f"{written('', scaled('', fmean(correlated)))}: students learn its mistakes."
            )
    return said


def _computed(table: Table) -> list[str]:
    """What the runs leave in doubt that a GPU does not repeat, as a sentence, if anything."""
    records = {run.run: run.record for entry in table.entries() for run in entry.runs}.values()
    doubtful = sum("unrepeatable" in record for record in records)
    runs = "1 run uses" if doubtful == 1 else f"{doubtful} runs use"
    said = f"{runs} what a GPU does not compute twice the same; the record's unrepeatable names it."
    return [said] if doubtful else []


def _sight(table: Table) -> list[str]:
    """How small a difference the table could have found, as a sentence, if any."""
    told = []
    for j, found in sorted(table.detectable.items()):
        column, noise = table.columns[j], table.tested[j].noise
        sizes = [f"{noise.count:.3g} seed{'s' * (noise.count > 1)}", f"{noise.size} examples"] if column.task else []
        of = f" ({', '.join(sizes)})" if sizes else ""
        told.append(f"{column.name} {written('', scaled('', found))}{of}")
    found_with = f"that would be found with {POWER:.0%} power, in points: {'; '.join(told)}"
    return [f"The least difference between two rows named beforehand {found_with}"] if told else []


def differences(table: Table) -> Grid | None:
    """By how much each row is better or worse than the reference in its place, or than the best of the others."""
    best = table.against == BEST
    tested = attrgetter("to_best" if best else "to_reference")
    every = [line for _, line in table.all_lines()]
    shown = [j for j in range(len(table.columns)) if any(tested(line.entries[j]) for line in every)]
    if not shown:
        return None
    groups = []
    for block in table.blocks:
        lines = [line for line in block.lines if any(tested(line.entries[j]) for j in shown)]
        cells = (
            (Cell(label_of(line, block.init)), *(interval_of(tested(line.entries[j])) for j in shown)) for line in lines
        )
        groups += [Group(heading(block.student, block.init), tuple(cells))] if lines else []
    if best:
        title = "Differences to the best"
        said = (
            f"Each row minus the best of the others, with intervals that hold together within a column in "
            f"{1 - LEVEL:.0%} of such tables, whichever row is the best (Hsu's comparisons with the best, over "
            f"{_over(table)})",
            "Bold: the interval does not reach above 0, so that the row is not the best",
        )
    else:
        references = [line.row.label for line in every if line.row.name == table.against]
        title = f"Differences to {references[0]}"
        place = " of the same student and initialisation" if len(references) > 1 else ""
        said = (
            f"Each row minus {references[0]}{place}, with {1 - LEVEL:.0%} intervals that hold together within "
            f"a column (Bonferroni), over {_over(table)}",
            f"Bold: p < {LEVEL} after Holm's correction for the rows of its column, which finds a little more than the "
            "intervals",
        )
    return Grid(title, "In points.", header_of([table.columns[j] for j in shown]), tuple(groups), bare(said))


def interval_of(found: Interval | None) -> Cell:
    """A tested difference in points, with its interval; nothing where there is none."""
    if found is None:
        return Cell("")
    value, low, high = (quantities.difference("", scaled("", x)) for x in (found.value, found.low, found.high))
    return Cell(f"{value} [{low}, {high}]", bold=found.corrected < LEVEL)


def bare(sentences: Iterable[str]) -> tuple[tuple[str, str], ...]:
    """Notes of a grid that no mark refers to."""
    return tuple(("", full_stop(sentence)) for sentence in sentences)


def full_stop(text: str) -> str:
    """The sentence with its full stop, whether it has one or not."""
    return text.rstrip(". ") + "."
