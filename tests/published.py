"""Where every number of reports/papers/published stands in `--compare published` of all studies, in the paper's size.

python -m tests.published    counts them by file
"""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

os.environ["HF_HUB_OFFLINE"] = "1"

from harness.commands.recorded import table_of
from harness.ledger import Ledger
from harness.planning.plan import resolve
from harness.planning.planned import Plan
from harness.planning.request import Request
from harness.registry import STUDIES
from harness.reports import with_published
from tests.conftest import ROOT

FOLDER = ROOT / "reports" / "papers" / "published"
# The columns that hold what is printed; "printed" and "parameters_printed" hold the same in the paper's own spelling.
COLUMNS = (
    "value", "std", "parameters", "parameters_millions", "parameters_factor", "factor", "examples", "learning_rate",
)  # fmt: skip
Place = tuple[str, str, str]  # file, number of the line, column


def lines(file: str) -> list[dict[str, str]]:
    return list(csv.DictReader((FOLDER / file).read_text(encoding="utf-8").splitlines()))


def printed() -> dict[Place, str]:
    """Every printed number by its place. A size that a file repeats on all lines of a row counts once."""
    found: dict[Place, str] = {}
    for path in sorted(FOLDER.glob("*.csv")):
        rows = set()
        for i, line in enumerate(lines(path.name), 1):
            for column in COLUMNS:
                once = (line["row"], column) if column == "parameters_millions" and line.get("metric") else (i, column)
                if line.get(column) and once not in rows:
                    rows.add(once)
                    found[path.name, str(i), column] = line[column]
    return found


def table(plan: Plan) -> Any:
    """The table of a plan before any run, beside the published numbers."""
    with TemporaryDirectory() as folder:
        return with_published(table_of(plan, Ledger(Path(folder), create=True)), STUDIES.get(plan.study))


def told(made: Any) -> tuple[dict[Place, str], dict[Place, str], set[Place]]:
    """(the numbers beside a cell, those under "Published only", those left out with a reason) of such a table.

    The texts are those that the comparison shows.
    """
    study, comparison = STUDIES.get(made.study), made.comparison
    beside, only = (
        {place: text for line in some for pair in line.pairs for place, text in _shown(pair)}
        for some in ([line for block in comparison.blocks for line in block.lines], comparison.others)
    )
    return beside, only, set(_omitted(study.published, comparison.remarks))


def _shown(pair: Any) -> Iterator[tuple[Place, str]]:
    for file, number, column in pair.places:
        yield (file, number, column), pair.printed
        if column == "value" and pair.printed_std:
            yield (file, number, "std"), pair.printed_std


def _omitted(published: Any, remarks: tuple[str, ...]) -> Iterator[Place]:
    for what, why in published.omitted:
        assert why in remarks, "the reason is not told"
        for file in published.files:
            for i, line in enumerate(lines(file), 1):
                if isinstance(what, str) or all(line.get(name) == value for name, value in what.items()):
                    yield from ((file, str(i), column) for column in COLUMNS if column == what or what != str(what))


def unread() -> dict[str, str]:
    """The files that no study reads, with the reason that the folder's README gives."""
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    return dict(re.findall(r"^\| `(\w+\.csv)` \| (.+) \|$", text, re.MULTILINE))


def studies() -> list[str]:
    return [name for name in STUDIES.names() if STUDIES.get(name).published]


def count(tables: Iterable[Any]) -> dict[str, list[int]]:
    """file -> how many numbers are printed, beside a cell, published only, left out with a reason, missing."""
    beside: dict[Place, str] = {}
    only: dict[Place, str] = {}
    named: set[Place] = set()
    for found in map(told, tables):
        beside |= found[0]
        only |= found[1]
        named |= found[2]
    counts: dict[str, list[int]] = {}
    for place, text in printed().items():
        in_one = [beside.get(place) == text, only.get(place) == text, place in named or place[0] in unread()]
        first = in_one.index(True) if any(in_one) else 3
        found = counts.setdefault(place[0], [0] * 5)
        found[0] += 1
        found[1 + first] += 1
    return counts


if __name__ == "__main__":
    print("printed, beside a cell, published only, left out with a reason, missing")
    for file, numbers in count(table(resolve(Request(name, "paper"), lenient=True)) for name in studies()).items():
        print(*(f"{n:5}" for n in numbers), file)
