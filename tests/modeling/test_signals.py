"""What is emitted is what the model itself computes, and nothing but what was asked."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from transformers import AttentionMaskInterface, AutoModelForMaskedLM

from harness.contracts import Outputs, Want
from harness.errors import UserError
from harness.modeling.signals import IMPLEMENTATION, emit, prepare
from tests.small_models import FAMILIES, own_inputs, small_batch, small_model

LAYERS = frozenset({1, 2, 3, 4})
HEADS = Want(queries=LAYERS, keys=LAYERS, values=LAYERS)
EVERYTHING = (
    Want(logits=True, sentence=True, embeddings=True, hidden_states=LAYERS | {0}, attention_scores=LAYERS) | HEADS
)


def tensors(outputs: Outputs) -> dict[tuple[str, int], Tensor]:
    """Every tensor in the outputs, keyed as `Want.parts`."""
    found = {}
    for name, value in vars(outputs).items():
        if isinstance(value, dict):
            found.update({(name, layer): tensor for layer, tensor in value.items()})
        elif value is not None:
            found[name, -1] = value
    return found


def masked_softmax(scores: Tensor, batch: dict[str, Tensor]) -> Tensor:
    return scores.masked_fill(~batch["attention_mask"].bool()[:, None, None, :], -torch.inf).softmax(-1)


@pytest.mark.parametrize("family", FAMILIES)
class TestAgainstTheModelItself:
    def test_logits_and_hidden_states_are_its_own(self, family: str) -> None:
        batch = small_batch(family)
        with torch.no_grad():
            own = small_model(family)(**own_inputs(family, batch), output_hidden_states=True)
            ours = emit(small_model(family), batch, EVERYTHING)
            fast = emit(small_model(family), batch, Want(logits=True, hidden_states=LAYERS | {0}))
            headless = emit(small_model(family), batch, Want(sentence=True, hidden_states=frozenset({2})))
        torch.testing.assert_close(ours.logits, own.logits, rtol=1e-4, atol=1e-5)
        assert torch.equal(fast.logits, own.logits)
        for layer in range(5):
            assert torch.equal(fast.hidden_states[layer], own.hidden_states[layer])
        assert torch.equal(ours.embeddings, own.hidden_states[0])
        for layer in range(5):
            torch.testing.assert_close(ours.hidden_states[layer], own.hidden_states[layer], rtol=1e-4, atol=1e-5)
        assert torch.equal(headless.sentence, own.hidden_states[4][:, 0])
        assert torch.equal(headless.hidden_states[2], own.hidden_states[2])

    def test_values_give_the_output_of_attention(self, family: str) -> None:
        """attention x values, joined over heads, is what the model's own output projection reads."""
        batch = small_batch(family)
        model = small_model(family)
        prepare(model)
        read: list[Tensor] = []
        outputs = [m for n, m in model.named_modules() if n.endswith(("attention.output.dense", "attention.out_lin"))]
        outputs[1].register_forward_pre_hook(lambda module, inputs: read.append(inputs[0]))
        with torch.no_grad():
            ours = emit(model, batch, Want(attention_scores=frozenset({2}), values=frozenset({2})))
        context = masked_softmax(ours.attention_scores[2], batch) @ ours.values[2]  # (B, H, L, D / H)
        torch.testing.assert_close(context.transpose(1, 2).flatten(2), read[0], rtol=1e-5, atol=1e-5)

    def test_queries_and_keys_are_what_its_own_layers_make_of_the_states(self, family: str) -> None:
        batch = small_batch(family)
        model = small_model(family)
        prepare(model)
        made: dict[str, list[Tensor]] = {"query": [], "key": []}
        for name, module in model.named_modules():
            kind = {"query": "query", "q_lin": "query", "key": "key", "k_lin": "key"}.get(name.rpartition(".")[2])
            if kind:
                module.register_forward_hook(lambda m, i, output, kind=kind: made[kind].append(output))
        with torch.no_grad():
            ours = emit(model, batch, HEADS | Want(attention_scores=LAYERS))
        for layer in LAYERS:
            for found, own in ((ours.queries, made["query"]), (ours.keys, made["key"])):
                assert torch.equal(found[layer].transpose(1, 2).flatten(2), own[layer - 1])  # (B, H, L, d) -> (B, L, D)
            scores = ours.queries[layer] @ ours.keys[layer].mT / 8**0.5
            torch.testing.assert_close(scores, ours.attention_scores[layer], rtol=1e-5, atol=1e-5)

    def test_gradients_and_dropout_in_training(self, family: str) -> None:
        """With the same random state, training mode gives the eager model's logits and gradients."""
        batch = small_batch(family)
        plain, ours = small_model(family, attention="eager").train(), small_model(family).train()
        torch.manual_seed(1)
        expected = plain(**own_inputs(family, batch)).logits
        torch.manual_seed(1)
        got = emit(ours, batch, EVERYTHING)
        torch.testing.assert_close(got.logits, expected, rtol=1e-4, atol=1e-5)
        expected.square().sum().backward()
        got.logits.square().sum().backward()
        for (name, theirs), (_, mine) in zip(plain.named_parameters(), ours.named_parameters(), strict=True):
            torch.testing.assert_close(mine.grad, theirs.grad, rtol=1e-3, atol=1e-3, msg=name)
        for name, tensor in tensors(got).items():
            assert tensor.requires_grad, name

    def test_gradient_of_scores_reaches_lower_layers_only(self, family: str) -> None:
        model = small_model(family).train()
        scores = emit(model, small_batch(family), Want(attention_scores=frozenset({2}))).attention_scores[2]
        scores.square().sum().backward()
        layers = [m for n, m in model.named_modules() if n.endswith((".layer.0", ".layer.1", ".layer.2"))]
        touched = [any(p.grad is not None and p.grad.abs().sum() > 0 for p in layer.parameters()) for layer in layers]
        assert touched == [True, True, False]

    def test_padding_more_changes_nothing(self, family: str) -> None:
        """Also RoBERTa's positions, which count from the padding token's id."""
        short, long = small_batch(family), small_batch(family, width=15)
        model = small_model(family)
        with torch.no_grad():
            a, b = tensors(emit(model, short, EVERYTHING)), tensors(emit(model, long, EVERYTHING))
        for (name, layer), tensor in a.items():
            other = b[name, layer]
            for row, size in enumerate((9, 5, 7)):
                keep: tuple = (row,)
                if name in ("embeddings", "hidden_states"):
                    keep = (row, slice(size))
                elif name in ("attention_scores", "queries", "keys", "values"):
                    keep = (row, slice(None), slice(size)) + ((slice(size),) if name == "attention_scores" else ())
                torch.testing.assert_close(tensor[keep], other[keep], rtol=1e-4, atol=1e-5)

    def test_exact_never_changes_a_bit(self, family: str) -> None:
        batch, model = small_batch(family), small_model(family)
        everything = tensors(emit(model, batch, EVERYTHING, exact=True))
        wants = [
            Want(logits=True),
            Want(sentence=True),
            Want(hidden_states=frozenset({0, 3})),
            Want(embeddings=True, values=frozenset({4})),
            Want(queries=frozenset({1}), keys=frozenset({3})),
            Want(attention_scores=frozenset({2})),
            Want(logits=True, attention_scores=frozenset({1, 4})),
        ]
        for want in wants:
            for name, tensor in tensors(emit(model, batch, want, exact=True)).items():
                assert torch.equal(tensor, everything[name]), (want, name)

    def test_exact_is_the_same_without_padding(self, family: str) -> None:
        batch, model = small_batch(family, lengths=(8, 8)), small_model(family)
        exact, fast = emit(model, batch, EVERYTHING, exact=True), emit(model, batch, Want(logits=True))
        torch.testing.assert_close(exact.logits, fast.logits, rtol=1e-4, atol=1e-5)

    def test_masked_language_model(self, family: str) -> None:
        batch = small_batch(family)
        model = small_model(family, head=AutoModelForMaskedLM)
        with torch.no_grad():
            own = small_model(family, head=AutoModelForMaskedLM)(**own_inputs(family, batch)).logits
            ours = emit(model, batch, Want(mlm_logits=True, sentence=True))
        assert torch.equal(ours.mlm_logits, own) and own.shape == (3, 9, 40)
        assert ours.logits is None


