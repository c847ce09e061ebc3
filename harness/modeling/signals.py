"""Takes signals out of Hugging Face encoders: just the layers asked for, scores before softmax.

Attention is captured by an attention function of our own, registered with transformers' `AttentionInterface`: it runs
the fast kernel unless scores are asked of that layer. What is asked travels as a keyword of the call, so no state is
shared between calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.utils import logging

from harness.contracts import HEAD_SIGNALS, IGNORED, LAYER_SIGNALS, Outputs, Signal, Want
from harness.errors import UserError
from harness.modeling.bases import Emitter

IMPLEMENTATION = "harness_signals"
ATTENTION_SIGNALS = HEAD_SIGNALS | {Signal.ATTENTION_SCORES}
NEEDED = "the harness needs an encoder, such as BERT, RoBERTa, DistilBERT or ELECTRA"


@dataclass
class _Request:
    """What one call asks of the attention layers, and what they gave. Layers are 1-based."""

    want: Want
    explicit: bool  # every layer without the fused kernel
    found: Outputs = field(default_factory=Outputs)

    def asks(self, signal: Signal, layer: int) -> bool:
        return layer in getattr(self.want, signal.value)

    def take(self, signal: Signal, layer: int, tensor: Tensor) -> None:
        found = getattr(self.found, signal.value)
        if layer in found:
            raise UserError(f"layer {layer} attends more than once, so which attention is its own cannot be told")
        found[layer] = tensor

    @property
    def whole(self) -> bool:
        return all(len(getattr(self.found, s.value)) == len(getattr(self.want, s.value)) for s in ATTENTION_SIGNALS)


def _attention(
    module: nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    scaling: float | None = None,
    dropout: float = 0.0,
    signal_request: _Request | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Attention as transformers calls it. query, key, value: (B, H, L, D / H); the mask is bool, True = attend."""
    kwargs |= {"dropout": dropout, "scaling": scaling}
    if signal_request is None:
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    layer = int(getattr(module, "signal_layer", 0))  # set by `prepare`; 0: an attention outside the layers
    scaling = query.size(-1) ** -0.5 if scaling is None else scaling
    for signal, tensor in ((Signal.QUERIES, query), (Signal.KEYS, key), (Signal.VALUES, value)):
        if signal_request.asks(signal, layer):
            # of ESM the query comes scaled already
            rescaled = signal is Signal.QUERIES and not math.isclose(scaling, query.size(-1) ** -0.5)
            signal_request.take(signal, layer, tensor * (scaling * query.size(-1) ** 0.5) if rescaled else tensor)
    if not (signal_request.explicit or signal_request.asks(Signal.ATTENTION_SCORES, layer)):
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    scores = query @ key.transpose(-1, -2) * scaling  # (B, H, L, L)
    if signal_request.asks(Signal.ATTENTION_SCORES, layer):
        _check_mask(layer, attention_mask)
        signal_request.take(Signal.ATTENTION_SCORES, layer, scores)
    masked = scores
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        masked = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    elif attention_mask is not None:  # to be added, as some models make it themselves
        masked = scores + attention_mask
    attention = nn.functional.dropout(masked.softmax(-1), dropout, module.training)
    return (attention @ value).transpose(1, 2).contiguous(), None  # (B, L, H, D / H)


def _check_mask(layer: int, mask: Tensor | None) -> None:
    """Objectives mask padding, and nothing else, in the scores they get. mask: (B, 1, L, L) or None."""
    if mask is not None and not torch.equal(mask, mask[:, :1, :1].expand_as(mask)):
        raise UserError(f"layer {layer} attends to some of the tokens only, which its scores do not tell")


AttentionInterface.register(IMPLEMENTATION, _attention)
# Without a mask function of the same name transformers passes no mask at all, silently.
AttentionMaskInterface.register(IMPLEMENTATION, sdpa_mask)


