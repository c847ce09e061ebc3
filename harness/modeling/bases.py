"""The bases of plugins that are torch modules; apart from `harness.contracts`, so that it stays torch-free."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel, PreTrainedTokenizerBase

from harness.contracts import Batch, Hyperparameter, LayerMap, ModelInfo, Outputs, Recipe, Signal, Task, Want, rates
from harness.errors import UserError
from harness.files import checksum
from harness.hyperparameters import Values

Configuration = dict[str, Any]  # of a model of transformers, as its to_dict gives it
LoadTeacher = Callable[[], PreTrainedModel]  # gives the teacher's model, loaded when it is first asked for
sha256_of = checksum  # of a file that a teacher is made of, hexadecimal; read once for all runs of a session


def in_own_memory(model: nn.Module) -> None:
    """Copy every weight out of the file that it was read from and may still be mapped from.

    A file puts weights at any address, memory of torch's own at multiples of 64; on some processors a product of a
    matrix and one vector rounds by the address. After this the same weights give the same bits, wherever they come
    from.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()


class Objective(nn.Module):
    """A loss that transfers knowledge, with or without parameters of its own.

    The class attributes are set by the `@objective` decorator. `__init__` takes (student, teacher, layers) and the
    declared hyperparameters as keywords; `forward` takes the two models' outputs and the student's batch and returns
    a scalar. Parameters join the optimiser and, with buffers, the checkpoint.
    """

    name: ClassVar[str]
    needs: ClassVar[frozenset[Signal]]
    token_level: ClassVar[bool] = False
    stage: ClassVar[str] = "intermediate"  # or "prediction": it trains the layer that answers the task
    ranks: ClassVar[bool] = False  # it knows what logits (B, 1) are where `Batch.groups` are candidates to rank
    needs_labels: ClassVar[bool] = False  # it cannot do without the labels of a task
    without_labels: ClassVar[Values] = {}  # the hyperparameters with which it reads none
    hyperparameters: ClassVar[Mapping[str, Hyperparameter]] = {}
    defined_by: ClassVar[Any] = None  # the function or class that the decorator stood before

    def __init__(self, student: ModelInfo, teacher: ModelInfo, layers: LayerMap):
        super().__init__()

    @classmethod
    def refuse(cls, student: ModelInfo, teacher: ModelInfo, task: Task) -> str:
        """Why this objective cannot train this student from this teacher on this task, or ""."""
        return ""

    @classmethod
    def idle(cls, task: Task) -> frozenset[str]:
        """The hyperparameters that have no effect on this task."""
        return frozenset()

    @classmethod
    def wants(cls, student: ModelInfo, teacher: ModelInfo, layers: LayerMap) -> tuple[Want, Want]:
        """What to ask of (student, teacher): every needed signal, layers by the layer map."""
        return Want.of(cls.needs, layers.student_layers), Want.of(cls.needs, layers.teacher_layers)

    def prepare(self, labels: Tensor, size: int) -> None:
        """Called once before training. labels: (size,) the training labels in order of example index 0..size-1.

        Training batches then carry that index as `batch.ids`.
        """

    def forward(self, student: Outputs, teacher: Outputs, batch: Batch) -> Tensor:
        raise TypeError(f"objective {self.name} does not define forward")


class StudentConfig(PreTrainedConfig):
    """Everything needed to build a student again: its settings, the teacher's configuration and what the task asks.

    outputs: the task's width. pairs: the task's examples are pairs. vocabulary: the size of a vocabulary of the
    student's own, 0 where it reads with the teacher's.
    """

    model_type = "harness_student"

    def __init__(
        self,
        student: str = "",
        settings: Values | None = None,
        source: Configuration | None = None,
        outputs: int = 2,
        pairs: bool = False,
        vocabulary: int = 0,
        **kwargs: Any,
    ):
        self.student = student
        self.settings = settings or {}
        self.source = source or {}  # the teacher's Hugging Face configuration, as a dictionary
        self.outputs = outputs
        self.pairs = pairs
        self.vocabulary = vocabulary
        super().__init__(**kwargs)


