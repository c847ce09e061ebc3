"""The page of claims: what is printed, what would decide it, and what our data say. claims.yaml has the claims."""

from __future__ import annotations

import csv
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import numpy as np
from packed import HERE, Results, Told, told
from scipy.special import ndtri

from harness import registry
from harness.reports import Table
from harness.reports.papers.orderings import FEWEST_SEEDS
from harness.reports.papers.printed import AVERAGES, OURS
from harness.reports.statistics import LEVEL, POWER
from harness.reports.statistics.estimation import sums
from harness.reports.statistics.noise import holm
from harness.reports.statistics.planning import DISAGREEMENT, MOST_SEEDS, SEED_SPREAD, Expected, assumed
from harness.reports.statistics.verdicts import apart
from harness.reports.tables import quantities
from harness.reports.tables.quantities import is_score
from harness.reports.tables.ranking import key_of
from harness.reports.tables.shapes import Line

PUBLISHED = HERE.parent.parent / "reports" / "papers" / "published"
# Of the metrics printed for a task, that by which rows are told apart.
METRICS = ("acc", "acc_f1_mean", "mcc", "pearson_spearman_mean", "pearson", "f1", "mean")
# Our dev sets of more examples -> the task that their texts are of.
LARGER = {"sst2_sentences": "SST-2", "cola_sentences": "CoLA", "mrpc_pairs": "MRPC"}
FEWEST_ROWS = 4  # that know how far seeds lie apart
SUPPORTED, CONTRADICTED, UNDECIDED, UNFINISHED = "supported", "contradicted", "undecided", "unfinished"
COLLAPSED = "collapsed"  # a row of it answers every example alike in some run: of the objective that says nothing
NOT_RUN = "not run"
LESS = "less than in print"
SEEN = "seen but not tested"
NEAR = 0.1  # of a factor that is claimed: so much less is measured as it
Known = Mapping[tuple[str, str], Expected]  # (study, task as printed) -> the noise of a difference there


# ---------------------------------------------------------------- what is printed


@cache
def lines_of(file: str) -> list[dict[str, str]]:
    with open(PUBLISHED / file, encoding="utf-8", newline="") as published:
        return list(csv.DictReader(published))


def values(side: Any, file: str) -> dict[str, tuple[str, str]]:
    """task -> (metric, what is printed) for one side of a claim, by the first of METRICS that is."""
    wanted = {"row": side} if isinstance(side, str) else dict(side)
    file = wanted.pop("file", file)
    own = [line for line in lines_of(file) if all(line[key] == value for key, value in wanted.items())]
    found: dict[str, dict[str, str]] = {}
    for line in own:
        if line["value"] and line["metric"] in METRICS:
            if line["metric"] in found.setdefault(line["task"], {}):
                raise ValueError(f"{file} has several lines {wanted} of {line['task']}")
            found[line["task"]][line["metric"]] = line["value"]
    if not found:
        raise ValueError(f"{file} has no score of {wanted}")
    return {task: next((metric, of[metric]) for metric in METRICS if metric in of) for task, of in found.items()}


def differences(claim: Told) -> dict[str, float]:
    """task -> above minus below in print, in points; where the claim has `minus`, minus that difference."""
    above, below = (values(claim[side], claim["file"]) for side in ("above", "below"))
    found = {task: round(float(above[task][1]) - float(below[task][1]), 2) for task in above if task in below}
    if "minus" in claim:
        less = differences({**claim["minus"], "file": claim["file"]})
        found = {task: round(value - less[task], 2) for task, value in found.items() if task in less}
    return {task: value for task, value in found.items() if task in claim.get("tasks", (task,))}


def gains(claim: Told) -> dict[tuple[str, str], float]:
    """(task, metric as we call it) -> how much better in print, in points, whatever it was rounded from; if better."""
    if "printed" in claim or "minus" in claim:
        return {}
    above, below = (values(claim[side], claim["file"]) for side in ("above", "below"))
    published = registry.STUDIES.get(claim["study"]).published
    headed = {task: metric for task, (metric, _) in above.items()}
    metrics = {**headed, **(published.printed_metrics if published else {})}  # which by their values they are
    better = (task for task, value in differences(claim).items() if value > 0)
    return {(task, OURS.get(metrics[task], metrics[task])): apart(above[task][1], below[task][1]) for task in better}


