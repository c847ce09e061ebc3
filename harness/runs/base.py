"""What a run is: one type a kind, whose JSON is what its identity is a hash of. Free of torch.

A kind says once what it depends on, what people call it, what may start from it, and how it is performed. A plugin's
procedure may bring kinds of its own: a subclass of `Run` with a `kind` is known as soon as its file is loaded.
"""

from __future__ import annotations

import dataclasses
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, ClassVar, NamedTuple

from harness.errors import UserError
from harness.files import JSON, digest
from harness.registry import PROCEDURES
from harness.runs.settings import Settings
from harness.runs.told import Performed

RunId = str  # 16 hexadecimal digits
PRETRAINED = "pretrained"  # the initialisation by corpus distillation, or by the run named after a colon
ONE_STAGE = "one_stage"  # the procedure of what is trained by one objective
MULTI_TASK = "multi_task"  # the initialisation by a student distilled on several tasks


@dataclass(frozen=True, kw_only=True)
class BaseTeacher:
    """A teacher as it was before any task. content: a hash of its weights; pretrained: the run that trained them."""

    name: str
    content: str
    pretrained: RunId | None = None


class TeacherName(NamedTuple):
    """A teacher plugin and its argument, as in `--teacher NAME:ARGUMENT`: what it is made of in any process."""

    name: str
    argument: str = ""

    def __str__(self) -> str:
        """What people call it by."""
        return self.argument or self.name


Teacher = BaseTeacher | RunId  # base weights, or those that a run left


def base_weights(teacher: Teacher) -> RunId | None:
    """The run whose weights a teacher's model is loaded from; None where they are the teacher's own."""
    return teacher if isinstance(teacher, str) else teacher.pretrained


