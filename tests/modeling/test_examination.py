"""Models that nobody has heard of: what would be read wrong of them is named, signal by signal."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.modeling_outputs import BaseModelOutput, SequenceClassifierOutput
from transformers.modeling_utils import ALL_ATTENTION_FUNCTIONS

from harness.contracts import HEAD_SIGNALS, Outputs, Signal, Want
from harness.errors import UserError
from harness.modeling import examination, signals
from harness.modeling.bases import Emitter
from harness.modeling.examination import examine
from tests.small_models import small_config, small_model

DEPTH, WIDTH, HEADS = 3, 16, 2
ATTENTION = HEAD_SIGNALS | {Signal.ATTENTION_SCORES}
ALL = ATTENTION | {Signal.SENTENCE, Signal.EMBEDDINGS, Signal.HIDDEN_STATES}


def eager(
    module: nn.Module, query: Tensor, key: Tensor, value: Tensor, mask: Any, scaling: float, **kwargs: Any
) -> Any:
    scores = query @ key.transpose(-1, -2) * scaling
    attention = (scores if mask is None else scores.masked_fill(~mask, torch.finfo(scores.dtype).min)).softmax(-1)
    return (attention @ value).transpose(1, 2).contiguous(), attention


class NewConfig(PreTrainedConfig):
    model_type = "unheard_of"

    def __init__(self, oddity: str = "", num_hidden_layers: int = DEPTH, **kwargs: Any):
        self.oddity, self.num_hidden_layers = oddity, num_hidden_layers
        self.hidden_size, self.num_attention_heads, self.vocab_size = WIDTH, HEADS, 30
        super().__init__(pad_token_id=0, **kwargs)


class Attention(nn.Module):
    def __init__(self, config: NewConfig):
        super().__init__()
        self.config = config
        self.query, self.key, self.value, self.out = (nn.Linear(WIDTH, WIDTH) for _ in range(4))

    def forward(self, states: Tensor, mask: Tensor, **kwargs: Any) -> Any:
        parts = [p(states).unflatten(-1, (HEADS, -1)).transpose(1, 2) for p in (self.query, self.key, self.value)]
        attend = ALL_ATTENTION_FUNCTIONS.get_interface(self.config._attn_implementation, eager)
        if self.config.oddity == "twice":
            attend(self, parts[1], parts[0], parts[2], mask, scaling=0.5, **kwargs)
        if self.config.oddity == "scaled":  # what the library calls its own is not what its interface is given
            parts[0] = parts[0] * 2
        scale = 0.5 if self.config.oddity == "scaled" and attend is eager else 1.0
        context, attention = attend(self, parts[0] * scale, *parts[1:], mask, scaling=0.5, **kwargs)
        return self.out(context.flatten(2)), attention


class Layer(nn.Module):
    def __init__(self, config: NewConfig):
        super().__init__()
        self.attention, self.linear, self.norm = Attention(config), nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH)

    def forward(self, states: Tensor, mask: Tensor, **kwargs: Any) -> Any:
        context, attention = self.attention(states, mask, **kwargs)
        return self.norm(states + self.linear(torch.relu(states + context))), attention


class NewModel(PreTrainedModel):
    config_class = NewConfig
    _supports_sdpa = _supports_attention_backend = True

    def __init__(self, config: NewConfig):
        super().__init__(config)
        self.words = nn.Embedding(config.vocab_size, WIDTH)
        if config.oddity == "decoy":
            self.adapters = nn.ModuleList(nn.Linear(WIDTH, WIDTH) for _ in range(config.num_hidden_layers))
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.num_hidden_layers))
        if config.oddity == "decoys of its layers":
            self._modules = {"attentions": nn.ModuleList(layer.attention for layer in self.layers), **self._modules}
        self.last = nn.LayerNorm(WIDTH)
        self.gate = nn.Parameter(torch.ones(WIDTH), requires_grad=True)
        if config.oddity == "by depth":  # a part whose shape follows the number of layers, and that they need
            self.depths = nn.Parameter(torch.randn(config.num_hidden_layers, WIDTH))
        self.post_init()

    def forward(
        self, input_ids: Tensor, attention_mask: Tensor, output_hidden_states: bool = False, **kwargs: Any
    ) -> Any:
        odd = self.config.oddity
        for name in ("output_attentions", "return_dict"):
            kwargs.pop(name, None)
        length = input_ids.shape[1]
        mask = attention_mask.bool()[:, None, None, :].expand(-1, 1, length, -1)  # (B, 1, L, L)
        if odd == "forward only":
            mask = mask & torch.ones(length, length, dtype=torch.bool).tril()
        states = self.words(input_ids) * self.gate
        if odd == "by depth":
            states = states + self.depths.sum(0)
        found, attentions = [states], []
        for number, layer in enumerate(self.layers):
            if odd == "decoy":
                states = states + self.adapters[number](states)
            states, attention = layer(states, mask, **kwargs)
            if odd == "afterwards":
                states = states * 1.5
            found.append(states)
            attentions.append(attention)
        states = self.last(states)
        found[-1] = states
        told = tuple(found) if output_hidden_states and odd != "no states" else None
        return BaseModelOutput(states, told, tuple(attentions) if odd != "no attentions" else None)


class NewClassifier(PreTrainedModel):
    config_class, base_model_prefix = NewConfig, "model"
    _supports_sdpa = _supports_attention_backend = True

    def __init__(self, config: NewConfig):
        super().__init__(config)
        self.model, self.head = NewModel(config), nn.Linear(WIDTH, 2)
        self.post_init()

    def forward(self, **kwargs: Any) -> Any:
        told = self.model(**kwargs)
        logits = self.head(told.last_hidden_state[:, 0])
        return SequenceClassifierOutput(None, logits, told.hidden_states, told.attentions)


def new_model(oddity: str = "") -> NewClassifier:
    torch.manual_seed(0)
    model = NewClassifier(NewConfig(oddity))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.3 * torch.randn_like(parameter))
    return model.eval()


def test_one_that_keeps_the_rules_is_taken_whole() -> None:
    found = examine(new_model())
    assert (dict(found.lacks), found.uncopied, found.traits) == ({}, "", ())


@pytest.mark.parametrize("oddity", ["decoy", "decoys of its layers", "afterwards"])
def test_states_are_the_library_s_where_they_are_not_what_a_layer_gives(oddity: str) -> None:
    found = examine(new_model(oddity))
    assert (dict(found.lacks), found.uncopied) == ({}, "")
    model, batch = new_model(oddity), {"input_ids": torch.tensor([[3, 4, 5]]), "attention_mask": torch.ones(1, 3)}
    own = model(**batch, output_hidden_states=True).hidden_states
    ours = signals.emit(model, batch, Want(hidden_states=frozenset(range(DEPTH + 1)))).hidden_states
    assert all(torch.equal(ours[layer], state) for layer, state in enumerate(own))


@pytest.mark.parametrize(
    ("oddity", "lacking", "words", "uncopied"),
    [
        ("twice", ATTENTION, "layer 1 attends more than once", False),
        ("no attentions", ATTENTION, "does not give attention_scores of layer 1", False),
        ("no states", {Signal.EMBEDDINGS, Signal.HIDDEN_STATES}, "does not give hidden_states of layer 0", True),
        ("by depth", set(), "", True),
    ],
)
def test_what_would_be_wrong_is_named(oddity: str, lacking: set[Signal], words: str, uncopied: bool) -> None:
    found = examine(new_model(oddity))
    assert set(found.lacks) == lacking
    assert not lacking or any(re.search(words, why) for why in found.lacks.values())
    assert bool(found.uncopied) == uncopied


@pytest.mark.parametrize(
    ("oddity", "words"),
    [
        ("forward only", "unheard_of is a decoder: its first token sees no other"),
        ("scaled", "unheard_of cannot be used: logits would be .* away from what its library says"),
    ],
)
def test_what_cannot_be_used_at_all(oddity: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        examine(new_model(oddity))


def test_one_that_needs_more_than_text() -> None:
    model = new_model()
    model.forward = lambda **kwargs: 1 / 0  # type: ignore[method-assign]
    with pytest.raises(UserError, match=r"its library fails to run it on a small batch \(ZeroDivisionError"):
        examine(model)


def wrong(signal: Signal, layer: int = 2) -> Callable[..., Outputs]:
    """`emit` that is wrong in one signal."""
    right = signals.emit

    def emit(model: Any, encoding: Any, want: Want, *more: Any) -> Outputs:
        outputs = right(model, encoding, want, *more)
        found = getattr(outputs, signal.value)
        if signal in (Signal.SENTENCE, Signal.EMBEDDINGS) and found is not None:
            setattr(outputs, signal.value, found.roll(1, 0))
        elif found and layer in found:
            found[layer] = found[layer].flip(1)
        return outputs

    return emit


@pytest.mark.parametrize("signal", sorted(ALL - HEAD_SIGNALS))
def test_any_signal_that_is_captured_wrong(signal: Signal, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(examination.signals, "emit", wrong(signal))
    found = examine(small_model("bert"))
    assert signal in found.lacks and signal.value in found.lacks[signal]
    assert set(found.lacks) <= {signal} | HEAD_SIGNALS


class Foreign(Emitter):
    """A model of another library, which takes out its signals itself: here by way of transformers' own."""

    base_model_prefix = "inner"

    def __init__(self, inner: PreTrainedModel, fault: Signal | None = None):
        super().__init__(small_config("bert"))
        self.inner, self.fault = inner, fault

    def emit(self, encoding: Any, want: Want, exact: bool = False, predicted: Any = None) -> Outputs:
        take = wrong(self.fault) if self.fault else signals.emit
        return take(self.inner, encoding, want, exact, predicted)

    def converted(self) -> PreTrainedModel:
        return small_model("bert").base_model


@pytest.mark.parametrize("fault", [None, *sorted(ALL)])
def test_a_model_of_another_library(fault: Signal | None) -> None:
    """It is compared with the model of transformers that it says it is; queries, keys and values too."""
    found = examine(Foreign(small_model("bert"), fault))
    assert found.uncopied == ""
    assert set(found.lacks) == (ATTENTION if fault is Signal.ATTENTION_SCORES else {fault} - {None})


def test_a_model_of_another_library_with_nothing_to_compare() -> None:
    class Alone(Foreign):
        converted = Emitter.converted

    found = examine(Alone(small_model("bert")))
    assert set(found.lacks) == ALL and "Alone gives no model of transformers" in found.uncopied


def test_no_random_number_is_drawn() -> None:
    model = small_model("bert")
    before = torch.random.get_rng_state()
    examine(model)
    assert torch.equal(before, torch.random.get_rng_state())
