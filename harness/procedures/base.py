"""What a procedure says: how the rows of a study are trained, or measured."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from harness import combine, declaring
from harness.answers import Faulty, ask
from harness.contracts import Hyperparameter, LayerMap, ModelInfo, TableRow, Task
from harness.data.tasks import as_asked
from harness.errors import UserError
from harness.registry import PROCEDURES, file_of
from harness.runs.settings import TRAINING

if TYPE_CHECKING:
    from harness.planning.cells import Cells
    from harness.planning.choices import Choice


@dataclass(frozen=True)
class PlannedStage:
    """A part of a run.

    layers: those that the objective compares; selects: the best epoch is chosen. parts: among how many stages the
    epochs of one are divided; part: which of them this is, from 0. frozen: layers of the student whose weights stay;
    0 is what lies before the first.
    """

    name: str
    objective: str
    layers: LayerMap
    selects: bool
    parts: int = 1
    part: int = 0
    frozen: tuple[int, ...] = ()

    def share(self, epochs: int) -> int:
        """Its part of the epochs of one stage; where they cannot be divided, the first stages have one more."""
        return epochs // self.parts + (self.part < epochs % self.parts)


class Procedure(ABC):
    """A plugin that plans the cells of its rows. How their runs are performed is said by the runs (`harness.runs`)."""

    name: ClassVar[str]
    settings: ClassVar[Mapping[str, Hyperparameter]] = TRAINING  # that every row has, whatever its student
    trains: ClassVar[bool] = True  # otherwise it measures, and reads neither data nor weights
    tunes: ClassVar[bool] = True  # on the labels of a task; otherwise it looks at models as they are before
    joint: ClassVar[bool] = False  # a run is of all tasks together
    undisturbed: ClassVar[bool] = False  # its runs time what they do, so one at a time has the machine
    at_once: ClassVar[bool] = False  # its runs take no time, so that a report makes them itself

    def declared(self, student: Any, objective: str, general: str) -> dict[str, Hyperparameter]:
        """Every setting of a cell of this student (None: of the teacher) and objective.

        general: the objective of the study's distillation on a corpus, whose settings are included.
        """
        own = own_settings(student)
        if student is None:
            return own | {name: h for name, h in self.settings.items() if not name.startswith("augmentation")}
        declared = dict(self.settings) | own
        for expression in (*_objectives(self, objective), general):
            declared |= combine.declared(combine.parse(expression))
        return declared

    def objectives(self, objective: str) -> tuple[str, ...]:
        """Those that a row of this one trains by, one after another."""
        return (objective,)

    def stages(self, objective: str, layers: LayerMap) -> Sequence[PlannedStage]:
        """The parts of a run. layers: which teacher layer each of the student's learns from."""
        return [PlannedStage("prediction", objective, layers, selects=True)]

    def refuse(self, objective: str) -> str:
        """Why the procedure cannot train by an objective, or ""."""
        return ""

    def check_init(self, row: TableRow, init: str, kind: str) -> None:
        """Raise UserError for an initialisation, of this kind, that the procedure makes itself."""
        return

    @abstractmethod
    def cell(self, choice: Choice, task: Task, cells: Cells) -> None:
        """Add the cell of a student's row on a task, or of the model that a row without a student names."""

    def teacher_cell(self, row: TableRow, task: Task, cells: Cells) -> None:
        """Add the cell of a row that is the teacher itself."""
        choice = cells.choices.choose(row, None, "", task, self)
        task = as_asked(task, choice.settings)
        refused = choice.refused or cells.refused_analysis(task)
        run, after = cells.prerequisites.teacher_run(task, cells.own_of(choice))
        run = replace(run, analysis=cells.asked.study.analysis or None)
        cells.add_teacher(choice, task, run, after, refused)