@settings(max_examples=30, deadline=None)
@given(
    logits=st.booleans(),
    sentence=st.booleans(),
    hidden=st.frozensets(st.integers(0, 4)),
    scores=st.frozensets(st.integers(1, 4)),
    heads=st.tuples(*[st.frozensets(st.integers(1, 4))] * 3),
    exact=st.booleans(),
)
def test_just_what_was_asked(
    logits: bool,
    sentence: bool,
    hidden: frozenset[int],
    scores: frozenset[int],
    heads: tuple[frozenset[int], ...],
    exact: bool,
) -> None:
    queries, keys, values = heads
    want = Want(logits, sentence, False, hidden, scores, values, sentence, queries, keys)
    found = tensors(emit(MODEL, small_batch("bert"), want, exact))
    assert set(found) == set(want.parts())
    shapes = {
        "logits": (3, 2),
        "sentence": (3, 32),
        "hidden_states": (3, 9, 32),
        "attention_scores": (3, 4, 9, 9),
        "embeddings": (3, 9, 32),
    } | dict.fromkeys(("queries", "keys", "values"), (3, 4, 9, 8))
    assert all(tensor.shape == shapes[name] for (name, _), tensor in found.items())


MODEL = small_model("bert")


@pytest.mark.parametrize(
    ("want", "words"),
    [
        (Want(hidden_states=frozenset({2, 5})), "hidden_states of layer 5"),
        (Want(attention_scores=frozenset({0})), "attention_scores of layer 0"),
        (Want(values=frozenset({7})), "layers are 1 to 4"),
        (Want(keys=frozenset({0})), "keys of layer 0"),
    ],
)
def test_a_layer_the_model_does_not_have(want: Want, words: str) -> None:
    with pytest.raises(UserError, match=words):
        emit(MODEL, small_batch("bert"), want)


