"""Any Hugging Face encoder with a classification head, from a local folder or by its name on the hub."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from huggingface_hub import snapshot_download
from huggingface_hub.errors import HTTPError  # type: ignore[attr-defined]  # that of the client which it asks through
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from harness.contracts import ModelInfo, Task
from harness.data import own
from harness.data.encoding import tokenizer_fingerprint
from harness.errors import UserError, alike
from harness.modeling.bases import Teacher
from harness.registry import TASKS, teacher
from harness.teachers import generative
from harness.teachers.architectures import KNOWN
from harness.teachers.loading import (
    DESCRIPTION,
    content_of,
    describe,
    holds_head,
    load_classifier,
    load_headless,
    load_masked,
    load_tuned,
    read_config,
    read_tokenizer,
    recipe_of,
)
from harness.teachers.weight_files import PICKLED, WEIGHTS, check_weights, line


@teacher("huggingface")
class HuggingFaceTeacher(Teacher):
    """A hub name ("roberta-base") or a folder with config.json, tokenizer files and safetensors weights.

    Constructing reads nothing from the hub and of a folder only its configuration and the weights' headers. Raises
    UserError for a folder that is missing, has no config.json or no sound safetensors weights.
    """

    def __init__(self, argument: str = ""):
        super().__init__(argument)
        if not argument:
            raise UserError("teacher huggingface needs a hub name or a folder, as in huggingface:roberta-base")
        self._heads: dict[Any, bool] = {}
        folder = Path(argument).expanduser()
        self.local = folder if folder.is_dir() else None
        if self.local is None and (argument[0] in "./~" or argument.count("/") > 1 or folder.exists()):
            meant = alike(folder, folders=True)
            raise UserError(f"teacher folder {argument} does not exist or is not a folder{meant}")
        if self.local is not None:
            check_weights(self.local)
            self.config  # noqa: B018 - a folder's configuration is read at once, so that its mistakes are told at once

    @cached_property
    def config(self) -> PreTrainedConfig:
        if self.local is None and self.argument in KNOWN:  # planned with where the hub is out of reach
            return AutoConfig.for_model(**KNOWN[self.argument])
        return read_config(self._folder(*DESCRIPTION))

    @property
    def form(self) -> str:
        """Whether it is more, or less, than an encoder: see `generative`."""
        return generative.form(self.config)

    def info(self, task: Task) -> ModelInfo:
        info = describe(self.argument or self.name, self.config, self.fingerprint, task)
        return generative.narrowed(info, self.config) if self.form else info

    @cached_property
    def fingerprint(self) -> str:
        known = self.local is None and self.argument in KNOWN
        return f"hub:{self.argument}" if known else tokenizer_fingerprint(self.tokenizer())

    def content(self) -> str:
        return content_of(self.weights())

    def parts(self) -> Sequence[Path] | None:
        return None if self.local is None else [self.local]

    def tokenizer(self) -> PreTrainedTokenizerBase:
        return read_tokenizer(self._folder(*DESCRIPTION))

    def answers(self, task: Task) -> bool:
        """True if the weights hold a classifier and the configuration records that it was trained for this very task.

        That is: `finetuning_task` naming the task ("rte" or "glue:rte") and
        as many labels. Label names prove nothing (RTE and QNLI share theirs), but where one is the task's in another
        place the head is not used, nor where a user's data have other classes than those of this name had that it was
        trained for, or are scores that are not recorded as those that it learnt from. Without such a record the teacher
        is fine-tuned with a fresh head; but where the task has no labels to do that with, any head of as many outputs
        answers that is not recorded as another task's.
        Raises UserError for one that was trained for the task with fewer classes.
        """
        recorded = str(getattr(self.config, "finetuning_task", None) or "").lower().rsplit(":")[-1]
        trained_for = recorded == task.name.lower()
        of_this = trained_for or not (task.labelled or recorded in TASKS.names())
        if not of_this or not self._holds(AutoModelForSequenceClassification, "ForSequenceClassification"):
            return False
        classes = self.config.num_labels or 0
        if trained_for and 1 < classes < len(task.labels):
            raise UserError(
                f"teacher {self.argument} was trained for {task.name} with {classes} classes, but its "
                f"data have {len(task.labels)}: {', '.join(task.labels)}"
            )
        if classes != task.outputs:
            return False
        names = tuple(str(name).lower() for _, name in sorted(dict(self.config.id2label or {}).items()))
        expected = tuple(label.lower() for label in task.labels)
        unnamed = not expected or names == tuple(f"label_{number}" for number in range(classes))
        if task.name in own.KNOWN and task.labelled and not (unnamed or names == expected):
            return False
        if task.name in own.KNOWN and task.labelled and not expected:  # scores have no names that tell them apart
            learnt_from = getattr(self.config, "finetuning_data", "")
            return bool(learnt_from) and learnt_from == own.KNOWN[task.name].source.content(task)
        return all(name == here or name not in expected for name, here in zip(names, expected, strict=False))

    def recipe(self, task: Task) -> Mapping[str, Any]:
        return recipe_of(self.config, task)

    def model(self, task: Task, weights: Path | None) -> PreTrainedModel:
        if weights is not None:
            return load_tuned(weights, task)
        return load_classifier(self.weights(), task, fresh_head=not self.answers(task))

    def masked_language_model(self, weights: Path | None = None) -> PreTrainedModel:
        """The teacher with its masked-language-model head; a fresh one where the weights hold none."""
        if self.form:
            return load_headless(weights or self.weights())
        return load_masked(weights or self.weights())

    def predicts_masked(self) -> bool:
        if self.form:
            raise UserError(f"teacher {self.argument} is a {self.form}: {generative.MASKED}")
        return self._holds(AutoModelForMaskedLM, "ForMaskedLM", "ForPreTraining")

    def _holds(self, kind: Any, *architectures: str) -> bool:
        """True if the weights hold the head of this kind of model; of a known hub name its architecture says so."""
        if self.local is None and self.argument in KNOWN:
            return any(name.endswith(architectures) for name in self.config.architectures or ())
        if kind not in self._heads:
            self._heads[kind] = holds_head(kind, self.weights())
        return self._heads[kind]

    def configuration(self) -> dict[str, Any]:
        if self.form:
            return generative.student_configuration(self.config, cast(int, self.tokenizer().pad_token_id))
        return self.config.to_dict()

    def weights(self) -> Path:
        """The folder of the base weights, fetched from the hub if need be. Raises UserError if they are not sound."""
        folder = self._folder(*DESCRIPTION, *WEIGHTS, "*.safetensors")
        if self.local is None and not any((folder / name).is_file() for name in WEIGHTS):
            folder = self._folder(*DESCRIPTION, PICKLED)
        check_weights(folder)
        return folder

    def _folder(self, *patterns: str) -> Path:
        """The local folder, or the hub's files that match. Raises UserError if the hub cannot give them."""
        if self.local is not None:
            return self.local
        try:
            return Path(snapshot_download(self.argument, allow_patterns=list(patterns)))
        except (OSError, ValueError, HTTPError) as error:
            meant = alike(Path(self.argument), folders=True)
            raise UserError(
                f"teacher {self.argument} is not a local folder{meant and f' ({meant[2:]})'} and cannot be fetched "
                f"from the hub ({line(error)}); give a local folder, or minilm or embedded, which need no network"
            ) from error
