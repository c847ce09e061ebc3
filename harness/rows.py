"""The rows of a study's table, of six types. Part of `harness.contracts`, where plugins find them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from types import MappingProxyType
from typing import Any

from harness.errors import UserError
from harness.files import JSON

LABELS = "labels_only"  # the objective that teachers and checkpoints are fine-tuned by


class TableRow:
    """One line of a study's table, of one of the types below. What its type does not have, or it leaves free, is empty.

    published tells the row's lines in the published table: what they print as their row, or values of several columns
    by name. mark is a sentence printed under the table wherever the row was made otherwise than the rest. settings are
    those that make the row what it is, named as in `--set` ("student.head" is the setting `head` of whichever student).
    """

    # In the order in which plans hold them.
    name: str
    objective: str = ""
    label: str
    published: str | Mapping[str, str] = ""
    equal_epochs: bool = False
    mark: str = ""
    student: str = ""
    init: str = ""
    procedure: str = ""
    tasks: tuple[str, ...] = ()
    settings: Mapping[str, object] = MappingProxyType({})
    checkpoint: str = ""
    teacher: bool = False
    improves: tuple[str, ...] = ()
    training_tasks: tuple[str, ...] = ()
    point: tuple[str, float] | None = None
    reference: bool = False
    baseline: str = ""

    @property
    def competes(self) -> bool:
        """Whether the row is ranked among the students."""
        return not (self.teacher or self.reference)

    def to_json(self) -> JSON:
        """The row as plans hold it: alike whatever its type."""
        return {name: getattr(self, name) for name in TableRow.__annotations__} | {"settings": dict(self.settings)}

    @staticmethod
    def from_json(stored: JSON) -> TableRow:
        """The row of which a plan holds this."""
        kinds = {"improves": GainRow, "teacher": TeacherRow, "baseline": BaselineRow, "objective": Row}
        kind: Any = next((kinds[name] for name in kinds if stored.get(name)), ModelRow)
        kind = CheckpointRow if kind is Row and stored.get("checkpoint") else kind
        return kind(**{f.name: stored[f.name] for f in fields(kind) if f.name in stored})


@dataclass(frozen=True)
class Row(TableRow):
    """A student trained by an objective, given by its name or sum ("att_kl+hid_seq").

    student, init, procedure and tasks stand for the study's own where a row fixes them. equal_epochs gives a row that
    has only the prediction stage the epochs of both stages together. training_tasks are those that a student distilled
    on several tasks learns from, where they are not those of the table. point places the row in a line figure: (the
    line's label, where on the horizontal axis). reference: it is a control, and never best.
    """

    name: str
    objective: str = field()
    label: str
    published: str | Mapping[str, str] = ""
    equal_epochs: bool = False
    mark: str = ""
    student: str = ""
    init: str = ""
    procedure: str = ""
    tasks: tuple[str, ...] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    training_tasks: tuple[str, ...] = ()
    point: tuple[str, float] | None = None
    reference: bool = False

    def __new__(cls, *_: Any, **given: Any) -> Row:
        for name in ("checkpoint", "teacher", "improves"):  # until rows had types, fields of this one
            if name in given:
                kinds = {"checkpoint": CheckpointRow, "teacher": TeacherRow, "improves": GainRow}
                raise UserError(f"a Row describes a student and has no {name}: declare a {kinds[name].__name__}")
        return super().__new__(cls)


@dataclass(frozen=True)
class ModelRow(TableRow):
    """A model that no task trains: what is asked is its size, its speed, or what its vectors are as it starts.

    It is a student, or a checkpoint by its hub name.
    """

    name: str
    label: str
    published: str | Mapping[str, str] = ""
    student: str = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    checkpoint: str = ""
    init: str = ""
    mark: str = ""


@dataclass(frozen=True)
class CheckpointRow(TableRow):
    """A model by its hub name, fine-tuned on the labels as it is, where `--checkpoints` names the row.

    reference: it is no student, as a model of the teacher's size, and never best.
    """

    name: str
    label: str
    checkpoint: str = field()
    published: str | Mapping[str, str] = ""
    mark: str = ""
    reference: bool = False
    objective = LABELS


@dataclass(frozen=True)
class TeacherRow(TableRow):
    """The teacher itself, fine-tuned with the row's settings. It is never best."""

    name: str
    label: str
    published: str | Mapping[str, str] = ""
    settings: Mapping[str, object] = field(default_factory=dict)
    procedure: str = ""
    mark: str = ""
    objective, teacher = LABELS, True


@dataclass(frozen=True)
class GainRow(TableRow):
    """By how much the first of the two rows named in `improves` is better than the second; it has no cells."""

    name: str
    label: str
    improves: tuple[str, ...] = field()
    published: str | Mapping[str, str] = ""
    mark: str = ""


@dataclass(frozen=True)
class BaselineRow(TableRow):
    """What the training examples tell without any model: `baseline` is "majority" or "regression". It is never best."""

    name: str
    label: str
    baseline: str = field()
    mark: str = ""
    procedure, reference = "baseline", True


BASELINES = (
    BaselineRow(
        "majority",
        "Majority class or mean score",
        "majority",
        "a reference, no student: the commonest class of the training examples, or their mean score, for all",
    ),
    BaselineRow(
        "tfidf",
        "tf-idf + regression",
        "regression",
        "a reference, no student: logistic regression, or ridge regression of a score, on tf-idf of words and pairs of "
        "words (scikit-learn; of a pair of texts both, their difference and their product); no search",
    ),
)  # the rows of --baselines

CONTROLS = (
    Row(
        "control_smoothing",
        "label_smoothing",
        "Label smoothing",
        mark="a control: soft labels that no teacher gives",
        reference=True,
    ),
    Row(
        "control_random",
        "vanilla_kd",
        "Vanilla KD, random teacher",
        mark="a control: by a teacher of random weights, one for all seeds, which knows nothing",
        procedure="random_teacher",
        reference=True,
    ),
    Row(
        "control_shuffled",
        "vanilla_kd",
        "Vanilla KD, shuffled teacher",
        mark="a control: of each example what the teacher says of another one of its class",
        procedure="shuffled_teacher",
        reference=True,
    ),
    Row(
        "control_born_again",
        "vanilla_kd",
        "Vanilla KD, born again",
        mark="a control: by a student of its own kind, one for all seeds, that was trained on the labels",
        procedure="born_again",
        reference=True,
    ),
)  # the rows of --controls: what of a teacher's help is not what it knows