def layers_path(model: PreTrainedModel) -> str:
    """The name, within `model.base_model`, of the list that holds the encoder's layers ("encoder.layer").

    Where there are several of that length, the outermost first one; `harness.modeling.examination` tells whether that
    was right. Raises UserError for a model that keeps its layers otherwise.
    """
    depth = getattr(model.config, "num_hidden_layers", None)
    for name, module in model.base_model.named_modules():  # outermost first
        if isinstance(module, nn.ModuleList) and len(module) == depth:
            return name
    raise UserError(
        f"a model of type {model.config.model_type} has no list of its {depth} encoder layers, so it "
        "can be neither teacher nor student; BERT, RoBERTa, DistilBERT and ELECTRA have one"
    )


def check_encoder(config: PreTrainedConfig) -> None:
    """Raise UserError for the configuration of a decoder, or of a model that has one."""
    kind = config.model_type
    refused = "is an encoder and a decoder" if getattr(config, "is_encoder_decoder", False) else ""
    # What the library has a head for the next token for, and none for masked ones.
    next_alone = kind in MODEL_FOR_CAUSAL_LM_MAPPING_NAMES and kind not in MODEL_FOR_MASKED_LM_MAPPING_NAMES
    refused = refused or ("is a decoder" if next_alone or getattr(config, "is_decoder", False) else "")
    if refused:
        raise UserError(f"a model of type {kind} {refused}; {NEEDED}")


def prepare(model: PreTrainedModel) -> None:
    """Make the model able to emit signals; a second call does nothing.

    Raises UserError for a decoder, whose first token sees no other, or a model without a list of layers.
    """
    if isinstance(model, Emitter) or getattr(model, "signals_prepared", False):
        return
    check_encoder(model.config)
    layers = model.base_model.get_submodule(layers_path(model))
    for number, layer in enumerate(layers.children(), start=1):
        for module in layer.modules():
            if getattr(module, "is_causal", False):
                raise UserError(f"a model of type {model.config.model_type} is a decoder; {NEEDED}")
            setattr(module, "signal_layer", number)  # noqa: B010
    set_attention(model, IMPLEMENTATION)
    setattr(model, "signals_prepared", True)  # noqa: B010


