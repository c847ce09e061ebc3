"""Masking and replacement by part of speech: rates, what stays, whose turn it is, and what decides."""

import hashlib
import json
import re
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from harness.data.augmentation import SameTag, augment
from harness.data.encoding import MASK
from harness.data.sources import Split
from tests.data.test_augmentation import Table, near, rows, singles

WORD = re.compile(r"\w+(?:['’]\w+)*")
SENTENCES = (
    "The old dog quickly chased a small cat .",
    "my reaction in a word : disappointment .",
    "She doesn't like the new film , but he loves it !",
    "Two farmers were walking to the market yesterday .",
    "a great story, badly told; the actors sleep through it",
    "I [never] saw 3 better films in 20 years...",
)


def masked(split: Split, copies: int = 3, probability: float = 0.1, seed: int = 0, tags: bool = False) -> Split:
    return augment(split, SameTag(split) if tags else None, copies, probability, seed, masking=True)


# ---------------------------------------------------------------- what becomes of a word


def test_every_word_and_no_punctuation() -> None:
    found = masked(singles("It's bad,\tvery_bad -- don’t: 3.5 [x]!", "..."), probability=1.0)
    expected = "[MASK] [MASK],\t[MASK] -- [MASK]: [MASK].[MASK] [[MASK]]!"
    assert rows(found)[2:] == [(expected, None, 0)]  # two equal copies are dropped, and the one that equals "..."


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.7])
def test_rates(probability: float) -> None:
    """P(mask) = p, P(replaced) = p, or what one leaves for the other: never both."""
    split = singles(*(f"{'a ' * 100}{i} ." for i in range(100)))
    text = " ".join(augment(split, Table("a", ".", candidates=("X",)), 5, probability, 7, masking=True).text_a[100:])
    assert near(len(re.findall(r"\[MASK\](?= (a|X|\[))", text)), 500 * 99, probability)
    assert near(text.count("X"), 500 * 100, min(probability, 1 - probability)) and text.count(".") == 500
    alone = " ".join(masked(split, 5, probability, 7).text_a[100:])
    assert near(alone.count(MASK), 500 * 101, probability)


@pytest.mark.parametrize("seed", range(3))
def test_a_word_is_replaced_by_one_of_its_tag(seed: int) -> None:
    """Every new word stands somewhere in the texts with the tag of the word it replaced."""
    from textblob.en import tag

    def tagged(text: str) -> list[tuple[str, str]]:
        return tag(" ".join(re.findall(rf"{WORD.pattern}|[^\w\s]", text)), tokenize=False)

    split = Split("train", [*SENTENCES], None, np.arange(len(SENTENCES)))
    known = {pair for text in SENTENCES for pair in tagged(text)}
    new: Counter[str] = Counter()
    for text, _, origin in rows(masked(split, 20, 0.3, seed, tags=True))[len(SENTENCES) :]:
        old = [pair for pair in tagged(SENTENCES[int(origin)]) if WORD.match(pair[0])]
        for (word, its_tag), other in zip(old, re.findall(rf"\[MASK\]|{WORD.pattern}", text), strict=True):
            assert other in (MASK, word) or (other, its_tag) in known
            new[other] += other not in (MASK, word)
    assert new.total() > 50 and {"cat", "film", "great", "the"} <= {word for word in new if new[word]}


def test_replacements_are_drawn_by_their_frequency() -> None:
    """Of the six nouns three are `dog`, two `cat` and one `FILM`, with its capitals."""
    split = singles("the dog saw the cat", "the dog saw the cat", "the dog saw a FILM")
    by_tag = SameTag(split)
    assert by_tag.words["NN"] == ["FILM", "cat", "cat", "dog", "dog", "dog"]
    many = Split("train", [f"the dog {i}" for i in range(3000)], None, np.zeros(3000, int))
    found = augment(many, by_tag, 1, 0.5, 0, masking=True).text_a[3000:]
    words = Counter(text.split()[1] for text in found)
    assert near(words[MASK], len(found), 0.5) and set(words) == {MASK, "dog", "cat", "FILM"}
    drawn = words.total() - words[MASK]
    assert near(words["cat"], drawn, 1 / 3) and near(words["FILM"], drawn, 1 / 6)


text = st.text(st.one_of(st.sampled_from("ab ,.'é\n/[]"), st.characters(exclude_categories=["Cs"])), max_size=30)


