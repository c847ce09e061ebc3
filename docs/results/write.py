"""The pages of this folder, from the packed ledgers beside them: python docs/results/write.py [NAME=FOLDER ...].

NAME=FOLDER packs a folder of results as NAME.tar.xz first, which pages.yaml has to tell of: records and plans, without
weights, and of runs that count for the table what they answer to dev. Then every page is written anew: a study's from
its ledger, claims.md from claims.yaml and all of them. `make results`.
"""

from __future__ import annotations

import csv
import io
import os
import re
import sys
import tarfile
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import yaml

import harness
from harness import registry, reports
from harness.files import atomic_write
from harness.ledger import Ledger
from harness.planning import filed
from harness.reports.papers.orderings import FEWEST_SEEDS
from harness.reports.statistics.noise import LEVEL
from harness.reports.statistics.planning import DISAGREEMENT, MOST_SEEDS, SEED_SPREAD, Expected, assumed
from harness.reports.tables.quantities import is_score
from harness.reports.tables.shapes import Line, Table

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))
from shown import between, draw  # noqa: E402

PUBLISHED = HERE.parent.parent / "reports" / "papers" / "published"
KEPT = ("ids", "predictions", "labels", "teacher")  # what tests ask of a run's answers
OLDER = "made with another version of"  # of a sentence below a table that tells of this checkout, not of the results
# Of the metrics printed for a task, that by which rows are told apart.
METRICS = ("acc", "acc_f1_mean", "mcc", "pearson_spearman_mean", "pearson", "f1")
SUPPORTED, CONTRADICTED, UNDECIDED = "supported", "contradicted", "undecided"
Told = dict[str, Any]  # of a YAML file


# ---------------------------------------------------------------- ledgers


def pages() -> list[Told]:
    return yaml.safe_load((HERE / "pages.yaml").read_text(encoding="utf-8"))


def packed(name: str) -> Path:
    return HERE / f"{name}.tar.xz"


def pack(name: str, folder: Path) -> None:
    """Write NAME.tar.xz of a folder of results, which is only read: a harness run may be working in it."""
    source = Ledger(folder)
    with tempfile.TemporaryDirectory() as temporary:
        to = Path(temporary) / name
        target = Ledger(to, create=True)
        for run in source.runs():
            if record := source.read(run):
                arrays = source.predictions(run) or {}
                slim = {key: array for key, array in arrays.items() if key in KEPT}
                target.write(run, without(record, "predictions_sha256"), slim or None)
        for path in filed.paths(source.out):
            content = filed.moved(path.read_bytes(), lambda _, text: Path(text).name if os.path.isabs(text) else text)
            atomic_write(to / path.relative_to(source.out), content)
        runs = harness.load_results(to).whole.runs
        counting = {run for run, chosen in zip(runs.run, runs.chosen, strict=True) if chosen is True}
        for run in {*target.runs()} - counting:
            target.write(run, without(target.read(run) or {}, "predictions_sha256"), None)
            (target.folder(run) / "predictions.safetensors").unlink(missing_ok=True)
        atomic_write(packed(name), archive(to))


def without(record: Mapping[str, Any], key: str) -> Told:
    return {name: value for name, value in record.items() if name != key}


def archive(folder: Path) -> bytes:
    """The plans and records of a folder of results as .tar.xz: the same bytes for the same content."""
    whole = io.BytesIO()
    with tarfile.open(fileobj=whole, mode="w:xz", preset=9) as made:
        for path in sorted(folder.rglob("*")):
            parts = path.relative_to(folder).parts
            if path.is_file() and not parts[-1].startswith((".", "ledger.index")) and parts[0] != "cache":
                told = tarfile.TarInfo("/".join((folder.name, *parts)))
                told.size = path.stat().st_size
                with open(path, "rb") as file:
                    made.addfile(told, file)
    return whole.getvalue()


@contextmanager
def opened(name: str) -> Iterator[Path]:
    """The folder of results of a packed ledger, for as long as it is looked at."""
    with tempfile.TemporaryDirectory() as temporary:
        with tarfile.open(packed(name)) as made:
            made.extractall(temporary, filter="data")
        yield Path(temporary) / name


@dataclass(frozen=True)
class Results:
    """A packed ledger: its entry in pages.yaml, its table beside the published numbers, and its records."""

    told: Told
    table: Table
    records: Sequence[Mapping[str, Any]]


