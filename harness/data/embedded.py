"""A small English grammar that generates five tasks in GLUE's shapes, and text to pre-train on, with no files at all.

Examples of acceptability, sentiment, paraphrase and entailment come in twins of opposite labels: the same words in
another order, or, for entailment, the same two sentences in the other order. A bag of words therefore learns nothing
from them.

As where people were asked, a label is not certain: with a probability that the words decide, the same for both twins,
it goes against what the grammar says. Errors of agreement are overlooked beside a plural, mild words are read either
way, who met whom is confused, and vague quantifiers are understood variously. `generate` draws labels; `truth` tells
their probabilities. Whoever knows these is right in 0.91 to 0.93 of all cases (Matthews 0.84; correlation 0.94).

Everything is drawn from `random.Random` seeded by a string, so every machine and every Python version generates the
same text. Words are separated by spaces, punctuation too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import chain
from random import Random

Example = tuple[str, str | None, float]  # first text, second text of a pair, class index or score
Truth = tuple[str, str | None, float]  # the same texts, the probability of class 1 or the mean score

TRAIN_SIZE = 4000
DEV_SIZE = 1000
POOL = 100
CLEAR, MILD, VAGUE = 0.01, 0.1, 0.25  # doubt: how often labels go against the grammar
SPREAD = 0.4  # how often the score of a pair that is neither alike nor unlike is a point off

ANIMALS = ("dog", "cat", "horse", "goat", "cow", "rabbit")
PERSONS = ("farmer", "doctor", "teacher", "nurse", "sailor", "girl")
NOUNS = ANIMALS + PERSONS
ADJECTIVES = ("old", "young", "tall", "quiet", "happy", "brave")
INTRANSITIVE = (
    ("sleeps", "sleep", "slept"),
    ("runs", "run", "ran"),
    ("waits", "wait", "waited"),
    ("sings", "sing", "sang"),
    ("smiles", "smile", "smiled"),
    ("rests", "rest", "rested"),
)
MEETING = ("greeted", "met", "joined")
TRANSITIVE = ("chased", "followed", "helped", "watched", "called", "pushed", "carried", *MEETING)
PLACES = ("in the garden", "near the river", "at the market", "on the hill", "behind the house", "in the kitchen")
PARTS = ("story", "music", "cast", "ending", "plot", "acting")
GOOD = ("great", "lovely", "clever", "funny", "charming")
BAD = ("awful", "dull", "silly", "boring", "poor")
FAIR, MODEST = ("fine", "decent"), ("plain", "slow")  # the same in temperate words
LIKED = ("i liked the film .", "i loved the film .", "i enjoyed the film .")
DISLIKED = ("i disliked the film .", "i hated the film .", "i left the film early .")


def vocabulary() -> list[str]:
    """Every word and punctuation mark that the grammar can produce, sorted."""
    grammar = "the was were not but although by has all most some few no animals people yesterday today while . ,"
    plurals = " ".join(f"{noun}s" for noun in NOUNS)
    films = (*PARTS, *GOOD, *BAD, *FAIR, *MODEST, *LIKED, *DISLIKED)
    listed = chain(NOUNS, ADJECTIVES, *INTRANSITIVE, TRANSITIVE, PLACES, films, (grammar, plurals))
    return sorted({word for text in listed for word in text.split()})


def generate(name: str, train: int = TRAIN_SIZE, dev: int = DEV_SIZE) -> tuple[list[Example], list[Example]]:
    """(train examples, dev examples) of the embedded task `name`.

    The dev examples do not depend on `train`, and fewer training examples are the first of more. No twin of the
    dev part occurs in the training part.
    """
    first, second = _drawn(name, train, dev)
    return [example for example, _ in first], [example for example, _ in second]


def truth(name: str, train: int = TRAIN_SIZE, dev: int = DEV_SIZE) -> tuple[list[float], list[float]]:
    """Of each example of `generate` the probability of class 1, or the mean of its score."""
    first, second = _drawn(name, train, dev)
    return [known for _, known in first], [known for _, known in second]


@cache  # planning asks for the same examples time and again
def _drawn(name: str, train: int, dev: int) -> tuple[list[tuple[Example, float]], list[tuple[Example, float]]]:
    seen: set[tuple[str, str | None]] = set()
    dev_examples = _draw(name, "dev", dev, seen)
    return _draw(name, "train", train, seen), dev_examples


def _draw(name: str, part: str, size: int, seen: set[tuple[str, str | None]]) -> list[tuple[Example, float]]:
    """`size` examples with their truth, none of them in `seen`, to which they are added; shuffled in pools that keep
    twins together."""
    rng = Random(f"{name}/{part}")
    examples: list[tuple[Example, float]] = []
    while len(examples) < size:
        pool: list[tuple[Example, float]] = []
        while len(pool) < POOL:
            drawn = TWINS[name](rng)
            keys = {(first, second) for first, second, _ in drawn}
            if len(keys) == len(drawn) and not keys & seen:
                seen |= keys
                pool += zip(_label(rng, drawn), [known for *_, known in drawn], strict=True)
        rng.shuffle(pool)
        examples += pool
    return examples[:size]


def _label(rng: Random, drawn: Sequence[Truth]) -> list[Example]:
    """Draws the labels of twins, always one of each class, or the score of a pair that has no twin."""
    first, second, known = drawn[0]
    if len(drawn) == 1:
        unsure = known not in (0, 5) and rng.random() < SPREAD
        return [(first, second, known + rng.choice((-1, 1)) if unsure else known)]
    label = int(rng.random() < known)
    return [(first, second, label), (*drawn[1][:2], 1 - label)]


def corpus(size: int) -> list[tuple[str, ...]]:
    """`size` unlabelled texts for masked-language-model pre-training, each one sentence or a pair of related ones.

    In turn: a sentence; a review and its verdict; a sentence and its paraphrase; a premise and what follows from it;
    the same scene twice, told of somebody old and young, say. No dev example of any task is among them.
    """
    return list(_corpus(size))


@cache
def _corpus(size: int) -> list[tuple[str, ...]]:
    rng = Random("corpus")
    dev = {(first, second) for name in TWINS for first, second, _ in generate(name, train=0)[1]}
    texts: list[tuple[str, ...]] = []
    while len(texts) < size:
        first, second = _TEXTS[len(texts) % len(_TEXTS)](rng)
        if (first, second) not in dev:
            texts.append((first,) if second is None else (first, second))
    return texts


# ---------------------------------------------------------------- acceptability: word order and agreement


def _acceptability(rng: Random) -> list[Truth]:
    """A grammatical sentence (1) and its words in an ungrammatical order (0)."""
    good, bad, doubt = rng.choice((_agreement, _agreement, _passive_agreement, _coordination, _word_order))(rng)
    return [(good, None, 1 - doubt), (bad, None, doubt)]


def _agreement(rng: Random) -> tuple[str, str, float]:
    """The verb agrees with the head noun, not with the nearer one: the dogs near the cat sleep.

    Where the verb is plural one errs (the dog near the cats sleep), hardly otherwise: Bock and Miller (1991).
    """
    one, many = rng.sample(NOUNS, 2)
    singular, plural, _ = rng.choice(INTRANSITIVE)
    between, end = rng.choice(("near", "behind")), rng.choice(("today", rng.choice(PLACES)))
    adjective = rng.choice(ADJECTIVES)
    first, second = f"the {adjective} {one} {between} the {many}s", f"the {adjective} {many}s {between} the {one}"
    if rng.random() < 0.5:
        return f"{first} {singular} {end} .", f"{second} {singular} {end} .", CLEAR
    return f"{second} {plural} {end} .", f"{first} {plural} {end} .", VAGUE


def _passive_agreement(rng: Random) -> tuple[str, str, float]:
    one, many = rng.sample(NOUNS, 2)
    verb, end = rng.choice(TRANSITIVE), rng.choice(("yesterday", rng.choice(PLACES)))
    be = rng.choice(("was", "were"))
    sentences = (f"the {one} {be} {verb} by the {many}s {end} .", f"the {many}s {be} {verb} by the {one} {end} .")
    return (*sentences, CLEAR) if be == "was" else (sentences[1], sentences[0], CLEAR)


def _coordination(rng: Random) -> tuple[str, str, float]:
    one, many = rng.sample(NOUNS, 2)
    (sings, sing, _), (waits, wait, _) = rng.sample(INTRANSITIVE, 2)
    if rng.random() < 0.5:
        return f"the {one} {sings} while the {many}s {wait} .", f"the {many}s {sings} while the {one} {wait} .", MILD
    return f"the {many}s {sing} while the {one} {waits} .", f"the {one} {sing} while the {many}s {waits} .", MILD


def _word_order(rng: Random) -> tuple[str, str, float]:
    agent, patient = rng.sample(NOUNS, 2)
    adjective, verb, place = rng.choice(ADJECTIVES), rng.choice(TRANSITIVE), rng.choice(PLACES)
    auxiliary = rng.choice(("has", "was"))
    by = " by" if auxiliary == "was" else ""
    good = f"the {adjective} {agent} {auxiliary} {verb}{by} the {patient} {place} ."
    bad = rng.choice(
        (
            f"the {agent} {adjective} {auxiliary} {verb}{by} the {patient} {place} .",
            f"the {adjective} {agent} {verb} {auxiliary}{by} the {patient} {place} .",
            f"the {adjective} {agent} {auxiliary}{by} the {patient} {verb} {place} .",
            f"{adjective} the {agent} {auxiliary} {verb}{by} the {patient} {place} .",
        )
    )
    return good, bad, CLEAR


# ---------------------------------------------------------------- sentiment: negation, and which clause decides


def _sentiment(rng: Random) -> list[Truth]:
    """Two clauses of opposite sentiment, of which one decides; and the same words with the sentiments exchanged.

    Of temperate words one doubts how they are meant.
    """
    first, second = rng.sample(PARTS, 2)
    positive = rng.randrange(2)  # of the deciding clause, the second
    nots = ["not " * (rng.random() < 0.5) for _ in range(2)]
    good, bad, doubt = _tone(rng)
    words = [
        rng.choice(good if wanted != bool(no) else bad)
        for wanted, no in zip((1 - positive, positive), nots, strict=True)
    ]
    form = rng.choice(("{0} but {1} .", "although {0} , {1} .", "{1} although {0} ."))

    def sentence(nots: Sequence[str], words: Sequence[str]) -> str:
        return form.format(f"the {first} was {nots[0]}{words[0]}", f"the {second} was {nots[1]}{words[1]}")

    twin = sentence(nots, words[::-1]) if nots[0] == nots[1] else sentence(nots[::-1], words)
    known = 1 - doubt if positive else doubt
    return [(sentence(nots, words), None, known), (twin, None, 1 - known)]


def _review(rng: Random) -> tuple[str, str]:
    """A review, of one clause or two, and a verdict that agrees with it."""
    if rng.random() < 0.5:
        text, _, positive = _label(rng, _sentiment(rng))[0]
        return text, rng.choice(LIKED if positive else DISLIKED)
    good, bad, doubt = _tone(rng)
    negated, meant = rng.random() < 0.5, rng.random() < 0.5
    text = f"the {rng.choice(PARTS)} was {'not ' * negated}{rng.choice(good if meant != negated else bad)} ."
    return text, rng.choice(LIKED if meant != (rng.random() < doubt) else DISLIKED)


def _tone(rng: Random) -> tuple[Sequence[str], Sequence[str], float]:
    """(words of praise, words of blame, how much one doubts what they mean)"""
    return (FAIR, MODEST, VAGUE) if rng.random() < 0.3 else (GOOD, BAD, CLEAR)


# ---------------------------------------------------------------- paraphrase: voice and role


def _paraphrase(rng: Random) -> list[Truth]:
    """The same event told in another voice (1), and with the roles exchanged (0).

    Where two meet, it is soon forgotten who met whom.
    """
    agent, patient = rng.sample(NOUNS, 2)
    adjective, verb, end = rng.choice(ADJECTIVES), rng.choice(TRANSITIVE), rng.choice((*PLACES, "yesterday"))
    if rng.random() < 0.5:
        agent = f"{adjective} {agent}"
    else:
        patient = f"{adjective} {patient}"
    voices = [f"the {{0}} {verb} the {{1}} {end} .", f"the {{1}} was {verb} by the {{0}} {end} ."]
    rng.shuffle(voices)
    first = voices[0].format(agent, patient)
    doubt = VAGUE if verb in MEETING else CLEAR
    return [(first, voices[1].format(agent, patient), 1 - doubt), (first, voices[1].format(patient, agent), doubt)]


# ---------------------------------------------------------------- entailment: quantifiers


def _entailment(rng: Random) -> list[Truth]:
    """(premise, hypothesis, 0 = entailment) and the same two exchanged (1 = not_entailment).

    `all` and `no` carry over from a wider group to a narrower one, `some` the other way; `all` and `some` carry over
    from a narrower predicate to a wider one, `no` the other way; and `all` gives `some`. `most` goes like `all` and
    `few` like `no`, but not for certain: of the group they are a rule with exceptions.
    """
    quantifier = rng.choice(("all", "most", "some", "few", "no"))
    noun, verb, place = rng.choice(NOUNS), rng.choice(INTRANSITIVE)[2], rng.choice(PLACES)
    adjective = rng.choice(ADJECTIVES)
    group = "animals" if noun in ANIMALS else "people"
    kind = rng.choice(("adjective", "noun", "predicate", "quantifier"))
    narrow = wide = f"{quantifier} {adjective} {noun}s {verb} {place} ."
    if kind == "adjective":
        wide = f"{quantifier} {noun}s {verb} {place} ."
    elif kind == "noun":
        wide = f"{quantifier} {adjective} {group} {verb} {place} ."
    elif kind == "predicate":
        wide = f"{quantifier} {adjective} {noun}s {verb} ."
    else:
        quantifier, weaker = rng.choice((("all", "most"), ("all", "some"), ("most", "some")))
        narrow, wide = (f"{word} {adjective} {noun}s {verb} {place} ." for word in (quantifier, weaker))
    of_group, doubt = kind in ("adjective", "noun"), CLEAR
    if quantifier in ("most", "few"):
        doubt = VAGUE if of_group else MILD
    downward = quantifier in ("no", "few") or (quantifier in ("all", "most") and of_group)
    premise, hypothesis = (wide, narrow) if downward else (narrow, wide)
    return [(premise, hypothesis, doubt), (hypothesis, premise, 1 - doubt)]


# ---------------------------------------------------------------- similarity: how much of two scenes agrees


def _similarity(rng: Random) -> list[Truth]:
    """Two scenes; two points for the same agent, two for the same action, one for the same place."""
    keep = rng.randrange(8)  # as bits: which parts are made the same; others can agree by chance
    first = _scene(rng)
    second = [old if keep >> i & 1 else new for i, (old, new) in enumerate(zip(first, _scene(rng), strict=True))]
    score = sum(points for points, a, b in zip((2, 2, 1), first, second, strict=True) if a == b)
    return [(_tell(rng, first), _tell(rng, second), float(score))]


def _scene(rng: Random) -> list[str]:
    return [rng.choice(NOUNS), rng.choice(INTRANSITIVE)[2], rng.choice(PLACES)]


def _tell(rng: Random, scene: Sequence[str]) -> str:
    return f"the {rng.choice(ADJECTIVES)} {' '.join(scene)} ."


def _same_scene(rng: Random) -> tuple[str, str]:
    scene = _scene(rng)
    return _tell(rng, scene), _tell(rng, scene)


TWINS: dict[str, Callable[[Random], list[Truth]]] = {
    "acceptability": _acceptability,
    "sentiment": _sentiment,
    "paraphrase": _paraphrase,
    "entailment": _entailment,
    "similarity": _similarity,
}


def _labelled(name: str, label: int, rng: Random) -> tuple[str, str | None]:
    """The twin that was given this label, doubt and all."""
    first, second = _label(rng, TWINS[name](rng))
    return first[:2] if first[2] == label else second[:2]


_TEXTS: tuple[Callable[[Random], tuple[str, str | None]], ...] = (
    partial(_labelled, "acceptability", 1),
    _review,
    partial(_labelled, "paraphrase", 1),
    partial(_labelled, "entailment", 0),
    _same_scene,
)