@dataclass(frozen=True, kw_only=True)
class Run:
    """A training or a measurement. What a field holds None or False of is not part of what the run is.

    settings: all of them, those of plugins under "student.NAME" or "objective.NAME". seed: None of a cell, whose runs
    differ in it. plugins: code of plugins outside the distribution, see `code_versions.outside`.
    """

    kind: ClassVar[str] = ""
    known: ClassVar[dict[str, type[Run]]] = {}  # kind -> its type
    performed_by: ClassVar[str] = ""  # module:function of harness.jobs, which stands above this room
    trained_by: ClassVar[str] = ""  # the objective of all runs of a kind that has no field of that name
    role: ClassVar[str] = ""  # what those call it that start from it
    scored: ClassVar[bool] = False  # it stands in a table: its record tells metrics, and what it was selected by
    predicts: ClassVar[bool] = False  # it answers a task, so that its predictions can be submitted
    leaves_model: ClassVar[bool] = False  # its weights answer its tasks: they may be kept, and taken home
    starts_students: ClassVar[bool] = False  # a student may start from the weights that it leaves
    shared_out: ClassVar[bool] = False  # several processes may train it together
    trains: ClassVar[bool] = True  # otherwise it measures
    by_folds: ClassVar[bool] = False  # it can be chosen by folds of its training data

    settings: Settings
    seed: int | None = None
    plugins: Mapping[str, str] | None = None

    def __init_subclass__(cls, **more: Any) -> None:
        super().__init_subclass__(**more)
        who = f"{cls.__qualname__} in {sys.modules[cls.__module__].__dict__.get('__file__', cls.__module__)}"
        if "kind" not in vars(cls):
            if cls.kind:  # its runs would be read, and performed, as those that it is derived from
                raise UserError(f"{who} must have a kind of its own, as in kind: ClassVar[str] = 'mine'")
            return
        taken = Run.known.get(cls.kind)
        if taken and (taken.__module__, taken.__qualname__) != (cls.__module__, cls.__qualname__):
            raise UserError(f"{who} has the same kind as {taken.__qualname__}, {cls.kind!r}: give it one of its own")
        Run.known[cls.kind] = cls

    @classmethod
    def read(cls, specification: JSON) -> Run:
        """The run that `specification` told. Raises UserError for a kind that nothing loaded knows."""
        kind = cls.kind_of(specification)
        if kind is Run:
            raise UserError(f"unknown kind of run {specification['kind']!r}: no loaded procedure has it")
        given = {name: _typed(name, value) for name, value in specification.items() if name != "kind"}
        return kind(**given)

    @classmethod
    def kind_of(cls, specification: JSON) -> type[Run]:
        """The kind of run that `specification` tells; `Run` itself where nothing loaded knows it."""
        kind = specification.get("kind", "")
        if kind not in cls.known:
            PROCEDURES.names()  # a procedure may bring kinds of its own
        return cls.known.get(kind, Run)

    def specification(self) -> JSON:
        """As JSON: everything that decides what the run is, and nothing else."""
        told = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        found = {name: as_json(value) for name, value in told.items() if value is not None and value is not False}
        return {"kind": self.kind, **found} if self.kind else found

    def identity(self, defaults: JSON) -> RunId:
        """The specification's hash, its settings reduced to differences from defaults.

        A setting that is added later with a default thus changes no earlier identity.
        """
        settings = Settings({k: v for k, v in self.settings.items() if k not in defaults or v != defaults[k]})
        if settings["train_examples"] and settings["train_fraction"] < 1:
            settings["share_of"] = "train_examples"  # in version 0.1 that of all data, which is more, was cut to them
        return digest({**self.specification(), "settings": settings})[:16]

    @property
    def title(self) -> str:
        """What the run is, for people."""
        return self.kind

    @property
    def tells(self) -> str:
        """How a table begins the sentence on the settings of such a run that others start from; "": it has none."""
        return ""

    @property
    def data_of(self) -> Mapping[str, str]:
        """The tasks whose examples it reads, with their content."""
        return {}

    @property
    def learns_from(self) -> Teacher | None:
        """Whom it imitates or fine-tunes, if anybody."""
        return getattr(self, "teacher", None)

    @property
    def replaces_words(self) -> Teacher | None:
        """The masked language model that its texts are augmented by."""
        return getattr(self, "masked_teacher", None)

    @property
    def starts_from(self) -> RunId | None:
        """The run whose student it starts from."""
        kind, _, run = getattr(self, "init", "").partition(":")
        return run if kind == PRETRAINED else None

    @property
    def depends_on(self) -> tuple[RunId, ...]:
        """The runs whose weights it reads."""
        teachers = [base_weights(who) for who in (self.learns_from, self.replaces_words) if who is not None]
        return tuple(dict.fromkeys(run for run in (*teachers, self.starts_from) if run))

    @property
    def student_name(self) -> str:
        """The student that it trains or measures, or ""."""
        return getattr(self, "student", "")

    @property
    def by_procedure(self) -> str:
        """The procedure that decides its stages, or ""."""
        return getattr(self, "procedure", "")

    def expressions(self) -> Sequence[str]:
        """The objectives that it trains by, sums as they are written."""
        objective = getattr(self, "objective", self.trained_by)
        return (objective,) if objective else ()

    @property
    def curves_before(self) -> Sequence[Sequence[float]]:
        """The selection scores, epoch by epoch, of the trials that a pruner compares it with."""
        return getattr(self, "before", None) or ()

    def perform(self, work: Any) -> Performed:
        """Do what the run is. work: a `harness.training.work.Work`."""
        module, _, function = self.performed_by.partition(":")
        return getattr(import_module(f"harness.jobs.{module}"), function)(self, work)


@dataclass(frozen=True, kw_only=True)
class Impossible(Run):
    """What stands in the place of the runs of a cell that cannot exist."""

    kind: ClassVar[str] = ""

    metric: str


def as_json(value: Any) -> Any:
    """A field of a run as its specification has it."""
    if isinstance(value, BaseTeacher):
        return {name: part for name, part in vars(value).items() if part is not None}
    return dict(value) if isinstance(value, Mapping) else value


def _typed(name: str, value: Any) -> Any:
    if name == "settings":
        return Settings(value)
    return BaseTeacher(**value) if name in ("teacher", "masked_teacher") and isinstance(value, Mapping) else value