def results() -> dict[str, Results]:
    found = {}
    for told in pages():
        with opened(told["name"]) as folder:
            table = harness.load_results(folder).whole
            ledger = Ledger(folder)
            records = [record for run in ledger.runs() if (record := ledger.read(run))]
        study = registry.STUDIES.get(told["study"])
        table = reports.with_published(table, study) if study.published else table
        found[told["name"]] = Results(told, table, records)
    return found


# ---------------------------------------------------------------- a study's page


def page(made: Results) -> str:
    """The page of a packed ledger; its last part is what `harness report` prints."""
    told, name = made.told, made.told["name"]
    compare = " --compare published" if made.table.comparison else ""
    pictures = "\n\n".join(picture(f"{name}-{kind}", title) for kind, (_, title) in figures(made).items())
    return f"""# {told["title"]}

{told["about"].strip()}

<!-- not run: hours of training -->
```sh
{told["command"].strip()}
```

| | |
|---|---|
{facts(made)}

The records are [packed beside this page](index.md#the-packed-ledgers): `{packed(name).name}`.

{pictures}

What follows is printed, from the packed ledger, by

<!-- not run: of the archive as it is unpacked -->
```sh
harness report --study {told["study"]} --profile {told["profile"]}{compare} --format markdown --out {name}
```

{printed(made.table).strip()}
"""


def printed(table: Table) -> str:
    """What `harness report --format markdown` prints, but for what it tells of the code of this checkout."""
    return unversioned(reports.render(table, "markdown"))


def unversioned(report: str) -> str:
    return "\n".join(line for line in report.splitlines() if OLDER not in line)


def facts(made: Results) -> str:
    status = Counter(record["status"] for record in made.records)
    runs = made.table.runs
    wanted = sum(int(cell.wanted_trials + cell.wanted_seeds - 1) for cell in runs.drop_duplicates("cell").itertuples()
                 if not cell.refused)  # fmt: skip
    of_cells = sum(1 for part in runs.part if part in ("trial", "seed"))
    hours = sum(record.get("seconds", 0.0) for record in made.records) / 3600
    lines = {
        "runs of cells": f"{of_cells:,} of {wanted:,}{'' if of_cells == wanted else ', the rest under way'}",
        "runs in all": f"{status['finished']:,} finished, {status['failed']:,} failed; teachers among them",
        "hours of training": f"{hours:.1f}, of one core each",
        "machine": "; ".join(sorted({r["made_on"]["machine"] for r in made.records if "made_on" in r})),
        "made by": "; ".join(sorted({r["made_on"]["harness"] for r in made.records if "made_on" in r})),
    }
    return "\n".join(f"| {what} | {said} |" for what, said in lines.items())


def figures(made: Results) -> dict[str, tuple[str, str]]:
    """The figures of pages.yaml that the table has: kind -> (heading, alternative text)."""
    return {
        kind: (kind, " ".join(words).capitalize())
        for kind, words in made.told["figures"].items()
        if reports.FIGURES[kind].rows(made.table)[0]
    }


def picture(name: str, title: str) -> str:
    return "\n".join(
        f"```{{image}} ../static/{name}-{theme}.svg\n:class: figure only-{theme}\n:alt: {title}; the table has the same.\n```"
        for theme in ("light", "dark")
    )


def overview(found: Mapping[str, Results]) -> str:
    """The table of index.md."""
    lines = []
    for name, made in found.items():
        hours = sum(record.get("seconds", 0.0) for record in made.records) / 3600
        size = packed(name).stat().st_size / 1e6
        lines.append(
            f"| [{made.told['title']}]({name}.md) | {'real' if made.told['real'] else 'embedded'} | "
            f"{len(made.records):,} | {hours:.1f} | [{packed(name).name}]({packed(name).name}), {size:.1f} MB |"
        )
    return "\n".join(["| study | data | runs | hours of a core | ledger |", "|---|---|---:|---:|---|", *lines])


# ---------------------------------------------------------------- what is printed


@cache
def lines_of(file: str) -> list[dict[str, str]]:
    with open(PUBLISHED / file, encoding="utf-8", newline="") as opened_file:
        return list(csv.DictReader(opened_file))


