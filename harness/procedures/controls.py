"""Controls: training as any other, by another's answers than the teacher's. Is it what the teacher knows that helps?"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from harness import combine, registry
from harness.contracts import TableRow, Task, Want
from harness.procedures.base import procedure
from harness.procedures.labelled import TwoStage
from harness.runs import RunId, StudentRun, TeacherRun
from harness.runs.settings import SHARED, Settings

if TYPE_CHECKING:
    from harness.planning.cells import Cells
    from harness.planning.choices import Choice
    from harness.runs.told import Performed
    from harness.training.work import Work


@dataclass(frozen=True, kw_only=True)
class RandomTeacherRun(TeacherRun):
    """A teacher of random weights, which is never trained."""

    kind: ClassVar[str] = "random_teacher"
    role: ClassVar[str] = "its teacher of random weights"

    @property
    def title(self) -> str:
        return f"random {super().title}"

    def perform(self, work: Work) -> Performed:
        from harness.jobs.labelled import fine_tune

        return fine_tune(self, work, random=True)


@dataclass(frozen=True, kw_only=True)
class RandomlyTaughtRun(StudentRun):
    """A student that starts from the teacher's layers as others do, and imitates one of random weights."""

    kind: ClassVar[str] = "randomly_taught"

    random_teacher: RunId

    @property
    def depends_on(self) -> tuple[RunId, ...]:
        return (*super().depends_on, self.random_teacher)

    def perform(self, work: Work) -> Performed:
        from harness.jobs.controls import taught_by
        from harness.jobs.labelled import distil

        return distil(self, work, taught_by(self.random_teacher, self, work.workspace))


@dataclass(frozen=True, kw_only=True)
class ShuffledRun(StudentRun):
    """A student that is told of each example what the teacher says of another one of its class."""

    kind: ClassVar[str] = "shuffled"

    def perform(self, work: Work) -> Performed:
        from harness.jobs.controls import shuffling
        from harness.jobs.labelled import distil

        return distil(self, work, shuffling(self, work.workspace))


class Control(TwoStage):
    """Two stages where the objective is of the layers alone, one otherwise: as the row beside which it stands."""

    def refuse(self, objective: str) -> str:
        return ""

    def refuse_choice(self, choice: Choice, task: Task, cells: Cells) -> str:
        described, teacher = choice.describe(task), self.imitated(choice, task, cells)
        layers = choice.student.layer_map(self.mapped_as(choice), described, teacher)
        if any(self._asked(one, described, teacher, layers).parts() for one in self.objectives(choice.row.objective)):
            return ""
        return f"{choice.row.objective} asks its teacher for nothing, so that it is alike by any"

    def _asked(self, objective: str, *pair: object) -> Want:
        return combine.wants(combine.parse(objective), *pair)[1]  # type: ignore[arg-type]

    def ask(self, want: Want, task: Task, cells: Cells) -> None:
        """Another is asked."""


@procedure("random_teacher")
class RandomTeacher(Control):
    """As others, but by a teacher of random weights, which knows nothing."""

    def refuse_choice(self, choice: Choice, task: Task, cells: Cells) -> str:
        return self._refused(task, cells) or super().refuse_choice(choice, task, cells)

    def _refused(self, task: Task, cells: Cells) -> str:
        several = cells.asked.teachers_named.of(task).members
        return "an ensemble has no random weights of its own: name one teacher" if several else ""

    def planned(self, run: StudentRun, choice: Choice, task: Task, cells: Cells) -> tuple[StudentRun, list[RunId]]:
        other = replace(self._teacher(task, cells), seed=0)
        before = cells.prerequisites.add(other, other.depends_on)
        return RandomlyTaughtRun(**vars(run), random_teacher=before), [before]

    def teacher_cell(self, row: TableRow, task: Task, cells: Cells) -> None:
        choice = cells.choices.choose(row, None, "", task, self)
        if refused := self._refused(task, cells):
            cells.refused(choice, task, refused)
            return
        run = self._teacher(task, cells)
        cells.add_teacher(choice, task, run, run.depends_on, choice.refused or cells.refused_analysis(task))

    def _teacher(self, task: Task, cells: Cells) -> RandomTeacherRun:
        run, _ = cells.prerequisites.teacher_run(task, {})
        fields = {name: value for name, value in vars(run).items() if name not in ("teacher", "settings")}
        base = replace(run.teacher, pretrained=None)
        settings = Settings({name: run.settings[name] for name in SHARED})
        return RandomTeacherRun(**{**fields, "evaluate_only": True}, teacher=base, settings=settings)


@procedure("shuffled_teacher")
class ShuffledTeacher(Control):
    """As others, but of each example what the teacher says of another one of its class: classes without instances."""

    def refuse_choice(self, choice: Choice, task: Task, cells: Cells) -> str:
        if not (task.classification and task.labelled):
            lacking = "is to be trained without" if task.classification else "has scores"
            return f"outputs are shuffled within the classes of the labels, and {task.name} {lacking}"
        for expression in self.objectives(choice.row.objective):
            for _, name in combine.parse(expression):
                if registry.OBJECTIVES.get(name).token_level:
                    return f"{name} compares token by token, but what is shuffled is said of another text"
        return super().refuse_choice(choice, task, cells)

    def planned(self, run: StudentRun, choice: Choice, task: Task, cells: Cells) -> tuple[StudentRun, list[RunId]]:
        return ShuffledRun(**vars(run)), []

    ask = TwoStage.ask  # the teacher is, as by others
