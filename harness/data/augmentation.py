"""Further training texts, made by replacing words (Jiao et al., 2020, TinyBERT, algorithm 1; galke2022, Table VIII)
or by masking them (liu2020, section 3.3).

What may stand for a word is a replacer's choice; `augment` draws which words are replaced, and by which candidate.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Protocol

import numpy as np
import torch
from transformers import PreTrainedModel, PreTrainedTokenizerBase

from harness.contracts import Want
from harness.data.encoding import MASK
from harness.data.sources import Split
from harness.errors import UserError
from harness.modeling import word_vectors
from harness.modeling.signals import emit, longest
from harness.seeds import derive_seed

CANDIDATES = 15  # TinyBERT's K
ANY = 10**6  # tokens, where the model can read any number
ROWS = 64  # masked copies of a sentence predicted at once
_WORD = r"\w+(?:['’]\w+)*"
_TOKEN = re.compile(rf"{_WORD}|[^\w\s]")  # a word, or a mark of punctuation


class Replacer(Protocol):
    """What may stand for the words of a sentence."""

    def candidates(self, words: list[str]) -> list[list[str]]:
        """words: a sentence's words and punctuation marks, in order. For each the words that may replace it, or []."""
        ...


class VectorNeighbours:
    """A word's candidates are its nearest neighbours in a file of word vectors, found once for all words of the texts.

    A word that the file lacks has those of its lower-cased form. Only words of letters are replaced.
    """

    def __init__(self, path: Path, words: Sequence[str], k: int = CANDIDATES):
        """words: as `words_of` lists them. Raises UserError if the file is not one of word vectors."""
        asked = {form for word in words if word.isalpha() for form in (word, word.lower())}
        self.nearest = word_vectors.nearest(path, sorted(asked), k)

    def candidates(self, words: list[str]) -> list[list[str]]:
        found = (self.nearest.get(word) or self.nearest.get(word.lower()) or [] for word in words)
        return [_other(word, near) for word, near in zip(words, found, strict=True)]


