"""A small English grammar that generates five tasks in GLUE's shapes, and text to pre-train on, with no files at all.

Examples of acceptability, sentiment, paraphrase and entailment come in twins of opposite labels: the same words in
another order, or, for entailment, the same two sentences in the other order. A bag of words therefore learns nothing
from them. Everything is drawn from `random.Random` seeded by a string, so every machine and every Python version
generates the same text. Words are separated by spaces, punctuation too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

Example = tuple[str, str | None, float]  # first text, second text of a pair, class index or score

TRAIN_SIZE = 2000
DEV_SIZE = 400
POOL = 100

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
TRANSITIVE = ("chased", "followed", "helped", "watched", "called", "pushed", "carried", "greeted")
PLACES = ("in the garden", "near the river", "at the market", "on the hill", "behind the house", "in the kitchen")
PARTS = ("story", "music", "cast", "ending", "plot", "acting")
GOOD = ("great", "lovely", "clever", "funny", "fine", "charming")
BAD = ("awful", "dull", "silly", "weak", "boring", "poor")
LIKED = ("i liked the film .", "i loved the film .", "i enjoyed the film .")
DISLIKED = ("i disliked the film .", "i hated the film .", "i left the film early .")


def vocabulary() -> list[str]:
    """Every word and punctuation mark that the grammar can produce, sorted."""
    listed = (
        *NOUNS,
        *(noun + "s" for noun in NOUNS),
        *ADJECTIVES,
        *(form for verb in INTRANSITIVE for form in verb),
        *TRANSITIVE,
        *PLACES,
        *PARTS,
        *GOOD,
        *BAD,
        *LIKED,
        *DISLIKED,
    )
    grammar = "the was were not but although by has all some no animals people yesterday today while . ,"
    return sorted({word for text in (*listed, grammar) for word in text.split()})


def generate(name: str, train: int = TRAIN_SIZE, dev: int = DEV_SIZE) -> tuple[list[Example], list[Example]]:
    """(train examples, dev examples) of the embedded task `name`.

    The dev examples do not depend on `train`, and fewer training examples are the first of more. No twin of the
    dev part occurs in the training part.
    """
    seen: set[tuple[str, str | None]] = set()
    dev_examples = _draw(name, "dev", dev, seen)
    return _draw(name, "train", train, seen), dev_examples


def _draw(name: str, part: str, size: int, seen: set[tuple[str, str | None]]) -> list[Example]:
    """`size` examples, none of them in `seen`, to which they are added; shuffled in pools that keep twins together."""
    rng = Random(f"{name}/{part}")
    examples: list[Example] = []
    while len(examples) < size:
        pool: list[Example] = []
        while len(pool) < POOL:
            drawn = TWINS[name](rng)
            keys = {(first, second) for first, second, _ in drawn}
            if len(keys) == len(drawn) and not keys & seen:
                seen |= keys
                pool += drawn
        rng.shuffle(pool)
        examples += pool
    return examples[:size]


def corpus(size: int) -> list[tuple[str, ...]]:
    """`size` unlabelled texts for masked-language-model pre-training, each one sentence or a pair of related ones.

    In turn: a sentence; a review and its verdict; a sentence and its paraphrase; a premise and what follows from it;
    the same scene twice, told of somebody old and young, say. No dev example of any task is among them.
    """
    rng = Random("corpus")
    dev = {(first, second) for name in TWINS for first, second, _ in generate(name, train=0)[1]}
    texts: list[tuple[str, ...]] = []
    while len(texts) < size:
        first, second = _TEXTS[len(texts) % len(_TEXTS)](rng)
        if (first, second) not in dev:
            texts.append((first,) if second is None else (first, second))
    return texts


# ---------------------------------------------------------------- acceptability: word order and agreement


def _acceptability(rng: Random) -> list[Example]:
    """A grammatical sentence (1) and its words in an ungrammatical order (0)."""
    good, bad = rng.choice((_agreement, _agreement, _passive_agreement, _coordination, _word_order))(rng)
    return [(good, None, 1), (bad, None, 0)]


def _agreement(rng: Random) -> tuple[str, str]:
    """The verb agrees with the head noun, not with the nearer one: the dogs near the cat sleep."""
    one, many = rng.sample(NOUNS, 2)
    singular, plural, _ = rng.choice(INTRANSITIVE)
    between, end = rng.choice(("near", "behind")), rng.choice(("today", rng.choice(PLACES)))
    adjective = rng.choice(ADJECTIVES)
    first, second = f"the {adjective} {one} {between} the {many}s", f"the {adjective} {many}s {between} the {one}"
    if rng.random() < 0.5:
        return f"{first} {singular} {end} .", f"{second} {singular} {end} ."
    return f"{second} {plural} {end} .", f"{first} {plural} {end} ."


def _passive_agreement(rng: Random) -> tuple[str, str]:
    one, many = rng.sample(NOUNS, 2)
    verb, end = rng.choice(TRANSITIVE), rng.choice(("yesterday", rng.choice(PLACES)))
    be = rng.choice(("was", "were"))
    sentences = (f"the {one} {be} {verb} by the {many}s {end} .", f"the {many}s {be} {verb} by the {one} {end} .")
    return sentences if be == "was" else (sentences[1], sentences[0])


def _coordination(rng: Random) -> tuple[str, str]:
    one, many = rng.sample(NOUNS, 2)
    (sings, sing, _), (waits, wait, _) = rng.sample(INTRANSITIVE, 2)
    if rng.random() < 0.5:
        return f"the {one} {sings} while the {many}s {wait} .", f"the {many}s {sings} while the {one} {wait} ."
    return f"the {many}s {sing} while the {one} {waits} .", f"the {one} {sing} while the {many}s {waits} ."


def _word_order(rng: Random) -> tuple[str, str]:
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
    return good, bad


# ---------------------------------------------------------------- sentiment: negation, and which clause decides


def _sentiment(rng: Random) -> list[Example]:
    """Two clauses of opposite sentiment, of which one decides; and the same words with the sentiments exchanged."""
    first, second = rng.sample(PARTS, 2)
    positive = rng.randrange(2)  # of the deciding clause, the second
    nots = ["not " * (rng.random() < 0.5) for _ in range(2)]
    words = [
        rng.choice(GOOD if wanted != bool(no) else BAD)
        for wanted, no in zip((1 - positive, positive), nots, strict=True)
    ]
    form = rng.choice(("{0} but {1} .", "although {0} , {1} .", "{1} although {0} ."))

    def sentence(nots: Sequence[str], words: Sequence[str]) -> str:
        return form.format(f"the {first} was {nots[0]}{words[0]}", f"the {second} was {nots[1]}{words[1]}")

    twin = sentence(nots, words[::-1]) if nots[0] == nots[1] else sentence(nots[::-1], words)
    return [(sentence(nots, words), None, positive), (twin, None, 1 - positive)]


def _review(rng: Random) -> tuple[str, str]:
    """A review, of one clause or two, and a verdict that agrees with it."""
    text, _, positive = _sentiment(rng)[0]
    if rng.random() < 0.5:
        negated = rng.random() < 0.5
        adjective = rng.choice(GOOD if bool(positive) != negated else BAD)
        text = f"the {rng.choice(PARTS)} was {'not ' * negated}{adjective} ."
    return text, rng.choice(LIKED if positive else DISLIKED)


# ---------------------------------------------------------------- paraphrase: voice and role


def _paraphrase(rng: Random) -> list[Example]:
    """The same event told in another voice (1), and with the roles exchanged (0)."""
    agent, patient = rng.sample(NOUNS, 2)
    adjective, verb, end = rng.choice(ADJECTIVES), rng.choice(TRANSITIVE), rng.choice((*PLACES, "yesterday"))
    if rng.random() < 0.5:
        agent = f"{adjective} {agent}"
    else:
        patient = f"{adjective} {patient}"
    voices = [f"the {{0}} {verb} the {{1}} {end} .", f"the {{1}} was {verb} by the {{0}} {end} ."]
    rng.shuffle(voices)
    first = voices[0].format(agent, patient)
    return [(first, voices[1].format(agent, patient), 1), (first, voices[1].format(patient, agent), 0)]


# ---------------------------------------------------------------- entailment: quantifiers


def _entailment(rng: Random) -> list[Example]:
    """(premise, hypothesis, 0 = entailment) and the same two exchanged (1 = not_entailment).

    `all` and `no` carry over from a wider group to a narrower one, `some` the other way; `all` and `some` carry over
    from a narrower predicate to a wider one, `no` the other way; and `all` gives `some`.
    """
    quantifier = rng.choice(("all", "some", "no"))
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
        quantifier = "all"
        narrow, wide = f"all {adjective} {noun}s {verb} {place} .", f"some {adjective} {noun}s {verb} {place} ."
    downward = quantifier == "no" or (quantifier == "all" and kind in ("adjective", "noun"))
    premise, hypothesis = (wide, narrow) if downward else (narrow, wide)
    return [(premise, hypothesis, 0), (hypothesis, premise, 1)]


# ---------------------------------------------------------------- similarity: how much of two scenes agrees


def _similarity(rng: Random) -> list[Example]:
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


TWINS: dict[str, Callable[[Random], list[Example]]] = {
    "acceptability": _acceptability,
    "sentiment": _sentiment,
    "paraphrase": _paraphrase,
    "entailment": _entailment,
    "similarity": _similarity,
}
_TEXTS: tuple[Callable[[Random], tuple[str, str | None]], ...] = (
    lambda rng: _acceptability(rng)[0][:2],
    _review,
    lambda rng: _paraphrase(rng)[0][:2],
    lambda rng: _entailment(rng)[0][:2],
    _same_scene,
)
