import functools
import hashlib
import itertools
from collections import Counter

import numpy as np
import pytest

from harness.data import embedded

TWINNED = ("acceptability", "sentiment", "paraphrase", "entailment")
NAMES = (*TWINNED, "similarity")


def words(*texts):
    return [word for text in texts if text for word in text.split()]


@pytest.mark.parametrize("name", NAMES)
def test_splits_are_disjoint_and_unambiguous(name):
    train, dev = embedded.generate(name, train=4000)
    assert (len(train), len(dev)) == (4000, embedded.DEV_SIZE)
    texts = [{(first, second) for first, second, _ in part} for part in (train, dev)]
    assert (len(texts[0]), len(texts[1])) == (4000, embedded.DEV_SIZE)  # nothing twice, so nothing with two labels
    assert not texts[0] & texts[1]


@pytest.mark.parametrize("name", NAMES)
def test_fewer_examples_are_the_first_of_more_and_dev_stays(name):
    fewer, dev = embedded.generate(name, train=300)
    more, same_dev = embedded.generate(name, train=700)
    assert more[:300] == fewer and same_dev == dev


@pytest.mark.parametrize("name", TWINNED)
def test_twins_have_the_same_words_and_both_labels(name):
    for part in embedded.generate(name):
        labels_of = {}
        for first, second, label in part:
            labels_of.setdefault(tuple(sorted(words(first, second))), []).append(label)
        assert all(Counter(labels)[0] == Counter(labels)[1] for labels in labels_of.values())


@pytest.mark.parametrize("name", TWINNED)
def test_a_bag_of_words_stays_at_chance(name):
    from sklearn.linear_model import LogisticRegression

    train, dev = embedded.generate(name)
    column = {word: i for i, word in enumerate(embedded.vocabulary())}
    bags = [np.zeros((len(part), len(column))) for part in (train, dev)]
    for bag, part in zip(bags, (train, dev), strict=True):
        for row, (first, second, _) in enumerate(part):
            np.add.at(bag[row], [column[word] for word in words(first, second)], 1)
    labels = [[label for *_, label in part] for part in (train, dev)]
    assert LogisticRegression(max_iter=200).fit(bags[0], labels[0]).score(bags[1], labels[1]) == pytest.approx(
        0.5, abs=0.02
    )


def test_similarity_uses_the_whole_scale():
    train, _ = embedded.generate("similarity")
    shares = {score: count / len(train) for score, count in Counter(score for *_, score in train).items()}
    assert set(shares) == {0.0, 1.0, 2.0, 3.0, 4.0, 5.0}
    assert min(shares.values()) > 0.05


def test_similarity_score_counts_what_agrees():
    for first, second, score in embedded.generate("similarity")[1]:
        a, b = first.split(), second.split()
        assert score == 2 * (a[2] == b[2]) + 2 * (a[3] == b[3]) + (a[4:] == b[4:])


def test_labels_agree_with_an_independent_reading():
    """Each label is worked out again from the text alone."""
    for text, _, label in embedded.generate("sentiment")[1]:
        main = text.split(" but ")[1] if " but " in text else (
            text.split(" , ")[1] if text.startswith("although") else text.split(" although ")[0])  # fmt: skip
        adjective = main.removesuffix(" .").split()[-1]
        assert label == ((adjective in embedded.GOOD) != (" not " in main))
    for first, second, label in embedded.generate("paraphrase")[1]:
        agents = []
        for text in (first, second):
            end = text.split(" by the ")[1] if " was " in text else text
            agents.append(next(word for word in end.split() if word in embedded.NOUNS))
        assert label == (agents[0] == agents[1])
    for premise, hypothesis, label in embedded.generate("entailment")[1]:
        models = [worlds(premise), worlds(hypothesis)]
        assert label == (not models[0] <= models[1])


def worlds(text):
    """The ways the world can be in which the sentence is true."""
    quantifier, *rest = text.removesuffix(" .").split()
    adjective = rest[0] in embedded.ADJECTIVES
    return true_worlds(quantifier, adjective, rest[adjective] in ("animals", "people"), len(rest) > adjective + 2)


@functools.cache
def true_worlds(quantifier, adjective, wide, placed):
    """A world says of each kind of individual, old or not and dog or other animal, say, and of each thing it can do
    whether there is such a one. Of every kind there are some, for that is what plural nouns presuppose."""
    kinds = list(itertools.product((True, False), (True, False)))  # has the adjective, is of the narrow noun
    individuals = list(itertools.product(kinds, ("does it there", "does it elsewhere", "does not")))
    doing = {"does it there"} if placed else {"does it there", "does it elsewhere"}
    found = set()
    for world in itertools.product((False, True), repeat=len(individuals)):
        present = list(itertools.compress(individuals, world))
        meant = [what in doing for (has, narrow), what in present if (has or not adjective) and (narrow or wide)]
        if {kind for kind, _ in present} == set(kinds) and {"all": all, "some": any, "no": no}[quantifier](meant):
            found.add(world)
    return found


def no(meant):
    return not any(meant)


def test_agreement_and_word_order_decide_acceptability():
    singular = {verb[0] for verb in embedded.INTRANSITIVE} | {"was", "has"}
    plural = {verb[1] for verb in embedded.INTRANSITIVE} | {"were"}
    for text, _, label in embedded.generate("acceptability")[1]:
        if label:
            for clause in text.split(" while "):
                heads = [
                    word for word in clause.split() if word in singular | plural or word.rstrip("s") in embedded.NOUNS
                ]
                verb = next(word for word in heads if word in singular | plural)
                assert (verb in plural) == heads[0].endswith("s"), text


def test_vocabulary_is_what_the_grammar_says():
    listed = embedded.vocabulary()
    said = {word for text in embedded.corpus(5000) for word in words(*text)}
    said |= {word for name in NAMES for part in embedded.generate(name) for a, b, _ in part for word in words(a, b)}
    assert listed == sorted(said)


def test_corpus_holds_both_shapes_and_no_dev_text():
    texts = embedded.corpus(5000)
    assert Counter(len(text) for text in texts) == {1: 1000, 2: 4000}
    assert texts[:50] == embedded.corpus(50)
    dev = {tuple(t for t in example[:2] if t) for name in NAMES for example in embedded.generate(name)[1]}
    assert not dev & set(texts)
    assert max(len(words(*text)) for text in texts) <= 24


def test_the_text_is_the_same_everywhere():
    """Runs are named by their data: a change here makes every earlier run of the embedded suite another run."""
    whole = repr([embedded.generate(name, 200, 100) for name in NAMES] + [embedded.corpus(200)])
    assert (
        hashlib.sha256(whole.encode()).hexdigest() == "ccac6ce6cc14fdf75b531f73bac453bfc7dd8359fd5d9d5fa784cca5c1531cf5"
    )
