"""A transformer of the teacher's kind and width with fewer layers (Wang et al. 2023, section 4)."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from transformers import (
    AutoConfig,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from harness.contracts import Batch, Hyperparameter, LayerMap, ModelInfo, Outputs, Recipe, Signal, Task, Want, rates
from harness.errors import UserError
from harness.modeling import layer_maps
from harness.modeling.bases import Emitter, LoadTeacher, Student, StudentConfig
from harness.modeling.initialisation import built_otherwise, copy_layers
from harness.modeling.layers import BUILT_LIKE, build_like, lists_of_layers, places
from harness.modeling.signals import emit
from harness.registry import student

LAYERS = Hyperparameter(3, low=1, says="how many, of the teacher's kind")


@student("transformer", hyperparameters={"layers": LAYERS}, emits=set(Signal))
class Transformer(Student):
    """`layers` encoder layers of the teacher's kind, with a head of its kind on top; pairs are read jointly.

    `config.source` is the teacher's Hugging Face configuration; `built_like` in it are the layers of the teacher that
    the student's are built like, where a smaller model's own are built otherwise. Raises UserError if it does not say
    its model_type.
    """

    def __init__(self, config: StudentConfig):
        super().__init__(config)
        source = dict(config.source)
        kind = source.pop("model_type", None)
        if kind is None:
            raise UserError("a transformer student is built from its teacher's configuration; this has no model_type")
        layers = source.pop(BUILT_LIKE, None)
        inner = AutoConfig.for_model(kind, **source)
        inner.num_hidden_layers = LAYERS.check("layers", config.settings.get("layers", LAYERS.default))
        if config.outputs:
            inner.num_labels = config.outputs
        head = AutoModelForSequenceClassification if config.outputs else AutoModelForMaskedLM
        self.model: PreTrainedModel = head.from_config(inner, dtype=torch.float32, trust_remote_code=False)
        if layers:
            build_like(self.model, AutoConfig.for_model(kind, **source), layers)
        self.post_init()

    @classmethod
    def describe(cls, settings: Mapping[str, Any], teacher: ModelInfo, task: Task) -> ModelInfo:
        return ModelInfo(
            name=cls.name,
            layers=LAYERS.check("layers", settings.get("layers", LAYERS.default)),
            width=teacher.width,
            heads=teacher.heads,
            vocabulary=teacher.vocabulary,
            labels=task.outputs,
            emits=cls.emits,
            tokenizer=teacher.tokenizer,
        )

    @classmethod
    def recipe(cls, teacher: ModelInfo) -> Recipe:
        """The teacher's layers, evenly spread, and small rates: about 3e-5 at BERT-base's width, as the works have.

        That they rise as the width falls, by its power 1.5, is ours: 8e-5 at 384 and 1e-3 at 64 do well here.
        """
        middle = 3e-5 * (768 / teacher.width) ** 1.5
        low, high = (float(f"{rate:.0e}") for rate in (middle / 4, middle * 4))
        return Recipe("every", {"epochs": 5}, {"learning_rate": rates(low, high)})

    @classmethod
    def canonical_init(cls, init: str) -> str:
        return layer_maps.canonical_init(init)

    @classmethod
    def refuse_teacher(cls, init: str, settings: Mapping[str, Any], teacher: ModelInfo) -> str:
        if init == "random":
            return ""
        if teacher.uncopied:
            return f"no student can start from the weights of {teacher.name}: {teacher.uncopied}"
        return ""

    @classmethod
    def layer_map(cls, init: str, student: ModelInfo, teacher: ModelInfo) -> LayerMap:
        return layer_maps.layer_map(init, student.layers, teacher.layers)

    @classmethod
    def built_like(cls, init: str, layers: LayerMap) -> dict[int, int]:
        alone = init.startswith("random")  # as a smaller model of the kind is
        return {ours: ours if alone else theirs for ours, theirs in layers.pairs}

    def initialise(self, init: str, teacher: LoadTeacher, tokenizer: PreTrainedTokenizerBase) -> dict[str, Any]:
        init = layer_maps.canonical_init(init)
        if init != "random":
            model = teacher()
            depths = self.model.config.num_hidden_layers, model.config.num_hidden_layers
            layers = layer_maps.layers_of(init, *depths)
            source = model.converted() if isinstance(model, Emitter) else model
            if layers and built_otherwise(self.model, source, layers):
                build_like(self.model, source.config, layers)
                self.config.source = {**self.config.source, BUILT_LIKE: list(layers)}
            copy_layers(self.model, model, layers)
        return {}

    def layer_weights(self, number: int) -> set[str]:
        names = {n for n, _ in self.model.base_model.named_parameters()}
        of = places(self.model, number) if number else lists_of_layers(self.model)
        inside = {n for n in names if n.startswith(tuple(f"{path}." for path in of))}
        found = inside if number else {n for n in names - inside if not n.startswith("pooler.")}
        prefix = "" if self.model.base_model is self.model else f"{self.model.base_model_prefix}."
        return {f"model.{prefix}{n}" for n in found}

    def head_weights(self) -> set[str]:
        """Everything outside the encoder, and its pooler, which a masked language model has not."""
        encoder = f"model.{self.model.base_model_prefix}."
        return {n for n in self.state_dict() if not n.startswith(encoder) or n.startswith(f"{encoder}pooler.")}

    def plain(self) -> PreTrainedModel | None:
        return self.model if self.config.outputs else None

    def forward(self, batch: Batch, want: Want) -> Outputs:
        return emit(self.model, batch.encodings[0], want, predicted=batch.predicted)
