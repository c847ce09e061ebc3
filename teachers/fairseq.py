"""RoBERTa checkpoints of fairseq, computed by fairseq itself, or converted to Hugging Face's format without it."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import (
    PreTrainedModel,
    PreTrainedTokenizerBase,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    RobertaModel,
)

from harness.contracts import ModelInfo, Task
from harness.data.encoding import tokenizer_fingerprint
from harness.errors import UserError
from harness.modeling import gpt2_bpe
from harness.modeling.bases import Teacher, sha256_of
from harness.registry import TASKS, teacher
from harness.teachers import fairseq_roberta
from harness.teachers.fairseq_checkpoint import Checkpoint
from harness.teachers.fairseq_weights import ENCODER, encoder_state, masked_head_state, renamed
from harness.teachers.loading import describe, recipe_of


@teacher("fairseq")
class FairseqTeacher(Teacher):
    """A folder with a checkpoint (the first of model.pt, checkpoint_best.pt, checkpoint.pt and checkpoint_last.pt),
    dict.txt, encoder.json, vocab.bpe and, of a fine-tuned one, the label dictionary label/dict.txt.

    fairseq is imported only when a model is asked for. Raises UserError for what `Checkpoint` refuses.
    """

    def __init__(self, argument: str = ""):
        super().__init__(argument)
        if not argument:
            raise UserError("teacher fairseq needs the folder of a checkpoint, as in fairseq:FOLDER")
        self.checkpoint = Checkpoint(Path(argument).expanduser())

    def info(self, task: Task) -> ModelInfo:
        return describe(self.argument, self.checkpoint.config, tokenizer_fingerprint(self.tokenizer()), task)

    def content(self) -> str:
        files = self.checkpoint.files
        known = [f"{file.relative_to(self.checkpoint.folder)} {sha256_of(file)}\n" for file in files]
        return hashlib.sha256("".join(known).encode()).hexdigest()

    def parts(self) -> Sequence[Path]:
        return [self.checkpoint.folder]

    def tokenizer(self) -> PreTrainedTokenizerBase:
        tokenizer = gpt2_bpe.tokenizer(self.checkpoint.folder)
        tokenizer.model_max_length = self.checkpoint.positions
        return tokenizer

    def answers(self, task: Task) -> bool:
        """True if the checkpoint holds a classification head trained for this very task: see `Checkpoint.head`."""
        return bool(self.checkpoint.head(task))

    def recipe(self, task: Task) -> Mapping[str, Any]:
        return recipe_of(self.checkpoint.config, task)

    def model(self, task: Task, weights: Path | None) -> PreTrainedModel:
        return fairseq_roberta.classifier(self.checkpoint, task, weights)

    def masked_language_model(self, weights: Path | None = None) -> PreTrainedModel:
        return fairseq_roberta.masked_language_model(self.checkpoint, weights)

    def predicts_masked(self) -> bool:
        return self.checkpoint.masked

    def configuration(self) -> dict[str, Any]:
        return self.checkpoint.config.to_dict()

    def convert(self, folder: Path) -> None:
        """Write a sequence classifier where the checkpoint answers a task, or else a masked language model.

        Raises UserError where Hugging Face's format has no place for what the checkpoint is.
        """
        tokenizer = self.tokenizer()
        if len(tokenizer.get_vocab()) > len(self.checkpoint.symbols):
            raise UserError(
                f"{self.checkpoint.folder} cannot be converted: its dict.txt lacks pieces of encoder.json, which "
                f"Hugging Face's tokenizers cannot leave out; use --teacher fairseq:{self.argument} instead"
            )
        tasks = [task for task in map(TASKS.get, TASKS.names()) if isinstance(task, Task) and self.answers(task)]
        if len(tasks) > 1:
            raise UserError(
                f"{self.checkpoint.folder} answers {' and '.join(task.name for task in tasks)}, but a Hugging Face "
                f"folder has a single head; use --teacher fairseq:{self.argument} instead"
            )
        model = self._converted(tasks[0] if tasks else None)
        model.save_pretrained(folder)
        tokenizer.save_pretrained(folder)

    def _converted(self, task: Task | None) -> PreTrainedModel:
        checkpoint = self.checkpoint
        config = checkpoint.config if task is None else checkpoint.config_for(task)
        weights = renamed(checkpoint.weights())
        below = {name[len(ENCODER) :]: tensor for name, tensor in weights.items() if name.startswith(ENCODER)}
        encoder = encoder_state(below, config.num_hidden_layers)
        heads: dict[str, torch.Tensor] = {}
        model: PreTrainedModel
        if task is not None:
            model = RobertaForSequenceClassification(config)
            heads = {f"classifier.{name}": part for name, part in checkpoint.head_weights(task, weights).items()}
        elif checkpoint.masked:
            model = RobertaForMaskedLM(config)
            heads = {f"lm_head.{name}": tensor for name, tensor in masked_head_state(weights).items()}
        else:
            model = RobertaModel(config, add_pooling_layer=False)
        prefix = "" if model.base_model is model else f"{model.base_model_prefix}."
        model.load_state_dict({f"{prefix}{name}": tensor for name, tensor in encoder.items()} | heads)
        return model
