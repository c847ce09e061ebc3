"""The update: AdamW or AdaDelta, its schedule, and AdamW for embedding tables of which a batch touches few rows."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from transformers import get_scheduler

from harness.errors import UserError
from harness.runs.settings import Settings, refused_rate
from harness.runs.told import State


class Optimisation:
    """Optimisers over a model and an objective's own parameters, with one schedule.

    The setting `optimiser` is adamw or adadelta. Under AdamW, embeddings made with `sparse=True` get lazy Adam
    (SparseAdam): only the rows that a batch looked up change. AdaDelta has no such form, so their gradients are made
    dense, which costs time, though rows not looked up do not change either. Neither these embeddings nor vectors
    (biases, norms) decay; AdaDelta's weight_decay is added to the gradient. A gradient_clip of 0 clips nothing.
    """

    def __init__(self, model: nn.Module, objective: nn.Module, settings: Settings, steps: int):
        """steps: of the whole stage, for the schedule. Raises UserError for settings that have none."""
        if refused := refused_rate(settings):
            raise UserError(refused)
        tables = {id(m.weight) for m in model.modules() if isinstance(m, nn.Embedding) and m.sparse}
        self.parameters = [p for module in (model, objective) for p in module.parameters() if p.requires_grad]
        self.rows = [p for p in self.parameters if id(p) in tables]
        self.adadelta = settings["optimiser"] == "adadelta"
        decayed = [p for p in self.parameters if p.ndim > 1 and id(p) not in tables]
        others = [p for p in self.parameters if p.ndim <= 1]
        groups: list[dict[str, object]] = [
            {"params": decayed, "weight_decay": settings["weight_decay"]},
            {"params": others + self.rows if self.adadelta else others, "weight_decay": 0.0},
        ]
        adam: dict[str, Any] = {"betas": (0.9, settings["adam_beta2"]), "eps": settings["adam_epsilon"]}
        self.optimisers: list[torch.optim.Optimizer] = []
        if self.adadelta:
            self.optimisers.append(torch.optim.Adadelta(groups, lr=settings["learning_rate"], rho=0.95, eps=1e-6))
        elif decayed or others:
            self.optimisers.append(torch.optim.AdamW(groups, lr=settings["learning_rate"], **adam, fused=True))
        if self.rows and not self.adadelta:
            self.optimisers.append(torch.optim.SparseAdam(self.rows, lr=settings["learning_rate"], **adam))
        warmup = int(settings["warmup_ratio"] * steps)
        self.schedulers = [get_scheduler(settings["schedule"], o, warmup, steps) for o in self.optimisers]
        self.clip = settings["gradient_clip"]
        self.rate = 0.0  # of the last update

    def step(self, loss: Tensor) -> None:
        """One update towards a smaller loss."""
        self.clear()
        loss.backward()
        self.update()

    def clear(self) -> None:
        """Forget the gradients."""
        for optimiser in self.optimisers:
            optimiser.zero_grad(set_to_none=True)

    def update(self) -> None:
        """One update by the gradients that the parameters have, the norm of all of them clipped."""
        for table in self.rows if self.adadelta else ():
            if table.grad is not None:
                table.grad = table.grad.to_dense()
        if self.clip and self.rows and not self.adadelta:
            self._clip_with_rows()
        elif self.clip:
            nn.utils.clip_grad_norm_(self.parameters, self.clip)
        for optimiser, scheduler in zip(self.optimisers, self.schedulers, strict=True):
            self.rate = float(optimiser.param_groups[0]["lr"])
            optimiser.step()
            scheduler.step()

    def _clip_with_rows(self) -> None:
        """As clip_grad_norm_, which refuses sparse gradients."""
        gradients = []
        for parameter in self.parameters:
            if parameter.grad is not None:
                if parameter.grad.is_sparse:
                    parameter.grad = parameter.grad.coalesce()  # rows looked up twice are summed
                gradients.append(parameter.grad.values() if parameter.grad.is_sparse else parameter.grad)
        norm = nn.utils.get_total_norm(gradients)
        scale = (self.clip / (norm + 1e-6)).clamp(max=1.0)
        for gradient in gradients:
            gradient.mul_(scale)

    def state_dict(self) -> State:
        return {
            "optimisers": [o.state_dict() for o in self.optimisers],
            "schedulers": [s.state_dict() for s in self.schedulers],
        }

    def load_state_dict(self, state: State) -> None:
        for part, saved in zip(self.optimisers, state["optimisers"], strict=True):
            part.load_state_dict(saved)
        for scheduler, saved in zip(self.schedulers, state["schedulers"], strict=True):
            scheduler.load_state_dict(saved)
