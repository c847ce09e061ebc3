"""How unsure a model becomes when a word of a sentence is masked (liu2020, section 3.5.4 and Figure 3.4)."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Sequence

import torch
from torch import Tensor

from harness.contracts import Task
from harness.data.encoding import MASK

SHORTEST, LONGEST = 5, 12  # words of the sentences that are shown


def masked_word_entropy(
    logits_of: Callable[[Sequence[str]], Tensor], sentences: Sequence[Sequence[str]]
) -> list[dict[str, object]]:
    """For each sentence its words, and for each word the entropy of what is predicted with "[MASK]" in its place.

    logits_of gives the logits (N, C) of N texts. Entropies are in nats, between 0 and log C.
    """
    texts = [" ".join([*words[:i], MASK, *words[i + 1 :]]) for words in sentences for i in range(len(words))]
    if not texts:
        return []
    logs = logits_of(texts).double().log_softmax(-1)  # (N, C)
    entropies = torch.special.entr(logs.exp()).sum(-1).split([len(words) for words in sentences])
    return [{"words": list(w), "entropy": e.tolist()} for w, e in zip(sentences, entropies, strict=True)]


def chosen(texts: Iterable[str], number: int = 6) -> list[list[str]]:
    """`number` sentences of 5 to 12 words, as words: spread over the texts by their hash, whatever their order."""
    short = {text for text in texts if SHORTEST <= len(text.split()) <= LONGEST}
    return [text.split() for text in sorted(short, key=lambda t: hashlib.sha256(t.encode()).digest())[:number]]


def refusal(task: Task) -> str:
    """Why no word can be masked so on this task, or ""."""
    if task.pair or not task.classification:
        return f"words are masked in single sentences that have classes, but task {task.name} has other examples"
    return ""
