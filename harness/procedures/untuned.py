"""The procedure that compares sentence vectors which no label of a task has tuned (wu2020, section 5.5)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from harness import combine
from harness.contracts import Hyperparameter, TableRow, Task
from harness.planning.planned import size_of
from harness.procedures.base import Procedure, own_settings, procedure
from harness.runs import PRETRAINED, UntunedRun
from harness.runs.settings import NEVER_UNTUNED, ON_UNTUNED, TRAINING, UNTUNED

if TYPE_CHECKING:
    from harness.planning.cells import Cells
    from harness.planning.choices import Choice


@procedure("untuned")
class Untuned(Procedure):
    """By nothing, or by the teacher's vectors of the training sentences."""

    settings: ClassVar[Mapping[str, Hyperparameter]] = TRAINING | UNTUNED
    tunes: ClassVar[bool] = False

    def declared(self, student: Any, objective: str, general: str) -> dict[str, Hyperparameter]:
        acting = {name: h for name, h in TRAINING.items() if objective or name in ON_UNTUNED}
        acting = {name: h for name, h in acting.items() if not name.startswith(NEVER_UNTUNED)}
        found = own_settings(student) | acting | combine.declared(combine.parse(objective) if objective else ())
        return found | (combine.declared(combine.parse(general)) if student else UNTUNED)

    def cell(self, choice: Choice, task: Task, cells: Cells) -> None:
        from harness.jobs.untuned import refusal

        objective = combine.canonical(choice.row.objective) if choice.row.objective else ""
        refused = refusal(objective, choice.describe(task), cells.asked.info(task), task)
        general = cells.asked.study.general
        start, after, _, refused = cells.starts_of(choice, general if choice.init == PRETRAINED else "", refused)
        who, before = cells.prerequisites.base_teacher(task)
        run = UntunedRun(
            task=task.name,
            data=cells.asked.contents.data(task),
            teacher=who,
            student=choice.student.name,
            init=start,
            objective=objective,
            metric=cells.asked.metric(task),
            settings=cells.settings_on_task(choice, objective, general),
            pair_encoding=choice.only_encoding,
        )
        # Nothing is drawn where the vectors of given weights are compared.
        certain = {} if objective or choice.init == "random" else {"seeds": 1}
        if cells.add(choice, task, run, refused, after=[*after, *before], **certain):
            cells.use(choice, task, set())

    def teacher_cell(self, row: TableRow, task: Task, cells: Cells) -> None:
        from harness.jobs.untuned import refusal

        choice = cells.choices.choose(row, None, "", task, self)
        refused, info = choice.refused or cells.refused_analysis(task), cells.asked.info(task)
        refused = refused or refusal("", None, info, task, choice.settings["untuned.pooling"])
        who, after = cells.prerequisites.base_teacher(task)
        run = UntunedRun(
            task=task.name,
            data=cells.asked.contents.data(task),
            teacher=who,
            student="",
            init="",
            objective="",
            metric=cells.asked.metric(task),
            settings=choice.settings,
        )
        if cells.add(choice, task, run, refused, after=after, size=size_of(info), seeds=1):
            cells.use(choice, task, set())
