"""What the engine and the plugins say to each other.

Free of torch: studies and refusals never wait for it. `Objective`, `Student`, `Teacher`: `harness.modeling.bases`.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import TYPE_CHECKING, Any

from harness.batch import IGNORED as IGNORED
from harness.batch import Batch as Batch
from harness.batch import Encoding as Encoding
from harness.batch import onto as onto
from harness.errors import unknown
from harness.files import JSON
from harness.hyperparameters import Hyperparameter as Hyperparameter  # part of what is said
from harness.hyperparameters import Recipe as Recipe
from harness.hyperparameters import rates as rates
from harness.rows import BASELINES as BASELINES
from harness.rows import CONTROLS as CONTROLS
from harness.rows import BaselineRow as BaselineRow
from harness.rows import CheckpointRow as CheckpointRow
from harness.rows import GainRow as GainRow
from harness.rows import ModelRow as ModelRow
from harness.rows import Row as Row
from harness.rows import TableRow as TableRow
from harness.rows import TeacherRow as TeacherRow

if TYPE_CHECKING:
    from torch import Tensor


# ---------------------------------------------------------------- signals


class Signal(str, Enum):
    """Something a model can emit. Shapes: B examples, L tokens, D width, H heads, C labels, V vocabulary."""

    LOGITS = "logits"  # (B, C); C = 1 for regression and for ranking
    SENTENCE = "sentence"  # (B, D): a transformer's last first-token state, before any pooler;
    # (B, 2, D) of pairs whose sentences are read apart
    HIDDEN_STATES = "hidden_states"  # per layer (B, L, D); layer 0 is the embedding output
    ATTENTION_SCORES = "attention_scores"  # per layer (B, H, L, L), what the softmax sees, or with padding unmasked
    VALUES = "values"  # per layer (B, H, L, D / H)
    MLM_LOGITS = "mlm_logits"  # (P, V), at the P positions that `Batch.targets` asks for, row by row
    EMBEDDINGS = "embeddings"  # (B, L, D): what the first layer reads; of many models layer 0 of the hidden states
    QUERIES = "queries"  # per layer (B, H, L, D / H): queries keys^T / sqrt(D / H) is what attention is made of
    KEYS = "keys"  # per layer (B, H, L, D / H)


HEAD_SIGNALS = frozenset({Signal.QUERIES, Signal.KEYS, Signal.VALUES})  # per layer (B, H, L, D / H)
LAYER_SIGNALS = HEAD_SIGNALS | {Signal.HIDDEN_STATES, Signal.ATTENTION_SCORES}


@dataclass(frozen=True)
class Want:
    """The signals asked of one model. Layers are 1-based; 0 among hidden states is the embedding output."""

    logits: bool = False
    sentence: bool = False
    mlm_logits: bool = False
    hidden_states: frozenset[int] = frozenset()
    attention_scores: frozenset[int] = frozenset()
    values: frozenset[int] = frozenset()
    embeddings: bool = False
    queries: frozenset[int] = frozenset()
    keys: frozenset[int] = frozenset()

    @classmethod
    def of(cls, signals: frozenset[Signal], layers: Sequence[int] = ()) -> Want:
        """Want every one of `signals`, the layer signals from each of `layers`."""
        asked: dict[str, Any] = {s.value: frozenset(layers) if s in LAYER_SIGNALS else True for s in signals}
        return cls(**asked)

    def __or__(self, other: Want) -> Want:
        return Want(**{name: getattr(self, name) | getattr(other, name) for name in self.__dataclass_fields__})

    @classmethod
    def of_parts(cls, parts: Sequence[Sequence[Any]]) -> Want:
        """The Want with these `parts()`."""
        layers: dict[str, Any] = {}
        for name, layer in parts:
            layers[name] = True if layer < 0 else layers.get(name, frozenset()) | {layer}
        return cls(**layers)

    def parts(self) -> tuple[tuple[str, int], ...]:
        """Every single signal asked for, as (signal, layer), in a fixed order; layer -1 where there are no layers."""
        found: list[tuple[str, int]] = []
        for name in self.__dataclass_fields__:
            asked = getattr(self, name)
            found += [(name, -1)] if asked is True else [(name, layer) for layer in sorted(asked or ())]
        return tuple(found)


@dataclass
class Outputs:
    """The signals a model was asked for, and no others. Shapes as in `Signal`; layer signals are keyed by layer."""

    logits: Tensor = field(default=None)  # type: ignore[assignment]  # whoever asked for a signal finds it
    sentence: Tensor = field(default=None)  # type: ignore[assignment]
    mlm_logits: Tensor = field(default=None)  # type: ignore[assignment]
    hidden_states: dict[int, Tensor] = field(default_factory=dict)
    attention_scores: dict[int, Tensor] = field(default_factory=dict)
    values: dict[int, Tensor] = field(default_factory=dict)
    embeddings: Tensor = field(default=None)  # type: ignore[assignment]
    queries: dict[int, Tensor] = field(default_factory=dict)
    keys: dict[int, Tensor] = field(default_factory=dict)


@dataclass(frozen=True)
class ModelInfo:
    """What is known of a model before any weight is loaded.

    labels is the width of the logits (1 for regression and ranking, 0 on a corpus); tokenizer is a fingerprint: two
    models with the same one split text into the same tokens; pair_encoding is joint (one sequence), or how two
    sequences that are read apart are put together: diffcat, compare or biattention. vocabulary is 0 where it is made of
    the training texts. sentence_width and embedding_width are those of `sentence` and `embeddings` where they are not
    `width`. operations: multiplications that reading a token takes, by which a run's time is estimated; 0: those of a
    transformer's layers. first_token_sees_all: its state depends on all, not so in a model that only reads forward.
    students_alike: students of its configuration are of its kind. lacks, uncopied, traits:
    `harness.modeling.examination.Findings`.
    """

    name: str
    layers: int
    width: int
    heads: int
    vocabulary: int
    labels: int
    emits: frozenset[Signal]
    tokenizer: str
    pair_encoding: str = "joint"
    sentence_width: int = 0
    embedding_width: int = 0
    operations: int = 0
    first_token_sees_all: bool = True
    students_alike: bool = True
    lacks: Mapping[str, str] = field(default_factory=dict, hash=False)
    uncopied: str = ""
    traits: Sequence[Mapping[str, object]] = field(default=(), hash=False)


@dataclass(frozen=True)
class LayerMap:
    """Pairs of (student layer, teacher layer), 1-based: which teacher layer each student layer learns from."""

    pairs: tuple[tuple[int, int], ...]

    @property
    def student_layers(self) -> tuple[int, ...]:
        return tuple(s for s, _ in self.pairs)

    @property
    def teacher_layers(self) -> tuple[int, ...]:
        return tuple(t for _, t in self.pairs)


# ---------------------------------------------------------------- tasks

AGREEMENT = "agreement"  # the metric of who answers as the teacher does, see `Task.imitated`


@dataclass(frozen=True)
class Task:
    """A labelled data set and how it is scored, or an unlabelled corpus.

    label is its name in tables; folder and the column positions follow the official GLUE download; labels are the
    class names in order as the files print them (empty: regression); metrics are the names in `harness.evaluation`
    that are all recorded, of which `metric` stands in tables unless a study names another. bins: a score cast to
    classes (STS-B in 21) gives the value of each class. ranking: examples with the same first text are candidates to be
    ranked by a score, those of the first label above the others (`Batch.groups`). dev_splits: the first is "dev"; the
    others are scored too, their metrics prefixed with the rest of their name ("mismatched_accuracy"). corpus: text
    without labels, whose masked tokens are predicted. range: the least and the greatest score there may be. examples:
    about how many it has for training, for an estimate without them. labelled: otherwise nothing is trained or chosen
    by a label, the teacher's answers stand for them, and the splits need to have none; it is the same task.
    """

    name: str
    label: str
    metric: str
    metrics: tuple[str, ...]
    labels: tuple[str, ...] = ()
    pair: bool = False
    folder: str = ""
    bins: tuple[float, ...] = ()
    ranking: bool = False
    dev_splits: tuple[str, ...] = ("dev",)
    corpus: bool = False
    range: tuple[float, float] = (-math.inf, math.inf)
    examples: int = 0
    labelled: bool = field(default=True, compare=False)

    @property
    def imitated(self) -> Task:
        """The task to answer as a teacher does: the share of equal classes, or Spearman's correlation of scores."""
        metric = "accuracy" if self.classification and not self.bins else "spearman"
        return replace(self, metric=metric, metrics=(metric,), bins=())

    @property
    def outputs(self) -> int:
        """Width of a model's logits for this task: the number of classes, 1 for a score, 0 for a corpus."""
        if self.ranking:
            return 1
        return 0 if self.corpus else len(self.labels) or len(self.bins) or 1

    @property
    def classification(self) -> bool:
        """Whether its examples have classes, told by as many logits or, where they are ranked, by one."""
        return self.ranking or self.outputs > 1


