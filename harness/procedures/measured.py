"""Procedures that train nothing: how large models are, how fast they encode."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

from harness.answers import configured, parts_of
from harness.contracts import Hyperparameter, Task
from harness.files import JSON
from harness.procedures.base import Procedure, own_settings, procedure
from harness.runs import CountRun, MeasuredRun, SpeedRun
from harness.runs.settings import SPEED_SETTINGS

if TYPE_CHECKING:
    from harness.planning.cells import Cells
    from harness.planning.choices import Choice


def shape(source: Any) -> JSON:
    """A model's configuration without what says only where and by whom it was written."""
    dropped = ("transformers_version", "_name_or_path", "architectures")
    return {name: value for name, value in configured(source).items() if name not in dropped}


class Measured(Procedure):
    """Models of random weights, built from configurations: students, or a row's checkpoint."""

    trains: ClassVar[bool] = False

    def declared(self, student: Any, objective: str, general: str) -> dict[str, Hyperparameter]:
        return own_settings(student) | dict(self.settings)

    def cell(self, choice: Choice, task: Task, cells: Cells) -> None:
        source = cells.asked.teachers_named.of(task) if choice.student else cells.model(choice.row.checkpoint)
        cells.asked.contents.note(parts_of(source))  # as nothing else does of a teacher whose weights are not read
        what = {"task": task.name, "student": choice.name, "configuration": shape(source)}
        run = self.run(cells, **what, metric=cells.asked.metric(task), settings=choice.settings)
        if cells.add(choice, task, run, choice.refused):
            cells.use(choice, task, set())

    @abstractmethod
    def run(self, cells: Cells, **what: Any) -> MeasuredRun:
        """What measures the model. what: the fields that both kinds have."""


@procedure("count")
class Count(Measured):
    """The number of their parameters."""

    settings: ClassVar[Mapping[str, Hyperparameter]] = {}
    at_once: ClassVar[bool] = True

    def run(self, cells: Cells, **what: Any) -> MeasuredRun:
        return CountRun(**what)


@procedure("speed")
class Speed(Measured):
    """The speed of encoding, beside the study's first checkpoint (galke2022, section V-E)."""

    settings: ClassVar[Mapping[str, Hyperparameter]] = SPEED_SETTINGS
    undisturbed: ClassVar[bool] = True

    def run(self, cells: Cells, **what: Any) -> MeasuredRun:
        reference = next(row.checkpoint for row in cells.asked.study.rows if row.checkpoint)
        return SpeedRun(**what, reference=shape(cells.model(reference)))