def set_attention(model: PreTrainedModel, implementation: str) -> None:
    """Let the model compute attention so, where it can; silently, for where it cannot, signals are missing."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        model.set_attn_implementation(implementation)
    finally:
        logging.set_verbosity(verbosity)


def emit(
    model: PreTrainedModel, encoding: dict[str, Tensor], want: Want, exact: bool = False, targets: Tensor | None = None
) -> Outputs:
    """Run an encoder with a sequence-classification or masked-language-model head; return the signals asked for.

    encoding: input_ids, attention_mask and possibly token_type_ids, each (B, L). Shapes of the signals are those of
    `harness.contracts.Signal`; `sentence` is the last layer's first-token state, before any pooler. The head runs only
    for logits. With `exact` no layer uses the fused kernel, so that asking for more never changes a bit of the rest.
    targets: (B, L), see `Batch`; the masked-language-model head runs only where they ask for a prediction.
    Raises UserError for a layer the model does not have, for a text longer than its positions, and for attention
    signals of a model whose attention does not go through transformers' attention interface.
    """
    prepare(model)
    depth = model.config.num_hidden_layers
    check_layers(type(model).__name__, depth, want)
    _check_length(model, encoding["input_ids"].shape[1])
    if isinstance(model, Emitter):
        return model.emit(encoding, want, exact, targets)
    request = _Request(want, exact)
    asked = exact or any(getattr(want, signal.value) for signal in ATTENTION_SIGNALS)
    arguments = {"signal_request": request} if asked else {}
    layers = want.hidden_states | ({depth} if want.sentence else set()) | ({0} if want.embeddings else set())
    network = model if want.logits or want.mlm_logits else model.base_model
    with _head_at(model, targets if want.mlm_logits else None), _states(model, layers) as found:
        output = network(**own_inputs(model, encoding), **arguments)
    if not request.whole:
        raise UserError(
            f"{type(model).__name__} does not use transformers' attention interface, so its attention "
            "scores, queries, keys and values cannot be had; choose an objective that needs none of them"
        )
    outputs = request.found
    if want.logits:
        outputs.logits = output.logits
    if want.mlm_logits:
        outputs.mlm_logits = output.logits
    if want.sentence:
        outputs.sentence = found[depth][:, 0]  # (B, L, D) -> (B, D)
    if want.embeddings:
        outputs.embeddings = found[0]
    outputs.hidden_states = {layer: found[layer] for layer in sorted(want.hidden_states)}
    return outputs


def own_inputs(model: PreTrainedModel, encoding: dict[str, Tensor]) -> dict[str, Tensor]:
    """The encoding without the segments where the model does not read them: DistilBERT takes none, RoBERTa only 0."""
    if getattr(model.config, "type_vocab_size", 0) >= 2:
        return encoding
    return {name: tensor for name, tensor in encoding.items() if name != "token_type_ids"}


@contextmanager
def _states(model: PreTrainedModel, layers: Set[int]) -> Iterator[dict[int, Tensor]]:
    """Fills a dictionary with the hidden states after these layers, (B, L, D) each; 0 is what the first layer reads.

    The library can select layers too, but its versions number them differently.
    """
    found: dict[int, Tensor] = {}
    base = model.base_model
    modules = list(base.get_submodule(layers_path(model)).children())

    def read(_: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Tensor]) -> None:
        found[0] = arguments[0] if arguments else keywords["hidden_states"]

    def keep(layer: int) -> Callable[[nn.Module, Any, Any], None]:
        def take(_: nn.Module, arguments: Any, output: Any) -> None:
            found[layer] = output if isinstance(output, Tensor) else output[0]

        return take

    hooks = [modules[0].register_forward_pre_hook(read, with_kwargs=True)] if 0 in layers else []
    for layer in layers - {0}:
        # What the whole encoder gives is the last state: some have a normalisation after the last layer.
        hooks.append((base if layer == len(modules) else modules[layer - 1]).register_forward_hook(keep(layer)))
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _head_at(model: PreTrainedModel, targets: Tensor | None) -> Iterator[None]:
    """Lets the head of `model` see the states at the positions that have a target alone: most have none."""
    if targets is None:
        yield
        return
    # Every head of the library's masked language models works position by position and begins with a module of its own.
    head = next(module for name, module in model.named_children() if name != model.base_model_prefix)
    chosen = targets != IGNORED

    def select(module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return (arguments[0][chosen], *arguments[1:])  # (B, L, D) -> (P, D)

    hook = head.register_forward_pre_hook(select)
    try:
        yield
    finally:
        hook.remove()


def _check_length(model: PreTrainedModel, tokens: int) -> None:
    limit = longest(model)
    if limit and tokens > limit:
        raise UserError(
            f"a text has {tokens} tokens, but a model of type {model.config.model_type} here has {limit} positions: "
            f"--set max_length={limit} (on a corpus general.max_length)"
        )


def longest(model: PreTrainedModel) -> int:
    """How many tokens the model can read at once; 0: any number."""
    known = getattr(model, "signal_positions", None)
    if known is None:
        known = max(getattr(model.config, "max_position_embeddings", None) or 0, 0)  # -1 where positions are relative
        for name, module in model.named_modules():
            # In RoBERTa and its kin positions begin after that of padding.
            if known and isinstance(module, nn.Embedding) and "position" in name and module.padding_idx is not None:
                known = min(known, module.num_embeddings - module.padding_idx - 1)
        setattr(model, "signal_positions", known)  # noqa: B010 - found once: every call asks
    return int(known)


def check_layers(model: str, depth: int, want: Want) -> None:
    """Raise UserError for a layer that a model of this depth does not have."""
    for signal in sorted(LAYER_SIGNALS):
        lowest = 0 if signal is Signal.HIDDEN_STATES else 1
        wrong = sorted(layer for layer in getattr(want, signal.value) if not lowest <= layer <= depth)
        if wrong:
            asked = f"{signal.value} of layer {wrong[0]}"
            raise UserError(f"{asked} were asked of {model}, whose layers are {lowest} to {depth}")