# ---------------------------------------------------------------- studies


@dataclass(frozen=True)
class Profile:
    """One size of a study. Settings are named as in `--set`; search maps a setting to its grid or Hyperparameter.

    corpus is the unlabelled text of the procedure `general` and of the initialisation `pretrained`. families: what the
    profile does not say of a student's start, settings and search is as its family declares (`Student.recipe`), and
    the settings of objectives are searched where they declare between which bounds. sampler: grid, random or tpe; "" is
    grid for lists of values and tpe for ranges. students: in place of the study's. row_settings: what rows, by name,
    have in this size beside their own settings; it is told under the table.
    """

    teacher: str
    tasks: tuple[str, ...]
    inits: tuple[str, ...]
    trials: int
    seeds: int
    settings: Mapping[str, object] = field(default_factory=dict)
    task_settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)
    search: Mapping[str, Hyperparameter | Sequence[object]] = field(default_factory=dict)
    corpus: str = ""
    families: bool = False
    sampler: str = ""
    students: tuple[str, ...] = ()
    row_settings: Mapping[str, Mapping[str, object]] = field(default_factory=dict)


@dataclass(frozen=True)
class Published:
    """The published tables a study answers: CSVs, read as one, their lines as ours.

    files: names in `reports/papers/published`, or whole paths, as of a plugin's own beside it, whose columns are row,
    task, metric and value, where nothing is printed "", and std, note and split where there is any.

    axes maps a CSV column to the axis of ours that it must equal: "student" or "init" (an initialisation without what
    follows its colon). init, where it is no column, is the initialisation all the numbers were made with. quotients
    gives a metric of a speed that is not printed itself by a row: a line's number over that row's in the same task.
    printed_metrics maps a printed task to the CSVs' name of the metric that its numbers are, where the print is headed
    otherwise. reasons say why lines with these values in these columns cannot equal ours. omitted says why lines with
    these values, or a column of numbers by its name, stand in no comparison. notes are oddities, beyond those of the
    CSV's own note column, that are printed wherever the numbers are.
    """

    files: tuple[str, ...]
    source: str
    axes: Mapping[str, str] = field(default_factory=dict)
    init: str = ""
    quotients: Mapping[str, str] = field(default_factory=dict)
    printed_metrics: Mapping[str, str] = field(default_factory=dict)
    reasons: tuple[tuple[Mapping[str, str], str], ...] = ()
    omitted: tuple[tuple[str | Mapping[str, str], str], ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Told:
    """What a work's text tells of one setting of the profile `paper`, or of its teacher, tasks, inits, seeds or corpus.

    ours is the value there: one for all cells, a tuple of several, or by task with "" for the others. section is the
    place in the text, "" where it tells nothing; says is what stands there, where that is not ours; why tells where
    ours comes from.
    """

    ours: Any
    section: str = ""
    says: str = ""
    why: str = ""


@dataclass(frozen=True)
class Study:
    """A declared comparison: which rows, students and procedure, at which sizes, answering which published table.

    procedure is how its rows are trained or measured, where they do not say otherwise: a plugin, of which
    `harness list procedures` tells. metrics maps a task to the metric or metrics its columns show; epochs and settings
    are chosen by the first. "" maps to a quantity that is the same for all tasks, as a size, which has one column.
    relative_to is the row that others are compared with: a table shows their differences to it, and size_factor and
    time_factor are multiples of its own.

    general is the objective of the distillation that the initialisations `pretrained` (on a corpus) and `multi_task`
    start from. analysis is what is recorded of each model beyond its scores: "" or masked_word_entropy. figure says
    what the horizontal axis of the line figure is, whose points are the rows'. layout is how its table is arranged
    where --layout does not say: "lines", or "matrix" (rows by students and initialisations, task by task). told is what
    the text tells of the settings of the profile `paper`, by their names in `harness plan --explain`.
    """

    name: str
    title: str
    question: str
    procedure: str
    rows: tuple[TableRow, ...]
    students: tuple[str, ...]
    profiles: Mapping[str, Profile]
    published: Published | None = None
    metrics: Mapping[str, str | tuple[str, ...]] = field(default_factory=dict)
    general: str = "mlm_kd"
    analysis: str = ""
    figure: str = ""
    relative_to: str = ""
    layout: str = "lines"
    told: Mapping[str, Told] = field(default_factory=dict)

    def profile(self, name: str) -> Profile:
        """The profile called `name`. Raises UserError with the valid names."""
        if name not in self.profiles:
            raise unknown(f"profile of study {self.name}", name, self.profiles)
        return self.profiles[name]

    def rows_of(self, profile: str) -> tuple[TableRow, ...]:
        """The rows in the profile called so: with the settings that it gives them, which their marks say.

        Raises UserError as `profile` does.
        """
        made = []
        for row in self.rows:
            if here := self.profile(profile).row_settings.get(row.name):
                told = (f"{name} {value}" for name, value in here.items())
                mark = "; ".join(filter(None, (row.mark, *told)))
                row = replace(row, mark=mark, settings={**here, **row.settings})  # type: ignore[type-var]
            made.append(row)
        return tuple(made)

    def shown(self, task: Task) -> tuple[str, ...]:
        """The metrics that the task's columns show; the first is the one that epochs and settings are chosen by."""
        asked = self.metrics.get(task.name, task.metric)
        return (asked,) if isinstance(asked, str) else asked


# ---------------------------------------------------------------- results


@dataclass(frozen=True)
class RunResult:
    """One finished run as the ledger holds it. metrics are fractions or correlations (0.85, not 85)."""

    run: str
    seed: int
    hyperparameters: Mapping[str, object]
    metrics: Mapping[str, float]
    selection: float
    record: JSON


@dataclass(frozen=True)
class CellResult:
    """What the ledger says of one cell of a plan.

    refused is the reason the cell cannot exist, or "". seeds are the finished runs of the chosen setting, by seed;
    trials the finished search runs, pruned ones too; wanted_* how many of each the budget asks for; failures maps run
    to its error, before that of a run which the cell starts from. mark is said of the cell's row beside the row's own.
    searched_by_seed: each seed has a search of its own, and is its best trial.
    """

    cell: str
    row: TableRow
    student: str
    init: str
    task: str
    metric: str
    refused: str
    seeds: tuple[RunResult, ...] = ()
    trials: tuple[RunResult, ...] = ()
    wanted_seeds: int = 0
    wanted_trials: int = 0
    failures: Mapping[str, str] = field(default_factory=dict)
    mark: str = ""
    before: Mapping[str, str] = field(default_factory=dict)
    searched_by_seed: bool = False
