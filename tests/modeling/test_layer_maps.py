"""Layer choices: hand-worked examples, and properties over all sizes."""

import math
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harness.errors import UserError
from harness.modeling.layer_maps import canonical_init, every, layer_map, layers_of

SIZES = st.integers(1, 30)


@pytest.mark.parametrize(
    ("student", "teacher", "expected"),
    [
        (3, 12, (4, 8, 12)),
        (6, 12, (2, 4, 6, 8, 10, 12)),
        (2, 4, (2, 4)),
        (3, 4, (1, 3, 4)),
        (2, 3, (2, 3)),
        (4, 6, (2, 3, 5, 6)),
        (1, 12, (12,)),
        (4, 4, (1, 2, 3, 4)),
        (5, 2, (1, 1, 1, 2, 2)),
    ],
)
def test_every_by_hand(student: int, teacher: int, expected: tuple[int, ...]) -> None:
    assert every(student, teacher) == expected


@given(student=SIZES, teacher=SIZES)
def test_every_is_the_rounded_share(student: int, teacher: int) -> None:
    chosen = every(student, teacher)
    assert chosen == tuple(
        max(1, math.floor(Fraction(i * teacher, student) + Fraction(1, 2))) for i in range(1, student + 1)
    )
    assert chosen[-1] == teacher and list(chosen) == sorted(chosen) and chosen[0] >= 1


@given(student=SIZES, teacher=SIZES)
def test_first_and_last(student: int, teacher: int) -> None:
    for init, expected in (("first", range(1, student + 1)), ("last", range(teacher - student + 1, teacher + 1))):
        if student > teacher:
            with pytest.raises(UserError, match=f"initialisation {init} needs"):
                layers_of(init, student, teacher)
        else:
            assert layers_of(init, student, teacher) == tuple(expected)


@given(teacher=SIZES, data=st.data())
def test_lists(teacher: int, data: st.DataObject) -> None:
    chosen = data.draw(st.lists(st.integers(1, teacher), min_size=1, max_size=6))
    text = ",".join(map(str, chosen))
    assert layers_of(text, len(chosen), teacher) == tuple(chosen)
    assert layer_map(text, len(chosen), teacher).pairs == tuple(enumerate(chosen, 1))
    assert canonical_init(canonical_init(text)) == canonical_init(text)


@pytest.mark.parametrize(
    ("written", "canonical"),
    [
        ("every", "every"),
        ("teacher_layers:every", "every"),
        ("teacher_layers: 01, 8 ,12", "1,8,12"),
        (" 1,8,012", "1,8,12"),
        ("4", "4"),
        ("random:embeddings", "random:embeddings"),
        ("teacher_layers:last", "last"),
    ],
)
def test_canonical(written: str, canonical: str) -> None:
    assert canonical_init(written) == canonical


def test_random_copies_nothing_and_learns_through_every() -> None:
    for init in ("random", "random:embeddings"):
        assert layers_of(init, 3, 12) == ()
        assert layer_map(init, 3, 12).pairs == ((1, 4), (2, 8), (3, 12))


@pytest.mark.parametrize(
    ("init", "words"),
    [
        ("evry", "did you mean every"),
        ("teacher_layers:random", "unknown init"),
        ("", "valid names: a list like"),
        ("0,1,2", "names layer 0"),
        ("1,8,13", "names layer 13, but the teacher's layers are 1 to 12"),
        ("1,8", "lists 2 layers, but the student has 3"),
        ("5", "lists 1 layer, but the student has 3"),
        ("1,two,3", "is not a list of layers"),
        ("1,,3", "is not a list"),
        ("1.5,2,3", "is not a list"),
        ("-1,2,3", "is not a list"),
        ("1;2;3", "is not a list"),
        ("1,2,3,", "is not a list"),
        ("²,1,2", "is not a list"),
        ("9" * 5000 + ",1,2", "is not a list"),
    ],
)
def test_mistakes_are_told(init: str, words: str) -> None:
    with pytest.raises(UserError, match=words):
        layer_map(init, 3, 12)
