"""What every student must hold to, tested for whatever is registered: a new plugin needs no line here."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from harness.contracts import IGNORED, LAYER_SIGNALS, Batch, Encoding, Outputs, Signal, Want
from harness.data.tasks import CORPUS
from harness.errors import UserError
from harness.planning import merging
from harness.registry import STUDENTS
from harness.runs.settings import TRAINING
from harness.testing import chosen
from harness.testing.student_cases import LENGTHS, SINGLE, VOCABULARY, Case, cases, named, plain, possible

NAMES = chosen(STUDENTS)
ALL = [case for name in NAMES for case in cases(name)]
CASES = [case for case in ALL if possible(case)]
PLAIN = [case for case in CASES if plain(case)]
each_case = pytest.mark.parametrize("case", CASES, ids=named)


def signals_of(outputs: Outputs, batch: Batch) -> dict[tuple[str, int], Tensor]:
    """Every tensor of the outputs by (signal, layer), cut to the length of the unpadded batch, padding zeroed."""
    length = max(LENGTHS[0])
    mask = batch.mask[:, :length]
    found: dict[tuple[str, int], Tensor] = {}
    for name, value in vars(outputs).items():
        if value is None:
            continue
        for layer, tensor in value.items() if isinstance(value, dict) else [(-1, value)]:
            if name in ("embeddings", "hidden_states"):
                tensor = tensor[:, :length] * mask[..., None]
            elif name in ("queries", "keys", "values"):
                tensor = tensor[:, :, :length] * mask[:, None, :, None]
            elif name == "attention_scores":
                tensor = tensor[:, :, :length, :length] * (mask[:, None, :, None] & mask[:, None, None, :])
            found[name, layer] = tensor
    return found


@pytest.mark.parametrize("name", NAMES)
def test_an_impossible_choice_is_refused_with_a_sentence(name: str) -> None:
    for case in ALL:
        if case.name == name and not possible(case):
            with pytest.raises(UserError, match=r"\w+ \w+ \w+"):
                case.describe()
            with pytest.raises(UserError, match=r"\w+ \w+ \w+"):
                case.build()
    assert any(case.name == name and not case.choices for case in CASES)


@each_case
def test_it_is_what_it_describes(case: Case) -> None:
    described, batch, want = case.describe(), case.batch(), case.everything()
    assert described.name == case.name and described.labels == case.task.outputs
    assert described.vocabulary in (0, VOCABULARY)
    # What a setting takes away is told with its reason.
    assert {*described.emits, *map(Signal, described.lacks)} == case.plugin.emits
    assert (described.tokenizer == "the teacher's") == (described.vocabulary == VOCABULARY)
    assert described.pair_encoding in (case.plugin.pair_encodings if case.task.pair else ("joint",))
    outputs = case.build().eval()(batch, want)
    size, length = batch.mask.shape
    assert {name for name, value in vars(outputs).items() if value is not None and value != {}} == {
        signal for signal, _ in want.parts()
    }
    if want.logits:
        assert outputs.logits.shape == (size, described.labels)
    if want.mlm_logits:
        assert batch.targets is not None
        assert outputs.mlm_logits.shape == ((batch.targets != IGNORED).sum(), described.vocabulary)
    if want.sentence:
        assert outputs.sentence.shape == (size, described.sentence_width or described.width)
    heads = described.heads
    for layer, states in outputs.hidden_states.items():
        assert states.shape == (size, length, described.width), layer
    for layer, scores in outputs.attention_scores.items():
        assert scores.shape == (size, heads, length, length), layer
    for found in (outputs.queries, outputs.keys, outputs.values):
        for layer, values in found.items():
            assert values.shape == (size, heads, length, described.width // heads), layer
    if want.embeddings:
        assert outputs.embeddings.shape == (size, length, described.embedding_width or described.width)


def read_apart(case: Case) -> bool:
    return case.describe().pair_encoding != "joint"


@pytest.mark.parametrize("case", [c for c in CASES if read_apart(c)], ids=named)
def test_of_a_pair_read_apart_it_has_two_sentences_or_says_it_has_none(case: Case) -> None:
    described, student, want = case.describe(), case.build().eval(), Want(sentence=True)
    try:
        sentences = student(case.batch(), want).sentence
    except UserError as error:
        assert len(str(error).split()) > 5 and "\n" not in str(error)
        return
    assert sentences.shape == (6, 2, described.sentence_width or described.width)
    swapped = replace(case.batch(), encodings=case.batch(padding=4).encodings[::-1])
    assert torch.allclose(student(swapped, want).sentence, sentences.flip(1), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("case", [c for c in PLAIN if read_apart(c)], ids=named)
def test_one_sequence_where_two_are_read_is_refused_with_a_sentence(case: Case) -> None:
    with pytest.raises(UserError, match=r"\w+ \w+ \w+"):
        case.build()(case.batch(apart=False), Want(logits=True))


@pytest.mark.parametrize("case", [c for c in PLAIN if c.task in (SINGLE, CORPUS)], ids=named)
def test_a_layer_it_has_not_is_refused_with_a_sentence(case: Case) -> None:
    described, student = case.describe(), case.build()
    for signal in LAYER_SIGNALS & described.emits:
        with pytest.raises(UserError, match=rf"{described.layers + 1}"):
            student(case.batch(), Want.of(frozenset({signal}), [described.layers + 1]))


@pytest.mark.parametrize("name", NAMES)
def test_what_the_first_token_sees(name: str) -> None:
    """`first_token_sees_all`: whether its last state changes with the last word."""
    case = Case(name, SINGLE)
    described, student, batch = case.describe(), case.build().eval(), case.batch()
    if Signal.HIDDEN_STATES not in described.emits:
        pytest.skip(f"{name} has no states")
    last, want = described.layers, Want(hidden_states=frozenset({described.layers}))
    ids = batch.encodings[0]["input_ids"].clone()
    ids[0, LENGTHS[0][0] - 1] = ids[0, LENGTHS[0][0] - 1] % (VOCABULARY - 5) + 5  # another ordinary word
    other = replace(batch, encodings=(Encoding({**batch.encodings[0], "input_ids": ids}),))
    before, after = (student(b, want).hidden_states[last][0, 0] for b in (batch, other))
    assert torch.equal(before, after) != described.first_token_sees_all


@each_case
def test_padding_changes_nothing(case: Case) -> None:
    student, want = case.build().eval(), case.everything()
    batch, longer = case.batch(), case.batch(padding=4)
    expected = signals_of(student(batch, want), batch)
    found = signals_of(student(longer, want), batch)
    assert expected.keys() == found.keys()
    for key, tensor in expected.items():
        assert torch.allclose(found[key], tensor, rtol=1e-4, atol=1e-5), key


@each_case
def test_it_goes_through_a_file(case: Case, tmp_path: Path) -> None:
    student, want, batch = case.build().eval(), case.everything(), case.batch()
    student.save_pretrained(tmp_path)
    again = case.plugin.from_pretrained(tmp_path).eval()
    weights = again.state_dict()
    assert weights.keys() == student.state_dict().keys()
    assert all(torch.equal(tensor, weights[name]) for name, tensor in student.state_dict().items())
    found = signals_of(again(batch, want), batch)
    assert all(torch.equal(tensor, found[key]) for key, tensor in signals_of(student(batch, want), batch).items())


@pytest.mark.parametrize("case", PLAIN, ids=named)
def test_the_seed_alone_decides_a_random_start(case: Case) -> None:
    first, same, other = (case.build(seed).state_dict() for seed in (1, 1, 2))
    assert all(torch.equal(tensor, same[name]) for name, tensor in first.items())
    matrices = [name for name, tensor in first.items() if tensor.ndim > 1]
    assert matrices and not any(torch.equal(first[name], other[name]) for name in matrices)
    assert all(tensor.isfinite().all() for tensor in first.values())


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_start_is_refused_with_near_names(name: str) -> None:
    plugin = STUDENTS.get(name)
    assert plugin.canonical_init(" random ") == "random"
    with pytest.raises(UserError, match="random"):
        plugin.canonical_init("randm")


@pytest.mark.parametrize("name", NAMES)
def test_its_recipe_names_what_there_is(name: str) -> None:
    plugin = STUDENTS.get(name)
    known = TRAINING | {f"student.{own}": h for own, h in plugin.hyperparameters.items()}
    for width in (64, 768):
        recipe = plugin.recipe(Case(name, SINGLE).teacher_info(width))
        assert plugin.canonical_init(recipe.start) == recipe.start
        for key, value in recipe.settings.items():
            assert merging.check(key, value, known) == value
        space = merging.space_of(recipe.search, known, ())
        assert space.keys() == recipe.search.keys(), "a setting that is searched and that nothing declares"
        for key, values in space.items():
            bounds = values if isinstance(values, list) else [values["low"], values["high"]]
            assert [merging.check(key, bound, known) for bound in bounds] == bounds and bounds[0] != bounds[-1]