class Student(PreTrainedModel):
    """A model that is trained. Class attributes are set by the `@student` decorator.

    Built by `cls(config)` with random weights; `initialise` then copies what the initialisation names. With
    `config.outputs` of 0 it has a masked-language-model head instead of one that answers a task.
    """

    config_class = StudentConfig
    name: ClassVar[str]
    emits: ClassVar[frozenset[Signal]]  # mlm_logits only on a corpus, logits only on a labelled task
    pair_encodings: ClassVar[tuple[str, ...]] = ("joint",)  # with several, `pair_encoding` is a hyperparameter
    hyperparameters: ClassVar[Mapping[str, Hyperparameter]] = {}
    file_inits: ClassVar[frozenset[str]] = frozenset()  # initialisations KIND:FILE, known by the file's content
    head_settings: ClassVar[frozenset[str]] = frozenset()  # hyperparameters that no corpus distillation depends on
    autocasts: ClassVar[bool] = True  # False: it computes in float32, whatever `precision` says

    def save_pretrained(self, folder: str | Path, **more: Any) -> None:  # type: ignore[override]
        """As the library's, but what shares memory is written under each of its names, unless the library ties it."""
        known = getattr(self, "all_tied_weights_keys", {})
        tied = {*known, *known.values()}
        weights = {name: tensor if name in tied else tensor.clone() for name, tensor in self.state_dict().items()}
        super().save_pretrained(folder, state_dict=weights, **more)

    @classmethod
    def from_pretrained(cls, folder: str | Path) -> Any:  # type: ignore[override]
        """The student that `save_pretrained` wrote, for use. Raises UserError for weights that are not its own.

        The library's makes a model without memory first, which leaves what `__init__` computes, as a table of
        positions that no file has, undefined.
        """
        with torch.random.fork_rng(devices=[]):  # the weights that it draws are all replaced
            student = cls(cls.config_class.from_pretrained(folder, local_files_only=True))
        own, found = student.state_dict(), load_file(Path(folder) / "model.safetensors")
        tied = getattr(student, "all_tied_weights_keys", {})
        for name in sorted(own.keys() - tied.keys() | found.keys()):
            shapes = [tuple(weights[name].shape) if name in weights else None for weights in (own, found)]
            if shapes[0] != shapes[1]:
                raise UserError(f"{folder} is of another {cls.name}: its weight {name} is {shapes[1]}, not {shapes[0]}")
        student.load_state_dict(found, strict=False)
        return student.eval()

    @classmethod
    def checked(cls, settings: Values) -> dict[str, Any]:
        """Every setting of this student, defaults filled in. Raises UserError for a wrong value."""
        return {n: h.check(f"{cls.name}.{n}", settings.get(n, h.default)) for n, h in cls.hyperparameters.items()}

    @classmethod
    def describe(cls, settings: Values, teacher: ModelInfo, task: Task) -> ModelInfo:
        """The student that `settings` would give, without building it."""
        raise TypeError(f"student {cls.name} does not define describe")

    @classmethod
    def recipe(cls, teacher: ModelInfo) -> Recipe:
        """How students of its family are usually started, trained and searched when they learn from this teacher."""
        return Recipe(search={"learning_rate": rates(1e-4, 1e-2)})

    @classmethod
    def idle(cls, settings: Values) -> frozenset[str]:
        """The hyperparameters that have no effect beside the others in `settings`."""
        return frozenset()

    @classmethod
    def tokenizer(
        cls, settings: Values, teacher: PreTrainedTokenizerBase, texts: Iterable[str]
    ) -> PreTrainedTokenizerBase:
        """What the student reads text with: the teacher's tokenizer, or one that it makes of the training texts.

        Not asked where the student starts from another run's, whose tokenizer it keeps.
        """
        return teacher

    @classmethod
    def canonical_init(cls, init: str) -> str:
        """The one spelling of an initialisation. Raises UserError for one that this student does not know.

        `pretrained`, `pretrained:RUN` and `multi_task` are the engine's and never come here.
        """
        return init.strip()

    @classmethod
    def refuse_init(cls, init: str, settings: Values) -> str:
        """Why the student with these settings cannot start from `init`, or "". Raises UserError for a broken file."""
        return ""

    @classmethod
    def refuse_teacher(cls, init: str, settings: Values, teacher: ModelInfo) -> str:
        """Why the student with these settings cannot start from `init` where that takes from this teacher, or ""."""
        return ""

    @classmethod
    def layer_map(cls, init: str, student: ModelInfo, teacher: ModelInfo) -> LayerMap:
        """Which teacher layer each student layer learns from under `init`. Raises UserError for an unknown init."""
        raise TypeError(f"student {cls.name} does not define layer_map")

    @classmethod
    def built_like(cls, init: str, layers: LayerMap) -> dict[int, int]:
        """Which layer of the teacher each of its own is built like, where it is a model of the teacher's kind."""
        return {}

    def initialise(self, init: str, teacher: LoadTeacher, tokenizer: PreTrainedTokenizerBase) -> dict[str, object]:
        """Copy into this student the weights that `init` names; returns what is to be recorded of it.

        teacher() loads the teacher's model, for those who copy from it. tokenizer is the one the student reads with.
        Raises UserError on a mismatch.
        """
        raise TypeError(f"student {self.name} does not define initialise")

    def head_weights(self) -> set[str]:
        """The names, in the state dictionary, of the weights that answer the task: never taken from `pretrained`."""
        return {name for name in self.state_dict() if name.startswith("head.")}

    def layer_weights(self, number: int) -> set[str]:
        """The names of the weights of a layer (1-based), or with 0 of what lies before the first; none of no layer."""
        return set()

    def plain(self) -> PreTrainedModel | None:
        """transformers' own classifier of the same logits, where it has one of this kind; it shares the weights."""
        return None

    def forward(self, batch: Batch, want: Want) -> Outputs:
        raise TypeError(f"student {self.name} does not define forward")


