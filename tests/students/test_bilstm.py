"""The BiLSTM student against one written from the equations, and its published sizes."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from harness.contracts import Batch, ModelInfo, Signal, Want
from harness.errors import UserError
from harness.evaluation.parameters import build_student, count
from harness.modeling.bases import StudentConfig
from harness.registry import STUDENTS
from harness.students import words
from tests.small_models import THREE, TWO
from tests.students.test_word_embedding import read

TEACHER = ModelInfo("t", 4, 32, 4, 30, 3, frozenset(Signal), "fingerprint")
FIRST, SECOND = [[2, 3, 4, 5, 6], [7, 8], [], [9]], [[5], [3, 3, 8, 9, 4, 2, 7], [6, 5], []]
BERT = {"vocab_size": 30522, "pad_token_id": 0, "hidden_size": 768}


def slow_lstm(lstm: nn.LSTM, inputs: Tensor) -> tuple[Tensor, Tensor]:
    """One sequence (L, W) -> (states (L, 2h), the last of both directions (2h,)), by the equations of an LSTM."""
    weights = dict(lstm.named_parameters())
    directions = []
    for suffix, order in (("l0", range(len(inputs))), ("l0_reverse", reversed(range(len(inputs))))):
        w, u, b, c = (weights[f"{name}_{suffix}"] for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
        hidden = cell = inputs.new_zeros(lstm.hidden_size)
        states: dict[int, Tensor] = {}
        for place in order:
            gates = w @ inputs[place] + b + u @ hidden + c
            take, forget, new, give = gates.chunk(4)
            cell = forget.sigmoid() * cell + take.sigmoid() * new.tanh()
            hidden = states[place] = give.sigmoid() * cell.tanh()
        directions.append((torch.stack([states[place] for place in range(len(inputs))]), hidden))
    (ahead, last), (back, first) = directions
    return torch.cat([ahead, back], 1), torch.cat([last, first])


def build(pairs: bool = False, outputs: int = 2, **settings: Any) -> Any:
    torch.manual_seed(0)
    small = {"embedding_size": 4, "hidden_units": 3, "head_units": 5}
    config = StudentConfig("bilstm", small | settings, {"hidden_size": 8}, outputs, pairs, vocabulary=10)
    return STUDENTS.get("bilstm")(config).double().eval()


def batch(*rows: list[list[int]]) -> Batch:
    return Batch(torch.arange(4), torch.zeros(4), tuple(read(side, padding) for padding, side in enumerate(rows)))


def gradients(student: Any, loss: Tensor) -> dict[str, Tensor]:
    named = dict(student.named_parameters())
    found = torch.autograd.grad(loss, list(named.values()))
    return {name: g.to_dense() if g.is_sparse else g for name, g in zip(named, found, strict=True)}


@pytest.mark.parametrize("projection", ["none", "teacher_width"])
@pytest.mark.parametrize("channels", ["trained", "frozen_and_trained"])
@pytest.mark.parametrize("pairs", [False, True])
def test_it_is_the_equations(pairs: bool, channels: str, projection: str) -> None:
    """liu2020, 3.1 and 3.2; wu2020, section 3.1: sentence by sentence, without padding, forward and gradient."""
    student = build(pairs, channels=channels, projection=projection)
    words = student.embedding
    sides = [FIRST, SECOND] if pairs else [FIRST]

    def sentence(ids: list[int]) -> Tensor:
        table = words.trained.weight[ids or [0]]
        inputs = table if words.frozen is None else torch.cat([words.frozen[ids or [0]], table], 1)
        last = slow_lstm(student.lstm, inputs)[1]
        return last if projection == "none" else torch.tanh(student.projection[0].weight @ last)

    expected_logits, expected_sentences = [], []
    for example in zip(*sides, strict=True):
        vectors = [sentence(ids) for ids in example]
        u, v = vectors[0], vectors[-1]
        compared = torch.cat([u, v, (u - v).abs(), u * v]) if pairs else u
        expected_logits.append(student.head[2](torch.relu(student.head[0](compared))))
        expected_sentences.append(torch.stack(vectors) if pairs else u)
    logits, sentences = torch.stack(expected_logits), torch.stack(expected_sentences)
    found = student(batch(*sides), Want(logits=True, sentence=True))
    assert torch.allclose(found.logits, logits, rtol=1e-10) and torch.allclose(found.sentence, sentences, rtol=1e-10)
    weights = torch.randn(4, 2, dtype=torch.float64)
    ours, theirs = (gradients(student, (made * weights).sum()) for made in (found.logits, logits))
    for name, gradient in theirs.items():
        gradient[0] = 0 if name == "embedding.trained.weight" else gradient[0]  # padding is never trained
        assert torch.allclose(ours[name], gradient, rtol=1e-8, atol=1e-12), name


@pytest.mark.parametrize("projection", ["none", "teacher_width"])
def test_the_states_of_its_tokens_are_the_equations(projection: str) -> None:
    student = build(vocabulary="teacher", projection=projection)
    found = student(batch(FIRST), Want(hidden_states=frozenset({0, 1}))).hidden_states

    def projected(states: Tensor) -> Tensor:
        return states if projection == "none" else torch.tanh(states @ student.projection[0].weight.T)

    for row, ids in enumerate(FIRST):
        table = student.embedding.trained.weight
        if ids:
            whole = projected(slow_lstm(student.lstm, table[ids])[0])
            alone = projected(torch.cat([slow_lstm(student.lstm, table[[one]])[0] for one in ids]))
            assert torch.allclose(found[1][row, : len(ids)], whole, rtol=1e-10)
            assert torch.allclose(found[0][row, : len(ids)], alone, rtol=1e-10)
        assert found[0].shape == found[1].shape and not any(states[row, len(ids) :].any() for states in found.values())


def test_autocast_changes_nothing() -> None:
    student, want = build().float(), Want(logits=True, sentence=True)
    expected = student(batch(FIRST), want)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = student(batch(FIRST), want)
    assert found.logits.dtype == torch.float32 and torch.equal(found.logits, expected.logits)
    assert torch.equal(found.sentence, expected.sentence)


def test_what_it_describes() -> None:
    plugin = STUDENTS.get("bilstm")
    assert plugin.describe({}, TEACHER, TWO) == ModelInfo(
        "bilstm",
        1,
        300,
        0,
        0,
        2,
        frozenset({Signal.LOGITS, Signal.SENTENCE, Signal.EMBEDDINGS}),
        "words",
        embedding_width=300,
        operations=2 * 4 * 150 * (300 + 150),
        lacks={"hidden_states": "it has its own words, not the teacher's tokens: --set bilstm.vocabulary=teacher"},
    )
    assert plugin.describe({"vocabulary": "teacher"}, TEACHER, TWO).emits == plugin.emits
    assert plugin.describe({"channels": "frozen_and_trained"}, TEACHER, TWO).embedding_width == 600
    projected = plugin.describe({"projection": "teacher_width", "hidden_units": 7}, TEACHER, THREE)
    assert (projected.width, projected.sentence_width, projected.pair_encoding) == (32, 0, "compare")
    assert plugin.head_settings == {"head_units"}
    assert build(projection="teacher_width").projection[0].weight.shape == (8, 6)


def test_the_teachers_width_may_be_missing() -> None:
    config = StudentConfig("bilstm", {"projection": "teacher_width"}, {"dim": 9}, 2, vocabulary=10)
    student: Any = STUDENTS.get("bilstm")(config)
    assert student.projection[0].weight.shape == (9, 300)  # DistilBERT calls it dim
    config.source = {}
    with pytest.raises(UserError, match="hidden_size"):
        STUDENTS.get("bilstm")(config)


def counted(pairs: bool, outputs: int = 2, **settings: Any) -> int:
    with torch.device("meta"):
        made = build_student("bilstm", settings, BERT, outputs, pairs)
    return count(made)["parameters_without_embeddings"]


SRA: dict[str, Any] = {"hidden_units": 512, "projection": "teacher_width", "head_units": 256}


def test_the_parameters_of_sentence_representation_approximation() -> None:
    """3.33 M + 0.79 M (BiLSTM, projection) and the head; over wu2020's four tasks on average the published 4.8 M."""
    assert counted(False, outputs=0, **SRA) == 3_334_144 + 786_432
    sst2, qqp, mnli = counted(False, 2, **SRA), counted(True, 2, **SRA), counted(True, 3, **SRA)
    assert (sst2, qqp, mnli) == (4_317_954, 4_907_778, 4_908_035)
    assert round((sst2 + 2 * qqp + mnli) / 4e6, 1) == 4.8


