"""Teacher to assistant to student: knowledge distillation via a teacher assistant (Mirzadeh et al., 2020)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from harness.contracts import Hyperparameter, ModelInfo, Task, Want
from harness.hyperparameters import Values
from harness.procedures.base import procedure
from harness.procedures.labelled import TwoStage
from harness.runs import RunId, StudentRun
from harness.runs.settings import TRAINING, Settings

if TYPE_CHECKING:
    from harness.planning.cells import Cells
    from harness.planning.choices import Choice
    from harness.runs.told import Performed
    from harness.training.work import Work

LAYERS = "assistant.layers"


@dataclass(frozen=True, kw_only=True)
class AssistantRun(StudentRun):
    """A student of middle size, which keeps its weights for smaller ones."""

    kind: ClassVar[str] = "assistant"
    role: ClassVar[str] = "its assistant"

    @property
    def title(self) -> str:
        return f"assistant: {super().title}"

    @property
    def tells(self) -> str:
        return f"Assistant by {self.objective}, init {self.init}, once (seed 0), on {self.task}"

    def perform(self, work: Work) -> Performed:
        from harness.jobs.labelled import distil

        return distil(self, work, keep=True)


@dataclass(frozen=True, kw_only=True)
class AssistedRun(StudentRun):
    """A student that starts from the teacher's layers as others do, and imitates the assistant."""

    kind: ClassVar[str] = "assisted"
    mapped_as: ClassVar[str] = ""  # the initialisation by which layers are paired, where not the run's own

    assistant: RunId

    @property
    def depends_on(self) -> tuple[RunId, ...]:
        return (*super().depends_on, self.assistant)

    def perform(self, work: Work) -> Performed:
        from harness.jobs.imitation import imitating
        from harness.jobs.labelled import distil

        return distil(self, work, imitating(self.assistant, self, work.workspace, self.mapped_as))


@procedure("assistant")
class Assistant(TwoStage):
    """As `two_stage` twice: a student of more layers learns from the teacher, the row's own student from that one.

    The assistant has the settings that a search would try first.
    """

    settings: ClassVar[Mapping[str, Hyperparameter]] = {**TRAINING, LAYERS: Hyperparameter(0, low=0)}  # 0: half way

    def _settings(self, choice: Choice, teacher: ModelInfo) -> Values:
        """The student's own settings in the assistant."""
        half = (choice.own.get("layers", 0) + teacher.layers) // 2
        return {**choice.own, "layers": choice.settings[LAYERS] or half}

    def refuse_choice(self, choice: Choice, task: Task, cells: Cells) -> str:
        teacher, described = cells.asked.info(task), choice.describe(task)
        if "layers" not in choice.own:
            return f"a student {choice.name} has no setting layers, by which its assistant would be larger"
        if cells.prerequisites.teachers > 1:
            return "an assistant is made once, by one teacher, and teacher.seeds gives each seed a teacher of its own"
        layers = self._settings(choice, teacher)["layers"]
        if not choice.own["layers"] < layers < teacher.layers:
            return (
                f"an assistant of {layers} layers is not between a student of {choice.own['layers']} and a teacher of "
                f"{teacher.layers}"
            )
        if (described.tokenizer, described.pair_encoding) != (teacher.tokenizer, teacher.pair_encoding):
            return f"an assistant reads as its teacher does, and {choice.name} reads otherwise"
        return ""

    def imitated(self, choice: Choice, task: Task, cells: Cells) -> ModelInfo:
        teacher = cells.asked.info(task)
        own = self._settings(choice, teacher) if "layers" in choice.own else choice.own  # which is refused
        return choice.student.describe(own, teacher, task)

    def planned(self, run: StudentRun, choice: Choice, task: Task, cells: Cells) -> tuple[StudentRun, list[RunId]]:
        own = {f"{run.student}.{k}": v for k, v in self._settings(choice, cells.asked.info(task)).items()}
        settings = {**run.settings, **cells.first_tried(choice, task), **own}
        settings.pop(LAYERS)
        fields = {**vars(run), "settings": Settings(settings), "procedure": TwoStage.name, "seed": 0}
        before = cells.prerequisites.add(AssistantRun(**fields), [run.teacher] if isinstance(run.teacher, str) else [])
        return AssistedRun(**{**vars(run), "assistant": before}), [before]

    def ask(self, want: Want, task: Task, cells: Cells) -> None:
        """The assistant is asked, whom the cell's plan does not know."""