def as_claimed(claim: Told) -> str:
    """On how many of the printed tasks the claim's own table is as claimed; "" where that is not the question."""
    if "printed" in claim or "so" in claim:
        return str(claim.get("so", ""))
    own = [value for task, value in differences(claim).items() if task not in AVERAGES]
    return f"{sum(value > 0 for value in own)} of {len(own)}"


def in_print(claim: Told, examples: Mapping[str, int], known: Known) -> str:
    """What is printed, with what would decide whether it is so."""
    if "printed" in claim:
        return f"{claim['printed']}{'; a measurement decides, not seeds' if claim.get('timing') else ''}"
    said = []
    for task, value in differences(claim).items():
        number = signed(value) if value else "0"
        if value and task in examples:
            number += f" ({size(claim, task, value, examples[task], known)})"
        said.append(f"{'average' if task in AVERAGES else task} {number}")
    return ", ".join(said)


def size(claim: Told, task: str, difference: float, examples: int, known: Known) -> str:
    """What would see a difference of this size, in points: so many seeds, or so many dev examples and as many seeds."""
    expected = known.get((claim["study"], task)) or assumed(examples, 2)
    if "minus" in claim:  # twice as many rows
        expected = Expected(2 * expected.spread, 2 * expected.shared, 2 * expected.rows)
    fraction = abs(difference) / 100
    if seeds := expected.seeds_for(fraction):
        return f"{seeds} seeds"
    least = examples * expected.shared * ((ndtri(1 - LEVEL / 2) + ndtri(POWER)) / fraction) ** 2
    return f"{float(f'{least:.2g}'):,.0f} examples" if least > examples else f"over {MOST_SEEDS} seeds"


def measured(found: Mapping[str, Results]) -> Known:
    """The noise that ledgers know, of rows of one initialisation."""
    known = {}
    for made in found.values():
        if entry := made.told.get("measures"):
            columns = enumerate(made.table.columns)
            j = next(j for j, column in columns if column.label == entry["task"] and column.selects)
            tested = made.table.tested.get(j)
            own = [line for line in free(made.table) if line.init == entry["init"] and countable(line, j, tested)]
            spreads = [line.entries[j].std or 0.0 for line in own]
            if tested and len(own) >= FEWEST_ROWS:
                noise = tested.among(map(key_of, own))
                spread = sum(std**2 for std in spreads) / len(spreads)
                known[entry["study"], entry["task"]] = Expected(spread, noise.shared(), len(own))
    return known


def noise_told(known: Known) -> str:
    said = f"that scores of other seeds have a standard deviation of {100 * SEED_SPREAD:g} point and that two rows "
    said += f"answer {DISAGREEMENT:.0%} of the examples differently (as of accuracies). Where we measured them, it "
    said += "takes ours"
    parts = [
        f"`{study}` on {task}: {100 * noise.spread**0.5:.1f} points over seeds, and a standard error of "
        f"{100 * noise.shared**0.5:.1f} points of a difference by the examples"
        for (study, task), noise in known.items()
    ]
    return f"{said} ({'; '.join(parts)})"


# ---------------------------------------------------------------- what our data say


@dataclass(frozen=True)
class Compared:
    """A comparison of two cells: in words, its verdict or why there is none, and the difference in points.

    less: whether the whole interval is below the difference in print; None where none is for it.
    """

    what: str
    verdict: str
    interval: str = ""
    less: bool | None = None

    def told(self) -> str:
        return f"  * {self.what}: " + ", ".join(filter(None, (self.interval, self.verdict, LESS if self.less else "")))


def free(table: Table) -> list[Line]:
    """The lines of students, without differences of rows."""
    return [line for _, line in table.lines() if line.row.competes]


def countable(line: Line, j: int, tested: Any, collapsed: bool = False) -> bool:
    """Whether a line can be compared. collapsed: it can though runs of it collapsed."""
    entry = line.entries[j]
    whole = entry.status == "complete" and entry.n >= FEWEST_SEEDS and (collapsed or not entry.collapsed)
    return bool(whole and tested and key_of(line) in tested.keys)


def judged(ours: Told, table: Table, printed: Mapping[tuple[str, str], float] | None = None) -> list[Compared]:
    """Every comparison that an entry of `ours` asks for. Those of a task, by all of its metrics, are one family.

    printed: `gains` of the claim.
    """
    if "factors" in ours:
        return [compared for factor in ours["factors"] for compared in _measured(factor, ours, table)]
    scores = [j for j, column in enumerate(table.columns) if column.task and is_score(column.metric)]
    asked = [j for j in scores if table.columns[j].task == ours.get("task", table.columns[j].task)]
    tasks = dict.fromkeys(table.columns[j].task for j in asked)
    families = ([j for j in asked if table.columns[j].task == task] for task in tasks)
    return [compared for family in families for compared in _judged(ours, table, family, printed or {})]


