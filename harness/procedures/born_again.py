"""Self-distillation: taught by one of the student's own kind (Furlanello et al., 2018, Born Again Neural Networks)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.contracts import LAYER_SIGNALS, ModelInfo, Task
from harness.procedures.assistant import AssistantRun, AssistedRun
from harness.procedures.base import own_settings, procedure
from harness.procedures.controls import Control
from harness.runs import ONE_STAGE, RunId, StudentRun
from harness.runs.settings import LABELS, TRAINING, Settings

if TYPE_CHECKING:
    from harness.planning.cells import Cells
    from harness.planning.choices import Choice

EVERY = "random"  # layers of two of one kind are paired one by one, however they start


@dataclass(frozen=True, kw_only=True)
class FirstGenerationRun(AssistantRun):
    """A student trained on the labels, which keeps its weights for the next of its kind."""

    kind: ClassVar[str] = "first_generation"
    role: ClassVar[str] = "the first of its kind"

    @property
    def title(self) -> str:
        return f"first generation: {self.student} {self.init} {self.task}"

    @property
    def tells(self) -> str:
        return (
            f"First generation of {self.student} by {self.objective}, init {self.init}, once (seed 0), on {self.task}"
        )


@dataclass(frozen=True, kw_only=True)
class BornAgainRun(AssistedRun):
    """A student that starts as the first of its kind did, and imitates that one."""

    kind: ClassVar[str] = "born_again"
    mapped_as: ClassVar[str] = EVERY


@procedure("born_again")
class BornAgain(Control):
    """As others, but by one of the student's own kind that was trained on the labels: what does a teacher add to it?

    The first generation has the settings that a search would try first, and the epochs of one stage.
    """

    def mapped_as(self, choice: Choice) -> str:
        return EVERY

    def refuse_choice(self, choice: Choice, task: Task, cells: Cells) -> str:
        if not task.labelled:
            return f"the first of its kind learns from labels, and {task.name} is to be trained without"
        described = self.imitated(choice, task, cells)
        layers = choice.student.layer_map(EVERY, described, described)
        for expression in self.objectives(choice.row.objective):
            asked = {signal for signal, _ in self._asked(expression, described, described, layers).parts()}
            if asked & {signal.value for signal in LAYER_SIGNALS} and described.pair_encoding != "joint" and task.pair:
                return f"{expression} compares layers, and {choice.name} reads the two sentences of a pair apart"
        return super().refuse_choice(choice, task, cells)

    def imitated(self, choice: Choice, task: Task, cells: Cells) -> ModelInfo:
        return choice.describe(task)

    def planned(self, run: StudentRun, choice: Choice, task: Task, cells: Cells) -> tuple[StudentRun, list[RunId]]:
        own = {**TRAINING, **own_settings(choice.student)}
        settings = {**run.settings, **cells.first_tried(choice, task)}
        fields = {**vars(run), "objective": LABELS, "procedure": ONE_STAGE, "seed": 0}
        fields["settings"] = Settings({name: value for name, value in settings.items() if name in own})
        first = FirstGenerationRun(**fields)
        before = cells.prerequisites.add(first, first.depends_on)
        return BornAgainRun(**vars(run), assistant=before), [before]
