"""What a folder of results holds of a study, to be looked at in Python. Opening it loads no torch."""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import harness
from harness import reports
from harness.commands.export import work
from harness.commands.figures import figure_of
from harness.commands.recorded import beside, say_damage, score_of, tasks_of
from harness.commands.telling import say
from harness.contracts import Task
from harness.errors import UserError, check_known, check_text, listed
from harness.files import digest
from harness.ledger import Ledger
from harness.notebook.asking import options
from harness.planning.planned import Plan
from harness.reports.tables.pairs import differences
from harness.reports.tables.quantities import is_score, scaled, written
from harness.reports.tables.shapes import Line
from harness.reports.tables.two_tables import noise_of_both
from harness.search import frame

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

SIDES = {"label": "labels", "prediction": "predictions", "teacher": "teacher"}  # as kept of a run, by their columns
UNFINISHED = {"failed": "failed", "impossible": "cannot be", "waiting": "is unfinished", "partial": "is unfinished"}


class Shown(str):
    """Text that a notebook shows as it is, or as a table. In a shell and in print it is itself."""

    html: str | None = None

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str | None:
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

    def _repr_html_(self) -> str | None:
        return self.table._repr_html_()

    def to_pandas(self, wide: bool = False) -> pandas.DataFrame:
        """A row a run: axes, settings, seed, metrics (as fractions), seconds, memory. wide: a row a line of the table.

        trial is its number in the search of its seed, missing for further seeds; chosen says that it counts for the
        table; score is its value of metric. wide has a column for each task's mean, std and n of the scores that count;
        a line without any, as of a row that failed, has n 0 and the rest missing.

        result.to_pandas().query("chosen").pivot_table("score", "objective", "init")
        """
        if not wide:
            return frame.spread(self.whole.runs)
        axes, told = ["student", "init", "row", "task"], {"mean": "mean", "std": "std", "n": "count"}
        import pandas

        runs = pandas.DataFrame(self.whole.runs, dtype=object)  # a cell without a finished run has a row too
        counted = runs.assign(score=runs.score.where(runs.chosen.astype(bool)).astype(float))
        made = counted.groupby(axes, sort=False).score.agg(**told).unstack("task", sort=False).swaplevel(axis=1)
        made = made[[(task, name) for task in self.plan.tasks if task in made for name in told]]
        return made.fillna(none := {name: 0 for name in made if name[1] == "n"}).astype(dict.fromkeys(none, int))

    def predictions(self) -> pandas.DataFrame:
        """What the runs that count for the table answer: a row a run and dev example (of the first dev split).

        id numbers the dev examples. label and prediction are names of classes, or scores; label is missing where there
        is none. Where students were trained without labels, teacher is what theirs answers. Of classes there is a
        column "probability.NAME" each, of what is ranked "score". Answers that are damaged are left out, and a line on
        stderr says so.

        Raises UserError where no run has kept its answers, as of a study that only measures.

        result.predictions().query("label != prediction").groupby("row").size()
        """
        import pandas

        tasks, made = tasks_of(self.plan), []
        for run in self.whole.runs:
            found = frame.answers(self.ledger, run["run"], run["task"]) if run["chosen"] else {}
            if "predictions" in found:
                about = {name: run[name] for name in ("task", "student", "init", "row", "seed", "run")}
                made.append(pandas.DataFrame(about | _answered(tasks[run["task"]], found)))
        say_damage(self.ledger)
        if not made:
            raise UserError(f"no run of {self.plan.study} that counts for the table has kept its answers")
        return pandas.concat(made, ignore_index=True)

    def compare(self, row: str, other: str, of: Results | None = None) -> pandas.DataFrame:
        """One row of the table minus another, for each task, student and initialisation that both are finished for.

        of: the results that the other row is of, such as those of another teacher or of other settings; of these if
        left out. The noise is then that of both tables' columns: seed by seed where in both each has its own training
        examples, teacher or search and all have the same seeds, otherwise as if seeds had nothing in common. A row of
        one seed has no interval.

        difference and what follows are fractions; low and high are its 95% interval, and p is two-sided, both over
        other seeds and other dev examples, by the noise of the table's column. They hold for one comparison that was
        planned: of several, correct p for their number, as the table does for its differences to one row.

        What failed of either is left out, and a line on stderr says so. Raises UserError where nothing is left.

        result.compare("att_kl", "vanilla_kd")
        """
        import pandas

        check_text(row=row, other=other)
        if of is not None:
            _check_results(of=of)
        sides = [(self.whole, {row}), (of.whole, {other})] if of else [(self.whole, {row, other})]

        def lacking(statuses: Collection[str]) -> str:
            told = (_lacking(table, rows, statuses) for table, rows in sides)
            return "; ".join(dict.fromkeys(filter(None, told)))  # both may be of one cell

        both = noise_of_both(self.whole, of.whole, tasks_of(self.plan), score_of) if of else None
        found = differences(self.whole, row, other, of.whole if of else None, both)
        if not found:
            scores = [(each.plan.study, _scores(each.whole)) for each in (self, of or self)]
            if without := next((study for study, known in scores if not known), ""):
                raise UserError(f"{without} has no scores to compare")
            if not set.intersection(*(known for _, known in scores)):
                raise UserError("the two tables have no scores to compare: none is of the same task and metric in both")
            why = lacking(UNFINISHED)
            none = f"no cell of {row} and {other} with the same student and initialisation is finished in both"
            raise UserError(f"{none}{': ' * bool(why)}{why}")
        if failed := lacking(("failed",)):
            say(f"left out: {failed}")
        return pandas.DataFrame(found)

    def beside(self, other: Results) -> Results:
        """These results with the rows of others, such as those of another teacher, beside the same rows of these: the
        table has both numbers of each and their tested differences, as `harness report --compare FOLDER` prints them.

        Raises UserError where they have no row or no score in common.

        large.beside(small)
        """
        _check_results(other=other)
        return replace(self, whole=beside(self.plan, self.whole, other.plan, other.whole))

    def best(self, task: str | None = None) -> Best:
        """The cell with the best score of a task; task may be left out where there is only one.

        Of several that are equally good it is the first of the table, and a line on stderr says so.

        student = result.best("sentiment").load()
        """
        tasks = {column.task: j for j, column in reversed([*enumerate(self.whole.columns)]) if column.task}
        if task is not None:
            check_text(task=task)
            check_known("task", task, tasks)
        elif len(tasks) > 1:
            raise UserError(f"no cell is best on several tasks at once: name one, as in best({min(tasks)!r})")
        place = tasks[task or next(iter(tasks))]
        lines = [line for _, line in self.whole.lines()]
        made = [line for line in lines if line.entries[place].runs]
        if not made:
            rows = {line.row.name for line in lines}
            failed, impossible = (_lacking(self.whole, rows, (one,), place) for one in ("failed", "impossible"))
            why = failed or (impossible if all(line.entries[place].status == "impossible" for line in lines) else "")
            raise UserError(f"no cell is finished yet: {why or 'harness.run goes on from what there is'}")
        if not is_score(self.whole.columns[place].metric):
            raise UserError(f"{self.whole.columns[place].metric} is not a score, so no cell can be the best in it")
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
        check_text(name=name)
        figure = figure_of(self.plan, self.ledger, self.whole, name)
        figure._repr_png_ = functools.partial(reports.png, figure)  # type: ignore[attr-defined]  # notebooks show it
        return figure


