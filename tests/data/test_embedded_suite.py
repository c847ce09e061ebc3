import functools
import hashlib
import itertools
import re
from collections import Counter

import numpy as np
import pytest

from harness.data import embedded
from harness.data.tasks import get_task
from harness.evaluation import metrics

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


def test_similarity_counts_what_agrees_and_is_a_point_off_between():
    examples, known = embedded.generate("similarity", 8000)[0], embedded.truth("similarity", 8000)[0]
    off = []
    for (first, second, score), mean in zip(examples, known, strict=True):
        a, b = first.split(), second.split()
        assert mean == 2 * (a[2] == b[2]) + 2 * (a[3] == b[3]) + (a[4:] == b[4:])
        if mean in (0, 5):
            assert score == mean
        else:
            off.append(score - mean)
    assert set(off) == {-1, 0, 1} and abs(np.mean(off)) < 4 * (embedded.SPREAD / len(off)) ** 0.5
    frequent(np.abs(off), embedded.SPREAD)


# ---------------------------------------------------------------- what is known of a label


def frequent(happened, probability):
    """Assert that what happened, (N,) of 0 and 1, did so with the probability, to four standard deviations."""
    noise = 4 * (probability * (1 - probability) / len(happened)) ** 0.5
    assert np.mean(happened) == pytest.approx(probability, abs=noise)


@pytest.mark.parametrize("name", TWINNED)
def test_labels_go_against_the_text_as_often_as_is_told(name):
    """Truth is what the text itself says, worked out here again; labels follow it, one draw for both twins."""
    examples, known = embedded.generate(name, 8000)[0], embedded.truth(name, 8000)[0]
    against = {doubt: [] for doubt in (embedded.CLEAR, embedded.MILD, embedded.VAGUE)}
    for (first, second, label), probability in zip(examples, known, strict=True):
        says, doubt = READINGS[name](first, second)
        assert probability == pytest.approx(1 - doubt if says else doubt), (first, second)
        if says:  # its twin says the opposite, and had the same draw
            against[doubt].append(label != says)
    for doubt, errors in against.items():
        if errors:
            frequent(errors, doubt)
    assert len(against[embedded.CLEAR]) > 1000 and len(against[embedded.VAGUE]) > 500


@pytest.mark.parametrize("name", NAMES)
def test_a_perfect_reader_is_neither_at_the_ceiling_nor_far_below(name):
    task = get_task(name)
    for examples, known in zip(embedded.generate(name), embedded.truth(name), strict=True):
        read = np.array(known) if name == "similarity" else np.array(known).round().astype(int)
        scores = metrics.score(task, read, np.array([label for *_, label in examples]))
        for metric, value in scores.items():
            assert (0.8 if metric == "matthews" else 0.9) <= value <= 0.97, (metric, value)


def test_the_corpus_has_its_doubts_too():
    """A teacher that is pre-trained on it learns how often roles are confused."""
    pairs = [text for text in embedded.corpus(20000) if len(text) == 2 and " by " in " ".join(text)]
    met = [READINGS["paraphrase"](*pair) for pair in pairs]
    for doubt in (embedded.CLEAR, embedded.VAGUE):
        frequent([not says for says, found in met if found == doubt], doubt)


def sentiment(text, _):
    main = text.split(" but ")[1] if " but " in text else (
        text.split(" , ")[1] if text.startswith("although") else text.split(" although ")[0])  # fmt: skip
    adjective = main.removesuffix(" .").split()[-1]
    temperate = adjective in embedded.FAIR + embedded.MODEST
    good = adjective in embedded.GOOD + embedded.FAIR
    return good != (" not " in main), embedded.VAGUE if temperate else embedded.CLEAR


def paraphrase(*texts):
    agents = []
    for text in texts:
        end = text.split(" by the ")[1] if " was " in text else text
        agents.append(next(word for word in end.split() if word in embedded.NOUNS))
    met = set(embedded.MEETING) & set(texts[0].split())
    return agents[0] == agents[1], embedded.VAGUE if met else embedded.CLEAR


def entailment(premise, hypothesis):
    """Class 1 is not_entailment. What is certain of `all` and `no` is not quite so of `most` and `few`."""
    quantifiers = [text.split()[0] for text in (premise, hypothesis)]
    if quantifiers[0] != quantifiers[1]:
        ranks = [("all", "most", "some").index(quantifier) for quantifier in quantifiers]
        return ranks[0] > ranks[1], embedded.CLEAR if "all" in quantifiers else embedded.MILD
    certain = {"most": "all", "few": "no"}.get(quantifiers[0])
    if certain is None:
        return not worlds(premise) <= worlds(hypothesis), embedded.CLEAR
    first, second = (text.replace(quantifiers[0], certain, 1) for text in (premise, hypothesis))
    same_group = group_of(first) == group_of(second)
    return not worlds(first) <= worlds(second), embedded.MILD if same_group else embedded.VAGUE


def group_of(text):
    """The words between the quantifier and the verb."""
    verbs = {past for *_, past in embedded.INTRANSITIVE}
    return list(itertools.takewhile(lambda word: word not in verbs, text.split()[1:]))


def acceptability(text, _):
    singular = {verb[0] for verb in embedded.INTRANSITIVE} | {"was", "has"}
    plural = {verb[1] for verb in embedded.INTRANSITIVE} | {"were"}
    adjectives, nouns = "|".join(embedded.ADJECTIVES), "|".join(embedded.NOUNS)
    right = bool(re.match(f"the (({adjectives}) )?({nouns})s? (?!{adjectives})", text))
    for clause in text.split(" while "):
        heads = [word for word in clause.split() if word in singular | plural or word.rstrip("s") in embedded.NOUNS]
        verb = next(word for word in heads if word in singular | plural)
        right = right and (verb in plural) == heads[0].endswith("s")
        if verb in ("was", "were", "has"):  # the participle follows at once
            right = right and clause.split()[clause.split().index(verb) + 1] in embedded.TRANSITIVE
    if " while " in text:
        return right, embedded.MILD
    return right, embedded.VAGUE if set(text.split()) & (plural - {"were"}) else embedded.CLEAR


READINGS = {
    "acceptability": acceptability, "sentiment": sentiment, "paraphrase": paraphrase, "entailment": entailment,
}  # fmt: skip


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
        hashlib.sha256(whole.encode()).hexdigest() == "66e179828db68f35ca3bc71ea0e9ff2f80d4c24385a3e2b4b1582bef6f906ece"
    )
