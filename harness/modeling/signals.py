"""Takes signals out of Hugging Face encoders: just the layers asked for, scores before softmax.

Attention is captured by an attention function of our own, registered with transformers' `AttentionInterface`: it runs
the fast kernel unless scores are asked of that layer. What is asked travels as a keyword of the call, so no state is
shared between calls. Of models that compute it themselves it is caught at its softmax (`harness.modeling.caught`).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig, PreTrainedModel
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask
from transformers.models.auto.modeling_auto import MODEL_FOR_CAUSAL_LM_MAPPING_NAMES, MODEL_FOR_MASKED_LM_MAPPING_NAMES
from transformers.utils import logging

from harness.contracts import HEAD_SIGNALS, LAYER_SIGNALS, Outputs, Signal, Want
from harness.errors import UserError
from harness.modeling.bases import Emitter
from harness.modeling.caught import OUT_OF_SIGHT, Caught
from harness.modeling.layers import lists_of_layers, parts, shared

IMPLEMENTATION = "harness_signals"
ATTENTION_SIGNALS = HEAD_SIGNALS | {Signal.ATTENTION_SCORES}
UNPADDED: ContextVar[bool] = ContextVar("the host knows that no text of this call is padded", default=False)
SHARED = -1  # the number of layers that share weights: they are told apart by the order in which they run
NEEDED = "the harness needs an encoder, such as BERT, RoBERTa, DistilBERT or ELECTRA"


@dataclass
class _Request:
    """What one call asks of the attention layers, and what they gave. Layers are 1-based."""

    want: Want
    explicit: bool  # every layer without the fused kernel
    calls: int = 0  # of the attention function until now
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
    signal_request.calls += 1
    layer = int(getattr(module, "signal_layer", 0))  # set by `prepare`; 0: an attention outside the layers
    layer = signal_request.calls if layer == SHARED else layer
    shares = query.size(1) // key.size(1)  # heads of queries for one of keys and values
    keys, values = (one if shares == 1 else one.repeat_interleave(shares, 1) for one in (key, value))
    scaling = query.size(-1) ** -0.5 if scaling is None else scaling
    for signal, tensor in ((Signal.QUERIES, query), (Signal.KEYS, keys), (Signal.VALUES, values)):
        if signal_request.asks(signal, layer):
            # of ESM the query comes scaled already
            rescaled = signal is Signal.QUERIES and not math.isclose(scaling, query.size(-1) ** -0.5)
            signal_request.take(signal, layer, tensor * (scaling * query.size(-1) ** 0.5) if rescaled else tensor)
    if not (signal_request.explicit or signal_request.asks(Signal.ATTENTION_SCORES, layer)):
        return sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
    scores = query @ keys.transpose(-1, -2) * scaling  # (B, H, L, L)
    if signal_request.asks(Signal.ATTENTION_SCORES, layer):
        signal_request.take(Signal.ATTENTION_SCORES, layer, _in_sight(scores, attention_mask))
    masked = scores
    if attention_mask is not None and attention_mask.dtype == torch.bool:
        masked = scores.masked_fill(~attention_mask, torch.finfo(scores.dtype).min)
    elif attention_mask is not None:  # to be added, as some models make it themselves
        masked = scores + attention_mask
    attention = nn.functional.dropout(masked.softmax(-1), dropout, module.training)
    return (attention @ values).transpose(1, 2).contiguous(), None  # (B, L, H, D / H)


def _in_sight(scores: Tensor, mask: Tensor | None) -> Tensor:
    """The scores, with `OUT_OF_SIGHT` where a window ends: of a key that others see. Who gets them masks padding.

    mask: (B, 1, L, L), bool or to be added, or None.
    """
    if mask is None:
        return scores
    if mask.device.type == "cpu" and torch.equal(mask, mask[:, :, :1].expand_as(mask)):
        return scores  # no window, as below; elsewhere to look would wait for the device in each layer
    seen = mask if mask.dtype == torch.bool else mask >= 0
    return scores.masked_fill(~seen & seen.any(-2, keepdim=True), OUT_OF_SIGHT)


def _attention_mask(*arguments: Any, **keywords: Any) -> Tensor | None:
    """As the library's for its own fused attention, which needs none where there is no padding.

    On an accelerator to look for padding would wait for the device in every step: the host may know that there is none.
    """
    if torch.device(keywords.get("device", "cpu")).type != "cpu":
        keywords |= {"attention_mask": None} if UNPADDED.get() else {"allow_is_bidirectional_skip": False}
    return sdpa_mask(*arguments, **keywords)


AttentionInterface.register(IMPLEMENTATION, _attention)
# Without a mask function of the same name transformers passes no mask at all, silently.
AttentionMaskInterface.register(IMPLEMENTATION, _attention_mask)


def check_layers_known(model: PreTrainedModel) -> None:
    """Raise UserError for a model that has no list of its layers."""
    if not lists_of_layers(model):
        raise UserError(
            f"a model of type {model.config.model_type} has no list of its {model.config.num_hidden_layers} encoder "
            "layers, so it can be neither teacher nor student; BERT, RoBERTa, DistilBERT and ELECTRA have one"
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
    check_layers_known(model)
    layers, alike = parts(model), shared(model)
    for number, layer in enumerate(layers, start=1):
        for module in (inner for part in layer for inner in part.modules()):
            if getattr(module, "is_causal", False):
                raise UserError(f"a model of type {model.config.model_type} is a decoder; {NEEDED}")
            setattr(module, "signal_layer", SHARED if alike else number)  # noqa: B010
    setattr(model, "signal_layers", [layer[0] for layer in layers])  # noqa: B010 - found once: every call asks
    set_attention(model, IMPLEMENTATION)
    setattr(model, "signals_prepared", True)  # noqa: B010
    _find_ways(model)


@dataclass(frozen=True)
class Ways:
    """How signals are had of a model. hooked: states are what its layers give; otherwise its library tells them.

    interface: attention goes through transformers' interface; otherwise it is caught at its softmax.
    """

    hooked: bool
    interface: bool


@torch.no_grad()
def _find_ways(model: PreTrainedModel) -> None:
    """Note the ways, found with a text of three tokens. Draws no random numbers."""
    base, modes = model.base_model, {module: module.training for module in model.modules()}
    device = next(base.parameters()).device
    inputs = {name: one.to(device) for name, one in own_inputs(model, texts(model.config, (3,))).items()}
    request = _Request(Want(), False)
    depth = model.config.num_hidden_layers
    hooked = frozenset(range(depth)) if not shared(model) else frozenset()
    model.eval()
    try:
        with _states(model, hooked) as found:
            told = base(**inputs, signal_request=request, output_hidden_states=True, return_dict=True)
    finally:
        for module, mode in modes.items():
            module.training = mode
    states = getattr(told, "hidden_states", None)
    same = True  # where the library does not tell
    if states is not None and len(states) == depth + 1:
        same = found.keys() == set(range(depth)) and all(
            isinstance(ours, Tensor) and torch.equal(ours, states[layer]) for layer, ours in found.items()
        )
    setattr(model, "signal_ways", Ways(same, request.calls > 0))  # noqa: B010


def texts(config: PreTrainedConfig, lengths: tuple[int, ...]) -> dict[str, Tensor]:
    """Token ids of texts of these lengths, no special ones among them, padded on the right, in two segments."""
    special = {getattr(config, f"{name}_token_id", None) for name in ("pad", "bos", "eos", "cls", "sep", "mask")}
    plain = [token for token in range(min(config.vocab_size, 1000)) if token not in special]
    width = max(lengths)
    ids = torch.full((len(lengths), width), getattr(config, "pad_token_id", None) or 0)
    mask = torch.zeros(len(lengths), width, dtype=torch.long)
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.tensor([plain[5 * i % len(plain)] for i in range(length)])
        ids[row, length - 1] = plain[-1 - row % len(plain)]
        mask[row, :length] = 1
    return {"input_ids": ids, "attention_mask": mask, "token_type_ids": (torch.arange(width) > 2).long() * mask}


def _take(caught: Caught, depth: int, request: _Request) -> None:
    """Give the request what was caught, if it is one softmax a layer."""
    if len(caught.attentions) == depth:
        for layer, attention in enumerate(caught.attentions, start=1):
            for signal in ATTENTION_SIGNALS:
                tensor = getattr(attention, signal.value)
                if request.asks(signal, layer) and tensor is not None:
                    request.take(signal, layer, tensor)


def set_attention(model: PreTrainedModel, implementation: str) -> None:
    """Let the model compute attention so, where it can; silently, for where it cannot, signals are missing."""
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    try:
        model.set_attn_implementation(implementation)
    finally:
        logging.set_verbosity(verbosity)


def emit(
    model: PreTrainedModel,
    encoding: dict[str, Tensor],
    want: Want,
    exact: bool = False,
    predicted: Tensor | None = None,
) -> Outputs:
    """Run an encoder with a sequence-classification or masked-language-model head; return the signals asked for.

    encoding: input_ids, attention_mask and possibly token_type_ids, each (B, L). Shapes of the signals are those of
    `harness.contracts.Signal`; `sentence` is the last layer's first-token state, before any pooler. The head runs only
    for logits. With `exact` no layer uses the fused kernel, so that asking for more never changes a bit of the rest.
    predicted: (P,), see `Batch`; the masked-language-model head runs at these positions only, everywhere without them.
    Raises UserError for a layer the model does not have, for a text longer than its positions, and for attention
    signals of a model whose attention does not go through transformers' attention interface.
    """
    prepare(model)
    depth = model.config.num_hidden_layers
    check_layers(type(model).__name__, depth, want)
    _check_length(model, encoding["input_ids"].shape[1])
    if isinstance(model, Emitter):
        return model.emit(encoding, want, exact, predicted)
    ways: Ways = getattr(model, "signal_ways")  # noqa: B009 - unknown to type checkers
    request = _Request(want, exact)
    attention = any(getattr(want, signal.value) for signal in ATTENTION_SIGNALS)
    arguments: dict[str, Any] = {"signal_request": request} if ways.interface and (exact or attention) else {}
    layers = want.hidden_states | ({depth} if want.sentence else set()) | ({0} if want.embeddings else set())
    hooked = layers if ways.hooked else layers & {depth}
    if layers - hooked:
        arguments |= {"output_hidden_states": True, "return_dict": True}
    network = model if want.logits or want.mlm_logits else model.base_model
    caught = Caught() if attention and not ways.interface else None
    with (
        _head_at(model, predicted if want.mlm_logits else None),
        _states(model, hooked) as found,
        caught or nullcontext(),
        _padding_known(encoding),
    ):
        output = network(**own_inputs(model, encoding), **arguments)
    found |= {layer: output.hidden_states[layer] for layer in layers - hooked}
    if caught:
        _take(caught, depth, request)
    if not request.whole:
        raise UserError(
            f"the attention of {type(model).__name__} neither goes through transformers' interface nor is one softmax "
            "a layer over all tokens, so its scores, queries, keys and values cannot be had; choose an objective that "
            "needs none of them"
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


@contextmanager
def _padding_known(encoding: dict[str, Tensor]) -> Iterator[None]:
    before = UNPADDED.set(getattr(encoding, "unpadded", False))  # of a dictionary alone it is not known
    try:
        yield
    finally:
        UNPADDED.reset(before)


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
    modules: list[nn.Module] = getattr(model, "signal_layers")  # noqa: B009 - set by `prepare`
    depth = model.config.num_hidden_layers

    def read(_: nn.Module, arguments: tuple[Any, ...], keywords: dict[str, Tensor]) -> None:
        found[0] = arguments[0] if arguments else keywords["hidden_states"]

    def keep(layer: int, _: nn.Module, arguments: Any, output: Any) -> None:
        found[layer] = output if isinstance(output, Tensor) else output[0]

    hooks = [modules[0].register_forward_pre_hook(read, with_kwargs=True)] if 0 in layers else []
    for layer in layers - {0}:
        # What the whole encoder gives is the last state: some have a normalisation after the last layer.
        hooks.append((base if layer == depth else modules[layer - 1]).register_forward_hook(partial(keep, layer)))
    try:
        yield found
    finally:
        for hook in hooks:
            hook.remove()


@contextmanager
def _head_at(model: PreTrainedModel, predicted: Tensor | None) -> Iterator[None]:
    """Lets the head of `model` see the states at these positions alone: most are not to be predicted."""
    if predicted is None:
        yield
        return
    # Every head of the library's masked language models works position by position and begins with a module of its own.
    head = next(module for name, module in model.named_children() if name != model.base_model_prefix)

    def select(module: nn.Module, arguments: tuple[Any, ...]) -> tuple[Any, ...]:
        return (arguments[0].flatten(0, 1)[predicted], *arguments[1:])  # (B, L, D) -> (P, D)

    hook = head.register_forward_pre_hook(select)
    try:
        yield
    finally:
        hook.remove()


def _check_length(model: PreTrainedModel, tokens: int) -> None:
    if (limit := longest(model)) and tokens > limit:
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
        if wrong := sorted(layer for layer in getattr(want, signal.value) if not lowest <= layer <= depth):
            asked = f"{signal.value} of layer {wrong[0]}"
            raise UserError(f"{asked} were asked of {model}, whose layers are {lowest} to {depth}")
