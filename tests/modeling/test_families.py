"""Of every family, what is captured is what its own library says, or it is told that it cannot be had."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoConfig, AutoModel, AutoModelForSequenceClassification, PreTrainedModel

from harness.contracts import HEAD_SIGNALS, Batch, Signal, Want
from harness.errors import UserError
from harness.jobs import starting
from harness.modeling.bases import StudentConfig
from harness.modeling.caught import OUT_OF_SIGHT
from harness.modeling.examination import examine
from harness.modeling.initialisation import copy_layers
from harness.modeling.layer_maps import layers_of
from harness.modeling.layers import parts, places
from harness.modeling.signals import emit, own_inputs
from harness.students.transformer import Transformer
from harness.teachers.huggingface import HuggingFaceTeacher
from tests.modeling.families import (
    DEPTH,
    FAMILIES,
    LIKE_ROBERTA,
    SENTENCES,
    batch,
    checkpoint,
    config_of,
    model_of,
)
from tests.small_models import TWO

LAYERS = frozenset(range(1, DEPTH + 1))
EVERYTHING = Want.of(frozenset(Signal) - {Signal.MLM_LOGITS}, sorted(LAYERS)) | Want(hidden_states=frozenset({0}))
ATTENTION = HEAD_SIGNALS | {Signal.ATTENTION_SCORES}
DISENTANGLED = ("deberta", "deberta-v2", "deberta-v2 third", "deberta-v2 convolution")
INITS = ("every", "first", "last", "4,2", "random", "random:embeddings")
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


def close(ours: Tensor, theirs: Tensor) -> None:
    torch.testing.assert_close(ours, theirs, rtol=0, atol=1e-5 * max(1.0, float(theirs.abs().max())))


def contexts(model: PreTrainedModel, layer: int, inputs: dict[str, Tensor]) -> list[Tensor]:
    """All that a module of this layer reads as (B, L, ...), in one call."""
    read: list[Tensor] = []
    modules = [m for part in parts(model)[layer - 1] for m in part.modules() if isinstance(m, (nn.Linear, nn.Conv1d))]
    hooks = [m.register_forward_pre_hook(lambda m, i: read.append(i[0])) for m in modules]
    model(**inputs)
    for hook in hooks:
        hook.remove()
    shape = inputs["input_ids"].shape
    return [one for tensor in read if tensor.dim() == 3 for one in (tensor, tensor.mT) if one.shape[:2] == shape]


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_signals_of_a_checkpoint_are_its_own(family: str, tmp_path: Path) -> None:
    """Of a ragged batch of texts and pairs, read by the family's tokenizer, against the library's eager attention."""
    teacher = HuggingFaceTeacher(checkpoint(tmp_path, family))
    torch.manual_seed(1)
    model = teacher.model(TWO, None).eval()
    encoding = dict(teacher.tokenizer()(list(SENTENCES), list(SENTENCES[::-1]), padding=True, return_tensors="pt"))
    findings, own, inputs = examine(copy.deepcopy(model)), copy.deepcopy(model), own_inputs(model, encoding)
    own.set_attn_implementation("eager")
    told = own(**inputs, output_hidden_states=True, output_attentions=True)
    found = emit(model, encoding, EVERYTHING, exact=True)
    real = encoding["attention_mask"].bool()  # (B, L)
    close(found.logits, told.logits)
    close(found.sentence, told.hidden_states[-1][:, 0])
    close(found.embeddings[real], told.hidden_states[0][real])
    for layer in range(DEPTH + 1):
        close(found.hidden_states[layer][real], told.hidden_states[layer][real])
    for layer in LAYERS:
        ours = found.attention_scores[layer].masked_fill(~real[:, None, None], -torch.inf).softmax(-1)
        theirs = told.attentions[layer - 1]
        theirs = theirs.softmax(-1) if family == "squeezebert" else theirs  # it tells scores under that name
        close(ours.transpose(1, 2)[real], theirs.transpose(1, 2)[real])
        context = (theirs @ found.values[layer]).transpose(1, 2).flatten(2)  # (B, L, D)
        width = context.shape[-1]
        read = [one for one in contexts(own, layer, inputs) if one.shape[-1] >= width]  # ConvBERT's goes on after it
        assert min(float((one[..., :width] - context)[real].abs().max()) for one in read) < 1e-5 * context.abs().max()
    assert set(findings.lacks) == ({Signal.QUERIES, Signal.KEYS} if family in DISENTANGLED else set())
    assert all("is made of more than its queries and keys" in why for why in findings.lacks.values())
    assert not findings.uncopied


def student_of(teacher: PreTrainedModel, init: str, seed: int = 3) -> Transformer:
    torch.manual_seed(seed)
    student = Transformer(StudentConfig("transformer", {"layers": 2}, teacher.config.to_dict()))
    student.initialise(init, lambda: teacher, None)
    return student.eval()


@torch.no_grad()
@pytest.mark.parametrize("family", FAMILIES)
def test_students_of_the_kind(family: str) -> None:
    """Every initialisation: what is copied is the teacher's, all signals can be had, and what is first is the same."""
    teacher, encoding = model_of(family, FAMILIES[family]), batch()
    everything = Want.of(frozenset(Signal) - {Signal.MLM_LOGITS}, [1, 2])
    theirs = emit(teacher, encoding, Want(hidden_states=frozenset({0, 1}), values=frozenset({1})))
    weights = teacher.base_model.state_dict()
    for init in INITS:
        student = student_of(teacher, init)
        found = student(Batch(torch.arange(2), torch.arange(2), (encoding,)), everything)
        assert all(torch.isfinite(one).all() for one in (found.logits, *found.attention_scores.values())), init
        own = student.model.base_model.state_dict()
        for number, layer in enumerate(layers_of(init, 2, DEPTH), start=1):
            for ours, origin in zip(places(student.model, number), places(teacher, layer), strict=True):
                names = [name for name in own if name.startswith(f"{ours}.")]
                assert names and all(torch.equal(own[n], weights[n.replace(ours, origin, 1)]) for n in names), init
        if init != "random" and family != "albert groups":
            alike = emit(student.model, encoding, Want(hidden_states=frozenset({0, 1}), values=frozenset({1})))
            assert init == "random:embeddings" or torch.equal(alike.hidden_states[0], theirs.hidden_states[0])
            assert init != "first" or torch.equal(alike.hidden_states[1], theirs.hidden_states[1])