def values(side: Any, file: str) -> dict[str, float]:
    """task -> what is printed for one side of a claim, of the first of METRICS that is printed."""
    wanted = {"row": side} if isinstance(side, str) else dict(side)
    file = wanted.pop("file", file)
    own = [line for line in lines_of(file) if all(line[key] == value for key, value in wanted.items())]
    if not own:
        raise ValueError(f"{file} has no line {wanted}")
    found: dict[str, dict[str, float]] = {}
    for line in own:
        if line["value"] and (line["metric"] in METRICS or line["metric"] == "mean"):
            if line["metric"] in found.setdefault(line["task"], {}):
                raise ValueError(f"{file} has several lines {wanted} of {line['task']}")
            found[line["task"]][line["metric"]] = float(line["value"])
    return {task: next(of[m] for m in (*METRICS, "mean") if m in of) for task, of in found.items() if of}


def differences(claim: Told) -> dict[str, float]:
    """task -> above minus below in print, in points; where the claim has `minus`, minus that difference."""
    above, below = (values(claim[side], claim["file"]) for side in ("above", "below"))
    found = {task: round(above[task] - below[task], 2) for task in above if task in below}
    if "minus" in claim:
        less = differences({**claim["minus"], "file": claim["file"]})
        found = {task: round(value - less[task], 2) for task, value in found.items() if task in less}
    return {task: value for task, value in found.items() if task in claim.get("tasks", (task,))}


def measured(found: Mapping[str, Results]) -> dict[tuple[str, str], Expected]:
    """(study, task as printed) -> the noise of a difference there, where a ledger has it."""
    known = {}
    for made in found.values():
        if told := made.told.get("measures"):
            j = next(j for j, column in enumerate(made.table.columns) if column.label == told["task"] and column.selects)
            tested = made.table.tested.get(j)
            own = [line for line in free(made.table) if line.init == told["init"] and countable(line, j, tested)]
            spreads = [line.entries[j].std for line in own]
            if tested and len(own) > 1 and None not in spreads:
                noise = tested.noise.among([tested.place(key_of(line)) for line in own])
                spread = sum(std**2 for std in spreads) / len(spreads)
                known[told["study"], told["task"]] = Expected(spread, noise.shared(), len(own))
    return known


def size(claim: Told, task: str, difference: float, examples: int, known: Mapping[tuple[str, str], Expected]) -> str:
    """How many seeds would see a difference of this size, in words."""
    expected = known.get((claim["study"], task)) or assumed(examples, 2)
    if "minus" in claim:  # twice as many rows
        expected = Expected(2 * expected.spread, 2 * expected.shared, 2 * expected.rows)
    if not difference:
        return "none"
    number = expected.seeds_for(abs(difference) / 100)
    return f"{number}" if number else "hidden"


# ---------------------------------------------------------------- what our data say


def key_of(line: Line) -> tuple[str, str, str]:
    from harness.reports.tables.ranking import key_of as key

    return key(line)


def free(table: Table) -> list[Line]:
    """The lines of students, without differences of rows."""
    return [line for block in table.blocks if not block.improvement for line in block.lines if line.row.competes]


def countable(line: Line, j: int, tested: Any) -> bool:
    entry = line.entries[j]
    whole = entry.status == "complete" and entry.n >= FEWEST_SEEDS and not entry.collapsed
    return bool(whole and tested and tested.place(key_of(line)) is not None)


@dataclass(frozen=True)
class Compared:
    """A comparison of two cells: in words, the difference with its interval in points, and the verdict or a reason."""

    what: str
    verdict: str
    interval: str = ""


def judged(ours: Told, made: Results) -> list[Compared]:
    """Every comparison that an entry of `ours` asks for. Those of a task are one family."""
    compared = []
    for j, column in enumerate(made.table.columns):
        if not (column.task and column.selects and is_score(column.metric)):
            continue
        if column.task == ours.get("task", column.task):
            compared += _judged(ours, made.table, j)
    return compared


