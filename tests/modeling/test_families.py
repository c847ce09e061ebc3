"""Of every family, what is captured is what its own library says, or it is told that it cannot be had."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModel,
    AutoModelForMaskedLM,
    AutoModelForSequenceClassification,
    PreTrainedModel,
)

from harness.contracts import HEAD_SIGNALS, Signal, Want
from harness.errors import UserError
from harness.modeling.examination import examine
from harness.modeling.initialisation import copy_layers
from harness.modeling.signals import emit

SHARED = {
    "vocab_size": 40, "hidden_size": 32, "num_hidden_layers": 4, "num_attention_heads": 4, "intermediate_size": 64,
    "max_position_embeddings": 40,
}  # fmt: skip
LIKE_ROBERTA = {"pad_token_id": 1, "type_vocab_size": 1}
GROUPS = ("q_groups", "k_groups", "v_groups", "post_attention_groups", "intermediate_groups", "output_groups")
RELATIVE = {"relative_attention": True, "pos_att_type": ["c2p", "p2c"], "position_biased_input": False}
SPECIAL = {f"{name}_token_id": i for i, name in enumerate(("pad", "bos", "eos", "cls", "sep"))}

WHOLE: dict[str, dict[str, Any]] = {
    "bert": {}, "roberta": LIKE_ROBERTA, "xlm-roberta": LIKE_ROBERTA, "camembert": LIKE_ROBERTA,
    "roberta-prelayernorm": LIKE_ROBERTA, "data2vec-text": LIKE_ROBERTA,
    "distilbert": {"n_layers": 4, "dim": 32, "n_heads": 4, "hidden_dim": 64}, "electra": {"embedding_size": 16},
    "ernie": {}, "mobilebert": {"embedding_size": 16, "intra_bottleneck_size": 16, "num_feedforward_networks": 2},
    "layoutlm": {}, "esm": {"pad_token_id": 1, "mask_token_id": 3, "position_embedding_type": "rotary"},
}  # fmt: skip
WITHOUT_ATTENTION: dict[str, dict[str, Any]] = {
    "deberta": RELATIVE,
    "deberta-v2": RELATIVE | {"norm_rel_ebd": "layer_norm", "position_buckets": 8, "share_att_key": True},
    "mpnet": LIKE_ROBERTA,
    "convbert": {"embedding_size": 16},
    "roformer": {"embedding_size": 16},
    "rembert": {"input_embedding_size": 16},
}
ATTENTION = HEAD_SIGNALS | {Signal.ATTENTION_SCORES}
STATES = {Signal.EMBEDDINGS, Signal.HIDDEN_STATES}
LACKING: dict[str, tuple[dict[str, Any], set[Signal]]] = {  # no student can start from the layers of these either
    "xlm": ({"emb_dim": 32, "n_layers": 4, "n_heads": 4}, ATTENTION | {Signal.HIDDEN_STATES}),
    "flaubert": ({"emb_dim": 32, "n_layers": 4, "n_heads": 4}, ATTENTION | {Signal.HIDDEN_STATES}),
    "squeezebert": ({"embedding_size": 32} | dict.fromkeys(GROUPS, 1), ATTENTION | STATES),
    "longformer": (
        LIKE_ROBERTA | {"attention_window": [4] * 4},
        ATTENTION | STATES | {Signal.SENTENCE},
    ),
}
DECODERS: dict[str, dict[str, Any]] = {
    "gpt2": {"n_embd": 32, "n_layer": 4, "n_head": 4},
    "bloom": {"n_layer": 4, "n_head": 4},
    "mpt": {"d_model": 32, "n_layers": 4, "n_heads": 4},
    "openai-gpt": {"n_embd": 32, "n_layer": 4, "n_head": 4},
    "llama": {},
    "xlnet": {"d_model": 32, "n_layer": 4, "n_head": 4, "d_inner": 64},
}
WITH_DECODERS: dict[str, dict[str, Any]] = {
    "t5": {"d_model": 32, "num_layers": 4, "num_heads": 4, "d_ff": 64, "d_kv": 8},
    "bart": {"d_model": 32, "encoder_layers": 4, "decoder_layers": 4},
}


def config_of(family: str, changes: dict[str, Any]) -> Any:
    shape = {name: value for name, value in SHARED.items() if family != "xlnet" or name != "max_position_embeddings"}
    return AutoConfig.for_model(family, **{**shape, "pad_token_id": 0, **changes})


def model_of(family: str, changes: dict[str, Any], masked: bool = False, seed: int = 0) -> PreTrainedModel:
    """Every weight is disturbed, so that what is left out or taken twice shows."""
    torch.manual_seed(seed)
    kind = AutoModelForMaskedLM if masked else AutoModelForSequenceClassification
    model = kind.from_config(config_of(family, changes))
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(0.2 * torch.randn_like(parameter))
    return model.eval()


def batch() -> dict[str, Tensor]:
    """Texts of 9 and 6 tokens; no segments, which not every family reads."""
    ids = torch.randint(5, 40, (2, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones_like(ids)
    mask[1, 6:] = 0
    return {"input_ids": ids, "attention_mask": mask}


def check_states(model: PreTrainedModel, own: Any, encoding: dict[str, Tensor]) -> None:
    mask = encoding["attention_mask"].bool()
    found = emit(model, encoding, Want(logits=True, sentence=True, hidden_states=frozenset(range(5))), exact=True)
    for layer in range(5):
        theirs = own.hidden_states[layer][mask]
        torch.testing.assert_close(found.hidden_states[layer][mask], theirs, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.sentence, own.hidden_states[4][:, 0], rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(found.logits, own.logits, rtol=1e-4, atol=1e-4)


def own_outputs(family: str, changes: dict[str, Any], encoding: dict[str, Tensor]) -> Any:
    model = model_of(family, changes)
    model.set_attn_implementation("eager")
    return model(**encoding, output_hidden_states=True, output_attentions=True)


def check_first_state(family: str, changes: dict[str, Any]) -> None:
    """A student of two layers starts with the teacher's first state to the bit."""
    teacher, encoding = model_of(family, changes), batch()
    config = copy.deepcopy(teacher.config)
    config.num_hidden_layers = 2
    torch.manual_seed(5)
    student = AutoModelForSequenceClassification.from_config(config).eval()
    copy_layers(student, teacher, (1, 2), embeddings=True)
    want = Want(hidden_states=frozenset({1}))
    ours, theirs = (emit(model, encoding, want).hidden_states[1] for model in (student, teacher))
    assert torch.equal(ours, theirs)


