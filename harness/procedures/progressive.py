"""Layer after layer: the progressive knowledge transfer of MobileBERT (Sun et al., 2020, section 3.4)."""

from __future__ import annotations

from harness import combine
from harness.contracts import LayerMap
from harness.procedures.base import PlannedStage, procedure
from harness.procedures.labelled import TwoStage


@procedure("progressive")
class Progressive(TwoStage):
    """The student's layers learn one after another, from the first on, then the layer that answers the task.

    While a layer learns, those before it stay as they are. All of them together take the epochs of one stage.
    """

    def stages(self, objective: str, layers: LayerMap) -> list[PlannedStage]:
        *first, last = super().stages(objective, layers)
        found = []
        for stage in first:
            for student, teacher in layers.pairs:
                only = LayerMap(((student, teacher),))
                below = tuple(range(student))
                name = f"{stage.name} {student}"
                found.append(PlannedStage(name, stage.objective, only, False, len(layers.pairs), below))
        return [*found, last]

    def refuse(self, objective: str) -> str:
        terms = combine.parse(objective)
        if combine.stage(terms) == "intermediate" and not all(combine.compares_layers(name) for _, name in terms):
            return f"progressive transfers one layer after another, but not every term of {objective} compares layers"
        return super().refuse(objective)