class MaskedProposals:
    """A word's candidates are the whole words that a masked language model finds likeliest where the word is masked.

    Only words of letters that the tokenizer keeps in one piece; for any other, and beyond the model's longest text,
    `others` is asked, if given. Every such word costs a pass of its sentence through the model: a training set of N
    sentences of W words is read N * W times, whatever the number of copies. A sentence's passes are one batch, in
    which no other sentence has a part, so neither order nor neighbours change a candidate.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        k: int = CANDIDATES,
        others: Replacer | None = None,
    ):
        """Raises UserError if the tokenizer has no mask token."""
        if tokenizer.mask_token_id is None:
            raise UserError(f"the tokenizer of {tokenizer.name_or_path or 'the model'} has no mask token")
        self.model, self.tokenizer, self.k, self.others = model.eval(), tokenizer, k, others
        spelled = [str(tokenizer.decode([i])).strip() for i in range(len(tokenizer))]
        pieces = tokenizer([f" {word}" for word in spelled], add_special_tokens=False)["input_ids"]
        whole = [word.isalpha() and piece == [i] for i, (word, piece) in enumerate(zip(spelled, pieces, strict=True))]
        self.tokens = torch.tensor([i for i, is_whole in enumerate(whole) if is_whole], device=model.device)  # (W,)
        self.words = [spelled[i] for i in self.tokens.tolist()]

    @torch.inference_mode()
    def candidates(self, words: list[str]) -> list[list[str]]:
        found = self.others.candidates(words) if self.others else [[] for _ in words]
        if not words:
            return found
        limit = min(self.tokenizer.model_max_length, longest(self.model) or ANY)
        text = " ".join(words)
        encoding = self.tokenizer(
            text, truncation=True, max_length=limit, return_offsets_mapping=True, return_tensors="pt"
        )
        # Some tokenizers, such as DeBERTa's, count the space before a word to its token.
        offsets = [(a + (text[a:b][:1] == " "), b) for a, b in encoding.pop("offset_mapping")[0].tolist()]
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        spans = {(end - len(word), end): i for i, (word, end) in enumerate(zip(words, ends.tolist(), strict=True))}
        masked = [
            (place, spans[span]) for place, span in enumerate(offsets) if span in spans and words[spans[span]].isalpha()
        ]
        for start in range(0, len(masked), ROWS):
            places = torch.tensor([place for place, _ in masked[start : start + ROWS]], device=self.model.device)
            rows = torch.arange(len(places), device=self.model.device)
            # (1, L) -> (R, L)
            batch = {name: t.to(self.model.device).repeat(len(rows), 1) for name, t in encoding.items()}
            batch["input_ids"][rows, places] = self.tokenizer.mask_token_id
            at = rows * batch["input_ids"].size(1) + places  # one a row
            logits = emit(self.model, batch, Want(mlm_logits=True), predicted=at).mlm_logits[:, self.tokens]  # (R, W)
            best = logits.topk(min(self.k + 1, len(self.words)), dim=1).indices.tolist()  # one may be the word itself
            for (_, i), likely in zip(masked[start : start + ROWS], best, strict=True):
                found[i] = _other(words[i], [self.words[place] for place in likely])[: self.k]
        return found


class SameTag:
    """A word's candidates are the words with its part-of-speech tag in the texts, each as often as it stands there.

    One drawn evenly is thus drawn from the unigram distribution renormalised by tag (liu2020, section 3.3); it may be
    the word itself. Words count as they are written, and keep their capitals wherever they come to stand. Tags are
    those of the Penn Treebank, by the lexicon and rules that textblob carries.
    """

    def __init__(self, split: Split):
        """The words are those of all texts of `split`."""
        counts: dict[str, Counter[str]] = {}
        for text in (*split.text_a, *(split.text_b or ())):
            words = _TOKEN.findall(text)
            for word, tag in zip(words, _tags(words), strict=True):
                if re.match(_WORD, word):
                    counts.setdefault(tag, Counter())[word] += 1
        # in order of the alphabet, so that the order of the examples decides nothing
        self.words = {tag: [w for w in sorted(found) for _ in range(found[w])] for tag, found in counts.items()}

    def candidates(self, words: list[str]) -> list[list[str]]:
        return [self.words.get(tag, []) for tag in _tags(words)]


def _tags(words: list[str]) -> list[str]:
    """The part-of-speech tag of each word or mark of a text."""
    from textblob.en import parser  # it takes two seconds, which only this augmentation pays

    return [tag for _, tag in parser.find_tags(words)]


def words_of(split: Split) -> list[str]:
    """Every word of letters in the texts, sorted."""
    texts = (*split.text_a, *(split.text_b or ()))
    return sorted({word for text in texts for word in _TOKEN.findall(text) if word.isalpha()})


def labels_of(split: Split) -> list[float | None]:
    """The labels; None in place of a score that is not there, for NaN equals nothing."""
    return [None if label != label else label for label in split.labels.tolist()]


def augment(
    split: Split, replacer: Replacer | None, copies: int, probability: float, seed: int, masking: bool = False
) -> Split:
    """The examples, followed by up to `copies` further ones of each, with the label of the one they were made of.

    In a copy each word that has candidates is replaced, with the given probability, by one of them, drawn evenly;
    everything else, spaces too, stays as it is. The two texts of a pair are augmented independently.

    masking: with the given probability a word becomes "[MASK]" instead, and, where there is a replacer, with the same
    probability once more, never both, it is replaced. Punctuation is not a word. Of a pair the first copy changes the
    first text alone, the second copy the second, the third both, the fourth the first again, and so on.

    A copy that equals an example or an earlier copy of the same label is dropped. Everything is drawn by the seed, the
    example's texts and the number of the copy, so the order of the examples decides nothing, and fewer copies are the
    first of more.
    """
    texts = [split.text_a] if split.text_b is None else [split.text_a, split.text_b]
    examples = list(zip(*texts, strict=True))
    made = [_copies(example, replacer, copies, probability, seed, masking) for example in examples]
    given = labels_of(split)
    seen = set(zip(examples, given, strict=True))
    origins: list[int] = []
    for copy in range(copies):
        for origin, label in enumerate(given):
            if (made[origin][copy], label) not in seen:
                seen.add((made[origin][copy], label))
                examples.append(made[origin][copy])
                origins.append(origin)
    first, *second = (list(text) for text in zip(*examples, strict=True))
    labels = np.concatenate([split.labels, split.labels[np.array(origins, int)]])
    return Split(split.name, first, second[0] if second else None, labels)


def _copies(
    example: tuple[str, ...], replacer: Replacer | None, copies: int, probability: float, seed: int, masking: bool
) -> list[tuple[str, ...]]:
    """Each copy of the texts of one example."""
    matches = [list(_TOKEN.finditer(text)) for text in example]
    words = [[match.group() for match in found] for found in matches]
    nothing: list[str] = []
    candidates = [replacer.candidates(own) if replacer else [nothing] * len(own) for own in words]
    made = []
    for copy in range(copies):
        draw = Random(derive_seed("augmentation", seed, example, copy))
        texts = []
        for side, (text, found, choices) in enumerate(zip(example, matches, candidates, strict=True)):
            if masking and len(example) == 2 and copy % 3 == 1 - side:  # the turn of the other text alone
                texts.append(text)
                continue
            parts, end = [], 0
            for match, choice in zip(found, choices, strict=True):
                replaced = (_masked if masking else _replaced)(match.group(), choice, probability, draw)
                if replaced is not None:
                    parts += [text[end : match.start()], replaced]
                    end = match.end()
            texts.append("".join([*parts, text[end:]]))
        made.append(tuple(texts))
    return made


def _replaced(word: str, candidates: list[str], probability: float, draw: Random) -> str | None:
    """What is drawn for a word, or None: it stays."""
    if candidates and draw.random() < probability:
        return candidates[int(draw.random() * len(candidates))]
    return None


def _masked(word: str, candidates: list[str], probability: float, draw: Random) -> str | None:
    """As `_replaced`, by liu2020's rule: one number decides between the mask, a candidate and the word itself."""
    if not re.match(_WORD, word):
        return None
    drawn = draw.random()
    if drawn < probability:
        return MASK
    if drawn < 2 * probability and candidates:
        return candidates[int(draw.random() * len(candidates))]
    return None


def _other(word: str, candidates: list[str]) -> list[str]:
    """The candidates that are another word, with a capital where the word has one."""
    other = (c for c in candidates if c.lower() != word.lower())
    return list(dict.fromkeys(c.capitalize() if word.istitle() else c for c in other))