@torch.no_grad()
@pytest.mark.parametrize("family", WHOLE)
def test_everything_is_its_own(family: str) -> None:
    changes, encoding = WHOLE[family], batch()
    found = examine(model_of(family, changes))
    assert (dict(found.lacks), found.uncopied, found.traits) == ({}, "", ())
    model, own = model_of(family, changes), own_outputs(family, changes, encoding)
    check_states(model, own, encoding)
    every = frozenset({1, 2, 3, 4})
    taken = emit(model, encoding, Want(attention_scores=every, queries=every, keys=every))
    scores, keep = taken.attention_scores, encoding["attention_mask"].bool()
    for layer in range(1, 5):
        products = taken.queries[layer] @ taken.keys[layer].mT / taken.keys[layer].shape[-1] ** 0.5
        torch.testing.assert_close(products, scores[layer], rtol=1e-4, atol=1e-4)  # ESM gives its queries scaled
        ours = scores[layer].masked_fill(~keep[:, None, None, :], -torch.inf).softmax(-1)
        rows = keep[:, None, :].expand(ours.shape[:3])
        torch.testing.assert_close(ours[rows], own.attentions[layer - 1][rows], rtol=0, atol=1e-4)
    check_first_state(family, changes)


@torch.no_grad()
@pytest.mark.parametrize("family", WITHOUT_ATTENTION)
def test_only_attention_cannot_be_had(family: str) -> None:
    changes, encoding = WITHOUT_ATTENTION[family], batch()
    found = examine(model_of(family, changes))
    assert set(found.lacks) == ATTENTION and not found.uncopied
    assert all("does not use transformers' attention interface" in why for why in found.lacks.values())
    check_states(model_of(family, changes), own_outputs(family, changes, encoding), encoding)
    check_first_state(family, changes)


