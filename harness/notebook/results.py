"""What a folder of results holds of a study, to be looked at in Python. Opening it loads no torch."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import harness
from harness import reports
from harness.commands.figures import figure_of
from harness.commands.telling import say
from harness.errors import UserError, unknown
from harness.files import digest
from harness.ledger import Ledger
from harness.notebook.asking import perform
from harness.planning.planned import Plan
from harness.reports.tables.pairs import differences
from harness.reports.tables.quantities import is_score, scaled, written
from harness.reports.tables.shapes import Line
from harness.search import frame

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class Shown(str):
    """Text that a notebook shows as a table. In a shell and in print it is itself."""

    html = ""

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return self.html


@dataclass(frozen=True, repr=False)
class Results:
    """A study's results, as `harness.run` and `harness.load_results` give them.

    result = harness.load_results("results")
    result.to_pandas().groupby(["objective", "task"]).score.mean()
    """

    plan: Plan
    ledger: Ledger
    whole: reports.Table

    @property
    def table(self) -> Shown:
        """The table as `harness report` prints it; in a notebook as HTML.

        print(result.table)
        """
        shown = Shown(reports.render(self.whole, "terminal"))
        shown.html = reports.fragment(self.whole)
        return shown

    def __repr__(self) -> str:
        return repr(self.table)

    def _repr_html_(self) -> str:
        return self.table._repr_html_()

    def to_pandas(self, wide: bool = False) -> pandas.DataFrame:
        """A row a run: axes, settings, seed, metrics (as fractions), seconds, memory. wide: a row a line of the table.

        trial is its number in the search, missing for further seeds; chosen says that it counts for the table; score is
        its value of metric. wide has a column for each task's mean, std and n of the scores that count.

        result.to_pandas().query("chosen").pivot_table("score", "objective", "init")
        """
        made = frame.spread(self.whole.runs)
        if not wide:
            return made
        if "chosen" not in made:
            return made.iloc[:0]
        counted = made[made.chosen & (made.status == "finished")].astype({"score": float})
        grouped = counted.groupby(["student", "init", "row", "task"], sort=False).score
        made = grouped.agg(["mean", "std", "count"]).rename(columns={"count": "n"}).unstack("task").swaplevel(axis=1)
        return made[[(task, told) for task in self.plan.tasks if task in made for told in ("mean", "std", "n")]]

    def compare(self, row: str, other: str) -> pandas.DataFrame:
        """One row of the table minus another, for each task, student and initialisation that both are finished for.

        difference and what follows are fractions; low and high are its 95% interval, and p is two-sided, both over
        other seeds and other dev examples, by the noise of the table's column. They hold for one comparison that was
        planned: of several, correct p for their number, as the table does for its differences to one row.

        result.compare("att_kl", "vanilla_kd")
        """
        import pandas

        found = differences(self.whole, row, other)
        if not found:
            raise UserError(
                f"no cell of {row} and {other} with the same student and initialisation is finished in both"
            )
        return pandas.DataFrame(found)

    def best(self, task: str | None = None) -> Best:
        """The cell with the best score of a task; task may be left out where there is only one.

        Of several that are equally good it is the first of the table, and a line on stderr says so.

        student = result.best("sentiment").load()
        """
        tasks = {column.task: j for j, column in reversed([*enumerate(self.whole.columns)]) if column.task}
        if task is None and len(tasks) > 1:
            raise UserError(f"scores of several tasks have no best: name one, as in best({min(tasks)!r})")
        if task is not None and task not in tasks:
            raise unknown("task", task, tasks)
        place = tasks[task or next(iter(tasks))]
        lines = [line for block in self.whole.blocks if not block.improvement for line in block.lines]
        made = [line for line in lines if line.entries[place].runs]
        if not made:
            raise UserError("no cell is finished yet: harness.run goes on from what there is")
        if not is_score(self.whole.columns[place].metric):
            raise UserError(f"{self.whole.columns[place].metric} is no score, of which a cell could have the best")
        # One that answers every example alike is never best in a table; where all do, it is still what there is, and
        # a reference where there is nothing else. Equal means may differ in the last bits of their sums.
        found = [(line.row.competes, line.entries[place]) for line in made]
        ranks = [(entry.best, competes, round(entry.value or 0.0, 9)) for competes, entry in found]
        equals = [line for line, rank in zip(made, ranks, strict=True) if rank == max(ranks)]
        line, column = equals[0], self.whole.columns[place]
        entry = line.entries[place]
        if len(equals) > 1:
            say(_equals(equals, written(column.metric, scaled(column.metric, entry.value or 0.0))))
        run = max(entry.runs, key=lambda each: each.selection)
        where = (line.row.name, line.student, line.init, column.task)
        return Best(entry.cell, *where, run.run, entry.value or 0.0, entry.std, self.ledger.out)

    def figure(self, name: str = "heatmap") -> Figure:
        """A figure of matplotlib: "heatmap" (rows by initialisations), "points" (along the rows' points), "curves" (by
        epoch), "masked_words", "pareto" (against the columns asked of `load_results`, otherwise parameters), and what
        else `harness figures --help` names.

        result.figure("heatmap").savefig("heatmap.pdf")
        """
        figure = figure_of(self.plan, self.ledger, self.whole, name)
        figure._repr_png_ = functools.partial(reports.png, figure)  # type: ignore[attr-defined]  # notebooks show it
        return figure


def _equals(lines: Sequence[Line], score: str) -> str:
    """What is told where several lines are the best of a task."""
    alone = len({line.row.name for line in lines}) == len(lines)
    first, *others = (line.row.name + ("" if alone else f" ({line.student}, init {line.init})") for line in lines)
    return (
        f"{len(lines)} rows are equally good ({score}): this is the first, {first}; as good are {', '.join(others)}, "
        "each of which harness export takes by the id of its cell"
    )


@dataclass(frozen=True)
class Best:
    """A cell of the table, whose score is the best of its task. run: the one of its runs that was selected by most."""

    cell: str
    row: str
    student: str
    init: str
    task: str
    run: str
    score: float
    std: float | None
    out: Path

    def export(self, to: str | Path) -> Path:
        """Write the student as a folder, as `harness export RUN --to FOLDER` does.

        result.best().export("student")
        """
        perform("export", {"what": self.run, "to": to, "out": self.out})
        return Path(to)

    def load(self) -> Any:
        """The student itself, to ask: exported into the folder of results, and opened by `harness.load`.

        result.best().load().predict(["a lovely film"])
        """
        made = digest(Ledger(self.out).read(self.run))[:8]  # `--refresh` makes a run anew, with other weights
        folder = self.out / "students" / f"{self.run}-{made}"
        return harness.load(folder if folder.is_dir() else self.export(folder))