def procedure(name: str) -> Callable[[type[Procedure]], type[Procedure]]:
    """Register a subclass of Procedure. Raises UserError for anything else or a taken name."""

    def register(plugin: type[Procedure]) -> type[Procedure]:
        who = declaring.name("procedure", name, file := file_of(plugin))
        if not (inspect.isclass(plugin) and issubclass(plugin, Procedure)):
            raise UserError(f"procedure {name!r} must be a subclass of Procedure, not {plugin!r}")
        for base in plugin.__mro__[1:]:
            if issubclass(base, Procedure):
                declaring.methods(who, plugin, base)
        plugin.name = name
        PROCEDURES.add(name, plugin(), file)
        return plugin

    return register


def stages_of(
    procedure: Procedure, objective: str, layers: LayerMap, student: ModelInfo, teacher: ModelInfo
) -> Sequence[PlannedStage]:
    """The parts of a run. Raises Faulty where a procedure plans what cannot be trained, or not what it says."""
    planned: Any = ask(PROCEDURES, procedure.name, "stages", Sequence, lambda: procedure.stages(objective, layers))
    who = f"{PROCEDURES.called(procedure.name)}: stages"
    if not planned or any(not isinstance(stage, PlannedStage) for stage in planned):
        raise Faulty(f"{who} returned {planned!r}, but must return at least one PlannedStage")
    if tuple(procedure.stages(objective, layers)) != tuple(planned):  # a run asks them again, in another process
        raise Faulty(f"{who} returned other stages when asked again: they may depend only on objective and layers")
    told = {name for one in _objectives(procedure, objective) for _, name in combine.parse(one)}
    for stage in planned:
        if trouble := _trouble(stage, student.layers, teacher.layers):
            raise Faulty(f"{who} returned stage {stage.name!r} whose {trouble}")
        if untold := {name for _, name in combine.parse(stage.objective)} - told:
            raise Faulty(f"{who} trains by {min(untold)}, which objectives must name: its code is part of the run")
    if not planned[-1].selects:
        raise Faulty(f"{who} returned {planned[-1].name!r} as the last, but it must choose an epoch (selects=True)")
    return tuple(planned)


def _trouble(stage: PlannedStage, ours: int, theirs: int) -> str:
    """Why a stage of models of so many layers holds nothing that can be trained, or ""."""
    for what in ("name", "objective"):
        if not isinstance(given := getattr(stage, what), str):
            return f"{what} must be a word, not {given!r}"
    if type(stage.parts) is not int or stage.parts < 1:
        return f"parts must be a whole number of at least 1, not {stage.parts!r}"
    if type(stage.part) is not int or not 0 <= stage.part < stage.parts:
        return f"part must be a whole number from 0 to {stage.parts - 1}, not {stage.part!r}"
    if not isinstance(stage.layers, LayerMap):
        return f"layers must be a LayerMap, not {stage.layers!r}"
    if lacking := [pair for pair in stage.layers.pairs if not (0 <= pair[0] <= ours and 0 <= pair[1] <= theirs)]:
        return f"layers hold {lacking[0]}, but the student has {ours} layers and the teacher {theirs}"
    if unknown := [layer for layer in stage.frozen if layer not in range(ours + 1)]:
        return f"frozen names layer {unknown[0]!r}, but the student has {ours}"
    return ""


def _objectives(procedure: Procedure, objective: str) -> Sequence[str]:
    """Those that a row of this one trains by. Raises Faulty where a procedure says something else."""
    found: Any = ask(PROCEDURES, procedure.name, "objectives", Sequence, lambda: procedure.objectives(objective))
    if isinstance(found, str) or any(not isinstance(one, str) for one in found):
        told = f"objectives returned {found!r}, but must return a tuple of words"
        raise Faulty(f"{PROCEDURES.called(procedure.name)}: {told}")
    return found


def own_settings(student: Any) -> dict[str, Hyperparameter]:
    """A student's own settings, with its name before them; none of no student."""
    return {f"{student.name}.{name}": h for name, h in student.hyperparameters.items()} if student else {}