def _check_results(**given: Any) -> None:
    for name, value in given.items():
        if not isinstance(value, Results):
            raise UserError(f"{name} must be results, as harness.load_results gives them, not {value!r}")


def _answered(task: Task, kept: Mapping[str, np.ndarray]) -> dict[str, Any]:
    """Columns of a run's answers. kept: as `frame.answers` gives them."""
    sides = {side: kept[name] for side, name in SIDES.items() if name in kept}
    if task.bins:  # labels are classes of scores, predictions the scores; a label that is not told is -1
        sides["label"] = np.array([*task.bins, np.nan])[kept["labels"]]
    elif task.labels:
        sides = {side: np.array([*task.labels, None], dtype=object)[classes] for side, classes in sides.items()}
    of_class = zip(task.bins or task.labels, kept["probabilities"].T, strict=True) if "probabilities" in kept else ()
    graded = {f"probability.{name}": of_one for name, of_one in of_class}  # (N,) each
    return {"id": kept["ids"], **sides, **graded, **({"score": kept["scores"]} if "scores" in kept else {})}


def _scores(table: reports.Table) -> set[tuple[str, str]]:
    """(task, metric) of each column of scores."""
    return {(column.task, column.metric) for column in table.columns if column.task and is_score(column.metric)}


def _lacking(table: reports.Table, rows: Collection[str], statuses: Collection[str], place: int | None = None) -> str:
    """Which of these rows, by name or label, have entries of these statuses on which tasks; "" if none has.

    place: of the one column that is looked at.
    """
    found: dict[tuple[str, str], dict[str, str]] = {}
    for _, line in table.lines():
        for j, (column, entry) in enumerate(zip(table.columns, line.entries, strict=True)):
            looked_at = column.task and place in (None, j) and {line.row.name, line.row.label} & {*rows}
            if looked_at and entry.status in statuses:
                found.setdefault((line.row.name, UNFINISHED[entry.status]), {}).setdefault(column.task, entry.cell)
    return "; ".join(
        f"{row} {what} on {listed([*cells])} (harness show {next(iter(cells.values()))} tells why)"
        for (row, what), cells in found.items()
    )


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
        work(options("export", {"what": self.run, "to": to, "out": self.out}))
        return Path(to)

    def load(self) -> Any:
        """The student itself, to ask: exported into the folder of results, and opened by `harness.load`.

        result.best().load().predict(["a lovely film"])
        """
        made = digest(Ledger(self.out).read(self.run))[:8]  # `--refresh` makes a run anew, with other weights
        folder = self.out / "students" / f"{self.run}-{made}"
        return harness.load(folder if folder.is_dir() else self.export(folder))
