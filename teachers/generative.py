"""Decoders (GPT-2, Llama), and the encoders of encoder-decoders (T5, BART), as teachers of logits and sentence vectors.

A decoder's token sees those before it alone, so its last token stands for the text, as in transformers' own sequence
classifiers of decoders. An encoder-decoder is read without its decoder, and the mean of its tokens' states stands for
the text (Ni et al., 2022, Sentence-T5), under a linear head of ours.

Their layers are compared with no student's, and copied into none: students called `transformer` are encoders like BERT
of the same sizes, and read with the same tokenizer.
"""

from __future__ import annotations

import copy
import math
from abc import abstractmethod
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import torch
from safetensors.torch import load_file, save_file
from tokenizers.processors import TemplateProcessing
from torch import Tensor, nn
from transformers import (
    AutoModel,
    AutoModelForSequenceClassification,
    PreTrainedConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
    PreTrainedTokenizerFast,
)
from transformers.models.auto.modeling_auto import (
    MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
    MODEL_FOR_MASKED_LM_MAPPING_NAMES,
    MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
)

from harness.contracts import ModelInfo, Outputs, Signal, Want
from harness.errors import UserError
from harness.modeling.bases import Emitter, in_own_memory
from harness.modeling.examination import Findings

DECODER, ENCODER = "decoder", "encoder-decoder"
EMITS = frozenset({Signal.LOGITS, Signal.SENTENCE})
WHY = {
    DECODER: "each token of a decoder sees those before it alone, as no student's does",
    ENCODER: "of an encoder-decoder logits and sentence vectors are taken alone",
}
MASKED = "it was never trained to predict masked tokens"
LONGEST = 512  # positions of the students that are built in its sizes
TOLERANCE = 1e-4  # as a share of the largest value
SCORE = "score.weight"


def form(config: PreTrainedConfig) -> str:
    """DECODER, ENCODER, or "" for what is an encoder, or can be no teacher."""
    kind = config.model_type
    if getattr(config, "is_encoder_decoder", False) or kind in MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES:
        return ENCODER
    next_alone = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    return DECODER if next_alone and type(config) in AutoModelForSequenceClassification._model_mapping else ""


def narrowed(info: ModelInfo, config: PreTrainedConfig) -> ModelInfo:
    """What such a teacher is, of what an encoder of its sizes would be."""
    found = _findings(form(config))
    return replace(info, emits=EMITS, lacks=found.lacks, uncopied=found.uncopied, students_alike=False)


def _findings(which: str) -> Findings:
    lacks = {signal.value: WHY[which] for signal in sorted(set(Signal) - EMITS)}
    return Findings(lacks | {Signal.MLM_LOGITS.value: MASKED}, WHY[which])


def student_configuration(config: PreTrainedConfig, padding: int) -> dict[str, Any]:
    """That of an encoder like BERT of the same sizes, of which students are built. padding: the id of that token."""
    positions = getattr(config, "max_position_embeddings", None) or LONGEST
    return {
        "model_type": "bert",
        "vocab_size": config.vocab_size,
        "hidden_size": config.hidden_size,
        "num_hidden_layers": config.num_hidden_layers,
        "num_attention_heads": math.gcd(config.num_attention_heads, config.hidden_size),
        "intermediate_size": 4 * config.hidden_size,
        "max_position_embeddings": min(positions, LONGEST),
        "type_vocab_size": 1,
        "pad_token_id": padding,
    }


def completed(tokenizer: PreTrainedTokenizerBase, config: PreTrainedConfig) -> PreTrainedTokenizerBase:
    """The tokenizer with a token to pad with, and, where it adds none, an end after each text (Radford et al., 2018).

    Without it nothing would part the texts of a pair. But what is a classifier already reads texts as it was trained
    to, without one. Raises UserError where the tokenizer has no such token.
    """
    ending = tokenizer.eos_token or tokenizer.bos_token or tokenizer.unk_token
    if ending is None:
        raise UserError(f"the tokenizer in {tokenizer.name_or_path} has no token that could end a text")
    classifies = any(name.endswith("ForSequenceClassification") for name in config.architectures or ())
    if not (classifies or tokenizer.num_special_tokens_to_add()):
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if backend is None:
            raise UserError(f"the tokenizer in {tokenizer.name_or_path} does not end texts, and cannot be made to")
        special = [(ending, tokenizer.convert_tokens_to_ids(ending))]
        one, two = f"$A {ending}", f"$A {ending} $B {ending}"
        backend.post_processor = TemplateProcessing(single=one, pair=two, special_tokens=special)
        tokenizer = PreTrainedTokenizerFast(  # its own class would make the rest of it anew when it is read again
            tokenizer_object=backend,
            model_max_length=tokenizer.model_max_length,
            model_input_names=tokenizer.model_input_names,
            truncation_side=tokenizer.truncation_side,
            **tokenizer.special_tokens_map,
        )
    if tokenizer.pad_token is None:
        tokenizer.pad_token = ending
    return tokenizer


# ---------------------------------------------------------------- models