@settings(deadline=None)
@given(st.lists(st.tuples(text, text, st.integers(0, 1)), min_size=1, max_size=6), st.booleans(), st.booleans())
def test_properties(examples: list[tuple[str, str, int]], pair: bool, tags: bool) -> None:
    first, second, labels = map(list, zip(*examples, strict=True))
    split = Split("train", first, second if pair else None, np.array(labels))
    found = masked(split, 4, 0.4, 0, tags)
    new = rows(found)[len(examples) :]
    assert rows(found)[: len(examples)] == rows(split)
    assert len(set(new)) == len(new) and not set(new) & set(rows(split))
    vocabulary = {word for one in (*first, *(second if pair else ())) for word in WORD.findall(one)}
    allowed = "|".join(map(re.escape, sorted({MASK, *(vocabulary if tags else ())}, key=len, reverse=True)))
    for copy in new:
        assert any(
            label == copy[2] and made_of(copy[0], one, allowed) and made_of(copy[1] or "", two or "", allowed)
            for one, two, label in rows(split)
        )
    fewer = rows(masked(split, 3, 0.4, 0, tags))
    assert fewer == rows(found)[: len(fewer)]
    turned = Split("train", first[::-1], second[::-1] if pair else None, split.labels[::-1])
    assert set(rows(masked(turned, 4, 0.4, 0, tags))) == set(rows(found))


def made_of(copy: str, original: str, allowed: str) -> bool:
    """Whether `copy` is `original` with words, and nothing else, replaced by what is allowed."""
    parts, end = [], 0
    for word in WORD.finditer(original):
        parts += [re.escape(original[end : word.start()]), f"(?:{re.escape(word.group())}|{allowed})"]
        end = word.end()
    return re.fullmatch("".join([*parts, re.escape(original[end:])]), copy) is not None


# ---------------------------------------------------------------- copies


def test_the_texts_of_a_pair_take_turns() -> None:
    split = Split("train", ["a b"], ["c, d"], np.array([0.5], np.float32))
    found = masked(split, 6, 1.0)
    first, second = "[MASK] [MASK]", "[MASK], [MASK]"
    assert rows(found) == [("a b", "c, d", 0.5), (first, "c, d", 0.5), ("a b", second, 0.5), (first, second, 0.5)]
    assert found.labels.dtype == np.float32


@pytest.mark.parametrize("tags", [False, True])
def test_the_other_text_of_a_pair_is_untouched(tags: bool) -> None:
    split = Split("train", [*SENTENCES], [*SENTENCES[::-1]], np.arange(len(SENTENCES)))
    changed: Counter[tuple[bool, bool]] = Counter()
    for one, two, label in rows(masked(split, 9, 0.5, 0, tags))[len(SENTENCES) :]:
        changed[one != SENTENCES[int(label)], two != SENTENCES[::-1][int(label)]] += 1
    every = 3 * len(SENTENCES)
    assert set(changed) == {(True, False), (False, True), (True, True)} and changed.total() >= 3 * every - 2
    assert near(changed[True, True], changed.total(), 1 / 3)


def test_other_seeds_and_copies_are_other_texts() -> None:
    split = singles("a " * 30)
    assert len({copy for seed in range(3) for copy in masked(split, 3, 0.5, seed).text_a}) == 1 + 9


def test_a_part_of_the_examples_has_the_same_copies() -> None:
    whole = masked(singles(*SENTENCES), 3, 0.3).text_a
    for sentence in SENTENCES:
        assert set(masked(singles(sentence), 3, 0.3).text_a) <= set(whole)


def test_golden_copies() -> None:
    """Copies change only when the text or the rule does: finished runs were trained on these."""
    split = singles("the dog saw a cat .", "a bird sang")
    assert masked(split, 2, 0.3).text_a[2:] == ["the dog [MASK] a cat .", "the dog saw [MASK] [MASK] ."]
    assert masked(split, 2, 0.3, tags=True).text_a[2:] == ["the [MASK] saw a cat .", "a bird [MASK] a cat ."]


@pytest.mark.parametrize("order", [1, -1])
def test_every_process_draws_the_same(order: int) -> None:
    """Whatever the seed of hash() there, which is another each time, and the order."""
    split = Split("train", [*SENTENCES][::order], [*SENTENCES[::-1]][::order], np.zeros(6, int))
    found = masked(split, 4, 0.3, 1, tags=True)
    assert found.text_b is not None
    copies = json.dumps(sorted(zip(found.text_a, found.text_b, strict=True)))
    assert hashlib.sha256(copies.encode()).hexdigest()[:16] == "280cab25d2ffb0fe"
