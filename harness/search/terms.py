"""What the runs of a table tell of the terms of their losses: where one is next to nothing beside another, or begins
where there is next to nothing to learn."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean

from harness.errors import counted
from harness.runs.told import Record, Term
from harness.search.progress import Progress

TIMES = 100  # a term that is so many times another is told
LEAST = 1e-4  # of its mean over the first epoch: a term that begins below has nowhere to go but up

Points = Sequence[dict[str, Term]]  # of the curves of a cell's runs, those of one sum


@dataclass(frozen=True)
class Pair:
    """Two terms of a sum, by mean value or by share of the gradient's norm: whichever sets them further apart."""

    large: str
    small: str
    times: float
    values: tuple[float, float]
    shares: tuple[float, float] | None


def unequal(replays: Sequence[Progress]) -> tuple[str, ...]:
    """Sentences on sums of objectives of which one term is TIMES another, in value or in share of the gradient's norm.

    Means over the epochs of all runs of a cell's chosen setting. One sentence a sum, with the figures of its worst
    cell.
    """
    pairs: dict[str, list[Pair]] = defaultdict(list)
    for replay in replays:
        sums: dict[tuple[str, ...], Points] = {}
        for run in replay.seeds:
            for terms in _sums(run.record):
                sums[tuple(terms)] = [*sums.get(tuple(terms), ()), terms]
        for points in sums.values():
            pairs[getattr(replay.seeds[0].made, "objective", "")].append(_furthest(points))
    return tuple(
        _sentence(name, found) for name, found in sorted(pairs.items()) if max(p.times for p in found) >= TIMES
    )


def at_their_least(replays: Sequence[Progress]) -> tuple[str, ...]:
    """Sentences on terms that begin below LEAST of their mean up to the first point of their stage's curve.

    One sentence an initialisation, over the runs of every cell's chosen setting.
    """
    cells: dict[str, int] = defaultdict(int)
    begun: dict[str, list[tuple[str, Term]]] = defaultdict(list)
    for replay in replays:
        if found := [own for run in replay.seeds for own in _least(run.record)]:
            init = getattr(replay.seeds[0].made, "init", "")
            cells[init] += 1
            begun[init] += found
    return tuple(_begins(init, cells[init], begun[init]) for init in sorted(begun))


def _least(record: Record) -> Iterable[tuple[str, Term]]:
    """The terms of a run that begin at their least, of every stage."""
    stage = ""
    for entry in record.get("curve", ()):
        terms = entry.get("terms", {}) if entry["stage"] != stage else {}
        stage = entry["stage"]
        yield from ((name, t) for name, t in terms.items() if abs(t.get("first", t["value"])) < LEAST * abs(t["value"]))


def _begins(init: str, cells: int, begun: Sequence[tuple[str, Term]]) -> str:
    first, means = max(abs(term["first"]) for _, term in begun), [abs(term["value"]) for _, term in begun]
    names = ", ".join(sorted({name for name, _ in begun}))
    return (
        f"In {counted(cells, 'cell')} of init {init} a loss begins where there is next to nothing to learn, as "
        f"of a copy of what it is compared with ({names}: {first:.1g} or less on the first batch, "
        f"{min(means):.1g} to {max(means):.1g} as the mean up to the curve's first point): what is learnt "
        "there follows rounding, and differs from one kind of machine to another."
    )


def _sums(record: Record) -> Iterable[dict[str, Term]]:
    """The terms of every sum of several at every point of a run's curve; of a joint run each task has a sum."""
    for entry in record.get("curve", ()):
        by_task: dict[str, dict[str, Term]] = defaultdict(dict)
        for name, term in entry.get("terms", {}).items():
            own, _, task = name.partition(" of ")
            by_task[task][own] = term
        yield from (terms for terms in by_task.values() if len(terms) > 1)


def _furthest(points: Points) -> Pair:
    names = list(points[0])
    values = {name: fmean(abs(point[name]["value"]) for point in points) for name in names}
    shared = {name: [share for point in points if (share := point[name]["share"]) is not None] for name in names}
    shares = {name: fmean(each) for name, each in shared.items()} if all(shared.values()) else {}
    found = []
    for means in (values, shares):
        if means:
            large, small = max(means, key=means.__getitem__), min(means, key=means.__getitem__)
            times = means[large] / means[small] if means[small] else float("inf") if means[large] else 1.0
            of_shares = (shares[large], shares[small]) if shares else None
            found.append(Pair(large, small, times, (values[large], values[small]), of_shares))
    return max(found, key=lambda pair: pair.times)


def _sentence(name: str, found: Sequence[Pair]) -> str:
    worst, number = max(found, key=lambda pair: pair.times), sum(pair.times >= TIMES for pair in found)
    figures = "a mean value of {:.3g} against {:.3g}".format(*worst.values)
    if worst.shares:
        figures += ", {:.3g}% of the gradient's norm against {:.3g}%".format(*(100 * share for share in worst.shares))
    return (
        f"In {number} of {len(found)} cells of {name} one term is {TIMES} times another or more: {worst.large} beside "
        f"{worst.small} has {figures}; a weight, as in 0.1*{worst.large}, is part of an objective's name."
    )
