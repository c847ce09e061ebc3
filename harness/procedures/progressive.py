"""Layer after layer: the progressive knowledge transfer of MobileBERT (Sun et al., 2020, section 3.4)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harness import combine
from harness.contracts import LayerMap, Task
from harness.procedures.base import PlannedStage, procedure
from harness.procedures.labelled import TwoStage

if TYPE_CHECKING:
    from harness.planning.cells import Cells
    from harness.planning.choices import Choice


@procedure("progressive")
class Progressive(TwoStage):
    """The student's layers learn one after another, from the first on, then the layer that answers the task.

    While a layer learns, those before it and the embeddings stay as they are. All of them together take the epochs of
    one stage, divided evenly, the first layers one more where they cannot be.
    """

    def stages(self, objective: str, layers: LayerMap) -> list[PlannedStage]:
        *first, last = super().stages(objective, layers)
        found = []
        for stage in first:
            for part, (student, teacher) in enumerate(layers.pairs):
                only = LayerMap(((student, teacher),))
                below = tuple(range(student))
                name = f"{stage.name} {student}"
                found.append(PlannedStage(name, stage.objective, only, False, len(layers.pairs), part, below))
        return [*found, last]

    def refuse(self, objective: str) -> str:
        terms = combine.parse(objective)
        if combine.stage(terms) == "intermediate" and not all(combine.compares_layers(name) for _, name in terms):
            return f"progressive transfers one layer after another, but not every term of {objective} compares layers"
        return super().refuse(objective)

    def refuse_choice(self, choice: Choice, task: Task, cells: Cells) -> str:
        teacher, described = cells.asked.info(task), choice.describe(task)
        pairs = choice.student.layer_map(choice.base, described, teacher).pairs
        for expression in self.objectives(choice.row.objective)[:-1]:
            if (epochs := choice.settings["epochs"]) < len(pairs):
                return f"progressive divides the epochs among {len(pairs)} layers, and {epochs} are too few"
            for term in combine.parse(expression):
                for pair in pairs:
                    asked = combine.wants((term,), described, teacher, LayerMap((pair,)))
                    found = [{layer for _, layer in want.parts() if layer >= 0} for want in asked]
                    if any(layers - {own} for layers, own in zip(found, pair, strict=True)):
                        return f"progressive transfers one layer after another, but {term[1]} compares others beside"
        return super().refuse_choice(choice, task, cells)