@pytest.mark.parametrize("width", [5, words.WIDEST + 1])
def test_states_and_gradients_are_those_of_each_text_alone(width: int) -> None:
    """Whichever way is chosen: in training, in inference, and where the input is wide."""
    torch.manual_seed(0)
    lstm, lengths = nn.LSTM(width, 4, batch_first=True, bidirectional=True), torch.tensor([3, 6, 1])
    inputs = torch.randn(3, 8, width)
    inputs[0, 3:] = inputs[2, 1:] = 1e4  # what is past the end is not read

    def gradients(loss: torch.Tensor) -> list[torch.Tensor]:
        return list(torch.autograd.grad(loss, list(lstm.parameters())))

    states, last = words.run(lstm, inputs, lengths)
    assert states.shape == (3, 6, 8)
    with torch.no_grad():
        again = words.run(lstm, inputs, lengths)
        assert all(torch.allclose(a, b, atol=1e-6) for a, b in zip((states, last), again, strict=True))
    every = [lstm(one[None, :length]) for one, length in zip(inputs, lengths, strict=True)]
    for row, (alone, (ends, _)) in enumerate(every):
        assert torch.allclose(states[row, : lengths[row]], alone[0], atol=1e-6)
        assert torch.allclose(last[row], ends[:, 0].flatten(), atol=1e-6)
        assert not states[row, lengths[row] :].any()
    found = gradients(states.square().sum() + last.sum())
    expected = gradients(sum(alone.square().sum() + ends.sum() for alone, (ends, _) in every))
    assert all(torch.allclose(a, b, rtol=1e-4, atol=1e-5) for a, b in zip(found, expected, strict=True))