@torch.no_grad()
def test_layers_of_a_window_stay_what_they_are(tmp_path: Path) -> None:
    """ModernBERT of 4 is global, sliding, sliding, global. What was saved is built so again."""
    teacher, encoding = model_of("modernbert", FAMILIES["modernbert"]), batch()
    kinds = teacher.config.layer_types
    for init in ("every", "4,1", "last"):
        student, layers = student_of(teacher, init), layers_of(init, 2, DEPTH)
        assert student.model.config.layer_types == [kinds[layer - 1] for layer in layers]
        read = Batch(torch.arange(2), torch.arange(2), (encoding,))
        want = Want(logits=True, attention_scores=frozenset({1, 2}))
        found = student(read, want)
        for ours, layer in enumerate(layers, start=1):
            hidden = found.attention_scores[ours][0] == OUT_OF_SIGHT
            assert bool(hidden.any()) == (kinds[layer - 1] == "sliding_attention")
        student.save_pretrained(tmp_path / init)
        again = Transformer.from_pretrained(tmp_path / init).eval()(read, want)
        assert torch.equal(again.logits, found.logits)
        assert torch.equal(again.attention_scores[2], found.attention_scores[2])
        source = teacher.config.to_dict() | starting.built_like(tmp_path / init)  # of a run that starts from this one
        later = Transformer(StudentConfig("transformer", {"layers": 2}, source)).eval()
        starting.load_pretrained(later, tmp_path / init, "earlier", TWO)
        assert torch.equal(later(read, want).attention_scores[2], found.attention_scores[2])


