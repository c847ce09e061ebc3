"""`harness.run`, `plan`, `distil` and `load_results`: what the commands of these names do, from Python."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from harness import registry
from harness.commands import run as commands
from harness.commands.columns import added
from harness.commands.recorded import recorded, say_damage, table_of
from harness.commands.telling import say
from harness.contracts import Study
from harness.errors import UserError, check_known, check_path, check_text, near
from harness.ledger import Ledger
from harness.notebook import asking
from harness.notebook.data import written
from harness.notebook.results import Results, Shown
from harness.planning.planned import Plan

if TYPE_CHECKING:
    import pandas

warnings.filterwarnings("ignore", "IProgress not found")  # tqdm's, of widgets that nothing here needs
Function = TypeVar("Function", bound=Callable[..., Any])
ONE_MODEL = "objectives_vs_init"  # the study whose cells `distil` makes one of


def _as(command: str) -> Callable[[Function], Function]:
    """Give a function the signature and the arguments' help of a command."""

    def told(function: Function) -> Function:
        function.__signature__ = asking.signature(command)  # type: ignore[attr-defined]
        function.__doc__ = f"{(function.__doc__ or '').rstrip()}\n\n{asking.told(command)}\n"
        return function

    return told


@_as("run")
def run(study: Any, **arguments: Any) -> Results:
    """Train what is missing of a study, and give its results; a second call trains nothing.

    Lists or single words are taken, `set` and `search` as dictionaries too; objectives, students, tasks and studies
    by their names or as they were defined here. Raises UserError for bad input. An interrupted call keeps the finished
    runs.

    result = harness.run("objectives_vs_init", objectives=["att_kl", "vanilla_kd"], set={"epochs": 2}, out="results")

    Arguments:"""
    options = asking.options("run", {"study": study, **arguments})
    try:
        done = commands.work(options)
    except KeyboardInterrupt:
        say("stopped; finished runs are kept, and the same call goes on from here")
        raise
    commands.status_of(done)
    return Results(done.plan, done.ledger, done.table())


@dataclass(frozen=True, repr=False)
class Planned:
    """What a run would do. text: as `harness plan` prints it."""

    plan: Plan
    text: Shown

    def __repr__(self) -> str:
        return self.text

    def to_pandas(self) -> pandas.DataFrame:
        """A row a cell: its id, row, student, initialisation and task, and why it cannot exist where it cannot."""
        import pandas

        axes = ("id", "row", "student", "init", "task", "refused")
        return pandas.DataFrame([{name: getattr(cell, name) for name in axes} for cell in self.plan.cells])


@_as("plan")
def plan(study: Any, **arguments: Any) -> Planned:
    """What a run of the study would do: every cell, run and refusal, and an estimate of the time. Trains nothing.

    harness.plan("objectives_vs_init", inits="every").to_pandas()

    Arguments:"""
    options = asking.options("plan", {"study": study, **arguments})
    found, lines = commands.planned(options)
    return Planned(found, Shown("\n".join(lines)))


def distil(
    teacher: Any, train: Any, *, objective: Any = None, student: Any = None, init: Any = "every", **arguments: Any
) -> Results:
    """Distil one student from a teacher, and give its result: `distil(...).best().load()` is the student.

    train: the name of a task, a path as `tasks=NAME=PATH` takes, a pandas frame, a datasets.Dataset or DatasetDict, or
    a list of (text, label), (text, text, label) or dictionaries. Further arguments as `run`: set={"epochs": 3},
    profile="small", out="results". One setting and one seed are trained, unless trials and seeds say otherwise.

    result = harness.distil("minilm", [("a fine film", "good"), ("dull", "bad"), ...], objective="att_kl")
    """
    arguments = {"study": ONE_MODEL, "profile": "small", "trials": 1, "seeds": 1, "out": "results", **arguments}
    check_path(out=arguments["out"])
    rows = registry.STUDIES.get(arguments["study"]) if isinstance(arguments["study"], str) else arguments["study"]
    if not isinstance(rows, Study):
        raise UserError(f"study is a name, or a study that was declared, not {rows!r}")
    usual = next((row.name for row in rows.rows if row.equal_epochs), None) if objective is None else objective
    if usual is None:
        names = [row.name for row in rows.rows]
        raise UserError(f"study {rows.name} has no default row, so objective must name one: {near('', names)}")
    chosen = {
        "objectives": [usual],
        "students": [rows.students[0] if student is None else student],
        "inits": [init],
        "tasks": written(train, Path(arguments["out"])),
        "teacher": teacher,
    }
    return run(**{**chosen, **arguments})


def load_results(
    out: str | Path = "results",
    study: str | None = None,
    profile: str | None = None,
    columns: str | Sequence[str] = (),
    layout: str | None = None,
    against: str = "",
    **choosing: Any,
) -> Results:
    """The results in a folder, read without torch. study and profile may be left out where it holds one of them alone;
    of several profiles of a study quick is taken.

    columns: "parameters", "megabytes" and "speed" stand in the table too; speed is measured here, once, with torch.
    layout: "lines" or "matrix", where it is to be another than the study's. against: the row that others are compared
    with, "best" or "none", as of `harness report --against`. choosing: as `run` takes them, the arguments that the
    results were made with (set, seeds, trials, teacher, corpus) and those that choose from them (tasks, objectives,
    students, inits).

    harness.load_results("results", "objectives_vs_init", set={"epochs": 2}).compare("att_kl", "vanilla_kd")
    """
    known = asking.choosing()
    for name in choosing:
        check_known("argument", name, known)
    check_path(out=out)
    named = {"study": study, "profile": profile, "layout": layout, "against": against}
    check_text(**{name: value for name, value in named.items() if value is not None})
    for column in (columns := asking.several(columns or ())):
        check_text(columns=column)
    Ledger(Path(out))  # which says what is wrong with the folder, if anything is
    chosen, ledger = recorded(asking.options("report", {"study": study, "profile": profile, "out": out, **choosing}))
    table = table_of(chosen, ledger, layout, against)
    say_damage(ledger)
    return Results(chosen, ledger, added(chosen, ledger, table, columns) if columns else table)
