"""A RoBERTa that fairseq itself computes. fairseq is imported when a model is made, not before."""

from __future__ import annotations

import copy
from argparse import Namespace
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_file
from torch import Tensor
from transformers import PreTrainedModel, RobertaConfig, RobertaModel

from harness.contracts import LAYER_SIGNALS, Outputs, Signal, Task, Want
from harness.errors import UserError
from harness.modeling import fairseq_library
from harness.modeling.bases import Emitter
from harness.teachers.fairseq_checkpoint import Checkpoint
from harness.teachers.fairseq_weights import HEADS, MASKED_HEAD, encoder_state

WEIGHTS = "model.safetensors"
HEAD = "task"  # what the classification head is called while fairseq makes it


class FairseqRoberta(Emitter):
    """fairseq's encoder under its head for a task, or under its masked-language-model head.

    config: that of transformers' RoBERTa of the same architecture. roberta: fairseq's model, with a classification head
    called `HEAD`, or with none where masked tokens are predicted. Padding is what the attention mask says. fairseq
    computes every layer the same way whatever is asked, so `exact` changes nothing.
    """

    config_class = RobertaConfig
    base_model_prefix = "encoder"

    def __init__(self, config: RobertaConfig, roberta: Any):
        super().__init__(config)
        self.encoder = roberta.encoder.sentence_encoder
        if HEAD in roberta.classification_heads:
            self.classification_head = roberta.classification_heads[HEAD]
        else:
            self.lm_head = roberta.encoder.lm_head
            self._tied_weights_keys = {"lm_head.weight": "encoder.embed_tokens.weight"}
        self.post_init()

    def _init_weights(self, module: Any) -> None:
        """Nothing: fairseq has initialised its modules."""

    def get_input_embeddings(self) -> Any:
        return self.encoder.embed_tokens

    def emit(
        self, encoding: dict[str, Tensor], want: Want, exact: bool = False, predicted: Tensor | None = None
    ) -> Outputs:
        padding = ~encoding["attention_mask"].bool()  # (B, L)
        tokens = encoding["input_ids"].masked_fill(padding, self.config.pad_token_id)
        layered = any(getattr(want, signal.value) for signal in LAYER_SIGNALS | {Signal.EMBEDDINGS})
        found = self.encoder(tokens, return_all_hiddens=layered)
        features = found["encoder_out"][0].transpose(0, 1)  # (L, B, D) -> (B, L, D)
        states = [state.transpose(0, 1) for state in found["encoder_states"]]
        outputs = Outputs(
            hidden_states={layer: states[layer] for layer in sorted(want.hidden_states)},
            attention_scores={i: self._scores(states[i - 1], i) for i in sorted(want.attention_scores)},
        )
        for signal, projection in (("queries", "q_proj"), ("keys", "k_proj"), ("values", "v_proj")):
            for i in sorted(getattr(want, signal)):
                getattr(outputs, signal)[i] = self._projected(states[i - 1], i, projection)
        if want.embeddings:
            outputs.embeddings = states[0]
        if want.logits:
            outputs.logits = self.classification_head(features)
        if want.sentence:
            outputs.sentence = features[:, 0]
        if want.mlm_logits and predicted is not None:
            outputs.mlm_logits = self.lm_head(features.flatten(0, 1)[predicted])  # (P, D) -> (P, V)
        return outputs

    def _scores(self, states: Tensor, layer: int) -> Tensor:
        """(B, L, D) what the layer reads -> (B, H, L, L). fairseq's attention never gives out its own in one pass."""
        scaling = self.encoder.layers[layer - 1].self_attn.scaling
        query, key = (self._projected(states, layer, name) for name in ("q_proj", "k_proj"))
        return query * scaling @ key.transpose(-1, -2)

    def _projected(self, states: Tensor, layer: int, name: str) -> Tensor:
        """(B, L, D) -> (B, H, L, D / H)."""
        projection = getattr(self.encoder.layers[layer - 1].self_attn, name)
        heads: Tensor = projection(states).unflatten(-1, (self.config.num_attention_heads, -1))  # (B, L, H, D / H)
        return heads.transpose(1, 2)

    def converted(self) -> PreTrainedModel:
        config: Any = copy.deepcopy(self.config)
        with torch.random.fork_rng(devices=[]):  # its random weights are all replaced
            model: PreTrainedModel = RobertaModel(config, add_pooling_layer=False)
        model.load_state_dict(encoder_state(self.encoder.state_dict(), self.config.num_hidden_layers))
        return model.to(self.encoder.embed_tokens.weight.device).train(self.training)