def test_layers_that_share_weights_start_from_such() -> None:
    """ALBERT with two groups: layers 1 and 2 are one, 3 and 4 the other."""
    teacher = model_of("albert groups", FAMILIES["albert groups"])
    config = copy.deepcopy(teacher.config)
    config.num_hidden_groups = 1
    with pytest.raises(UserError, match="but are to start from layers that do not share it"):
        copy_layers(AutoModel.from_config(config), teacher, (1, 2, 3, 4))


@torch.no_grad()
def test_nothing_is_caught_unless_asked_and_nothing_changes() -> None:
    """Gradients reach what is caught, and the model computes the same bits beside it."""
    model, encoding = model_of("deberta-v2", FAMILIES["deberta-v2 third"]), batch()
    plain = emit(model, encoding, Want(logits=True)).logits
    with torch.enable_grad():
        found = emit(model, encoding, Want(logits=True, attention_scores=LAYERS, values=LAYERS))
        assert torch.equal(found.logits, plain)
        (found.attention_scores[2].sum() + found.values[3].sum()).backward()
    touched = [any(p.grad is not None and p.grad.any() for m in part for p in m.parameters()) for part in parts(model)]
    assert touched == [True, True, True, False]


def test_longformer_is_told() -> None:
    found = examine(model_of("longformer", LIKE_ROBERTA | {"attention_window": [4] * 4}))
    assert set(found.lacks) == ATTENTION | {Signal.HIDDEN_STATES, Signal.SENTENCE}
    assert found.uncopied and all(found.lacks.values())


@pytest.mark.parametrize(
    "family", ["bert", "roberta", "electra", "mobilebert", "modernbert", "mpnet", "deberta-v2", "xlm", "albert"]
)
def test_masked_language_models(family: str) -> None:
    """The head is compared at the places of its predictions."""
    examine(model_of(family, FAMILIES[family], masked=True), masked=True)


@torch.no_grad()
@pytest.mark.parametrize("family", ["modernbert", "roberta-prelayernorm"])
def test_the_last_normalisation_comes_along(family: str) -> None:
    teacher, student = (model_of(family, FAMILIES[family], seed=seed) for seed in (1, 2))
    copy_layers(student, teacher, (1, 2, 3, 4))
    ours, theirs = (emit(model, batch(), Want(sentence=True)).sentence for model in (student, teacher))
    assert torch.equal(ours, theirs)


@pytest.mark.parametrize("family", [*DECODERS, *WITH_DECODERS])
def test_decoders_are_refused(family: str) -> None:
    model = AutoModel.from_config(config_of(family, {**DECODERS, **WITH_DECODERS}[family]))
    words = "is an encoder and a decoder" if family in WITH_DECODERS else "is a decoder"
    with pytest.raises(UserError, match=f"a model of type {family} {words}; the harness needs an encoder"):
        examine(model)


def test_a_list_of_layers_is_needed() -> None:
    with pytest.raises(UserError, match="a model of type perceiver has no list of its 4 encoder layers"):
        examine(model_of("perceiver", {"d_latents": 32, "d_model": 32}))
    config = AutoConfig.for_model(
        "funnel", vocab_size=40, block_sizes=[2, 2], d_model=32, n_head=4, d_head=8, d_inner=64
    )
    with pytest.raises(UserError, match="a model of type funnel has no list of its 4 encoder layers"):
        examine(AutoModelForSequenceClassification.from_config(config))


@pytest.mark.parametrize(
    ("family", "longest"), [("bert", 80), ("roberta", 78), ("camembert", 78), ("mpnet", 78), ("distilbert", 80)]
)
def test_positions(family: str, longest: int) -> None:
    """As many tokens as there are positions are read, and one more is told."""
    model = model_of(family, FAMILIES[family])
    ids = torch.full((1, longest), 5)
    emit(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, Want(sentence=True))
    ids = torch.full((1, longest + 1), 5)
    with pytest.raises(UserError, match=f"{longest + 1} tokens, but .* --set max_length={longest} "):
        emit(model, {"input_ids": ids, "attention_mask": torch.ones_like(ids)}, Want(sentence=True))