class Emitter(PreTrainedModel):
    """A teacher's model of another library than transformers: it takes its signals out itself.

    config is that of the transformers model of the same architecture, of which students are built.
    base_model_prefix names the encoder among its modules; what stands outside answers a task.
    """

    def emit(
        self, encoding: dict[str, Tensor], want: Want, exact: bool = False, predicted: Tensor | None = None
    ) -> Outputs:
        """The signals asked for; arguments and errors as of `harness.modeling.signals.emit`."""
        raise TypeError(f"{type(self).__name__} does not define emit")

    def examined(self) -> Any:
        """What can be had of it, `harness.modeling.examination.Findings`, where it tells that itself."""
        return None

    def converted(self) -> PreTrainedModel:
        """The same encoder as transformers has it, whose layers a student may start from."""
        raise TypeError(f"{type(self).__name__} does not define converted")


class Teacher(ABC):
    """Where a teacher comes from: its configuration, tokenizer and base weights, by the argument after its name.

    `--teacher NAME:ARGUMENT`; a registered name without argument gets "". What is not registered is an argument of
    the `huggingface` teacher. Constructing one reads configuration only, never weights. data: the `--data` that it is
    made for, where nobody gives another. members: those of an ensemble, whose model is theirs together.
    """

    name: ClassVar[str]
    data: ClassVar[str] = ""
    members: Sequence[Teacher] = ()

    def __init__(self, argument: str = ""):
        self.argument = argument

    @abstractmethod
    def info(self, task: Task) -> ModelInfo:
        """What the teacher is on this task. Raises UserError where there is no such teacher."""

    @abstractmethod
    def content(self) -> str:
        """A hash of what the base weights are (file contents, or the recipe that makes them here)."""

    def parts(self) -> Sequence[Path] | None:
        """The files and folders outside this distribution that it is read from; None where they cannot be told.

        Where they are, a plan is known again by what they hold, without asking the teacher.
        """
        return None

    @abstractmethod
    def tokenizer(self) -> PreTrainedTokenizerBase:
        """The tokenizer that student and teacher read text with."""

    @abstractmethod
    def answers(self, task: Task) -> bool:
        """True if the base weights already hold a head trained for the task, so no fine-tuning is needed."""

    @abstractmethod
    def model(self, task: Task, weights: Path | None) -> PreTrainedModel:
        """The classifier for the task, transformers' own or an Emitter: base weights, or those in `weights`."""

    def untuned(self, task: Task) -> PreTrainedModel:
        """The classifier with the weights that a refinement on several tasks starts from: by default, base weights."""
        return self.model(task, None)

    @abstractmethod
    def configuration(self) -> Configuration:
        """The model's Hugging Face configuration, read without its weights."""

    def recipe(self, task: Task) -> Values:
        """Training settings recommended for fine-tuning this teacher on the task, as differences from defaults.

        On a corpus: for training the masked-language-model head of a teacher that has none.
        """
        return {}

    def pretraining(self) -> Values | None:
        """Settings of a masked-language-model pre-training that must come first, or None where weights exist."""
        return None

    @abstractmethod
    def masked_language_model(self, weights: Path | None = None) -> PreTrainedModel:
        """The teacher with its masked-language-model head: base weights, or those in the folder `weights`."""

    def convert(self, folder: Path) -> None:
        """Write the teacher into a new folder in Hugging Face's format. Raises UserError if it has no other format."""
        raise UserError(f"teacher {self.name} has only Hugging Face's format, so there is nothing to convert")

    def predicts_masked(self) -> bool:
        """True if the base weights hold a trained masked-language-model head; otherwise it is trained on the corpus."""
        return True