@pytest.mark.parametrize("family", LACKING)
def test_what_would_be_wrong_is_named(family: str) -> None:
    changes, lacking = LACKING[family]
    found = examine(model_of(family, changes))
    assert set(found.lacks) == lacking and found.uncopied
    assert all(found.lacks.values())


@pytest.mark.parametrize(
    "family", ["bert", "roberta", "electra", "mobilebert", "modernbert", "mpnet", "deberta-v2", "xlm"]
)
def test_masked_language_models(family: str) -> None:
    """The head is compared at the places of its predictions."""
    changes = {**WHOLE, **WITHOUT_ATTENTION, "modernbert": SPECIAL, "xlm": LACKING["xlm"][0]}[family]
    examine(model_of(family, changes, masked=True), masked=True)


@pytest.mark.parametrize(("window", "lacking"), [(16, {Signal.ATTENTION_SCORES}), (4, ATTENTION)])
def test_a_window_is_told(window: int, lacking: set[Signal]) -> None:
    """ModernBERT's scores do not say which tokens are out of reach; students that take other layers are refused."""
    teacher = model_of("modernbert", SPECIAL | {"local_attention": window})
    found = examine(teacher)
    assert set(found.lacks) == lacking
    assert found.lacks[Signal.ATTENTION_SCORES] == (
        "layer 2 attends to some of the tokens only, which its scores do not tell"
    )
    assert [traits["attention_type"] for traits in found.traits] == [
        "full_attention", "sliding_attention", "sliding_attention", "full_attention",
    ]  # fmt: skip
    check_first_state("modernbert", SPECIAL)
    config = copy.deepcopy(teacher.config)
    config.num_hidden_layers = 2
    student = AutoModel.from_config(config)
    with pytest.raises(
        UserError, match="layer 2 of a student cannot start from layer 4 of the teacher: its attention_"
    ):
        copy_layers(student, teacher, (1, 4), embeddings=True)


@torch.no_grad()
@pytest.mark.parametrize("family", ["modernbert", "roberta-prelayernorm"])
def test_the_last_normalisation_comes_along(family: str) -> None:
    changes = SPECIAL if family == "modernbert" else LIKE_ROBERTA
    teacher, student = model_of(family, changes, seed=1), model_of(family, changes, seed=2)
    copy_layers(student, teacher, (1, 2, 3, 4), embeddings=True)
    ours, theirs = (emit(model, batch(), Want(sentence=True)).sentence for model in (student, teacher))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("family", [*DECODERS, *WITH_DECODERS])
def test_decoders_are_refused(family: str) -> None:
    model = AutoModel.from_config(config_of(family, {**DECODERS, **WITH_DECODERS}[family]))
    words = "is an encoder and a decoder" if family in WITH_DECODERS else "is a decoder"
    with pytest.raises(UserError, match=f"a model of type {family} {words}; the harness needs an encoder"):
        examine(model)


def test_a_list_of_layers_is_needed() -> None:
    for family, changes in (("albert", {"embedding_size": 16}), ("perceiver", {"d_latents": 32, "d_model": 32})):
        with pytest.raises(UserError, match=f"a model of type {family} has no list of its 4 encoder layers"):
            examine(model_of(family, changes))
    config = AutoConfig.for_model(
        "funnel", vocab_size=40, block_sizes=[2, 2], d_model=32, n_head=4, d_head=8, d_inner=64
    )
    with pytest.raises(UserError, match="a model of type funnel has no list of its 4 encoder layers"):
        examine(AutoModelForSequenceClassification.from_config(config))


@pytest.mark.parametrize(
    ("family", "changes", "longest"),
    [
        ("bert", {}, 40),
        ("roberta", LIKE_ROBERTA, 38),
        ("camembert", LIKE_ROBERTA, 38),
        ("mpnet", LIKE_ROBERTA, 38),
        ("distilbert", WHOLE["distilbert"], 40),
    ],
)
def test_positions(family: str, changes: dict[str, Any], longest: int) -> None:
    """As many tokens as there are positions are read, and one more is told."""
    model = model_of(family, changes)
    ids = torch.full((1, longest), 5)
    emit(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, Want(sentence=True))
    ids = torch.full((1, longest + 1), 5)
    with pytest.raises(UserError, match=f"{longest + 1} tokens, but .* --set max_length={longest} "):
        emit(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, Want(sentence=True))