def _judged(
    ours: Told, table: Table, columns: Sequence[int], printed: Mapping[tuple[str, str], float]
) -> Iterator[Compared]:
    # (what is compared, the difference in print, p, how far its interval reaches, value)
    found: list[tuple[str, float | None, float, Any, float]] = []
    for j in columns:
        tested, column = table.tested.get(j), table.columns[j]
        where = column.label if column.alone else f"{column.label}, {column.metric.replace('_', ' ')}"
        for pair in ours["pairs"]:
            sides = [*pair, *ours.get("minus", ())]
            lines = [line_of(side, ours, table, j) for side in sides]
            rows = " − ".join(named(*each) for each in zip(pair, lines, strict=False))
            if "minus" in ours:
                less = " − ".join(named(*each) for each in zip(sides[2:], lines[2:], strict=True))
                rows = f"({rows}) − ({less})"
            if all(line and countable(line, j, tested, "collapsed" in ours) for line in lines):
                places = tested.places(key_of(line) for line in lines if line)
                noise = sums(tested.noise, places[::3], places[1:3]) if "minus" in ours else tested.noise
                if noise is None:
                    raise ValueError(f"{where}: a difference of differences of averages by seed is not tested")
                a, b = np.array([[0], [1]]) if "minus" in ours else np.array(places)[:, None]
                value, reach = (noise.values[a] - noise.values[b]).item(), partial(noise.reach, a=a, b=b)
                gain = printed.get((LARGER.get(column.label, column.label), column.metric))
                found.append((f"{where}: {rows}", gain, noise.p_value(a, b).item(), reach, value))
            elif column.selects:
                whole = all(line and line.entries[j].status == "complete" for line in lines)
                reasons = [reason for line in lines if (reason := why_not(line, j))]
                if whole and not reasons:
                    raise ValueError(f"{table.title} lacks the answers that test {where}: {rows}")
                verdict = COLLAPSED if whole else UNFINISHED
                yield Compared(f"{where}: {rows}", verdict, "; ".join(dict.fromkeys(reasons)))
    corrected = holm(np.array([p for _, _, p, _, _ in found]))
    for (what, gain, _, reach, value), p in zip(found, corrected, strict=True):
        half = reach(LEVEL / 2 / len(found)).item()
        points = [100 * number for number in (value - half, value, value + half)]
        low, middle, high = map(signed, points)
        verdict = (SUPPORTED if value > 0 else CONTRADICTED) if p < LEVEL else UNDECIDED
        if "within" in ours:
            most = ours["within"]
            verdict = SUPPORTED if points[-1] <= most else CONTRADICTED if points[0] > most else UNDECIDED
        less = None if gain is None or verdict == CONTRADICTED else points[-1] < gain
        yield Compared(what, verdict, f"{middle} [{low}, {high}]", less)


def _measured(factor: Told, ours: Told, table: Table) -> Iterator[Compared]:
    """How many times as much a row has of a quantity as another, against how many times are claimed, on each task."""
    for j, column in enumerate(table.columns):
        if column.metric != factor["of"] or column.task != ours.get("task", column.task):
            continue
        more, than = (line_of(factor[side], ours, table, j) for side in ("row", "than"))
        what = f"{column.label}, {column.metric.replace('_', ' ')}: "
        what += f"{named(factor['row'], more)} over {named(factor['than'], than)}"
        values = [line.entries[j].value for line in (more, than) if line]
        if len(values) != 2 or not all(values):
            yield Compared(what, UNFINISHED)
            continue
        times = float(values[0] or 0) / float(values[1] or 1)
        verdict = SUPPORTED if times >= (1 - NEAR) * factor["times"] else CONTRADICTED
        yield Compared(what, verdict, f"{times:,.3g} times, claimed {factor['times']:g}")


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


def why_not(line: Line | None, j: int) -> str:
    """Why a line cannot be compared; "" where it may be."""
    if line is None:
        return "some rows are not finished"
    entry = line.entries[j]
    if entry.status != "complete":
        return f"{line.row.label} {entry.reason or entry.progress or entry.status}"
    return f"{line.row.label} collapsed in {entry.collapsed} of {entry.n} runs" if entry.collapsed else ""