def _judged(ours: Told, table: Table, j: int) -> Iterator[Compared]:
    tested, task = table.tested.get(j), table.columns[j].label
    pairs: list[tuple[str, Line, Line]] = []
    for above, below in ours["pairs"]:
        found = [line_of(side, ours, table, j) for side in (above, below)]
        what = f"{task}: {named(above, found[0], ours)} − {named(below, found[1], ours)}"
        reasons = [why for line in found if (why := unfinished(line, j, tested))]
        if reasons or None in found:
            yield Compared(what, reasons[0] if reasons else "unfinished")
        else:
            pairs.append((what, found[0], found[1]))  # type: ignore[arg-type]
    if not pairs or not tested:
        return
    a, b = ([tested.place(key_of(line)) for line in side] for side in zip(*((x, y) for _, x, y in pairs), strict=True))
    made = tested.noise.compare(a, b)
    for i, (what, _, _) in enumerate(pairs):
        value, low, high = (100 * float(array[i]) for array in (made.value, made.low, made.high))
        decided = made.corrected[i] < LEVEL
        verdict = (SUPPORTED if value > 0 else CONTRADICTED) if decided else UNDECIDED
        yield Compared(what, verdict, f"{signed(value)} [{signed(low)}, {signed(high)}]")


def line_of(side: Any, ours: Told, table: Table, j: int) -> Line | None:
    """The line that one side of a comparison means; None where a worst or best one cannot be known yet."""
    wanted = {key: ours[key] for key in ("student", "init") if key in ours}
    wanted |= {"row": side} if isinstance(side, str) else side
    own = [x for x in free(table) if x.student == wanted.get("student", x.student)]
    own = [x for x in own if x.init == wanted.get("init", x.init)]
    if wanted["row"] in ("worst", "best"):
        own = [line for line in own if line.row.objective != "labels_only"]
        if any(line.entries[j].status != "complete" for line in own):
            return None
        pick = max if wanted["row"] == "best" else min
        return pick(own, key=lambda line: line.entries[j].value or 0.0)
    named_so = [line for line in own if line.row.name == wanted["row"]]
    if len(named_so) != 1:
        raise ValueError(f"{len(named_so)} lines of {table.title} are {wanted}")
    return named_so[0]


def unfinished(line: Line | None, j: int, tested: Any) -> str:
    """Why a line cannot be compared, "" where it can."""
    if line is None or countable(line, j, tested):
        return ""
    entry = line.entries[j]
    if entry.collapsed:
        return f"{line.row.label} collapsed in {entry.collapsed} of {entry.n} runs"
    return entry.reason or f"{line.row.label} {entry.progress or entry.status}"


def named(side: Any, line: Line | None, ours: Told) -> str:
    wanted = {"row": side} if isinstance(side, str) else side
    own = [str(wanted[key]) for key in ("init", "student") if key in wanted]
    label = line.row.label if line else wanted["row"]
    told = {"worst": "worst, ", "best": "best, "}.get(wanted["row"], "") if line else ""
    return f"{label}{f' ({told}{chr(32).join(own)})' if own else ''}"


def signed(points: float) -> str:
    return f"{points:+.1f}".replace("-", "−")


def summed(compared: Sequence[Compared]) -> str:
    """The verdict of several comparisons."""
    counts = Counter(each.verdict for each in compared)
    decided = {verdict for verdict in (SUPPORTED, CONTRADICTED) if counts[verdict]}
    if len(decided) == 2:
        return "mixed"
    if decided:
        (verdict,) = decided
        return verdict if counts[verdict] == len(compared) else f"{verdict} in part"
    return UNDECIDED if counts[UNDECIDED] else "unfinished"


# ---------------------------------------------------------------- the page of claims


def claims() -> Told:
    return yaml.safe_load((HERE / "claims.yaml").read_text(encoding="utf-8"))


def claims_page(found: Mapping[str, Results]) -> str:
    told, known = claims(), measured(found)
    parts, verdicts, number = [], Counter(), 0
    for work in told["works"]:
        rows, blocks = [], []
        for claim in work["claims"]:
            number += 1
            verdict, block = of_claim(number, claim, told["dev_examples"], found, known)
            verdicts[verdict.partition(" (")[0]] += 1
            heading = f"{number}. {claim['claim']}"
            rows.append(f"| {number} | [{claim['claim']}](#{slug(heading)}) | {place(claim['where'])} | {verdict} |")
            blocks.append(f"### {heading}\n\n{block}")
        table = "\n".join(["| | claim | in print | verdict of real data |", "|---:|---|---|---|", *rows])
        parts.append(f"## {work['key']}\n\n{work['title']}. {work['about']}\n\n{table}\n\n" + "\n\n".join(blocks))
    summary = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    return HEAD.format(number=number, summary=summary, seeds=MOST_SEEDS, noise=noise_told(known)) + "\n\n".join(parts) + "\n"


