"""The bi-attentive student against a slow one written from equations 4.5 to 4.12 of liu2020, and its published size."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from harness.contracts import Batch, ModelInfo, Signal, Want
from harness.errors import UserError
from harness.evaluation.parameters import build_student, count
from harness.modeling.bases import StudentConfig
from harness.registry import STUDENTS
from tests.small_models import THREE, TWO
from tests.students.test_bilstm import BERT, gradients, slow_lstm
from tests.students.test_word_embedding import read

TEACHER = ModelInfo("t", 4, 32, 4, 30, 3, frozenset(Signal), "fingerprint")
WORDS = 10
texts = st.lists(st.integers(1, WORDS - 1), max_size=5)


def build(pairs: bool, **changes: Any) -> Any:
    torch.manual_seed(0)
    small = {"embedding_size": 4, "projection_units": 3, "hidden_units": 2, "head_units": 5}
    config = StudentConfig("biattentive_lstm", small | changes, {}, 3, pairs, vocabulary=WORDS)
    return STUDENTS.get("biattentive_lstm")(config).double().eval()


def slow(student: Any, first: list[int], second: list[int]) -> Tensor:
    """[x_pool; y_pool] of one example without padding, (12h,); the numbers are those of the equations."""

    def embedded(ids: list[int]) -> Tensor:
        words = student.embedding.trained.weight[ids or [0]]
        linear = student.projection[0]
        return torch.relu(words @ linear.weight.T + linear.bias)  # w-hat, (L, projection_units)

    x, y = (slow_lstm(student.encoder, embedded(ids))[0] for ids in (first, second))  # 4.5, 4.6: (n, 2h), (m, 2h)
    a = x @ y.T  # (n, m)
    a_x = torch.stack([column.exp() / column.exp().sum() for column in a.T], 1)  # 4.7, column by column: (n, m)
    a_y = torch.stack([column.exp() / column.exp().sum() for column in a], 1)  # of the transpose: (m, n)
    c_x, c_y = a_x.T @ x, a_y.T @ y  # 4.8: (m, 2h), (n, 2h)
    pools = []
    for number, (own, context) in enumerate(((x, c_y), (y, c_x))):
        states = slow_lstm(student.integrators[number], torch.cat([own, own - context, own * context], 1))[0]  # 4.9
        v, d = student.attentions[number].weight[0], student.attentions[number].bias
        scores = states @ v + d
        weights = scores.exp() / scores.exp().sum()  # 4.10
        pools += [states.max(0).values, states.mean(0), states.T @ weights]  # 4.11, 4.12
    return torch.cat(pools)


@settings(max_examples=20, deadline=None)
@given(st.lists(st.tuples(texts, texts), min_size=1, max_size=4), st.booleans(), st.integers(0, 3))
def test_it_is_the_equations(examples: list[tuple[list[int], list[int]]], pairs: bool, padding: int) -> None:
    """Forward and gradient, for sequences of any lengths, empty ones included, and any padding."""
    student = build(pairs)
    sides = list(zip(*examples, strict=True))[: 1 + pairs]
    encodings = tuple(read(list(side), padding * number) for number, side in enumerate(sides))
    batch = Batch(torch.arange(len(examples)), torch.zeros(len(examples)), encodings)
    pooled = torch.stack([slow(student, first, second if pairs else first) for first, second in examples])
    expected = torch.relu(pooled @ student.head[0].weight.T + student.head[0].bias) @ student.head[2].weight.T
    expected = expected + student.head[2].bias
    found = student(batch, Want(logits=True, sentence=not pairs))
    assert torch.allclose(found.logits, expected, rtol=1e-9)
    if not pairs:
        assert torch.allclose(found.sentence, pooled, rtol=1e-9)
    weights = torch.randn(expected.shape, dtype=torch.float64)
    ours, theirs = (gradients(student, (made * weights).sum()) for made in (found.logits, expected))
    theirs["embedding.trained.weight"][0] = 0  # padding is never trained
    for name, gradient in theirs.items():
        assert torch.allclose(ours[name], gradient, rtol=1e-7, atol=1e-11), name


def test_which_sequence_is_first_matters_as_each_has_an_integrator() -> None:
    student = build(True)
    first, second = read([[2, 3, 4]]), read([[5, 6]])
    logits = [
        student(Batch(torch.arange(1), torch.zeros(1), sides), Want(logits=True)).logits
        for sides in ((first, second), (second, first))
    ]
    assert not torch.allclose(*logits)


def test_what_it_refuses() -> None:
    one, two = (Batch(torch.arange(1), torch.zeros(1), (read([[2, 3]]),) * count) for count in (1, 2))
    with pytest.raises(UserError, match="neither has its own vector"):
        build(True)(two, Want(sentence=True))
    with pytest.raises(UserError, match="a pair has no one row of tokens"):
        build(True)(two, Want(embeddings=True))
    with pytest.raises(UserError, match="built for 1 sequences was given 2"):
        build(False)(two, Want(logits=True))
    with pytest.raises(UserError, match="built for 2 sequences was given 1"):
        build(True)(one, Want(logits=True))


def test_what_it_describes() -> None:
    plugin = STUDENTS.get("biattentive_lstm")
    assert plugin.describe({}, TEACHER, TWO) == ModelInfo(
        "biattentive_lstm",
        1,
        3072,
        0,
        30,
        2,
        frozenset({Signal.LOGITS, Signal.SENTENCE, Signal.EMBEDDINGS}),
        "fingerprint",
        embedding_width=300,
        operations=300 * 300 + 2 * 4 * 256 * (300 + 256) + 2 * 4 * 256 * (6 * 256 + 256),
    )
    assert plugin.describe({}, TEACHER, THREE).pair_encoding == "biattention"
    assert plugin.head_settings == {"head_units"}


@pytest.mark.parametrize("pairs", [False, True])
def test_the_published_parameter_count(pairs: bool) -> None:
    """liu2020, table 4.1: 10.2 M without embeddings, of the sizes of section 4.3.2 and words of 300 numbers."""
    with torch.device("meta"):
        counted = count(build_student("biattentive_lstm", {}, BERT, 2, pairs))
    parts = {
        "projection": 300 * 300 + 300, "encoder": 8 * 256 * (300 + 256 + 2),
        "integrators": 2 * 8 * 256 * (6 * 256 + 256 + 2), "attentions": 2 * (2 * 256 + 1),
        "head": 12 * 256 * 512 + 512 + 512 * 2 + 2,
    }  # fmt: skip
    assert counted["parameters_without_embeddings"] == sum(parts.values()) == 10_156_736
    assert counted["classifier_parameters"] == parts["head"]
    assert counted["parameters"] - counted["parameters_without_embeddings"] == 30522 * 300
