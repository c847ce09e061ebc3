"""How small a difference a study will be able to see, and how many seeds others take: for `harness plan`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from harness.commands.recorded import table_of, tasks_of
from harness.contracts import Task
from harness.data import loading
from harness.errors import UserError, counted
from harness.ledger import Ledger
from harness.planning.planned import Plan
from harness.planning.recipe import protocol
from harness.reports.statistics import POWER
from harness.reports.statistics.planning import DISAGREEMENT, MOST_SEEDS, SEED_SPREAD, Expected, assumed
from harness.search.progress import Progress
from harness.search.results import drawn_by_seed

POINTS = (1, 2, 5)


def sight(plan: Plan, replays: Sequence[Progress], ledger: Ledger | None) -> list[str]:
    """A sentence on what is assumed, then one for each task; none of plans that train nothing."""
    cells = [cell for cell in plan.cells if not cell.refused]
    if not cells or not protocol(plan):
        return []
    measured = dict(_measured(plan, ledger)) if ledger and any(found.seeds for found in replays) else {}
    paired, lines = drawn_by_seed(plan), []
    for name, task in tasks_of(plan).items():
        own = [cell for cell in cells if cell.task == name]
        seeds, examples = max((cell.seeds for cell in own), default=0), _examples(task, plan)
        if not seeds or not examples:
            continue
        expected = measured.get(name) or assumed(examples, 1 if name in paired else max(len(own), 2))
        by = "measured" if name in measured else "assumed"
        lines.append(f"  {name}, {examples} dev examples, {counted(seeds, 'seed')} ({by}): {_told(expected, seeds)}")
    if not lines:
        return []
    how = f"scores of other seeds have a standard deviation of {100 * SEED_SPREAD:g} point (2 to 8 from random weights "
    how += f"or few examples) and two rows answer {DISAGREEMENT:.0%} of the examples differently (as of accuracies)"
    assumption = "" if len(measured) == len(lines) else f", assuming that {how}"
    first = f"least difference that a test of two rows named beforehand detects with {POWER:.0%} power{assumption}:"
    return [first, *lines]


def _told(expected: Expected, seeds: int) -> str:
    alone = "" if seeds > 1 else ", for this seed alone, as one tells nothing of others"
    needed = {points: expected.seeds_for(points / 100) for points in POINTS}
    takes = {points: f"{counted(points, 'point')} {'takes' if points == 1 else 'take'}" for points in POINTS}
    told = [f"{takes[points]} {number} seeds" for points, number in needed.items() if number]
    hidden = [str(points) for points, number in needed.items() if not number]
    if hidden:
        what = f"{' or '.join(hidden)} points take" if not told else " or ".join(hidden)
        seeds_too = "" if told else " seeds"  # which the first of a list says
        told.append(f"{what} more than {MOST_SEEDS}{seeds_too}, as the examples are too few")
    return f"{100 * expected.least(seeds):.1f} points{alone}; {', '.join(told)}"


def _examples(task: Task, plan: Plan) -> int:
    """How many examples the dev split has, 0 where it cannot be read."""
    if not plan.examples.get(task.name):
        return 0
    try:
        return sum(1 for _ in loading.source_of(task, plan.source).examples(task, task.dev_splits[0]))
    except UserError:
        return 0


def _measured(plan: Plan, ledger: Ledger) -> Iterator[tuple[str, Expected]]:
    """(task, the noise of its finished rows) where two or more have several seeds."""
    table = table_of(plan, ledger)
    for j, tested in table.tested.items():
        column = table.columns[j]
        if column.task and column.selects and len(tested.keys) > 1 and tested.noise.spread >= 0:
            rows = 1 if tested.noise.paired else len(tested.keys)
            yield column.task, Expected(tested.noise.spread, tested.noise.shared(), rows)
