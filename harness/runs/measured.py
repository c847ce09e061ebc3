"""Runs that train no network."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from harness.files import JSON
from harness.runs.base import Run
from harness.runs.labelled import TaskRun


@dataclass(frozen=True, kw_only=True)
class MeasuredRun(Run):
    """A model of random weights: a student, or (student "") the model of the configuration itself."""

    scored: ClassVar[bool] = True
    trains: ClassVar[bool] = False

    task: str
    student: str
    configuration: JSON
    metric: str

    @property
    def title(self) -> str:
        return f"{self.kind} of {self.student or self.configuration['model_type']}"


@dataclass(frozen=True, kw_only=True)
class CountRun(MeasuredRun):
    """How many parameters a model has."""

    kind: ClassVar[str] = "count"
    performed_by: ClassVar[str] = "measuring:count_parameters"


@dataclass(frozen=True, kw_only=True)
class SpeedRun(MeasuredRun):
    """How fast a model encodes, beside a reference."""

    kind: ClassVar[str] = "speed"
    performed_by: ClassVar[str] = "measuring:measure_speed"

    reference: JSON


@dataclass(frozen=True, kw_only=True)
class BaselineRun(TaskRun):
    """What the examples that students learn from tell of dev without any model; see `harness.rows.BaselineRow`."""

    kind: ClassVar[str] = "baseline"
    performed_by: ClassVar[str] = "baselines:measure"
    trains: ClassVar[bool] = False
    predicts: ClassVar[bool] = False

    baseline: str

    @property
    def title(self) -> str:
        return f"baseline {self.baseline} on {self.task}"