class OneVector(Emitter):
    """A model that emits one vector a text and, with a head, what that answers."""

    _supports_sdpa = True  # as far as this class goes: what is inside says what it can

    def __init__(self, config: PreTrainedConfig):
        super().__init__(copy.deepcopy(config))  # which is changed to what this class is

    @classmethod
    def _can_set_experts_implementation(cls) -> bool:
        return True  # as above: otherwise no mixture of experts could be inside

    @property
    @abstractmethod
    def head(self) -> nn.Linear | None:
        """What answers the task by the vector."""

    @abstractmethod
    def vectors(self, encoding: dict[str, Tensor]) -> Tensor:
        """(B, D), of input_ids and attention_mask, (B, L) each, padded on the right."""

    def emit(
        self, encoding: dict[str, Tensor], want: Want, exact: bool = False, predicted: Tensor | None = None
    ) -> Outputs:
        outputs, vectors = Outputs(), self.vectors({n: encoding[n] for n in ("input_ids", "attention_mask")})
        if want.sentence:
            outputs.sentence = vectors
        if want.logits and self.head is not None:
            outputs.logits = self.head(vectors)
        return outputs

    @abstractmethod
    def alone(self, ids: Tensor) -> Tensor:
        """What the library says of one text, (1, L): its logits, or without a head its vector."""

    @torch.no_grad()
    def examined(self) -> Findings:
        """What can be had of it. Raises UserError where it does not say of a padded batch what it says of each text."""
        self.eval()
        ids = torch.arange(3, 17, device=self.device).view(2, 7) % self.config.vocab_size
        mask = torch.ones_like(ids)
        mask[1, 4:] = 0
        try:
            found = self.emit({"input_ids": ids, "attention_mask": mask}, Want(logits=True, sentence=True))
            ours = found.sentence if self.head is None else found.logits
            theirs = torch.cat([self.alone(ids[:1]), self.alone(ids[1:, :4])])
        except Exception as error:  # models of the library raise anything where they need more than text
            raise UserError(
                f"a model of type {self.config.model_type} cannot be used: its library fails to run it on a small "
                f"batch ({type(error).__name__}: {error})"
            ) from error
        off = float((ours - theirs).abs().max())
        if not off <= TOLERANCE * max(float(theirs.abs().max()), 1e-6):
            raise UserError(
                f"a model of type {self.config.model_type} cannot be used: its answers would be {off:.2g} away from "
                "what its library says"
            )
        return _findings(form(self.config))


class Decoder(OneVector):
    """transformers' own model of a decoder, with its sequence-classification head or with none.

    The vector is the last token's state after the last layer, normalised as the model does. Raises UserError for a
    head that reads anything else.
    """

    def __init__(self, inner: PreTrainedModel):
        super().__init__(inner.config)
        self.inner = inner
        self.base_model_prefix = f"inner.{inner.base_model_prefix}"
        heads = [] if inner.base_model is inner else [m for n, m in inner.named_children() if m is not inner.base_model]
        if len(heads) > 1 or not all(isinstance(head, nn.Linear) for head in heads):
            raise UserError(
                f"a model of type {inner.config.model_type} is a decoder whose classifier is more than a layer on the "
                "last token's state, so it cannot be a teacher"
            )

    @property
    def head(self) -> nn.Linear | None:
        parts = [part for part in self.inner.children() if part is not self.inner.base_model]
        return cast(nn.Linear, parts[0]) if self.inner.base_model is not self.inner else None

    def vectors(self, encoding: dict[str, Tensor]) -> Tensor:
        states = self.inner.base_model(**encoding, use_cache=False).last_hidden_state  # (B, L, D)
        last = (encoding["attention_mask"].sum(1) - 1).clamp(min=0)  # a text may have no token
        return states[torch.arange(len(last), device=last.device), last]

    def alone(self, ids: Tensor) -> Tensor:
        told = self.inner(input_ids=ids)
        return told.last_hidden_state[:, -1] if self.head is None else told.logits

    def save_pretrained(self, save_directory: Any, *arguments: Any, **more: Any) -> None:
        """As transformers has it, so that it is a checkpoint like any other."""
        self.inner.save_pretrained(save_directory, *arguments, **more)


class Encoder(OneVector):
    """The encoder of an encoder-decoder, under a linear head of its own, or under none."""

    base_model_prefix = "encoder"

    def __init__(self, config: PreTrainedConfig, encoder: PreTrainedModel, outputs: int):
        super().__init__(config)
        self.encoder = encoder
        self.score = nn.Linear(config.hidden_size, outputs, bias=False) if outputs else None

    @property
    def head(self) -> nn.Linear | None:
        return self.score

    def vectors(self, encoding: dict[str, Tensor]) -> Tensor:
        mask = encoding["attention_mask"].unsqueeze(-1)  # (B, L, 1)
        states = self.encoder(**encoding).last_hidden_state  # (B, L, D)
        return states.masked_fill(mask == 0, 0).sum(1) / mask.sum(1).clamp(min=1)

    def alone(self, ids: Tensor) -> Tensor:
        vector = self.encoder(input_ids=ids).last_hidden_state.mean(1)
        return vector if self.score is None else self.score(vector)

    def save_pretrained(self, save_directory: Any, *arguments: Any, **more: Any) -> None:
        folder = Path(save_directory)
        folder.mkdir(parents=True, exist_ok=True)
        self.config.save_pretrained(folder)
        weights = {name: tensor.detach().cpu().clone().contiguous() for name, tensor in self.state_dict().items()}
        save_file(weights, folder / "model.safetensors", {"format": "pt"})


def encoder_of(model: PreTrainedModel, config: PreTrainedConfig, outputs: int) -> Encoder:
    """The encoder of a whole model, under a fresh head drawn from torch's random state; with 0 outputs under none."""
    found = Encoder(config, cast(Any, model).get_encoder(), outputs)
    in_own_memory(found)
    return found


def saved_encoder(config: PreTrainedConfig, folder: Path) -> Encoder:
    """What `Encoder.save_pretrained` wrote, with its head. Raises UserError for anything else."""
    weights = load_file(folder / "model.safetensors")
    if SCORE not in weights:
        raise UserError(f"the weights in {folder} lack {SCORE}")
    with torch.random.fork_rng(devices=[]):  # its random weights are all replaced
        model = encoder_of(AutoModel.from_config(config, dtype=torch.float32), config, len(weights[SCORE]))
    model.load_state_dict(weights)
    return model.eval()
