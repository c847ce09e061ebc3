"""Procedures that train a student on the labelled examples of a task: in one stage, in two, or after a corpus."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from harness import combine, pairing
from harness.contracts import LayerMap, ModelInfo, TableRow, Task, Want
from harness.errors import UserError
from harness.planning.planned import size_of
from harness.procedures.base import PlannedStage, Procedure, procedure, stages_of
from harness.registry import OBJECTIVES
from harness.runs import ONE_STAGE, PRETRAINED, RunId, StudentRun
from harness.runs.settings import LABELS, PREDICTION

if TYPE_CHECKING:
    from harness.planning.cells import Cells
    from harness.planning.choices import Choice


def _unfrozen(student: Any, stages: Sequence[PlannedStage]) -> str:
    """Why no stage can leave layers of a student as they are, where one is to, or ""."""
    from harness.modeling.bases import Student  # loads torch, which early refusals must not wait for

    if not any(stage.frozen for stage in stages) or student.layer_weights is not Student.layer_weights:
        return ""
    return f"a stage leaves layers as they are, and {student.name} does not say which weights they have (layer_weights)"


class Labelled(Procedure):
    """What they have in common."""

    @property
    def on_task(self) -> Labelled:
        """The procedure of the stages on the task, and so of the run."""
        return self

    def expressions(self, choice: Choice, general: str) -> tuple[str, str]:
        """(the objective on the task, that of a distillation on a corpus before it)."""
        return combine.canonical(choice.row.objective), combine.canonical(general)

    def distils(self, choice: Choice) -> bool:
        """Whether the student is distilled on the corpus before."""
        return choice.init == PRETRAINED

    def refuse_choice(self, choice: Choice, task: Task, cells: Cells) -> str:
        """Why the procedure cannot train this student, or ""."""
        return ""

    def imitated(self, choice: Choice, task: Task, cells: Cells) -> ModelInfo:
        """What the student's last stages imitate."""
        return cells.asked.info(task)

    def mapped_as(self, choice: Choice) -> str:
        """The initialisation by which layers of the student and of what it imitates are paired."""
        return choice.base

    def planned(self, run: StudentRun, choice: Choice, task: Task, cells: Cells) -> tuple[StudentRun, list[RunId]]:
        """(what a cell trains, given the run of its teacher; the runs that it waits for beside that)."""
        return run, []

    def cell(self, choice: Choice, task: Task, cells: Cells) -> None:
        student, asked = choice.student, cells.asked
        described, teacher = choice.describe(task), self.imitated(choice, task, cells)
        layers: LayerMap = student.layer_map(self.mapped_as(choice), described, teacher)
        objective, on_corpus = self.expressions(choice, asked.study.general)
        refused = self.refuse_choice(choice, task, cells)
        refused = refused or pairing.refusal(objective, self.on_task.name, described, teacher, task)
        built = student.built_like(choice.base, layers)
        refused = refused or pairing.refusal_of_layers(objective, layers, built, teacher)
        refused = refused or cells.refused_analysis(task) or cells.prerequisites.refused_answers(task)
        stages = stages_of(self.on_task, objective, layers, described, teacher)
        refused = refused or _unfrozen(student, stages)
        self.lengthen(choice, stages)
        unread, mark = self._lose_labels(choice, task, self.on_task.objectives(objective))
        want = Want()
        for stage in stages:
            want |= combine.wants(combine.parse(stage.objective), described, teacher, stage.layers)[1]
        distilled = self.distils(choice)
        start, after, starts, refused = cells.starts_of(choice, on_corpus if distilled else "", refused)
        unacting = {setting for stage in stages for setting in combine.idle(combine.parse(stage.objective), task)}
        settings = cells.settings_on_task(choice, objective, on_corpus if distilled else "")
        alone = start.startswith(PRETRAINED) and not want.parts()  # the teacher is gone
        untaught = alone or (refused and not task.labelled)
        teachers = [] if untaught else cells.teachers_of(task, choice.settings)
        run = StudentRun(
            task=task.name,
            data=asked.contents.data(task),
            teacher=teachers[0] if teachers else cells.prerequisites.base_teacher(task)[0],
            student=student.name,
            init=start,
            objective=objective,
            procedure=self.on_task.name,
            metric=asked.metric(task),
            settings=settings,
            pair_encoding=choice.only_encoding,
            analysis=asked.study.analysis or None,
        )
        run, more = cells.prerequisites.augmented(run)
        run, before = self.planned(run, choice, task, cells) if not refused else (run, [])
        possible = cells.add(
            choice,
            task,
            run,
            refused,
            after=[*after, *teachers, *more, *before],
            stages=max(1, round(sum(1 / stage.parts for stage in stages))),  # what time is told by
            layers=layers,
            size=size_of(described),
            starts=starts,
            teachers=teachers if len(teachers) > 1 else (),
            mark=mark,
            acting=set().union(*(combine.settings_of(stage.objective) for stage in stages)) - unacting,
        )
        if possible:
            idle = unread | unacting
            idle |= cells.only_general(objective) - (combine.settings_of(on_corpus) if distilled else set())
            cells.use(choice, task, idle)
            self.ask(want, task, cells)

    def _lose_labels(self, choice: Choice, task: Task, expressions: Sequence[str]) -> tuple[set[str], str]:
        """Fix the settings with which no objective reads a label, where the task is to be trained without.

        Returns (those settings, what the table says of it).
        """
        terms = [term for expression in expressions for term in combine.parse(expression)]
        found = {} if task.labelled else combine.without_labels(tuple(dict.fromkeys(terms)))
        choice.settings.update(found)
        choice.fixed = {**choice.fixed, **found}
        names = ", ".join(dict.fromkeys(name for _, name in terms if OBJECTIVES.get(name).without_labels))
        return set(found), f"trained without labels: {names} has lost the term that reads them" if found else ""

    def ask(self, want: Want, task: Task, cells: Cells) -> None:
        """Note what is asked of the study's teacher, so that it is stored for all runs at once."""
        cells.wants[task.name] = cells.wants.get(task.name, Want()) | want

    def lengthen(self, choice: Choice, stages: Sequence[PlannedStage]) -> None:
        """Give a row the epochs that others have in more stages, where it asks for them."""