HEAD = """# The claims of the four works

What the four works say with a table or a figure behind it, {number} claims, and what real data that were trained with this
harness say of each: {summary}. The numbers in print are [data of this project](../papers/index.md), ours are of the
[packed ledgers](index.md); `make results` writes this page, so that nothing on it was typed.

* **Supported**, **contradicted**: every comparison that tests the claim differs in its direction, or in the other, by the
  [test over seeds and dev examples](../statistics.md), corrected by Holm's procedure for the comparisons of a claim on a task;
  *in part*: some do, and the others decide nothing. The 95% intervals of these hold at once. **Undecided**: no comparison is
  significant at this size, which is not that there is no difference. A verdict is on our size and teacher, not on theirs.
* **Not run**: no real results yet. What the embedded tasks say is told beside it, and is no verdict on a number in print.
* **Printed differences** are above minus below, in points, a task each, of accuracy where that is printed. In brackets how many
  seeds of both rows would find so large a difference in 80% of studies on the dev set of that task, two rows named beforehand;
  *hidden*: not even {seeds} would, for the dev examples hide it. A different task, or more dev examples, would.
* **Assumed** for that: {noise}. As `harness plan` does, whose function it is.
* A difference against the claim in its own print has a minus.

"""


def noise_told(known: Mapping[tuple[str, str], Expected]) -> str:
    said = f"seeds {100 * SEED_SPREAD:g} point apart (standard deviation), and two rows that answer {DISAGREEMENT:.0%} of the "
    said += "examples differently"
    for (study, task), noise in known.items():
        said += f"; of `{study}` on {task} as measured here, seeds {100 * noise.spread**0.5:.1f} points apart, and for the "
        said += f"examples a standard error of {100 * noise.shared**0.5:.1f} of a difference"
    return said


def of_claim(
    number: int, claim: Told, examples: Mapping[str, int], found: Mapping[str, Results], known: Mapping[Any, Expected]
) -> tuple[str, str]:
    """(the verdict of real data, what stands below the claim's heading)."""
    lines = [f"*{place(claim['where'])}; study [{claim['study']}](../catalogue/studies/{claim['study']}.md).*"]
    lines.append(f"In print: {in_print(claim, examples, known)}.")
    verdict = "not run"
    for ours in claim.get("ours", ()):
        made = found[ours["results"]]
        compared = judged(ours, made)
        said = summed(compared)
        real = made.told["real"]
        if real:
            verdict = said
        elif verdict == "not run":
            verdict = f"not run (embedded tasks: {said})"
        each = "\n".join(f"  * {c.what}: {f'{c.interval}, ' if c.interval else ''}{c.verdict}" for c in compared)
        lines.append(f"* [{made.told['title']}]({made.told['name']}.md): **{said}**\n{each}")
    if claim.get("note"):
        lines.append(claim["note"])
    return verdict, "\n\n".join(lines)


def in_print(claim: Told, examples: Mapping[str, int], known: Mapping[Any, Expected]) -> str:
    if "printed" in claim:
        return f"{claim['printed']}{'; decided by a measurement, not by seeds' if claim.get('timing') else ''}"
    told = []
    for task, value in differences(claim).items():
        number = f"{value:+.1f}".replace("-", "−") if value else "0"
        if task in examples and not claim.get("mixed"):
            number += f" ({size(claim, task, value, examples[task], known)})"
        told.append(f"{task if task in examples else 'average'} {number}")
    return ", ".join(told)


def place(where: str) -> str:
    return where[0].upper() + where[1:]


def slug(heading: str) -> str:
    """A heading's place in its page, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def main(*packs: str) -> None:
    for word in packs:
        name, _, folder = word.partition("=")
        if name not in (told["name"] for told in pages()) or not folder:
            raise SystemExit(f"{word} is not NAME=FOLDER of a NAME in docs/results/pages.yaml")
        pack(name, Path(folder))
    found = results()
    for name, made in found.items():
        for kind in figures(made):
            draw(made.table, f"{name}-{kind}", kind)
        (HERE / f"{name}.md").write_text(page(made), encoding="utf-8")
    (HERE / "claims.md").write_text(claims_page(found), encoding="utf-8")
    between(HERE / "index.md", overview(found), "results")


if __name__ == "__main__":
    main(*sys.argv[1:])
