"""The sum of objectives that a run trains by, as one module."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from typing import cast

import torch
from torch import Tensor, nn

from harness.combine import Terms, recorded_name, wants
from harness.contracts import Batch, LayerMap, ModelInfo, Outputs, Want
from harness.hyperparameters import Values
from harness.modeling.bases import Objective
from harness.registry import OBJECTIVES, STUDENTS, TEACHERS
from harness.runs.told import Term
from harness.training import looks
from harness.training.failures import TrainingFailure


class Sum(nn.Module):
    """The weighted sum of objectives, as one module to train and to checkpoint.

    hyperparameters are the terms' settings as records name them, already checked; what is missing takes its default.
    """

    def __init__(self, terms: Terms, student: ModelInfo, teacher: ModelInfo, layers: LayerMap, hyperparameters: Values):
        super().__init__()
        self.terms = terms
        self._infos = student, teacher
        self._looked = False
        self.unreached: set[str] = set()  # the terms whose loss has not yet depended on what the student gives
        self.suspects: dict[str, Tensor] = {}  # who gave what is not a number, in the first batch
        self._wants = wants(terms, student, teacher, layers)
        self.objectives = nn.ModuleList()  # a ModuleDict would not take an objective called "values"
        for _, name in terms:
            kind = OBJECTIVES.get(name)
            settings = {setting: hyperparameter.default for setting, hyperparameter in kind.hyperparameters.items()}
            for setting, hyperparameter in kind.hyperparameters.items():
                if (key := recorded_name(name, setting)) in hyperparameters:
                    settings[setting] = hyperparameter.other(hyperparameters[key])
            self.objectives.append(_made(kind, student, teacher, layers, settings))

    def wants(self) -> tuple[Want, Want]:
        """What to ask of (student, teacher)."""
        return self._wants

    def prepare(self, labels: Tensor, size: int) -> None:
        """Prepare every term: see `Objective.prepare`."""
        for objective in self.objectives:
            cast(Objective, objective).prepare(labels, size)

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """The loss to train, and each term's weighted part of it by name, both with their graph."""
        first, self._looked = not self._looked, True
        if first:
            looks.check_signals(STUDENTS, self._infos[0], self._wants[0], student, batch)
            if looks.given(teacher):  # who is fine-tuned has none
                looks.check_signals(TEACHERS, self._infos[1], self._wants[1], teacher, batch)
            self.suspects = looks.suspects(TEACHERS, self._infos[1], teacher)
            self.suspects |= looks.suspects(STUDENTS, self._infos[0], student)
        with looks.no_broadcasting() if first else nullcontext():  # once: it forgets which warnings were given
            parts = {
                name: weight * looks.loss_of(objective, name, student, teacher, batch)
                for (weight, name), objective in zip(self.terms, self.objectives, strict=True)
            }
        if torch.is_grad_enabled() and (first or self.unreached):
            self.unreached = looks.unreached(parts if first else self.unreached, parts, student)
        return cast(Tensor, sum(parts.values())), parts


def _made(
    kind: type[Objective], student: ModelInfo, teacher: ModelInfo, layers: LayerMap, settings: Values
) -> Objective:
    """An objective with its settings. Raises TrainingFailure for one whose `__init__` forgets that of its base."""
    forgot = TrainingFailure(
        f"{OBJECTIVES.called(kind.name)}: its __init__ must begin with super().__init__(student, teacher, layers)"
    )
    try:
        made = kind(student, teacher, layers, **settings)
    except AttributeError as error:
        if "before Module.__init__() call" not in str(error):  # torch's own words for what is assigned too early
            raise
        raise forgot from error
    if "_modules" not in vars(made):  # nothing of torch's was assigned, which it would have refused
        raise forgot
    return made


def sums_of(objective: nn.Module) -> list[Sum]:
    """The sums that an objective is made of."""
    return [part for part in objective.modules() if isinstance(part, Sum)]


def check_reached(objective: nn.Module) -> None:
    """Raise TrainingFailure for a term of which no batch so far had a gradient for what the student gives."""
    for name in sorted(name for part in sums_of(objective) for name in part.unreached):
        needs = ", ".join(sorted(signal.value for signal in OBJECTIVES.get(name).needs))
        raise TrainingFailure(
            f"{OBJECTIVES.called(name)} trains nothing: in no batch did its loss depend on what the student "
            f"gives ({needs}), as happens after detach() or argmax()"
        )


def why(objective: nn.Module) -> str:
    """What is to be added to the sentence on a loss that is not finite."""
    told = (found for part in sums_of(objective) for found in part.suspects.items())
    return next((f": {sentence}" for sentence, so in told if bool(so.any())), "")


def check_trains(loss: Tensor, terms: Iterable[str]) -> None:
    """Raise TrainingFailure for a loss without a gradient."""
    if not loss.requires_grad:
        raise TrainingFailure(
            f"the loss of {' and '.join(terms)} depends on no trained weight: the objective or the student "
            "cuts off its gradient, for instance by detach(), argmax() or no_grad()"
        )


def check_parameters(parts: Mapping[str, Tensor], trained: Iterable[nn.Parameter]) -> None:
    """Raise TrainingFailure for a term that depends on a parameter which the optimiser does not have."""
    known = set(map(id, trained))
    for name, part in parts.items():
        for lacking in (one for one in looks.parameters_of(part) if id(one) not in known):
            raise TrainingFailure(
                f"the loss of {name} depends on a parameter of shape {tuple(lacking.shape)} that nothing trains: "
                "an objective or a student must create what it learns in __init__ as an attribute, several modules as "
                "an nn.ModuleList; what is in a plain list or made in forward is not found"
            )


@dataclass
class Told:
    """What is told of the terms of a sum since the curve's last point: a state that a checkpoint takes, as numbers.

    totals: term -> (the sum of its values, how many); first, shares: as the first batch that has the term gives them.
    """

    totals: dict[str, tuple[float, int]] = field(default_factory=dict)
    first: dict[str, float] = field(default_factory=dict)
    shares: dict[str, float | None] = field(default_factory=dict)

    def add(self, values: Mapping[str, float]) -> None:
        """Count the values of one more step."""
        for name, value in values.items():
            self.first.setdefault(name, value)
            total, number = self.totals.get(name, (0.0, 0))
            self.totals[name] = total + value, number + 1

    def terms(self) -> dict[str, Term]:
        return {
            name: {"value": total / number, "first": self.first[name], "share": self.shares.get(name)}
            for name, (total, number) in self.totals.items()
        }


def shares(parts: Mapping[str, Tensor], parameters: Iterable[Tensor]) -> dict[str, float | None]:
    """Each term's part of the sum of the norms of all terms' gradients; of a single one 1, without computing anything.

    parts: the weighted terms with their graph, which is kept. None where there is no gradient, or one that is not
    finite. One backward pass a term; gradients that parameters have, and random states, stay as they are.
    """
    if len(parts) == 1:
        return dict.fromkeys(parts, 1.0)
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    norms = {name: _norm(part, trained) for name, part in parts.items()}
    total = sum(norms.values())
    return {name: norm / total if 0 < total < float("inf") else None for name, norm in norms.items()}


def _norm(part: Tensor, parameters: list[Tensor]) -> float:
    if not part.requires_grad or not parameters:
        return 0.0
    found = torch.autograd.grad(part, parameters, retain_graph=True, allow_unused=True)
    whole = [one.coalesce().values() if one.is_sparse else one for one in found if one is not None]
    return float(nn.utils.get_total_norm(whole)) if whole else 0.0