def classifier(checkpoint: Checkpoint, task: Task, weights: Path | None) -> FairseqRoberta:
    """The checkpoint's encoder under the head that answers the task, a fresh one if it has none.

    weights: a folder that `save_pretrained` of such a model wrote; its encoder is taken, and its head if there is one.
    A fresh head is drawn from torch's random state, as fairseq draws it. Raises UserError if fairseq is not installed,
    or weights are missing or do not fit.
    """
    roberta = _build(checkpoint)
    roberta.register_classification_head(HEAD, task.outputs)
    config = checkpoint.config_for(task)
    if weights is not None:
        return _with_weights(FairseqRoberta(config, roberta), weights)
    state = _load(roberta, checkpoint)
    if checkpoint.head(task):
        roberta.classification_heads[HEAD].load_state_dict(checkpoint.head_weights(task, state))
    return FairseqRoberta(config, roberta)


def masked_language_model(checkpoint: Checkpoint, weights: Path | None) -> FairseqRoberta:
    """The checkpoint with its masked-language-model head; a fresh one where it has none. Otherwise as `classifier`."""
    roberta = _build(checkpoint)
    if weights is not None:
        return _with_weights(FairseqRoberta(checkpoint.config, roberta), weights)
    _load(roberta, checkpoint)
    return FairseqRoberta(checkpoint.config, roberta)


def _build(checkpoint: Checkpoint) -> Any:
    """fairseq's model with random weights. Raises UserError if fairseq is not installed."""
    with fairseq_library.importing(
        "teacher fairseq", "; or harness convert makes a Hugging Face folder of it without fairseq"
    ):
        from fairseq.data import Dictionary
        from fairseq.models.roberta import RobertaModel as Roberta
    dictionary = Dictionary()
    for symbol in checkpoint.symbols[dictionary.nspecial :]:
        dictionary.add_symbol(symbol, overwrite=True)
    arguments = Namespace(**checkpoint.settings, max_positions=checkpoint.positions)
    return Roberta.build_model(arguments, Namespace(source_dictionary=dictionary))


def _load(roberta: Any, checkpoint: Checkpoint) -> dict[str, Tensor]:
    """Fill in the checkpoint's encoder and masked-language-model head; returns all of its weights."""
    weights = checkpoint.weights()
    state = {name: tensor for name, tensor in weights.items() if not name.startswith(HEADS)}
    own = roberta.state_dict()
    state |= {name: own[name] for name in own if name.startswith(HEADS)}
    if not checkpoint.masked:
        # Where the two are tied, fairseq's own is the word embeddings, under a second name.
        state |= {name: own[name] for name in own if name.startswith(MASKED_HEAD)}
    try:
        roberta.load_state_dict(state)  # renames what older versions called otherwise
    except RuntimeError as error:
        raise UserError(f"fairseq cannot load {checkpoint.file}: {str(error).strip().splitlines()[-1]}") from error
    return weights


def _with_weights(model: FairseqRoberta, folder: Path) -> FairseqRoberta:
    """Fill in the weights of a folder; a head that it lacks stays as it is. Raises UserError for what does not fit."""
    file = folder / WEIGHTS
    try:
        found = load_file(file)
    except (OSError, SafetensorError) as error:
        raise UserError(f"{file} is not a complete safetensors file: {error}") from error
    own = model.state_dict()
    given = {name: found[name] for name in own if name in found}
    for name, tensor in given.items():
        if tensor.shape != own[name].shape:
            raise UserError(
                f"weight {name} in {folder} has shape {tuple(tensor.shape)}, but {tuple(own[name].shape)} is needed"
            )
    tied = set(model.all_tied_weights_keys)  # written under one name only
    missing = own.keys() - given.keys() - tied
    head = {name for name in own if not name.startswith(f"{model.base_model_prefix}.")} - tied
    if missing and missing != head:
        raise UserError(f"the weights in {folder} lack {min(missing - head or missing)}")
    model.load_state_dict(given, strict=False)
    return model
