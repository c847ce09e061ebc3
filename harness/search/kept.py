"""Whose weights are kept: those of each cell's best run. It is only known once the search and the seeds are done, so
every run leaves its weights, and the driver removes those that have lost. Whatever is missing can be made again.
"""

from __future__ import annotations

from harness.files import remove
from harness.ledger import Ledger
from harness.planning.planned import Cell, Plan
from harness.search.progress import Finished, Progress, best_of


def best_run(found: Progress) -> Finished | None:
    """The run of a cell that stands for it: that with the highest selection score, so far.

    The earliest of equals. None if all failed or were pruned.
    """
    return best_of(found.runs)


def leaves(plan: Plan, found: Progress) -> list[str]:
    """The runs of a cell whose weights nothing but a person wants: no run starts from them."""
    return [one.run for one in found.runs if one.run not in plan.first and not one.made.starts_students]


class Kept:
    """Removes the weights that no cell of a plan wants, also those that a driver left which was killed.

    Another plan may want them: then they are made again when they are asked for. keep: "best", "all" or "none".
    """

    def __init__(self, plan: Plan, ledger: Ledger, keep: str):
        self._plan, self._ledger, self._keep = plan, ledger, keep
        self._wanted: dict[str, str] = {}  # what names a cell's runs -> the one whose weights are kept
        self._changed: list[Progress] = []
        self._gone: set[str] = set()  # runs whose weights are not there

    def note(self, cell: Cell, found: Progress) -> None:
        """A cell may have other runs, or another best one, than before."""
        if self._keep == "all":
            return
        best = best_run(found) if self._keep == "best" else None
        self._wanted[cell.search] = best.run if best else ""
        self._changed.append(found)

    def made(self, run: str) -> None:
        """A run ended, and may have left weights."""
        self._gone.discard(run)

    def clear(self) -> None:
        """Remove what the cells noted since the last call have that none wants. Only the lock's holder may."""
        left = {run for found in self._changed for run in leaves(self._plan, found)}
        for run in left - self._gone - {*self._wanted.values()}:
            remove(self._ledger.folder(run) / "weights")
            self._gone.add(run)
        self._changed.clear()
