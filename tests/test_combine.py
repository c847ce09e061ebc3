import math
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.combine import canonical, declared, idle, parse, recorded, refuse, stage, wants
from harness.contracts import Hyperparameter, Outputs, Want
from harness.data.tasks import get_task
from harness.errors import UserError
from harness.hyperparameters import Bounds
from harness.registry import OBJECTIVES
from harness.testing.objective_cases import (
    CLASSES,
    LAYERS,
    SCORES,
    STUDENT,
    TEACHER,
    make,
    make_batch,
    make_outputs,
)
from harness.training.sums import Sum


def build(expression: str, **hyperparameters: Any) -> Sum:
    return Sum(
        parse(expression), STUDENT, TEACHER, LAYERS, {k.replace("__", "."): v for k, v in hyperparameters.items()}
    )


def outputs_for(combined: Sum) -> tuple[Outputs, Outputs]:
    student, teacher = combined.wants()
    return make_outputs(STUDENT, student, make_batch(), 1), make_outputs(TEACHER, teacher, make_batch(), 2)


@pytest.mark.parametrize(
    ("method", "answer", "said"),
    [
        ("wants", None, "wants returned None, but must return two Wants"),
        ("wants", (Want(), None), "wants returned .*, but must return two Wants, of student"),
        ("idle", None, "what idle returns is a tuple of words, as in .*, not None"),
        ("idle", "alpha", "what idle returns is a tuple of words, as in .*, not 'alpha'"),
        ("idle", {"temprature"}, "what idle returns names 'temprature', .* did you mean temperature"),
    ],
)
def test_an_objective_that_answers_amiss(
    method: str, answer: object, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(OBJECTIVES.get("vanilla_kd"), method, lambda *_: answer)
    with pytest.raises(UserError, match=f"^objective vanilla_kd: {said}"):
        wants(parse("vanilla_kd"), STUDENT, TEACHER, LAYERS)
        idle(parse("vanilla_kd"), get_task("sst2"))


def test_a_sum_is_sorted_by_name_with_its_weights() -> None:
    assert parse("hid_seq + 0.5*att_kl") == ((0.5, "att_kl"), (1.0, "hid_seq"))
    assert parse("vanilla_kd") == ((1.0, "vanilla_kd"),)


@pytest.mark.parametrize(
    ("expression", "expected"),
    [
        ("hid_seq+att_kl", "att_kl+hid_seq"),
        ("1.0*att_kl + hid_seq", "att_kl+hid_seq"),
        (" 0.50 * val_kl ", "0.5*val_kl"),
        ("2*hid_cls", "2*hid_cls"),
        ("1e20*hid_cls+att_mse", "att_mse+1e20*hid_cls"),
    ],
)
def test_canonical_spelling(expression: str, expected: str) -> None:
    assert canonical(expression) == expected


@pytest.mark.parametrize(
    ("expression", "message"),
    [
        ("", "empty term"),
        ("att_kl+", "empty term"),
        ("att_kl++hid_seq", "empty term"),
        ("0.5*", "empty term"),
        ("*att_kl", "empty term"),
        ("att_kl+att_kll", "unknown objective 'att_kll': did you mean att_kl"),
        ("att_kl+0.5*att_kl", "'att_kl' appears twice"),
        ("half*att_kl", "'half' .* is not a number"),
        ("0*att_kl", "greater than zero"),
        ("-1*att_kl", "greater than zero"),
        ("nan*att_kl", "finite"),
        ("inf*att_kl", "finite"),
        ("1e999*att_kl", "finite"),
        ("att_kl*0.5", "unknown objective '0.5'|'att_kl' .* is not a number"),
    ],
)
def test_a_wrong_sum_is_refused_in_one_sentence(expression: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        parse(expression)
    assert "\n" not in str(caught.value)


weighted = st.dictionaries(
    st.sampled_from(OBJECTIVES.names()), st.floats(min_value=1e-300, max_value=1e300), min_size=1
)
spaces = st.sampled_from(["", " ", "  "])


@settings(deadline=None)
@given(terms=weighted, data=st.data())
def test_order_spaces_and_spelling_of_weights_do_not_matter(terms: dict[str, float], data: st.DataObject) -> None:
    shuffled = data.draw(st.permutations(list(terms)))
    written = "+".join(
        f"{data.draw(spaces)}{repr(terms[name]).replace('+', '')}{data.draw(spaces)}*{name}" for name in shuffled
    )
    assert {name: weight for weight, name in parse(written)} == terms
    assert canonical(written) == canonical("+".join(f"{repr(terms[name]).replace('+', '')}*{name}" for name in terms))
    assert parse(canonical(written)) == parse(written)
    assert canonical(canonical(written)) == canonical(written)


@settings(deadline=None)
@given(st.text(alphabet="ahid_seqkl+*.01e- ", max_size=30))
def test_any_text_is_parsed_or_refused(text: str) -> None:
    try:
        terms = parse(text)
    except UserError as error:
        assert "\n" not in str(error)
    else:
        assert terms and all(math.isfinite(weight) and weight > 0 for weight, _ in terms)


def test_the_loss_is_the_weighted_sum_of_its_terms_and_names_them() -> None:
    combined, batch = build("0.5*att_kl+val_kl+hid_seq"), make_batch()
    student, teacher = outputs_for(combined)
    alone = {name: make(name)(student, teacher, batch).item() for name in ("att_kl", "hid_seq", "val_kl")}
    total, parts = combined(student, teacher, batch)
    assert {name: part.item() for name, part in parts.items()} == pytest.approx(
        {"att_kl": 0.5 * alone["att_kl"], "hid_seq": alone["hid_seq"], "val_kl": alone["val_kl"]}
    )
    assert total.item() == pytest.approx(0.5 * alone["att_kl"] + alone["hid_seq"] + alone["val_kl"])
    assert total.requires_grad and any(part.requires_grad for part in parts.values())  # shares are taken of them


def test_wants_are_the_union_of_the_terms() -> None:
    expected = (
        Want(hidden_states=frozenset({1, 2}), attention_scores=frozenset({1, 2})),
        Want(hidden_states=frozenset({2, 4}), attention_scores=frozenset({2, 4})),
    )
    assert build("att_kl+hid_seq").wants() == expected == wants(parse("hid_seq+att_kl"), STUDENT, TEACHER, LAYERS)
    assert wants(parse("hid_cls_contrast+hid_cls"), STUDENT, TEACHER, LAYERS)[1].hidden_states == set(range(5))


def test_hyperparameters_reach_their_objective_and_no_other() -> None:
    batch = make_batch()
    combined = build("vanilla_kd+logit_mse", vanilla_kd__temperature=5.0)
    student, teacher = outputs_for(combined)
    _, parts = combined(student, teacher, batch)
    assert parts["vanilla_kd"] == make("vanilla_kd", temperature=5.0)(student, teacher, batch)
    assert parts["vanilla_kd"] != make("vanilla_kd")(student, teacher, batch)
    assert parts["logit_mse"] == make("logit_mse")(student, teacher, batch)


def test_stage_is_that_of_all_terms_or_mixed() -> None:
    assert stage(parse("att_kl+hid_seq")) == "intermediate"
    assert stage(parse("vanilla_kd+logit_mse")) == "prediction"
    assert stage(parse("vanilla_kd+att_kl")) == "mixed"


def test_declared_hyperparameters_carry_their_objectives_name() -> None:
    found = declared(parse("att_kl+vanilla_kd"))
    assert set(found) == {"vanilla_kd.temperature", "vanilla_kd.alpha"}
    assert found["vanilla_kd.alpha"].default == 0.5  # as records have called it since its release


def test_a_setting_has_the_name_it_was_released_with_in_records_and_another_for_people() -> None:
    given = {"vanilla_kd.soft_weight": "0.3", "mlm_kd.soft_weight": 0.7, "epochs": 2, "hybrid.head": "mlp"}
    assert recorded(given) == {"vanilla_kd.alpha": 0.3, "mlm_kd.alpha": 0.3, "epochs": 2, "hybrid.head": "mlp"}
    assert recorded({"mlm_kd.alpha": "0.7", "att_kl.x": 1}) == {"mlm_kd.alpha": "0.7", "att_kl.x": 1}
    few, low = Hyperparameter(0.5, low=0.2, high=0.4), Hyperparameter(0.5, low=0.0)
    assert recorded({"mlm_kd.soft_weight": (0.1, 0.5)}) == {"mlm_kd.alpha": (0.9, 0.5)}
    for name, bounds in (("vanilla_kd", (0.2, 0.4)), ("mlm_kd", (0.6, 0.8))):
        space = recorded({f"{name}.soft_weight": few})[f"{name}.alpha"]
        assert (space.low, space.high) == bounds
    assert recorded({"mlm_kd.soft_weight": low})["mlm_kd.alpha"].high == 1.0
    assert recorded({"mlm_kd.soft_weight": Bounds("0.1", "0.4")}) == {"mlm_kd.alpha": Bounds("0.6", "0.9")}
    for both in (("mlm_kd.alpha", "mlm_kd.soft_weight"), ("mlm_kd.soft_weight", "mlm_kd.alpha")):
        with pytest.raises(UserError, match=r"mlm_kd\.soft_weight and mlm_kd\.alpha are two names of the same setting"):
            recorded(dict.fromkeys(both, 0.5))
    with pytest.raises(UserError, match=r"mlm_kd\.soft_weight must be between 0.0 and 1.0"):
        recorded({"mlm_kd.soft_weight": "1.5"})


def test_both_names_give_the_very_same_objective() -> None:
    for name, alpha, weight in (("vanilla_kd", 0.3, 0.3), ("mlm_kd", 0.3, 0.7)):
        kind = Sum(parse(name), STUDENT, TEACHER, LAYERS, {f"{name}.alpha": alpha}).objectives[0]
        assert weight in (getattr(kind, "soft_weight", None), getattr(kind, "keywords", {}).get("soft_weight"))


def test_one_terms_refusal_refuses_the_sum() -> None:
    assert refuse(parse("att_kl+hid_cls_contrast"), STUDENT, TEACHER, CLASSES) == ""
    assert "hid_cls_contrast" in refuse(parse("att_kl+hid_cls_contrast"), STUDENT, TEACHER, SCORES)


def test_learned_parts_and_memories_of_all_terms_are_saved_and_restored() -> None:
    labels = torch.arange(6) % 3
    torch.manual_seed(0)
    saved, restored = build("hid_seq+hid_cls_contrast"), build("hid_seq+hid_cls_contrast")
    for combined in (saved, restored):
        combined.prepare(labels, len(labels))
    student, teacher = outputs_for(saved)

    def loss(combined: Sum) -> torch.Tensor:
        torch.manual_seed(1)
        return combined(student, teacher, make_batch())[0]

    loss(saved)
    restored.load_state_dict(saved.state_dict())
    assert torch.equal(loss(saved), loss(restored))
    assert len(list(saved.parameters())) == 2 + 4  # W_h of two layers; two projections with bias
