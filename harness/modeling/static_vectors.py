"""Static vectors: one for each entry of a teacher's vocabulary, as Model2Vec distils them.

After Model2Vec (van Dongen and Tulkens, 2024; github.com/MinishLab/model2vec, MIT), written anew: the teacher reads
every entry alone between its special tokens, and the mean of all last states of that sequence is the entry's; of
these the principal components are taken, and each entry is weighed by w = a / (a + p), smooth inverse frequency
(Arora et al., 2017, section 3), where p follows from the entry's place in the vocabulary by Zipf's law.

Ours differs in four ways. Special tokens, which are in every text, are zero: Model2Vec leaves them out. A vocabulary in
alphabetical order, as the embedded teacher's, tells of no frequency, so its entries weigh the same. The sequence is in
its usual order, where the released code swaps first and last. All is divided by one number, so that the mean square
length of a row is 1: students add words up, where Model2Vec gives a text the length 1.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

import torch
from safetensors.torch import load_file, save
from torch import Tensor
from transformers import PreTrainedTokenizerBase

from harness.contracts import ModelInfo, Signal
from harness.files import atomic_write

INIT = "static:teacher"  # an initialisation; the engine hands it to students as static:FILE, with the file made
SMOOTH = 1e-4  # a, as released
FIRST_RANK = 2  # of the commonest entry, as released
_UNUSED = re.compile(r"\[unused\d+\]")


@dataclass(frozen=True)
class Vocabulary:
    """What of a tokenizer's vocabulary is read: the ids of its entries, in order, and of its special tokens.

    before, after: the special tokens around a text. ranked: its order tells of frequency.
    """

    entries: list[int]
    special: list[int]
    before: list[int]
    after: list[int]
    ranked: bool

    @classmethod
    def of(cls, tokenizer: PreTrainedTokenizerBase, size: int) -> Vocabulary:
        """size: entries that the teacher has embeddings for. An unknown word has an entry like any other."""
        tokens = tokenizer.convert_ids_to_tokens(list(range(min(len(tokenizer), size))))
        special = sorted(set(tokenizer.all_special_ids) - {tokenizer.unk_token_id})
        entries = [i for i, token in enumerate(tokens) if token and i not in special and not _UNUSED.fullmatch(token)]
        words = [tokens[i] for i in entries if i != tokenizer.unk_token_id]
        read = tokenizer("a", return_special_tokens_mask=True)
        around = list(zip(read["input_ids"], read["special_tokens_mask"], strict=True))
        inside = [place for place, (_, mark) in enumerate(around) if not mark] or [len(around)]
        before, after = around[: inside[0]], around[inside[-1] + 1 :]
        return cls(entries, special, [i for i, _ in before], [i for i, _ in after], words != sorted(words))


def refusal(width: int, teacher: ModelInfo) -> str:
    """Why the teacher has no static vectors this wide, or "". Free of its weights."""
    if Signal.HIDDEN_STATES not in teacher.emits:
        return f"static vectors are made of the teacher's hidden states, which {teacher.name} does not give"
    most = min(teacher.width, max(teacher.vocabulary - 1, 0))
    if width <= most:
        return ""
    return (
        f"{width} principal components are asked of {teacher.name}, whose states of {teacher.vocabulary} words have at "
        f"most {most}: give the student vectors of {most} or fewer"
    )


def distilled(states: Tensor, ranked: bool) -> tuple[Tensor, Tensor]:
    """States of N entries, (N, D), in the order of the vocabulary -> (vectors (N, D), variances (D,)), float32.

    Column j is the j-th principal component, so that the first w columns are the components to w. The sign of each is
    such that the largest of its D weights, by size, is positive. What lies beyond the rank is zero.
    """
    states = states.double()
    centred = states - states.mean(0)
    variances, axes = torch.linalg.eigh(centred.T @ centred / max(len(states) - 1, 1))
    variances, axes = variances.flip(0), axes.flip(1)  # largest first
    largest = axes.gather(0, axes.abs().argmax(0, keepdim=True))  # (1, D)
    beyond = variances <= variances[0].clamp(min=0) * len(variances) * torch.finfo(torch.float64).eps
    vectors = (centred @ (axes * largest.sign())).masked_fill(beyond, 0.0)
    if ranked:
        vectors *= weights(len(vectors)).to(vectors)[:, None]
    scale = vectors.square().sum(1).mean().sqrt()
    vectors = vectors / scale if scale > 0 else vectors
    return vectors.float(), variances.masked_fill(beyond, 0.0).float()


def weights(size: int) -> Tensor:
    """(N,) float64, of entries by their place: a / (a + p), p proportional to 1 / rank."""
    p = 1.0 / torch.arange(FIRST_RANK, size + FIRST_RANK, dtype=torch.float64)
    return SMOOTH / (SMOOTH + p / p.sum())


def write(path: Path, vocabulary: Vocabulary, states: Tensor) -> None:
    """Store the vectors of the entries, whose states (N, D) these are. Raises UserError if the disk is full."""
    vectors, variances = distilled(states, vocabulary.ranked)
    tensors = {"vectors": vectors, "variances": variances}
    tensors |= {"entries": torch.tensor(vocabulary.entries), "special": torch.tensor(vocabulary.special)}
    atomic_write(path, save(tensors))


def read(path: Path, width: int, size: int) -> tuple[Tensor, Tensor, float]:
    """Of a vocabulary of `size`: (vectors (size, width), (size,) bool, given, the share of the variance they keep).

    Special tokens are given, and zero.
    """
    found = load_file(path)
    rows, given = torch.zeros(size, width), torch.zeros(size, dtype=torch.bool)
    rows[found["entries"]] = found["vectors"][:, :width]
    given[torch.cat([found["entries"], found["special"]])] = True
    variances = found["variances"].double()
    return rows, given, float(variances[:width].sum() / variances.sum()) if variances.sum() > 0 else 0.0
