"""The procedure of one student for several tasks (liu2020, chapter 4)."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar

from harness.contracts import TableRow, Task
from harness.data.tasks import as_asked
from harness.errors import UserError
from harness.planning.planned import size_of
from harness.planning.request import by_another_run
from harness.procedures.base import Procedure, procedure
from harness.runs.settings import Settings

if TYPE_CHECKING:
    from harness.planning.cells import Cells
    from harness.planning.choices import Choice


@procedure("multi_task")
class MultiTask(Procedure):
    """By one objective on all tasks together; the cells of a row on its tasks share their runs."""

    joint: ClassVar[bool] = True

    def check_init(self, row: TableRow, init: str, kind: str) -> None:
        if by_another_run(kind):
            raise UserError(f"row {row.name} is distilled on several tasks itself, so it cannot start from {init}")

    def cell(self, choice: Choice, task: Task, cells: Cells) -> None:
        without = cells.only_general(choice.row.objective)
        settings = Settings({name: value for name, value in choice.settings.items() if name not in without})
        run, refused = cells.joint_runs.run(choice, choice.row.objective, settings)
        if run and task.name not in run.tasks:
            refused = f"row {choice.row.name} trains on {', '.join(run.tasks)} alone, and is not fine-tuned"
        if run is None or refused:
            cells.refused(choice, task, refused)
            return
        run, more = cells.prerequisites.augmented(run)
        if cells.add(choice, task, run, after=[run.teacher, *more], size=size_of(choice.describe(task))):
            cells.use(choice, None, without)

    def teacher_cell(self, row: TableRow, task: Task, cells: Cells) -> None:
        choice = cells.choices.choose(row, None, "", task, self)
        run, after, refused = cells.joint_runs.teacher(row, cells.own_of(choice))
        refused = refused if as_asked(task, choice.settings).labelled else "it is refined on the labels of all tasks"
        if run is None or refused:
            cells.refused(choice, task, refused)
        else:
            cells.add_teacher(choice, task, run, after, "")
