"""Is what we take out of a model what its own library says? Asked of every teacher before it is used.

A small ragged batch goes through the model with the library's own eager attention, which gives hidden states and
attention probabilities, and then through `harness.modeling.signals`. What differs is not emitted, and why is told.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import reduce
from operator import or_
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from harness.contracts import HEAD_SIGNALS, Outputs, Signal, Want
from harness.errors import UserError
from harness.modeling import signals
from harness.modeling.bases import Emitter
from harness.modeling.caught import OUT_OF_SIGHT
from harness.modeling.initialisation import blank, copy_layers, traits_that_differ

LENGTHS = (7, 7, 4)  # tokens of the texts; the first two differ in the last one alone
TOLERANCE = 1e-4  # of probabilities, and of anything else as a share of its largest value
STATES = (Signal.HIDDEN_STATES,)  # what there is of layer 0 too
ATTENDING = (Signal.ATTENTION_SCORES, *sorted(HEAD_SIGNALS))
GROUPS = ((Signal.SENTENCE, Signal.EMBEDDINGS, Signal.HIDDEN_STATES), ATTENDING)  # each asked at once
WINDOWS = ("window", "local")  # in the names of settings that say how far a token sees


@dataclass(frozen=True)
class Findings:
    """What an examination found; plain JSON.

    lacks: signal -> why it cannot be had. uncopied: why no student can start from the model's layers, or "". traits: of
    each layer what sets it apart from others (`initialisation.traits_that_differ`), or nothing where they are alike.
    """

    lacks: Mapping[str, str] = field(default_factory=dict)
    uncopied: str = ""
    traits: tuple[Mapping[str, object], ...] = ()


@torch.no_grad()
def examine(model: PreTrainedModel, masked: bool = False) -> Findings:
    """Compare what is captured of a classifier, or of a masked language model, with what its library says.

    Draws no random numbers. Raises UserError for a model that cannot be used for anything: a decoder, one without a
    list of layers, one whose predictions are not its own.
    """
    if isinstance(model, Emitter) and isinstance(told := model.examined(), Findings):
        return told
    if isinstance(model, Emitter) and type(model).converted is Emitter.converted:
        why = f"{type(model).__name__} gives no model of transformers to compare it with"
        return Findings({signal.value: why for group in GROUPS for signal in group}, why)
    own = model.converted() if isinstance(model, Emitter) else model
    signals.check_encoder(own.config)
    signals.check_layers_known(own)
    try:
        known = _Known(own.eval(), model.eval() is own, masked)
        far = _Known(own, False, False, (length, length)) if (length := _beyond_windows(own)) else None
    except Exception as error:  # models of the library raise anything where they need more than text
        raise UserError(
            f"a model of type {own.config.model_type} cannot be used: its library fails to run it on a small batch "
            f"({type(error).__name__}: {error})"
        ) from error
    if known.blind:
        raise UserError(
            f"a model of type {own.config.model_type} is a decoder: its first token sees no other; {signals.NEEDED}"
        )
    for prepared in (own, model):
        signals.prepare(prepared)
    layers = frozenset(range(1, own.config.num_hidden_layers + 1))
    heads = Want.of(HEAD_SIGNALS, sorted(layers))
    if model is not own and not isinstance(theirs := _emitted(own, known.encoding, heads), str):
        known.heads = theirs
    predictions = Want(mlm_logits=masked, logits=not masked)
    together, wrong = predictions, known.unlike(model, predictions)
    lacks: dict[Signal, str] = {}
    for group in GROUPS:
        wants = {s: Want.of(frozenset({s}), sorted(layers | {0} if s in STATES else layers)) for s in group}
        if known.unlike(model, reduce(or_, wants.values())):
            lacks |= {s: why for s, want in wants.items() if (why := known.unlike(model, want))}
        together = reduce(or_, (want for s, want in wants.items() if s not in lacks), together)
    # Teachers are asked so: no layer uses the fused kernel, and what is captured makes all that follows.
    if wrong := wrong or known.unlike(model, together, exact=True):
        raise UserError(f"a model of type {own.config.model_type} cannot be used: {wrong}")
    if Signal.ATTENTION_SCORES in lacks:  # which layer the others belong to is known by its scores
        lacks = dict.fromkeys(ATTENDING, lacks[Signal.ATTENTION_SCORES]) | lacks
    elif far and (why := far.unlike(own, Want(attention_scores=layers))):
        lacks[Signal.ATTENTION_SCORES] = why
    if not {Signal.ATTENTION_SCORES, Signal.QUERIES, Signal.KEYS} & set(lacks) and (why := _more(own, known, layers)):
        lacks |= {Signal.QUERIES: why, Signal.KEYS: why}
    traits = traits_that_differ(own)
    return Findings(
        {signal.value: why for signal, why in sorted(lacks.items())},
        _uncopied(own, known),
        tuple(traits) if any(traits) else (),
    )


class _Known:
    """What the library says of a small ragged batch. The first text and the second differ in their last token alone."""

    def __init__(self, own: PreTrainedModel, head: bool, masked: bool, lengths: tuple[int, ...] = LENGTHS):
        """own: the model before it was prepared, changed in nothing but its attention. head: it has the head too."""
        self.encoding = signals.texts(own.config, lengths)
        self.mask = self.encoding["attention_mask"].bool()  # (B, L)
        asked = torch.zeros_like(self.mask)
        asked[:, 1:3] = True  # two predictions a text
        self.predicted = asked.flatten().nonzero().squeeze(1)
        signals.set_attention(own, "eager")
        inputs = signals.own_inputs(own, self.encoding)
        told = own(**inputs, output_hidden_states=True, output_attentions=True, return_dict=True)
        depth = own.config.num_hidden_layers
        states, attentions = getattr(told, "hidden_states", None), getattr(told, "attentions", None)
        self.states = states if states is not None and len(states) == depth + 1 else None
        self.attentions = attentions if attentions is not None and len(attentions) == depth else None
        self.predictions = (told.logits.flatten(0, 1)[self.predicted] if masked else told.logits) if head else None
        last = own.base_model(**inputs)[0] if self.states is None else self.states[-1]
        self.sentence = last[:, 0]
        self.blind = bool((last[0, 0] - last[1, 0]).abs().max() <= 1e-6 * last[0, 0].abs().max())
        self.heads: Outputs | None = None  # queries, keys and values of another library's model as transformers has it

    def unlike(self, model: PreTrainedModel, want: Want, exact: bool = False) -> str:
        """What of these signals cannot be had of the model, or is not what its library says; or ""."""
        found = _emitted(model, self.encoding, want, exact, self.predicted)
        if isinstance(found, str):
            return found
        pairs: list[tuple[str, Any, Any]] = [("sentence", found.sentence, self.sentence)] if want.sentence else []
        if self.predictions is not None:
            pairs += [("logits", found.logits, self.predictions)] if want.logits else []
            pairs += [("mlm_logits", found.mlm_logits, self.predictions)] if want.mlm_logits else []
        if want.embeddings:
            pairs.append(("embeddings", found.embeddings, self.states and self.states[0]))
        for layer, states in found.hidden_states.items():
            pairs.append((f"hidden_states of layer {layer}", states, self.states and self.states[layer]))
        for layer, scores in found.attention_scores.items():
            ours = scores.masked_fill(~self.mask[:, None, None, :], -torch.inf).softmax(-1)  # (B, H, L, L)
            theirs = self.attentions and self.attentions[layer - 1]
            if theirs is not None and (theirs < 0).any():  # some give scores under that name
                theirs = theirs.softmax(-1)
            pairs.append((f"attention_scores of layer {layer}", ours, theirs))
        for signal in sorted(HEAD_SIGNALS) if self.heads else ():  # else states of an exact run are made of them
            known = getattr(self.heads, signal.value)
            pairs += [
                (f"{signal.value} of layer {i}", ours, known.get(i)) for i, ours in getattr(found, signal.value).items()
            ]
        for name, ours, theirs in pairs:
            if theirs is None:
                return f"the library does not give {name} to compare with"
            if difference := self.differ(ours, theirs, name.startswith("attention")):
                return f"{name} would be {difference}"
        return ""

    def differ(self, ours: Tensor, theirs: Tensor, probabilities: bool = False) -> str:
        if ours.shape != theirs.shape:
            return f"of shape {tuple(ours.shape)}, its library's are {tuple(theirs.shape)}"
        if ours.dim() == 3:  # (B, L, D)
            ours, theirs = ours[self.mask], theirs[self.mask]
        elif ours.dim() == 4:  # (B, H, L, ...)
            ours, theirs = ours.transpose(1, 2)[self.mask], theirs.transpose(1, 2)[self.mask]
        scale = 1.0 if probabilities else max(float(theirs.abs().max()), 1e-6)
        off = float((ours - theirs).abs().max())
        return "" if off <= TOLERANCE * scale else f"{off:.2g} away from what its library says"


def _emitted(
    model: PreTrainedModel,
    encoding: dict[str, Tensor],
    want: Want,
    exact: bool = False,
    predicted: Tensor | None = None,
) -> Outputs | str:
    """The signals, or why they cannot be had."""
    try:
        return signals.emit(model, encoding, want, exact, predicted)
    except UserError as error:
        return str(error)
    except Exception as error:  # models of the library raise anything where they are not what is expected
        return f"asking {type(model).__name__} for them ends in {type(error).__name__}: {error}"


def _beyond_windows(own: PreTrainedModel) -> int:
    """The length of a text whose tokens do not all see each other, or 0 for a model without windows."""
    settings = own.config.to_dict()
    windows = [v for name, v in settings.items() if any(word in name for word in WINDOWS) and type(v) is int and v > 0]
    return min(max(windows) + 2, signals.longest(own) or 1024, 1024) if windows else 0


def _more(own: PreTrainedModel, known: _Known, layers: frozenset[int]) -> str:
    """Why queries and keys are not what a model's attention is made of, or "". A bias by position may be added."""
    want = Want(attention_scores=layers, queries=layers, keys=layers)
    found = signals.emit(own, known.encoding, want)
    for layer, scores in found.attention_scores.items():
        product = found.queries[layer] @ found.keys[layer].mT * found.queries[layer].shape[-1] ** -0.5
        rest = (scores - product)[:2]  # of the two texts without padding
        visible = scores[:2] > OUT_OF_SIGHT
        if ((rest[0] - rest[1]).abs() * visible.all(0)).max() > TOLERANCE * (scores[:2] * visible).abs().max():
            return f"attention in layer {layer} of {type(own).__name__} is made of more than its queries and keys"
    return ""


