"""The sum of objectives that a run trains by, as one module."""

from __future__ import annotations

from typing import cast

from torch import Tensor, nn

from harness.combine import Terms, recorded_name, wants
from harness.contracts import Batch, LayerMap, ModelInfo, Outputs, Want
from harness.hyperparameters import Values
from harness.modeling.bases import Objective
from harness.registry import OBJECTIVES


class Sum(nn.Module):
    """The weighted sum of objectives, as one module to train and to checkpoint.

    hyperparameters are the terms' settings as records name them, already checked; what is missing takes its default.
    """

    def __init__(self, terms: Terms, student: ModelInfo, teacher: ModelInfo, layers: LayerMap, hyperparameters: Values):
        super().__init__()
        self.terms = terms
        self._wants = wants(terms, student, teacher, layers)
        self.objectives = nn.ModuleList()  # a ModuleDict would not take an objective called "values"
        for _, name in terms:
            kind = OBJECTIVES.get(name)
            settings = {setting: hyperparameter.default for setting, hyperparameter in kind.hyperparameters.items()}
            for setting, hyperparameter in kind.hyperparameters.items():
                if (key := recorded_name(name, setting)) in hyperparameters:
                    settings[setting] = hyperparameter.other(hyperparameters[key])
            self.objectives.append(kind(student, teacher, layers, **settings))

    def wants(self) -> tuple[Want, Want]:
        """What to ask of (student, teacher)."""
        return self._wants

    def prepare(self, labels: Tensor, size: int) -> None:
        """Prepare every term: see `Objective.prepare`."""
        for objective in self.objectives:
            cast(Objective, objective).prepare(labels, size)

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss to train, and each term's weighted part of it by name, detached."""
        parts = {
            name: weight * objective(student, teacher, batch)
            for (weight, name), objective in zip(self.terms, self.objectives, strict=True)
        }
        return sum(parts.values()), {name: part.detach() for name, part in parts.items()}