@procedure(ONE_STAGE)
class OneStage(Labelled):
    """By one objective, or one sum of them."""

    def refuse(self, objective: str) -> str:
        if combine.stage(combine.parse(objective)) != "intermediate":
            return ""
        return (
            f"{objective} alone never trains the layer that answers the task; add a prediction objective, as in "
            f"{PREDICTION}+{objective}, or use two_stage"
        )


@procedure("two_stage")
class TwoStage(Labelled):
    """By an intermediate objective, then by the prediction layer's (wang2023, section 4)."""

    def objectives(self, objective: str) -> tuple[str, ...]:
        intermediate = combine.stage(combine.parse(objective)) == "intermediate"
        return (objective, PREDICTION) if intermediate else (objective,)

    def stages(self, objective: str, layers: LayerMap) -> list[PlannedStage]:
        *first, last = self.objectives(objective)
        before = [PlannedStage("intermediate", one, layers, selects=False) for one in first]
        return [*before, PlannedStage("prediction", last, layers, selects=True)]

    def refuse(self, objective: str) -> str:
        if combine.stage(combine.parse(objective)) != "mixed":
            return ""
        return (
            f"two_stage trains an intermediate objective first and then {PREDICTION}, but {objective} sums "
            "objectives of both stages; name the intermediate ones only"
        )

    def lengthen(self, choice: Choice, stages: Sequence[PlannedStage]) -> None:
        if choice.row.equal_epochs and len(stages) == 1:
            choice.settings["epochs"] *= 2
            choice.lengthened = True


@procedure("general")
class General(Labelled):
    """By the row's objective on a corpus, then by the labels alone on the task (galke2022, section III-B)."""

    @property
    def on_task(self) -> Labelled:
        return OneStage()

    def expressions(self, choice: Choice, general: str) -> tuple[str, str]:
        return LABELS, combine.canonical(choice.row.objective)

    def distils(self, choice: Choice) -> bool:
        return True

    def check_init(self, row: TableRow, init: str, kind: str) -> None:
        if kind == PRETRAINED:
            raise UserError(f"row {row.name} is distilled on the corpus itself, so it cannot start from {init}")
