"""The table of a study as plain data: what every writer, figure and comparison reads.

Evidence rules: every value carries its n; an unfinished cell is never best; an average needs every task.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import product
from typing import TYPE_CHECKING, Any

from harness.contracts import CellResult, Study, TableRow, Task
from harness.errors import check_known, unknown
from harness.reports.statistics.summaries import mean_std
from harness.reports.tables.improvement import by_seed, improvements, less_finished
from harness.reports.tables.layout import BEST, NONE
from harness.reports.tables.quantities import RELATIVE, is_score
from harness.reports.tables.ranking import collapsed, left_free, standings, tests, to_reference
from harness.reports.tables.shapes import Block, Column, Entry, Key, Line, Place, Provenance, Table, Tested, parts_of

if TYPE_CHECKING:
    from harness.reports.statistics.influence import Score

SYMBOLS = "†‡§¶‖"
LAYOUTS = ("lines", "matrix")
FAILED = "{} of this cell's runs failed; the value is that of the others"


def build(
    study: Study,
    profile_name: str,
    cells: Sequence[CellResult],
    tasks: Mapping[str, Task],
    provenance: Provenance,
    score: Score,
    against: str = "",
) -> Table:
    """The table of `cells`, in the study's order whatever theirs; what the study does not name follows by name.

    Rows that fix their student, their initialisation or both share a block with the others that do, and one that fixes
    its initialisation alone with the student's other rows where these have only one. Differences of two rows follow in
    a block of their own. score(task, predictions, labels) gives the value of task.metric. Per-example predictions come
    from each run's record["predictions"], a callable returning (ids, predictions, labels), each (N,), or None.
    against: name or label of the row that others are compared with, "best" or "none"; `relative_to` where not given.
    Raises UserError for an unknown layout or row, and where a row improves on, or is shown relative to, one undeclared.
    """
    check_known("layout", study.layout, LAYOUTS)
    rows = {row.name: row for row in (*(c.row for c in cells), *study.rows_of(profile_name))}
    reference = _reference(against, study, rows)
    index = {(*left_free(rows[c.row.name], c.student, c.init), c.row.name, c.task): c for c in cells}
    if len(index) < len(cells):
        raise ValueError(f"study {study.name}: two cells share student, initialisation, row and task")
    names = _order(study.profile(profile_name).tasks, {c.task for c in cells})
    columns = _columns(study, [tasks[name] for name in names], average=len(names) > 1 and bool(provenance.protocol))
    grid = _with_multiples(_grid(study, study.profile(profile_name).inits, names, index, columns), columns, study)
    ranked = {key: entries for key, entries in grid.items() if rows[key[2]].competes}
    at = {key: _column(key, rows[key[2]], grid) for key in grid}
    tested = tests(grid, columns, tasks, score, paired=provenance.drawn_by_seed)
    standing, untested = standings(ranked, columns, tested, at)
    planned = to_reference(reference, ranked, columns, tested, at)
    found = [s["to_best"] for s in standing.values()] if reference == BEST else [*planned.values()]
    mark, marks = _marker(cells)
    reasons, lines = dict[str, int](), dict[tuple[str, str], list[Line]]()
    for key, entries in grid.items():
        told = {j: {**standing.get((key, j), {}), "to_reference": planned.get((key, j))} for j in range(len(columns))}
        lines.setdefault(key[:2], []).append(_line(key, rows[key[2]], mark, _noted(entries, told, reasons), at[key]))
    order = _order((row.name for row in study.rows), set(rows))
    blocks = tuple(Block(*place, tuple(own)) for place, own in _joined(lines, order).items())
    blocks += improvements(study.rows, blocks, columns, mark)
    return Table(
        study=study.name,
        title=study.title,
        question=study.question,
        profile=profile_name,
        columns=tuple(columns),
        teacher=_teacher(columns, provenance, cells) if provenance.protocol and provenance.tuned else (),
        blocks=blocks,
        provenance=provenance if any(found) or against in ("", NONE) else _in_vain(provenance, reference, rows, grid),
        marks=marks,
        reasons=tuple(reasons),
        untested=tuple(dict.fromkeys(untested)),
        figure=study.figure,
        layout=study.layout,
        order=tuple(order),
        against=reference,
        detectable=_detectable(tested, ranked),
        tested=tested,
    )


def _columns(study: Study, tasks: Sequence[Task], average: bool) -> list[Column]:
    """Of every metric of each task, of their average where there is one, and of sizes."""
    shared = Counter(task.label for task in tasks)  # two forms of one data set, or of yours
    columns = []
    for task in tasks:
        label, metrics = task.label + f" ({task.name})" * (shared[task.label] > 1), study.shown(task)
        columns += [Column(task.name, label, m, i == 0, len(metrics) == 1) for i, m in enumerate(metrics)]
    columns += [Column("", "Average", "")] * average
    size = study.metrics.get("", ())
    sizes = (size,) if isinstance(size, str) else size
    return columns + [Column("", "Size", metric, selects=False, alone=len(sizes) == 1) for metric in sizes]


def _grid(
    study: Study,
    inits: Iterable[str],
    tasks: Sequence[str],
    index: Mapping[tuple[str, str, str, str], CellResult],
    columns: Sequence[Column],
) -> dict[Key, tuple[Entry, ...]]:
    """(student, initialisation, row) -> its entries, in the study's order. index: by those and the task."""
    places = {key[:3] for key in index}
    students = _order(("", *study.students), {student for student, _, _ in places})
    inits = _order(("", *inits), {init for _, init, _ in places})
    rows = _order((row.name for row in study.rows), {row for _, _, row in places})
    grid: dict[Key, tuple[Entry, ...]] = {}
    for student, init, row in (place for place in product(students, inits, rows) if place in places):
        own = {t: index[student, init, row, t] for t in tasks if (student, init, row, t) in index}
        first = next(iter(own.values()))  # what is the same for all tasks is that of the first
        entries: list[Entry] = []
        for j, column in enumerate(columns):
            if column.average:
                parts = parts_of(columns, j)
                failed = {run for one in own.values() for run in one.failures}
                metrics = [columns[k].metric for k in parts]
                entries.append(_average([entries[k] for k in parts], metrics, len(failed)))
            else:
                metric = RELATIVE.get(column.metric, (column.metric,))[0]
                entries.append(_entry(own.get(column.task) if column.task else first, metric))
        grid[student, init, row] = tuple(entries)
    return grid