def test_a_missing_mask_would_be_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its registered mask function the model attends to padding: the comparisons above would fail."""
    batch = small_batch("bert")
    with torch.no_grad():
        right = emit(small_model("bert"), batch, EVERYTHING).logits
        monkeypatch.delitem(AttentionMaskInterface._global_mapping, IMPLEMENTATION)
        wrong = emit(small_model("bert"), batch, EVERYTHING).logits
    assert (right - wrong)[1:].abs().amax() > 1e-2


def test_the_fast_kernel_runs_unless_scores_are_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    kernel = torch.nn.functional.scaled_dot_product_attention
    monkeypatch.setattr(
        torch.nn.functional, "scaled_dot_product_attention", lambda *a, **k: calls.append(1) or kernel(*a, **k)
    )
    counts = {}
    cases = (
        ("none", Want(logits=True), False),
        ("values", Want(values=LAYERS), False),
        ("one", Want(attention_scores=frozenset({3})), False),
        ("exact", Want(logits=True), True),
    )
    for name, want, exact in cases:
        prepare(model := small_model("bert"))
        calls.clear()
        emit(model, small_batch("bert"), want, exact)
        counts[name] = len(calls)
    assert counts == {"none": 4, "values": 4, "one": 3, "exact": 0}


def test_scores_of_a_model_that_names_no_scale_have_the_usual_one() -> None:
    named, unnamed = small_model("bert"), small_model("bert")
    for part in unnamed.modules():
        if hasattr(part, "scaling"):
            part.scaling = None
    with torch.no_grad():
        ours, theirs = (emit(model, small_batch("bert"), EVERYTHING) for model in (unnamed, named))
    assert all(torch.equal(ours.attention_scores[layer], theirs.attention_scores[layer]) for layer in LAYERS)
    assert torch.equal(ours.logits, theirs.logits)


def test_preparing_twice_changes_nothing() -> None:
    model = small_model("electra")
    prepare(model)
    first = emit(model, small_batch("electra"), EVERYTHING).logits
    prepare(model)
    assert torch.equal(first, emit(model, small_batch("electra"), EVERYTHING).logits)


def test_a_saved_model_is_an_ordinary_checkpoint(tmp_path) -> None:
    model = small_model("bert")
    expected = emit(model, small_batch("bert"), Want(logits=True)).logits
    model.save_pretrained(tmp_path)
    assert IMPLEMENTATION not in (tmp_path / "config.json").read_text()
    again = type(model).from_pretrained(tmp_path).eval()
    assert torch.equal(again(**small_batch("bert")).logits, expected)


def test_attention_that_is_no_softmax_over_all_tokens_is_told() -> None:
    from transformers import FNetConfig, FNetForSequenceClassification

    config = FNetConfig(vocab_size=40, hidden_size=16, num_hidden_layers=2, intermediate_size=16, num_attention_heads=2)
    model, batch = FNetForSequenceClassification(config).eval(), small_batch("roberta")
    del batch["attention_mask"], batch["token_type_ids"]
    assert emit(model, batch, Want(logits=True, hidden_states=frozenset({1}))).logits.shape == (3, 2)
    with pytest.raises(UserError, match="attention of FNetForSequenceClassification neither goes through"):
        emit(model, batch, Want(values=frozenset({1})))