def _uncopied(own: PreTrainedModel, known: _Known) -> str:
    """Why a student that takes the first layers does not compute what the model does, or ""."""
    depth = min(2, own.config.num_hidden_layers)
    try:
        student = blank(own, depth)
        student.to_empty(device=own.device).eval()
        # What no weight is copied into stays no number, and so does all that it has a part in.
        for parameter in student.parameters():
            parameter.fill_(torch.nan)
        given = dict(own.base_model.named_buffers())
        for name, buffer in student.named_buffers():
            if name in given and given[name].shape == buffer.shape:
                buffer.copy_(given[name])
        copy_layers(student, own, tuple(range(1, depth + 1)))
    except UserError as error:
        return str(error)
    except Exception as error:  # as in `_emitted`
        return f"a smaller one cannot be made: {type(error).__name__}: {error}"
    found = _emitted(student, known.encoding, Want(hidden_states=frozenset({1, depth})))
    if isinstance(found, str):
        return found
    last = found.hidden_states[depth][known.mask]
    theirs = None if known.states is None else known.states[1]
    if theirs is None:
        return "the library does not give the states to compare with"
    if not torch.isfinite(last).all():
        return "a student that takes its layers lacks something that they need"
    difference = known.differ(found.hidden_states[1], theirs)
    return f"the first layer of a student that takes it would be {difference}" if difference else ""