def _marker(cells: Sequence[CellResult]) -> tuple[Callable[[TableRow], str], dict[str, str]]:
    """(the symbol of what a row or its cells are marked with, "" of no mark; sentence -> symbol of those asked for)."""
    marks: dict[str, str] = {}
    said: dict[str, dict[str, None]] = {}
    for made in cells:
        said.setdefault(made.row.name, {}).update({made.mark: None} if made.mark and not made.refused else {})

    def mark(row: TableRow) -> str:
        sentence, n = "; ".join(filter(None, (row.mark, *said.get(row.name, ())))), len(marks)
        symbol = SYMBOLS[n % len(SYMBOLS)] * (1 + n // len(SYMBOLS))  # each once, then doubled, and so on
        return marks.setdefault(sentence, symbol) if sentence else ""

    return mark, marks


def _noted(
    entries: Sequence[Entry], told: Mapping[int, Mapping[str, Any]], reasons: dict[str, int]
) -> tuple[Entry, ...]:
    """Entries with what is told of each, and the number of its reason, which gets the next one where it is new."""
    notes = (reasons.setdefault(e.reason, len(reasons) + 1) if e.reason else 0 for e in entries)
    return tuple(replace(e, note=note, **told[j]) for j, (e, note) in enumerate(zip(entries, notes, strict=True)))


def _line(key: Key, row: TableRow, mark: Callable[[TableRow], str], entries: tuple[Entry, ...], at: Place) -> Line:
    student, init, _ = key
    return Line(row, student or row.student or row.checkpoint, init or row.init, mark(row), entries, at)


def _detectable(tested: Mapping[int, Tested], ranked: Iterable[Key]) -> dict[int, float]:
    """The least difference that each column would find between two rows that compete, where it has two."""
    from harness.reports.statistics.planning import detectable

    competing = {j: [key for key in ranked if key in of.keys] for j, of in tested.items()}
    return {j: detectable(tested[j].among(keys)) for j, keys in competing.items() if len(keys) > 1}


def _reference(asked: str, study: Study, rows: Mapping[str, TableRow]) -> str:
    """The name of the row that others are compared with, "" where the table has none."""
    named = {**{row.label: name for name, row in rows.items()}, **{name: name for name in rows}}
    if asked in (BEST, NONE):
        return asked if asked == BEST else ""
    if asked and asked not in named:
        raise unknown("row to compare with", asked, rows)
    return named.get(asked or study.relative_to, "")


def _in_vain(
    provenance: Provenance, reference: str, rows: Mapping[str, TableRow], grid: Iterable[Key]
) -> Provenance:
    """With what is said where somebody asks for differences and there are none. grid: what the table has."""
    if reference == BEST:
        said = "the best: in no column two that compete are finished and can be tested"
    elif reference not in {key[2] for key in grid}:
        said = f"{rows[reference].label}, which is no row of this table"
    else:
        said = f"{rows[reference].label}: in no column both it and another are finished and can be tested"
    return replace(provenance, notes=(*provenance.notes, f"No row is compared with {said}."))


def _joined(
    lines: Mapping[tuple[str, str], Sequence[Line]], order: Sequence[str]
) -> dict[tuple[str, str], Sequence[Line]]:
    """The lines of each block; what fixes its initialisation stands with its student's others, if they have but one."""
    found = dict(lines)
    for student in {student for student, init in lines if student and not init}:
        free = [place for place in lines if place[0] == student and place[1]]
        if len(free) == 1:
            both = [*lines[student, ""], *lines[free[0]]]
            found[free[0]] = sorted(both, key=lambda line: order.index(line.row.name))
            del found[student, ""]
    return found


def _column(key: tuple[str, str, str], row: TableRow, grid: Iterable[tuple[str, str, str]]) -> Place:
    """The student and initialisation in whose column of a matrix an entry stands.

    What fixes one of them stands in the column of the others that have the same; of one that fixes its initialisation
    alone, and the student has no such column, in the student's only one.
    """
    student, init, _ = key
    own = student or row.student, init or row.init
    columns = {other[:2] for other in grid if all(other[:2])}
    if own in columns:
        return own
    inits = [i for s, i in columns if s == student and student]
    return (student, inits[0]) if len(inits) == 1 and not init else (student, init)


def _with_multiples(
    grid: Mapping[tuple[str, str, str], tuple[Entry, ...]], columns: Sequence[Column], study: Study
) -> dict[tuple[str, str, str], tuple[Entry, ...]]:
    """The entries with those of the metrics in RELATIVE, which hold the quantity itself, divided by the study's row."""
    shown = [j for j, column in enumerate(columns) if column.metric in RELATIVE]
    names = [row.name for row in study.rows]
    if shown and study.relative_to not in names:
        raise unknown(f"row in relative_to of {study.name}", study.relative_to, names)
    unit = next((entries for place, entries in grid.items() if place[2] == study.relative_to), None)
    return {
        place: tuple(
            _multiple(e, unit[j] if unit else Entry("absent"), *RELATIVE[columns[j].metric]) if j in shown else e
            for j, e in enumerate(entries)
        )
        for place, entries in grid.items()
    }


def _multiple(entry: Entry, unit: Entry, metric: str, inverse: bool) -> Entry:
    """The entry as a multiple of the unit, as far as the less finished of the two; of the same seeds, seed by seed."""
    worse = less_finished(entry, unit)
    if not entry.value or not unit.value:
        return replace(worse, value=None, std=None, runs=())
    values = [(entry.value, unit.value)]
    if [run.seed for run in entry.runs] == [run.seed for run in unit.runs]:
        both = zip(entry.runs, unit.runs, strict=True)
        values = [(ours.metrics[metric], theirs.metrics[metric]) for ours, theirs in both]
    value, std = mean_std([b / a if inverse else a / b for a, b in values])
    return replace(entry, status=worse.status, value=value, std=std, n=worse.n, progress=worse.progress)


def _order(first: Iterable[str], present: Iterable[str]) -> list[str]:
    """The names present: those of `first` in its order, then the others by name."""
    first, present = list(first), set(present)
    return [name for name in first if name in present] + sorted(present - set(first))


def _entry(cell: CellResult | None, metric: str) -> Entry:
    if cell is None:
        return Entry("absent")
    if cell.refused:
        return Entry("impossible", reason=cell.refused, cell=cell.cell, wanted=cell.wanted_seeds)
    runs = tuple(sorted(cell.seeds, key=lambda run: run.seed))
    n, wanted, failed = len(runs), cell.wanted_seeds, bool(cell.failures or cell.before)
    if not runs:
        tried = f"{len(cell.trials)}/{cell.wanted_trials} trials" if cell.trials else f"0/{wanted}"
        # No other trial is to come.
        over = cell.before or (failed and len(cell.trials) + len(cell.failures) >= cell.wanted_trials)
        return Entry("failed" if over else "waiting", wanted=wanted, progress=tried, cell=cell.cell)
    if any(metric not in run.metrics for run in runs):
        reason = f"no {metric.replace('_', ' ')} is recorded by its runs"
        return Entry("unrecorded", n=n, wanted=wanted, reason=reason, cell=cell.cell, runs=runs)
    value, std = mean_std([run.metrics[metric] for run in runs])
    progress = reason = ""
    if n < wanted:
        ended = len(cell.trials) + len(cell.failures)
        # Of one search all trials have ended, and what else failed are seeds; of a search for each, all of them may.
        lost = ended >= cell.wanted_trials if cell.searched_by_seed else ended > cell.wanted_trials
        progress = f"{n}/{wanted}, failed" if cell.before or lost else f"{n}/{wanted}"
    elif cell.failures:
        reason = FAILED.format(len(cell.failures))
    elif len(cell.trials) < cell.wanted_trials:
        progress = f"{len(cell.trials)}/{cell.wanted_trials} trials"
    alike = sum(map(collapsed, runs)) if is_score(metric) and not cell.row.baseline else 0
    if alike:
        which = "" if alike == n else f"in {alike} of {n} runs "
        reason += "; " * bool(reason) + f"collapsed, so never best: {which}every dev example gets the same answer"
    made = Entry("partial" if progress else "complete", value, std, n, wanted, progress, reason)
    return replace(made, cell=cell.cell, runs=runs, collapsed=alike)


def _average(entries: Sequence[Entry], metrics: Sequence[str], failed: int) -> Entry:
    """The mean over tasks; its spread is that of the seeds' own averages, paired by place where tasks have as many.

    failed: how many of the runs behind it did, those of one setting of a search among them.
    """
    if not entries or any(e.status != "complete" for e in entries):
        return Entry("absent")
    seeds = by_seed(entries, metrics)
    std = mean_std(list(seeds.values()))[1] if seeds else None
    value = sum(e.value or 0.0 for e in entries) / len(entries)
    made = Entry("complete", value, std, min(e.n for e in entries), max(e.wanted for e in entries))
    alike = sum(bool(e.collapsed) for e in entries)
    said = [FAILED.format(failed)] * bool(failed)
    said += [f"collapsed on {alike} of {len(entries)} tasks, so never best"] * bool(alike)
    return replace(made, collapsed=max(e.collapsed for e in entries), reason="; ".join(said))


def _teacher(columns: Sequence[Column], provenance: Provenance, cells: Iterable[CellResult]) -> tuple[Entry, ...]:
    """The teacher's own scores over its seeds, for tasks of which a cell can exist; no average before each has one."""
    scores, possible = provenance.teacher_scores, {cell.task for cell in cells if not cell.refused}
    entries = []
    for j, column in enumerate(columns):
        if column.task in scores:
            entries.append(_mean([metrics.get(column.metric) for metrics in scores[column.task]]))
        elif column.task in possible:
            entries.append(_unfinished(provenance.teacher_progress.get(column.task, "0/1")))
        elif not column.average:
            entries.append(Entry("absent"))
        else:
            own = [columns[k] for k in parts_of(columns, j)]
            runs = [[run.get(c.metric) for run in scores.get(c.task, ())] for c in own]
            alike = len({len(values) for values in runs}) == 1  # as the seeds of a cell's average, paired
            seeds = zip(*runs, strict=True) if alike else ()
            entries.append(_mean([None if None in s else sum(v or 0.0 for v in s) / len(s) for s in seeds]))
    return tuple(entries)


def _unfinished(progress: str) -> Entry:
    """A teacher that has no score yet: how many of its runs are finished, or "failed"."""
    if progress == "failed":
        return Entry("failed")
    n, wanted = map(int, progress.split("/"))
    return Entry("waiting", n=n, wanted=wanted, progress=progress)


def _mean(values: Sequence[float | None]) -> Entry:
    found = [value for value in values if value is not None]
    if not found or len(found) < len(values):
        return Entry("absent")
    return Entry("complete", *mean_std(found), n=len(found), wanted=len(found))
