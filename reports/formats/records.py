"""The entries of a table as records: what its CSV and its JSON hold."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harness.reports.tables.layout import entry_text
from harness.reports.tables.matrix import OWN, Matrix, Row
from harness.reports.tables.quantities import number, scaled
from harness.reports.tables.shapes import Beside, Column, Entry, Interval, Pair, Place, Table
from harness.reports.tables.two_tables import apart

RECORD = (
    *("study", "profile", "teacher", "student", "init", "row", "objective", "task", "metric"),
    *("value", "std", "n", "wanted", "status", "progress", "best", "tied", "collapsed"),
    *("reason", "mark", "cell", "test"),
    *("published", "published_std", "difference", "published_source"),
    *("against", "against_difference", "against_low", "against_high", "p", "p_holm"),
    *("best_difference", "best_low", "best_high", "p_best"),
)
# The fields of an entry that its record has as they are.
AS_THEY_ARE = ("n", "wanted", "status", "progress", "best", "tied", "collapsed", "reason", "cell")


def _published(table: Table) -> dict[tuple[str, str, str, Column], Pair]:
    """(student, initialisation, row, column) -> the published number there."""
    return {
        (line.student, line.init, line.row.name, column): pair
        for block in (table.comparison.blocks if table.comparison else ())
        for compared in block.lines
        if (line := compared.line)
        for column, pair in zip(table.comparison.columns, compared.pairs, strict=True)  # type: ignore[union-attr]
    }


def told_metric(column: Column, signed: bool) -> str:
    return "_".join(filter(None, ("delta", column.metric))) if signed else column.metric


def records(table: Table) -> list[dict[str, Any]]:
    """A record for each entry, with the fields of RECORD and its runs."""
    sentences = {symbol: sentence for sentence, symbol in table.marks.items()}
    comparison, printed = table.comparison, _published(table)
    labels = {name: row.label for name, row in table.rows().items()}

    def record(entry: Entry, column: Column, name: str, where: Mapping[str, str]) -> dict[str, Any]:
        pair = printed.get((where["student"], where["init"], name, column))
        return {
            "study": table.study,
            "profile": table.profile,
            "teacher": table.provenance.teacher,
            **where,
            "task": column.about,
            "metric": told_metric(column, entry.signed),
            "value": shown(column.metric, entry.value),
            "std": shown(column.metric, entry.std),
            **{field: getattr(entry, field) for field in AS_THEY_ARE},
            **_beside(pair, column.metric),
            "published_source": comparison.source if comparison and pair and pair.printed else "",
            **_tested(entry, labels.get(table.against, "")),
            "runs": [
                {
                    "run": run.run,
                    "seed": run.seed,
                    "hyperparameters": dict(sorted(run.hyperparameters.items())),
                    "metrics": {k: shown(k, v) for k, v in sorted(run.metrics.items())},
                }
                for run in entry.runs
            ],
        }

    lines = [(table.teacher, "", ("", "", "teacher", "", ""))] if table.teacher else []
    for _, line in table.all_lines():
        where = (line.student, line.init, line.row.label, line.row.objective, sentences.get(line.mark, ""))
        lines.append((line.entries, line.row.name, where))
    names = ("student", "init", "row", "objective", "mark")
    return [
        record(entry, column, name, dict(zip(names, where, strict=True)))
        for entries, name, where in lines
        for entry, column in zip(entries, table.columns, strict=True)
    ]


def matrix_records(table: Table, made: Sequence[Matrix]) -> list[dict[str, Any]]:
    """A record for each row of each matrix, with the mean, the std and what is published of every place.

    What is not finished is its text, as "70.0 (1/2)". The last fields name places: where the row is the best, where it
    is not significantly worse, which of its own is best, and why some are no number or a doubtful one.
    """
    alone = ("", "")
    printed = _published(table)
    places = list(dict.fromkeys(place for matrix in made for place in matrix.places))
    places += [alone] if table.teacher or any(matrix.references for matrix in made) else []
    records = []
    for matrix in made:
        teacher = table.teacher[table.columns.index(matrix.column)] if table.teacher else None
        lines: list[tuple[str, str, dict[Place, Entry], dict[Place, Pair]]] = []
        lines += [("teacher", "", {alone: teacher}, {})] if teacher else []
        lines += [(line.row.label, line.row.objective, {alone: entry}, {}) for line, entry in matrix.references]
        for row in (*matrix.rows, *matrix.improvements):
            found = {place: entry for place, entry in zip(matrix.places, row[1], strict=True) if entry}
            lines.append((row[0].row.label, row[0].row.objective, found, _pairs(row, found, matrix.column, printed)))
        for label, objective, found, pairs in lines:
            metric = told_metric(matrix.column, any(entry.signed for entry in found.values()))
            record = {"study": table.study, "profile": table.profile, "teacher": table.provenance.teacher}
            record |= {"task": matrix.column.about, "metric": metric, "row": label, "objective": objective}
            for place in dict.fromkeys(places):
                told = _told(found.get(place, Entry("absent")), matrix.column.metric)
                told |= _beside(pairs.get(place), matrix.column.metric) if table.comparison else {}
                record |= {" ".join(filter(None, (_name(place), what))): value for what, value in told.items()}
            records.append(record | _said(found))
    return records


def _pairs(row: Row, places: Iterable[Place], column: Column, printed: Mapping[Any, Pair]) -> dict[Place, Pair]:
    """The published numbers beside the places of a row."""
    line = row[0]
    keys = {p: (p[0], line.row.init or p[1]) if any(p) else (line.student, line.init) for p in places}
    found = {place: printed.get((*key, line.row.name, column)) for place, key in keys.items()}
    return {place: pair for place, pair in found.items() if pair}


def _told(entry: Entry, metric: str) -> dict[str, Any]:
    """Its number and spread where it is finished, otherwise what a table shows in its place."""
    if entry.status != "complete":
        return {"": entry_text(entry, metric), "std": None}
    return {"": shown(metric, entry.value), "std": shown(metric, entry.std)}


def _said(found: Mapping[Place, Entry]) -> dict[str, str]:
    flags = {
        "best": [place for place, entry in found.items() if entry.in_place == "best"],
        "tied": [place for place, entry in found.items() if entry.in_place == "tied"],
        "best_of_row": [place for place, entry in found.items() if entry.best_of_row],
    }
    reasons = "; ".join(f"{_name(place)}: {entry.reason}" for place, entry in found.items() if entry.reason)
    return {what: "; ".join(map(_name, places)) for what, places in flags.items()} | {"reasons": reasons}


def _name(place: Place) -> str:
    return " ".join(filter(None, place)) or OWN


def _beside(pair: Pair | None, metric: str) -> dict[str, Any]:
    """The published number as numbers, after ours of the test set where that is what it is compared with."""
    return {
        "test": shown(metric, pair.ours.value) if pair and pair.ours.tested else None,
        "published": number(pair.printed) if pair and pair.printed else None,
        "published_std": number(pair.printed_std) if pair and pair.printed_std else None,
        "difference": round(pair.difference, 6) if pair and pair.difference is not None else None,
    }


def _tested(entry: Entry, against: str) -> dict[str, Any]:
    """Its differences to the reference row and to the best of the others: points, and p-values."""
    told: dict[str, Any] = {"against": against if entry.to_reference else ""}
    for prefix, found, corrected in (("against", entry.to_reference, "p_holm"), ("best", entry.to_best, "p_best")):
        for name, what in (("difference", "value"), ("low", "low"), ("high", "high")):
            told[f"{prefix}_{name}"] = shown("", getattr(found, what)) if found else None
        told |= {"p": _p(found.p if found else None)} if prefix == "against" else {}
        told[corrected] = _p(found.corrected if found else None)
    return told


def beside_records(beside: Beside) -> list[dict[str, Any]]:
    """A record for each number of the table that another has a place for: scores in percent, differences in points.

    gain and what follows: the same of how much better the row is than the reference, where there is one.
    """
    gains = {(line.label, line.student, line.init): line for _, lines in beside.gains for line in lines}
    nothing = Entry("absent"), Entry("absent")
    records = []
    for line in (line for _, lines in beside.blocks for line in lines):
        gain = gains.get((line.label, line.student, line.init))
        for j, column in enumerate(beside.columns):
            ours, theirs = line.entries[j]
            records.append(
                {"student": line.student, "init": line.init, "row": line.label}
                | {"task": column.about, "metric": column.metric, "n": ours.n, "other_n": theirs.n}
                | _apart("", line.entries[j], line.found[j])
                | _apart("gain", *((gain.entries[j], gain.found[j]) if gain else (nothing, None)))
            )
    return records


def _apart(what: str, entries: tuple[Entry, Entry], found: Interval | None) -> dict[str, Any]:
    """Both numbers, their difference and how sure it is. what: a word before each name."""
    told = {what or "value": shown("", entries[0].value), "other": shown("", entries[1].value)}
    told |= {"difference": shown("", found.value if found else apart(*entries))}
    told |= {name: shown("", getattr(found, name, None)) for name in ("low", "high")}
    told |= {"p": _p(found.p if found else None), "p_holm": _p(found.corrected if found else None)}
    return {name if name in ("value", "gain") else "_".join(filter(None, (what, name))): v for name, v in told.items()}


def _p(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.3g}")  # its last digits are the processor's


def shown(metric: str, value: float | None) -> float | None:
    return None if value is None else finite(scaled(metric, value))


def finite(value: float) -> float | None:
    return round(value, 6) if math.isfinite(value) else None