def named(side: Any, line: Line | None) -> str:
    """One side of a comparison in words: "Att-KL", "Hid-Seq (worst of every)"."""
    wanted = {"row": side} if isinstance(side, str) else side
    place = " ".join(wanted[key] for key in ("init", "student") if key in wanted)
    picked = wanted["row"] in ("worst", "best")
    told_place = f"{wanted['row']} of {place}" if picked else place
    label = line.row.label if line else "row"
    return f"{label} ({told_place})" if told_place else label


def signed(points: float) -> str:
    return quantities.difference("", points)


def summed(compared: Sequence[Compared]) -> str:
    """The verdict of several comparisons."""
    counts = Counter(each.verdict for each in compared)
    decided = [verdict for verdict in (SUPPORTED, CONTRADICTED) if counts[verdict]]
    if len(decided) == 2:
        return "mixed"
    if decided:
        return decided[0] if counts[decided[0]] == len(compared) else f"{decided[0]} in part"
    return UNDECIDED if counts[UNDECIDED] else COLLAPSED if set(counts) == {COLLAPSED} else UNFINISHED


# ---------------------------------------------------------------- the page


def page(found: Mapping[str, Results]) -> str:
    """claims.md."""
    file, known = told("claims"), measured(found)
    parts: list[str] = []
    verdicts: Counter[str] = Counter()
    number = 0
    for work in file["works"]:
        rows = ["| | claim | where | so in print | verdict of real data |", "|---:|---|---|---:|---|"]
        blocks = []
        for claim in work["claims"]:
            number += 1
            verdict, block = _claim(claim, file["dev_examples"], found, known)
            verdicts[verdict.partition(" (")[0]] += 1
            heading = f"{number}. {claim['claim']}"
            what = f"[{claim['claim']}](#{slug(heading)})"
            rows.append(f"| {number} | {what} | {place(claim['where'])} | {as_claimed(claim)} | {verdict} |")
            blocks.append(f"### {heading}\n\n{block}")
        parts += [f"## {work['key']}\n\n{work['title']}. {work['about']}", "\n".join(rows), *blocks]
    summary = ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common())
    told_of = {"seeds": MOST_SEEDS, "noise": noise_told(known), "near": f"{NEAR:.0%}"}
    head = file["head"].format(number=number, summary=summary, **told_of)
    return "\n\n".join([head.strip(), *parts]) + "\n"


def _claim(claim: Told, examples: Mapping[str, int], found: Mapping[str, Results], known: Known) -> tuple[str, str]:
    """(the verdict of real data, what stands below the claim's heading)."""
    said = [f"*{place(claim['where'])}; study [{claim['study']}](../catalogue/studies/{claim['study']}.md).*"]
    said.append(f"In print: {in_print(claim, examples, known)}.")
    verdict, real = f"{NOT_RUN} (needs {claim['needs']})" if "needs" in claim else NOT_RUN, []
    for ours in claim.get("ours", ()):
        made = found[ours["results"]]
        compared = judged(ours, made.table, gains(claim))
        whole = summed(compared)
        if made.told["real"]:
            real += compared
            verdict = summed(real)
        elif verdict == NOT_RUN:
            verdict = f"{NOT_RUN} (embedded tasks: {whole})"
        each = "\n".join(one.told() for one in compared)
        by = made.table.provenance
        drawn = {0: "", 1: ", one draw"}.get(by.samples, ", a draw a seed")
        drawn += {0: "", 1: ", one search"}.get(by.searches, ", a search a seed")
        said.append(f"* [{made.told['title']}]({made.told['name']}.md): **{whole}**{drawn}\n{each}")
    known_of = [one.less for one in real if one.less is not None]
    if verdict == UNDECIDED and known_of and all(known_of):
        verdict = f"{verdict} ({LESS})"
    if "seen" in claim:
        verdict = SEEN
        made = found[claim["seen"]]
        said.append(f"* [{made.told['title']}]({made.told['name']}.md): **{SEEN}**")
    if "needs" in claim and real:
        raise ValueError(f"claims.yaml: {claim['claim']!r} has real results, and is said to need {claim['needs']}")
    return verdict, "\n\n".join([*said, *([claim["note"]] if "note" in claim else [])])


def place(where: str) -> str:
    return where[0].upper() + where[1:]


def slug(heading: str) -> str:
    """A heading's place in its page, as GitHub and MyST make it."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
